"""The report of an adversarial search: sentences, curves, pictures of noise, the page, the terminal, and comparisons."""

from __future__ import annotations

import doctest
import json
import re
import xml.etree.ElementTree as ET
from base64 import b64decode
from io import BytesIO, StringIO
from itertools import pairwise
from typing import Any

import attack_sample as sample
import numpy as np
import pytest
import report_sample
from comparisons import WRONG, F, P, case_table, outcomes, run_of
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console

from aitest_flows.render import print_report
from aitest_lib.reports import attack_view, explain_attack
from aitest_lib.reports.attack_plots import attack_figures, classes_plot, key_mark, norms_plot, success_plot
from aitest_lib.reports.attack_text import attack_lines
from aitest_lib.reports.attack_view import MAX_BUDGETS, budgets, norm_words, within
from aitest_lib.reports.compare import compare_runs
from aitest_lib.reports.compare_html import comparison_html
from aitest_lib.reports.explain import explain_property, explanation_parts
from aitest_lib.reports.explain_attack import attack_gate_reason, explain_attack_case, explain_resisted
from aitest_lib.reports.html import render_html
from aitest_lib.reports.pictures import NOISE_GAIN, case_pictures
from aitest_lib.reports.plots import LIGHT, PAGE
from aitest_lib.reports.records import AdversarialReport, ClassAttack, CurvePoint, SearchCurve
from aitest_lib.reports.report import GateResult, PropertyReport
from aitest_lib.reports.tables import to_markdown

EVIL = "<script>alert(1)</script>\"'&\x00\ud800"
SPACE = "{http://www.w3.org/2000/svg}"
LEFT, RIGHT, TOP, BOTTOM = 50.0, 448.0, 30.0, 214.0  # of the curves


def told(attack: AdversarialReport, **more: Any) -> str:
    return explain_property(sample.property_report(adversarial=attack, **more), 0.95)


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", re.sub(r"(?s)<(script|style)>.*?</\1>", "", page)).split())


def search(method: str, points: list[tuple[int, int]], attacked: int, baseline: bool = False, **more: Any) -> SearchCurve:
    made = [CurvePoint(queries=q, broken=n, rate=n / attacked, low=n / attacked, high=1.0) for q, n in points]
    fields = {"unfinished": 0, "median_queries": 5.0, "queries": 99} | more
    return SearchCurve(method=method, baseline=baseline, attacked=attacked, broken=points[-1][1], points=made, **fields)


@pytest.mark.parametrize("module", [attack_view, explain_attack])
def test_the_examples_in_the_docstrings_hold(module: Any) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


def test_an_adversarial_image_without_a_score_has_its_sentence() -> None:
    said = explain_attack_case(1, 1, "", "cat\ndog", None)
    assert said == (
        "Noise of at most 1 of 255 grey levels in any pixel, found by the 1st query, makes the model read cat dog instead of "
        "(empty)."
    )


def test_the_paragraph_tells_what_was_done_and_found() -> None:
    prop = sample.property_report()
    main, random, square = sample.attack_report().curves
    assert "For each of the 196 of 200 images that the model gets right, a search (auto, guided by the model's scores)" in (
        prop.explanation
    )
    for part in (
        "noise of at most 76 of 255 grey levels in any pixel (delta 0.298)",
        "with at most 250 queries an image.",
        f"Within 250 queries it broke {main.broken} of 196: {main.broken / 196:.3f} [",
        "(bounds one-sided at 95%); 0.592 within 10 and 0.980 within 100; the median adversarial image took 8 queries.",
        "it is an upper bound: a stronger attack may break more.",
        f"With the same queries the baselines broke {random.broken / 196:.3f} [",
        f"(random tiles) and {square.broken / 196:.3f} [",
        "Classes that break most: ",
    ):
        assert part in prop.explanation, part


@pytest.mark.parametrize("attack", [sample.attack_report(), sample.attack_report(1, 9)])
def test_nothing_is_ever_called_robust(attack: AdversarialReport) -> None:
    run = sample.run_report(sample.property_report(adversarial=attack))
    words = [told(attack), explain_resisted(250, "4", 0.6), explain_resisted(2, "4", None, exhausted=True)]
    words.append(text_of(render_html(run, {sample.PROPERTY: sample.cases(3)})))
    assert not [text for text in words if "robust" in text.lower()]


def test_a_search_that_breaks_nothing_bounds_what_it_missed() -> None:
    attack = sample.attack_report(curves=[sample.curve("auto", np.full(30, sample.NEVER), 250, False)], norms=[], classes=[])
    assert "It broke none of 30 images (the share is at most 0.083 at 95% confidence)." in told(attack)
    assert attack_figures(attack).keys() == {"success_by_queries"}


def test_a_search_without_images_says_why() -> None:
    nothing = sample.attack_report(right=0, wrong=12, curves=[], classes=[], norms=[])
    assert "The model gets none of 12 images right untouched, so there was nothing to attack." in told(nothing)
    late = search("auto", [(1, 0)], 1).model_copy(update={"attacked": 0, "points": [], "unfinished": 9})
    unfinished = sample.attack_report(curves=[late], classes=[], norms=[], stopped="the time limit of 60 s")
    text = told(unfinished)
    assert "No search came to its end." in text
    assert "9 searches are unfinished (the time limit of 60 s): what they would have broken is unknown" in text
    for attack in (nothing, unfinished):
        prop = sample.property_report(adversarial=attack)
        assert attack_figures(attack) == {}
        assert attack_lines(attack, 80) == []
        assert "The search" in text_of(render_html(sample.run_report(prop), {}))


def test_labels_and_chance_are_told() -> None:
    text = told(sample.attack_report(labels_only=True, votes=5, wrong=0, right=1))
    assert "For each of the 1 image that the model gets right, a search (auto, guided by labels alone)" in text
    assert "As the model answers by chance, a success needs the majority of 5 answers." in text


def test_a_baseline_that_breaks_more_is_named_as_the_stronger_attack() -> None:
    curves = [
        search("bayesian", [(250, 40)], 100),
        search("square", [(250, 60)], 100, baseline=True),
        search("random", [(250, 30)], 100, baseline=True),
    ]
    text = told(sample.attack_report(curves=curves))
    assert "Square would have been the stronger attack: `method: square` bounds the accuracy more tightly." in text
    assert "stronger attack:" not in told(sample.attack_report(curves=[curves[1], curves[0]]))


def test_classes_that_break_alike_are_counted() -> None:
    classes = [ClassAttack(label=str(i), attacked=10, broken=10 if i < 7 else 4) for i in range(9)]
    spots = "Classes that break most: 0 (10 of 10), 1 (10 of 10), 2 (10 of 10) and 4 more as often; least: 8 (4 of 10)."
    assert spots in told(sample.attack_report(classes=classes))
    assert "Classes that break" not in told(sample.attack_report(classes=classes[:7]))


def test_a_passed_gate_says_what_passing_means() -> None:
    gates = [
        GateResult(metric="attacked_accuracy", slice={"queries": 50}, min=0.5, verdict="passed", reason="0.9 is above 0.5"),
        GateResult(metric="attacked_accuracy", min=0.99, verdict="failed", reason="0.9 is below 0.99"),
        GateResult(metric="clean_accuracy", min=0.5, verdict="passed", reason="0.98 is above 0.5"),
    ]
    attack = sample.attack_report()
    reasons = [attack_gate_reason(attack, gate) for gate in gates]
    assert reasons == [
        "resisted this attack at 50 queries: 0.9 is above 0.5",
        "did not resist this attack at 250 queries: 0.9 is below 0.99",
        "0.98 is above 0.5",
    ]
    assert "Passed means: resisted this attack at 50 queries; a stronger attack may break more." in told(attack, gates=gates)
    assert "Passed means" not in told(attack, gates=gates[1:])


def test_the_page_cuts_the_paragraph_that_the_report_holds() -> None:
    prop = sample.property_report(adversarial=sample.attack_report(stopped="the budget of the run"))
    stored = PropertyReport.model_validate_json(json.dumps(prop.model_dump(mode="json"), sort_keys=True))
    lead, parts = explanation_parts(stored)
    assert " ".join([lead, *(sentence for part in parts.values() for sentence in part)]) == prop.explanation
    assert lead.endswith("(Square).")


@given(st.integers(1, 100_000))
def test_budgets_grow_up_to_that_of_an_image(queries: int) -> None:
    shown = budgets(sample.attack_report(1).model_copy(update={"queries": queries}))
    assert shown == sorted(set(shown))
    assert shown[-1] == queries
    assert len(shown) <= MAX_BUDGETS


@given(st.lists(st.integers(1, 400), min_size=1, max_size=30), st.integers(1, 300), st.integers(1, 300))
def test_a_curve_holds_between_its_points(found: list[int], budget: int, asked: int) -> None:
    curve = sample.curve("auto", np.array(found), budget, False)
    at = within(curve, min(asked, budget))
    assert at is not None
    assert at.broken == sum(n <= min(asked, budget) for n in found)
    assert within(curve, 0) is None


def test_the_curve_is_a_step_at_every_success() -> None:
    attack = sample.attack_report(curves=[search("auto", [(1, 0), (10, 1), (100, 3)], 4)])
    root = ET.fromstring(success_plot(attack))
    [line] = root.iter(f"{SPACE}polyline")
    path = [tuple(map(float, point.split(","))) for point in (line.get("points") or "").split()]

    def x(queries: int) -> float:
        return LEFT + (RIGHT - LEFT) * np.log10(queries) / np.log10(250)

    def y(share: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * share

    expected = [(1, 0), (10, 0), (10, 0.25), (100, 0.25), (100, 0.75), (250, 0.75)]
    np.testing.assert_allclose(path, [(x(q), y(share)) for q, share in expected], atol=0.06)
    assert f"stroke:{LIGHT.accent};stroke-width:2.6;stroke-dasharray:none" in (line.get("style") or "")
    assert len(list(root.iter(f"{SPACE}polygon"))) == 1


def test_baselines_are_thin_dashed_and_in_the_legend() -> None:
    attack = sample.attack_report()
    root = ET.fromstring(success_plot(attack))
    lines = [line.get("style") or "" for line in root.iter(f"{SPACE}polyline")]
    assert [("stroke-width:1.5" in style, "dasharray:none" in style) for style in lines] == [(True, False)] * 2 + [
        (False, True)
    ]
    texts = [item.text or "" for item in root.iter(f"{SPACE}text")]
    assert [text.split(" 0.")[0] for text in texts[-3:]] == ["auto", "random tiles (baseline)", "Square (baseline)"]
    assert "random tiles (baseline)" not in re.sub(r'aria-label="[^"]*"', "", success_plot(attack, PAGE))
    dashes = [re.findall(r"dasharray:([^\"]*)", key_mark(place, True, PAGE)) for place in (1, 2)]
    assert [f"stroke-dasharray:{dash}" in style for [dash], style in zip(dashes, lines, strict=False)] == [True, True]


@pytest.mark.parametrize("queries", [1, 2, 7, 10, 40, 250, 1000, 100_000])
def test_ticks_of_any_budget_keep_apart(queries: int) -> None:
    attack = sample.attack_report(queries=queries, curves=[search("auto", [(1, 1)], 4)])
    found = re.findall(r'<text x="([\d.]+)" y="233.0"[^>]*>([\d,]+)</text>', success_plot(attack))
    places = [float(x) for x, _ in found]
    assert found[-1][1] == f"{max(queries, 2):,}"
    assert all(right - left > 20 for left, right in pairwise(places))


def test_a_curve_of_thousands_of_successes_stays_small() -> None:
    found = np.arange(1, 20_001)
    attack = sample.attack_report(queries=20_000, curves=[sample.curve("auto", found, 20_000, False)])
    assert len(success_plot(attack)) < 60_000


def test_bars_are_as_long_as_their_classes_break() -> None:
    classes = [ClassAttack(label=f"c{i}", attacked=10, broken=max(10 - i, 0)) for i in range(25)]
    root = ET.fromstring(classes_plot(classes, LIGHT))
    bars = [float(r.get("width") or 0) for r in root.iter(f"{SPACE}rect") if LIGHT.failed in (r.get("style") or "")]
    np.testing.assert_allclose(np.array(bars) / bars[0], [max(10 - i, 0) / 10 for i in range(20)], atol=0.001)
    assert "and 5 more, which break less" in classes_plot(classes)
    assert classes_plot(classes[:1]) == ""


def test_norms_are_a_histogram_only_where_they_differ() -> None:
    same, short = sample.attack_report(), sample.attack_report(norms=[0, 7, 0, 0])
    assert norm_words(same) == "Every adversarial image uses the whole radius of 76 grey levels."
    assert norm_words(short) == "In every adversarial image the largest change is 2 of the 76 grey levels allowed."
    assert norms_plot(same) == norms_plot(short) == norms_plot(sample.attack_report(norms=[])) == ""
    varied = norms_plot(sample.attack_report(norms=[i % 5 for i in range(76)]))
    shown = [int(n) for n in re.findall(r"grey levels: (\d+)</title>", varied)]
    assert sum(shown) == sum(i % 5 for i in range(76))
    assert len(shown) <= 24


def test_figures_are_valid_xml_whatever_the_names() -> None:
    run, _ = sample.hostile(EVIL)
    attack = run.properties[0].adversarial
    assert attack is not None
    varied = attack.model_copy(update={"norms": [1, 2]})
    for palette in (LIGHT, PAGE):
        for figure in (success_plot(varied, palette), classes_plot(varied.classes, palette), norms_plot(varied, palette)):
            assert not [e for e in ET.fromstring(figure).iter() if e.tag.endswith("script")]
            assert ("var(--" in figure) is not palette.standalone


def pixels(src: str) -> NDArray[np.uint8]:
    return np.asarray(Image.open(BytesIO(b64decode(src.partition(";base64,")[2]))))


@given(st.integers(0, 2**32 - 1), st.integers(1, 76), st.sampled_from([1, 3]))
def test_noise_is_shown_exactly_ten_times(random: int, radius: int, channels: int) -> None:
    rng = np.random.default_rng(random)
    seed = rng.integers(0, 256, (6, 5, channels), dtype=np.uint8)
    case = np.clip(seed.astype(int) + rng.integers(-radius, radius + 1, seed.shape), 0, 255).astype(np.uint8)
    noise = case_pictures(seed, case, NOISE_GAIN)[2]
    wanted = 128 + 10 * (case.astype(int) - seed)
    np.testing.assert_array_equal(pixels(noise.src).reshape(seed.shape), np.clip(wanted, 0, 255))
    changed, beyond = (case != seed).sum(), ((wanted < 0) | (wanted > 255)).sum()
    assert noise.note.startswith("×10") is bool(changed)
    assert ("saturated" in noise.note) is bool(beyond)
    if beyond:
        share = re.search(r"(\d+) % of it", noise.note.replace("all of", "100 % of"))
        assert share is not None
        assert int(share[1]) == pytest.approx(100 * beyond / changed, abs=1)


def test_noise_that_is_all_saturated_says_so() -> None:
    seed = np.full((4, 4, 1), 100, np.uint8)
    noise = case_pictures(seed, seed + np.uint8(76), NOISE_GAIN)[2]
    assert noise.note == "×10, all of it saturated"
    assert "amplified 10 times, all of it saturated" in noise.alt
    assert case_pictures(seed, seed, NOISE_GAIN)[2].note == "none"


def test_the_page_tells_the_whole_story() -> None:
    text = text_of(render_html(sample.run_report(), {sample.PROPERTY: sample.cases(3)}))
    for expected in (
        "Untouched accuracy 0.980 [0.956, 0.991]",
        "Median queries of those 8",
        "Attacked 196 of 200 images",
        "Noise at most 76 of 255 levels delta 0.298",
        "Budget 250 an image with scores",
        "band: bounds of auto",
        "Every adversarial image uses the whole radius of 76 grey levels.",
        "random tiles baseline",
        "did not resist this attack at 250 queries: 0.015 [0.006, 0.037] is below 0.5",
        "Images: 8 of 200 cases",
        "3 of 193 broken, 3 of 3 resisted, 2 of 4 skipped",
        "In the noise grey is no change",
        "Seed label",
        "Adversarial read as",
        "Nearest attempt read as",
        "×10,",
        "Resisted this attack at 250 queries; the nearest attempt left 0.61 for",
        "misclassified seed",
    ):
        assert expected in text, expected


def test_the_gallery_shows_broken_images_first_and_the_quickest_of_every_class() -> None:
    cases = sample.cases(24)
    page = render_html(sample.run_report(), {sample.PROPERTY: cases[::-1]})
    cards = re.findall(r'data-outcome="(\w+)">.*?<b>Seed</b> label (\d).*?</article>', page, re.S)
    order = [outcome for outcome, _ in cards]
    assert order == ["failed"] * 24 + ["passed"] * 24 + ["skipped"] * 2
    labels = {case.seed_label for case in cases[:24]}
    assert len({label for _, label in cards[: len(labels)]}) == len(labels)
    queries = {case.case_id[:12]: case.query or 0 for case in cases[:24]}
    shown = [queries[i] for i in re.findall(r"<code>([^<]*)</code></span></div>", page) if i in queries]
    assert shown[: len(labels)] == sorted(shown[: len(labels)])
    assert re.search(r'<span class="chip">delta 0.298</span><span class="chip">\d+(st|nd|rd|th) query</span>', page)
    assert page.count('class="case shot alone"') == 2  # nothing was tried on what the model gets wrong


def test_everything_on_the_page_is_escaped() -> None:
    run, cases = sample.hostile(EVIL)
    page = render_html(run, {sample.PROPERTY: cases})
    assert page.count("<script>") == 1
    assert page.count("&lt;script&gt;alert(1)") > 20
    assert "\x00" not in page
    assert not re.search(r"https?:|@import|url\(|\bfetch\b", page)


def test_the_other_images_keep_their_words() -> None:
    text = text_of(render_html(report_sample.image_report(), {"image.robustness": report_sample.image_cases(2)}))
    assert "Some of every transform and outcome, the strongest changes first: 6 of 624 failed, 6 of 2,480 passed" in text
    assert "In a difference grey is no change" in text
    assert "Broken" not in text


@pytest.mark.parametrize("width", [20, 56, 80, 200])
def test_the_terminal_shows_a_line_a_method(width: int) -> None:
    attack = sample.attack_report(queries=20_000)
    lines = attack_lines(attack, width)
    assert max(map(len, lines)) <= max(width, 56)
    assert [line.split("  ")[0] for line in lines[2:]] == ["auto", "random tiles", "Square"]
    assert "20,000" in lines[1]
    late = [c.model_copy(update={"unfinished": 3, "median_queries": None}) for c in attack.curves]
    assert attack_lines(attack.model_copy(update={"curves": late}), 80)[-1] == (
        "unfinished searches: auto 3, random tiles 3, Square 3"
    )


def test_the_terminal_and_markdown_show_the_search() -> None:
    console = Console(file=StringIO(), width=80)
    run = sample.run_report()
    print_report(run, console, {sample.PROPERTY: sample.cases(1)})
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert re.search(r"broken within queries +10 +25 +50 +100 +250 +median +asked", text)
    assert re.search(r"auto +0\.592 +0\.842 +0\.929 +0\.980 +0\.985 +8 +3,553", text)
    assert "makes the model read" in text
    assert "Resisted" not in text
    assert "Per queries" in to_markdown(run) or "per queries" in to_markdown(run)


def test_a_seed_that_turns_from_resisted_to_broken_counts_as_newly_failing() -> None:
    method = {"transform": "auto", "expected": "4"}
    seeds = [f"s{i}" for i in range(60)]
    before = outcomes(dict.fromkeys(seeds, P) | {"s0": F}, **method, observed="4")
    after = outcomes(dict.fromkeys(seeds[:30], F) | dict.fromkeys(seeds[30:59], P) | {"s59": WRONG}, **method, observed="9")
    for row in after:
        row["explanation"] = explain_attack_case(76, 12, "4", "9", 0.83)
    found = compare_runs(*(run_of({sample.PROPERTY: case_table(rows)}) for rows in (before, after)))
    [item] = found.properties
    assert (item.cases.newly_failing, item.cases.newly_misclassified, item.cases.still_failing) == (30, 1, 1)
    assert item.verdict == "regression"
    assert [(part.transform, part.newly_failing) for part in item.components] == [("auto", 30)]
    assert "found by the 12th query" in item.newly_failing[0].explanation
    assert "Of 60 cases of 60 shared seeds, 30 newly fail (1 because their seed is answered wrongly now)" in item.summary
    assert "makes the model read 9 instead of 4" in text_of(comparison_html(found))

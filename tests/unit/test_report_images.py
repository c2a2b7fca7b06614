"""The report of images: pictures, accuracy per transform, curves, breaking points, cards, and the words for them."""

from __future__ import annotations

import doctest
import json
import re
import xml.etree.ElementTree as ET
from base64 import b64decode
from collections import Counter
from dataclasses import replace
from io import BytesIO, StringIO
from typing import Any

import numpy as np
import pytest
import report_sample as sample
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from pydantic import ValidationError
from rich.console import Console

from aitest_flows.render import print_report
from aitest_lib.reports import explain, explain_image, html_images, image_plots, image_sweeps
from aitest_lib.reports.explain import explain_image_case, explain_property, explanation_parts, headline
from aitest_lib.reports.html import MAX_BYTES, MAX_CASES, render_html
from aitest_lib.reports.html_images import in_turns
from aitest_lib.reports.image_sweeps import Sweep, sweeps
from aitest_lib.reports.pictures import LONGEST, case_pictures
from aitest_lib.reports.plots import LIGHT, PAGE
from aitest_lib.reports.report import CaseCounts, FailingCase, Picture, PropertyReport, UnreadableFile
from aitest_lib.reports.tables import to_markdown
from aitest_lib.scorers.figures import Figure
from aitest_lib.stats.estimates import undefined
from aitest_lib.types import Outcome

PROPERTY = "image.robustness"
EVIL = "<script>alert(1)</script>\"'&\x00\ud800"
SPACE = "{http://www.w3.org/2000/svg}"


def shown(picture: Picture) -> NDArray[np.uint8]:
    """The pixels of a picture, as a browser would show them."""
    kind, _, data = picture.src.partition(";base64,")
    image = Image.open(BytesIO(b64decode(data)))
    assert kind == f"data:image/{(image.format or '').lower()}"
    return np.asarray(image)


def amount(transform: str | None, strength: float) -> float:
    return strength


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", re.sub(r"(?s)<(script|style)>.*?</\1>", "", page)).split())


@pytest.mark.parametrize("module", [explain, explain_image, image_sweeps, html_images])
def test_the_examples_in_the_docstrings_hold(module: Any) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_small_pictures_are_kept_pixel_by_pixel(channels: int) -> None:
    rng = np.random.default_rng(3)
    seed, case = (rng.integers(0, 256, (28, 40, channels), dtype=np.uint8) for _ in range(2))
    pictures = case_pictures(seed, case)
    assert [picture.title for picture in pictures] == ["seed", "case", "difference"]
    assert all((picture.width, picture.height) == (40, 28) for picture in pictures)
    for picture, image in zip(pictures, (seed, case), strict=False):
        np.testing.assert_array_equal(shown(picture).reshape(image.shape), image)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_large_pictures_are_small_files(channels: int) -> None:
    rng = np.random.default_rng(3)
    smooth = np.linspace(0, 200, 480)[:, None, None] + np.zeros((480, 640, channels))
    seed = smooth.astype(np.uint8)
    case = np.clip(smooth + rng.normal(0, 20, smooth.shape), 0, 255).astype(np.uint8)
    for picture in case_pictures(seed, case):
        assert (picture.width, picture.height) == (640, 480)
        assert shown(picture).shape[:2] == (LONGEST * 3 // 4, LONGEST)
        assert len(picture.src) < 16_000


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 7, 3), (64, 1, 4), (65, 1, 1), (1, 900, 3), (2048, 3, 4)])
def test_any_shape_has_its_pictures(shape: tuple[int, int, int]) -> None:
    seed = np.zeros(shape, np.uint8)
    for picture in case_pictures(seed, seed + np.uint8(9)):
        assert max(shown(picture).shape[:2]) <= max(LONGEST, 64)
        assert f"{shape[1]}×{shape[0]} pixels" in picture.alt or picture.title == "difference"


def test_a_difference_is_grey_where_nothing_changed_and_says_how_much_it_is_amplified() -> None:
    seed = np.full((8, 8, 1), 100, np.uint8)
    case = seed.copy()
    case[0, 0], case[7, 7] = 103, 98
    difference = case_pictures(seed, case)[2]
    pixels = shown(difference)
    assert (pixels[0, 0], pixels[7, 7], pixels[3, 3]) == (128 + 16 * 3, 128 - 16 * 2, 128)
    assert difference.note == "×16"
    assert "amplified 16 times" in difference.alt
    assert "at most 3 of 255 levels" in difference.alt


def test_a_strong_difference_is_not_amplified_and_no_difference_is_said() -> None:
    seed = sample.digit()
    strong, none = case_pictures(seed, 255 - seed)[2], case_pictures(seed, seed.copy())[2]
    assert (strong.note, none.note) == ("", "none")
    assert set(shown(strong).ravel().tolist()) == {255, 0}
    assert set(shown(none).ravel().tolist()) == {128}


def test_what_is_transparent_makes_no_difference() -> None:
    seed, case = np.zeros((4, 4, 4), np.uint8), np.zeros((4, 4, 4), np.uint8)
    case[:, :, :3] = 255
    assert case_pictures(seed, case)[2].note == "none"


def test_images_of_two_shapes_have_no_difference() -> None:
    assert [p.title for p in case_pictures(sample.digit(28), sample.digit(32))] == ["seed", "case"]
    assert [p.title for p in case_pictures(None, sample.digit())] == ["case"]
    assert case_pictures(None, None) == []


@pytest.mark.parametrize("src", ["https://example.org/a.png", "data:text/html;base64,AA==", "data:image/svg+xml;base64,AA=="])
def test_a_picture_from_elsewhere_is_refused(src: str) -> None:
    with pytest.raises(ValidationError, match="src"):
        Picture(title="seed", src=src, alt="", width=1, height=1)


def named(found: list[Sweep]) -> dict[str, Sweep]:
    return {sweep.name: sweep for sweep in found}


def test_transforms_stand_worst_first_and_their_strengths_weak_to_strong() -> None:
    found = sweeps(sample.image_robustness())
    assert [s.name for s in found] == ["inverse", "rotate", "rotate + brightness", "gaussian_noise", "saturation"]
    rotate = named(found)["rotate"]
    assert [s.label for s in rotate.strengths] == ["15°", "30°", "45°"]
    assert rotate.worst_drop == pytest.approx(0.57)
    assert rotate.lowest_pass_rate is not None
    assert rotate.lowest_pass_rate.value == pytest.approx(0.425)
    assert [rotate.verdict, named(found)["gaussian_noise"].verdict] == ["failed", "passed"]
    assert [s.label for s in named(found)["gaussian_noise"].strengths] == ["severity 1", "severity 3", "severity 5"]
    assert [s.label for s in named(found)["inverse"].strengths] == [""]
    assert [s.label for s in named(found)["rotate + brightness"].strengths] == ["degrees 15 + severity 3"]
    assert named(found)["saturation"].untested == "a grey image has no saturation"


@pytest.mark.parametrize(("parameter", "values"), [("factor", [1.1, 0.8, 1.5, 0.3]), ("quality", [80, 40, 7])])
def test_strengths_that_do_not_grow_from_zero_stand_weak_to_strong(parameter: str, values: list[float]) -> None:
    metrics = [sample.rate("accuracy", {"transform": "t", parameter: value}, 0.5, 0.1, 9) for value in sorted(values)]
    [found] = sweeps(PropertyReport(property=PROPERTY, status="passed", metrics=metrics))
    assert [float(s.tick.strip("×")) for s in found.strengths] == values


def test_the_strength_of_a_case_is_that_of_its_slice() -> None:
    label = image_sweeps.case_strengths(sample.image_robustness())
    assert label("gaussian_noise", 3.0) == "severity 3"
    assert label("rotate", 15.0) == "15°"
    assert label("rotate", 11.2345) == "11.2°"  # a breaking point
    assert label("my_plugin", 2.0) == "strength 2"


def test_a_curve_lies_where_its_figures_are() -> None:
    found = named(sweeps(sample.image_robustness()))
    low = image_plots.lowest(list(found.values()))
    assert low == 0.2
    root = ET.fromstring(image_plots.curve_panel(found["rotate"], low))
    lines = {line.get("style"): line for line in root.iter(f"{SPACE}polyline")}
    [accuracy] = [line for style, line in lines.items() if LIGHT.accent in (style or "")]
    heights = [float(point.split(",")[1]) for point in (accuracy.get("points") or "").split()]
    expected = [146 - (value - 0.2) / 0.8 * (146 - 30) for value in (0.96, 0.83, 0.41)]
    assert heights == pytest.approx(expected, abs=0.06)
    dashed = [line for line in root.iter(f"{SPACE}line") if "4 3" in (line.get("style") or "")]
    assert float(dashed[0].get("y1") or 0) == pytest.approx(146 - 0.78 / 0.8 * 116, abs=0.06)
    assert len(list(root.iter(f"{SPACE}polygon"))) == 2
    single = ET.fromstring(image_plots.curve_panel(found["inverse"], low))
    assert not list(single.iter(f"{SPACE}polyline"))
    assert len(list(single.iter(f"{SPACE}circle"))) == 2
    assert image_plots.curve_panel(found["saturation"], low) == ""


def test_a_histogram_has_a_bar_a_level_and_one_for_never() -> None:
    [points] = sample.image_robustness().breaking_points
    root = ET.fromstring(image_plots.breaking_panel(points))
    bars = [r for r in root.iter(f"{SPACE}rect") if "fill-opacity:0.8" in (r.get("style") or "")]
    heights = [float(bar.get("height") or 0) for bar in bars]
    assert np.allclose(np.array(heights) / max(heights), np.array([4, 60, 130, 126, 80]) / 130, atol=0.01)
    assert LIGHT.passed in (bars[-1].get("style") or "")


def test_figures_are_valid_xml_whatever_the_names() -> None:
    prop = sample.image_robustness()
    metrics = [m.model_copy(update={"slice": {**m.slice, "transform": EVIL}}) for m in prop.metrics if m.slice]
    points = prop.breaking_points[0].model_copy(update={"transform": EVIL, "parameter": EVIL, "levels": [], "counts": []})
    for palette in (LIGHT, PAGE):
        panels = [
            image_plots.curve_panel(sweep, 0.0, palette) for sweep in sweeps(prop.model_copy(update={"metrics": metrics}))
        ]
        for figure in [*filter(None, panels), image_plots.breaking_panel(points, palette)]:
            assert not [e for e in ET.fromstring(figure).iter() if e.tag.endswith("script")]
            assert ("var(--" in figure) is not palette.standalone


def test_the_page_tells_the_whole_story() -> None:
    page = render_html(sample.image_report(), {PROPERTY: sample.image_cases()})
    text = text_of(page)
    for expected in (
        "Five transforms at up to 3 strengths were applied to 400 images",
        "997 images",
        "16 bit to 8 bit: 2",
        "3 of 1,000 files could not be read",
        "4/1.png this is text",
        "45° 0.410 −0.570 [0.400, 0.420]",
        "Not tested: a grey image has no saturation",
        "8 gates: 4 failed, 4 passed",
        "Median 27.5°; 20 % never broke; 10 % of those that broke pass again above; 9.4 queries an image.",
        "rotate + brightness rotate 31 of 38",
        "Classes, worst first",
        "label = 8",
        "Images: 96 of 3,600 cases",
        "24 of 624 failed, 24 of 2,480 passed, 24 of 466 skipped, 24 of 30 errors",
        "rotated by 15°, read as 7 instead of 1 (0.83)",
        "covered with Gaussian noise (σ 0.08), read as 7 instead of 1 (0.83)",
        "rotated by 15°, still read as 1 (0.83)",
        "misclassified seed",
        "Seed label 1",
        "Case read as 7 (0.83)",
        "severity 3",
    ):
        assert expected in text, expected


def test_every_picture_is_in_the_page_with_a_text_and_nothing_is_asked_for() -> None:
    page = render_html(sample.image_report(), {PROPERTY: sample.image_cases()})
    images = re.findall(r"<img ([^>]*)>", page)
    assert len(images) == 24 * 3 * 2 + 48
    assert all(re.search(r'src="data:image/png;base64,[^"]+" alt="[^"]{8,}" width="28" height="28"', image) for image in images)
    assert not re.search(r"https?:|@import|url\(|\bfetch\b|XMLHttpRequest", page)


def test_everything_is_escaped() -> None:
    case = sample.image_cases(1)[1].model_copy(
        update=dict.fromkeys(("case_id", "transform", "expected", "observed", "explanation", "seed_label"), EVIL)
        | {"case": {EVIL: EVIL}, "strength": 2.0}
    )
    others = [case.model_copy(update={"outcome": outcome, "reason": EVIL}) for outcome in ("skipped", "error")]
    prop = sample.image_robustness()
    metrics = [m.model_copy(update={"slice": {"transform": EVIL, "with": EVIL}, "reason": EVIL}) for m in prop.metrics]
    prop = prop.model_copy(update={"metrics": metrics, "attributions": [], "breaking_points": []})
    files = [UnreadableFile(place=EVIL, reason=EVIL)]
    page = render_html(sample.image_report(properties=[prop], unreadable=files), {PROPERTY: [case, *others]})
    assert page.count("<script>") == 1
    assert page.count("&lt;script&gt;alert(1)") > 20
    assert "\x00" not in page


def test_the_page_stays_below_five_megabytes_and_fair() -> None:
    rng = np.random.default_rng(1)
    noise = rng.integers(0, 256, (400, 400, 3), dtype=np.uint8)
    heavy = case_pictures(noise, 255 - noise)
    assert sum(len(picture.src) for picture in heavy) > 30_000
    cases = [
        case.model_copy(update={"transform": f"transform {i}", "pictures": heavy})
        for i in range(11)
        for case in sample.image_cases(30)[:120]
    ]
    page = render_html(sample.image_report(), {PROPERTY: cases})
    assert len(page.encode()) <= MAX_BYTES
    cards = Counter(re.findall(r'<article class="case shot[^"]*" data-transform="([^"]*)" data-outcome="([^"]*)"', page))
    assert 44 <= sum(cards.values()) <= MAX_CASES
    assert len(cards) == 44
    assert max(cards.values()) - min(cards.values()) <= 1


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["failed", "passed", "skipped"])), max_size=40),
    st.integers(0, 9),
)
def test_every_transform_and_outcome_has_its_turn(kinds: list[tuple[str, Outcome]], limit: int) -> None:
    template = FailingCase(
        case_id="c",
        seed_id="s",
        transform=None,
        strength=None,
        expected=None,
        observed=None,
        score=None,
        explanation="",
        seed={},
        case={},
        changed=[],
    )
    cases = [template.model_copy(update={"transform": name, "outcome": outcome}) for name, outcome in kinds]
    places = in_turns(cases, len(cases), amount)
    assert sorted(places) == list(range(len(cases)))
    assert in_turns(cases, limit, amount) == places[:limit]
    taken, whole = Counter(kinds[place] for place in places[:limit]), Counter(kinds)
    assert all(taken[kind] >= min(n, max(taken.values()) - 1) for kind, n in whole.items() if taken)
    if len(places) and limit and any(outcome == "failed" for _, outcome in kinds):
        assert kinds[places[0]][1] == "failed"


def test_the_strongest_comes_first_and_seeds_are_spread() -> None:
    [template] = [case for case in sample.image_cases(1) if case.outcome == "failed" and case.transform == "rotate"]
    cases = [
        template.model_copy(update={"transform": name, "strength": strength, "seed_id": str(seed)})
        for name in "abcd"
        for strength in (1.0, 3.0, 5.0)
        for seed in range(6)
    ]
    shown = [cases[place] for place in in_turns(cases, 12, amount)]
    assert [case.transform for case in shown] == list("abcd") * 3
    assert {case.strength for case in shown[:4]} == {5.0}
    assert len({case.seed_id for case in shown[:6]}) == 6
    assert set(Counter(case.seed_id for case in shown).values()) == {2}
    weaker = [cases[place] for place in in_turns(cases, 4, lambda _, strength: -strength)]
    assert {case.strength for case in weaker} == {1.0}


def test_what_orders_the_strengths_of_cases_is_that_of_their_transform() -> None:
    metrics = [sample.rate("accuracy", {"transform": "jpeg", "quality": q}, 0.5, 0.1, 9) for q in (80, 7)]
    metrics += [sample.rate("accuracy", {"transform": "scale", "factor": f}, 0.5, 0.1, 9) for f in (0.5, 1.2)]
    of = image_sweeps.case_amounts(PropertyReport(property=PROPERTY, status="passed", metrics=metrics))
    assert of("jpeg", 7.0) > of("jpeg", 80.0)
    assert of("scale", 0.5) > of("scale", 1.2)
    assert of("my_plugin", 3.0) > of("my_plugin", 2.0)


def test_a_generalization_case_is_one_picture_with_label_and_answer() -> None:
    case = sample.image_cases(1)[1]
    single = case.model_copy(update={"transform": None, "strength": None, "pictures": case.pictures[:1]})
    prop = PropertyReport(property="image.generalization", status="unjudged", cases=CaseCounts(total=9, passed=8, failed=1))
    page = render_html(sample.image_report(properties=[prop]), {"image.generalization": [single]})
    assert "Image label 1, read as 7 (0.83)" in text_of(page)
    assert "Accuracy per transform" not in page


@pytest.mark.parametrize(
    ("transform", "params", "words"),
    [
        ("inverse", {}, "inverted"),
        ("scale", {"factor": 1.2}, "enlarged to ×1.2"),
        ("scale", {"factor": 0.8}, "shrunk to ×0.8"),
        ("shear", {"shear": 0.2}, "sheared by 0.2"),
        ("translate", {"fraction": 0.1}, "shifted by 10 % of its side"),
        ("saturation", {"factor": 0.3, "offset": 0.0}, "desaturated to ×0.3"),
        ("brightness", {"delta": 0.3}, "brightened by 0.3"),
        ("contrast", {"factor": 0.4}, "lowered in contrast to ×0.4"),
        ("glass_blur", {"sigma": 0.7, "max_shift": 1, "noise_seed": 5}, "blurred as through glass (σ 0.7, max shift 1)"),
        ("rotate", {"angle": 3}, "changed by rotate (angle 3)"),
        ("my_plugin", {"mask": [1, 2], "size": 3}, "changed by my_plugin (size 3)"),
        ("my_plugin", {}, "changed by my_plugin"),
    ],
)
def test_every_transform_has_its_words(transform: str, params: dict[str, Any], words: str) -> None:
    assert explain_image_case(transform, params, None, "4", "9", 0.834, None) == f"{words}, read as 9 instead of 4 (0.83)"


def test_the_smallest_failing_strength_has_its_unit() -> None:
    said = explain_image_case("gaussian_blur", {"sigma": 1.5}, "px", "4", "9", None, 1.2345)
    assert said == "blurred (σ 1.5), read as 9 instead of 4; smallest failing σ found 1.23 px"


def test_the_paragraph_is_made_from_its_data() -> None:
    text = explain_property(sample.image_robustness(), 0.95, unreadable=1)
    for part in (
        "What broke most was inverse, pass rate 0.235",
        "The smallest failing strength found is in the median 27.5° for rotate, of the 80% of the images that break.",
        "What breaks a chain: in rotate + brightness it is rotate (31 of 38 failing cases pass without it).",
        "1 file could not be read and is in no figure.",
    ):
        assert part in text, part


def test_a_few_transforms_are_named() -> None:
    prop = sample.image_robustness()
    metrics = [m for m in prop.metrics if m.slice.get("transform") in (None, "rotate", "inverse")]
    text = explain_property(prop.model_copy(update={"metrics": metrics}), 0.95)
    assert text.startswith("Two transforms at up to 3 strengths were applied to 400 images (rotate and inverse), and each")


def test_the_page_cuts_the_paragraph_that_the_report_holds() -> None:
    prop = sample.image_robustness()
    stored = PropertyReport.model_validate_json(json.dumps(prop.model_dump(mode="json"), sort_keys=True))
    for found in (prop, stored):
        lead, parts = explanation_parts(found, unreadable=3)
        assert list(parts) == ["Weak spots", "Gates", "Left out"]
        assert " ".join([lead, *(sentence for part in parts.values() for sentence in part)]) == prop.explanation
        assert lead.startswith("Five transforms at")
        assert lead.endswith("Robust accuracy drop 0.210 [0.201, 0.219].")
    older = prop.model_copy(update={"explanation": prop.explanation.replace("What broke most", "What broke")})
    lead, parts = explanation_parts(older, unreadable=3)
    assert (list(parts), "What broke was inverse" in lead) == (["Gates", "Left out"], True)


def test_gates_that_do_not_apply_are_told_from_those_that_count() -> None:
    prop = sample.image_robustness()
    spared = [
        prop.gates[0].model_copy(update={"slice": {"transform": "saturation", "severity": n}, "verdict": "skipped"})
        for n in (1, 3)
    ]
    prop = prop.model_copy(update={"gates": [*prop.gates, *spared]})
    assert "4 of 8 gates passed; 2 were not applicable. Failed: " in explain_property(prop, 0.95)
    run = sample.image_report(properties=[prop, prop])
    assert headline(run) == "8 of 16 gates failed, in image.robustness and image.robustness (2)."
    assert "Failed 4 of 8; 2 skipped" in text_of(render_html(run, {}))
    only = prop.model_copy(update={"gates": spared})
    assert "No gate was applicable." in explain_property(only, 0.95)
    passed = [gate for gate in prop.gates if gate.verdict != "failed"]
    run = sample.image_report(status="passed", properties=[prop.model_copy(update={"gates": passed})])
    assert headline(run) == "All 4 gates passed; 2 were not applicable."


def test_an_inapplicable_figure_says_why() -> None:
    figure = Figure(name="accuracy", estimate=undefined("there are no cases to count"), inapplicable="the images are grey")
    assert figure.metric(0.95).reason == "the images are grey"
    assert replace(figure, inapplicable=None).metric(0.95).reason == "there are no cases to count"


def test_slices_by_cases_do_not_count_failing_seeds() -> None:
    prop = sample.image_robustness()
    slices = [item.model_copy(update={"share_of": "cases"}) for item in prop.slices]
    by_cases, by_seeds = (
        text_of(render_html(sample.image_report(properties=[prop.model_copy(update={"slices": found})]), {}))
        for found in (slices, prop.slices)
    )
    assert "label = 8 Flagged 29 of 40 0.725" in by_seeds
    assert "label = 8 Flagged 40 0.725" in by_cases
    assert "writer = employee 200 0.250 0.300 −0.050 [−0.100, 0.010]" in by_cases
    run = sample.image_report(properties=[prop.model_copy(update={"slices": slices})])
    assert "| label = 8 | 40 seeds | 0.725 |" in to_markdown(run)
    mixed = [slices[0], prop.slices[0].model_copy(update={"name": "writer"}), *prop.slices[1:]]
    text = text_of(render_html(sample.image_report(properties=[prop.model_copy(update={"slices": [*mixed, *slices]})]), {}))
    assert "writer = employee 200 seeds 0.250" in text
    assert "writer = 8 Flagged 29 of 40 0.725" in text


def test_an_image_of_an_array_has_its_number() -> None:
    [case] = [case for case in sample.image_cases(1) if case.outcome == "failed"][:1]
    case = case.model_copy(update={"case": {"file": "x[897]"}})
    assert "image 897 case" in text_of(render_html(sample.image_report(), {PROPERTY: [case]}))


def test_the_terminal_names_the_first_files_that_could_not_be_read() -> None:
    console = Console(file=StringIO(), width=100)
    print_report(sample.image_report(), console, {PROPERTY: sample.image_cases(1)})
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "3 of 1,000 files could not be read:" in text
    assert "4/2.png: an animation of 5 frames" in text
    assert "rotated by 15°, read as 7 instead of 1 (0.83)" in text
    assert "still read" not in text


def test_only_what_failed_counts_as_a_failing_case_in_text() -> None:
    text = to_markdown(sample.image_report(), {PROPERTY: sample.image_cases(2)})
    assert "### Failing cases: 6 of 624" in text
    assert "still read" not in text
    assert "- Could not be read: 4/1.png: this is text" in text
    assert "base64" not in text

"""The report of tabular fairness: sentences, what they choose, and figures."""

from __future__ import annotations

import doctest
import re
import xml.etree.ElementTree as ET
from html import unescape
from typing import Any

import fairness_sample as sample
import pytest
from fairness_cases import hostile
from fairness_records import attribute as counted

from aitest_lib.reports import explain_fairness, explain_gates, explain_groups, fairness_plots, fairness_view
from aitest_lib.reports.explain import explanation_parts
from aitest_lib.reports.explain_fairness import explain_direction_case, explain_pair_case
from aitest_lib.reports.fairness_curves import direction_plot, yield_plot
from aitest_lib.reports.fairness_plots import fairness_figures, groups_plot, pairs_plot, ratio_colour, segments_plot
from aitest_lib.reports.fairness_view import shown_groups, threshold, worst_apart, worst_group
from aitest_lib.reports.html import render_html
from aitest_lib.reports.plots import LIGHT, PAGE
from aitest_lib.reports.records_fairness import (
    Attribute,
    DirectionReport,
    FairGroup,
    GroupReport,
    PairSearchReport,
    YieldPoint,
)
from aitest_lib.reports.report import GateResult, PropertyReport
from aitest_tasks.figures import figures

EVIL = "<script>alert(1)</script>\"'&{{7*7}}\x00\x1b[31m\ud800"
SPACE = "{http://www.w3.org/2000/svg}"
LONG = [f"Country number {place} of the very long names of this world" for place in range(50)]


def text_of(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", re.sub(r"(?s)<(script|style)>.*?</\1>", "", page))).split())


def tag_texts(figure: str, tag: str) -> list[str]:
    return [item.text or "" for item in ET.fromstring(figure).iter(f"{SPACE}{tag}")]


def shown(prop: PropertyReport) -> str:
    return text_of(render_html(sample.run_report(prop), {}))


def group(name: str, ratio: float | None, low: float | None = None, high: float | None = None) -> FairGroup:
    return FairGroup(name=name, rows=9, share=0.1, figures=[], impact_ratio=ratio, ratio_low=low, ratio_high=high)


def attribute(name: str, groups: list[FairGroup], **more: Any) -> Attribute:
    return Attribute(**({"name": name, "columns": [name], "favorable": "yes", "reference": None, "groups": groups} | more))


@pytest.mark.parametrize("module", [explain_fairness, explain_gates, explain_groups, fairness_view, fairness_plots])
def test_the_examples_in_the_docstrings_hold(module: Any) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


# Sentences


@pytest.mark.parametrize(
    ("prop", "expected"),
    [
        (
            sample.groups(),
            [
                "The answers to 15,282 rows were compared between groups by sex, race and sex × race",
                "Selected is a row with the answer >50K.",
                "By sex the selection rate is Male 0.257 [0.250, 0.264] and Female 0.075 [0.070, 0.082]",
                "the lowest impact ratio is 0.294 [0.270, 0.321], of Female (4,902 rows) beside Male, named in the suite",
                "the lowest impact ratio is 0.000 [0.000, 2.033], of Female × Other (7 rows)",
                "the lowest that its bounds tell from 1 is 0.125 [0.091, 0.176], of Female × Black (724 rows)",
                "in true positive rate (Female 0.533, -0.130 [-0.168, -0.093] from Male)",
                "the groups are not judged as a whole: Female × Other has 7 rows",
                "By score the lowest impact ratio by sex is 0.601",
                "Female against Male in education = Masters (0.335 of 212 rows against 0.744 of 540",
                "What the model is sent tells sex best by relationship (Cramér's V 0.649)",
                "0 of 2 gates passed. Failed: impact_ratio at least 0.8 on attribute = sex",
                "Left out by request: Unknown (3 rows) of race. Not compared: sex × age: 94 of its 118 groups",
            ],
        ),
        (
            sample.numbers(),
            [
                "Selected is a row with a number above 2,080, the median of all rows. Age was cut into 2 groups",
                "the widest gap is in mean absolute error (Female 262.5, 52.50 [21.00, 84.00] from Male)",
            ],
        ),
        (
            sample.classes(),
            [
                "Each of approved, referred and refused is taken as the favourable answer against the rest: nobody named one.",
                "By sex, refused against the rest the selection rate is Female",
            ],
        ),
        (sample.undefined(), ["By race nothing can be compared: there is one group.", "nobody was selected in any group."]),
        (
            sample.pairs(),
            [
                "Real rows were asked again with other values of sex and race and everything else as it is (10 of 10",
                "183 of 2,000 rows were decided otherwise: prevalence 0.091 [0.081, 0.103] (bounds one-sided at 95%).",
                "it is 0.046 [0.037, 0.057]: 57 of 1,240 rows.",
                "What turned most was race = Black with sex = Female (0.062 [0.054, 0.072] of 1,902 rows)",
                "found 1,104 further pairs with 20,000 queries (55.2 per 1,000, in 37 of 64 regions of the data, 99.4% of them",
                "how common they are is not: that is the prevalence on real rows.",
            ],
        ),
        (
            sample.blind(),
            ["The property is skipped: sex and race are no inputs of the model.", "tells sex best by relationship"],
        ),
        (
            sample.directions(),
            [
                "hours-per-week: more of it should never lower the score of >50K, and it does in 212 of 500 rows "
                "(0.424 [0.388, 0.461]), at most by 0.190; most often from 40 to 45 (166 of 500 rows, by 0.061 on average).",
                "capital-loss: more of it should never help, and it does in 31 of 400 rows (0.077 [0.058, 0.102]); most often",
                "education-num: more of it should never lower the score of >50K, and it does in none of 500 rows",
                "age: more of it should never hurt; no row was answered.",
            ],
        ),
    ],
)
def test_the_paragraph_is_made_from_the_records(prop: PropertyReport, expected: list[str]) -> None:
    for sentence in expected:
        assert sentence in prop.explanation, sentence
    lead, parts = explanation_parts(prop)
    assert " ".join([lead, *(sentence for part in parts.values() for sentence in part)]) == prop.explanation


def test_of_no_rows_nothing_is_told() -> None:
    empty = sample.groups(groups=GroupReport(selection="decision", rows=0), gates=[], metrics=[])
    assert "No row was answered, so no groups were compared." in empty.explanation
    pairs = sample.pairs().pairs
    assert pairs is not None
    none = pairs.model_copy(update={"rows": 0, "turned": 0, "prevalence": None, "low": None, "high": None, "flips": []})
    assert "none was answered, so nothing was compared." in sample.pairs(pairs=none).explanation


def test_a_search_that_found_nothing_is_no_proof() -> None:
    pairs = sample.pairs().pairs
    assert pairs is not None
    idle = PairSearchReport(queries=100, found=0, guided=False, stopped="the budget ended")
    told = sample.pairs(pairs=pairs.model_copy(update={"search": idle})).explanation
    assert "A search guided by labels alone found 0 further pairs with 100 queries (0.0 per 1,000). It stopped early" in told
    assert "That none was found does not show that there is none." in told


def test_a_pair_is_one_sentence() -> None:
    changed = {f"c{place}": ("a", "") for place in range(5)}
    assert explain_pair_case(changed, "yes", "no", None).startswith(
        "c0 a -> missing, c1 a -> missing, c2 a -> missing and 2 more"
    )
    said = explain_pair_case({"sex": ("Male", "Female")}, ">50K", "<=50K", 0.444, "with relationship Wife it is >50K")
    assert said == "sex Male -> Female turned the decision from >50K to <=50K (score 0.44); with relationship Wife it is >50K"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            ("age", "60", "30", "decreasing", "score", 0.2, 0.1),
            "age 60 -> 30 lowered the score from 0.20 to 0.10, and less of it",
        ),
        (
            ("age", "3", "4", "decreasing", "number", 1200.5, 1300.0),
            "raised the number from 1,200 to 1,300, and more of it should",
        ),
        (("age", "3", "4", "increasing", "score", 0.5, 0.499), "lowered the score from 0.5 to 0.499"),
        (
            ("grade", "B", "A", "never_helps", "score", 0.1, 0.2),
            "raised the score from 0.10 to 0.20, and more of it should never help",
        ),
        (("age", "3", "4", "increasing", "decision", "yes", "no", "yes"), "and more of it should never turn it away from yes"),
        (
            ("age", "4", "3", "increasing", "decision", "no", "yes"),
            "and less of it should never turn it to the favourable answer",
        ),
    ],
)
def test_a_move_is_one_sentence(given: tuple[Any, ...], expected: str) -> None:
    assert expected in explain_direction_case(*given)


# What is chosen


def test_the_worst_group_is_told_from_the_worst_that_is_known() -> None:
    item = attribute("race", [group("tiny", 0.1, 0.0, 3.0), group("large", 0.7, 0.6, 0.8), group("none", None)])
    worst, apart = worst_group(item), worst_apart(item)
    assert worst is not None
    assert apart is not None
    assert (worst.name, apart.name) == ("tiny", "large")
    assert worst_apart(attribute("race", [group("tiny", 0.1, 0.0, 3.0)])) is None


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({}, 0.8),
        ({"attribute": "sex"}, 0.8),
        ({"sex": "Female"}, 0.8),
        ({"sex": "Female", "class": "yes"}, 0.8),
        ({"attribute": "sex", "class": "no"}, None),
        ({"attribute": "race"}, None),
        ({"sex": "Female", "race": "Black"}, None),
    ],
)
def test_a_threshold_is_that_of_the_gates_on_the_attribute(where: dict[str, Any], expected: float | None) -> None:
    gate = GateResult(metric="impact_ratio", slice=where, min=0.8, verdict="failed", reason="")
    prop = PropertyReport(property=sample.GROUPS, status="failed", gates=[gate])
    assert threshold(prop, attribute("sex", [])) == expected
    assert threshold(prop, attribute("sex", []), scores=True) is None


def test_of_many_groups_the_reference_and_the_worst_are_shown() -> None:
    item = attribute("country", [group(str(place), 1.0) for place in range(10)])
    assert [one.name for one in shown_groups(item, 4)] == ["0", "7", "8", "9"]
    assert shown_groups(item, 10) == item.groups


@pytest.mark.parametrize(
    ("low", "high", "edge", "expected"),
    [
        (0.3, 0.7, 0.8, LIGHT.failed),
        (0.7, 0.9, 0.8, LIGHT.inconclusive),
        (0.8, 0.9, 0.8, LIGHT.passed),
        (0.3, 0.7, None, LIGHT.accent),
    ],
)
def test_a_ratio_has_the_colour_of_its_verdict(low: float, high: float, edge: float | None, expected: str) -> None:
    assert ratio_colour(group("a", (low + high) / 2, low, high), edge, LIGHT) == expected


# Figures


def test_bars_are_as_long_as_their_rates() -> None:
    item = counted("sex", {"Male": (100, 0, 0, 40), "Female": (100, 0, 0, 10)}, labelled=False)
    colours = (LIGHT.muted, LIGHT.accent)
    bars = list(ET.fromstring(groups_plot(item, "sex", 0.8)).iter(f"{SPACE}rect"))
    long, short = (float(r.get("width") or 0) for r in bars if any(c in (r.get("style") or "") for c in colours))
    assert long / short == pytest.approx(4, rel=0.01)
    assert "impact ratio, at least 0.8" in tag_texts(groups_plot(item, "sex", 0.8), "text")


def test_a_curve_stands_where_its_means_are_and_marks_the_dip() -> None:
    hours = sample.directions().directions[0]
    root = ET.fromstring(direction_plot(hours))
    path = next(item for item in root.iter(f"{SPACE}polyline") if len((item.get("points") or "").split()) == len(hours.steps))
    points = [tuple(map(float, point.split(","))) for point in (path.get("points") or "").split()]
    assert [x for x, _ in points] == pytest.approx([66 + 376 * place / 9 for place in range(10)], abs=0.1)
    assert points[4][1] < points[5][1]  # 0.262 above 0.23, and down is up
    bands = [item for item in root.iter(f"{SPACE}rect") if LIGHT.failed in (item.get("style") or "")]
    assert sorted(float(band.get("x") or 0) for band in bands) == pytest.approx([points[3][0], points[4][0]], abs=0.1)
    assert "40 to 45: 166 of 500 rows against the expectation" in tag_texts(direction_plot(hours), "title")


def test_values_that_are_no_numbers_stand_side_by_side() -> None:
    said = tag_texts(direction_plot(sample.directions().directions[2]), "text")
    assert [name for name in said if name in ("0", "500", "2000", "missing")] == ["0", "500", "2000", "missing"]
    assert "share of >50K" in said


def test_a_figure_with_nothing_to_show_is_empty() -> None:
    lone = DirectionReport(column="a", expected="increasing", on="score", rows=0, violating=0, rate=None)
    assert direction_plot(lone) == segments_plot([]) == ""
    assert groups_plot(attribute("race", []), "race", None) == ""
    assert yield_plot(PairSearchReport(queries=1, found=0, guided=True, curve=[YieldPoint(queries=1, found=0)])) == ""
    pairs = sample.pairs().pairs
    assert pairs is not None
    assert pairs_plot(pairs.model_copy(update={"flips": []})) == ""
    assert fairness_figures(PropertyReport(property="tabular.robustness", status="passed")) == {}


def test_every_property_has_its_figures_beside_the_report() -> None:
    found = figures(sample.groups())
    assert list(found) == ["groups_sex", "groups_race", "groups_sex_race", "groups_sex_by_score", "segments", "gates"]
    assert list(figures(sample.pairs())) == ["pairs_flips", "search_yield", "gates"]
    names = ["direction_hours-per-week", "direction_education-num", "direction_capital-loss", "gates"]
    assert list(figures(sample.directions())) == names
    assert len(fairness_figures(sample.classes())) == 3
    for figure in found.values():
        assert ET.fromstring(figure).tag == f"{SPACE}svg"


@pytest.mark.parametrize("name", [EVIL, "\N{RIGHT-TO-LEFT OVERRIDE}\N{HEBREW LETTER ALEF}" * 30, " "])
def test_figures_are_valid_xml_whatever_the_names(name: str) -> None:
    run, _ = hostile(name)
    made = [figure for prop in run.properties for figure in fairness_figures(prop).values()]
    assert len(made) == 6  # of two columns of one name, too
    paged = [direction_plot(item, PAGE) for item in run.properties[2].directions]
    for figure in made + paged:
        assert not [item for item in ET.fromstring(figure).iter() if item.tag.endswith("script")]

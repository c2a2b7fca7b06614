"""Bounds of groups: finite or open, exact at the reference, and those of the attribute beside those of a group."""

from __future__ import annotations

import math
import re

import fairness_sample as sample
import numpy as np
import pytest

from aitest_lib.config.gates import Gate
from aitest_lib.data.groups import Groups
from aitest_lib.reports.explain_groups import groups_weak_spots
from aitest_lib.reports.fairness_text import fairness_lines
from aitest_lib.reports.html import render_html
from aitest_lib.reports.records_fairness import Attribute, GroupReport
from aitest_lib.reports.report import GateResult, PropertyReport
from aitest_lib.scorers.figures import Figure, judge_gates
from aitest_lib.scorers.group_fairness import attribute_figures
from aitest_lib.scorers.group_means import mean_figures
from aitest_lib.stats.intervals import finite_bounds, rate_ratio, wilson
from aitest_lib.stats.worst import at_once


def audit(selected: dict[str, tuple[int, int]], **options) -> tuple[Attribute, list[Figure]]:
    """An attribute `g` of groups of (selected, rows)."""
    codes = np.repeat(np.arange(len(selected)), [n for _, n in selected.values()])
    groups = Groups(codes=codes, names=list(selected), parts=[(name,) for name in selected])
    favoured = np.concatenate([np.arange(n) < hits for hits, n in selected.values()])
    return attribute_figures("g", ["g"], groups, favoured, confidence=options.pop("confidence", 0.95), **options)


def of_group(figures: list[Figure], name: str, group: str) -> Figure:
    [found] = [one for one in figures if one.name == name and one.slice == {"g": group}]
    return found


def judged(figures: list[Figure], metric: str, **gate) -> GateResult:
    [found] = judge_gates({metric: Gate(**gate)}, figures, confidence=0.95, decide="interval", incomplete=None)
    return found


def property_of(attribute: Attribute) -> PropertyReport:
    groups = GroupReport(selection="decision", rows=sum(one.rows for one in attribute.groups), attributes=[attribute])
    return PropertyReport(property="tabular.group_fairness", status="unjudged", groups=groups)


# Many groups, some of one row


@pytest.mark.parametrize("sequential", [False, True])
def test_bounds_of_many_tiny_groups_are_finite_or_open(sequential):
    many = {f"one {n}": (n % 2, 1) for n in range(4)} | {f"g{n:02}": (10 + n, 40) for n in range(20)}
    attribute, figures = audit(many, confidence=0.99, sequential=sequential)
    pairs = attribute.pairs
    assert any(pair.ratio is not None and pair.high is None for pair in pairs)
    assert all(pair.high is None or pair.high <= 1000 for pair in pairs)
    assert all(pair.low is None or pair.low == 0 or pair.low >= 1e-6 for pair in pairs)
    metrics = [one.metric(0.99) for one in figures]
    assert all(edge is None or math.isfinite(edge) for one in metrics for edge in (one.low, one.high))


def test_a_ratio_beyond_a_thousand_is_open_and_below_a_millionth_nothing():
    apart = at_once(rate_ratio(wilson(1, 1), wilson(20, 40)), 300)
    assert finite_bounds(apart, 0.95) == (0.0, None)
    # Of enough rows both sides are known, and the same as ever.
    low, high = finite_bounds(rate_ratio(wilson(90, 300), wilson(120, 300)), 0.95)
    assert (low, high) == (pytest.approx(0.622, abs=0.002), pytest.approx(0.904, abs=0.002))


def test_an_open_side_is_a_dash_in_the_verdict_and_in_the_table():
    attribute, figures = audit(
        {"a": (400, 800), "c": (400, 800), "d": (400, 800), "e": (400, 800), "b": (1, 1), "f": (1, 1), "h": (0, 9)}
    )
    found = judged(figures, "impact_ratio", min=0.8, slice={"g": "a"})
    assert found.verdict == "inconclusive" and ", –] straddles" in found.reason and "inf" not in found.reason
    lines = fairness_lines(property_of(attribute), 80)
    [line] = [one for one in lines if one.startswith("a ")]
    assert line.split()[:3] == ["a", "800", "0.500"] and line.endswith("–]")


def test_columns_of_the_terminal_stay_apart_whatever_the_figures():
    attribute, _ = audit({"a": (9, 900)})
    of_one = attribute.groups[0].model_copy(
        update={"reference": False, "impact_ratio": 0.0000123, "ratio_low": 0.0000012, "ratio_high": 0.000234}
    )
    line = fairness_lines(property_of(attribute.model_copy(update={"groups": [of_one]})), 80)[2]
    assert line.split() == ["a", "900", "0.010", "1.2e-05", "[1.2e-06,", "0.00023]"]


# The reference beside itself


def test_the_reference_stands_beside_itself_at_one_for_certain():
    codes = np.repeat([0, 1], 400)
    groups = Groups(codes=codes, names=["a", "b"], parts=[("a",), ("b",)])
    favoured, deserving, failed = np.arange(800) % 400 < 300 - 150 * codes, np.arange(800) % 2 == 0, np.arange(800) % 400 > 390
    _, figures = attribute_figures("g", ["g"], groups, favoured, deserving, confidence=0.95, errors=failed)
    ratio = of_group(figures, "impact_ratio", "a")
    assert (ratio.estimate.value, ratio.estimate.bounds(0.95), ratio.pessimistic) == (1, (1, 1), None)
    for name in ("statistical_parity", "equal_opportunity", "average_odds", "predictive_parity"):
        gap = of_group(figures, f"{name}_difference", "a").estimate
        assert (gap.value, gap.bounds(0.999)) == (0, (0, 0))
    found = judged(figures, "impact_ratio", min=0.8, slice={"g": "a"})
    assert (found.verdict, found.reason) == ("passed", "1 clears 0.8")
    assert judged(figures, "impact_ratio", min=1.1, slice={"g": "a"}).verdict == "failed"


def test_a_reference_that_is_never_selected_has_no_ratio_even_to_itself():
    _, figures = audit({"a": (0, 40), "b": (0, 40)})
    found = of_group(figures, "impact_ratio", "a").estimate
    assert (found.value, found.bounds(0.95)) == (None, None) and "is 0" in (found.reason or "")


# The attribute beside its groups


def test_the_attribute_has_the_bounds_of_its_gate_and_the_paragraph_quotes_them():
    attribute, figures = audit({"a": (240, 600), "b": (180, 600), "c": (140, 400)})
    [whole] = [one.metric(0.95) for one in figures if one.name == "impact_ratio" and one.component]
    assert (attribute.ratio, attribute.ratio_low, attribute.ratio_high) == (whole.value, whole.low, whole.high)
    [lowest] = [one for one in attribute.groups if one.impact_ratio == attribute.ratio]
    assert (lowest.ratio_low, lowest.ratio_high) != (attribute.ratio_low, attribute.ratio_high)
    said = " ".join(groups_weak_spots(property_of(attribute).groups or GroupReport(selection="decision", rows=0)))
    quoted = f"[{attribute.ratio_low:.3f}, {attribute.ratio_high:.3f}]"
    assert f"the lowest impact ratio is 0.750 {quoted}, of b (600 rows)" in said
    assert quoted in judged(figures, "impact_ratio", min=0.8).reason


def test_page_and_terminal_say_whose_bounds_they_are():
    attribute, _ = audit({"a": (240, 600), "b": (180, 600)})
    prop = property_of(attribute)
    told = " ".join(fairness_lines(prop, 80))
    assert told.count("bounds of one group beside the reference are its own") == 1
    page = re.sub(r"<[^>]*>", "", render_html(sample.run_report(prop), {}))
    said = f"(lowest impact ratio 0.750 [{attribute.ratio_low:.3f}, {attribute.ratio_high:.3f}]) and of its gate hold at once"
    assert f"Bounds of one group beside the reference are its own; those of the attribute {said}" in " ".join(page.split())
    alone, _ = audit({"a": (240, 600)})
    assert "its own" not in " ".join(fairness_lines(property_of(alone), 80))


@pytest.mark.parametrize(
    ("rows", "declared", "told"), [(2, False, True), (29, False, True), (30, False, False), (2, True, False)]
)
def test_a_reference_of_few_rows_that_the_data_chose_is_told(rows, declared, told):
    attribute, _ = audit({"a": (rows, rows), "b": (300, 600)}, reference=["a"] if declared else None)
    said = " ".join(groups_weak_spots(property_of(attribute).groups or GroupReport(selection="decision", rows=0)))
    hint = f"the reference has {rows} rows only, `min_group_share` would leave such groups out"
    assert (hint in said) == told and said.count("the reference has") == told


# What a note calls a rate


def test_a_note_says_which_rate_of_which_rows_it_is():
    codes = np.repeat([0, 1], 200)
    groups = Groups(codes=codes, names=["a", "b"], parts=[("a",), ("b",)])
    place = np.arange(400) % 200
    deserving = place < 100
    favoured = (place < 80 - 30 * codes) | ((place >= 100) & (place < 120))
    _, figures = attribute_figures("g", ["g"], groups, favoured, deserving, confidence=0.95)
    notes = {one.name: one.note for one in figures if one.component}
    rate = "true positive rate"
    equal = f"lowest: b ({rate} 0.500 of 100 rows that deserve it) against a ({rate} 0.800 of 100 rows that deserve it)"
    assert notes["equal_opportunity_gap"] == notes["equalized_odds_gap"] == equal
    assert notes["predictive_parity_gap"] == (
        "lowest: b (precision 0.714 of 70 rows decided favourably) against a (precision 0.800 of 100 rows decided favourably)"
    )
    assert "b (mean of true and false positive rate 0.350 of 200 rows)" in (notes["average_odds_gap"] or "")
    assert notes["impact_ratio"] == "lowest: b (0.350 of 200 rows) against a (0.500 of 200 rows)"


# Numbers that a model did not give


def test_no_gate_on_a_mean_of_a_group_passes_with_errors_in_it():
    groups = Groups(codes=np.repeat([0, 1], 100), names=["a", "b"], parts=[("a",), ("b",)])
    labels = np.arange(200) % 10 + 0.0
    answers = np.where(np.arange(200) == 7, np.nan, labels + 0.1 * (np.arange(200) % 3))
    failed = np.isnan(answers)
    options = {"confidence": 0.95, "errors": failed}
    with np.errstate(invalid="ignore"):
        record, _ = attribute_figures("g", ["g"], groups, answers > 4, **options, rate_name="scoring_rate")
    _, figures = mean_figures(record, groups, answers, labels, **options)
    for name, limit in (("mae", {"max": 1.0}), ("mean_error", {"max": 1.0}), ("mean_answer", {"max": 9.0})):
        found = judged(figures, name, **limit, slice={"g": "a"})
        assert found.verdict == "inconclusive" and "1 row without a usable answer could have any number" in found.reason
        assert judged(figures, name, **limit, slice={"g": "b"}).verdict == "passed"


def test_no_gate_on_a_rate_of_a_group_passes_where_its_errors_could_undo_it():
    groups = Groups(codes=np.repeat([0, 1], 400), names=["a", "b"], parts=[("a",), ("b",)])
    failed = np.arange(800) < 100
    _, figures = attribute_figures("g", ["g"], groups, np.arange(800) % 10 < 9, confidence=0.95, errors=failed)
    found = judged(figures, "selection_rate", min=0.8, slice={"g": "a"})
    assert found.verdict == "inconclusive" and "not with the errors counted as failures" in found.reason
    assert judged(figures, "selection_rate", max=0.94, slice={"g": "a"}).verdict == "inconclusive"
    assert judged(figures, "selection_rate", min=0.8, slice={"g": "b"}).verdict == "passed"


def test_numbers_that_are_too_large_for_a_mean_leave_it_undefined():
    groups = Groups(codes=np.repeat([0, 1], 100), names=["a", "b"], parts=[("a",), ("b",)])
    answers = np.where(np.arange(200) < 100, 1e308, np.arange(200.0))
    answers[3] = -1e308
    record, _ = attribute_figures("g", ["g"], groups, answers > 4, confidence=0.95, rate_name="scoring_rate")
    found, figures = mean_figures(record, groups, answers, np.full(200, -1e308), confidence=0.95)
    a, b = ({one.name: one for one in group.figures} for group in sorted(found.groups, key=lambda group: group.name))
    assert (a["mean_answer"].value, a["mean_answer"].reason) == (None, "a: its numbers are too large for a mean")
    assert b["mean_answer"].value == 149.5 and b["mae"].value is None
    assert all(one.metric(0.95).value is None for one in figures if one.name == "mean_answer_gap")
    alone = Groups(codes=np.array([0, 1, 1]), names=["a", "b"], parts=[("a",), ("b",)])
    record, _ = attribute_figures("g", ["g"], alone, np.array([1, 0, 1], bool), confidence=0.95)
    found, _ = mean_figures(record, alone, np.array([1e308, -1.0, 1.0]), confidence=0.95)
    assert {group.name: group.figures[-1].value for group in found.groups} == {"a": None, "b": 0.0}

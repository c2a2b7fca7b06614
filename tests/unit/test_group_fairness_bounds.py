"""Bounds of groups: finite or open in every record, exact at the reference, and those of the attribute beside those of a group."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aitest_lib.config.gates import Gate
from aitest_lib.data.groups import Groups
from aitest_lib.reports.fairness_text import fairness_lines
from aitest_lib.reports.records_fairness import Attribute, GroupReport
from aitest_lib.reports.report import GateResult, PropertyReport
from aitest_lib.scorers.figures import Figure, judge_gates
from aitest_lib.scorers.group_fairness import attribute_figures
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

"""Figures and records of groups: what their bounds are corrected for, worst cases by hand, and units that rows descend from."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aitest_lib.config.gates import Gate
from aitest_lib.data.groups import Groups
from aitest_lib.scorers.figures import Figure, judge_gates
from aitest_lib.scorers.group_fairness import attribute_figures
from aitest_lib.stats.estimates import Estimate
from aitest_lib.stats.intervals import newcombe, rate_ratio, wilson
from aitest_lib.stats.multiple import holm

SELECTED = {"a": (120, 300), "b": (90, 300), "c": (60, 200)}


def groups_of(rows: dict[str, int]) -> Groups:
    codes = np.repeat(np.arange(len(rows)), list(rows.values()))
    return Groups(codes=codes, names=list(rows), parts=[(name,) for name in rows])


def audit(selected: dict[str, tuple[int, int]] = SELECTED, **options):
    favoured = np.concatenate([np.arange(n) < hits for hits, n in selected.values()])
    groups = groups_of({name: n for name, (_, n) in selected.items()})
    return attribute_figures("g", ["g"], groups, favoured, confidence=0.95, **options)


def component(figures: list[Figure], name: str) -> Figure:
    [found] = [one for one in figures if one.name == name and one.component]
    return found


def of_group(figures: list[Figure], name: str, group: str) -> Estimate:
    [found] = [one for one in figures if one.name == name and one.slice == {"g": group}]
    return found.estimate


def two_sided(gap: Estimate) -> float:
    return min(1.0, 2 * min(gap.p_above(0), gap.p_below(0)))


def test_contrasts_with_a_reference_that_the_data_chose_hold_for_all_groups_at_once():
    attribute, figures = audit()
    at_once = 1 - 0.05 / 3
    ratio, gap = rate_ratio(wilson(90, 300), wilson(120, 300)), newcombe(90, 300, 120, 300)
    b = next(one for one in attribute.groups if one.name == "b")
    assert (b.ratio_low, b.ratio_high) == ratio.bounds(at_once)
    assert (b.figures[0].gap_low, b.figures[0].gap_high) == gap.bounds(at_once)
    assert of_group(figures, "impact_ratio", "b").bounds(0.95) == ratio.bounds(at_once)
    assert of_group(figures, "statistical_parity_difference", "b").bounds(0.95) == gap.bounds(at_once)
    assert (b.figures[0].low, b.figures[0].high) == wilson(90, 300).bounds(0.95)


def test_contrasts_with_a_declared_reference_need_no_correction():
    attribute, figures = audit(reference=["a"])
    ratio = rate_ratio(wilson(90, 300), wilson(120, 300))
    b = next(one for one in attribute.groups if one.name == "b")
    assert (b.ratio_low, b.ratio_high) == ratio.bounds(0.95)
    # Two groups stand beside the reference: the worst of two ratios, and of four differences.
    worst = component(figures, "impact_ratio").estimate
    other = rate_ratio(wilson(60, 200), wilson(120, 300))
    lows, highs = zip(*[(one.bounds(0.95) or (0, 0), one.bounds(0.975) or (0, 0)) for one in (ratio, other)], strict=True)
    assert worst.bounds(0.95) == (min(low for low, _ in lows), min(high for _, high in highs))
    gaps = [newcombe(120, 300, *counts) for counts in ((90, 300), (60, 200))]
    found = component(figures, "statistical_parity_gap").estimate.bounds(0.95) or (0, 0)
    assert found[1] == max((one.bounds(0.95) or (0, 0))[1] for one in gaps)
    assert found[0] == max((one.bounds(1 - 0.05 / 4) or (0, 0))[0] for one in gaps)


def test_pairs_hold_at_once_and_their_p_values_are_those_of_holm():
    attribute, _ = audit()
    found = {(pair.first, pair.second): pair for pair in attribute.pairs}
    assert list(found) == [("b", "a"), ("c", "a"), ("c", "b")]
    low, high = rate_ratio(wilson(90, 300), wilson(120, 300)).bounds(1 - 0.05 / 3) or (0, 0)
    assert (found["b", "a"].low, found["b", "a"].high) == (low, high)
    raw = [two_sided(newcombe(*SELECTED[one], *SELECTED[other])) for one, other in found]
    assert [pair.p_value for pair in found.values()] == pytest.approx(holm(raw).tolist())
    assert found["c", "b"].ratio == 1 and found["c", "b"].p_value == 1


def test_the_gap_to_all_others_is_that_of_newcombe_with_p_values_of_holm():
    attribute, _ = audit()
    rest = {"a": (150, 500), "b": (180, 500), "c": (210, 600)}
    gaps = {name: newcombe(*SELECTED[name], *counts) for name, counts in rest.items()}
    p_values = dict(zip(gaps, holm([two_sided(gap) for gap in gaps.values()]).tolist(), strict=True))
    for one in attribute.groups:
        assert (one.rest_gap, one.rest_low, one.rest_high) == (gaps[one.name].value, *(gaps[one.name].bounds(0.95) or ()))
        assert one.rest_p == pytest.approx(p_values[one.name])


def test_the_p_value_of_the_attribute_is_corrected_for_all_ordered_pairs():
    attribute, _ = audit()
    gap = newcombe(120, 300, 90, 300)
    other = newcombe(120, 300, 60, 200)
    assert attribute.p_value == pytest.approx(6 * min(gap.p_above(0), other.p_above(0)), rel=1e-6)


def test_a_gap_in_either_direction_is_never_below_zero():
    _, figures = audit({"a": (30, 100), "b": (30, 100)})
    gap = component(figures, "statistical_parity_gap").estimate
    low, high = gap.bounds(0.95) or (1, 0)
    assert gap.value == low == 0 < high
    assert component(figures, "statistical_parity_gap").higher_is_better is False


def test_the_worst_case_of_every_gap_by_hand():
    """Two groups of 100 rows and ten errors each, which speak against the lower group and for the higher one."""
    groups = groups_of({"low": 110, "high": 110})
    labels = np.tile(np.concatenate([np.arange(100) < 50, np.arange(10) < 4]), 2)
    answers = np.zeros(220, bool)
    answers[:20] = answers[50:60] = True  # 20 of 50 deserving and 10 of 50 others in the lower group
    answers[110:140] = answers[160:180] = True  # 30 of 50 and 20 of 50 in the higher
    failed = np.tile(np.arange(110) >= 100, 2)
    _, figures = attribute_figures("g", ["g"], groups, answers, labels, confidence=0.95, errors=failed, reference=["high"])

    def worst(name: str) -> float:
        pessimistic = component(figures, name).pessimistic
        assert pessimistic is not None and pessimistic.value is not None
        return pessimistic.value

    assert worst("impact_ratio") == pytest.approx((30 / 110) / (60 / 110))
    assert worst("statistical_parity_gap") == pytest.approx(60 / 110 - 30 / 110)
    assert worst("equal_opportunity_gap") == pytest.approx(34 / 54 - 20 / 54)
    assert worst("equalized_odds_gap") == pytest.approx(max(34 / 54 - 20 / 54, 26 / 56 - 10 / 56))
    assert worst("average_odds_gap") == pytest.approx((34 / 54 - 20 / 54 + 26 / 56 - 10 / 56) / 2)
    # The six undeserving errors of the lower group are selected, and the four deserving ones of the higher; or the reverse.
    assert component(figures, "predictive_parity_gap").estimate.value == pytest.approx(20 / 30 - 30 / 50)
    assert worst("predictive_parity_gap") == pytest.approx(max(34 / 54 - 20 / 36, 24 / 34 - 30 / 56))


def test_ratios_look_better_the_higher_and_rates_have_no_direction():
    groups = groups_of({"a": 100, "b": 100})
    _, figures = attribute_figures(
        "g", ["g"], groups, np.arange(200) % 3 == 0, np.arange(200) % 2 == 0, confidence=0.95, reference=["a"]
    )
    directions = {one.name: one.higher_is_better for one in figures if not one.component}
    assert directions == {
        "selection_rate": None,
        "true_positive_rate": True,
        "false_positive_rate": False,
        "precision": True,
        "accuracy": True,
        "impact_ratio": True,
        "statistical_parity_difference": None,
        "equal_opportunity_difference": None,
        "average_odds_difference": None,
        "predictive_parity_difference": None,
    }


def test_rows_of_one_seed_count_once():
    """Ten copies of each row decide nothing that the rows themselves would not."""
    once, _ = audit()
    favoured = np.concatenate([np.repeat(np.arange(n) < hits, 10) for hits, n in SELECTED.values()])
    groups = groups_of({name: 10 * n for name, (_, n) in SELECTED.items()})
    units = np.repeat(np.arange(800), 10)
    often, figures = attribute_figures("g", ["g"], groups, favoured, None, units, confidence=0.95)
    for one, other in zip(once.groups, often.groups, strict=True):
        assert (one.name, one.rows * 10, one.impact_ratio) == (other.name, other.rows, pytest.approx(other.impact_ratio))
        assert other.figures[0].low == pytest.approx(one.figures[0].low, abs=0.003)
    assert often.p_value == pytest.approx(once.p_value, rel=0.5)
    gate = judge_gates({"impact_ratio": Gate(min=0.8)}, figures, confidence=0.95, decide="interval", incomplete=None)
    assert gate[0].verdict == "inconclusive"


def test_sequential_figures_are_those_of_confidence_sequences_throughout():
    plain, _ = audit()
    always, figures = audit(sequential=True)
    for one, other in zip(plain.groups, always.groups, strict=True):
        assert one.figures[0].value == other.figures[0].value
        assert (
            (other.figures[0].low or 1) < (one.figures[0].low or 0) < (one.figures[0].high or 1) < (other.figures[0].high or 0)
        )
    assert (always.p_value or 0) > (plain.p_value or 1)
    low, high = component(figures, "impact_ratio").estimate.bounds(0.95) or (1, 0)
    assert 0 < low < high < math.inf


def test_where_groups_hardly_differ_nothing_speaks_against_their_being_alike():
    attribute, _ = audit({"a": (120, 300), "b": (119, 300), "c": (81, 200)})
    assert attribute.p_value == 1.0

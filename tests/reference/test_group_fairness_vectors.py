"""Contrasts of groups against vectors worked out by hand, and against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import fisher_exact, ttest_ind
from scipy.stats.contingency import association, crosstab

from aitest_lib.data.groups import Groups
from aitest_lib.metrics.association import cramers_v
from aitest_lib.metrics.fairness import GroupRates, difference, group_rates, ratio
from aitest_lib.metrics.fairness_means import group_means, mean_difference
from aitest_lib.reports.records_fairness import Attribute, FairGroup
from aitest_lib.scorers.group_fairness import attribute_figures
from aitest_lib.scorers.group_means import mean_figures
from aitest_lib.stats.estimates import Estimate, t_quantile, undefined
from aitest_lib.stats.exact import fisher_two_sided
from aitest_lib.stats.intervals import newcombe, rate_ratio, wilson
from aitest_lib.stats.planning import rows_needed
from aitest_lib.stats.sequences import rate_sequence
from aitest_lib.stats.verdicts import GateInput, judge
from aitest_lib.stats.worst import at_once, largest, smallest


def two(
    answers: tuple[np.ndarray, np.ndarray], labels: tuple[np.ndarray, np.ndarray] | None = None, **more
) -> list[GroupRates]:
    codes = np.repeat([0, 1], [len(part) for part in answers])
    groups = Groups(codes=codes, names=["a", "b"], parts=[("a",), ("b",)])
    return group_rates(groups, np.concatenate(answers), None if labels is None else np.concatenate(labels), **more)


def first(hits: int, n: int) -> np.ndarray:
    return np.arange(n) < hits


def bounds(estimate: Estimate, confidence: float = 0.95) -> tuple[float, float]:
    found = estimate.bounds(confidence)
    assert found is not None
    return found


def test_the_ratio_of_rates_by_hand():
    """20 of 40 beside 30 of 50: Katz lies further out on neither side."""
    found = rate_ratio(wilson(20, 40), wilson(30, 50))
    quantile = t_quantile(0.95, 39)
    centre = (0.5 + quantile**2 / 80) / (1 + quantile**2 / 40)
    half = quantile / (1 + quantile**2 / 40) * math.sqrt(0.25 / 40 + quantile**2 / 6400)
    low_1, high_1 = centre - half, centre + half
    centre = (0.6 + quantile**2 / 100) / (1 + quantile**2 / 50)
    half = quantile / (1 + quantile**2 / 50) * math.sqrt(0.24 / 50 + quantile**2 / 10000)
    low_2, high_2 = centre - half, centre + half
    low = 5 / 6 * math.exp(-math.hypot(math.log(0.5 / low_1), math.log(high_2 / 0.6)))
    high = 5 / 6 * math.exp(math.hypot(math.log(high_1 / 0.5), math.log(0.6 / low_2)))
    spread = math.sqrt(1 / 20.5 - 1 / 40.5 + 1 / 30.5 - 1 / 50.5)
    katz = [20.5 / 40.5 / (30.5 / 50.5) * math.exp(sign * quantile * spread) for sign in (-1, 1)]
    assert found.value == pytest.approx(5 / 6)
    assert bounds(found) == pytest.approx((min(low, katz[0]), max(high, katz[1])))


def test_the_average_odds_difference_by_hand():
    """True positives 30 of 40 and 20 of 40, false positives 5 of 60 and 15 of 60."""
    answers = (np.concatenate([first(30, 40), first(5, 60)]), np.concatenate([first(20, 40), first(15, 60)]))
    labels = (first(40, 100), first(40, 100))
    one, other = two(answers, labels)
    found = difference(one, other, "average_odds")
    hits, alarms = newcombe(30, 40, 20, 40), newcombe(5, 60, 15, 60)
    (low_1, high_1), (low_2, high_2) = bounds(hits), bounds(alarms)
    value_1, value_2 = 10 / 40, -10 / 60
    assert found.value == pytest.approx((value_1 + value_2) / 2)
    below, above = math.hypot(value_1 - low_1, value_2 - low_2) / 2, math.hypot(high_1 - value_1, high_2 - value_2) / 2
    assert bounds(found) == pytest.approx((found.value - below, found.value + above))
    assert bounds(difference(one, other, "true_positive_rate")) == bounds(hits)


def test_contrasts_of_confidence_sequences_are_boxes():
    one, other = two((first(30, 50), first(40, 50)), sequential=True)
    (low_1, high_1), (low_2, high_2) = (bounds(rate_sequence(hits, 50), 0.975) for hits in (30, 40))
    assert bounds(difference(one, other, "selection_rate")) == pytest.approx((low_1 - high_2, high_1 - low_2))
    assert bounds(ratio(one, other)) == pytest.approx((low_1 / high_2, high_1 / low_2))


def test_average_odds_of_sequences_and_of_shared_seeds_take_no_independence():
    answers = (np.concatenate([first(30, 40), first(5, 60)]), np.concatenate([first(20, 40), first(15, 60)]))
    labels = (first(40, 100), first(40, 100))
    for confidence, options in ((0.975, {"sequential": True}), (0.95, {"units": np.arange(200) // 2})):
        one, other = two(answers, labels, **options)
        hits, alarms = (difference(one, other, f"{kind}_positive_rate") for kind in ("true", "false"))
        (low_1, high_1), (low_2, high_2) = bounds(hits, confidence), bounds(alarms, confidence)
        wanted = (low_1 + low_2) / 2, (high_1 + high_2) / 2
        assert bounds(difference(one, other, "average_odds")) == pytest.approx(wanted)


def test_copies_of_a_row_that_descend_from_one_seed_count_once():
    seeds = (first(30, 100), first(50, 100))
    plain = two(seeds)
    units = np.repeat(np.arange(200), 10)
    copied = two((np.repeat(seeds[0], 10), np.repeat(seeds[1], 10)), units=units)
    for contrast in (difference(*plain, "selection_rate"), ratio(*plain)):
        width = np.diff(bounds(contrast))
        again = difference(*copied, "selection_rate") if (contrast.value or 0) < 0 else ratio(*copied)
        assert again.value == pytest.approx(contrast.value)
        assert width * 0.99 < np.diff(bounds(again)) < width * 1.2


def test_the_worst_of_several_contrasts_by_hand():
    one, other = newcombe(10, 50, 20, 50), newcombe(15, 50, 12, 50)
    most = largest([one, other, undefined("nothing")])
    assert most.value == other.value == pytest.approx(0.06)
    corrected = 1 - 0.05 / 3
    assert bounds(most) == (bounds(other, corrected)[0], bounds(other)[1])
    least = smallest([one, other])
    assert bounds(least) == (bounds(one)[0], bounds(one, 0.975)[1])
    assert bounds(at_once(one, 4)) == bounds(one, 1 - 0.05 / 4)
    assert bounds(largest([one], 4))[0] == bounds(one, 1 - 0.05 / 4)[0]
    assert largest([undefined("this"), undefined("that")]).reason == "this"
    alone = Estimate(value=3.0, n=1, reason="one value alone has no interval")
    assert largest([alone]).bounds(0.95) is None
    assert bounds(largest([alone, one])) == (bounds(one, 0.975)[0], math.inf)


def test_cramers_v_by_hand():
    """[[30, 10], [20, 40]]: chi-squared 50 / 3, less 1 / 99 per row, over 2 - 1 / 99 - 1."""
    one, other = np.repeat([0, 0, 1, 1], [30, 10, 20, 40]), np.repeat([0, 1, 0, 1], [30, 10, 20, 40])
    assert cramers_v(one, other) == pytest.approx(math.sqrt((1 / 6 - 1 / 99) / (1 - 1 / 99)))


@pytest.mark.parametrize("draw", range(5))
def test_cramers_v_is_that_of_scipy_but_for_the_correction(draw):
    rng = np.random.default_rng(draw)
    one = rng.integers(0, 4, 500)
    other = np.where(rng.random(500) < 0.4, one, rng.integers(0, 7, 500))
    table = crosstab(one, other).count
    uncorrected = association(table, method="cramer") ** 2 * min(np.array(table.shape) - 1)
    r, c = table.shape
    sides = r - (r - 1) ** 2 / 499, c - (c - 1) ** 2 / 499
    wanted = math.sqrt((uncorrected - (r - 1) * (c - 1) / 499) / (min(sides) - 1))
    assert cramers_v(one, other) == pytest.approx(wanted)


def test_columns_that_have_nothing_to_do_with_each_other_have_no_association():
    rng = np.random.default_rng(0)
    found = [cramers_v(rng.integers(0, 5, 400), rng.integers(0, 20, 400)) or 0.0 for _ in range(200)]
    assert np.mean(found) < 0.05  # 0.22 without the correction
    same = rng.integers(0, 5, 400)
    assert cramers_v(same, same) == pytest.approx(1)
    assert cramers_v(same, np.zeros(400, np.int64)) is None


def test_fisher_is_that_of_scipy():
    rng = np.random.default_rng(1)
    n, m = rng.integers(1, 400, 200), rng.integers(1, 4_000, 200)
    hits, others = rng.binomial(n, 0.3), rng.binomial(m, 0.35)
    hits[:3], others[:3] = 0, m[:3]
    found = fisher_two_sided(hits, n, others, m)
    wanted = [fisher_exact([[a, k - a], [b, j - b]]).pvalue for a, k, b, j in zip(hits, n, others, m, strict=True)]
    assert found == pytest.approx(wanted, rel=1e-8)
    assert len(fisher_two_sided(*[np.zeros(0, np.int64)] * 4)) == 0


def test_the_gap_of_means_is_that_of_welch():
    rng = np.random.default_rng(2)
    one, other = rng.normal(5, 2, 40), rng.normal(4, 5, 25)
    groups = Groups(codes=np.repeat([0, 1], [40, 25]), names=["a", "b"], parts=[("a",), ("b",)])
    found = mean_difference(*group_means(groups, np.concatenate([one, other])))
    wanted = ttest_ind(one, other, equal_var=False).confidence_interval(0.9)
    assert found.value == pytest.approx(one.mean() - other.mean())
    assert bounds(found) == pytest.approx((wanted.low, wanted.high))


def test_means_of_copies_of_a_row_count_its_seed_once():
    rng = np.random.default_rng(3)
    values = rng.normal(0, 1, 60)
    groups = Groups(codes=np.repeat([0, 1], 30), names=["a", "b"], parts=[("a",), ("b",)])
    copied = Groups(codes=np.repeat(groups.codes, 7), names=groups.names, parts=groups.parts)
    plain = mean_difference(*group_means(groups, values))
    again = mean_difference(*group_means(copied, np.repeat(values, 7), np.repeat(np.arange(60), 7)))
    assert bounds(again) == pytest.approx(bounds(plain))


def number_audit(**more) -> tuple[Attribute, dict[tuple[str, str], object]]:
    """Three groups of 4, 4 and 1 rows whose answers are 1, 3 and 0 too high on average."""
    groups = Groups(codes=np.repeat([0, 1, 2], [4, 4, 1]), names=["a", "b", "c"], parts=[("a",), ("b",), ("c",)])
    labels = np.arange(9.0)
    answers = labels + np.array([0.5, 1.5, 0.5, 1.5, 2, 4, 2, 4, 0])
    options = {"confidence": 0.95, **more}
    attribute, _ = attribute_figures("g", ["g"], groups, answers > 5, rate_name="scoring_rate", **options)
    attribute, figures = mean_figures(attribute, groups, answers, labels, **options)
    return attribute, {(one.name, next(iter(one.slice.values()))): one for one in figures}


def test_mean_figures_by_hand():
    attribute, figures = number_audit()
    assert figures["mean_error_gap", "g"].estimate.value == 3
    assert figures["mae_gap", "g"].estimate.value == 3
    assert figures["mean_error", "b"].estimate.value == 3 and figures["mean_answer", "a"].estimate.value == 2.5
    assert figures["mean_error_gap", "g"].unjudged == "c: its one row alone says nothing of the spread"
    assert figures["mean_error_gap", "g"].note == "lowest: c (0 of 1 row) against b (3 of 4 rows)"
    assert figures["mae_gap", "g"].higher_is_better is False and figures["mean_answer", "a"].higher_is_better is None
    a: FairGroup = next(one for one in attribute.groups if one.name == "a")
    by_name = {one.name: one for one in a.figures}
    assert list(by_name) == ["scoring_rate", "mean_answer", "mean_error", "mae"]
    error = by_name["mean_error"]
    assert attribute.reference == "b"  # as often above the middle as c, with more rows
    degrees = (1 / 12 + 4 / 12) ** 2 / ((1 / 12) ** 2 / 3 + (4 / 12) ** 2 / 3)
    reach = t_quantile(1 - 0.05 / 3, degrees) * math.sqrt(5 / 12)
    assert (error.value, error.gap) == (1, -2)
    assert (error.gap_low, error.gap_high) == pytest.approx((-2 - reach, -2 + reach))
    half = t_quantile(0.95, 3) * math.sqrt(1 / 3) / 2
    assert (error.low, error.high) == pytest.approx((1 - half, 1 + half))


def test_a_gap_of_means_has_bounds_that_hold_for_all_groups_at_once():
    attribute, figures = number_audit(reference=["a"], smallest_share=0.2)
    gap = figures["mean_error_gap", "g"].estimate
    low, high = bounds(gap)
    error = math.sqrt(1 / 12 + 4 / 12)
    degrees = (1 / 12 + 4 / 12) ** 2 / ((1 / 12) ** 2 / 3 + (4 / 12) ** 2 / 3)
    assert (low, high) == pytest.approx((max(0, 2 - t_quantile(0.975, degrees) * error), 2 + t_quantile(0.95, degrees) * error))
    assert attribute.excluded == {"c": 1}


def test_numbers_with_errors_cannot_pass_and_growing_data_have_no_bounds():
    _, figures = number_audit(errors=np.arange(9) == 0)
    gap = figures["mean_answer_gap", "g"]
    assert gap.pessimistic is not None and gap.pessimistic.reason == "1 row without a usable answer could have any number"
    _, figures = number_audit(sequential=True)
    assert figures["mean_error_gap", "g"].note == "lowest: c (0 of 1 row) against b (3 of 4 rows)"
    estimate = figures["mean_answer_gap", "g"].estimate
    assert estimate.value is not None and estimate.bounds(0.95) is None and "at every look" in (estimate.reason or "")


def test_rows_that_would_decide_by_hand():
    """A difference of 0.1 with a half-width of 0.1 on 400 rows."""
    estimate = Estimate(value=0.1, n=100, rows=400, interval=lambda confidence: (0.0, 0.2))
    z = 1.6448536269514722
    assert rows_needed(estimate, 0.05) == pytest.approx(400 * ((0.1 + 0.8416212335729143 / z * 0.1) / 0.05) ** 2)
    assert rows_needed(estimate, 0.1) is None
    [found] = judge([GateInput(metric="gap", estimate=estimate, max=0.15)])
    assert found.reason == "0.100 [0.000, 0.200] straddles 0.15: about 3,700 rows would decide (400 here)"
    endless = Estimate(value=0.1, n=100, rows=400, interval=lambda confidence: (0.0, math.inf))
    assert rows_needed(endless, 0.2) is None

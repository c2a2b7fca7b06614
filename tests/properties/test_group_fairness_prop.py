"""What holds for all groups: names and their order play no part, nor does the number of copies of the data for the values."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aitest_lib.data.groups import Groups
from aitest_lib.metrics.fairness import GroupRates, difference, group_rates, ratio
from aitest_lib.reports.records_fairness import Attribute
from aitest_lib.scorers.figures import Figure
from aitest_lib.scorers.group_fairness import attribute_figures
from aitest_lib.stats.estimates import Estimate
from aitest_lib.stats.intervals import katz, rate_ratio, wilson
from aitest_lib.stats.worst import at_once, largest, smallest, turned

cells = st.tuples(*[st.integers(0, 12)] * 4).filter(lambda counts: sum(counts) > 0)
tables = st.lists(cells, min_size=2, max_size=5)
counts = st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
confidences = st.floats(0.5, 0.999)
few = settings(max_examples=40, deadline=None)


def rows_of(table: list[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes, answers and labels of groups with these counts of (answer, label)."""
    kinds = [(True, True), (False, True), (True, False), (False, False)]
    rows = [(code, *kind) for code, own in enumerate(table) for n, kind in zip(own, kinds, strict=True) for _ in range(n)]
    codes, answers, labels = zip(*rows, strict=True)
    return np.array(codes), np.array(answers), np.array(labels)


def groups_of(codes: np.ndarray, names: list[str]) -> Groups:
    return Groups(codes=codes, names=names, parts=[(name,) for name in names])


def audit(codes: np.ndarray, names: list[str], answers: np.ndarray, labels: np.ndarray) -> tuple[Attribute, list[Figure]]:
    return attribute_figures("g", ["g"], groups_of(codes, names), answers, labels, confidence=0.95)


def components(figures: list[Figure]) -> dict[str, tuple[float | None, tuple[float, float] | None]]:
    return {one.name: (one.estimate.value, one.estimate.bounds(0.9)) for one in figures if one.component}


def close(one: object, other: object) -> None:
    assert one == pytest.approx(other, rel=1e-9, abs=1e-12)


@few
@given(tables, st.randoms(use_true_random=False))
def test_another_order_of_groups_and_rows_is_the_same(table, random):
    codes, answers, labels = rows_of(table)
    names = [f"g{code}" for code in range(len(table))]
    order, rows = list(range(len(table))), list(range(len(codes)))
    random.shuffle(order)
    random.shuffle(rows)
    places = np.argsort(order)
    one, figures = audit(codes, names, answers, labels)
    other, moved = audit(places[codes][rows], [names[place] for place in order], answers[rows], labels[rows])
    assert one == other
    assert components(figures) == components(moved)


@few
@given(tables)
def test_other_names_change_nothing_but_the_names(table):
    codes, answers, labels = rows_of(table)
    one, figures = audit(codes, [f"g{code}" for code in range(len(table))], answers, labels)
    other, renamed = audit(codes, [f"h{code}" for code in range(len(table))], answers, labels)
    assert components(figures) == components(renamed)
    assert [group.name.replace("g", "h") for group in one.groups] == [group.name for group in other.groups]


@few
@given(tables, st.integers(2, 5))
def test_copies_of_the_data_keep_the_values_and_narrow_the_bounds(table, copies):
    codes, answers, labels = rows_of(table)
    names = [f"g{code}" for code in range(len(table))]
    once, figures = audit(codes, names, answers, labels)
    often, more = audit(np.tile(codes, copies), names, np.tile(answers, copies), np.tile(labels, copies))
    for name, (value, bounds) in components(figures).items():
        repeated, narrower = components(more)[name]
        assert (value is None) == (repeated is None)
        if value is not None:
            close(value, repeated)
        if bounds is not None and narrower is not None:
            assert narrower[1] - narrower[0] <= bounds[1] - bounds[0] + 1e-9
    assert [group.share for group in once.groups] == pytest.approx([group.share for group in often.groups])


@few
@given(counts, counts, confidences)
def test_swapping_two_groups_inverts_the_ratio_and_turns_the_difference(one, other, confidence):
    first, second = (
        group_rates(groups_of(np.zeros(n, np.int64), [name]), np.arange(n) < hits)[0]
        for name, (hits, n) in (("a", one), ("b", other))
    )
    gap, back = difference(first, second, "selection_rate"), difference(second, first, "selection_rate")
    close(gap.value, -(back.value or 0))
    low, high = gap.bounds(confidence) or (0, 0)
    close((-high, -low), back.bounds(confidence))
    quotient, inverse = ratio(first, second), ratio(second, first)
    if quotient.value and inverse.value:
        close(quotient.value, 1 / inverse.value)
        low, high = quotient.bounds(confidence) or (0, 0)
        least, most = inverse.bounds(confidence) or (0, 0)
        # An upper bound above 1,000 is open.
        if high == math.inf:
            assert least < 0.001
        else:
            close(1 / high, least)
        if low < 0.001:
            assert most == math.inf
        else:
            close(1 / low, most)


@given(counts, counts, confidences)
def test_the_ratio_of_two_rates_is_that_of_katz_with_bounds_no_nearer(one, other, confidence):
    first, second = wilson(*one), wilson(*other)
    found, known = rate_ratio(first, second), katz(*one, *other)
    assert (found.value, found.n, found.reason) == (known.value, known.n, known.reason)
    if known.value is not None:
        (low, high), (near, far) = found.bounds(confidence) or (0, 0), known.bounds(confidence) or (0, 0)
        assert low <= near * (1 + 1e-9) and high >= far * (1 - 1e-9)


@given(counts, counts, st.floats(0.8, 0.999))
def test_rates_of_fewer_effective_trials_have_a_wider_ratio(one, other, confidence):
    first, second = wilson(*one), wilson(*other)
    found = rate_ratio(first, second)
    if found.value is not None:
        low, high = found.bounds(confidence) or (0, 0)
        fewer = rate_ratio(replace(first, effective_n=one[1] / 4), second).bounds(confidence) or (0, 0)
        assert fewer[1] == math.inf or fewer[1] * low >= fewer[0] * high * (1 - 1e-9)


@given(st.floats(0.001, 1), st.floats(0.001, 1), st.floats(0.01, 50), st.floats(0.01, 50), st.floats(0.5, 1 - 1e-15))
def test_a_ratio_of_hardly_any_trials_has_ordered_bounds(rate_1, rate_2, n_1, n_2, confidence):
    first, second = (Estimate(value=rate, n=1, effective_n=n) for rate, n in ((rate_1, n_1), (rate_2, n_2)))
    found = rate_ratio(first, second)
    low, high = found.bounds(confidence) or (1, 0)
    assert 0 <= low <= (found.value or 0) <= high


def contrasts_of(pairs: list[tuple[int, int]]) -> list[Estimate]:
    rates = [group_rates(groups_of(np.zeros(n, np.int64), ["g"]), np.arange(n) < hits)[0] for hits, n in pairs]
    return [difference(one, other, "selection_rate") for one in rates for other in rates if one is not other]


@few
@given(st.lists(counts, min_size=2, max_size=5), confidences)
def test_the_worst_contrast_has_the_worst_bounds(pairs, confidence):
    contrasts = contrasts_of(pairs)
    bounds = [one.bounds(confidence) or (0, 0) for one in contrasts]
    at_once_bounds = [at_once(one, len(contrasts)).bounds(confidence) or (0, 0) for one in contrasts]
    most, least = largest(contrasts), smallest(contrasts)
    assert most.value == max(one.value or 0 for one in contrasts) and least.value == min(one.value or 0 for one in contrasts)
    low, high = most.bounds(confidence) or (0, 0)
    assert (low, high) == (max(low for low, _ in at_once_bounds), max(high for _, high in bounds))
    low, high = least.bounds(confidence) or (0, 0)
    assert (low, high) == (min(low for low, _ in bounds), min(high for _, high in at_once_bounds))
    assert turned(turned(most)).bounds(confidence) == most.bounds(confidence)


@few
@given(tables)
def test_bounds_hold_the_value_and_differences_of_sequences_are_wider(table):
    codes, answers, labels = rows_of(table)
    groups = groups_of(codes, [f"g{code}" for code in range(len(table))])
    plain = group_rates(groups, answers, labels)
    always = group_rates(groups, answers, labels, sequential=True)

    def all_of(rates: list[GroupRates]) -> list[Estimate]:
        kinds = ("selection_rate", "precision", "average_odds")
        found = [difference(one, other, kind) for kind in kinds for one in rates for other in rates if one is not other]
        return [*found, *(ratio(one, other) for one in rates for other in rates if one is not other)]

    ratios = len(table) * (len(table) - 1)
    for place, (one, other) in enumerate(pairs := list(zip(all_of(plain), all_of(always), strict=True))):
        assert one.value == other.value and one.reason == other.reason
        if one.value is not None:
            (low, high), (wide_low, wide_high) = one.bounds(0.95) or (0, 0), other.bounds(0.95) or (0, 0)
            assert wide_low <= one.value <= wide_high and low <= one.value <= high
            assert place >= len(pairs) - ratios or wide_high - wide_low >= high - low - 1e-9

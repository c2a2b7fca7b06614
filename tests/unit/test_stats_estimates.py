"""Estimates: bounds, p-values by inversion, undefined figures."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from scipy.stats import norm

from aitest_lib.errors import InputError
from aitest_lib.stats.clusters import clustered_difference, clustered_rate
from aitest_lib.stats.estimates import Estimate, undefined
from aitest_lib.stats.intervals import katz, mean, newcombe, paired_difference, paired_mean, wilson
from aitest_lib.stats.sequences import mean_sequence, rate_sequence


def test_p_below_is_the_score_test_for_a_wilson_interval() -> None:
    z = (0.93 - 0.95) / math.sqrt(0.95 * 0.05 / 500)
    assert wilson(465, 500).p_below(0.95) == pytest.approx(norm.cdf(z), rel=1e-9)
    assert wilson(465, 500).p_above(0.95) == pytest.approx(norm.sf(z), rel=1e-9)


def test_p_values_beyond_and_inside() -> None:
    figure = wilson(50, 100)
    assert figure.p_below(0.5) == pytest.approx(0.5)
    assert figure.p_below(0.9) < 1e-12
    assert figure.p_below(0.1) > 1 - 1e-12
    assert figure.p_above(0.1) < 1e-12


def test_p_value_agrees_with_the_bound_for_every_kind() -> None:
    rng = np.random.default_rng(0)
    figures = [
        newcombe(30, 100, 40, 120),
        katz(30, 100, 40, 120),
        paired_difference(12, 2, 50),
        mean(rng.normal(size=40)),
        clustered_rate(rng.binomial(12, 0.9, 60), np.full(60, 12)),
        rate_sequence(90, 100),
        mean_sequence(rng.random(200)),
    ]
    for figure in figures:
        found = figure.bounds(0.95)
        assert found is not None
        assert figure.p_below(found[1]) == pytest.approx(0.05, rel=1e-6)
        assert figure.p_above(found[0]) == pytest.approx(0.05, rel=1e-6)


@pytest.mark.parametrize(
    "figure",
    [
        wilson(0, 0),
        newcombe(0, 0, 1, 2),
        katz(1, 2, 0, 5),
        katz(1, 2, 0, 0),
        paired_difference(0, 0, 0),
        mean([]),
        clustered_rate([], []),
        clustered_rate([0, 0], [0, 0]),
        clustered_difference([1], [1], [0], [0]),
        rate_sequence(0, 0),
        mean_sequence([]),
        undefined("why"),
    ],
)
def test_undefined_has_a_reason_and_no_verdict(figure: Estimate) -> None:
    assert figure.value is None
    assert figure.reason
    assert figure.bounds(0.95) is None
    assert figure.p_below(0.5) == figure.p_above(0.5) == 1.0


def test_one_value_has_a_mean_but_no_interval() -> None:
    figure = paired_mean([3.5])
    assert figure.value == 3.5
    assert figure.bounds(0.95) is None
    assert figure.reason is not None and "one value" in figure.reason


@pytest.mark.parametrize("confidence", [0.0, 0.49, 1.0, 95, float("nan")])
def test_confidence_outside_its_range_is_refused(confidence: float) -> None:
    with pytest.raises(InputError, match=r"use 0\.95"):
        wilson(1, 2).bounds(confidence)


@pytest.mark.parametrize(
    "call",
    [
        lambda: wilson(3, 2),
        lambda: wilson(-1, 2),
        lambda: paired_difference(2, 2, 3),
        lambda: mean([1.0, math.nan]),
        lambda: clustered_rate([2], [1]),
        lambda: clustered_rate([1, 1], [1]),
        lambda: clustered_difference([1], [1], [1, 1], [1, 1]),
        lambda: rate_sequence(3, 2),
        lambda: mean_sequence([1.5]),
    ],
)
def test_impossible_data_is_one_clear_message(call: object) -> None:
    with pytest.raises(InputError, match="expected"):
        call()  # type: ignore[operator]


def test_estimates_travel_between_processes() -> None:
    # Pickled by ourselves on this line: estimates must survive the way to a worker process.
    figure = pickle.loads(pickle.dumps(wilson(465, 500)))
    assert figure.bounds(0.95) == wilson(465, 500).bounds(0.95)

"""How often the intervals hold the truth: exact sums for single rates, seeded simulation for clusters and streams."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, multinomial

from aitest_lib.metrics.classification import classification_metrics
from aitest_lib.metrics.scores import calibration_error, roc_auc
from aitest_lib.stats.clusters import clustered_difference, clustered_rate
from aitest_lib.stats.estimates import Estimate
from aitest_lib.stats.intervals import katz, newcombe, paired_difference, wilson
from aitest_lib.stats.sequences import mean_sequence, rate_sequence

OUTCOMES = 12


def bounds(figure: Estimate, confidence: float) -> tuple[float, float]:
    found = figure.bounds(confidence)
    assert found is not None
    return found


def holds(figure: Estimate, truth: float, confidence: float = 0.975) -> bool:
    low, high = bounds(figure, confidence)
    return low <= truth <= high


@pytest.mark.parametrize("n", [30, 100, 500])
def test_rates(n: int) -> None:
    limits = np.array([bounds(wilson(s, n), 0.975) for s in range(n + 1)])
    coverage = []
    for p in np.arange(0.05, 0.951, 0.05):
        inside = (limits[:, 0] <= p) & (p <= limits[:, 1])
        coverage.append(binom.pmf(np.arange(n + 1), n, p)[inside].sum())
    assert 0.93 <= np.mean(coverage) <= 0.97


def beta_binomial(rng: np.random.Generator, clusters: int, p: float, strength: float) -> NDArray[np.int64]:
    share = 1 / strength - 1
    return rng.binomial(OUTCOMES, rng.beta(p * share, (1 - p) * share, clusters))


def shared_shock(rng: np.random.Generator, clusters: int, p: float, strength: float) -> NDArray[np.int64]:
    """With probability `strength` all outcomes of a cluster are one draw."""
    together = rng.random(clusters) < strength
    return np.where(together, OUTCOMES * (rng.random(clusters) < p), rng.binomial(OUTCOMES, p, clusters))


@pytest.mark.parametrize("model", [beta_binomial, shared_shock])
@pytest.mark.parametrize("clusters", [30, 100, 500])
@pytest.mark.parametrize(("p", "strength"), [(0.8, 0.3), (0.9, 0.5), (0.95, 0.3), (0.97, 0.8)])
def test_rates_of_correlated_outcomes(model: object, clusters: int, p: float, strength: float) -> None:
    rng = np.random.default_rng(10)
    trials = np.full(clusters, OUTCOMES)
    drawn = [model(rng, clusters, p, strength) for _ in range(2000)]  # type: ignore[operator]
    coverage = np.mean([holds(clustered_rate(won, trials), p) for won in drawn])
    assert coverage >= 0.93


def test_pooling_as_if_independent_would_fail_this_very_check() -> None:
    rng = np.random.default_rng(11)
    drawn = [beta_binomial(rng, 100, 0.9, 0.3) for _ in range(500)]
    assert np.mean([holds(wilson(int(won.sum()), 100 * OUTCOMES), 0.9) for won in drawn]) < 0.75


@pytest.mark.parametrize("clusters", [30, 100, 500])
@pytest.mark.parametrize(("accuracy", "flip"), [(0.95, 0.02), (0.9, 0.1)])
def test_clean_against_transformed(clusters: int, accuracy: float, flip: float) -> None:
    """One clean answer a seed against twelve correlated transformed ones."""
    rng = np.random.default_rng(12)
    truth = accuracy * flip
    one, twelve = np.ones(clusters), np.full(clusters, OUTCOMES)
    inside = []
    for _ in range(1000):
        right = rng.random(clusters) < accuracy
        kept = np.where(right, beta_binomial(rng, clusters, 1 - flip, 0.3), 0)
        inside.append(holds(clustered_difference(right, one, kept, twelve), truth))
    assert np.mean(inside) >= 0.93


@pytest.mark.parametrize("n", [30, 100])
def test_paired_differences(n: int) -> None:
    most = 40
    pairs = [(b, c) for b in range(min(n, most) + 1) for c in range(min(n, most) + 1 - b)]
    limits = np.array([bounds(paired_difference(b, c, n), 0.975) for b, c in pairs])
    table = np.array([(b, c, n - b - c) for b, c in pairs])
    for first, second in [(0.02, 0.02), (0.05, 0.0), (0.05, 0.02), (0.058, 0.058), (0.1, 0.1), (0.2, 0.05)]:
        chance = multinomial.pmf(table, n, [first, second, 1 - first - second])
        assert chance.sum() > 0.999
        truth = first - second
        assert chance[(limits[:, 0] <= truth) & (truth <= limits[:, 1])].sum() >= 0.93


def test_differences_and_ratios_of_uneven_groups() -> None:
    rng = np.random.default_rng(13)
    small, large = rng.binomial(20, 0.3, 2000), rng.binomial(1000, 0.4, 2000)
    pairs = list(zip(small.tolist(), large.tolist(), strict=True))
    assert np.mean([holds(newcombe(a, 20, b, 1000), -0.1) for a, b in pairs]) >= 0.92
    assert np.mean([holds(katz(a, 20, b, 1000), 0.75) for a, b in pairs]) >= 0.92


@pytest.mark.parametrize("p", [0.5, 0.95])
def test_twenty_looks_at_a_stream(p: float) -> None:
    rng = np.random.default_rng(14)
    missed_low = missed_high = missed_bernstein = missed_single = 0
    streams = 600
    for _ in range(streams):
        outcomes = rng.random(1000) < p
        totals = np.cumsum(outcomes)
        looks = [(int(totals[n - 1]), n) for n in range(50, 1001, 50)]
        seen = [bounds(rate_sequence(s, n), 0.95) for s, n in looks]
        missed_low += any(low > p for low, _ in seen)
        missed_high += any(high < p for _, high in seen)
        missed_bernstein += any(bounds(mean_sequence(outcomes[:n].astype(float)), 0.95)[1] < p for _, n in looks)
        missed_single += any(bounds(wilson(s, n), 0.95)[1] < p for s, n in looks)
    noise = 3 * np.sqrt(0.05 * 0.95 / streams)
    assert missed_low / streams <= 0.05 + noise
    assert missed_high / streams <= 0.05 + noise
    assert missed_bernstein / streams <= 0.05 + noise
    assert missed_single / streams > 0.1  # what sequences are for


def test_composite_metrics_of_a_classifier() -> None:
    shares = np.array([[0.45, 0.05, 0.0], [0.04, 0.25, 0.01], [0.02, 0.03, 0.15]])
    classes = ["a", "b", "c"]
    truth = {
        (name, str(part)): figure.value
        for name, part, figure, _ in classification_metrics((shares * 1e6).round().astype(np.int64), classes)
    }
    rng = np.random.default_rng(15)
    inside: dict[tuple[str, str], list[bool]] = {key: [] for key in truth}
    for _ in range(150):
        counts = rng.multinomial(300, shares.ravel()).reshape(3, 3)
        for name, part, figure, _ in classification_metrics(counts, classes):
            expected = truth[name, str(part)]
            assert expected is not None
            inside[name, str(part)].append(holds(figure, expected))
    assert {key: float(np.mean(found)) for key, found in inside.items() if np.mean(found) < 0.9} == {}
    assert np.mean([np.mean(found) for found in inside.values()]) >= 0.94


def test_areas_under_the_curve() -> None:
    rng = np.random.default_rng(16)
    held = []
    for _ in range(400):
        labels = rng.integers(0, 2, 120)
        raw = rng.normal(labels * 1.5, 1.0)
        held.append(holds(roc_auc(labels, np.column_stack([-raw, raw]), ["no", "yes"]), 0.85558))
    assert np.mean(held) >= 0.92


@pytest.mark.parametrize("overconfidence", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("least", [0.5, 0.69])
def test_calibration_errors(overconfidence: float, least: float) -> None:
    """Top scores over many bins and over few, right less often than they say: the error is the overconfidence."""
    rng = np.random.default_rng(17)
    too_low = too_high = 0
    draws = 500
    for _ in range(draws):
        top = rng.uniform(least + overconfidence, 1 if least == 0.5 else least + overconfidence + 0.01, 400)
        right = rng.random(400) < top - overconfidence
        figure = calibration_error((~right).astype(np.int64), np.column_stack([top, 1 - top]))
        low, high = bounds(figure, 0.95)
        too_low += high < overconfidence
        too_high += low > overconfidence
    noise = 3 * np.sqrt(0.05 * 0.95 / draws)
    assert too_low / draws <= 0.05 + noise
    assert too_high / draws <= 0.05 + noise

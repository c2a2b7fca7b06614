"""Two models on the same cases: is the difference more than chance. The seed is the unit, however many cases it has.

All tests are two-sided and conditional on the pairs: what both models get right, or both wrong, says nothing about which
is better. Nothing is drawn at random but the resamples of `paired_bootstrap`, which are seeded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from aitest_lib.errors import InputError
from aitest_lib.stats.bootstrap import bootstrap
from aitest_lib.stats.clusters import clustered_difference
from aitest_lib.stats.estimates import Estimate
from aitest_lib.stats.intervals import paired_difference

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

SMALLEST_P = 1e-15
REPLICATES = 2_000


@dataclass(frozen=True, kw_only=True)
class PairedTest:
    """`change`: candidate - base with its interval, `n` the seeds; `p_value`: of "there is no change"; `method`: its name."""

    change: Estimate
    p_value: float
    method: str


def paired_rates(base_failing: ArrayLike, candidate_failing: ArrayLike, cases: ArrayLike) -> PairedTest:
    """The change of the share of failing cases, in [-1, 1], from counts per seed, (seeds,) each.

    Where every seed has one case at most: McNemar's mid-p test and Tango's interval. Else the interval of
    `clustered_difference`, and the larger of its p-value and that of the sign-flip test on each seed's difference of counts.
    (The sign-flip test alone takes the models for exchangeable. Where one fails on few seeds as a whole and the other on
    single cases of many, it flagged up to 26 % of equal models on 50 seeds.) Without any case undefined, with a p-value of 1.
    """
    base, candidate, tried = (_counts(values) for values in (base_failing, candidate_failing, cases))
    if not base.shape == candidate.shape == tried.shape:
        raise InputError(f"got {len(base)}, {len(candidate)} and {len(tried)} seeds, expected the same seeds three times")
    if (base > tried).any() or (candidate > tried).any():
        raise InputError("got a seed with more failing cases than cases, expected at most as many; check how they are counted")
    difference = candidate - base
    if tried.max(initial=0) <= 1:
        worse, better = int((difference > 0).sum()), int((difference < 0).sum())
        change = paired_difference(worse, better, int(tried.sum()))
        return PairedTest(change=change, p_value=mcnemar_midp(worse, better), method="McNemar, mid-p")
    change = clustered_difference(candidate, tried, base, tried)
    p = max(sign_flip(difference), _p_of_no_change(change)) if difference.any() else 1.0
    return PairedTest(change=change, p_value=p, method="sign-flip over seeds, mid-p")


def mcnemar_midp(b: int, c: int) -> float:
    """Two-sided mid-p of McNemar's test, in (0, 1], from the two discordant counts; 1 without any.

    Fagerland, Lydersen and Laake (2013), The McNemar test for binary matched-pairs data: mid-p and asymptotic are better
    than exact conditional.

    >>> round(mcnemar_midp(1, 7), 4)
    0.0391
    """
    from scipy.stats import binom

    if b < 0 or c < 0:
        raise InputError(f"got the discordant counts {b} and {c}, expected none below 0; check how the pairs are counted")
    fewer, pairs = min(b, c), b + c
    p = 2 * float(binom.cdf(fewer, pairs, 0.5)) - float(binom.pmf(fewer, pairs, 0.5))
    return min(max(p, SMALLEST_P), 1.0)


def sign_flip(differences: ArrayLike) -> float:
    """Two-sided mid-p, in (0, 1], of the sum of whole differences, one a seed, (seeds,), under random signs.

    The randomisation distribution (Fisher 1935; Good 1994, Permutation tests) is exact: it is the inverse Fourier transform
    of its characteristic function, a product of one factor a seed. With differences of -1, 0 and 1 alone it is McNemar's mid-p.

    >>> round(sign_flip([1, 1, 1, 1, 1, 1, 1, -1, 0]), 4)
    0.0391
    """
    given = np.asarray(differences)
    if given.ndim != 1 or (len(given) and not np.issubdtype(given.dtype, np.integer)):
        raise InputError(f"got differences of shape {given.shape} and type {given.dtype}, expected a row of whole numbers")
    sizes, seeds = np.unique(np.abs(given[given != 0]), return_counts=True)
    if not len(sizes):
        return 1.0
    step = np.gcd.reduce(sizes)
    sizes, total = sizes // step, int(given.sum() // step)
    most = int(sizes @ seeds)
    # The sum of the sizes that got a plus sign lies in 0..most; the sum of all is twice that, less `most`.
    frequency = np.arange(most // 2 + 1 + most % 2) / (most + 1)
    transform = np.ones(len(frequency), dtype=np.complex128)
    for size, count in zip(sizes.tolist(), seeds.tolist(), strict=True):
        transform *= ((1 + np.exp(-2j * np.pi * frequency * size)) / 2) ** count
    chance = np.maximum(np.fft.irfft(transform, most + 1), 0.0)
    at = (most + abs(total)) // 2
    return float(min(max(2 * chance[at + 1 :].sum() + chance[at], SMALLEST_P), 1.0))


def paired_bootstrap(
    base_errors: ArrayLike, candidate_errors: ArrayLike, weights: ArrayLike, random_seed: int, what: str = "the change"
) -> PairedTest:
    """The change of a ratio of sums, sum(errors) / sum(weights): a mean error, a word error rate.

    All three are sums per seed, (seeds,): errors of any size, in the metric's unit; weights at least 0 (cases; words of the
    reference). Whole seeds are drawn again, the two models' errors on them together (Efron and Tibshirani 1993; for word
    error rates Bisani and Ney 2004). The p-value inverts the percentile interval. Same `random_seed`, same figures.
    """
    base, candidate, weight = (np.asarray(values, dtype=np.float64) for values in (base_errors, candidate_errors, weights))
    if not (base.shape == candidate.shape == weight.shape and base.ndim == 1):
        raise InputError(f"got errors {base.shape}, {candidate.shape} and weights {weight.shape}, expected three rows alike")
    if not (np.isfinite(base).all() and np.isfinite(candidate).all() and np.isfinite(weight).all() and (weight >= 0).all()):
        raise InputError("got errors or weights that are not finite, or a weight below 0; leave such cases out")
    difference = candidate - base

    def change(times: NDArray[np.int64]) -> float:
        whole = float(times @ weight)
        return float(times @ difference) / whole if whole > 0 else float("nan")

    estimate = bootstrap(change, len(weight), random_seed, REPLICATES, what)
    p = _p_of_no_change(estimate) if difference.any() else 1.0
    return PairedTest(change=estimate, p_value=p, method="paired bootstrap over seeds")


def _p_of_no_change(change: Estimate) -> float:
    """Two-sided, by inverting the interval."""
    one_sided = change.p_below if change.value is not None and change.value < 0 else change.p_above
    return min(2 * one_sided(0.0), 1.0)


def _counts(values: ArrayLike) -> NDArray[np.int64]:
    counts = np.asarray(values)
    if counts.ndim != 1 or (len(counts) and not np.issubdtype(counts.dtype, np.integer)) or (counts < 0).any():
        raise InputError(f"got counts of shape {counts.shape} and type {counts.dtype}, expected a row of whole numbers from 0")
    return counts.astype(np.int64)

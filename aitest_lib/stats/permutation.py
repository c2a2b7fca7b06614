"""Do groups of speakers get other word error rates: permutation of speakers, with the speaker as the unit.

Clips of one speaker rise and fall together. Who draws clips again, or permutes them, finds a gap between two groups without
one in up to half of all cases. Here the labels of whole speakers are permuted, and the statistic is studentised (the gap of the
pooled rates by its linearised standard error), which keeps the level where the groups also differ in spread (Janssen 1997;
Chung and Romano 2013, Exact and asymptotically robust permutation tests). Intervals invert the test.

What no speaker has done yet may still happen: one imagined clip of each group that fails as a whole widens the bounds (not the
value), so that groups without any error are not taken for known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from aitest_lib.rng import rng_for
from aitest_lib.stats.estimates import Estimate, t_quantile, undefined

COMPONENT = "speaker_permutation@1"
MOST_EXACT = 5_000  # all permutations where there are no more than so many
DRAWN = 4_999  # else so many, beside the labels as they are
ROWS = 250  # permutations in memory at a time
ALIKE = 1e-9  # statistics that differ by less are tied
FARTHEST = 1e12  # stands for an infinite statistic
FAR_ERRORS = 100  # so many standard errors away is looked for a hypothesis that is rejected
SMALLEST_REACH = 1e-6
FARTHEST_REACH = 50.0  # a factor of e^50
HALVINGS = 26  # of 100 standard errors: to a millionth of one

ONE_SPEAKER = "a group of one speaker has no interval"
NO_ERROR = "the reference group has no error"
NONE_WRONG = "the group has no error"


@dataclass(frozen=True, kw_only=True)
class Speakers:
    """Counts of each speaker: `errors`, `words` (more than 0) and `clips`, float64 (speakers,) each."""

    errors: NDArray[np.float64]
    words: NDArray[np.float64]
    clips: NDArray[np.float64]

    @property
    def rate(self) -> float:
        """Pooled."""
        return float(self.errors.sum() / self.words.sum())

    @property
    def standard_error(self) -> float:
        """Of the rate, by its linearisation over the speakers, at least 2."""
        n = len(self.words)
        residuals = self.errors - self.rate * self.words
        return math.sqrt(n / (n - 1) * float(residuals @ residuals)) / float(self.words.sum())


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """One group against another: their `gap` (or ratio) with its interval, `n` the speakers of the smaller group; `p_value`: of
    "there is no gap", two-sided; None where a group has one speaker alone."""

    estimate: Estimate
    p_value: float | None


def gap_permutation(group: Speakers, reference: Speakers, random_seed: int) -> Contrast:
    """The pooled rate of a group minus that of the reference group.

    One-sided bounds: the gaps that the permutation test does not reject after they are taken off the group's errors. Where a
    confidence asks for more than the number of permutations can tell, Student's t takes over. Same `random_seed`, same
    permutations, in whatever order the speakers come.
    """
    gap = group.rate - reference.rate
    n = min(len(group.words), len(reference.words))
    if n < 2:
        return Contrast(estimate=Estimate(value=gap, n=n, reason=ONE_SPEAKER), p_value=None)
    moments = _Moments.of(group, reference, random_seed, lambda own: (own.errors, own.words))
    reach = _Reach.of(
        moments,
        lambda shift: -(gap + shift),
        error=math.hypot(group.standard_error, reference.standard_error),
        imagined=math.hypot(1 / group.clips.sum(), 1 / reference.clips.sum()),
    )
    return Contrast(
        estimate=Estimate(value=gap, n=n, interval=partial(_gap_interval, gap, reach)), p_value=moments.two_sided(0.0)
    )


def ratio_permutation(group: Speakers, reference: Speakers, random_seed: int) -> Contrast:
    """The pooled rate of a group by that of the reference group, at least 0; see `gap_permutation`.

    Its bounds are the factors by which the group's errors can be divided so that the test does not reject. Undefined where the
    reference group has no error; without bounds where the group has none.
    """
    n = min(len(group.words), len(reference.words))
    if reference.rate == 0:
        return Contrast(estimate=undefined(NO_ERROR, n), p_value=None)
    ratio = group.rate / reference.rate
    if n < 2 or ratio == 0:
        return Contrast(estimate=Estimate(value=ratio, n=n, reason=ONE_SPEAKER if n < 2 else NONE_WRONG), p_value=None)
    moments = _Moments.of(group, reference, random_seed, lambda own: (np.zeros_like(own.errors), own.errors))
    reach = _Reach.of(
        moments,
        lambda shift: np.exp(-shift) / ratio,
        error=math.hypot(*(own.standard_error / own.rate for own in (group, reference))),
        imagined=math.hypot(*(1 / (own.clips.sum() * own.rate) for own in (group, reference))),
    )
    interval = partial(_ratio_interval, ratio, reach)
    return Contrast(estimate=Estimate(value=ratio, n=n, interval=interval), p_value=moments.two_sided(1.0))


@dataclass(frozen=True, kw_only=True)
class _Moments:
    """Sums over the speakers of either side, (9, permutations) each, the labels as they are first.

    A hypothesis changes the errors to a + x b, so the sums of a, b, aa, ab, bb, aw, bw, w and ww give every statistic at once.
    """

    inside: NDArray[np.float64]
    outside: NDArray[np.float64]
    sizes: tuple[int, int]

    @classmethod
    def of(
        cls,
        group: Speakers,
        reference: Speakers,
        random_seed: int,
        changing: Callable[[Speakers], tuple[NDArray[np.float64], NDArray[np.float64]]],
    ) -> _Moments:
        """`changing` splits the errors of the group into a and b."""
        group, reference = _ordered(group), _ordered(reference)
        fixed, scaled = changing(group)
        a = np.concatenate([fixed, reference.errors])
        b = np.concatenate([scaled, np.zeros_like(reference.errors)])
        w = np.concatenate([group.words, reference.words])
        columns = np.column_stack([a, b, a * a, a * b, b * b, a * w, b * w, w, w * w])
        sizes = len(group.words), len(reference.words)
        inside = np.concatenate([rows @ columns for rows in _labels(*sizes, random_seed)]).T
        return cls(inside=inside, outside=columns.sum(axis=0)[:, None] - inside, sizes=sizes)

    def two_sided(self, x: float) -> float:
        """Share of the permutations with a gap as large as that of the labels as they are, in either direction."""
        statistics = np.abs(self._statistics(np.full(self.inside.shape[1], x), slice(None)))
        return float(_as_large(statistics, statistics[:1]).mean())

    def as_extreme(self, x: NDArray[np.float64], sign: int) -> NDArray[np.bool_]:
        """Has each permutation, under a hypothesis of its own, (permutations,), at least the gap of the labels as they are
        (`sign` 1), or at most that gap (-1)."""
        return _as_large(sign * self._statistics(x, slice(None)), sign * self._statistics(x, slice(0, 1)))

    def _statistics(self, x: NDArray[np.float64], which: slice) -> NDArray[np.float64]:
        rate, variance = _rate_and_variance(self.inside[:, which], x, self.sizes[0])
        other, spread = _rate_and_variance(self.outside[:, which], x, self.sizes[1])
        gap, error = rate - other, np.sqrt(variance + spread)
        with np.errstate(divide="ignore", invalid="ignore"):
            studentised = np.where(np.abs(gap) > ALIKE * (np.abs(rate) + np.abs(other)), gap / error, 0.0)
        return np.clip(studentised, -FARTHEST, FARTHEST)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Reach:
    """How far from the observed figure (a ratio: from its logarithm) a hypothesis can be before each permutation is less
    extreme than the labels as they are: `down` and `up`, (permutations,), farthest first, infinite where it never is.
    `error`, `imagined`: standard errors, as observed and of the imagined clips; `degrees` of freedom."""

    down: NDArray[np.float64]
    up: NDArray[np.float64]
    error: float
    imagined: float
    degrees: int

    @classmethod
    def of(
        cls,
        moments: _Moments,
        hypothesis: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        error: float,
        imagined: float,
    ) -> _Reach:
        """`hypothesis`: the x of `_Moments` for a shift of the figure."""
        far = min(max(FAR_ERRORS * error, SMALLEST_REACH), FARTHEST_REACH)
        down, up = (_reaches(moments, hypothesis, sign, far) for sign in (-1, 1))
        return cls(down=down, up=up, error=error, imagined=imagined, degrees=min(moments.sizes) - 1)

    def half_widths(self, confidence: float) -> tuple[float, float]:
        """Of the interval: what the test does not reject, widened by the imagined clips."""
        quantile = t_quantile(confidence, self.degrees)
        halves = []
        for ordered in (self.down, self.up):
            extreme = math.floor((1 - confidence) * len(ordered) + ALIKE)  # so many permutations may be as extreme
            reach = float(ordered[max(extreme, 1)])
            known = math.isfinite(reach)
            if not known or extreme < 1:
                reach = max(reach if known else 0.0, quantile * self.error)
            halves.append(math.hypot(reach, quantile * self.imagined))
        return halves[0], halves[1]


def _reaches(
    moments: _Moments, hypothesis: Callable[[NDArray[np.float64]], NDArray[np.float64]], sign: int, far: float
) -> NDArray[np.float64]:
    permutations = moments.inside.shape[1]
    near, beyond = np.zeros(permutations), np.full(permutations, far)
    never = moments.as_extreme(hypothesis(sign * beyond), -sign)
    for _ in range(HALVINGS):
        middle = (near + beyond) / 2
        extreme = moments.as_extreme(hypothesis(sign * middle), -sign)
        near, beyond = np.where(extreme, middle, near), np.where(extreme, beyond, middle)
    return np.sort(np.where(never, math.inf, near))[::-1]


def _rate_and_variance(
    sums: NDArray[np.float64], x: NDArray[np.float64], n: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pooled rate of a side of n speakers under every permutation, and the variance of its linearisation."""
    a, b, aa, ab, bb, aw, bw, w, ww = sums
    rate = (a + x * b) / w
    squares = aa + 2 * x * ab + x * x * bb
    residuals = squares - 2 * rate * (aw + x * bw) + rate * rate * ww
    # Differences of large sums: what is left of equal ones is rounding.
    residuals = np.where(residuals > ALIKE * squares, residuals, 0.0)
    return rate, n / (n - 1) * residuals / (w * w)


def _as_large(statistics: NDArray[np.float64], observed: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.greater_equal(statistics, observed - ALIKE * np.maximum(1.0, np.abs(observed)))


def _labels(inside: int, outside: int, random_seed: int) -> Iterator[NDArray[np.float64]]:
    """Which speakers are inside, 1 or 0, (some permutations, speakers) at a time; as they are first: those in front."""
    speakers = inside + outside
    if math.comb(speakers, inside) <= MOST_EXACT:
        chosen = np.array(list(combinations(range(speakers), inside)))
        labels = np.zeros((len(chosen), speakers))
        np.put_along_axis(labels, chosen, 1.0, axis=1)
        yield labels
        return
    as_they_are = np.repeat([1.0, 0.0], [inside, outside])
    yield as_they_are[None]
    rng = rng_for(random_seed, COMPONENT, f"{inside} of {speakers}")
    for start in range(0, DRAWN, ROWS):
        yield rng.permuted(np.tile(as_they_are, (min(ROWS, DRAWN - start), 1)), axis=1)


def _ordered(group: Speakers) -> Speakers:
    """In an order that does not hang on the file's."""
    order = np.lexsort((group.clips, group.words, group.errors))
    return Speakers(errors=group.errors[order], words=group.words[order], clips=group.clips[order])


def _gap_interval(gap: float, reach: _Reach, confidence: float) -> tuple[float, float]:
    down, up = reach.half_widths(confidence)
    return gap - down, gap + up


def _ratio_interval(ratio: float, reach: _Reach, confidence: float) -> tuple[float, float]:
    down, up = reach.half_widths(confidence)
    return ratio * math.exp(-down), ratio * math.exp(min(up, 10 * FARTHEST_REACH))

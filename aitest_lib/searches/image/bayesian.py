"""Bayesian optimisation of noise: a Gaussian process learns from every answer which pattern to ask next.

Low-dimensional noise and expected improvement: Ru, Cobb, Blaas & Gal, BayesOpt adversarial attack, ICLR 2020; Shukla, Sahu,
Willmott & Kolter, Simple and efficient hard label black-box adversarial attacks in low query budget regimes, KDD 2021. Trust
region: Eriksson et al., Scalable global optimization via local Bayesian optimization, NeurIPS 2019. Unlike there, the
acquisition is maximized over patterns made from the best one so far, with the slope of the posterior, and from one another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from aitest_lib.parameters import parameter
from aitest_lib.registry import register
from aitest_lib.searches.image.base import ImageSearch, Moves, Seed, Together
from aitest_lib.searches.image.canvas import Canvas, Floats32
from aitest_lib.searches.image.evidence import Evidence
from aitest_lib.searches.image.gaussian_process import Doubles, GaussianProcess
from aitest_lib.searches.image.patterns import Patterns, along, crossed, flipped_tiles, random_tiles, squares

DIGITS = 9  # of acquisition values: equal ones are decided by place, not by rounding errors
WIDEST, NARROWEST, GROWTH, DECAY = 0.5, 0.01, 1.5, 0.9  # the trust region: the share of the image that may be turned
SCALES = (4, 7, 14)  # tiles along a side that are turned at once
TURNED, SQUARES, CROSSED, RIVALS = 16, 32, 16, 8  # patterns of each kind; patterns that the best one is crossed with
PARENTS, CHILDREN, CROSSINGS = 24, 96, (2, 4, 7)  # the most promising are crossed, by tiles of a grid
BLIND = 64  # random patterns to choose from where there is no better or worse
FRUITLESS = 10  # rounds in a row without a pattern that is new: the image has no room for more


@register
@dataclass(frozen=True, kw_only=True)
class Bayesian(ImageSearch):
    """Random tiles first, then what a Gaussian process (linear + Matern kernel) expects most of, within a trust region around
    the best pattern, at several scales. With labels alone there is no better or worse, and it goes where it knows least."""

    name: ClassVar[str] = "bayesian"
    version: ClassVar[int] = 1
    tiles: int = parameter(7, help="tiles along the longer side of the image in random patterns", ge=1)
    start: int = parameter(6, help="random patterns before the first that is chosen", ge=1)

    def moves(self, seed: Seed, rng: np.random.Generator) -> Moves:
        """Random tiles, then pattern after pattern."""
        canvas = Canvas(seed.image, seed.radius)
        first = random_tiles(canvas.shape, self.tiles, self.start, rng)
        if self.labels_only:
            yield from explore(canvas, first, self.tiles, rng)
        else:
            yield from climb(canvas, first, rng)


@dataclass(frozen=True, eq=False)
class Expected(Together):
    """Asks how much a process expects of points (m, d): gets the logarithm of the expected improvement on its goal, (m,)."""

    process: GaussianProcess
    points: Floats32

    @classmethod
    def solve(cls, requests: Sequence[Self]) -> Sequence[Doubles]:
        """Those of one shape are computed together."""
        from aitest_lib.searches.image.botorch_model import log_expected_improvement

        alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for place, request in enumerate(requests):
            alike[request.points.shape].append(place)
        values: dict[int, Doubles] = {}
        for places in alike.values():
            found = log_expected_improvement(
                [requests[place].process for place in places], [requests[place].points for place in places]
            )
            values.update(zip(places, np.round(found, DIGITS), strict=True))
        return [values[place] for place in range(len(requests))]


def climb(canvas: Canvas, first: Iterable[Patterns], rng: np.random.Generator) -> Moves:
    """The first patterns, then what is made from the best so far and expected to be better."""
    evidence = Evidence(canvas)
    for pattern in first:
        yield from evidence.ask(pattern)
    share, fruitless = WIDEST / 2, 0
    while evidence.rewards and fruitless < FRUITLESS:
        process, weights = evidence.process()
        best = evidence.leaders(1)
        slope = canvas.gradient(process.gradient(canvas.features(best)[0] * weights) * weights)
        parents = around(evidence, slope, share, rng)
        values = yield Expected(process, canvas.features(parents) * weights)
        children = offspring(parents, values, rng)
        more = yield Expected(process, canvas.features(children) * weights)
        chosen = evidence.first_new(np.concatenate([parents, children]), np.concatenate([values, more]))
        fruitless = fruitless + 1 if chosen is None else 0
        better = chosen is not None and (yield from evidence.ask(chosen))
        share = min(WIDEST, share * GROWTH) if better else max(NARROWEST, share * DECAY)


def explore(canvas: Canvas, first: Iterable[Patterns], tiles: int, rng: np.random.Generator) -> Moves:
    """The first patterns, then random ones that the process knows least about."""
    evidence = Evidence(canvas)
    for pattern in first:
        yield from evidence.ask(pattern)
    fruitless = 0
    while evidence.rewards and fruitless < FRUITLESS:
        process, weights = evidence.process()
        patterns = random_tiles(canvas.shape, tiles, BLIND, rng)
        values = yield Expected(process, canvas.features(patterns) * weights)
        chosen = evidence.first_new(patterns, values)
        fruitless = fruitless + 1 if chosen is None else 0
        if chosen is not None:
            yield from evidence.ask(chosen)


def around(evidence: Evidence, slope: Floats32, share: float, rng: np.random.Generator) -> Patterns:
    """Patterns near the best one, those that the slope suggests, and crossings of the best few."""
    best, *rivals = evidence.leaders(1 + RIVALS)
    others = np.stack(rivals or [best])[rng.integers(0, max(1, len(rivals)), CROSSED)]
    return np.concatenate(
        [
            *(flipped_tiles(best, tiles, share, TURNED, rng) for tiles in SCALES),
            squares(best, share, SQUARES, rng),
            along(slope, best),
            crossed(np.broadcast_to(best, others.shape), others, 4, rng),
        ]
    )


def offspring(patterns: Patterns, values: Doubles, rng: np.random.Generator) -> Patterns:
    """Crossings of those that most is expected of."""
    parents = np.argsort(-values, kind="stable")[:PARENTS]
    one, other = (patterns[parents[rng.integers(0, len(parents), CHILDREN)]] for _ in range(2))
    return crossed(one, other, int(rng.choice(CROSSINGS)), rng)

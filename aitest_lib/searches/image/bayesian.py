"""Bayesian optimisation of noise: a Gaussian process learns from every answer which pattern to ask next.

Shukla, Sahu, Willmott & Kolter, Simple and efficient hard label black-box adversarial attacks in low query budget regimes,
KDD 2021, and Ru, Cobb, Blaas & Gal, BayesOpt adversarial attack, ICLR 2020 (low-dimensional noise, expected improvement).
Unlike there, the acquisition is maximized over patterns that are made from the best one so far, and gradients of the
posterior are among what they are made with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from aitest_lib.parameters import parameter
from aitest_lib.registry import register
from aitest_lib.searches.image.base import ImageSearch, Moves, Reply, Seed, Together, Try
from aitest_lib.searches.image.canvas import Canvas, Floats32
from aitest_lib.searches.image.gaussian_process import Doubles, GaussianProcess, Hyperparameters, fitted, likeliest
from aitest_lib.searches.image.patterns import Patterns, along, crossed, flipped_tiles, random_tiles, squares

AT_ONCE = 16  # images of which the acquisition is computed together: more do not stay in the caches
SCALES = (4, 7, 14)  # tiles along a side that are turned at once
WIDEST, NARROWEST, GROWTH, DECAY = 0.5, 0.01, 1.5, 0.9  # the trust region: the share of tiles that may be turned
KEPT = 128  # answers that the process learns from: the best and the latest
FIRST_FIT, REFIT = 6, 1.3  # answers before hyperparameters are fitted, and how many times more until they are again
FREQUENCIES = (6.0, 10.0, 20.0)  # see `Canvas.weights`
FRUITLESS = 10  # rounds in a row without a pattern that is new: the image is too small for more
DIGITS = 9  # of acquisition values: equal ones are decided by place, not by rounding errors


@register
@dataclass(frozen=True, kw_only=True)
class Bayesian(ImageSearch):
    """Random tiles first, then what a Gaussian process (linear + Matern kernel) expects most of, within a trust region around
    the best pattern, at several scales. With labels alone there is no better or worse, and it goes where it knows least."""

    name: ClassVar[str] = "bayesian"
    version: ClassVar[int] = 1
    tiles: int = parameter(7, help="tiles along the longer side of the image in the first patterns", ge=1)
    start: int = parameter(6, help="random patterns before the first that is chosen", ge=1)

    def moves(self, seed: Seed, rng: np.random.Generator) -> Moves:
        """Random tiles, then pattern after pattern."""
        canvas = Canvas(seed.image, seed.radius)
        first = random_tiles(canvas.shape, self.tiles, self.start, rng)
        if self.labels_only:
            yield from explore(canvas, first, self.tiles, rng)
        else:
            yield from climb(canvas, first, rng)


@dataclass(eq=False)
class Evidence:
    """The answers on one image: patterns, their features, and rewards (the negative margin)."""

    canvas: Canvas
    patterns: list[Patterns] = field(default_factory=list)
    features: list[Floats32] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    tried: set[bytes] = field(default_factory=set)
    hyper: Hyperparameters = Hyperparameters()
    fitted_with: int = 0

    def ask(self, pattern: Patterns) -> Generator[Try, Reply, bool]:
        """Tries a pattern; whether it is the best so far."""
        self.tried.add(self.canvas.effects(pattern).tobytes())
        reply = yield Try(self.canvas.noise(pattern))
        if np.isnan(reply.margin):
            return False
        better = not self.rewards or -reply.margin > max(self.rewards)
        self.patterns.append(pattern)
        self.features.append(self.canvas.features(pattern[None])[0])
        self.rewards.append(-reply.margin)
        return better

    @property
    def best(self) -> Patterns:
        """The pattern with the highest reward, the first of equals."""
        return self.patterns[int(np.argmax(self.rewards))]

    def process(self) -> tuple[GaussianProcess, Floats32]:
        """What the answers teach, and the weights of features that it goes by."""
        chosen = self._chosen()
        features, rewards = np.stack([self.features[at] for at in chosen]), np.array([self.rewards[at] for at in chosen])
        if len(self.rewards) >= max(FIRST_FIT, REFIT * self.fitted_with):
            self.fitted_with = len(self.rewards)
            fits = [(*likeliest(features * self.canvas.weights(scale), rewards), scale) for scale in FREQUENCIES]
            _, hyper, scale = max(fits, key=lambda fit: fit[0])
            self.hyper = Hyperparameters(scale, hyper.linear, hyper.length, hyper.noise)
        weights = self.canvas.weights(self.hyper.scale)
        return fitted(features * weights, rewards, self.hyper), weights

    def _chosen(self) -> Sequence[int]:
        count = len(self.rewards)
        if count <= KEPT:
            return range(count)
        best = np.argsort(-np.array(self.rewards), kind="stable")[: KEPT // 2]
        return sorted({*best.tolist(), *range(count - KEPT // 2, count)})

    def new(self, patterns: Patterns, order: Iterable[int]) -> Patterns | None:
        """The first in an order that was not tried."""
        for at in order:
            if self.canvas.effects(patterns[at]).tobytes() not in self.tried:
                return patterns[at]
        return None


@dataclass(frozen=True, eq=False)
class Expected(Together):
    """Asks how much a process expects of points (m, d): gets the logarithm of the improvement on `best`, (m,)."""

    process: GaussianProcess
    points: Floats32
    best: float

    @classmethod
    def solve(cls, requests: Sequence[Self]) -> Sequence[Doubles]:
        """Those with as many points are computed together."""
        from aitest_lib.searches.image.botorch_model import log_expected_improvement

        alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for place, request in enumerate(requests):
            alike[request.points.shape].append(place)
        values: dict[int, Doubles] = {}
        for places in alike.values():
            for start in range(0, len(places), AT_ONCE):
                some = places[start : start + AT_ONCE]
                chosen = [requests[place] for place in some]
                found = log_expected_improvement(
                    [one.process for one in chosen], [one.points for one in chosen], [one.best for one in chosen]
                )
                values.update(zip(some, np.round(found, DIGITS), strict=True))
        return [values[place] for place in range(len(requests))]


def climb(canvas: Canvas, first: Iterable[Patterns], rng: np.random.Generator) -> Moves:
    """The first patterns, then what is made from the best so far and expected to be better."""
    evidence = Evidence(canvas)
    for pattern in first:
        yield from evidence.ask(pattern)
    share, fruitless = WIDEST / 2, 0
    while fruitless < FRUITLESS and evidence.rewards:
        process, weights = evidence.process()
        best, goal = evidence.best, process.goal
        slope = canvas.gradient(process.gradient(canvas.features(best[None])[0] * weights) * weights)
        patterns = around(best, evidence, slope, share, rng)
        values = yield Expected(process, canvas.features(patterns) * weights, goal)
        for _ in range(GENERATIONS):
            children = offspring(patterns, values, rng)
            more = yield Expected(process, canvas.features(children) * weights, goal)
            patterns, values = np.concatenate([patterns, children]), np.concatenate([values, more])
        pattern = evidence.new(patterns, np.argsort(-values, kind="stable").tolist())
        fruitless = fruitless + 1 if pattern is None else 0
        better = pattern is not None and (yield from evidence.ask(pattern))
        share = min(WIDEST, share * GROWTH) if better else max(NARROWEST, share * DECAY)


def explore(canvas: Canvas, first: Iterable[Patterns], tiles: int, rng: np.random.Generator) -> Moves:
    """The first patterns, then the random ones that the process knows least about."""
    evidence = Evidence(canvas)
    for pattern in first:
        yield from evidence.ask(pattern)
    fruitless = 0
    while fruitless < FRUITLESS and evidence.rewards:
        process, weights = evidence.process()
        patterns = random_tiles(canvas.shape, tiles, CHOICE, rng)
        values = yield Expected(process, canvas.features(patterns) * weights, max(evidence.rewards))
        pattern = evidence.new(patterns, np.argsort(-values, kind="stable").tolist())
        fruitless = fruitless + 1 if pattern is None else 0
        if pattern is not None:
            yield from evidence.ask(pattern)


CHOICE = 64
TILED, SQUARES, CROSSED = 16, 32, 16
PARENTS, CHILDREN = 24, 96
GENERATIONS = 1


def around(best: Patterns, evidence: Evidence, slope: Floats32, share: float, rng: np.random.Generator) -> Patterns:
    """Patterns near the best one, and those that a gradient suggests."""
    order = np.argsort(-np.array(evidence.rewards), kind="stable")
    others = np.stack([evidence.patterns[at] for at in order[1:9] if True] or [best])
    others = others[rng.integers(0, len(others), CROSSED)]
    return np.concatenate(
        [
            *(flipped_tiles(best, tiles, share, TILED, rng) for tiles in SCALES),
            squares(best, share, SQUARES, rng),
            along(slope, best),
            crossed(np.broadcast_to(best, others.shape), others, 4, rng),
        ]
    )


def offspring(patterns: Patterns, values: Doubles, rng: np.random.Generator) -> Patterns:
    """Crossings of those that most is expected of."""
    parents = np.argsort(-values, kind="stable")[:PARENTS]
    one, other = (patterns[parents[rng.integers(0, len(parents), CHILDREN)]] for _ in range(2))
    return crossed(one, other, int(rng.choice((2, 4, 7))), rng)

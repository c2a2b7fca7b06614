"""What the answers on one image teach a Gaussian process."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

import numpy as np

from aitest_lib.canonical import array_digest
from aitest_lib.searches.image.base import Reply, Try
from aitest_lib.searches.image.canvas import Canvas, Floats32
from aitest_lib.searches.image.gaussian_process import Doubles, GaussianProcess, Hyperparameters, fitted, likeliest
from aitest_lib.searches.image.patterns import Patterns

KEPT = 128  # answers that the process learns from: half the best, half the latest
FIRST_FIT, REFIT = 6, 1.3  # answers before hyperparameters are fitted, and how many times more until they are again
FREQUENCIES = (7.0, 14.0, 40.0)  # see `Canvas.weights`
SOFT = 0.01  # share of the median distance from the best reward below which distances hardly shrink any more
START = Hyperparameters(linear=0.5, length=1.0, noise=1e-3)


@dataclass(eq=False)
class Evidence:
    """Patterns that were answered, their features, and rewards (the negative margin), in their order; of many the best and the
    latest, so that an image which resists for long takes no more memory. `answers`: how many there were in all."""

    canvas: Canvas
    patterns: list[Patterns] = field(default_factory=list)
    features: list[Floats32] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    answers: int = 0
    _tried: set[str] = field(default_factory=set)
    _hyper: Hyperparameters = START
    _frequency: float = FREQUENCIES[1]
    _fitted_with: int = 0

    def ask(self, pattern: Patterns) -> Generator[Try, Reply, bool]:
        """Tries a pattern; whether it is the best so far."""
        pattern = pattern.copy()  # not a view of all the candidates that it was chosen from
        self._tried.add(array_digest(self.canvas.effects(pattern)))
        reply = yield Try(self.canvas.noise(pattern))
        if np.isnan(reply.margin):
            return False
        better = not self.rewards or -reply.margin > max(self.rewards)
        self.patterns.append(pattern)
        self.features.append(self.canvas.features(pattern[None])[0])
        self.rewards.append(-reply.margin)
        self.answers += 1
        if self.answers > KEPT:
            self._forget()
        return better

    def leaders(self, count: int) -> Patterns:
        """The patterns with the highest rewards, the first of equals: (at most count, channels, rows, columns)."""
        return np.stack([self.patterns[place] for place in self._order()[:count]])

    def first_new(self, patterns: Patterns, values: Doubles) -> Patterns | None:
        """The pattern of the highest value that differs from all that were tried."""
        for place in np.argsort(-values, kind="stable"):
            pattern: Patterns = patterns[place]
            if array_digest(self.canvas.effects(pattern)) not in self._tried:
                return pattern
        return None

    def process(self) -> tuple[GaussianProcess, Floats32]:
        """What the answers teach, and the weights of features that it goes by. Hyperparameters are fitted now and then."""
        features, rewards = np.stack(self.features), compressed(np.array(self.rewards))
        if self.answers >= max(FIRST_FIT, REFIT * self._fitted_with):
            self._fitted_with = self.answers
            fits = [(*likeliest(features * self.canvas.weights(one), rewards), one) for one in FREQUENCIES]
            _, self._hyper, self._frequency = max(fits, key=lambda fit: fit[0])
        weights = self.canvas.weights(self._frequency)
        return fitted(features * weights, rewards, self._hyper), weights

    def _forget(self) -> None:
        count = len(self.rewards)
        kept = sorted({*self._order()[: KEPT // 2], *range(count - KEPT // 2, count)})
        self.patterns = [self.patterns[place] for place in kept]
        self.features = [self.features[place] for place in kept]
        self.rewards = [self.rewards[place] for place in kept]

    def _order(self) -> list[int]:
        """Places, best first."""
        order: list[int] = np.argsort(-np.array(self.rewards), kind="stable").tolist()
        return order


def compressed(rewards: Doubles) -> Doubles:
    """The square roots of the distances from the best reward, negative: how bad bad patterns are does not matter."""
    gaps = rewards.max() - rewards
    found: Doubles = -np.sqrt(gaps + SOFT * np.median(gaps))
    return found

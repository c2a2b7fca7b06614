"""Attacks on made-up models: whole numbers only, so that what is found is known exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aitest_lib.registry import components
from aitest_lib.rng import rng_for
from aitest_lib.searches.image.attack import Attack, Candidate
from aitest_lib.searches.image.base import ImageSearch, Reply

IMAGE_SEARCHES = [cls for cls in components().values() if issubclass(cls, ImageSearch)]
Answers = Callable[[Candidate], Reply]


def attack_on(
    search: ImageSearch, images: Sequence[np.ndarray], names: Sequence[str] | None = None, margin: float = 9.0, **options: Any
) -> Attack:
    """An attack on images of one margin, with a generator each by their names."""
    names = [str(place) for place in range(len(images))] if names is None else names
    rngs = [rng_for(7, search.key, name) for name in names]
    return Attack(search, images, [margin] * len(images), rngs, **options)


def carried_out(attack: Attack, answers: Answers, rounds: int | None = None) -> list[list[Candidate]]:
    """Runs an attack, to its end or for some rounds; the candidates of each image in the order in which they were asked."""
    asked: list[list[Candidate]] = [[] for _ in attack.attempts]
    while (rounds is None or rounds > 0) and (candidates := attack.ask()):
        for one in candidates:
            asked[one.place].append(one)
        attack.tell(candidates, [answers(one) for one in candidates])
        rounds = None if rounds is None else rounds - 1
    return asked


def digests(asked: Sequence[Sequence[Candidate]]) -> list[list[str]]:
    return [[one.digest for one in row] for row in asked]


@dataclass
class Linear:
    """Two classes with a plane between them: the margin is `threshold` less the weighted sum of what was changed."""

    seed: np.ndarray
    weights: np.ndarray
    threshold: float

    def margin(self, image: np.ndarray) -> float:
        return float(self.threshold - (self.weights * (image.astype(np.int64) - self.seed)).sum())

    def __call__(self, candidate: Candidate) -> Reply:
        margin = self.margin(candidate.image)
        return Reply(margin, margin < 0)

    def at(self, distance: float) -> Linear:
        """The same plane, so many grey levels from the image."""
        return replace(self, threshold=distance * np.abs(self.weights).sum())

    def best(self, radius: int) -> np.ndarray:
        """The image of the ball with the smallest margin."""
        return np.clip(self.seed + radius * np.sign(self.weights), 0, 255).astype(np.uint8)


def linear(shape: tuple[int, int, int], threshold: float = 0, level: int | None = 128, up: float = 0.5) -> Linear:
    """A linear model with weights -9..9 but 0, a share `up` of them positive, around an image of one level, or of any."""
    rng = np.random.default_rng(0)
    weights = rng.integers(1, 10, shape) * np.where(rng.random(shape) < up, 1, -1)
    image = rng.integers(0, 256, shape, np.uint8) if level is None else np.full(shape, level, np.uint8)
    return Linear(image, weights, threshold)


def by_chance(broken: float = 0.0, silent: float = 0.0, salt: str = "") -> Answers:
    """Replies that hang on nothing but the image and the repeat, as random as can be."""

    def answer(candidate: Candidate) -> Reply:
        rng = rng_for(0, salt, f"{candidate.digest}/{candidate.repeat}")
        is_broken, is_silent = rng.random(2) < (broken, silent)
        size = rng.random() * 5
        return Reply(np.nan, False) if is_silent else Reply(-size if is_broken else size, bool(is_broken))

    return answer

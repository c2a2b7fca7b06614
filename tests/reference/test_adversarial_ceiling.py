"""What can be broken is known exactly for a linear model: no search breaks more, and `auto` breaks most of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from aitest_lib.registry import components
from aitest_lib.rng import rng_for
from aitest_lib.searches.image.attack import Attack
from aitest_lib.searches.image.base import ImageSearch
from aitest_lib.searches.image.margins import margins, replies

Array = np.ndarray[Any, Any]
RADIUS = 20
DELTA = RADIUS / 255
BREAKABLE, UNBREAKABLE = 25, 3
QUERIES, FEW = 500, 60
SEARCHES = {name: kind for name, kind in components().items() if issubclass(kind, ImageSearch)}
ACCESS = [
    (name, labels_only) for name, kind in SEARCHES.items() for labels_only in ((False,) if kind.needs_scores else (False, True))
]


@dataclass(frozen=True)
class Linear:
    """Multinomial logistic regression on grey levels: `slopes` (classes, pixels), `intercepts` (classes,)."""

    slopes: Array
    intercepts: Array

    def __call__(self, images: Array) -> Array:
        """Scores (n, classes)."""
        logits = images.reshape(len(images), -1) @ self.slopes.T + self.intercepts
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def least_margin(self, image: Array, label: int, radius: int) -> float:
        """Of all images within the ball: the smallest difference between the logit of the right class and the best other one.
        Against each other class a pixel is worst at one end of what it may be, whatever the other pixels are."""
        pixels = image.reshape(-1).astype(float)
        low, high = np.maximum(pixels - radius, 0), np.minimum(pixels + radius, 255)
        difference = self.slopes[label] - self.slopes
        worst = np.where(difference > 0, low, high)
        found = (difference * worst).sum(axis=1) + self.intercepts[label] - self.intercepts
        return float(np.delete(found, label).min())


@cache
def victims() -> tuple[Linear, Array, Array, Array]:
    """A model, scans of digits that it reads right (n, 8, 8, 1), what they show (n,) and which of them can be broken (n,);
    one grey level more would break the others, too."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    x, y = load_digits(return_X_y=True)
    x = np.round(x * 255 / 16)
    fitted = LogisticRegression(C=0.1, max_iter=200).fit(x[:1_000] / 255, y[:1_000])
    model = Linear(fitted.coef_ / 255, fitted.intercept_)
    images, labels = x[1_000:].astype(np.uint8).reshape(-1, 8, 8, 1), y[1_000:]
    right = np.flatnonzero(model(images).argmax(axis=1) == labels)
    least = np.array([[model.least_margin(images[at], labels[at], RADIUS + more) for more in (0, 1)] for at in right])
    breakable, barely_not = right[least[:, 0] < 0], right[(least[:, 0] > 0) & (least[:, 1] < 0)]
    chosen = np.concatenate([breakable[:BREAKABLE], barely_not[:UNBREAKABLE]])
    return model, images[chosen], labels[chosen], np.arange(len(chosen)) < BREAKABLE


def attacked(search: ImageSearch, first: int = BREAKABLE + UNBREAKABLE) -> Array:
    """Which of the first images it breaks (n,)."""
    model, images, labels, _ = victims()
    images, labels = images[:first], labels[:first]
    rngs = [rng_for(0, search.key, str(place)) for place in range(len(images))]
    attack = Attack(search, list(images), margins(model(images), labels).tolist(), rngs)
    while candidates := attack.ask():
        scores = model(np.stack([one.image for one in candidates]))
        right = labels[[one.place for one in candidates]].astype(float)
        attack.tell(candidates, replies(scores.argmax(axis=1).astype(float), scores, right, search.labels_only))
    return np.array([attempt.end == "broken" for attempt in attack.attempts])


@pytest.mark.parametrize(("radius", "broken"), [(RADIUS, BREAKABLE), (RADIUS + 1, BREAKABLE + UNBREAKABLE)])
def test_the_ceiling_is_what_the_worst_images_say(radius: int, broken: int) -> None:
    model, images, labels, _ = victims()
    found = 0
    for image, label in zip(images, labels, strict=True):
        towards = np.sign(np.delete(model.slopes - model.slopes[label], label, axis=0))
        worst = np.clip(image.reshape(-1).astype(int) + radius * towards, 0, 255)
        found += (model(worst).argmax(axis=1) != label).any()
    assert found == broken


@pytest.mark.parametrize(("name", "labels_only"), ACCESS)
def test_no_search_breaks_what_cannot_be_broken(name: str, labels_only: bool) -> None:
    *_, can = victims()
    broken = attacked(SEARCHES[name](delta=DELTA, queries=FEW, labels_only=labels_only))
    assert not broken[~can].any()
    assert broken[can].any()


def test_auto_breaks_most_of_what_can_be_broken() -> None:
    broken = attacked(SEARCHES["auto"](delta=DELTA, queries=QUERIES), BREAKABLE)
    assert broken.mean() >= 0.8

"""Breaking points of digits against the whole ladder of 64 strengths, asked of a real model with the real transforms."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from aitest_lib.demo.digits import DATA, DigitsModel
from aitest_lib.registry import component_class
from aitest_lib.rng import rng_for
from aitest_lib.searches.breaking_point import UNKNOWN, BreakingPoint

SEARCH = BreakingPoint()
QUICK = ("rotate", "gaussian_noise")
SLOW = ("scale", "shear", "gaussian_blur", "brightness")
DIGITS = 500
ENOUGH = 0.97


@pytest.fixture(scope="module")
def model() -> DigitsModel:
    return DigitsModel()


@pytest.fixture(scope="module")
def right(model: DigitsModel) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Digits the model has not seen and reads rightly: images (n, 28, 28, 1), labels (n,)."""
    with np.load(DATA / "digits_test.npz") as found:
        images, labels = found["x"][::2, ..., None], found["y"][::2]
    held = model.predict(images) == labels
    assert (len(labels), held.mean() > 0.95) == (DIGITS, True)
    return images[held], labels[held]


def whole_ladder(name: str, model: DigitsModel, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> NDArray[np.int8]:
    """1 where a level breaks the answer: (n, ladder + 1). What is random is drawn alike at every level."""
    cls = component_class(name)
    seeds = [str(number) for number in range(len(images))]
    grid = np.zeros((len(images), SEARCH.ladder + 1), np.int8)
    for level, strength in enumerate(SEARCH.strengths(cls.identity, cls.strongest)):
        transform = cls(**{cls.strength: float(strength)})
        draw = transform.draw(seeds, images.shape[1:], partial(rng_for, 0, transform.key))
        grid[:, level] = model.predict(transform.apply(images, draw.params)) != labels
    assert not grid[:, 0].any()
    return grid


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_the_smallest_failing_level_is_nearly_always_found(name: str, model: DigitsModel, right):
    grid = whole_ladder(name, model, *right)
    outcomes = SEARCH.start(len(grid))
    wanted = np.tile(SEARCH.coarse(), (len(grid), 1))
    while wanted.any():
        cases, place = np.nonzero(wanted)
        levels = wanted[cases, place]
        outcomes[cases, levels] = grid[cases, levels]
        wanted = SEARCH.next_levels(outcomes)[:, None]
    fails = grid.any(axis=1)
    found = SEARCH.smallest(outcomes)
    assert fails.sum() >= 50
    share = float((found == grid.argmax(axis=1))[fails].mean())
    print(f"{name}: {share:.3f} of {fails.sum()} right; not monotone {SEARCH.non_monotone(grid)[fails].mean():.3f}")
    assert share >= ENOUGH
    assert not found[~fails].any()
    assert (outcomes[:, 1:] != UNKNOWN).sum(axis=1).max() <= 16

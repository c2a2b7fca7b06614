"""What a model does by chance, against simulations of models that flip their answers."""

from __future__ import annotations

import numpy as np
import pytest

from aitest_lib.stats.intervals import wilson
from aitest_lib.stats.noise import flip_chance, taken_off, turned_by_chance

RNG = np.random.default_rng(0)
ROWS = 200_000


@pytest.mark.parametrize("flip", [0.0, 0.01, 0.05, 0.2, 0.4])
def test_the_flip_chance_is_that_of_the_model(flip):
    answers = RNG.random((ROWS, 3)) < flip
    differing = 1 - (answers.all(axis=1) | ~answers.any(axis=1)).mean()
    assert flip_chance(float(differing)) == pytest.approx(flip, abs=0.01)


@pytest.mark.parametrize(("flip", "comparisons"), [(0.05, 1), (0.05, 20), (0.2, 1), (0.2, 8), (0.5, 8)])
def test_what_turns_by_chance(flip, comparisons):
    row = RNG.random((ROWS, 3)) < flip
    others = RNG.random((ROWS, comparisons, 3)) < flip
    firm = row.all(axis=1) | ~row.any(axis=1)
    other_firm = others.all(axis=2) | ~others.any(axis=2)
    turned = (firm[:, None] & other_firm & (others[:, :, 0] != row[:, None, 0])).any(axis=1).mean()
    expected = turned_by_chance(flip, comparisons)
    assert expected >= turned - 0.005  # comparisons with one row go together, so that it is at most this
    assert comparisons > 1 or expected == pytest.approx(turned, abs=0.003)


def test_what_is_taken_off_stays_a_share():
    share = wilson(30, 1000)
    left = taken_off(share, 0.01)
    assert left.value == pytest.approx(0.02)
    low, high = share.bounds(0.95)
    assert left.bounds(0.95) == pytest.approx((low - 0.01, high - 0.01))
    assert taken_off(share, 0.5).value == 0 and taken_off(share, 0.5).bounds(0.95) == (0, 0)

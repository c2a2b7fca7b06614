"""Cohen's kappa against scikit-learn, and its bounds against repeated samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from aitest_lib.metrics.agreement import cohen_kappa, kappa_of


def table(first, second, k):
    return np.bincount(np.asarray(first) * k + np.asarray(second), minlength=k * k).reshape(k, k)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=60))
def test_it_is_that_of_scikit_learn(pairs):
    first, second = zip(*pairs, strict=True)
    ours = cohen_kappa(table(first, second, 3))
    if ours.value is None:
        assert len({*first, *second}) == 1
        return
    assert ours.value == pytest.approx(cohen_kappa_score(first, second, labels=[0, 1, 2]))


def test_by_hand():
    # 20 + 15 of 50 agree: 0.7; by chance 25/50 * 30/50 + 25/50 * 20/50 = 0.5; (0.7 - 0.5) / 0.5
    assert kappa_of(np.array([[20, 5], [10, 15]])) == pytest.approx(0.4)


def test_the_bounds_hold_as_often_as_they_say():
    rng = np.random.default_rng(0)
    shares = np.array([[0.5, 0.1], [0.05, 0.35]])
    truth = kappa_of(shares * 1e6)
    inside = 0
    for number in range(300):
        low, high = cohen_kappa(rng.multinomial(300, shares.ravel()).reshape(2, 2), number).bounds(0.95)
        inside += low <= truth <= high
    assert 0.85 < inside / 300 < 0.95  # two one-sided bounds at 95 %

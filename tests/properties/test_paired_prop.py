"""What must hold for every pair of runs: no side is favoured, what both share says nothing, the order plays no part."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from aitest_lib.stats.paired import mcnemar_midp, paired_rates, sign_flip

differences = st.lists(st.integers(-6, 6), max_size=60)
counts = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=40)


def arrays(rows):
    """Base failures, candidate failures and cases of each seed."""
    base, candidate, more = np.array(rows, np.int64).T
    return base, candidate, np.maximum(base, candidate) + more


@given(differences, st.integers(2, 5), st.randoms(use_true_random=False))
def test_sign_flip(values, factor, random):
    p = sign_flip(values)
    assert 0 < p <= 1
    shuffled = list(values)
    random.shuffle(shuffled)
    for same in ([-value for value in values], [factor * value for value in values], [*values, 0, 0], shuffled):
        assert np.isclose(sign_flip(same), p, rtol=1e-6, atol=1e-12)


@given(st.integers(0, 300), st.integers(0, 300))
def test_midp(b, c):
    p = mcnemar_midp(b, c)
    assert p == mcnemar_midp(c, b)
    assert 0 < p <= 1
    if c >= b:
        assert mcnemar_midp(b, c + 1) <= p + 1e-12


@settings(deadline=None, max_examples=60)
@given(counts)
def test_swapping_the_runs_turns_the_change_around(rows):
    base, candidate, cases = arrays(rows)
    there, back = paired_rates(base, candidate, cases), paired_rates(candidate, base, cases)
    assert np.isclose(there.p_value, back.p_value, rtol=1e-6)
    assert there.change.n == back.change.n
    if there.change.value is None:
        assert there.p_value == 1
        return
    assert np.isclose(there.change.value, -back.change.value, atol=1e-12)
    low, high = there.change.bounds(0.975)
    mirrored = back.change.bounds(0.975)
    assert np.allclose((low, high), (-mirrored[1], -mirrored[0]), atol=1e-6)
    assert -1 <= low <= there.change.value <= high <= 1


@settings(deadline=None, max_examples=60)
@given(counts)
def test_what_is_called_a_change_has_an_interval_without_zero(rows):
    """With several cases a seed. (McNemar's mid-p and Tango's interval may differ in their last digits.)"""
    base, candidate, cases = arrays(rows)
    found = paired_rates(base, candidate, cases + 1)
    low, high = found.change.bounds(0.975)
    if found.p_value <= 0.05 and (cases + 1).max() > 1:
        assert low > -1e-9 or high < 1e-9


@given(counts)
def test_equal_runs_show_nothing(rows):
    base, _, cases = arrays(rows)
    found = paired_rates(base, base, cases)
    assert found.p_value == 1
    assert found.change.value in (0, None)

"""How faithful a tree must be on the rows that choose it, so that it clears its gate on others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitest_lib.stats.clusters import rate_of_rows
from aitest_lib.stats.intervals import wilson
from aitest_tasks.surrogate import needed_share


@given(st.floats(0.5, 0.98), st.integers(20, 20_000), st.integers(20, 20_000))
def test_it_is_more_than_the_gate_and_falls_with_the_rows(wanted, pruned_on, held_out):
    needed = needed_share(wanted, pruned_on, held_out, 0.95)
    assert wanted < needed <= 1
    assert needed_share(wanted, 10 * pruned_on, held_out, 0.95) <= needed
    assert needed_share(wanted, pruned_on, 10 * held_out, 0.95) <= needed


@pytest.mark.parametrize(("pruned_on", "held_out"), [(600, 600), (1_500, 2_000), (300, 3_000)])
def test_such_a_tree_clears_the_gate_nine_times_of_ten(pruned_on, held_out):
    rng, wanted = np.random.default_rng(0), 0.9
    needed = needed_share(wanted, pruned_on, held_out, 0.95)
    cleared = []
    while len(cleared) < 2_000:
        truth = rng.uniform(0.88, 0.99)  # a tree as it may come, kept if it looks just faithful enough
        if abs(rng.binomial(pruned_on, truth) / pruned_on - needed) < 0.002:
            low, _ = wilson(int(rng.binomial(held_out, truth)), held_out).bounds(0.95)
            cleared.append(low >= wanted)
    assert 0.85 < np.mean(cleared) < 0.96


def test_rows_made_of_a_few_are_worth_no_more_than_these():
    rng = np.random.default_rng(1)
    truth = rng.random(100) < 0.9
    descent = rng.integers(0, 100, 20_000)
    many, alone = rate_of_rows(truth[descent], descent), wilson(int(truth.sum()), 100)
    assert many.value == pytest.approx(truth.mean(), abs=0.03)
    assert many.n == 100
    (low, high), (least, most) = many.bounds(0.95), alone.bounds(0.95)
    assert high - low > 0.8 * (most - least)
    assert rate_of_rows(truth, None) == alone

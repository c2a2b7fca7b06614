"""The pruned subtree that is chosen is the best of all, by counting them all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.small_trees import random_pruning, subtrees

from aitest_lib.surrogates import optimum
from aitest_lib.surrogates.optimum import undominated
from aitest_lib.surrogates.pruning import Limits, cheapest, cut_of
from aitest_lib.surrogates.search import choose, front

seeds = st.integers(0, 2**32 - 1)
some_limits = st.builds(
    Limits,
    apl=st.none() | st.sampled_from([0.0, 1.0, 1.5, 2.0, 2.5, 3.0, 3.25, 4.0]),
    epl=st.none() | st.floats(0, 5),
    mpl=st.none() | st.integers(0, 7),
    leaves=st.none() | st.integers(1, 10),
    fidelity=st.none() | st.floats(0.2, 0.9),
)


def sizes(pruning):
    """Errors, leaves, rows x depth, apl and mpl of every subtree."""
    found = []
    for split in subtrees(pruning.tree):
        cut = np.ones(len(pruning.reach), bool)
        cut[list(split)] = False
        errors, leaves, path, depths = pruning.totals(cut)
        found.append((errors, leaves, path, depths / leaves, pruning.tree.depth[pruning.kept_leaves(cut)].max()))
    return found


def within(size, limits, rows):
    errors, leaves, path, apl, mpl = size
    return (
        (limits.apl is None or apl <= limits.apl + 1e-9)
        and (limits.epl is None or path / rows <= limits.epl + 1e-9)
        and (limits.mpl is None or mpl <= limits.mpl)
        and (limits.leaves is None or leaves <= limits.leaves)
        and (limits.fidelity is None or 1 - errors / rows >= limits.fidelity - 1e-9)
    )


@settings(max_examples=200, deadline=None)
@given(seeds, st.integers(1, 9), some_limits)
def test_the_choice_is_the_best_of_all_subtrees(seed, leaves, limits):
    pruning = random_pruning(np.random.default_rng(seed), leaves)
    every = sizes(pruning)
    fits = [size for size in every if within(size, limits, pruning.rows)]
    choice = choose([pruning], limits)
    assert choice.exact
    assert choice.satisfied == bool(fits)
    if not fits or limits.fidelity is None:
        structural = Limits(apl=limits.apl, epl=limits.epl, mpl=limits.mpl, leaves=limits.leaves)
        fits = [size for size in every if within(size, structural, pruning.rows)]
        wanted = min((errors, size, path) for errors, size, path, *_ in fits)
    else:
        size, path, errors = min((size, path, errors) for errors, size, path, *_ in fits)
        wanted = (errors, size, path)
    best = choice.best
    got = (round((1 - best.fidelity) * pruning.rows), best.leaves, round(best.epl * pruning.rows))
    assert got == wanted


def test_a_search_that_is_cut_short_says_so_and_keeps_within_the_limits(monkeypatch):
    monkeypatch.setattr(optimum, "MAX_STATES", 1)
    exact = set()
    for seed in range(60):
        pruning = random_pruning(np.random.default_rng(seed), 40, rows=400)
        choice = choose([pruning], Limits(apl=4, epl=3.3))
        exact.add(choice.exact)
        assert choice.satisfied
        assert (choice.best.apl <= 4 + 1e-9, choice.best.epl <= 3.3 + 1e-9) == (True, True)
    assert exact == {True, False}


@settings(max_examples=100, deadline=None)
@given(seeds, st.integers(1, 9), st.lists(st.floats(0, 3), min_size=4, max_size=4), st.integers(0, 6))
def test_the_cheapest_subtree_is_the_cheapest_of_all(seed, leaves, prices, depth):
    pruning = random_pruning(np.random.default_rng(seed), leaves)
    prices = np.array(prices) - [0, 0, 0, 1]  # longer paths may even be wanted: eq. 1 of a limit above the mean
    costs = [
        (errors, size, path, apl * size) @ prices
        for errors, size, path, apl, mpl in map(np.array, sizes(pruning))
        if mpl <= depth
    ]
    found = cheapest(pruning, prices, depth)
    cut = cut_of(pruning, found)
    assert found.best[0] == pytest.approx(min(costs))
    assert pruning.totals(cut) @ prices == pytest.approx(min(costs))
    assert pruning.tree.depth[pruning.kept_leaves(cut)].max() <= depth


@settings(max_examples=50, deadline=None)
@given(seeds, st.integers(1, 30))
def test_the_front_holds_the_choice_and_nothing_beaten(seed, leaves):
    pruning = random_pruning(np.random.default_rng(seed), leaves)
    chosen = choose([pruning], Limits(leaves=4)).best
    shown = front([pruning], chosen)
    points = np.array([(1 - one.fidelity, one.apl, one.epl, one.mpl, one.leaves) for one in shown])
    assert chosen in shown
    assert len(shown) <= 40
    assert [one.leaves for one in shown] == sorted(one.leaves for one in shown)
    others = np.array([one is not chosen for one in shown])
    for point in points[others]:
        assert not ((points[others] <= point).all(axis=1) & (points[others] < point).any(axis=1)).any()


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=30), st.integers(1, 3))
def test_undominated_points(points, width):
    points = np.array(points, float)[:, :width]
    kept = points[undominated(points)]
    assert len({tuple(point) for point in kept}) == len(kept)
    wanted = {tuple(point) for point in points if not ((points <= point).all(axis=1) & (points < point).any(axis=1)).any()}
    assert {tuple(point) for point in kept} == wanted

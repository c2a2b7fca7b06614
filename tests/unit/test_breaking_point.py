"""The search for the smallest failing strength, on outcomes made by hand and at random."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from aitest_lib.errors import InputError
from aitest_lib.searches.breaking_point import BROKE, HELD, UNKNOWN, UNUSABLE, BreakingPoint, Outcomes

SEARCH = BreakingPoint()


def searched(search: BreakingPoint, grid: NDArray[np.int8]) -> Outcomes:
    """What is known in the end of cases whose whole ladders (n, ladder + 1) are `grid`."""
    outcomes = search.start(len(grid))
    outcomes[:, search.coarse()] = grid[:, search.coarse()]
    while (wanted := search.next_levels(outcomes)).any():
        cases = np.flatnonzero(wanted)
        assert (outcomes[cases, wanted[cases]] == UNKNOWN).all()  # nothing is asked twice
        outcomes[cases, wanted[cases]] = grid[cases, wanted[cases]]
    return outcomes


def asked(outcomes: Outcomes) -> NDArray[np.int64]:
    return (outcomes[:, 1:] != UNKNOWN).sum(axis=1)


def ladders(*broken: range | list[int]) -> NDArray[np.int8]:
    """One ladder for each list of the levels that break."""
    grid = np.full((len(broken), SEARCH.ladder + 1), HELD, np.int8)
    for row, levels in zip(grid, broken, strict=True):
        row[list(levels)] = BROKE
    return grid


def test_a_ladder_goes_from_the_identity_to_the_strongest():
    up = SEARCH.strengths(0.0, 64.0)
    assert up.tolist() == list(range(65))
    down = SEARCH.strengths(1.0, 0.2)
    assert (down[0], down[-1]) == (1.0, pytest.approx(0.2))
    assert (np.diff(down) < 0).all()


def test_coarse_levels_are_even_and_end_at_the_strongest():
    coarse = SEARCH.coarse()
    assert coarse.tolist() == [6, 13, 19, 26, 32, 38, 45, 51, 58, 64]
    assert BreakingPoint(levels=1).coarse().tolist() == [64]


def test_every_monotone_ladder_ends_at_its_first_failing_level():
    grid = ladders([], *(range(first, 65) for first in range(1, 65)))
    outcomes = searched(SEARCH, grid)
    assert SEARCH.smallest(outcomes).tolist() == list(range(65))
    assert not SEARCH.non_monotone(outcomes).any()
    assert asked(outcomes)[0] == SEARCH.levels  # one that does not break costs no more than the coarse levels
    assert asked(outcomes).max() <= SEARCH.queries


def test_the_first_failing_bracket_counts_not_the_last():
    """Breaks at 20..28 and again from 50 on: bisection over the whole ladder would end at 50."""
    outcomes = searched(SEARCH, ladders([*range(20, 29), *range(50, 65)], range(20, 29)))
    assert SEARCH.smallest(outcomes).tolist() == [20, 20]
    assert SEARCH.non_monotone(outcomes).tolist() == [True, True]


def test_queries_that_are_left_go_into_the_gaps_below():
    """Bisection between 19 and 26 asks 22, 24 and 25, which hold; level 21 breaks all the same."""
    grid = ladders([21, *range(26, 65)])
    assert SEARCH.smallest(searched(SEARCH, grid)).tolist() == [21]
    assert SEARCH.smallest(searched(BreakingPoint(queries=13), grid)).tolist() == [26]


def test_a_level_without_an_answer_is_not_asked_again_and_decides_nothing():
    grid = ladders(range(23, 65), range(23, 65))
    grid[0, 22] = UNUSABLE  # what bisection asks of 20..25
    grid[1, 26] = UNUSABLE  # a coarse one
    outcomes = searched(SEARCH, grid)
    assert SEARCH.smallest(outcomes).tolist() == [23, 23]
    assert (asked(outcomes) <= SEARCH.queries).all()
    nothing = searched(SEARCH, np.full((1, 65), UNUSABLE, np.int8))
    assert (SEARCH.smallest(nothing).tolist(), SEARCH.non_monotone(nothing).tolist()) == ([0], [False])


def test_no_cases_are_no_error():
    outcomes = SEARCH.start(0)
    assert [len(found(outcomes)) for found in (SEARCH.next_levels, SEARCH.smallest, SEARCH.non_monotone)] == [0, 0, 0]


@pytest.mark.parametrize(("levels", "expected"), [(0, "1 to 16"), (17, "1 to 16"), (9, "1 to 8")])
def test_more_levels_than_queries_are_refused(levels: int, expected: str):
    with pytest.raises(InputError, match=f"got {levels} levels, expected {expected}"):
        BreakingPoint(levels=levels, ladder=8 if levels == 9 else 64)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 16), st.sampled_from([16, 33, 64]))
def test_what_is_found_is_true_of_any_ladder(seed: int, levels: int, ladder: int):
    rng = np.random.default_rng(seed)
    search = BreakingPoint(levels=levels, ladder=ladder)
    grid = rng.choice([HELD, BROKE, UNUSABLE], (20, ladder + 1), p=[0.6, 0.3, 0.1]).astype(np.int8)
    grid[:, 0] = HELD
    outcomes = searched(search, grid)
    found = search.smallest(outcomes)
    breaks = found > 0
    assert (asked(outcomes) <= search.queries).all()
    assert (asked(outcomes)[~breaks] == levels).all()
    assert (grid[breaks, found[breaks]] == BROKE).all()
    first = (grid == BROKE).argmax(axis=1)
    assert (found[breaks] >= first[breaks]).all()
    assert not (search.non_monotone(outcomes) & ~search.non_monotone(grid)).any()
    alone = np.concatenate([search.smallest(searched(search, row[None])) for row in grid])
    assert (alone == found).all()

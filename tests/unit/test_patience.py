"""When a model in a process counts as hanging, and when it is given up."""

from __future__ import annotations

import pytest

from aitest_lib.models.processes.patience import DEATHS, DEATHS_AT_FIRST, FIRST_S, HANGS, LEAST_S, Patience


def after(*calls):
    patience = Patience()
    for rows, seconds in calls:
        patience.answered(rows, seconds)
    return patience


@pytest.mark.parametrize(
    ("calls", "rows", "seconds"),
    [
        ([], 1, FIRST_S),
        ([(1, 0.1), (50, 0.1)], 256, FIRST_S),
        ([(1, 0.1)] * 3, 256, 20 * 0.1 * 256),  # nothing better is known than single rows
        ([(1, 0.1), (50, 0.1), (50, 0.05)], 256, LEAST_S),  # 0.002 s a row
        ([(1, 0.1), (50, 5.0), (50, 2.0)], 256, 20 * 0.1 * 256),  # the slowest counts
        ([(50, 5.0), (50, 5.0), (1, 9.0)], 256, 20 * 0.1 * 256),  # a single row after batches says nothing
        ([(50, 500.0)] * 3, 1, 200.0),
    ],
)
def test_the_limit(calls, rows, seconds):
    assert after(*calls).limit_s(rows) == pytest.approx(seconds)


def test_single_inputs_that_die_in_a_row_count():
    first = Patience()
    assert [first.lost(1, hung=False) for _ in range(DEATHS_AT_FIRST)] == [False] * (DEATHS_AT_FIRST - 1) + [True]
    later = after((1, 0.1))
    assert [later.lost(1, hung=False) for _ in range(DEATHS)].count(True) == 1
    assert later.lost(1, hung=False)


def test_batches_say_nothing_and_an_answer_clears():
    patience = after((1, 0.1))
    assert not any(patience.lost(64, hung=hung) for hung in (False, True) for _ in range(100))
    for _ in range(10):
        assert not any(patience.lost(1, hung=False) for _ in range(DEATHS - 1))
        assert not any(patience.lost(1, hung=True) for _ in range(HANGS - 1))
        patience.answered(1, 0.1)


def test_hangs_before_any_answer_are_few():
    patience = Patience()
    assert [patience.lost(rows, hung=True) for rows in (1, 50, 25)] == [False, False, True]

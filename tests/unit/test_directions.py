"""Curves of a moved column: who is compared with whom, and what goes against the expectation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from aitest_lib.scorers.directions import OWN, Curves, Watched, direction_report
from aitest_lib.stats.intervals import wilson

NAN = np.nan


def curves(values, own, place, upwards=True, tolerance=0.0) -> Curves:
    return Curves.of(np.array(values, float), np.array(own, float), np.array(place, float), upwards, tolerance)


class TestNeighbours:
    def test_each_value_is_compared_on_the_way_to_the_row_itself(self):
        # The row stands between the values at 1 and 2.
        found = curves([[1, 2, 3, 4]], [2.5], [1.5])
        assert found.neighbour.tolist() == [[1, OWN, OWN, 2]]
        assert found.before.tolist() == [[2, 2.5, 2.5, 3]]

    def test_its_own_value_is_the_row_itself(self):
        found = curves([[1, 2, 3]], [2], [1])
        assert found.neighbour.tolist() == [[1, OWN, 1]]

    def test_a_missing_answer_is_stepped_over(self):
        found = curves([[1, NAN, 3, NAN, 5]], [0.5], [-0.5])
        assert found.neighbour.tolist() == [[OWN, 0, 0, 2, 2]]

    def test_below_all_and_above_all_values(self):
        assert curves([[1, 2]], [0], [-0.5]).neighbour.tolist() == [[OWN, 0]]
        assert curves([[1, 2]], [3], [1.5]).neighbour.tolist() == [[1, OWN]]

    def test_without_a_place_each_is_compared_with_the_one_before(self):
        found = curves([[3, 2, 1]], [9], [NAN])
        assert found.against.tolist() == [[False, True, True]]  # the first has nothing to be compared with


class TestAgainst:
    def test_a_dip_is_found_wherever_the_row_stands(self):
        dip = [1, 2, 1.5, 4]  # falls between the second and the third value
        for place, own in ((-0.5, 0.5), (0, 1), (1.5, 1.75), (3, 4), (3.5, 5)):
            found = curves([dip], [own], [place])
            assert found.against.any(), place
        # On the left the third value is compared with the second, on the right the second with the third.
        assert curves([dip], [0.5], [-0.5]).against.tolist() == [[False, False, True, False]]
        assert curves([dip], [5], [3.5]).against.tolist() == [[False, True, False, False]]

    def test_downwards_is_the_mirror(self):
        rising = curves([[1, 2, 3]], [0], [-0.5], upwards=False)
        assert rising.against.tolist() == [[True, True, True]]
        assert not curves([[3, 2, 1]], [4], [-0.5], upwards=False).against.any()

    def test_the_tolerance_is_allowed(self):
        assert not curves([[1.0, 0.9]], [1.0], [0], tolerance=0.1 + 1e-12).against.any()
        assert curves([[1.0, 0.9]], [1.0], [0], tolerance=0.05).move[0, 1] == pytest.approx(0.1)

    @given(arrays(float, (5, 6), elements=st.floats(0, 1)), st.lists(st.floats(-0.5, 5.5), min_size=5, max_size=5))
    @settings(max_examples=100, deadline=None)
    def test_a_curve_that_only_rises_is_never_against_it(self, values, places):
        places = np.round(np.array(places) * 2) / 2
        rising = np.sort(values, axis=1)
        grid = np.arange(6)
        own = np.array([np.interp(place, grid, row) for place, row in zip(places, rising, strict=True)])
        assert not Curves.of(rising, own, places, True, 1e-9).against.any()
        # and one that only falls is against it wherever it moves
        falling = Curves.of(-rising, -own, places, True, 1e-9)
        moved = np.ptp(np.column_stack([rising, own]), axis=1) > 1e-6
        assert (falling.against.any(axis=1) | ~moved).all()


def test_the_report_has_the_mean_curve_and_the_stretches():
    found = curves([[0.1, 0.5, 0.3], [0.2, 0.6, 0.6], [0.3, NAN, 0.1]], [0.1, 0.2, 0.3], [0, 0, 0])
    rate = wilson(2, 3)
    report = direction_report("income", "increasing", Watched("score", "yes", 1e-9, 1), [10, 20, 30], found, rate, 0.95)
    assert [step.mean for step in report.steps] == pytest.approx([0.2, 0.55, 1 / 3])
    assert [step.against for step in report.steps] == [0, 0, 1]
    assert (report.rows, report.violating) == (3, 2)  # the third falls past its missing answer
    assert report.largest == pytest.approx(0.2)
    [stretch] = report.stretches
    assert (stretch.start, stretch.end, stretch.rows, stretch.against) == (20, 30, 2, 1)
    assert stretch.mean == stretch.largest == pytest.approx(0.2)


def test_a_decision_is_a_share_with_its_own_bounds():
    found = curves([[0, 1], [1, 1], [0, 0]], [0, 1, 0], [0, 0, 0])
    report = direction_report("debts", "never_hurts", Watched("decision", "yes", 0.0, 1), [1, 2], found, wilson(0, 3), 0.95)
    assert [step.mean for step in report.steps] == pytest.approx([1 / 3, 2 / 3])
    assert report.steps[0].low == pytest.approx(wilson(1, 3).bounds(0.95)[0])


def test_a_dip_between_two_values_lies_between_them():
    # The row stands at 15, where the score is lower than at 10: no two of the values tried show it.
    found = curves([[0.2, 0.4]], [0.1], [0.5])
    report = direction_report("income", "increasing", Watched("score", "yes", 1e-9, 1), [10, 20], found, wilson(1, 1), 0.95)
    [stretch] = report.stretches
    assert (stretch.start, stretch.end, stretch.rows, stretch.against) == (10, 20, 1, 1)
    assert stretch.largest == pytest.approx(0.1)

"""From a model's answers to what a search gets to know."""

from __future__ import annotations

import numpy as np
import pytest

from aitest_lib.searches.image.base import Reply
from aitest_lib.searches.image.margins import margins, replies


def test_replies_say_what_is_broken_and_how_far():
    scores = np.array([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.0, 0.0, 1.0], [np.nan, 0.5, 0.5], [0.7, 0.2, 0.1]])
    codes, right = np.array([0.0, 1, 2, 1, np.nan]), np.zeros(5)
    made = replies(codes, scores, right, labels_only=False)
    assert [one.broken for one in made] == [False, True, True, True, False]
    assert [one.margin for one in made[:2]] == pytest.approx([np.log(3.5), -np.log(3.5)])
    assert np.isfinite(made[2].margin)
    assert made[2].margin < -20
    assert made[3].margin == -1.0  # scores that are none: the label alone
    assert np.isnan(made[4].margin)
    for alone in (replies(codes, scores, right, labels_only=True), replies(codes, None, right, labels_only=False)):
        assert [one.margin for one in alone[:4]] == [1, -1, -1, -1]
        assert [one.broken for one in alone] == [one.broken for one in made]
    assert replies(np.array([0.0]), np.array([[0.4]]), np.zeros(1), labels_only=False) == [Reply(1.0, False)]


def test_margins_leave_the_scores_as_they_were():
    scores = np.array([[0.5, 0.5], [0.9, 0.1]])
    before = scores.copy()
    assert margins(scores, np.array([0.0, 1.0])) == pytest.approx([0, -np.log(9)])
    assert np.array_equal(scores, before)

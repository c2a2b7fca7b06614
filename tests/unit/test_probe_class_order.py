"""Scores in another order than the card's classes are noticed: every figure made of them would be wrong."""

from __future__ import annotations

import numpy as np
import pytest

from aitest_lib.models.probe import class_order_problems
from aitest_lib.types import Predictions

CLASSES = ("eight", "five", "four", "nine")


def answered(order, n=40, errors=0):
    scores = np.random.default_rng(0).dirichlet(np.full(len(order), 0.3), n)
    labels = np.array([order[place] for place in scores.argmax(axis=1)], dtype=object)
    labels[:errors] = None
    return Predictions(labels, scores, np.full(n, None, dtype=object))


def test_scores_in_the_order_of_the_classes_are_fine():
    assert class_order_problems(answered(CLASSES, errors=3), CLASSES) == []


@pytest.mark.parametrize("classes", [CLASSES, ("no", "yes")])
def test_another_order_is_told_with_how_many_answers_show_it(classes):
    [problem] = class_order_problems(answered(classes[::-1]), classes)
    assert "in 40 of 40 answers" in problem
    assert "write `classes` in the order" in problem


def test_a_threshold_of_the_models_own_is_none_of_it():
    found = answered(("no", "yes"))
    found.labels[found.scores[:, 1] < 0.9] = "no"
    assert class_order_problems(found, ("no", "yes")) == []


def test_too_few_answers_or_no_scores_say_nothing():
    assert class_order_problems(answered(CLASSES[::-1], n=4), CLASSES) == []
    assert class_order_problems(Predictions(np.array(["no"] * 9, object), None, np.full(9, None)), ("no", "yes")) == []

"""When is an answer right, and when are two the same."""

from __future__ import annotations

import numpy as np
import pytest

from aitest_lib.errors import InputError
from aitest_lib.scorers.oracle import UNKNOWN, Classes, Oracle, classes_of, regression_oracle


class TestClasses:
    def test_labels_are_compared_as_values(self):
        classes = Classes((0, 1, "1", True))
        assert classes.codes([1, 1.0, np.int64(1), "1", True, False, None, 2, 0.0]).tolist() == [1, 1, 1, 2, 3, -1, -1, -1, 0]
        assert classes.names == ["0", "1", "1", "true"]

    def test_the_card_fixes_the_classes_and_their_order(self):
        assert classes_of(["yes", "no"], ["no"], ["yes", "maybe"]).labels == ("yes", "no")
        assert classes_of([1, 0], [0.0, 1.0], []).labels == (1, 0)

    def test_without_a_card_all_that_was_seen_are_classes_sorted(self):
        assert classes_of(None, ["b", "a"], ["a", "c"]).labels == ("a", "b", "c")
        assert classes_of(None, [">50K", "<=50K"], [">50K"]).labels == ("<=50K", ">50K")  # as scikit-learn orders scores
        assert classes_of(None, [10, 2], [2.0, 1, -1, -2.5]).codes([-2.5, -1, 1, 2, 10]).tolist() == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize(
        ("card", "data", "answered", "hint"),
        [
            (["yes", "no"], ["yes", "maybe"], [], "name the right label column, or set `classes` in the card"),
            (["yes", "no"], ["Yes", "no"], [], "they differ in type, case or spaces only"),
            ([0, 1], ["0", "1"], [], "they differ in type, case or spaces only"),
            (None, [" >50K."], [">50K"], "they differ in type, case or spaces only"),
            (None, ["cat"], ["yes"], "name the right label column"),
        ],
    )
    def test_labels_of_another_set(self, card, data, answered, hint):
        with pytest.raises(InputError) as caught:
            classes_of(card, data, answered)
        assert str(caught.value).startswith("got labels ")
        assert hint in str(caught.value)


class TestClassifier:
    ORACLE = Oracle(classifier=True)

    def test_right(self):
        answers, labels = np.array([0.0, 1, UNKNOWN, UNKNOWN]), np.array([0.0, 0, 0, UNKNOWN])
        assert self.ORACLE.right(answers, labels).tolist() == [True, False, False, False]
        assert self.ORACLE.right(answers, None).all()

    def test_same(self):
        assert self.ORACLE.same(np.array([0.0, 1]), np.array([0.0, 0])).tolist() == [True, False]


class TestRegressor:
    def test_tolerances(self):
        oracle = Oracle(classifier=False, tolerance=0.5, seed_tolerance=2)
        answers = np.array([1.0, 3, 3.1, np.nan])
        assert oracle.right(answers, np.full(4, 1.0)).tolist() == [True, True, False, False]
        assert oracle.same(answers, answers + np.array([0.5, -0.5, 0.6, 0])).tolist() == [True, True, False, False]

    def test_a_seed_is_right_within_the_90th_percentile_of_clean_errors(self):
        labels = np.zeros(11)
        answers = np.arange(11.0)
        oracle = regression_oracle(answers, labels, None, None)
        assert oracle.seed_tolerance == 9
        assert regression_oracle(np.append(answers, np.nan), np.zeros(12), None, None) == oracle
        assert oracle.right(answers, labels).sum() == 10

    def test_an_answer_may_move_by_a_tenth_of_the_labels_spread_however_bad_the_model_is(self):
        labels = np.array([0.0, 2, 4])
        for answers in (labels, labels * -1000):
            assert regression_oracle(answers, labels, None, None).tolerance == pytest.approx(np.std(labels) / 10, rel=1e-5)

    def test_what_is_given_counts(self):
        oracle = regression_oracle(np.arange(5.0), np.zeros(5), 0.25, None)
        assert (oracle.tolerance, oracle.seed_tolerance) == (0.25, 3.6)
        assert regression_oracle(np.arange(5.0), np.zeros(5), None, 7).seed_tolerance == 7

    def test_without_labels_a_tenth_of_the_spread(self):
        answers = np.array([0.0, 2, 4, np.nan])
        assert regression_oracle(answers, None, None, None).tolerance == pytest.approx(0.1 * np.std([0, 2, 4]), rel=1e-5)

    def test_nothing_answered(self):
        assert regression_oracle(np.full(3, np.nan), np.zeros(3), None, None).tolerance == 0
        assert regression_oracle(np.full(3, np.nan), None, None, None).tolerance == 0

    def test_the_order_of_the_seeds_plays_no_part(self):
        rng = np.random.default_rng(0)
        answers = rng.normal(0, 1e6, 501)
        for labels in (None, rng.normal(size=501)):
            shuffled = rng.permutation(501)
            one = regression_oracle(answers, labels, None, None)
            assert regression_oracle(answers[shuffled], None if labels is None else labels[shuffled], None, None) == one

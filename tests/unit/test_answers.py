"""Raw answers to predictions: counts, kinds of labels, forms of scores, and hand-computed thresholds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitest_lib.errors import ModelAnswerError
from aitest_lib.models.answers import all_failed, joined, to_predictions
from aitest_lib.models.base import private_mask
from aitest_lib.models.withholding import withholding
from aitest_lib.types import ModelInfo

FREE = ModelInfo(name="m", type="tabular-classifier", digest="d")
BINARY = ModelInfo(name="m", type="tabular-classifier", digest="d", classes=("no", "yes"))
THREE = ModelInfo(name="m", type="tabular-classifier", digest="d", classes=(0, 1, 2))
FLAGS = ModelInfo(name="m", type="tabular-classifier", digest="d", classes=(False, True))
NUMBER = ModelInfo(name="m", type="tabular-regressor", digest="d")


@pytest.mark.parametrize(
    "given_labels",
    [["a", "b"], ("a", "b"), np.array(["a", "b"]), pd.Series(["a", "b"], index=[7, 8]), np.array(["a", "b"], dtype=object)],
)
def test_containers(given_labels):
    assert to_predictions(given_labels, None, 2, FREE).labels.tolist() == ["a", "b"]


def test_kinds_of_labels_are_kept_apart():
    labels = to_predictions([True, 1, 1.0, "1", np.int64(1), np.bool_(True)], None, 6, FREE).labels
    assert [type(label) for label in labels] == [bool, int, float, str, int, bool]


@pytest.mark.parametrize(
    ("label", "said"),
    [
        (None, "got nothing (null) as label"),
        (float("nan"), "got nan as label"),
        (["no"], "got a list as label"),
        ({"l": "no"}, "got an object as label"),
        ("maybe", "got the label 'maybe', expected one of ['no', 'yes']"),
    ],
)
def test_an_unusable_label_fails_its_row(label, said):
    answers = to_predictions(["yes", label], [[0.5, 0.5], [0.5, 0.5]], 2, BINARY)
    assert answers.labels.tolist() == ["yes", None]
    assert answers.errors[0] is None
    assert said in answers.errors[1]
    assert np.isnan(answers.scores[1]).all()


WITHHELD = "(not quoted, since private columns were sent)"


@pytest.mark.parametrize(
    ("label", "scores", "info", "said"),
    [
        ("ALICE", None, BINARY, f"got a label that is not among the classes {WITHHELD}, expected one of ['no', 'yes']"),
        (1980517, None, THREE, f"got a label that is not among the classes {WITHHELD}, expected one of [0, 1, 2]"),
        ("ALICE", None, NUMBER, "got text as prediction, expected a finite number"),
        ("no", [0.25, 0.1875], BINARY, "got scores that do not sum to 1, expected"),
    ],
)
def test_nothing_is_quoted_while_private_columns_are_sent(label, scores, info, said):
    with withholding(True):
        reason = to_predictions([label], None if scores is None else [scores], 1, info).errors[0]
    assert said in reason
    assert not any(value in reason for value in ("ALICE", "1980517", "0.4375"))
    assert any(value in reason_now(label, scores, info) for value in ("ALICE", "1980517", "0.4375"))


def reason_now(label, scores, info):
    return to_predictions([label], None if scores is None else [scores], 1, info).errors[0]


@pytest.mark.parametrize(
    ("label", "info", "twin"), [("0", THREE, "0"), (1.0, THREE, "1"), (1, FLAGS, "true"), ("True", FLAGS, "true")]
)
def test_a_label_of_another_type_is_named(label, info, twin):
    answers = to_predictions([label, info.classes[0]], None, 2, info)
    assert f"it differs from {twin} by type only" in answers.errors[0]
    assert answers.errors[1] is None


@pytest.mark.parametrize("n", [0, 1, 3])
def test_the_count_must_be_right(n):
    with pytest.raises(ModelAnswerError, match=f"sent 2 rows, got {n} prediction{'s' if n != 1 else ''}, expected 2"):
        to_predictions(["a"] * n, None, 2, FREE)
    with pytest.raises(ModelAnswerError, match="sent 2 rows, got text as predictions"):
        to_predictions("ab", None, 2, FREE)


def test_one_row_may_be_a_scalar():
    assert to_predictions("a", None, 1, FREE).labels.tolist() == ["a"]
    for score in ([0.2, 0.8], [[0.2, 0.8]], {"no": 0.2, "yes": 0.8}, 0.8, [0.8]):
        assert to_predictions("no", score, 1, BINARY).scores.tolist() == [pytest.approx([0.2, 0.8])]


@pytest.mark.parametrize(
    "scores",
    [[0.25, 1.0], [[0.75, 0.25], [0, 1]], [{"yes": 0.25, "no": 0.75}, {"no": 0, "yes": 1}], np.array([0.25, 1.0])],
)
def test_forms_of_scores(scores):
    answers = to_predictions(["no", "yes"], scores, 2, BINARY)
    assert answers.scores.tolist() == [[0.75, 0.25], [0, 1]]
    assert answers.scores.dtype == np.float64


def test_scores_by_class_that_is_no_text():
    assert to_predictions([True], [{"false": 0.25, "true": 0.75}], 1, FLAGS).scores.tolist() == [[0.25, 0.75]]


@pytest.mark.parametrize(
    ("score", "said"),
    [
        ([0.5, 0.4], "sum to 0.9"),
        ([-0.1, 1.1], "outside 0..1"),
        (1.2, "outside 0..1"),
        ([float("nan"), 1], "not finite"),
        ([0.2, 0.3, 0.5], "got 3 scores, expected 2"),
        ({"no": 1}, "got no score for ['yes']"),
        (None, "got nothing (null) as score"),
        ("0.5", "got text as score"),
        (["a", "b"], "not numbers"),
    ],
)
def test_unusable_scores_fail_their_row(score, said):
    answers = to_predictions(["no", "yes"], [score, [0.5, 0.5]], 2, BINARY)
    assert said in answers.errors[0]
    assert answers.errors[1] is None
    assert answers.labels.tolist() == [None, "yes"]


def test_float32_dust_is_no_error():
    answers = to_predictions(["no"], [[np.float32(1.0000001), -1e-8]], 1, BINARY)
    assert answers.errors[0] is None
    assert answers.scores.tolist() == [[1.0, 0.0]]


def test_one_number_is_not_enough_for_three_classes():
    assert "got one score, expected 3" in to_predictions([0], [0.5], 1, THREE).errors[0]


def test_the_threshold_decides():
    answers = to_predictions(None, [0.29, 0.3, 0.31, 2.0], 4, BINARY, threshold=0.3)
    assert answers.labels.tolist() == ["no", "yes", "yes", None]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (10**400, "beyond 1e308"),
        ("1.5", "'1.5' (text)"),
        (True, "true or false"),
        (None, "nothing"),
        (float("inf"), "got inf"),
        ([1.0], "a list"),
    ],
)
def test_a_regressor_answers_finite_numbers(value, said):
    answers = to_predictions([1, value], None, 2, NUMBER)
    assert answers.labels[0] == 1.0
    assert isinstance(answers.labels[0], float)
    assert said in answers.errors[1]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0, 1), st.data())
def test_splitting_a_batch_changes_nothing(scores, threshold, data):
    cut = data.draw(st.integers(0, len(scores)))
    whole = to_predictions(None, scores, len(scores), BINARY, threshold)
    parts = [to_predictions(None, part, len(part), BINARY, threshold) for part in (scores[:cut], scores[cut:])]
    again = joined(parts)
    assert again.labels.tolist() == whole.labels.tolist()
    assert np.array_equal(again.scores, whole.scores)


def test_joining_failed_parts():
    good = to_predictions(["no"], [0.5], 1, BINARY)
    both = joined([all_failed(2, "lost"), good])
    assert both.errors.tolist() == ["lost", "lost", None]
    assert np.isnan(both.scores[:2]).all()
    assert len(joined([])) == 0


class Counted:
    """A private value that counts how often it is looked at."""

    looks = 0

    def __str__(self):
        Counted.looks += 1
        return "Maria Muster"


def test_private_values_are_looked_at_only_for_a_message():
    hide = private_mask(pd.DataFrame({"name": [Counted()], "note": ["ab"]}), ["name", "note"])
    assert Counted.looks == 0
    assert hide("got Maria Muster, ab") == "got ***, ab"
    looks = Counted.looks
    assert hide("Maria  Muster and Maria Muster") == "Maria  Muster and ***"
    assert Counted.looks == looks

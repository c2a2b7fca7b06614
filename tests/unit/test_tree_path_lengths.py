"""Path lengths of small trees, counted by hand; questions and their words; the tree as data and as text."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from support.small_trees import tree_of

from aitest_lib.errors import InputError
from aitest_lib.surrogates.tree import Test as Question
from aitest_lib.surrogates.tree import Tree

# Every test asks `x<depth> <= 0`; the rows are all 2^3 answers to the first three questions, the first one most significant.
ROWS = pd.DataFrame(
    [[(row >> bit) & 1 for bit in (2, 1, 0)] + [0] * 9 for row in range(8)], columns=[f"x{d}" for d in range(12)]
)
CATERPILLAR = ("a", ("b", ("a", "b")))

HAND = [
    # what, shape, apl, epl, mpl, leaves
    ("a lone root", "a", 0, 0, 0, 1),
    ("a stump", ("a", "b"), 1, 1, 1, 2),
    ("a balanced tree of four leaves", (("a", "b"), ("b", "a")), 2, 2, 2, 4),
    # leaves at 1, 2, 3, 3; half of the rows stop at 1, a quarter at 2, a quarter at 3
    ("a caterpillar", CATERPILLAR, 9 / 4, 1 / 2 + 2 / 4 + 3 / 4, 3, 4),
    # the same, mirrored: the long path is taken by the rows that answer yes
    ("a mirrored caterpillar", ((("a", "b"), "a"), "b"), 9 / 4, 7 / 4, 3, 4),
    ("sibling leaves of one label", (("a", "a"), ("a", "b")), 2, 2, 2, 4),
    # one-hot tests: red? no -> green? no -> blue?: the third colour costs three questions
    ("one-hot tests", ("a", ("b", ("c", "a"))), 9 / 4, 7 / 4, 3, 4),
    ("three classes", (("a", "b"), "c"), 5 / 3, 3 / 2, 2, 3),
    # leaves at 1 and, below, a full tree of depth 2: 1, 3, 3, 3, 3
    ("a leaf beside a full tree", ("a", (("b", "a"), ("a", "b"))), 13 / 5, 1 / 2 + 3 / 2, 3, 5),
    # only x3 = 0 rows exist, so that the deepest `no` leaf is on a path but reached by nobody
    ("a leaf that nobody reaches", ("a", ("b", ("a", ("b", "c")))), 14 / 5, 1 / 2 + 2 / 4 + 3 / 8 + 4 / 8, 4, 5),
]


@pytest.mark.parametrize(("what", "shape", "apl", "epl", "mpl", "leaves"), HAND, ids=[row[0] for row in HAND])
def test_path_lengths_by_hand(what, shape, apl, epl, mpl, leaves):
    tree = tree_of(shape)
    assert tree.apl == pytest.approx(apl)
    assert tree.path_lengths(ROWS).mean() == pytest.approx(epl)
    assert (tree.mpl, len(tree.leaves)) == (mpl, leaves)


COLLAPSED = [
    ("equal siblings", (("a", "a"), ("a", "b")), 5 / 3, 2, 3),
    ("equal siblings, twice", (("a", "a"), ("a", "a")), 0, 0, 1),
    ("equal leaves that are no siblings", ("a", ("b", "a")), 5 / 3, 2, 3),
    ("deep equal siblings", ("a", ("b", ("c", ("b", "b")))), 9 / 4, 3, 4),
]


@pytest.mark.parametrize(("what", "shape", "apl", "mpl", "leaves"), COLLAPSED, ids=[row[0] for row in COLLAPSED])
def test_collapsing_merges_siblings_of_one_answer_and_changes_no_answer(what, shape, apl, mpl, leaves):
    tree = tree_of(shape)
    smaller = tree.collapsed()
    assert (smaller.apl, smaller.mpl, len(smaller.leaves)) == (pytest.approx(apl), mpl, leaves)
    assert smaller.predict(ROWS).tolist() == tree.predict(ROWS).tolist()
    assert smaller.weights[0].tolist() == tree.weights[0].tolist()


def test_a_path_is_the_questions_from_the_root():
    tree = tree_of(CATERPILLAR)
    deepest = int(np.flatnonzero(tree.depth == 3)[0])
    assert [(test.column, answer) for test, answer in tree.path(deepest)] == [("x0", False), ("x1", False), ("x2", True)]
    assert tree.path(0) == []


FRAME = pd.DataFrame(
    {
        "number": [1.5, 2.0, np.nan],
        "big": pd.array([2**53, 2**53 + 1, None], dtype="Int64"),
        "flag": np.array([True, False, None], object),
        "colour": np.array(["red", "green", None], object),
        "day": pd.to_datetime(["2020-01-01T00:00", "2020-01-02T12:00", None]).as_unit("us"),
    }
)


@pytest.mark.parametrize(
    ("test", "holds", "words", "negation"),
    [
        (Question(column="number", at_most=1.75), [1, 0, 0], "number <= 1.75", "number > 1.75"),
        (Question(column="number", at_most=1.75, missing=True), [1, 0, 1], "number <= 1.75 or missing", "number > 1.75"),
        (Question(column="number", at_most=1.75, missing=False), [1, 0, 0], "number <= 1.75", "number > 1.75 or missing"),
        (Question(column="big", at_most=2**53), [1, 0, 0], f"big <= {2**53}", f"big > {2**53}"),
        (Question(column="flag", among=(True,)), [1, 0, 0], "flag is true", "flag is not true"),
        (Question(column="colour", among=("red",)), [1, 0, 0], "colour is red", "colour is not red"),
        (Question(column="colour", among=("red", "blue")), [1, 0, 0], "colour in {red, blue}", "colour not in {red, blue}"),
        (Question(column="colour", among=("red",), missing=True), [1, 0, 1], "colour is red or missing", "colour is not red"),
        (Question(column="colour", among=(), missing=True), [0, 0, 1], "colour is missing", "colour is not missing"),
        (Question(column="day", at_most="2020-01-02"), [1, 0, 0], "day <= 2020-01-02", "day > 2020-01-02"),
        (
            Question(column="day", at_most="2020-01-02T12:00:00"),
            [1, 1, 0],
            "day <= 2020-01-02T12:00:00",
            "day > 2020-01-02T12:00:00",
        ),
    ],
)
def test_questions(test, holds, words, negation):
    assert test.holds(FRAME).tolist() == [bool(answer) for answer in holds]
    assert (test.words(True), test.words(False)) == (words, negation)
    assert Question.of(json.loads(json.dumps(test.to_dict()))) == test


def test_no_row_has_no_leaf():
    assert tree_of(CATERPILLAR).route(ROWS[:0]).tolist() == []


def test_a_tree_as_data_and_back():
    tree = tree_of(("a", ("b", ("c", "a"))))
    back = Tree.of(json.loads(json.dumps(tree.to_dict())))
    assert back.to_dict() == tree.to_dict()
    assert back.predict(ROWS).tolist() == tree.predict(ROWS).tolist()


@pytest.mark.parametrize("data", [{}, {"format": "aitest-tree", "version": 2}, {"format": "pickle", "version": 1}])
def test_what_is_no_tree_is_refused(data):
    with pytest.raises(InputError, match="expected aitest-tree 1"):
        Tree.of(data)


def test_rules_read_from_top_to_bottom():
    assert tree_of(("a", ("b", "c"))).rules().splitlines() == [
        "x0 <= 0 -> a",
        "x0 > 0:",
        "  x1 <= 0 -> b",
        "  x1 > 0 -> c",
    ]

"""The words for a tree: which nodes are unfolded, rules made short, the outline of the terminal, the sentences."""

from __future__ import annotations

import io
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import tree_sample as sample
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rich.console import Console

from aitest_flows.render import print_report
from aitest_lib.reports import tree_text, tree_view
from aitest_lib.reports.explain import explain_property, explanation_parts
from aitest_lib.reports.explain_tree import explain_tree_case
from aitest_lib.reports.report import FrontPoint, Metric, RunReport, TreeNode, TreeReport
from aitest_lib.surrogates import tree as surrogate


def leaf(answer: str = "a", rows: int = 10, agree: int = 9) -> TreeNode:
    return TreeNode(answer=answer, rows=rows, agree=agree, counts={"a": agree, "b": rows - agree})


def split(yes: TreeNode, no: TreeNode, test: str = "x <= 1", negation: str = "x > 1") -> TreeNode:
    rows, agree = yes.rows + no.rows, yes.agree + no.agree
    return TreeNode(answer=yes.answer, rows=rows, agree=agree, counts={}, test=test, negation=negation, yes=yes, no=no)


def tree_of(root: TreeNode, **more: object) -> TreeReport:
    fields = {"columns": ["x"], "classes": ["a", "b"], "front": [], "generation": "none", "grown_on": 1, "generated": 0}
    return TreeReport(**{"root": root, "pruned_on": 0, "held_out": root.rows, **fields, **more})


def point(leaves: int, chosen: bool = False, **more: float) -> FrontPoint:
    fields = {"fidelity": 0.9, "low": 0.89, "high": 0.91, "apl": 2.0, "epl": 2.0, "mpl": 3}
    return FrontPoint(leaves=leaves, chosen=chosen, **(fields | more))


@st.composite
def trees(draw: st.DrawFn, depth: int = 6) -> TreeNode:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return leaf(draw(st.sampled_from("ab")), draw(st.integers(0, 30)), 0)
    return split(draw(trees(depth - 1)), draw(trees(depth - 1)))


@given(trees(), st.integers(1, 12), st.integers(0, 6))
def test_what_is_shown_covers_every_row_once_and_keeps_its_limits(root: TreeNode, ends: int, depth: int) -> None:
    found = tree_view.places(root)
    opened = tree_view.unfolded(found, ends, depth)
    order = tree_view.shown(found, opened)
    closed = [found[place] for place in order if place not in opened]
    assert len(closed) <= ends
    assert all(place.depth <= depth for place in closed)
    assert sum(place.node.rows for place in closed) == root.rows
    assert sum(place.leaves for place in closed) == found[0].leaves
    assert len(found) == found[0].size
    every = tree_view.unfolded(found, found[0].leaves, len(found))
    assert tree_view.shown(found, every) == list(range(len(found)))


def test_the_branch_that_most_rows_take_is_unfolded_first() -> None:
    root = split(split(leaf(rows=1), leaf(rows=2)), split(leaf(rows=40), leaf(rows=5)))
    found = tree_view.places(root)
    assert tree_view.unfolded(found, 3, 9) == {0, 4}
    assert tree_view.branches(found, 0) == (1, 4)
    assert found[5].rule == ("x > 1", "x <= 1")


AGES = st.integers(0, 9).map(float)
CONDITIONS = st.one_of(
    st.tuples(st.builds(surrogate.Test, column=st.just("age"), at_most=AGES, missing=st.booleans()), st.booleans()),
    st.tuples(
        st.builds(surrogate.Test, column=st.just("job"), among=st.sampled_from("abc").map(lambda v: (v,))), st.booleans()
    ),
)


@settings(max_examples=60)
@given(st.lists(CONDITIONS, max_size=8))
def test_a_shortened_rule_says_the_same(steps: list[tuple[surrogate.Test, bool]]) -> None:
    rows = pd.DataFrame({"age": [None, *map(float, range(10))] * 4, "job": [*"abcd"] * 11})
    told = tree_view.shortened(test.words(holds) for test, holds in steps)
    whole = pd.Series(True, rows.index)
    for test, holds in steps:
        whole &= pd.Series(test.holds(rows)) == holds
    short = pd.Series(True, rows.index)
    for text in told:
        short &= understood(text, rows)
    # A path that no row can take may be told in words that contradict each other in another way.
    if whole.any():
        assert (whole == short).all()
        assert len(told) <= 4


def understood(text: str, rows: pd.DataFrame) -> pd.Series:
    """The rows for which a condition holds, read as a person would."""
    plain = text.removesuffix(" or missing")
    column = rows[plain.split(" ")[0]]
    sign, value = plain.split(" ", 1)[1].replace("is not", "is-not").replace("not in", "not-in").split(" ", 1)
    kept = {
        "<=": lambda: column <= float(value),
        ">": lambda: column > float(value),
        "is": lambda: column == value,
        "is-not": lambda: column != value,
        "not-in": lambda: ~column.isin(value.strip("{}").split(", ")),
    }[sign]()
    return kept | column.isna() if plain != text else kept


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ([], "every row"),
        (["age <= 34"], "age ≤ 34"),
        (["a is b", "c is d", "e <= 1"], "a is b, c is d and e ≤ 1"),
        (["a > 1 or missing", "b is c"], "a > 1 (or missing) and b is c"),
        ([f"c{i} <= 1" for i in range(9)], "c0 ≤ 1, c1 ≤ 1, c2 ≤ 1 and 6 more conditions"),
        (["born <= 2001-02-03T00:00:00", "born <= 1999-01-01T00:00:00"], "born ≤ 1999-01-01T00:00:00"),
        (["note <= x"], "note ≤ x"),
        (["x in {a, b}", "x in {a, c}"], "x in {a, b} and x in {a, c}"),
    ],
)
def test_rules_in_words(rule: list[str], told: str) -> None:
    assert tree_view.rule_words(rule) == told


def test_the_sentence_of_a_row_on_which_they_differ() -> None:
    rule = ["marital-status is Married-civ-spouse", "education-num > 9", "education-num > 12"]
    assert explain_tree_case(rule, ">50K", "<=50K", 0.61) == (
        "the tree says >50K because marital-status is Married-civ-spouse and education-num > 12; the model says <=50K with 0.61"
    )
    assert explain_tree_case([], "a", "", None) == "the tree says a to every row; the model says (empty)"
    assert len(explain_tree_case([f"{'c' * 999}{i} is {'v' * 999}" for i in range(99)], "a" * 999, "b" * 999, 1.0)) < 600


def test_the_worst_leaves_come_first_and_perfect_ones_do_not() -> None:
    root = split(split(leaf(rows=10, agree=9), leaf(rows=20, agree=20)), split(leaf(rows=100, agree=60), leaf(rows=9, agree=0)))
    assert [place.node.rows for place in tree_view.most_differing(tree_view.places(root), 15)] == [100, 9, 10]
    assert len(tree_view.most_differing(tree_view.places(root), 1)) == 1


def test_classes_have_colours_of_their_own_and_numbers_a_scale() -> None:
    root = split(leaf("a"), split(leaf("b"), leaf("c")))
    found = tree_view.places(root)
    colours = tree_view.answer_colours(tree_of(root, classes=["a", "b", "c"]), found)
    assert len(set(colours.values())) == 3
    many = leaf("0")
    for i in range(1, 12):
        many = split(leaf(str(i)), many)
    found = tree_view.places(many)
    colours = tree_view.answer_colours(tree_of(many, classes=[str(i) for i in range(12)]), found)
    assert list(colours.values()).count(tree_view.OTHER) == 12 - len(tree_view.COLOURS)
    colours = tree_view.answer_colours(tree_of(many, classes=[]), found)
    assert (colours["0"], colours["11"]) == (tree_view.COLOURS[1], tree_view.COLOURS[0])
    assert len(set(colours.values())) == 12
    assert tree_view.answer_colours(tree_of(leaf("n/a"), classes=[]), tree_view.places(leaf("n/a"))) == {"n/a": tree_view.OTHER}


def linear(colour: str) -> NDArray[np.float64]:
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def test_the_colours_stand_out_from_light_and_dark() -> None:
    for colour in (*tree_view.COLOURS, tree_view.OTHER):
        for surface in ("#ffffff", "#171c24"):
            dark, bright = sorted(float(linear(c) @ (0.2126, 0.7152, 0.0722)) for c in (colour, surface))
            assert (bright + 0.05) / (dark + 0.05) >= 3


# Machado, Oliveira, Fernandes (2009), full severity: protanopia, deuteranopia, tritanopia.
SEEN = (
    np.eye(3),
    [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
)
XYZ = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]


@pytest.mark.parametrize("seen", SEEN, ids=["all", "protanopia", "deuteranopia", "tritanopia"])
def test_the_colours_are_told_apart_by_the_colour_blind(seen: list[list[float]]) -> None:
    def lab(colour: str) -> NDArray[np.float64]:
        x, y, z = np.cbrt(XYZ @ np.clip(np.array(seen) @ linear(colour), 0, 1) / (0.9505, 1, 1.089))
        return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])

    for one, other in combinations(tree_view.COLOURS, 2):
        assert np.linalg.norm(lab(one) - lab(other)) >= 20, (one, other)  # a difference of 2 is just seen side by side


def test_points_of_the_front_are_held_to_the_gates_of_the_whole() -> None:
    prop = sample.property_report(8)
    assert tree_view.broken_limits(point(8, mpl=13), prop) == ["mpl"]
    assert tree_view.broken_limits(point(8, mpl=12, fidelity=0.85), prop) == []
    assert tree_view.broken_limits(point(8, mpl=13, fidelity=0.84), prop) == ["mpl", "fidelity"]


@pytest.mark.parametrize(("chosen", "leaves"), [(0, [0, 1, 2]), (4, [3, 4, 5]), (9, [7, 8, 9]), (99, [7, 8, 9])])
def test_the_nearest_trees_stand_around_the_chosen_one(chosen: int, leaves: list[int]) -> None:
    front = [point(n, chosen=n == chosen) for n in reversed(range(10))]
    assert [p.leaves for p in tree_text.nearest(front, 3)] == leaves


def test_the_outline_is_short_and_counts_what_it_leaves_out() -> None:
    lines = tree_text.outline(sample.tree_report(300), 100)
    assert len(lines) <= 20
    found = tree_view.places(sample.tree_report(300).root)
    ends = sum(" -> " in line for line in lines)
    assert lines[-1] == f"… {found[0].leaves - ends} more leaves; see rules.txt"
    assert any("leaves, mostly " in line for line in lines)
    whole = tree_text.outline(sample.tree_report(8), 100)
    assert "see rules.txt" not in "\n".join(whole)
    assert len(whole) == 15
    assert tree_text.outline(tree_of(leaf()), 100) == ["the tree (share of held-out rows, agreement): a to every row"]


def shown(report: RunReport, width: int) -> str:
    out = io.StringIO()
    print_report(report, Console(file=out, width=width, highlight=False))
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_shows_the_tree_within_its_width(width: int) -> None:
    text = shown(sample.run_report(64), width)
    lines = [line.rstrip() for line in text.splitlines()]
    assert "  marital-status is Married-civ-spouse:" in lines
    assert "  … 60 more leaves; see rules.txt" in lines
    assert any(line.endswith("chosen") and " 64 " in line for line in lines)
    assert max(len(line) for line in lines if "aitest" not in line) <= width


def test_data_are_no_markup_in_the_terminal() -> None:
    root = split(leaf("[red]a\x1b[2J"), leaf("b"), test="[bold]x[/nope] <= 1\n2", negation="[i]")
    prop = sample.property_report(8, tree=tree_of(root))
    text = shown(sample.run_report(8, properties=[prop]), 100)
    assert "[bold]x[/nope] <= 1 2 -> [red]a[2J" in text
    assert "\x1b" not in text


def test_the_paragraph_says_what_was_done_and_found() -> None:
    prop = sample.property_report(8)
    for words in (
        "grown on the model's answers to 3,375 rows and 10,000 generated ones (cells swapped between rows)",
        "pruned on 1,125, and compared with the model on 1,500 held-out rows",
        "A tree of 8 leaves (decisions: longest path ",
        "answers as the model does on 0.877 [0.868, 0.887] of them (bounds one-sided at 95%)",
        "always answering <=50K would on 0.789",
        "kappa is ",
        "Tree and model differ more often in occupation = Exec-managerial (0.163 of 190 rows",
        "The answer that it copies worst is >50K, on 0.",
        "Trees grown on bootstrap samples agree with one another on 0.931 of the rows.",
        "2 of 2 gates passed.",
    ):
        assert words in prop.explanation, words
    lead, parts = explanation_parts(prop)
    assert lead.endswith(".") and "gates passed" not in lead
    assert list(parts) == ["Weak spots", "Gates"]


def test_the_paragraph_names_what_was_missed_and_what_flatters() -> None:
    tree = sample.tree_report(8).model_copy(
        update={"missed": "the nearest has mpl 9 at fidelity 0.88", "repeated": 31, "generated": 0, "generation": "none"}
    )
    text = explain_property(sample.property_report(8, tree=tree), 0.95)
    assert "The gates are missed: the nearest has mpl 9 at fidelity 0.88." in text
    assert "31 of 1,500 held-out rows equal rows that the tree was grown or pruned on" in text
    assert "generated" not in text
    alone = tree.model_copy(update={"missed": None, "satisfied": False, "repeated": 0, "unasked": 12})
    text = explain_property(sample.property_report(8, tree=alone), 0.95)
    assert "missed" not in text  # the held-out rows say that the gates are kept, whatever those for pruning had said
    assert "The budget left out 12 more." in text


def test_the_paragraph_of_a_regressor_and_of_a_lone_root() -> None:
    root = leaf("38.5", 100, 61)
    tree = tree_of(root, classes=[], generation="trepan", generated=500, grown_on=200, pruned_on=50)
    metrics = [
        Metric(name="fidelity", value=0.61, low=0.5, high=0.7, n=100),
        Metric(name="majority_fidelity", value=0.61, n=100),
        Metric(name="r2", value=0.0, n=100),
        Metric(name="leaves", value=1, n=100, unit="leaves"),
    ]
    prop = sample.property_report(8, tree=tree, metrics=metrics, gates=[], slices=[], tolerance=0.5, status="unjudged")
    assert explain_property(prop, 0.9) == (
        "A decision tree was grown on the model's answers to 200 rows and 500 generated ones (drawn at each node, TREPAN), "
        "pruned on 50, and compared with the model on 100 held-out rows. A tree of a single leaf, the same answer to every "
        "row, answers as the model does within 0.500 on 0.610 [0.500, 0.700] of them (bounds one-sided at 90%); one number for "
        "all would on 0.610; R² is 0.000. That is no better than giving every row the model's most frequent answer. "
        "No gate was set, so the property is unjudged."
    )

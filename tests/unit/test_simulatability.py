"""The figures of a surrogate tree, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from aitest_lib.scorers.simulatability import exact, stability, tree_figures
from aitest_lib.stats.verdicts import GateInput, judge
from aitest_lib.surrogates.tree import Test as Question
from aitest_lib.surrogates.tree import Tree

TREE = Tree(
    tests=(Question(column="age", at_most=30), None, Question(column="sex", among=("F",)), None, None),
    yes=np.array([1, -1, 3, -1, -1]),
    no=np.array([2, -1, 4, -1, -1]),
    values=np.array([0.0, 0, 1, 1, 0]),
    weights=np.ones((5, 2)),
    classes=("no", "yes"),
)


def figures(by_tree, by_model, depths, errors=0, classes=("no", "yes"), sequential=False):
    by_tree, by_model = np.array(by_tree, float), np.array(by_model, float)
    found = tree_figures(TREE, np.array(depths), by_tree, by_model, by_tree == by_model, classes, errors, 0, sequential)
    return {(figure.name, *figure.slice.values()): figure for figure in found}


def test_of_a_classifier():
    found = figures([0, 0, 1, 1, 0], [0, 1, 1, 1, 0], [1, 1, 2, 2, 2])
    values = {key: figure.estimate.value for key, figure in found.items()}
    assert values["fidelity",] == pytest.approx(0.8)
    assert values["apl",] == pytest.approx(5 / 3)
    assert values["epl",] == pytest.approx(1.6)
    assert values["mpl",] == 2
    assert values["leaves",] == 3
    assert values["majority_fidelity",] == pytest.approx(0.6)
    assert values["class_fidelity", "no"] == 1
    assert values["class_fidelity", "yes"] == pytest.approx(2 / 3)
    assert values["kappa",] == pytest.approx((0.8 - (0.4 * 0.6 + 0.6 * 0.4)) / (1 - 0.48))
    assert "r2" not in {name for name, *_ in found}


def test_rows_without_an_answer_make_fidelity_worse():
    found = figures([0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 2, 2], errors=4)["fidelity",]
    assert found.estimate.value == 1
    assert found.pessimistic.value == pytest.approx(0.5)


def test_a_class_that_is_never_answered_has_no_fidelity():
    found = figures([0, 1], [0, 0], [1, 2])["class_fidelity", "yes"].estimate
    assert found.value is None
    assert "never answers 'yes'" in found.reason


def test_of_a_regressor():
    found = figures([1.0, 2.0, 3.0], [1.0, 2.0, 4.0], [1, 2, 2], classes=())
    assert found["fidelity",].estimate.value == pytest.approx(2 / 3)
    assert found["r2",].estimate.value == pytest.approx(1 - 1 / (14 / 3))
    assert ("kappa",) not in found


def test_stability_is_the_mean_agreement_of_all_pairs():
    answers = [np.array([0.0, 0, 0]), np.array([0.0, 1, 0]), np.array([0.0, 1, 1])]
    assert stability(answers, 0.0).estimate.value == pytest.approx((2 / 3 + 1 / 3 + 2 / 3) / 3)
    assert stability(answers, 1.0).estimate.value == 1
    assert stability([], 0.0).estimate.value is None


@pytest.mark.parametrize(("most", "verdict"), [(2, "passed"), (1, "failed"), (1.9, "failed")])
def test_a_property_of_the_tree_is_known_not_estimated(most, verdict):
    [found] = judge([GateInput(metric="mpl", max=most, estimate=exact(2, 3))])
    assert found.verdict == verdict
    assert found.reason == f"2 {'clears' if verdict == 'passed' else 'is above'} {most:g}"

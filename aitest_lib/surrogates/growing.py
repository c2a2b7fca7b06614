"""Grows surrogate trees: best-first CART (Breiman et al. 1984) on what the model answered, by scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.component import Component
from aitest_lib.data.schema import Profile
from aitest_lib.errors import InputError
from aitest_lib.surrogates.encoding import Feature, encode
from aitest_lib.surrogates.tree import Test, Tree


@dataclass(frozen=True, kw_only=True)
class TreeSurrogate(Component):
    """Trees grown best first, to be pruned on other rows. `max_leaves`: before pruning; `min_samples_leaf`: rows.

    A classifier's tree is grown once by each of `criteria`, since under a tight limit now one, now the other prunes better.
    Leaves may be as small as they like: exact pruning on other rows measured better than any floor (Adult, Bank).
    """

    name: ClassVar[str] = "tree"
    max_leaves: int = 512
    min_samples_leaf: int = 1
    criteria: tuple[str, ...] = ("gini", "entropy")


DEFAULT = TreeSurrogate()


@dataclass(frozen=True, eq=False)
class Labelled:
    """Answered rows as numbers: `matrix` float32 (n, features), `answers` (n,) class codes or numbers, `weights` (n,).

    The order of the rows hangs on their content alone, so that sums, ties and draws come out the same for every file.
    """

    matrix: NDArray[np.float32]
    features: list[Feature]
    answers: NDArray[Any]
    weights: NDArray[np.float64]
    classes: tuple[str, ...]

    def take(self, rows: NDArray[np.int64]) -> Labelled:
        """These rows, in this order."""
        return Labelled(self.matrix[rows], self.features, self.answers[rows], self.weights[rows], self.classes)


def grow(
    frame: pd.DataFrame,
    answers: NDArray[Any],
    profile: Profile,
    columns: Sequence[str],
    *,
    classes: Sequence[str],
    max_depth: int,
    random_seed: int,
    weights: NDArray[np.float64] | None = None,
    surrogate: TreeSurrogate = DEFAULT,
) -> list[Tree]:
    """Trees that answer as the model does, collapsed: one for each criterion of a classifier, one for a regressor.

    `answers` (n,): codes into `classes`, or numbers where `classes` is empty. `columns`: what the trees may ask about, less
    private, ignored, text and constant ones. `max_depth`: decision nodes on the longest path. `weights` (n,): of the rows,
    1 by default. Raises `InputError` without rows.
    """
    rows = labelled(frame, answers, profile, columns, classes=classes, weights=weights)
    criteria = surrogate.criteria if classes else ("squared_error",)
    return [
        fit(rows, criterion, max_depth, surrogate.max_leaves, surrogate.min_samples_leaf, random_seed) for criterion in criteria
    ]


def labelled(
    frame: pd.DataFrame,
    answers: NDArray[Any],
    profile: Profile,
    columns: Sequence[str],
    *,
    classes: Sequence[str],
    weights: NDArray[np.float64] | None = None,
) -> Labelled:
    """Answered rows as numbers, in their canonical order; arguments as in `grow`."""
    if not len(frame):
        raise InputError("surrogate tree: got no answered rows to grow on, expected at least one; see why the queries failed")
    encoded = encode(frame, profile, columns)
    answers = np.asarray(answers, np.int64 if classes else np.float64)
    weights = np.ones(len(frame)) if weights is None else np.asarray(weights, np.float64)
    keys = np.ascontiguousarray(np.column_stack([encoded.matrix, answers, weights]), dtype=np.float64)
    order = np.argsort(keys.view(np.dtype((np.void, keys.shape[1] * keys.itemsize))).ravel(), kind="stable")
    return Labelled(encoded.matrix[order], encoded.features, answers[order], weights[order], tuple(classes))


def fit(rows: Labelled, criterion: str, max_depth: int, max_leaves: int, min_samples_leaf: int, random_seed: int) -> Tree:
    """One tree, collapsed."""
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    if not rows.features or max_depth < 1 or max_leaves < 2 or len(np.unique(rows.answers)) == 1:
        return _lone_root(rows)
    learner = DecisionTreeClassifier if rows.classes else DecisionTreeRegressor
    fitted = learner(
        criterion=criterion,
        max_depth=max_depth,
        max_leaf_nodes=max_leaves,
        min_samples_leaf=min_samples_leaf,
        random_state=random_seed % 2**32,
    ).fit(rows.matrix, rows.answers, sample_weight=rows.weights)
    return _tree(fitted.tree_, rows).collapsed()


def _tree(grown: Any, rows: Labelled) -> Tree:
    """scikit-learn's arrays as a tree: nodes in preorder, splits as questions."""
    left, right = grown.children_left, grown.children_right
    weights = _weights(grown, rows)
    values = weights.argmax(axis=1).astype(np.float64) if rows.classes else grown.value[:, 0, 0].astype(np.float64)
    order: list[int] = []
    tests: list[Test | None] = []
    branches: list[list[int]] = []
    pending = [(0, -1, 0)]  # a node, the place of its parent, and the branch of the parent that it is
    while pending:
        node, parent, branch = pending.pop()
        if parent >= 0:
            branches[parent][branch] = len(order)
        test = None
        if left[node] >= 0:
            feature = rows.features[grown.feature[node]]
            test, yes_is_left = feature.test(float(grown.threshold[node]), bool(grown.missing_go_to_left[node]))
            pending += [(int((right if yes_is_left else left)[node]), len(order), 1)]
            pending += [(int((left if yes_is_left else right)[node]), len(order), 0)]
        order.append(node)
        tests.append(test)
        branches.append([-1, -1])
    yes, no = np.array(branches, np.int64).T
    return Tree(tests=tuple(tests), yes=yes, no=no, values=values[order], weights=weights[order], classes=rows.classes)


def _weights(grown: Any, rows: Labelled) -> NDArray[np.float64]:
    """Weight of the rows at each node, by class: (nodes, classes), of a regressor (nodes, 1)."""
    width = max(len(rows.classes), 1)
    codes = rows.answers if rows.classes else np.zeros(len(rows.answers), np.int64)
    weights = np.bincount(grown.apply(rows.matrix) * width + codes, rows.weights, minlength=grown.node_count * width)
    weights = weights.reshape(-1, width)
    for node in range(grown.node_count - 1, -1, -1):  # children come after their parents
        if grown.children_left[node] >= 0:
            weights[node] = weights[grown.children_left[node]] + weights[grown.children_right[node]]
    return np.asarray(weights)


def _lone_root(rows: Labelled) -> Tree:
    if rows.classes:
        weights = np.bincount(rows.answers, rows.weights, minlength=len(rows.classes))
        value = float(weights.argmax())
    else:
        weights = np.array([rows.weights.sum()])
        value = float(np.average(rows.answers, weights=rows.weights))
    none = np.array([-1], np.int64)
    held = weights[None, :].astype(np.float64)
    return Tree(tests=(None,), yes=none, no=none, values=np.array([value]), weights=held, classes=rows.classes)

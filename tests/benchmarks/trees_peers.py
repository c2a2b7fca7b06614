"""What people use instead of aitest's surrogate trees: plain CART tuned on the held-out rows, and Trustee.

Both get one-hot categories and plain numbers, as scikit-learn's documentation has it. Their trees are measured as aitest's
are: leaves of one parent with one answer count once.
"""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

Array = np.ndarray[Any, Any]

INSTALL = "pip install --no-deps --target FOLDER trustee==1.2.0 graphviz prettytable termcolor, then AITEST_PEERS=FOLDER"
DEPTHS = range(2, 13)
LEAVES = (*range(2, 33), *range(34, 65, 2), *range(68, 129, 4), 160, 192, 256, 384, 512)
MIN_SAMPLES = (1, 5, 20)


@dataclass(frozen=True)
class Shape:
    """What a tree does with the held-out rows: `right` (n,), and how large it is."""

    right: Array
    apl: float
    epl: float
    mpl: int
    leaves: int


@dataclass(frozen=True)
class Encoded:
    """One-hot categories and plain numbers: the rows that are grown on, and the held-out ones."""

    train: pd.DataFrame
    test: pd.DataFrame

    @classmethod
    def of(cls, train: pd.DataFrame, test: pd.DataFrame) -> Encoded:
        """Encodes both."""
        both = pd.get_dummies(pd.concat([train, test], ignore_index=True), dtype=float)
        return cls(both.iloc[: len(train)], both.iloc[len(train) :])


class Measured:
    """A tree of scikit-learn, measured on held-out rows, also as the first of its splits only."""

    def __init__(self, cart: Any, rows: Array, held_out: Array) -> None:
        tree, self._held_out = cart.tree_, held_out
        self._left, self._right = tree.children_left, tree.children_right
        self._answer = cart.classes_[tree.value[:, 0].argmax(axis=1)]
        paths, pending = [], [(0,)]
        while pending:
            path = pending.pop()
            if self._left[path[-1]] < 0:
                paths.append(path)
            else:
                pending += [(*path, int(child[path[-1]])) for child in (self._left, self._right)]
        longest = max(map(len, paths))
        # (leaves, longest): the nodes on the way to each leaf, which is repeated at the end
        self._paths = np.array([path + path[-1:] * (longest - len(path)) for path in paths])
        number = np.zeros(tree.node_count, np.int64)
        number[self._paths[:, -1]] = np.arange(len(paths))
        self._taken = number[cart.apply(rows)]

    def shape(self, nodes: int | None = None) -> Shape:
        """Of the tree of the first `nodes` nodes; scikit-learn's best-first growth numbers them in the order of its splits."""
        count = len(self._left) if nodes is None else nodes
        ends = (self._left < 0) | (self._right >= count)
        for node in reversed(range(count)):  # children come after their parents
            if not ends[node]:
                yes, no = self._left[node], self._right[node]
                ends[node] = ends[yes] and ends[no] and self._answer[yes] == self._answer[no]
        depth = ends[self._paths].argmax(axis=1)  # the first end on each path
        leaf = self._paths[np.arange(len(depth)), depth]
        _, first = np.unique(leaf, return_index=True)
        return Shape(
            right=self._answer[leaf[self._taken]] == self._held_out,
            apl=float(depth[first].mean()),
            epl=float(depth[self._taken].mean()),
            mpl=int(depth.max()),
            leaves=len(first),
        )


def carts(data: Encoded, answers: Array, held_out: Array) -> list[Shape]:
    """Every tree of the grid max_depth x max_leaf_nodes x min_samples_leaf: L leaves are the first L - 1 splits of one fit."""
    from sklearn.tree import DecisionTreeClassifier

    train, test = (part.to_numpy(np.float32) for part in (data.train, data.test))
    found = []
    for depth in DEPTHS:
        for smallest in MIN_SAMPLES:
            settings = {"max_depth": depth, "min_samples_leaf": smallest, "max_leaf_nodes": max(LEAVES)}
            cart = DecisionTreeClassifier(random_state=0, **settings).fit(train, answers)
            measured = Measured(cart, test, held_out)
            found += [measured.shape(2 * leaves - 1) for leaves in LEAVES if leaves <= cart.get_n_leaves()]
    return found


def tuned(trees: list[Shape], limits: dict[str, float]) -> Shape:
    """The tree that agrees most with the held-out rows, of those that keep the limits there."""
    within = [tree for tree in trees if all(getattr(tree, name) <= most for name, most in limits.items())]
    return max(within, key=lambda tree: (tree.right.mean(), -tree.leaves))


class Expert:
    """The model, as Trustee asks it: the answers are known, so that its time is no part of Trustee's. Counts the rows."""

    def __init__(self, answers: Array) -> None:
        self._answers, self.asked = answers, 0

    def predict(self, rows: pd.DataFrame) -> Array:
        """The answers to rows of the training data, known by their index."""
        self.asked += len(rows)
        return np.asarray(self._answers[rows.index.to_numpy()])


def trustee(data: Encoded, answers: Array, held_out: Array, seed: int, **settings: Any) -> tuple[Shape, Shape, int]:
    """Trustee's tree of depth 12 at most, the same pruned to its ten largest branches, and the rows it asked about."""
    from trustee import ClassificationTrustee

    expert = Expert(answers)
    np.random.seed(seed)  # it draws from the global generator
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the means of single classes in small samples
        search = ClassificationTrustee(expert=expert)
        search.fit(data.train, answers, max_depth=12, verbose=False, **settings)
        whole, pruned, _, _ = search.explain()
    test = data.test.to_numpy(np.float32)
    return Measured(whole, test, held_out).shape(), Measured(pruned, test, held_out).shape(), expert.asked


def trustee_is_there() -> bool:
    """Packages of the folder in AITEST_PEERS come after the project's own, so that both sides share scikit-learn."""
    folder = os.environ.get("AITEST_PEERS")
    if folder and folder not in sys.path:
        sys.path.append(folder)
    try:
        import trustee  # noqa: F401
    except ImportError as error:
        print(f"Trustee is left out ({error}): {INSTALL}")
        return False
    return True

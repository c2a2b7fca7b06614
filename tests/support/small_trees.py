"""Small trees made by hand or at random, and every pruned subtree of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aitest_lib.surrogates.pruning import Pruning
from aitest_lib.surrogates.tree import Test, Tree

LETTERS = ("a", "b", "c")


def tree_of(shape, classes=LETTERS) -> Tree:
    """A tree of nested pairs whose leaves are letters (or numbers: a regressor); every test asks about column `x<depth>`."""
    tests, yes, no, values, weights = [], [], [], [], []
    codes = {name: place for place, name in enumerate(classes)}

    def add(part, depth) -> np.ndarray:
        place = len(tests)
        tests.append(None)
        yes.append(-1)
        no.append(-1)
        values.append(0.0)
        weights.append(None)
        if isinstance(part, tuple):
            tests[place] = Test(column=f"x{depth}", at_most=0)
            yes[place] = len(tests)
            own = add(part[0], depth + 1)
            no[place] = len(tests)
            own = own + add(part[1], depth + 1)
        else:
            own = np.eye(len(classes))[codes[part]]
        weights[place] = own
        values[place] = float(np.argmax(own))
        return own

    add(shape, 0)
    return Tree(
        tests=tuple(tests),
        yes=np.array(yes, np.int64),
        no=np.array(no, np.int64),
        values=np.array(values),
        weights=np.array(weights, float),
        classes=tuple(classes),
    )


def random_pruning(rng: np.random.Generator, leaves: int, rows: int = 40) -> Pruning:
    """A random tree of at most `leaves` leaves with random answers, collapsed, and rows that reach its leaves at random."""
    parts: list = list(rng.choice(LETTERS, leaves))
    while len(parts) > 1:
        place = int(rng.integers(len(parts) - 1))
        parts[place : place + 2] = [(parts[place], parts[place + 1])]
    tree = tree_of(parts[0]).collapsed()
    reach = np.zeros((len(tree.yes), len(LETTERS)), np.int64)
    np.add.at(reach, (rng.choice(tree.leaves, rows), rng.integers(len(LETTERS), size=rows)), 1)
    for node in range(len(tree.yes) - 1, -1, -1):
        if tree.yes[node] >= 0:
            reach[node] = reach[tree.yes[node]] + reach[tree.no[node]]
    errors = reach.sum(axis=1) - reach[np.arange(len(reach)), tree.values.astype(int)]
    return Pruning(tree, errors, reach.sum(axis=1))


def subtrees(tree: Tree, node: int = 0) -> Iterator[frozenset[int]]:
    """The split nodes of every pruned subtree in which no two leaves of one parent give one answer."""
    yield frozenset()
    if tree.yes[node] < 0:
        return
    yes, no = int(tree.yes[node]), int(tree.no[node])
    alike = tree.values[yes] == tree.values[no]
    for left in subtrees(tree, yes):
        for right in subtrees(tree, no):
            if left or right or not alike:
                yield frozenset({node}) | left | right

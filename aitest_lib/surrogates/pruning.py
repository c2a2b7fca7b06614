"""What each node of a tree costs as a leaf, and the pruned subtrees that are cheapest for given prices.

A pruned subtree is paid for leaf by leaf (errors, leaves, path lengths), so that a dynamic programme finds the cheapest one
exactly. Two leaves of one parent with one answer never stand in it: they are the parent as a leaf.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.errors import InputError
from aitest_lib.surrogates.tree import Tree

ERRORS, LEAVES, PATH, DEPTHS = range(4)  # columns of a subtree's totals
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a tree must keep within. `fidelity`: share of the prune rows, from 0 to 1, to which it must answer as the model."""

    apl: float | None = None
    epl: float | None = None
    mpl: int | None = None
    leaves: int | None = None
    fidelity: float | None = None

    def __post_init__(self) -> None:
        for name in ("apl", "epl", "mpl", "leaves"):
            value = getattr(self, name)
            least = 1 if name == "leaves" else 0
            if value is not None and not value >= least:
                raise InputError(f"limit {name}: got {value:g}, expected at least {least}; a tree cannot be smaller")
        if self.fidelity is not None and not 0 <= self.fidelity <= 1:
            raise InputError(f"limit fidelity: got {self.fidelity:g}, expected a share from 0 to 1")


@dataclass(frozen=True, eq=False)
class Pruning:
    """A grown tree and how its nodes do on rows that it was not grown on.

    `errors` (nodes,): rows at a node to which it would answer otherwise than the model, were it a leaf; `reach` (nodes,): rows
    at it; `rows`: all of them.
    """

    tree: Tree
    errors: NDArray[np.int64]
    reach: NDArray[np.int64]

    @classmethod
    def of(cls, tree: Tree, frame: pd.DataFrame, answers: NDArray[Any], tolerance: float = 0.0) -> Pruning:
        """Counts rows and errors. `answers` (n,): class codes or numbers; more than `tolerance` off is an error."""
        if not len(frame):
            raise InputError("surrogate tree: got no answered rows to prune on, expected at least one; give more rows")
        errors, reach = np.zeros((2, len(tree.yes)), np.int64)
        node, answers = tree.route(frame), np.asarray(answers, np.float64)
        while len(node):
            reach += np.bincount(node, minlength=len(reach))
            wrong = np.abs(tree.values[node] - answers) > tolerance
            errors += np.bincount(node[wrong], minlength=len(errors))
            node = tree.parents[node]
            answers, node = answers[node >= 0], node[node >= 0]
        return cls(tree, errors, reach)

    @property
    def rows(self) -> int:
        """Rows that it is pruned on."""
        return int(self.reach[0])

    @cached_property
    def costs(self) -> NDArray[np.float64]:
        """What each node adds to the totals of a subtree as a leaf: (nodes, 4), errors, leaves, rows x depth, depth."""
        depth = self.tree.depth
        return np.column_stack([self.errors, np.ones(len(depth)), self.reach * depth, depth]).astype(np.float64)

    @cached_property
    def levels(self) -> list[NDArray[np.int64]]:
        """The decision nodes of each depth."""
        inner = np.flatnonzero(self.tree.yes >= 0)
        return [inner[self.tree.depth[inner] == depth] for depth in range(self.tree.mpl)]

    @cached_property
    def alike(self) -> NDArray[np.bool_]:
        """Do both children of a node give one answer, and it too (nodes,); False at a leaf."""
        values, yes, no = self.tree.values, self.tree.yes, self.tree.no
        return np.asarray((yes >= 0) & (values[yes] == values[no]) & (values[yes] == values))

    def totals(self, cut: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Errors, leaves, rows x depth and depths, summed over the leaves of the tree pruned at `cut` (nodes,)."""
        return np.asarray(self.costs[self.kept_leaves(cut)].sum(axis=0))

    def kept_leaves(self, cut: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which nodes are the leaves of the tree pruned at `cut` (nodes,)."""
        kept = np.zeros(len(cut), bool)
        kept[0] = True
        for nodes in self.levels:
            split = nodes[kept[nodes] & ~cut[nodes]]
            kept[self.tree.yes[split]] = kept[self.tree.no[split]] = True
        return np.asarray(kept & (cut | (self.tree.yes < 0)))


@dataclass(frozen=True, eq=False)
class Cheapest:
    """The cheapest subtrees for a price vector: cost of each node as a `leaf`, and `split` (inf: never); both (nodes,)."""

    leaf: NDArray[np.float64]
    split: NDArray[np.float64]

    @cached_property
    def best(self) -> NDArray[np.float64]:
        """The cheaper of the two, (nodes,)."""
        return np.minimum(self.leaf, self.split)


def cheapest(pruning: Pruning, prices: NDArray[np.float64], depth: int) -> Cheapest:
    """Costs of every node for `prices` (4,) of errors, leaves, rows x depth and depths; below `depth` nothing is split."""
    leaf = pruning.costs @ prices
    split = np.full(len(leaf), np.inf)
    for nodes in pruning.levels[:depth][::-1]:
        yes, no = pruning.tree.yes[nodes], pruning.tree.no[nodes]
        split[nodes] = _pairs(pruning, leaf, split, nodes, yes, no).min(axis=0)
    return Cheapest(leaf, split)


def cut_of(pruning: Pruning, found: Cheapest) -> NDArray[np.bool_]:
    """Where to prune for the cheapest subtree (nodes,); between equals the smaller one."""
    split = np.zeros(len(found.leaf), bool)
    split[0] = found.split[0] < found.leaf[0]
    for nodes in pruning.levels:
        nodes = nodes[split[nodes]]
        yes, no = pruning.tree.yes[nodes], pruning.tree.no[nodes]
        way = _pairs(pruning, found.leaf, found.split, nodes, yes, no).argmin(axis=0)
        split[yes], split[no] = way >= 2, way % 2 == 1
    return ~split


def _pairs(pruning: Pruning, leaf: Any, split: Any, nodes: Any, yes: Any, no: Any) -> NDArray[np.float64]:
    """Cost of the four ways to go on below a node (4, nodes): both children leaves, the `no` one split, the `yes` one, both."""
    both = np.where(pruning.alike[nodes], np.inf, leaf[yes] + leaf[no])
    return np.stack([both, leaf[yes] + split[no], split[yes] + leaf[no], split[yes] + split[no]])

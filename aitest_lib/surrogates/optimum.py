"""The best pruned subtree under several limits at once.

Linear programming over subtrees (Dantzig and Wolfe 1960) finds prices for the limits; with these prices as bounds, a dynamic
programme over the undominated totals of each node's subtrees then finds the optimum itself. Bounds leave it little to do.
Where it would still be too much, it goes on with the most promising totals, and the result says that it may not be exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aitest_lib.surrogates.pruning import ROUNDING, Pruning, cheapest, cut_of

MAX_STATES = 300  # undominated totals kept of one node
MAX_JOINED = 3_000  # pairs of its children's totals that are compared with one another
MAX_ROUNDS = 60  # of the linear programme


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise `objective` @ totals subject to `weights` @ totals <= `bounds`; nothing is split below `depth`.

    `objective` (4,) of whole numbers, `weights` (limits, 4), `bounds` (limits,); totals as in `Pruning.totals`. `implied`:
    further pairs of weights and bound that follow from the limits, to help the search.
    """

    objective: NDArray[np.float64]
    weights: NDArray[np.float64]
    bounds: NDArray[np.float64]
    depth: int
    implied: tuple[tuple[NDArray[np.float64], float], ...] = ()

    def allows(self, totals: NDArray[np.float64]) -> bool:
        """Do totals (4,) keep within the limits."""
        return bool((self.weights @ totals <= self.bounds + ROUNDING).all())


@dataclass(frozen=True, eq=False)
class Optimum:
    """Where to prune (nodes,), the totals (4,) and whether nothing better exists for certain.

    `implied`: weights (4,) and bound of totals that hold for every subtree as good as this one.
    """

    cut: NDArray[np.bool_]
    totals: NDArray[np.float64]
    exact: bool
    implied: tuple[NDArray[np.float64], float]


@dataclass(frozen=True, eq=False)
class _Bound:
    """No better subtree has `weights` @ totals above `most`. `outside` (nodes,): what the rest of any tree with a node in it
    costs at least."""

    weights: NDArray[np.float64]
    outside: NDArray[np.float64]
    most: float


def optimum(pruning: Pruning, problem: Problem, known: Sequence[NDArray[np.bool_]] = ()) -> Optimum | None:
    """The best subtree, or None where none keeps within the limits. `known`: cuts to start from.

    The objective takes whole numbers. They are tried from the bound of the linear programme upwards, in growing steps: the
    nearer the guess, the more the bounds rule out, and the first step that holds a subtree holds the best one.
    """
    prices, cuts, value = _prices(pruning, problem, known)
    totals = [pruning.totals(cut) for cut in cuts]
    allowed = [(float(problem.objective @ total), place) for place, total in enumerate(totals) if problem.allows(total)]
    worst, place = min(allowed, default=(float(pruning.costs.sum()), -1))
    cut = cuts[place] if place >= 0 else None
    priced = problem.objective + prices @ problem.weights
    paid = float(prices @ problem.bounds)
    least, step, exact = float(np.ceil(value - ROUNDING * (1 + abs(value)))), 0.0, True
    while least <= worst:
        most = min(least + step, worst)
        limits = [(priced, most + paid), (problem.objective, most), *zip(problem.weights, problem.bounds, strict=True)]
        bounds = [_bound(pruning, weights, bound, problem.depth) for weights, bound in (*limits, *problem.implied)]
        search = _Search(pruning, problem, bounds)
        better = search.best()
        exact &= search.exact
        if better is not None or most == worst:
            cut = better if better is not None else cut
            break
        step = max(2 * step, 1.0) if exact else worst
    if cut is None:
        return None
    total = pruning.totals(cut)
    return Optimum(cut, total, exact, (priced, float(problem.objective @ total) + paid))


def _prices(
    pruning: Pruning, problem: Problem, known: Sequence[NDArray[np.bool_]]
) -> tuple[NDArray[np.float64], list[NDArray[np.bool_]], float]:
    """The limits' prices (limits,) at the optimum of the linear programme, the subtrees met on the way, and a lower bound."""
    from scipy.optimize import linprog

    root = np.ones(len(pruning.reach), bool)
    cuts = [root, *known]
    scale = 1.0 + float(np.abs(pruning.costs @ problem.objective).sum())  # no mix of subtrees is worth a broken limit
    while True:
        totals = np.array([pruning.totals(cut) for cut in cuts])
        # The last columns stand for broken limits, at a price that is paid only where nothing keeps within them.
        count = len(problem.bounds)
        costs = np.concatenate([totals @ problem.objective, np.full(count, scale)])
        limits = np.hstack([problem.weights @ totals.T, -np.eye(count)])
        mixed = linprog(
            costs,
            A_ub=limits if count else None,
            b_ub=problem.bounds if count else None,
            A_eq=np.concatenate([np.ones(len(cuts)), np.zeros(count)])[None, :],
            b_eq=[1.0],
            method="highs-ds",
        )
        prices = -mixed.ineqlin.marginals if count else np.zeros(0)
        found = cheapest(pruning, problem.objective + prices @ problem.weights, problem.depth)
        gain = float(mixed.eqlin.marginals[0]) - float(found.best[0])
        if gain <= ROUNDING * scale or len(cuts) > MAX_ROUNDS:
            return prices, cuts, float(found.best[0] - prices @ problem.bounds)
        cuts.append(cut_of(pruning, found))


def _bound(pruning: Pruning, weights: NDArray[np.float64], most: float, depth: int) -> _Bound:
    least = cheapest(pruning, weights, depth).best
    outside = np.zeros(len(least))
    for nodes in pruning.levels:
        yes, no = pruning.tree.yes[nodes], pruning.tree.no[nodes]
        outside[yes], outside[no] = outside[nodes] + least[no], outside[nodes] + least[yes]
    return _Bound(weights, outside, most + ROUNDING * (1 + abs(most)))


class _Search:
    """Bottom up, the undominated totals of the split subtrees of every node."""

    def __init__(self, pruning: Pruning, problem: Problem, bounds: list[_Bound]) -> None:
        self.pruning, self.bounds = pruning, bounds
        self.weights = np.vstack([problem.objective, problem.weights])
        self.depth = problem.depth
        self.exact = True
        self.states: dict[int, NDArray[np.float64]] = {}  # totals (states, 4) of a node, split
        self.ways: dict[int, NDArray[np.int64]] = {}  # (states, 2): the states of its children, -1 as a leaf

    def best(self) -> NDArray[np.bool_] | None:
        tree = self.pruning.tree
        inner = (tree.yes >= 0) & (tree.depth < self.depth)
        for node in np.flatnonzero(inner & self._worth_splitting())[::-1]:
            self._join(int(node))
        options = self._options(0)
        within = np.flatnonzero(self._within(0, options))
        if not len(within):
            return None
        state = int(within[(options[within] @ self.weights[0]).argmin()]) - 1
        split = np.zeros(len(tree.yes), bool)
        pending = [(0, state)]
        while pending:
            node, state = pending.pop()
            if state >= 0:
                split[node] = True
                yes, no = self.ways[node][state]
                pending += [(int(tree.yes[node]), int(yes)), (int(tree.no[node]), int(no))]
        return ~split

    def _worth_splitting(self) -> NDArray[np.bool_]:
        """Nodes that some better subtree may split, as far as the bounds can tell."""
        worth = np.ones(len(self.pruning.reach), bool)
        for bound in self.bounds:
            least = cheapest(self.pruning, bound.weights, self.depth).split
            worth &= bound.outside + least <= bound.most
        for nodes in self.pruning.levels:  # below a node that is never split there is nothing to do
            closed = nodes[~worth[nodes]]
            worth[self.pruning.tree.yes[closed]] = worth[self.pruning.tree.no[closed]] = False
        return worth

    def _options(self, node: int) -> NDArray[np.float64]:
        """Totals of a node as a leaf, then those of its split subtrees."""
        leaf = self.pruning.costs[node][None, :]
        return np.vstack([leaf, self.states[node]]) if node in self.states else leaf

    def _join(self, node: int) -> None:
        yes, no = (self._options(int(branch[node])) for branch in (self.pruning.tree.yes, self.pruning.tree.no))
        joined = (yes[:, None, :] + no[None, :, :]).reshape(-1, 4)
        within = self._within(node, joined)
        within[0] &= not self.pruning.alike[node]  # both are leaves
        pairs = self._thinned(np.flatnonzero(within), joined, MAX_JOINED)
        pairs = pairs[undominated(joined[pairs] @ self.weights.T)]
        pairs = self._thinned(pairs, joined, MAX_STATES)
        self.states[node] = joined[pairs]
        self.ways[node] = np.column_stack(np.divmod(pairs, len(no))) - 1

    def _thinned(self, pairs: NDArray[np.int64], joined: NDArray[np.float64], most: int) -> NDArray[np.int64]:
        """At most `most` of the pairs, from good to bad ones, each the cheapest of its neighbours at the prices of the linear
        programme; whoever leaves some out is no longer exact."""
        if len(pairs) <= most:
            return pairs
        self.exact = False
        pairs = pairs[np.argsort(joined[pairs] @ self.weights[0], kind="stable")]
        group = np.arange(len(pairs)) * most // len(pairs)
        order = np.lexsort((joined[pairs] @ self.bounds[0].weights, group))
        return pairs[order[np.unique(group[order], return_index=True)[1]]]

    def _within(self, node: int, totals: NDArray[np.float64]) -> NDArray[np.bool_]:
        keep = np.ones(len(totals), bool)
        for bound in self.bounds:
            keep &= totals @ bound.weights + bound.outside[node] <= bound.most
        return keep


def undominated(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Places of the points (n, d) that no other one is at most in every coordinate; one of each equal ones."""
    order = np.lexsort(points.T[::-1])
    points = points[order]
    if points.shape[1] == 1:
        return order[:1]
    if points.shape[1] == 2:
        least = np.minimum.accumulate(points[:, 1])
        return order[np.flatnonzero(np.r_[True, points[1:, 1] < least[:-1]])] if len(points) else order
    kept = []
    places = np.arange(len(points))
    while len(places):
        first = points[places[0]]  # the smallest of those left in the first coordinate: nothing dominates it
        kept.append(places[0])
        places = places[(points[places] < first).any(axis=1)]
    return order[np.array(kept, np.int64)]

"""Which pruned subtree to show: the smallest within every limit, or the most faithful one; and the front of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aitest_lib.surrogates.optimum import Optimum, Problem, optimum, undominated
from aitest_lib.surrogates.pruning import DEPTHS, ERRORS, LEAVES, PATH, ROUNDING, Limits, Pruning, cheapest, cut_of
from aitest_lib.surrogates.tree import Tree

# What is made small first, second, third: with a fidelity to reach, and without.
SMALLEST = (LEAVES, PATH, ERRORS)
MOST_FAITHFUL = (ERRORS, LEAVES)
FRONT = 40


@dataclass(frozen=True, eq=False)
class Candidate:
    """A pruned tree. `fidelity` (share of the prune rows to which it answers as the model) and `epl` are of the prune rows."""

    tree: Tree
    fidelity: float
    apl: float
    epl: float
    mpl: int
    leaves: int


@dataclass(frozen=True, eq=False)
class Choice:
    """The tree to show, a subtree of the tree at `place`, or grown again (see `regrown`) as that one was.

    `satisfied`: it keeps within every limit; if not, it is the most faithful one within the others than fidelity. `exact`:
    nothing better exists among the subtrees for certain.
    """

    best: Candidate
    place: int
    satisfied: bool
    exact: bool


def choose(prunings: Sequence[Pruning], limits: Limits) -> Choice:
    """The best subtree of any of `prunings` (same rows, at least one).

    With a fidelity to reach: the one with the fewest leaves, then the shortest expected path, then the most faithful, that
    keeps within every limit. Without: the most faithful within the limits, then the one with the fewest leaves.
    """
    found = _optima(prunings, limits)
    pruning, best = _first(found or _optima(prunings, replace(limits, fidelity=None)), limits)
    return Choice(
        best=candidate(pruning, best.cut),
        place=next(place for place, one in enumerate(prunings) if one is pruning),
        satisfied=bool(found),
        exact=best.exact,
    )


def regrown(choice: Choice, limits: Limits, every: Sequence[Pruning], measured: Callable[[Tree], Pruning]) -> Choice:
    """The choice, grown again on all rows: those that it was grown on and those that it was pruned on.

    `every`: trees grown on all rows, counted on all rows. The most faithful subtree of them within the limits, with no more
    leaves than the choice, replaces it, unless it breaks a limit on the prune rows (`measured`: a tree, counted on these).
    How many leaves pay was told by rows that the tree had not seen; where they lie is better told by all of them.
    """
    within = replace(limits, leaves=choice.best.leaves, fidelity=None)
    # Of equally faithful trees any will do: the number of leaves is settled, and each further aim costs as much as the first.
    found = [(pruning, best) for pruning in every if (best := _best_of(pruning, within, (ERRORS,))) is not None]
    pruning, best = min(found, key=lambda one: one[1].totals[ERRORS])
    counted = measured(pruning.tree.pruned(best.cut))
    again = candidate(counted, np.zeros(len(counted.reach), bool))
    too_long = limits.epl is not None and again.epl > limits.epl
    too_far = choice.satisfied and limits.fidelity is not None and again.fidelity < limits.fidelity
    return choice if too_long or too_far else replace(choice, best=again)


def front(prunings: Sequence[Pruning], chosen: Candidate | None = None) -> list[Candidate]:
    """At most 40 trees, small to large, of which none is beaten in everything: fidelity, apl, epl, mpl, leaves.

    They are cheapest for a grid of prices of leaves and path lengths, at every depth. `chosen` is always among them.
    """
    found = {}
    for place, pruning in enumerate(prunings):
        for prices, depth in _grid(pruning):
            cut = cut_of(pruning, cheapest(pruning, prices, depth))
            found[place, pruning.kept_leaves(cut).tobytes()] = (pruning, cut)
    candidates = [(pruning, cut, _sizes(pruning, cut)) for pruning, cut in found.values()]
    kept = undominated(np.array([sizes for _, _, sizes in candidates]))
    ordered = sorted(kept, key=lambda place: (candidates[place][2][-1], *candidates[place][2]))
    places = np.unique(np.linspace(0, len(ordered) - 1, FRONT - (chosen is not None)).round().astype(int))
    shown = [candidate(*candidates[ordered[place]][:2]) for place in places]
    if chosen is None:
        return shown
    others = [one for one in shown if _key(one) != _key(chosen)]
    return sorted([chosen, *others], key=_key)


def candidate(pruning: Pruning, cut: NDArray[np.bool_]) -> Candidate:
    """The tree pruned at `cut` (nodes,), measured on the prune rows."""
    errors, leaves, path, depths = pruning.totals(cut)
    tree = pruning.tree.pruned(cut)
    return Candidate(
        tree=tree,
        fidelity=float(1 - errors / pruning.rows),
        apl=float(depths / leaves),
        epl=float(path / pruning.rows),
        mpl=tree.mpl,
        leaves=int(leaves),
    )


def _optima(prunings: Sequence[Pruning], limits: Limits) -> list[tuple[Pruning, Optimum]]:
    """The best subtree of each tree that has one within the limits."""
    return [(pruning, best) for pruning in prunings if (best := _best_of(pruning, limits, _order(limits))) is not None]


def _first(found: list[tuple[Pruning, Optimum]], limits: Limits) -> tuple[Pruning, Optimum]:
    pruning, best = min(found, key=lambda one: tuple(one[1].totals[list(_order(limits))]))
    return pruning, replace(best, exact=all(one.exact for _, one in found))


def _best_of(pruning: Pruning, limits: Limits, aims: tuple[int, ...]) -> Optimum | None:
    """The optimum in lexicographic order: each aim in turn, with what the earlier ones reached as a limit."""
    weights, bounds = _constraints(limits, pruning.rows)
    depth = pruning.tree.mpl if limits.mpl is None else min(int(limits.mpl), pruning.tree.mpl)
    best: Optimum | None = None
    implied: list[tuple[NDArray[np.float64], float]] = []
    for aim in aims:
        objective = np.eye(4)[aim]
        problem = Problem(objective, np.array(weights).reshape(-1, 4), np.array(bounds), depth, tuple(implied))
        next_best = optimum(pruning, problem, [] if best is None else [best.cut])
        if next_best is None:
            return best
        best = next_best if best is None else replace(next_best, exact=best.exact and next_best.exact)
        if not best.exact:
            return best  # a second aim is worth nothing where the first is not certain
        weights.append(objective)
        bounds.append(float(best.totals[aim]))
        implied.append(best.implied)
    return best


def _order(limits: Limits) -> tuple[int, ...]:
    return MOST_FAITHFUL if limits.fidelity is None else SMALLEST


def _constraints(limits: Limits, rows: int) -> tuple[list[NDArray[np.float64]], list[float]]:
    """The limits as weights of totals and bounds; a mean path length is bounded as sum(depth - limit) <= 0."""
    unit = np.eye(4)
    weights, bounds = [], []
    if limits.leaves is not None:
        weights.append(unit[LEAVES])
        bounds.append(float(limits.leaves))
    if limits.apl is not None:
        weights.append(unit[DEPTHS] - limits.apl * unit[LEAVES])
        bounds.append(0.0)
    if limits.epl is not None:
        weights.append(unit[PATH])
        bounds.append(float(np.floor(limits.epl * rows + ROUNDING)))
    if limits.fidelity is not None:
        weights.append(unit[ERRORS])
        bounds.append(float(np.floor((1 - limits.fidelity) * rows + ROUNDING)))
    return weights, bounds


def _grid(pruning: Pruning) -> list[tuple[NDArray[np.float64], int]]:
    """Prices of a subtree's totals, in errors, and the depth below which nothing is split."""
    rows, mpl = pruning.rows, pruning.tree.mpl
    unit = np.eye(4)
    leaf_prices = np.geomspace(0.5, max(rows / 4, 1), 12)
    path_prices = np.geomspace(5e-4, 0.2, 12)
    depth_prices = np.geomspace(0.1, max(rows / 20, 1), 8)
    grid = [(unit[ERRORS] + 1e-6 * unit[LEAVES], depth) for depth in range(mpl + 1)]
    grid += [(unit[ERRORS] + price * unit[LEAVES], depth) for price in leaf_prices for depth in {mpl, mpl // 2, mpl // 3}]
    grid += [(unit[ERRORS] + price * unit[PATH] + 1e-6 * unit[LEAVES], mpl) for price in path_prices]
    for apl in range(2, min(mpl, 12)):
        grid += [(unit[ERRORS] + price * (unit[DEPTHS] - apl * unit[LEAVES]), mpl) for price in depth_prices]
    return grid


def _sizes(pruning: Pruning, cut: NDArray[np.bool_]) -> list[float]:
    errors, leaves, path, depths = pruning.totals(cut)
    mpl = int(pruning.tree.depth[pruning.kept_leaves(cut)].max())
    return [float(errors), depths / leaves, float(path), mpl, float(leaves)]


def _key(one: Candidate) -> tuple[float, ...]:
    return one.leaves, -one.fidelity, one.apl, one.epl, one.mpl

"""TREPAN: a tree grown node by node, each on a sample of its own, topped up with rows made for it and asked of the model.

Craven and Shavlik (1996), Extracting tree-structured representations of trained networks, NIPS 8; Craven's thesis (1996).
What differs: a node has one test, not m of n (to check m of n tests is more than one decision, and path lengths would not
tell); made rows go on to the children of a node instead of being thrown away, which asks less; where enough real rows reach
a node, made rows swap values between them, which looks more like data than the paper's marginals; and the tree grows in
rounds, so that the model answers many nodes in one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from aitest_lib.canonical import digest
from aitest_lib.component import Component
from aitest_lib.data.schema import Profile
from aitest_lib.data.units import canonical_order
from aitest_lib.errors import InputError
from aitest_lib.rng import rng_for
from aitest_lib.stats.estimates import normal_quantile
from aitest_lib.stats.intervals import wilson_bounds
from aitest_lib.surrogates.encoding import Encoded, encode
from aitest_lib.surrogates.tree import Test, Tree
from aitest_lib.surrogates.trepan_rows import Made, Real, Rows, from_marginals, swapped, units_of
from aitest_lib.surrogates.trepan_state import NO, ROOT, YES, Node, TrepanState, checked

__all__ = ["Trepan", "TrepanState"]

CONFIDENCE = 0.95
SMALLEST_BRANCH = 5  # rows on either side of a test


@dataclass(frozen=True, kw_only=True)
class Trepan(Component):
    """TREPAN as a search without a model inside: `start`, then `ask` and `tell` in turn until `done`, then `tree`.

    Nodes are split best first, by reach x (1 - fidelity) (of a regressor: reach x variance), up to `max_leaves` and
    `max_depth`. A node that fewer than `smallest_sample` rows reach is topped up to that with made ones. It stays a leaf once
    the lower bound (Wilson, 95 %) of its majority's share is `purity`; of a regressor, once its variance is 1 - `purity` of
    that of all real rows. Where `swap_from` real rows reach a node, made rows swap each unit with probability `rate`; else they
    come from the marginals of the nearest node above that has as many.

    A round asks for all nodes that best-first growth may split next, as far as is known. The sample of a node depends on its
    path alone, so that the tree is the one that would grow node by node, for some more queries.
    """

    name: ClassVar[str] = "trepan"
    smallest_sample: int = 1_000
    max_leaves: int = 64
    max_depth: int = 12
    purity: float = 0.99
    rate: float = 0.3
    swap_from: int = 20

    def start(
        self,
        frame: pd.DataFrame,
        answers: ArrayLike,
        profile: Profile,
        columns: Sequence[str],
        *,
        classes: Sequence[str] = (),
        ties: Sequence[Sequence[str]] = (),
        random_seed: int = 0,
        budget: int | None = None,
    ) -> TrepanState:
        """The state after the real rows are answered.

        `frame` (n, columns): what is sent to the model, in any order; `answers` (n,): codes into `classes`, or numbers where
        there are no classes, NaN where the model gave no usable answer; `columns`: those that tests may ask about; `ties`:
        columns that move together, beside those of the profile; `budget`: most rows to make. Raises `InputError` where
        lengths or codes do not fit, or no row is answered.
        """
        given = checked(answers, len(frame), classes)
        order = canonical_order(frame, profile)  # the order of a file plays no part
        order = order[~np.isnan(given[order])]
        if not len(order):
            raise InputError(f"got no usable answer to {len(frame)} rows, expected at least one; see the errors of the queries")
        rows = frame.iloc[order].reset_index(drop=True)
        state = TrepanState(
            real=Real(frame=rows, profile=profile, units=units_of(profile, list(frame.columns), ties)),
            frame=rows,
            answers=given[order],
            origin=order,
            columns=tuple(columns),
            classes=tuple(classes),
            spread=float(np.var(given[order])),
            random_seed=random_seed,
            budget=budget,
            queries=0,
            nodes={ROOT: Node(path=(), rows=np.arange(len(order)), reach=1.0)},
            asked=rows.iloc[:0],
            asked_origin=order[:0],
            asked_for={},
        )
        return self._advanced(state)

    def ask(self, state: TrepanState) -> tuple[pd.DataFrame, Rows]:
        """The rows to send next (m, columns), and for each the number of the given row that it descends from, (m,)."""
        return state.asked, state.asked_origin

    def tell(self, state: TrepanState, answers: ArrayLike) -> TrepanState:
        """The state after the answers to the rows of `ask`, (m,), as in `start`."""
        told = state.told(answers)
        for name in state.asked_for:
            told = self._settled(told, name)
        return self._advanced(told)

    def tree(self, state: TrepanState) -> Tree:
        """The tree as far as it has grown, equal leaves of one parent merged."""
        split, _ = self._best_first(state)
        order = _preorder(ROOT, split)
        place = {name: number for number, name in enumerate(order)}
        yes, no = (np.array([place.get(name + step, -1) for name in order], np.int64) for step in (YES, NO))
        weights = np.array([state.weights(name) for name in order])
        if state.classes:
            values = weights.argmax(axis=1).astype(np.float64)
        else:
            values = np.array([state.answers[state.nodes[name].rows].mean() for name in order])
        for node in range(len(order) - 1, -1, -1):
            # A node's own sample may have another majority than both of its children, whose samples are larger.
            if yes[node] >= 0 and values[yes[node]] == values[no[node]]:
                values[node] = values[yes[node]]
        tests = tuple(state.nodes[name].test if name in split else None for name in order)
        return Tree(tests=tests, yes=yes, no=no, values=values, weights=weights, classes=state.classes).collapsed()

    def _advanced(self, state: TrepanState) -> TrepanState:
        """Settles all nodes that need no answers, then draws rows for those that do."""
        while wanted := self._best_first(state)[1]:
            ready = [name for name in wanted if self._missing(state, name) <= 0]
            if not ready:
                drawn = self._drawn(state, wanted)
                ready = [name for name in wanted if name not in drawn or not len(drawn[name][1])]
                if not ready:
                    return state.asking(drawn)
                for name in set(wanted) - set(drawn):
                    state = state.as_leaf(name)  # the budget does not cover it
            for name in ready:
                state = state if state.nodes[name].settled else self._settled(state, name)
        return state

    def _best_first(self, state: TrepanState) -> tuple[set[str], list[str]]:
        """The nodes that best-first growth splits, and those that it would look at next, the best first."""
        split: set[str] = set()
        wanted: list[str] = []
        queue = [(0.0, ROOT)]
        while queue and len(split) + len(wanted) < self.max_leaves - 1:
            _, name = heappop(queue)
            node = state.nodes[name]
            if not node.settled:
                wanted.append(name)
            elif node.test is not None:
                split.add(name)
                for child in (name + YES, name + NO):
                    heappush(queue, (-state.nodes[child].reach * state.impurity(child), child))
        return split, wanted

    def _ends(self, state: TrepanState, name: str) -> bool:
        """Is the node a leaf whatever more rows would say."""
        rows, impurity = len(state.nodes[name].rows), state.impurity(name)
        if len(name) >= self.max_depth:
            return True
        if state.classes:
            return wilson_bounds(1 - impurity, rows, normal_quantile(CONFIDENCE))[0] >= self.purity
        return state.spread == 0 or (rows >= self.smallest_sample and impurity <= 1 - self.purity)

    def _missing(self, state: TrepanState, name: str) -> int:
        """Rows to make before the node can be settled."""
        return 0 if self._ends(state, name) else self.smallest_sample - len(state.nodes[name].rows)

    def _drawn(self, state: TrepanState, names: Sequence[str]) -> dict[str, Made]:
        """The rows made for nodes, the first ones first, as many nodes as the budget covers."""
        drawn: dict[str, Made] = {}
        left = state.left
        for name in names:
            if self._missing(state, name) <= left:
                drawn[name] = self._draw(state, name)
                left -= len(drawn[name][1])
        return drawn

    def _draw(self, state: TrepanState, name: str) -> Made:
        path, count = state.nodes[name].path, self._missing(state, name)
        rng = rng_for(state.random_seed, self.key, digest([[test.to_dict(), holds] for test, holds in path]))
        here = state.real_rows(name)
        if len(here) >= self.swap_from:
            return swapped(state.real, here, path, self.rate, count, rng)
        above = (state.real_rows(name[:end]) for end in range(len(name), -1, -1))
        pool = next((rows for rows in above if len(rows) >= self.swap_from), state.real_rows(ROOT))
        return from_marginals(state.real, pool, path, count, rng)

    def _settled(self, state: TrepanState, name: str) -> TrepanState:
        """The state in which the node is split by the best test of its rows, or is a leaf."""
        if self._ends(state, name):
            return state.as_leaf(name)
        rows = state.nodes[name].rows
        encoded = encode(state.frame.iloc[rows], state.real.profile, state.columns)
        test = _best_test(encoded, state.answers[rows], bool(state.classes))
        return state.as_leaf(name) if test is None else state.split(name, test)


def _best_test(encoded: Encoded, answers: NDArray[np.float64], classifier: bool) -> Test | None:
    """The test that lowers the Gini impurity (of a regressor the variance) most; None where none does."""
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    if not encoded.features:
        return None
    stump = DecisionTreeClassifier if classifier else DecisionTreeRegressor
    grown = stump(max_depth=1, min_samples_leaf=SMALLEST_BRANCH, random_state=0).fit(encoded.matrix, answers).tree_
    if grown.feature[0] < 0:
        return None
    test: Test = encoded.features[grown.feature[0]].test(float(grown.threshold[0]), bool(grown.missing_go_to_left[0]))[0]
    return test


def _preorder(name: str, split: set[str]) -> list[str]:
    """The node and all below it, `yes` branches first."""
    if name not in split:
        return [name]
    return [name, *_preorder(name + YES, split), *_preorder(name + NO, split)]

"""How far a TREPAN search is: nodes, the rows that they hold, and the rows that wait for an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from aitest_lib.errors import InputError
from aitest_lib.surrogates.tree import Test
from aitest_lib.surrogates.trepan_rows import Made, Path, Real, Rows

ROOT = ""  # a node is named by the answers on its path: "yny" is the `yes` child of "yn"
YES, NO = "y", "n"


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node: its path, the rows (of the state's frame) that take it, and the share of all rows that does.

    `settled`: its sample is complete, and `test` is its question, or None at a leaf.
    """

    path: Path
    rows: Rows
    reach: float
    settled: bool = False
    test: Test | None = None


@dataclass(frozen=True, kw_only=True)
class TrepanState:
    """A function of what was given to `start` and of all answers since.

    `frame` holds the real rows in an order of their own, then the made ones, each with its answer in `answers`; `origin` (n,)
    says which row of the frame that was given each one is, or descends from. `asked` are the rows that wait for an answer,
    `asked_origin` likewise, `asked_for` how many of them each node gets. `queries`: made rows that were asked so far.
    `spread`: variance of a regressor's answers to the real rows.
    """

    real: Real
    frame: pd.DataFrame
    answers: NDArray[np.float64]
    origin: Rows
    columns: tuple[str, ...]
    classes: tuple[str, ...]
    spread: float
    random_seed: int
    budget: int | None
    queries: int
    nodes: Mapping[str, Node]
    asked: pd.DataFrame
    asked_origin: Rows
    asked_for: Mapping[str, int]

    @property
    def done(self) -> bool:
        """Is there nothing left to ask."""
        return not self.asked_for

    @property
    def left(self) -> float:
        """Rows that the budget still allows."""
        return float("inf") if self.budget is None else self.budget - self.queries

    def weights(self, name: str) -> NDArray[np.float64]:
        """A node's rows by class, (classes,); of a regressor their number, (1,)."""
        rows = self.nodes[name].rows
        if not self.classes:
            return np.array([len(rows)], np.float64)
        return np.bincount(self.answers[rows].astype(np.int64), minlength=len(self.classes)).astype(np.float64)

    def impurity(self, name: str) -> float:
        """1 - the majority's share; of a regressor the variance, as a share of that of the real rows."""
        rows = self.nodes[name].rows
        if self.classes:
            return 1 - float(self.weights(name).max()) / len(rows)
        return float(np.var(self.answers[rows])) / self.spread if self.spread else 0.0

    def real_rows(self, name: str) -> Rows:
        """Those of a node's rows that are real."""
        rows = self.nodes[name].rows
        return rows[rows < len(self.real.frame)]

    def as_leaf(self, name: str) -> TrepanState:
        """The state in which a node is a leaf for good."""
        return replace(self, nodes={**self.nodes, name: replace(self.nodes[name], settled=True)})

    def split(self, name: str, test: Test) -> TrepanState:
        """The state in which a node asks `test`, and has two children."""
        node = self.nodes[name]
        holds = test.holds(self.frame.iloc[node.rows])
        children = {
            name + step: Node(
                path=(*node.path, (test, answer)),
                rows=node.rows[holds == answer],
                reach=node.reach * float(np.mean(holds == answer)),
            )
            for step, answer in ((YES, True), (NO, False))
        }
        return replace(self, nodes={**self.nodes, name: replace(node, settled=True, test=test), **children})

    def asking(self, drawn: Mapping[str, Made]) -> TrepanState:
        """The state that waits for the answers to the rows `drawn` for some nodes."""
        base = np.concatenate([base for _, base in drawn.values()])
        return replace(
            self,
            asked=pd.concat([rows for rows, _ in drawn.values()], ignore_index=True),
            asked_origin=self.origin[base],
            asked_for={name: len(base) for name, (_, base) in drawn.items()},
        )

    def told(self, answers: ArrayLike) -> TrepanState:
        """The state in which the asked rows belong to their nodes; those without a usable answer are dropped."""
        given = checked(answers, len(self.asked), self.classes)
        usable = ~np.isnan(given)
        place = len(self.frame) + np.cumsum(usable) - 1
        nodes, at = dict(self.nodes), 0
        for name, count in self.asked_for.items():
            part = slice(at, at + count)
            nodes[name] = replace(nodes[name], rows=np.concatenate([nodes[name].rows, place[part][usable[part]]]))
            at += count
        return replace(
            self,
            frame=pd.concat([self.frame, self.asked[usable]], ignore_index=True),
            answers=np.concatenate([self.answers, given[usable]]),
            origin=np.concatenate([self.origin, self.asked_origin[usable]]),
            queries=self.queries + len(given),
            nodes=nodes,
            asked=self.asked.iloc[:0],
            asked_origin=self.asked_origin[:0],
            asked_for={},
        )


def checked(answers: ArrayLike, rows: int, classes: Sequence[str]) -> NDArray[np.float64]:
    """The answers as float64 (rows,): class codes or finite numbers, NaN where there is none; else an `InputError`."""
    given = np.asarray(answers, dtype=np.float64)
    if given.shape != (rows,):
        raise InputError(f"got answers of shape {given.shape}, expected ({rows},), one for each row")
    told = given[~np.isnan(given)]
    if not np.isfinite(told).all():
        raise InputError("got an infinite answer, expected finite numbers, or NaN where there is none")
    if classes and not np.isin(told, np.arange(len(classes))).all():
        raise InputError(f"got an answer that is no class code, expected 0 to {len(classes) - 1}, or NaN where there is none")
    return given

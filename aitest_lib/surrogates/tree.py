"""A decision tree over the columns of a table: tests in the user's terms, path lengths, and a format that anybody can read.

Nodes are numbered in preorder, the root is 0; a test's `yes` branch comes first. Nothing of scikit-learn is kept: a tree is
grown elsewhere, then lives as these arrays, as JSON, and as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.errors import InputError
from aitest_lib.surrogates.cells import Cells

FORMAT = "aitest-tree"
FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Test:
    """A question about one column: is a number (or ISO 8601 time) at most `at_most`, or the value `among` some.

    `missing`: does a row without a value answer yes; None, which answers no, where none was seen. `among` no value at all
    and `missing` asks whether the value is missing.
    """

    column: str
    at_most: float | str | None = None
    among: tuple[Any, ...] | None = None
    missing: bool | None = None

    def holds(self, frame: pd.DataFrame) -> NDArray[np.bool_]:
        """The answer of each row, boolean (n,)."""
        return self.asked(Cells(frame[self.column]), slice(None))

    def asked(self, cells: Cells, rows: NDArray[np.int64] | slice) -> NDArray[np.bool_]:
        """The answers of some rows, whose column is `cells`."""
        if self.at_most is None:
            return cells.among(self.among or (), bool(self.missing), rows)
        return cells.at_most(self.at_most, bool(self.missing), rows)

    def words(self, holds: bool = True) -> str:
        """The question as a condition, or its negation: `age <= 34`, `sex is not Male`, `gain > 5119 or missing`."""
        if self.at_most is not None:
            bound = self.at_most if isinstance(self.at_most, str) else _number(self.at_most)
            told = f"{self.column} {'<=' if holds else '>'} {bound}"
            return f"{told} or missing" if self.missing is holds else told
        if not self.among:
            return f"{self.column} {'is' if holds else 'is not'} missing"
        if len(self.among) == 1:
            told = f"{self.column} {'is' if holds else 'is not'} {_value(self.among[0])}"
        else:
            told = f"{self.column} {'in' if holds else 'not in'} {{{', '.join(map(_value, self.among))}}}"
        return f"{told} or missing" if self.missing and holds else told

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        kind = {"among": list(self.among or ())} if self.at_most is None else {"at_most": self.at_most}
        return {"column": self.column, **kind, "missing": self.missing}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Test:
        """Inverse of `to_dict`."""
        among = data.get("among")
        return cls(
            column=data["column"],
            at_most=data.get("at_most"),
            among=None if among is None else tuple(among),
            missing=data["missing"],
        )


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A binary decision tree; arrays are (nodes,).

    `tests`: None at a leaf; `yes`, `no`: numbers of the children, -1 at a leaf; `values`: what a node would answer, were it
    a leaf: a class code into `classes`, or a number (`classes` empty); `weights`: rows it was grown on (nodes, classes), of
    a regressor (nodes, 1).
    """

    tests: tuple[Test | None, ...]
    yes: NDArray[np.int64]
    no: NDArray[np.int64]
    values: NDArray[np.float64]
    weights: NDArray[np.float64]
    classes: tuple[str, ...] = ()

    @cached_property
    def depth(self) -> NDArray[np.int64]:
        """Decision nodes above each node."""
        depth = np.zeros(len(self.yes), np.int64)
        for node in range(len(self.yes)):  # preorder: parents come first
            if self.yes[node] >= 0:
                depth[self.yes[node]] = depth[self.no[node]] = depth[node] + 1
        return depth

    @cached_property
    def parents(self) -> NDArray[np.int64]:
        """The node above each node, -1 above the root."""
        parents = np.full(len(self.yes), -1, np.int64)
        inner = np.flatnonzero(self.yes >= 0)
        parents[self.yes[inner]] = parents[self.no[inner]] = inner
        return parents

    @cached_property
    def leaves(self) -> NDArray[np.int64]:
        """Numbers of the leaves."""
        return np.flatnonzero(self.yes < 0)

    @property
    def apl(self) -> float:
        """Average path length: mean number of decision nodes over the root-to-leaf paths, unweighted (AITEST, eq. 1)."""
        return float(self.depth[self.leaves].mean())

    @property
    def mpl(self) -> int:
        """Maximum path length: decision nodes on the longest root-to-leaf path."""
        return int(self.depth.max())

    def path_lengths(self, frame: pd.DataFrame) -> NDArray[np.int64]:
        """Decision nodes that each row passes (n,); their mean is the expected path length (EPL)."""
        return self.depth[self.route(frame)]

    def route(self, frame: pd.DataFrame) -> NDArray[np.int64]:
        """The leaf that each row reaches (n,)."""
        reached = np.zeros(len(frame), np.int64)
        cells = {name: Cells(frame[name]) for name in {test.column for test in self.tests if test is not None}}
        rows = {0: np.arange(len(frame))}
        for node, test in enumerate(self.tests):  # preorder: parents come first
            here = rows.pop(node)
            if test is None:
                reached[here] = node
                continue
            answer = test.asked(cells[test.column], here)
            rows[int(self.yes[node])], rows[int(self.no[node])] = here[answer], here[~answer]
        return reached

    def predict(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """What the tree answers to each row (n,): class codes, or numbers."""
        return self.values[self.route(frame)]

    def path(self, node: int) -> list[tuple[Test, bool]]:
        """The questions from the root to a node, each with its answer."""
        steps = []
        while node:
            parent = int(self.parents[node])
            test = self.tests[parent]
            if test is not None:
                steps.append((test, int(self.yes[parent]) == node))
            node = parent
        return steps[::-1]

    def pruned(self, cut: NDArray[np.bool_]) -> Tree:
        """The tree in which the nodes of `cut` (nodes,) are leaves, and what was below them is gone."""
        kept = list(self._kept(cut))
        place = {node: number for number, node in enumerate(kept)}
        leaf = [cut[node] or self.yes[node] < 0 for node in kept]
        return Tree(
            tests=tuple(None if end else self.tests[node] for node, end in zip(kept, leaf, strict=True)),
            yes=np.array([-1 if end else place[int(self.yes[n])] for n, end in zip(kept, leaf, strict=True)], np.int64),
            no=np.array([-1 if end else place[int(self.no[n])] for n, end in zip(kept, leaf, strict=True)], np.int64),
            values=self.values[kept],
            weights=self.weights[kept],
            classes=self.classes,
        )

    def collapsed(self) -> Tree:
        """The same function with fewer nodes: leaves of one parent with one answer are merged, again and again."""
        cut = np.zeros(len(self.yes), bool)
        leaf = self.yes < 0
        for node in range(len(self.yes) - 1, -1, -1):  # children come before their parents
            if self.yes[node] < 0:
                continue
            yes, no = int(self.yes[node]), int(self.no[node])
            ends = (leaf[yes] or cut[yes]) and (leaf[no] or cut[no])
            # A parent answers what its two equal children do: their majorities are its own.
            cut[node] = bool(ends and self.values[yes] == self.values[no] == self.values[node])
        return self.pruned(cut)

    def answer(self, node: int) -> str | float:
        """What a node answers: the name of a class, or a number."""
        return self.classes[int(self.values[node])] if self.classes else float(self.values[node])

    def to_dict(self) -> dict[str, Any]:
        """The tree as nested JSON data: every node with its answer and weight, decision nodes with test and branches."""
        return {"format": FORMAT, "version": FORMAT_VERSION, "classes": list(self.classes), "root": self._node(0)}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Tree:
        """Inverse of `to_dict`; anything else is an `InputError`."""
        if data.get("format") != FORMAT or data.get("version") != FORMAT_VERSION:
            raise InputError(f"got a tree of format {data.get('format')!r} {data.get('version')!r}, expected {FORMAT} 1")
        classes = tuple(data["classes"])
        code = {name: float(place) for place, name in enumerate(classes)}
        nodes: list[Mapping[str, Any]] = []
        yes: list[int] = []
        no: list[int] = []

        def add(node: Mapping[str, Any]) -> int:
            place = len(nodes)
            nodes.append(node)
            yes.append(-1)
            no.append(-1)
            if "test" in node:
                yes[place] = add(node["yes"])
                no[place] = add(node["no"])
            return place

        add(data["root"])
        return cls(
            tests=tuple(Test.of(node["test"]) if "test" in node else None for node in nodes),
            yes=np.array(yes, np.int64),
            no=np.array(no, np.int64),
            values=np.array([code[node["answer"]] if classes else node["answer"] for node in nodes], np.float64),
            weights=np.array([node["weights"] for node in nodes], np.float64),
            classes=classes,
        )

    def rules(self) -> str:
        """The tree as indented text, one line a node."""
        return "\n".join(self._lines(0, "", ""))

    def _lines(self, node: int, indent: str, condition: str) -> Iterator[str]:
        test = self.tests[node]
        answer = self.answer(node)
        told = answer if isinstance(answer, str) else f"{answer:.6g}"
        if test is None:
            yield f"{indent}{condition}{' -> ' if condition else ''}{told}"
            return
        if condition:
            yield f"{indent}{condition}:"
            indent += "  "
        yield from self._lines(int(self.yes[node]), indent, test.words(True))
        yield from self._lines(int(self.no[node]), indent, test.words(False))

    def _node(self, node: int) -> dict[str, Any]:
        test = self.tests[node]
        own: dict[str, Any] = {"answer": self.answer(node), "weights": self.weights[node].tolist()}
        if test is None:
            return own
        return own | {"test": test.to_dict(), "yes": self._node(int(self.yes[node])), "no": self._node(int(self.no[node]))}

    def _kept(self, cut: NDArray[np.bool_], node: int = 0) -> Iterator[int]:
        yield node
        if not cut[node] and self.yes[node] >= 0:
            yield from self._kept(cut, int(self.yes[node]))
            yield from self._kept(cut, int(self.no[node]))


def _value(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.12g}"

"""The surrogate tree as the report shows it: every node with what happens to held-out rows there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.artifacts.codecs import get_table
from aitest_lib.reports.report import TreeNode
from aitest_lib.surrogates.tree import Tree
from aitest_tasks.baseline import Baseline
from aitest_tasks.cases import text_of
from aitest_tasks.runs import Run
from aitest_tasks.seed_tables import RANK

EXAMPLES = 2  # rows of a leaf that are shown


def shown_tree(
    run: Run,
    tree: Tree,
    leaf: NDArray[np.int64],
    agree: NDArray[np.bool_],
    known: NDArray[np.bool_],
    base: Baseline,
    held: int,
) -> TreeNode:
    """The tree with the held-out rows in it. `leaf`, `agree`, `known` (held,): the leaf that each reaches, does the model
    answer the same, has it answered at all."""
    nodes = len(tree.yes)
    rows, right = (np.bincount(leaf[mask], minlength=nodes) for mask in (known, known & agree))
    names = base.classes.names if base.oracle.classifier else []
    counts = np.zeros((nodes, len(names)), np.int64)
    if names:
        np.add.at(counts, (leaf[known], base.answers[:held][known].astype(np.int64)), 1)
    for node in range(nodes - 1, -1, -1):  # children come after their parents
        if tree.yes[node] >= 0:
            for total in (rows, right, counts):
                total[node] = total[tree.yes[node]] + total[tree.no[node]]
    examples = _examples(run, tree, leaf, known, held)

    def shown(node: int) -> TreeNode:
        test, answer = tree.tests[node], tree.answer(node)
        yes, no = int(tree.yes[node]), int(tree.no[node])
        return TreeNode(
            answer=answer if isinstance(answer, str) else text_of(answer),
            rows=int(rows[node]),
            agree=int(right[node]),
            counts={name: int(count) for name, count in zip(names, counts[node], strict=True) if count},
            test=None if test is None else test.words(True),
            negation=None if test is None else test.words(False),
            yes=None if test is None else shown(yes),
            no=None if test is None else shown(no),
            examples=examples.get(node, []),
        )

    return shown(0)


def _examples(
    run: Run, tree: Tree, leaf: NDArray[np.int64], known: NDArray[np.bool_], held: int
) -> dict[int, list[dict[str, str]]]:
    """The first rows of each leaf, in the columns that are asked about on the way to it."""
    wanted: dict[int, int] = {}  # rank -> leaf
    for node in tree.leaves.tolist():
        wanted |= dict.fromkeys(np.flatnonzero(known & (leaf == node))[:EXAMPLES].tolist(), node)
    found: dict[int, list[dict[str, str]]] = {}
    for ref in run.seeds:
        table = get_table(run.store, ref)
        ranks = table.column(RANK).to_numpy()
        here = [row for row, rank in enumerate(ranks.tolist()) if rank in wanted]
        for row, cells in zip(here, table.take(pa.array(here, pa.int64())).to_pylist(), strict=True):
            node = wanted[int(ranks[row])]
            columns = dict.fromkeys(test.column for test, _ in tree.path(node))
            found.setdefault(node, []).append({name: text_of(cells[name]) for name in columns})
    return found

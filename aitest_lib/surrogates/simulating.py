"""From answered rows to the tree that stands in for the model: further rows to ask, then grown, pruned, chosen, grown again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.data.schema import Profile
from aitest_lib.data.synthesis import Swap, Synthesized
from aitest_lib.data.ties import find_ties
from aitest_lib.data.units import build_pool
from aitest_lib.surrogates.growing import DEFAULT, TreeSurrogate, grow
from aitest_lib.surrogates.pruning import Limits, Pruning
from aitest_lib.surrogates.search import Choice, choose, regrown
from aitest_lib.surrogates.tree import Tree

DEEPEST = 12  # decision nodes on a path, where no limit says how many
LEAF_ROWS = 25  # real rows for each leaf within which cells are swapped
MOST_LEAVES = 64  # of the tree that says where cells may be swapped
MAKING = Swap(rate=0.5)


@dataclass(frozen=True)
class Answered:
    """Rows (n, columns) with the model's answers to them (n,): class codes, or numbers."""

    frame: pd.DataFrame
    answers: NDArray[np.float64]

    def __add__(self, other: Answered) -> Answered:
        return Answered(pd.concat([self.frame, other.frame], ignore_index=True), np.concatenate([self.answers, other.answers]))


@dataclass(frozen=True)
class Task:
    """What is the same for all trees of a model: the columns that they may ask about, its classes (none: a regressor), how far
    numbers may differ and still agree, and the random seed."""

    profile: Profile
    columns: Sequence[str]
    classes: Sequence[str]
    random_seed: int
    tolerance: float = 0.0

    def grown(self, rows: Answered, depth: int, surrogate: TreeSurrogate = DEFAULT) -> list[Tree]:
        """Trees of at most `depth` decisions on a path, one for each criterion."""
        return grow(
            rows.frame,
            rows.answers.astype(np.int64) if self.classes else rows.answers,
            self.profile,
            self.columns,
            classes=self.classes,
            max_depth=depth,
            random_seed=self.random_seed,
            surrogate=surrogate,
        )

    def counted(self, tree: Tree, rows: Answered) -> Pruning:
        """A tree with what each node does on rows."""
        return Pruning.of(tree, rows.frame, rows.answers, self.tolerance)


def small_tree(task: Task, rows: Answered) -> Tree:
    """A tree of few leaves, in which 25 rows stand for each: rows of one leaf are alike to the model."""
    leaves = int(np.clip(len(rows.answers) // LEAF_ROWS, 2, MOST_LEAVES))
    [tree] = task.grown(rows, DEEPEST, TreeSurrogate(max_leaves=leaves, criteria=("gini",)))
    return tree


def made_rows(
    task: Task, rows: Answered, count: int, tied: Sequence[Sequence[str]] = (), rules: Sequence[str] = ()
) -> Synthesized:
    """Rows to ask the model, made by swapping half of the cells between any rows; columns that move together (`tied`, and what
    the data show) are swapped together, and `rules` are kept, as the profile's are.

    Not within leaves, as synthesized seeds are: what is to be learned lies between them, and rows that look real are no aim
    here.
    """
    ties = [*(tie.columns for tie in find_ties(rows.frame, task.profile)), *tied]
    pool = build_pool(rows.frame, task.profile, ties, rules, task.random_seed)
    return MAKING.over(pool, np.zeros(len(rows.answers), np.int64)).make(0, count)


def stand_in(task: Task, grows: Answered, prunes: Answered, limits: Limits) -> tuple[Choice, list[Pruning]]:
    """The tree for these limits, grown on `grows`, pruned on `prunes` and grown again on both; and all that it was chosen from.

    They are grown deeper than `limits` allow, up to 12 decisions on a path, so that the front shows what that would bring.
    """
    depth, every = max(limits.mpl or DEEPEST, DEEPEST), grows + prunes
    grown = [task.counted(tree, prunes) for tree in task.grown(grows, depth)]
    choice = choose(grown, limits)
    same = replace(DEFAULT, criteria=(DEFAULT.criteria[choice.place],)) if task.classes else DEFAULT
    again = [task.counted(tree, every) for tree in task.grown(every, depth, same)]
    return regrown(choice, limits, again, lambda tree: task.counted(tree, prunes)), grown

"""What a surrogate tree is worth: how much it agrees with the model on rows it has never seen, and how long its paths are.

Sources: AITEST (average and maximum path length, fidelity; eq. 1 and 3 of its tree simulatability); expected path length as
in Wu et al. (2018), Beyond sparsity: tree regularization of deep models.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from aitest_lib.metrics.agreement import cohen_kappa
from aitest_lib.metrics.regression import r_squared
from aitest_lib.scorers.figures import Figure
from aitest_lib.stats.clusters import rate_of_rows
from aitest_lib.stats.estimates import Estimate, undefined
from aitest_lib.stats.intervals import mean, wilson
from aitest_lib.stats.sequences import rate_sequence
from aitest_lib.surrogates.tree import Tree


def tree_figures(
    tree: Tree,
    depths: NDArray[np.int64],
    by_tree: NDArray[np.float64],
    by_model: NDArray[np.float64],
    agree: NDArray[np.bool_],
    classes: Sequence[str],
    errors: int,
    seed: int,
    sequential: bool,
    descent: NDArray[np.int64] | None = None,
) -> list[Figure]:
    """The figures of a tree on n held-out rows that the model has answered.

    `depths` (n,): decision nodes that each row passes; `by_tree`, `by_model` (n,): class codes into `classes`, or numbers
    (`classes` empty); `agree` (n,): is the tree's answer the model's; `errors`: held-out rows without a usable answer;
    `descent` (n,): numbers of the real rows that synthesized ones descend from.
    """
    n, hits = len(agree), int(agree.sum())
    figures = [
        Figure(
            name="fidelity",
            estimate=rate_sequence(hits, n) if sequential and descent is None else rate_of_rows(agree, descent),
            pessimistic=wilson(hits, n + errors) if errors else None,
        ),
        Figure(name="apl", estimate=exact(tree.apl, len(tree.leaves)), unit="decisions", higher_is_better=False),
        Figure(name="epl", estimate=mean(depths), unit="decisions", higher_is_better=False),
        Figure(name="mpl", estimate=exact(tree.mpl, len(tree.leaves)), unit="decisions", higher_is_better=False),
        Figure(name="leaves", estimate=exact(len(tree.leaves), len(tree.leaves)), unit="leaves", higher_is_better=False),
    ]
    if not classes:
        spread = r_squared(by_model, by_tree) if n else undefined("no row was held out")
        return [*figures, Figure(name="r2", estimate=spread)]
    return [*figures, *_class_figures(by_tree.astype(np.int64), by_model.astype(np.int64), classes, seed)]


def _class_figures(by_tree: NDArray[np.int64], by_model: NDArray[np.int64], classes: Sequence[str], seed: int) -> list[Figure]:
    """Majority baseline, kappa, and fidelity among the rows to which the model gives each class."""
    k = len(classes)
    counts = np.bincount(by_model * k + by_tree, minlength=k * k).reshape(k, k)
    most = int(counts.sum(axis=1).max(initial=0))
    figures = [
        Figure(name="majority_fidelity", estimate=wilson(most, int(counts.sum())), higher_is_better=None),
        Figure(name="kappa", estimate=cohen_kappa(counts, seed)),
    ]
    for code, name in enumerate(classes):
        given = int(counts[code].sum())
        estimate = wilson(int(counts[code, code]), given) if given else undefined(f"the model never answers {name!r}")
        figures.append(Figure(name="class_fidelity", slice={"class": name}, estimate=estimate))
    return figures


def stability(answers: Sequence[NDArray[np.float64]], tolerance: float) -> Figure:
    """Mean agreement of every two of the trees that were grown on bootstrap samples, over the held-out rows (n,); numbers
    agree within `tolerance`. The interval is that of the rows, given these trees (the idea: Trustee, Jacobs et al. 2022)."""
    pairs = [np.abs(one - other) <= tolerance for one, other in combinations(answers, 2)]
    estimate = mean(np.mean(pairs, axis=0)) if pairs else undefined("there are no trees to compare")
    return Figure(name="stability", estimate=estimate)


def exact(value: float, n: int) -> Estimate:
    """A property of the tree itself: known, not estimated."""
    return Estimate(value=float(value), n=n, interval=lambda _: (float(value), float(value)))

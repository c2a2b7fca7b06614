"""How much a surrogate tree hangs on the rows that it happened to be grown on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.data.schema import Profile
from aitest_lib.errors import InputError
from aitest_lib.rng import rng_for
from aitest_lib.surrogates.growing import DEFAULT, TreeSurrogate, fit, labelled
from aitest_lib.surrogates.tree import Tree

TREES = 5


def bootstrap_trees(
    frame: pd.DataFrame,
    answers: NDArray[Any],
    profile: Profile,
    columns: Sequence[str],
    *,
    classes: Sequence[str],
    max_depth: int,
    leaves: int,
    random_seed: int,
    weights: NDArray[np.float64] | None = None,
    surrogate: TreeSurrogate = DEFAULT,
) -> list[Tree]:
    """Five trees of at most `leaves` leaves, each grown best first on a bootstrap sample of the rows; the rest as in `grow`."""
    rows = labelled(frame, answers, profile, columns, classes=classes, weights=weights)
    criterion = surrogate.criteria[0] if classes else "squared_error"
    trees = []
    for number in range(TREES):
        drawn = rng_for(random_seed, surrogate.key, f"bootstrap {number}").integers(len(frame), size=len(frame))
        sample = rows.take(np.sort(drawn))
        trees.append(fit(sample, criterion, max_depth, leaves, surrogate.min_samples_leaf, random_seed))
    return trees


def agreement(trees: Sequence[Tree], frame: pd.DataFrame, tolerance: float = 0.0) -> float:
    """Mean share, from 0 to 1, of the rows to which two of the trees give one answer (numbers: at most `tolerance` apart).

    After Trustee (Jacobs et al. 2022), which ranks its students by their mutual agreement.
    """
    if len(trees) < 2 or not len(frame):
        raise InputError(f"agreement: got {len(trees)} trees and {len(frame)} rows, expected at least two trees and one row")
    told = [tree.predict(frame) for tree in trees]
    return float(np.mean([np.abs(one - other) <= tolerance for one, other in combinations(told, 2)]))

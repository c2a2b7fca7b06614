"""How much a surrogate tree hangs on the rows that it happened to be grown on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.data.schema import Profile
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

"""How strongly two categorical columns go together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aitest_lib.errors import InputError


def cramers_v(first: NDArray[np.int64], second: NDArray[np.int64]) -> float | None:
    """Cramér's V of two rows of non-negative codes (n,), in [0, 1], bias-corrected (Bergsma 2013, A bias-correction for
    Cramér's V and Tschuprow's T).

    Without the correction two columns of many values that have nothing to do with each other seem to go together. None where
    a column has one value only, or there are too few rows for its values.
    """
    if first.shape != second.shape or first.ndim != 1:
        raise InputError(f"got codes {first.shape} and {second.shape}, expected one of each per row; align them")
    n = len(first)
    if n < 2:
        return None
    left, right = (np.unique(codes, return_inverse=True)[1] for codes in (first, second))
    rows, columns = int(left.max()) + 1, int(right.max()) + 1
    if min(rows, columns) < 2:
        return None
    # Only cells that occur are counted: a crossing of two columns of many values would not fit into memory.
    cells, counts = np.unique(left * columns + right, return_counts=True)
    expected = np.bincount(left)[cells // columns] * np.bincount(right)[cells % columns] / n
    chi_squared = float((counts * counts / expected).sum()) - n
    excess = max(0.0, chi_squared / n - (rows - 1) * (columns - 1) / (n - 1))
    least = min(rows - (rows - 1) ** 2 / (n - 1), columns - (columns - 1) ** 2 / (n - 1)) - 1
    return min(1.0, (excess / least) ** 0.5) if least > 0 else None

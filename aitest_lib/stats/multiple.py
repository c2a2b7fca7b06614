"""Corrections for several hypotheses tested at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aitest_lib.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's (1979) adjusted p-values, (m,), in the order given: at most alpha where the family-wise error allows it."""
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    adjusted = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return _restore(np.minimum(adjusted, 1.0), order)


def benjamini_hochberg(p_values: ArrayLike) -> NDArray[np.float64]:
    """Benjamini and Hochberg's (1995) q-values, (m,), in the order given: at most the false discovery rate accepted."""
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    ratios = p[order] * len(p) / np.arange(1, len(p) + 1)
    return _restore(np.minimum(np.minimum.accumulate(ratios[::-1])[::-1], 1.0), order)


def _restore(ordered: NDArray[np.float64], order: NDArray[np.intp]) -> NDArray[np.float64]:
    result = np.empty_like(ordered)
    result[order] = ordered
    return result


def _checked(p_values: ArrayLike) -> NDArray[np.float64]:
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise InputError(f"got p-values of shape {p.shape} or outside [0, 1], expected a row of numbers from 0 to 1")
    return p

"""The cells of one column, prepared once for the many questions that a tree asks about it."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.data.table import frame_cells

TIME_UNIT: Literal["us"] = "us"  # that of a table's dates


class Cells:
    """A column of n rows. Numbers stay what they are: an integer beyond 2^53 keeps its digits."""

    def __init__(self, values: pd.Series[Any]) -> None:
        self._values = values

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """Which cells are missing, (n,)."""
        return np.asarray(self._values.isna(), dtype=bool)

    @cached_property
    def numbers(self) -> NDArray[Any]:
        """Numbers as float64 or int64, dates as int64 microseconds since 1970, (n,); anything where missing."""
        kind = self._values.dtype
        if isinstance(kind, np.dtype) and kind.kind == "M":
            return self._values.to_numpy(f"datetime64[{TIME_UNIT}]").view(np.int64)
        if pd.api.types.is_integer_dtype(kind):
            return self._values.to_numpy(np.int64, na_value=0) if self.missing.any() else self._values.to_numpy(np.int64)
        return self._values.to_numpy(np.float64, na_value=np.nan)

    @cached_property
    def coded(self) -> tuple[NDArray[np.int64], list[Any]]:
        """The place of each cell among the distinct values (n,), -1 where missing; and these values as JSON scalars."""
        codes, distinct = pd.factorize(self._values)
        return np.asarray(codes, np.int64), frame_cells(pd.Series(distinct))

    def at_most(self, bound: float | str, missing: bool, rows: NDArray[np.int64] | slice) -> NDArray[np.bool_]:
        """Is the number, or the date, of each of `rows` at most `bound`; `missing` where there is none."""
        limit = time_number(bound) if isinstance(bound, str) else bound
        absent = self.missing[rows]
        found = self.numbers[rows] <= limit
        return np.where(absent, missing, found) if absent.any() else np.asarray(found, dtype=bool)

    def among(self, values: tuple[Any, ...], missing: bool, rows: NDArray[np.int64] | slice) -> NDArray[np.bool_]:
        """Is the value of each of `rows` one of `values`; `missing` where there is none."""
        codes, distinct = self.coded
        wanted = set(values)
        answers = np.array([*(value in wanted for value in distinct), missing], dtype=bool)  # code -1 reads the last one
        return answers[codes[rows]]


def time_number(text: str) -> int:
    """Microseconds since 1970 of a date in ISO 8601."""
    return int(pd.Timestamp(text).as_unit(TIME_UNIT).asm8.astype(np.int64))


def time_text(number: int) -> str:
    """Inverse of `time_number`: a date alone where the time is midnight."""
    return pd.Timestamp(number, unit=TIME_UNIT).isoformat().removesuffix("T00:00:00")

"""The inputs of an ONNX model of tables: columns to named tensors.

One n x d tensor that takes all columns in their order, or one tensor (n x 1, or n) for each column, found by name (as skl2onnx
makes them).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aitest_lib.errors import nearest
from aitest_lib.models.processes.python_child import MisfitError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

DTYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(int16)": "int16",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(bool)": "bool",
    "tensor(string)": "object",
}


class TableFeed:
    """Makes the input tensors of a table."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        for item in inputs:
            if item.type not in DTYPES or len(item.shape or ()) not in (1, 2):
                raise ValueError(f"the input {item.name} is a {item.type} of shape {item.shape}, expected a table's column(s)")
        self._inputs = inputs

    def tensors(self, table: pd.DataFrame) -> dict[str, NDArray[Any]]:
        """The tensors by name; `MisfitError` where inputs and columns do not match."""
        names = list(map(str, table.columns))
        if len(self._inputs) == 1 and len(self._inputs[0].shape) == 2:
            [item] = self._inputs
            wanted = item.shape[1]
            if isinstance(wanted, int) and wanted != len(names):
                raise MisfitError(
                    f"the model's input {item.name} takes {wanted} column{'' if wanted == 1 else 's'}, got {len(names)} "
                    f"({', '.join(names)}); list the ones it takes as `inputs.columns`, in their order"
                )
            columns = [_column(table.iloc[:, n], name, item) for n, name in enumerate(names)]
            return {item.name: np.column_stack(columns)}
        places = _matched([item.name for item in self._inputs], names)
        return {
            item.name: _column(table.iloc[:, place], names[place], item).reshape([-1] + [1] * (len(item.shape) - 1))
            for item, place in zip(self._inputs, places, strict=True)
        }


def _matched(inputs: Sequence[str], columns: Sequence[str]) -> list[int]:
    """The column of each input, by name; exporters write `_` for what is no letter or digit."""
    exact = {name: place for place, name in enumerate(columns)}
    loose = {_loose(name): place for place, name in enumerate(columns)}
    places = []
    for name in inputs:
        place = exact.get(name, loose.get(_loose(name)))
        if place is None:
            near = nearest(name, columns)
            raise MisfitError(
                f"the model has an input {name}, and there is no such column"
                + (f" (perhaps {near[0]}?)" if near else f"; the columns are {', '.join(columns)}")
            )
        places.append(place)
    if unused := [name for place, name in enumerate(columns) if place not in places]:
        raise MisfitError(f"the model has no input for the column {unused[0]}; list those that it takes as `inputs.columns`")
    return places


def _loose(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _column(values: pd.Series[Any], name: str, item: Any) -> NDArray[Any]:
    """A column as the type of its input; missing texts are '', missing numbers NaN where the type has it."""
    if item.type == "tensor(string)":
        return np.array([_text(value) for value in values.tolist()], dtype=object)
    dtype = np.dtype(DTYPES[item.type])
    try:
        numbers = values.to_numpy("float64", na_value=np.nan) if values.dtype.kind not in "iub" else values.to_numpy()
    except (TypeError, ValueError):
        raise ValueError(f"the column {name} holds text, and the model's input {item.name} is {dtype}") from None
    if dtype.kind == "f":
        return numbers.astype(dtype)
    if not np.all(np.isfinite(numbers.astype("float64"))):
        raise ValueError(f"the column {name} holds a missing value, and the model's input {item.name} is {dtype}")
    whole = numbers.astype(dtype)
    if not np.array_equal(whole, numbers):
        raise ValueError(f"the column {name} holds a number that is no {dtype}, which the model's input {item.name} takes")
    return whole


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None or value != value:  # NaN
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)

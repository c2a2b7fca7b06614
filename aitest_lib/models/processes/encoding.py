"""What goes to a child process: inputs as a header and buffers (`python_child.decode_inputs` is the other end)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.models.processes.python_child import RAW_KINDS, Clips, array_header, as_json, plain


def encode_inputs(inputs: pd.DataFrame | NDArray[Any] | Clips) -> tuple[dict[str, Any], list[bytes]]:
    """A table, clips, or an array of numbers whose first axis counts the inputs, as a header and buffers."""
    if isinstance(inputs, Clips):
        lengths = [len(one) for one in inputs]
        samples = np.concatenate([np.asarray(one, dtype="<f4") for one in inputs])
        return {"lengths": lengths, "sample_rate": inputs.sample_rate, "rows": len(inputs)}, [samples.tobytes()]
    if not isinstance(inputs, np.ndarray):
        return _encode_table(inputs)
    return {**array_header(inputs, 0), "rows": len(inputs)}, [inputs.tobytes()]


def _encode_table(table: pd.DataFrame) -> tuple[dict[str, Any], list[bytes]]:
    """A table as a header and buffers: numbers, booleans, times and category codes as bytes, the rest as JSON."""
    buffers: list[bytes] = []
    columns = [_encode_column(str(name), table.iloc[:, n], buffers) for n, name in enumerate(table.columns)]
    return {"columns": columns, "rows": len(table)}, buffers


def _encode_column(name: str, column: pd.Series[Any], buffers: list[bytes]) -> dict[str, Any]:
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        buffers.append(column.cat.codes.to_numpy("int32").tobytes())
        categories = as_json(dtype.categories, plain)
        return {"name": name, "kind": "category", "categories": categories, "ordered": bool(dtype.ordered)}
    kind = getattr(dtype, "kind", "O")
    if kind == "M":
        zone = getattr(dtype, "tz", None)
        unit = getattr(dtype, "unit", None) or str(dtype)[11:-1]
        buffers.append(column.astype("int64").to_numpy().tobytes())
        return {"name": name, "kind": "time", "unit": unit, "zone": str(zone) if zone else None}
    if kind in RAW_KINDS and hasattr(dtype, "str"):  # a numpy dtype; pandas' nullable ones go as JSON
        buffers.append(column.to_numpy().tobytes())
        return {"name": name, "kind": "raw", "dtype": dtype.str}
    return {"name": name, "kind": "json", "dtype": str(dtype), "values": [plain(value) for value in column.tolist()]}

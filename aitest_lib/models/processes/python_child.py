"""The child process of a `python` card: one standalone file, run by the interpreter that the card names.

It needs numpy and pandas, and nothing of aitest. Frames travel over two descriptors of its own: 4 bytes of length
(big-endian), a JSON header, then the raw buffers whose sizes the header lists under `buffers`. The model's own output
goes to stderr, so that a `print` in a model cannot break the protocol.
"""

from __future__ import annotations

import faulthandler
import importlib
import inspect
import json
import os
import signal
import struct
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import pandas as pd

Frame = tuple[dict[str, Any], list[bytes]]  # header, buffers
RAW_KINDS = "biuf"  # numpy kinds that travel as bytes


def main() -> None:
    """Reads the start frame (callable, path, params, scores), answers frames until the parent closes the pipe."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100,PTH120 - before anything else is imported
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]  # noqa: PTH100
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    faulthandler.enable()
    threading.Thread(target=_die_with_parent, args=(os.getppid(),), daemon=True).start()
    start = read_frame(source)
    if start is None:
        return
    try:
        sys.path[:0] = start[0]["path"]
        model = load(start[0]["callable"], start[0]["params"])
    except BaseException as error:  # noqa: BLE001 - whatever the user's module raises is reported, SystemExit included
        write_frame(sink, {"error": one_line(error)}, [])
        return
    classes = getattr(model, "classes_", None) if start[0]["scores"] else None
    write_frame(sink, {"ready": True, "classes": _as_json(classes)}, [])
    own = os.getpid()
    while (frame := read_frame(source)) is not None:
        header, buffers = frame
        try:
            labels, scores = answer(model, decode_table(header["table"], buffers), start[0]["scores"])
            reply, parts = _encoded({"labels": labels, "scores": scores})
        except Exception as error:  # noqa: BLE001 - one bad input must not end the process
            reply, parts = {"error": one_line(error)}, []
        if os.getpid() != own:
            os._exit(0)  # a fork that the model let go astray: the pipe is not its to write to
        write_frame(sink, {**reply, "id": header["id"]}, parts)


def load(name: str, params: dict[str, Any]) -> Any:
    """The object behind `package.module:name`; a class is made into an object with `params`."""
    module, _, attribute = name.partition(":")
    target: Any = importlib.import_module(module)
    for part in attribute.split("."):
        target = getattr(target, part)
    if inspect.isclass(target):
        target = target(**params)
    elif params:
        raise TypeError(f"params are the arguments of a class, but {name} is a {type(target).__name__}")
    if not callable(target) and not hasattr(target, "predict"):
        raise TypeError(f"{name} is a {type(target).__name__}, expected a callable or an object with predict")
    return target


def answer(model: Any, table: pd.DataFrame, want_scores: bool) -> tuple[Any, Any]:
    """Labels, and the rows of `predict_proba` (in the order of the model's `classes_`) where it has them, else None."""
    predict = getattr(model, "predict", model)
    labels = predict(table)
    scores = model.predict_proba(table) if want_scores and hasattr(model, "predict_proba") else None
    if getattr(labels, "ndim", 1) == 2 and labels.shape[1] == 1:
        labels = labels.to_numpy() if hasattr(labels, "to_numpy") else labels
        labels = labels.reshape(-1)
    return labels, scores


def one_line(error: BaseException) -> str:
    """`ValueError: the first line of the message`."""
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def read_frame(source: BinaryIO) -> Frame | None:
    """One frame, or None when the other side is gone."""
    head = source.read(4)
    if len(head) < 4:
        return None
    header = json.loads(source.read(struct.unpack(">I", head)[0]))
    return header, [source.read(size) for size in header["buffers"]]


def write_frame(sink: BinaryIO, header: dict[str, Any], buffers: list[bytes]) -> None:
    """Writes one frame."""
    sink.write(pack(header, buffers))
    sink.flush()


def pack(header: dict[str, Any], buffers: list[bytes]) -> bytes:
    """One frame as bytes."""
    data = json.dumps({**header, "buffers": [len(one) for one in buffers]}).encode()
    return struct.pack(">I", len(data)) + data + b"".join(buffers)


def encode_table(table: pd.DataFrame) -> tuple[dict[str, Any], list[bytes]]:
    """A table as a header and buffers: numbers, booleans, times and category codes as bytes, the rest as JSON."""
    buffers: list[bytes] = []
    columns = [_encode_column(str(name), table.iloc[:, n], buffers) for n, name in enumerate(table.columns)]
    return {"columns": columns, "rows": len(table)}, buffers


def decode_table(header: dict[str, Any], buffers: list[bytes]) -> pd.DataFrame:
    """Inverse of `encode_table`: the same column names and dtypes, a fresh RangeIndex."""
    import pandas as pd

    left = iter(buffers)
    columns = [_decode_column(column, left) for column in header["columns"]]
    table = pd.concat(columns, axis=1) if columns else pd.DataFrame(index=range(header["rows"]))
    table.columns = pd.Index([column["name"] for column in header["columns"]])
    return table


def decode_array(value: Any, buffers: list[bytes]) -> Any:
    """An answer of the child: an array that travelled as bytes, or the JSON data itself."""
    import numpy as np

    if not isinstance(value, dict) or "buffer" not in value:
        return value
    return np.frombuffer(buffers[value["buffer"]], dtype=value["dtype"]).reshape(value["shape"])


def _encode_column(name: str, column: pd.Series[Any], buffers: list[bytes]) -> dict[str, Any]:
    import pandas as pd

    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        buffers.append(column.cat.codes.to_numpy("int32").tobytes())
        categories = _as_json(dtype.categories)
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
    return {"name": name, "kind": "json", "dtype": str(dtype), "values": [_plain(value) for value in column.tolist()]}


def _decode_column(column: dict[str, Any], buffers: Any) -> pd.Series[Any]:
    import numpy as np
    import pandas as pd

    if column["kind"] == "raw":
        return pd.Series(np.frombuffer(next(buffers), dtype=column["dtype"]).copy())
    if column["kind"] == "category":
        codes = np.frombuffer(next(buffers), dtype="int32")
        return pd.Series(pd.Categorical.from_codes(codes, column["categories"], ordered=column["ordered"]))
    if column["kind"] == "time":
        times: pd.Series[Any] = pd.Series(np.frombuffer(next(buffers), dtype="int64").view(f"datetime64[{column['unit']}]"))
        if column["zone"]:
            return pd.Series(times.dt.tz_localize("UTC").dt.tz_convert(column["zone"]))
        return times
    values: list[Any] = column["values"]
    try:
        restored: pd.Series[Any] = pd.Series(values, dtype=column["dtype"])
        return restored
    except (TypeError, ValueError):  # a dtype that this interpreter's pandas does not know
        return pd.Series(values, dtype=object)


def _encoded(values: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    import numpy as np

    header: dict[str, Any] = {}
    buffers: list[bytes] = []
    for name, value in values.items():
        array = value.to_numpy() if hasattr(value, "to_numpy") else value
        if isinstance(array, np.ndarray) and array.dtype.kind in RAW_KINDS:
            header[name] = {"buffer": len(buffers), "dtype": array.dtype.str, "shape": list(array.shape)}
            buffers.append(np.ascontiguousarray(array).tobytes())
        else:
            header[name] = _as_json(array)
    return header, buffers


def _as_json(value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_as_json(item) for item in value]
    return _plain(value)


def _plain(value: Any) -> Any:
    """A JSON scalar: numpy scalars as Python ones, pandas' NA as null, anything else (a date, a Decimal) as text."""
    if value is None or isinstance(value, (str, int, float, bool, dict)):
        return value
    if hasattr(value, "dtype") and hasattr(value, "item"):
        return value.item()
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _die_with_parent(parent: int) -> None:
    """Ends the process when its parent is gone. (PR_SET_PDEATHSIG would fire when the starting *thread* ends.)"""
    while os.getppid() == parent:
        time.sleep(1)
    os.killpg(0, signal.SIGKILL)  # it leads a session of its own: what the model started goes, too


if __name__ == "__main__":
    main()

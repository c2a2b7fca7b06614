"""The child process of a `python` card: one standalone file, run by the interpreter that the card names.

It needs numpy, for tables pandas, and nothing of aitest. Frames travel over two descriptors of its own: 4 bytes that say so,
4 bytes of length (big-endian), a JSON header, then the raw buffers whose sizes the header lists under `buffers`. The model's
own output goes to stderr, so that a `print` in a model cannot break the protocol. Other kinds of models are served the same
way (`serve`), by programs of their own.
"""

from __future__ import annotations

import difflib
import faulthandler
import importlib
import inspect
import json
import os
import resource
import select
import signal
import struct
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

Frame = tuple[dict[str, Any], list[bytes]]  # header, buffers
Ask = Callable[[Any], tuple[Any, Any]]  # a table, an array of images, or clips, to labels and scores (or None)
Load = Callable[[dict[str, Any]], tuple[Any, Ask]]  # the start frame to the classes (or None) and what answers
HEAD = struct.Struct(">4sI")
MARK = b"\xa1AI\n"
RAW_KINDS = "biuf"  # numpy kinds that travel as bytes
LONGEST = 500  # characters of an exception's message
LARGEST = 2**63  # beyond it an integer is no label
ANSWER_BYTES, ROW_BYTES = 64 << 20, 1 << 10  # of one answer: so many, and so many more for each row


class MisfitError(Exception):
    """The model cannot answer any inputs of this kind: told once, instead of once for each."""


class Clips(list[Any]):
    """Clips of one sample rate (samples per second), each a float32 array (number of samples,)."""

    def __init__(self, samples: list[Any], sample_rate: int) -> None:
        super().__init__(samples)
        self.sample_rate = sample_rate


def main() -> None:
    """Serves the Python object that the start frame names."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100,PTH120 - before anything else is imported
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]  # noqa: PTH100
    serve(load_object)


def serve(load: Load) -> None:
    """Reads the start frame, loads the model, answers inputs until the parent closes the pipe.

    Whatever the model's code raises is reported, `SystemExit` included: one bad input must not end the process.
    """
    _end_with_parent(0)
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is expected here, and leaves no file behind
    own = os.getpid()
    start = read_frame(source)
    if start is None:
        return
    try:
        classes, ask = load(start[0])
        ready = {"ready": True, "classes": _plain_classes(classes)}
    except BaseException as error:  # noqa: BLE001
        ready = {"error": one_line(error)}
    if os.getpid() != own:
        os._exit(0)
    sink.write(pack(ready, []))
    sink.flush()
    if "error" in ready:
        return
    while (frame := read_frame(source)) is not None:
        header, buffers = frame
        number = {"id": header["id"]}
        try:
            labels, scores = ask(decode_inputs(header["inputs"], buffers))
            answers, parts = _encoded({"labels": labels, "scores": scores})
            reply = pack({**number, **answers}, parts)
            _check_size(len(reply), header["inputs"]["rows"])
        except MisfitError as error:
            reply = pack({**number, "misfit": str(error)}, [])
        except BaseException as error:  # noqa: BLE001
            reply = pack({**number, "error": one_line(error)}, [])
        if os.getpid() != own:
            os._exit(0)  # a fork that the model let go astray: the pipe is not its to write to
        sink.write(reply)
        sink.flush()


def load_object(start: dict[str, Any]) -> tuple[Any, Ask]:
    """The model of a start frame with callable, path, params, scores: its `classes_`, and what answers."""
    sys.path[:0] = start["path"]
    model = load(start["callable"], start["params"])
    want_scores = start["scores"]
    return (getattr(model, "classes_", None) if want_scores else None), lambda inputs: answer(model, inputs, want_scores)


def load(name: str, params: dict[str, Any]) -> Any:
    """The object behind `package.module:name`; a class is made into an object with `params`."""
    module, _, attribute = name.partition(":")
    target: Any = importlib.import_module(module)
    for part in attribute.split("."):
        if not hasattr(target, part):
            near = difflib.get_close_matches(part, [one for one in dir(target) if not one.startswith("_")])
            where = getattr(target, "__name__", type(target).__name__)
            raise AttributeError(f"{where} has no {part!r}" + (f"; did you mean {' or '.join(near)}?" if near else ""))
        target = getattr(target, part)
    if inspect.isclass(target):
        _check_params(target, attribute, params)
        target = target(**params)
    elif params:
        raise TypeError(f"params are the arguments of a class, but {name} is a {type(target).__name__}")
    if not callable(target) and not hasattr(target, "predict"):
        raise TypeError(f"{name} is a {type(target).__name__}, expected a callable or an object with predict")
    return target


def _check_params(target: Any, name: str, params: dict[str, Any]) -> None:
    if problem := _misfit(target, **params):
        raise TypeError(f"the params do not fit {name}: {problem}")


def _misfit(target: Any, *args: Any, **kwargs: Any) -> str | None:
    """Why a callable cannot be given these arguments; None where it can, or is not written in Python."""
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return f"{error}; it takes {', '.join(signature.parameters) or 'none'}"
    return None


def answer(model: Any, inputs: pd.DataFrame | NDArray[Any] | Clips, want_scores: bool) -> tuple[Any, Any]:
    """Labels, and the rows of `predict_proba` (in the order of the model's `classes_`) where it has them, else None."""
    predict = getattr(model, "predict", model)
    if isinstance(inputs, Clips):
        return _transcripts(predict, inputs), None
    with_scores = want_scores and hasattr(model, "predict_proba")
    inputs, absent = _as_fitted(model, inputs)
    try:
        # A copy where they are needed twice: the model may change what it is given.
        labels = _listed(predict(inputs.copy() if with_scores else inputs))
        scores = _listed(model.predict_proba(inputs)) if with_scores else None
    except Exception as error:
        if any(repr(name) in _text(error) or f"- {name}" in _text(error) for name in absent):
            raise MisfitError(
                f"the model was fitted on {', '.join(absent)}, which it is not sent; it is sent {', '.join(map(str, inputs))}"
            ) from error
        raise
    if getattr(labels, "ndim", 1) == 2:
        labels = labels.to_numpy() if hasattr(labels, "to_numpy") else labels
        labels = labels.reshape(-1) if labels.shape[1] == 1 else labels
    return labels, scores


def _transcripts(predict: Any, clips: Clips) -> Any:
    """What a recogniser heard in each clip; None, for nothing, is an empty text."""
    if problem := _misfit(predict, list(clips), clips.sample_rate):
        raise MisfitError(f"a recogniser is called with a list of clips and their sample rate: {problem}")
    texts = _listed(predict(list(clips), clips.sample_rate))
    texts = texts.tolist() if hasattr(texts, "tolist") else texts
    return ["" if one is None else one for one in texts] if isinstance(texts, (list, tuple)) else texts


def _as_fitted(model: Any, inputs: Any) -> tuple[Any, list[str]]:
    """A table with the columns that the model was fitted on (scikit-learn's `feature_names_in_`), in their order; where some
    are not there, the table as it is, and those."""
    fitted = getattr(model, "feature_names_in_", None)
    if fitted is None or not hasattr(inputs, "columns"):
        return inputs, []
    wanted, sent = list(map(str, fitted)), list(inputs.columns)
    absent = [name for name in wanted if name not in sent]
    return (inputs if absent or wanted == sent else inputs[wanted]), absent


def _listed(values: Any) -> Any:
    """A generator, a range or the like as a list: what it yields is the answer. A tensor (of torch, of jax) as an array."""
    import numpy as np

    if hasattr(values, "__next__") or isinstance(values, range):
        return list(values)
    is_tensor = (
        hasattr(values, "tolist") and not hasattr(values, "to_numpy") and not isinstance(values, (np.ndarray, np.generic))
    )
    return np.asarray(values.tolist()) if is_tensor else values


def one_line(error: BaseException) -> str:
    """`ValueError: the first line of the message`, cut, without what a terminal would obey."""
    lines = _text(error).strip().splitlines()
    return printable(f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - it cannot even say what is wrong
        return ""


def printable(text: str) -> str:
    """The first 500 characters of a text, with blanks for whatever is no printable character."""
    return "".join(one if one.isprintable() else " " for one in text[:LONGEST])


def read_frame(source: BinaryIO) -> Frame | None:
    """One frame, or None when the other side is gone."""
    head = source.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    header = json.loads(source.read(HEAD.unpack(head)[1]))
    return header, [source.read(size) for size in header["buffers"]]


def pack(header: dict[str, Any], buffers: list[bytes]) -> bytes:
    """One frame as bytes."""
    data = json.dumps({**header, "buffers": [len(one) for one in buffers]}).encode()
    return HEAD.pack(MARK, len(data)) + data + b"".join(buffers)


def most_bytes(rows: int) -> int:
    """How many bytes the answer to so many rows may have."""
    return ANSWER_BYTES + rows * ROW_BYTES


def decode_inputs(header: dict[str, Any], buffers: list[bytes]) -> Any:
    """What `encoding.encode_inputs` made of a table, an array or clips; arrays are the reader's own."""
    if "lengths" in header:
        return decode_clips(header, buffers)
    return decode_array(header, buffers).copy() if "buffer" in header else decode_table(header, buffers)


def decode_clips(header: dict[str, Any], buffers: list[bytes]) -> Clips:
    """The clips of a header with their lengths (in samples) and sample rate; their samples follow one another."""
    import numpy as np

    ends, samples = np.cumsum(header["lengths"]), np.frombuffer(buffers[0], dtype="<f4")
    return Clips([one.astype(np.float32) for one in np.split(samples, ends[:-1])], header["sample_rate"])


def decode_table(header: dict[str, Any], buffers: list[bytes]) -> pd.DataFrame:
    """The table of a header and buffers: the same column names and dtypes, a fresh RangeIndex."""
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


def array_header(array: NDArray[Any], buffer: int) -> dict[str, Any]:
    """What `decode_array` needs to know of an array whose bytes are the buffer of this number."""
    return {"buffer": buffer, "dtype": array.dtype.str, "shape": list(array.shape)}


def _encoded(values: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """An answer: arrays of numbers as bytes, everything else as JSON, what is neither as an object that says its type."""
    import numpy as np

    header: dict[str, Any] = {}
    buffers: list[bytes] = []
    for name, value in values.items():
        array = value.to_numpy() if hasattr(value, "to_numpy") else value
        if isinstance(array, np.ndarray) and array.dtype.kind in RAW_KINDS and array.dtype.itemsize <= 8:
            header[name] = array_header(array, len(buffers))
            buffers.append(array.tobytes())
        else:
            header[name] = as_json(array, _answered)
    return header, buffers


def as_json(value: Any, scalar: Callable[[Any], Any]) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [as_json(item, scalar) for item in value]
    return scalar(value)


def plain(value: Any) -> Any:
    """A cell as a JSON scalar: numpy scalars as Python ones, pandas' NA as null, anything else (a date) as text."""
    if value is None or isinstance(value, (str, int, float, bool, dict)):
        return value
    if hasattr(value, "dtype") and hasattr(value, "item"):
        return value.item()
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _answered(value: Any) -> Any:
    """A label or score as a JSON scalar; what is no scalar becomes an object, which is no usable answer."""
    if isinstance(value, dict):
        return {str(key): as_json(item, _answered) for key, item in value.items()}
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if type(value).__name__ == "Decimal":
        return float(value)
    found = plain(value)
    text_of_an_object = isinstance(found, str) and not isinstance(value, str) and not hasattr(value, "isoformat")
    too_large = isinstance(found, int) and abs(found) > LARGEST
    scalar = found is None or isinstance(found, (str, int, float))
    return found if scalar and not text_of_an_object and not too_large else {"type": type(value).__name__}


def _plain_classes(classes: Any) -> Any:
    """`classes_` as a list of JSON scalars, None where it is anything else (a list of lists for several outputs)."""
    if classes is None:
        return None
    found = as_json(classes, plain)
    usable = isinstance(found, list) and all(isinstance(one, (str, int, float)) for one in found)
    return found if usable else None


def _check_size(size: int, rows: int) -> None:
    if size > most_bytes(rows):
        raise ValueError(
            f"the answer to {rows} row{'' if rows == 1 else 's'} has {size / 1e6:,.0f} MB, "
            f"expected at most {most_bytes(rows) / 1e6:,.0f} MB"
        )


def _end_with_parent(pipe: int) -> None:
    """Starts a process that ends this session when nobody holds the other end of the pipe any more.

    A process, since a model may keep every thread of this one waiting (it holds the GIL); and no child of this one, so that a
    model that waits for its children does not wait for it. (PR_SET_PDEATHSIG would fire when the starting *thread* ends.)
    """
    first = os.fork()
    if first:
        os.waitpid(first, 0)
        return
    if os.fork():
        os._exit(0)
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):  # else the pipes seem open while the model is gone
            os.dup2(nowhere, stream)
        gone = select.poll()
        gone.register(pipe, 0)  # no event but the hang-up, which is always told
        gone.poll()
    finally:
        os.killpg(0, signal.SIGKILL)  # the session is the model's own: what it started goes, too


if __name__ == "__main__":
    main()

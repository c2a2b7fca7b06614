"""The child process of an `onnx` card: ONNX Runtime on one thread, tables or images to tensors, tensors to answers.

Outputs: the first tensor of whole numbers or texts holds the labels (a regressor's: the first tensor of numbers), the first
float tensor n x k or sequence of maps beside it the scores. Labels are answered as they are, but where the card's classes are
words and the model's labels whole numbers: those are places among the classes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from aitest_lib.models.processes.onnx_tables import DTYPES, TableFeed
from aitest_lib.models.processes.python_child import Ask, MisfitError, serve

if TYPE_CHECKING:
    from numpy.typing import NDArray

FLOATS = ("tensor(float)", "tensor(double)", "tensor(float16)")
SUM_TOLERANCE = 1e-3
_BOILERPLATE = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : |Load model from .* failed:|Error: \S+\.cc:\d+ ")


def load(start: dict[str, Any]) -> tuple[Any, Ask]:
    """The model of a start frame with path, scores, classes, and for images what the card says about them (`image`) and
    whether it has a `decision`: the classes that the model's maps name, and what answers."""
    session = _session(start["path"])
    classes = start["classes"]
    if start["image"] is None:
        model = OnnxModel(session, TableFeed(session.get_inputs()), classes, start["scores"])
        return model.classes(), model.answer
    from aitest_lib.models.processes.onnx_images import ImageAnswers, ImageFeed

    model = OnnxModel(session, ImageFeed(session.get_inputs(), start["image"]), classes, start["scores"])
    return model.classes(), ImageAnswers(model.answer, classes, decides=start["decides"]).answer


class Feed(Protocol):
    """Makes the input tensors of a model."""

    def tensors(self, inputs: Any) -> dict[str, NDArray[Any]]:
        """The tensors by name; `MisfitError` where the inputs cannot be the model's."""


class OnnxModel:
    """A session of ONNX Runtime. `classes`: those of the card, or None."""

    def __init__(self, session: Any, feed: Feed, classes: list[Any] | None, want_scores: bool) -> None:
        self._session = session
        self._feed = feed
        self._classes = classes
        self._words = classes if classes and not any(_is_number(one) for one in classes) else None
        self._inputs = session.get_inputs()
        self._labels, self._scores = _roles(session.get_outputs(), want_scores)
        self._scores_usable: bool | None = None
        sizes = {item.shape[0] for item in self._inputs if isinstance(item.shape[0], int)}
        self._batch = min(sizes) if sizes else None

    def classes(self) -> list[Any] | None:
        """The keys of the maps in which a classifier gives its scores; None where scores have no names."""
        if self._scores is None or not self._scores.type.startswith("seq(map("):
            return None
        feed = {item.name: np.zeros([self._batch or 1, *_columns_of(item)], DTYPES[item.type]) for item in self._inputs}
        for item in self._inputs:
            if item.type == "tensor(string)":
                feed[item.name][:] = ""
        try:
            [maps] = self._session.run([self._scores.name], feed)
        except Exception:  # noqa: BLE001 - a model may refuse an empty text; the card's classes are enough
            return None
        return [self._named(key) for key in maps[0]]

    def answer(self, inputs: Any) -> tuple[Any, Any]:
        """Labels (n) and scores (n x k, or n maps by class); where a model has one of them only, that, and None."""
        feed = self._feed.tensors(inputs)
        names = [output.name for output in (self._labels, self._scores) if output is not None]
        size = self._batch or len(inputs)
        parts = [
            self._session.run(names, {name: _rows(values, at, size) for name, values in feed.items()})
            for at in range(0, len(inputs), size)
        ]
        outputs = [_joined(list(values), len(inputs)) for values in zip(*parts, strict=True)]
        labels = outputs[0] if self._labels is not None else None
        scores = outputs[-1] if self._scores is not None else None
        if self._words and labels is not None:
            labels = [self._named(label) for label in labels.tolist()]
        if isinstance(scores, list):
            scores = [{self._named(key): score for key, score in one.items()} for one in scores]
        if labels is not None and scores is not None:
            if self._scores_usable is None:
                self._scores_usable = _are_probabilities(scores)
            if self._classes and self._scores_usable and not isinstance(scores, list):
                _check_order(np.asarray(labels, dtype=object).tolist(), np.asarray(scores), self._classes)
            return labels, scores if self._scores_usable else None
        return (labels, None) if scores is None else (scores, None)

    def _named(self, label: Any) -> Any:
        """The card's class in the place that a whole number says; any other label as it is."""
        place = isinstance(label, int) and not isinstance(label, bool) and self._words is not None
        return self._words[label] if place and self._words and 0 <= label < len(self._words) else label


def _session(path: str) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 4  # what goes wrong is raised as well
    providers = ["CPUExecutionProvider"]
    if os.environ.get("AITEST_DEVICE") == "cuda":
        providers.insert(0, "CUDAExecutionProvider")
    try:
        return onnxruntime.InferenceSession(path, options, providers=providers)
    except Exception as error:
        told = _BOILERPLATE.sub("", str(error)).replace(f"{Path(path).parent}/", "")
        raise ValueError(told) from error


def _roles(outputs: Sequence[Any], want_scores: bool) -> tuple[Any, Any]:
    """The output that holds the labels (a regressor's numbers) and the one that holds the scores; None: there is none."""
    tensors = [one for one in outputs if one.type.startswith("tensor(")]
    if not want_scores:
        if not tensors:
            raise ValueError("the model has no tensor among its outputs, expected one with the predictions")
        return tensors[0], None
    labels = next((one for one in tensors if one.type not in FLOATS), None)
    scores = next((one for one in outputs if one.type.startswith("seq(map(") or one.type in FLOATS), None)
    if labels is None and scores is None:
        raise ValueError(f"the model's outputs are {', '.join(one.type for one in outputs)}, expected labels or scores")
    return labels, scores


def _columns_of(item: Any) -> list[int]:
    return [size if isinstance(size, int) else 1 for size in item.shape[1:]]


def _rows(values: NDArray[Any], at: int, size: int) -> NDArray[Any]:
    """`size` rows from `at`; the last one again where a model takes a fixed number of them and fewer are left."""
    part = values[at : at + size]
    return part if len(part) == size else np.concatenate([part, np.repeat(part[-1:], size - len(part), axis=0)])


def _joined(parts: list[Any], n: int) -> Any:
    """The outputs of several calls as one, cut to n rows; maps stay a list."""
    if isinstance(parts[0], list):
        return [one for part in parts for one in part][:n]
    whole = np.concatenate([np.asarray(part) for part in parts])[:n]
    if whole.ndim > 2 and whole.size == n * whole.shape[1]:
        whole = whole.reshape(n, whole.shape[1])  # n x k x 1 x 1, as networks without a dense layer have it
    return whole.reshape(n) if whole.ndim == 2 and whole.shape[1] == 1 else whole


def _check_order(labels: list[Any], scores: NDArray[Any], classes: list[Any]) -> None:
    """A tensor's scores must be in the order of the card's classes: labels that always go with another's place say they
    are not. (A threshold moved by its maker cannot look like that as soon as two labels are seen.)"""
    if scores.ndim != 2 or scores.shape[1] != len(classes):
        return
    places: dict[Any, set[int]] = {}
    for label, place in zip(labels, scores.argmax(axis=1).tolist(), strict=True):
        places.setdefault(label, set()).add(place)
    seen = {label: next(iter(found)) for label, found in places.items() if len(found) == 1}
    if len(places) < 2 or len(seen) < len(places) or len(set(seen.values())) < len(seen):
        return
    for label, place in seen.items():
        if label in classes and classes[place] != label:
            raise MisfitError(
                f"the highest score of rows with the label {label!r} is always number {place + 1}, and `classes` has "
                f"{classes[place]!r} there; write `classes` in the order of the model's scores"
            )


def _is_number(label: Any) -> bool:
    """Could it be a label of the model itself, as a number or the text of one."""
    return not isinstance(label, str) or re.fullmatch(r"\s*[-+]?\d+(\.\d*)?\s*", label) is not None


def _are_probabilities(scores: Any) -> bool:
    """Are scores beside labels probabilities; a decision function's values are of no use here."""
    rows = np.array([list(one.values()) for one in scores]) if isinstance(scores, list) else np.asarray(scores, "float64")
    in_range = (rows >= -SUM_TOLERANCE) & (rows <= 1 + SUM_TOLERANCE)
    sums_to_one = rows.ndim == 1 or np.allclose(rows.sum(axis=1), 1, atol=SUM_TOLERANCE)
    return bool(in_range.all() and sums_to_one)


if __name__ == "__main__":
    serve(load)

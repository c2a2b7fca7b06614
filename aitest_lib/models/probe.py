"""The first questions to a model: does it answer as its card says, always the same, and how fast."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from aitest_lib.config.sandbox import to_json
from aitest_lib.config.secrets import MASK
from aitest_lib.errors import InputError
from aitest_lib.models.answers import counted, input_word
from aitest_lib.models.base import Model, private_mask
from aitest_lib.models.batches import taken
from aitest_lib.models.endpoint.payloads import plain_rows
from aitest_lib.models.pixels import Pixels
from aitest_lib.types import Clip, Predictions, Scalar

Sample = pd.DataFrame | Pixels | Sequence[Clip]
SHOWN_ROW = 400  # characters
LEAST_TO_TELL = 5  # answers
SAME_SCORE = 1e-6  # the last bits of a network's output depend on the batch
KINDS: dict[type, str] = {bool: "true or false", int: "whole number", float: "number", str: "text"}


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """What the probe found. A model without `problems` answered every input usably.

    `self_flip_rate`: share of the rows whose label changed when asked again (None: no row was answered twice);
    `deterministic`: no label and no score changed. `seconds_per_call`: one row; `seconds_per_row`: in a batch of `rows`.
    `answers`: those to the first `rows` rows of the sample.
    """

    rows: int
    label_kinds: tuple[str, ...]
    classes: tuple[Scalar, ...]
    scores: bool
    deterministic: bool
    self_flip_rate: float | None
    seconds_per_call: float
    seconds_per_row: float
    problems: tuple[str, ...]
    answers: Predictions


def probe(model: Model, sample: Sample, repeat_rows: int = 20, private: Sequence[str] = ()) -> ProbeResult:
    """Asks 1 row, then `repeat_rows` rows, then the same rows again; rows of a table, uint8 images N×H×W×C, or clips.

    `private`: columns whose values are masked in what is said. `ModelUnavailable` passes through: such a model cannot
    be probed. An empty sample is an `InputError`.
    """
    word = input_word(model.info.type)
    if not len(sample):
        raise InputError(f"got a sample without {word}s, expected at least one {word} to probe the model with")
    rows = taken(sample, slice(repeat_rows))
    model.start()  # not part of what a row takes
    alone, seconds_per_call, problems = _asked(model, taken(rows, slice(1)), private)
    first, _, in_batch = _asked(model, rows, private)
    second, seconds, _ = _asked(model, rows, private)
    answered = ~(first.errors.astype(bool) | second.errors.astype(bool))
    flips = _flips(first, second)[answered]
    deterministic = not flips.any() and _same_scores(first, second, answered)
    problems += [problem for problem in in_batch if problem not in problems]
    if answered[0] and not alone.errors[0] and not flips[0] and _flips(alone, first)[0]:
        problems.append(
            f"the first {word} got {alone.labels[0]!r} when sent alone and {first.labels[0]!r} when sent with {len(rows) - 1} "
            f"others; check that the answers keep the order of the {word}s"
        )
    problems += class_order_problems(first, model.info.classes)
    labels = [label for label in first.labels if label is not None]
    has_classes = model.info.type.endswith("-classifier")
    return ProbeResult(
        rows=len(rows),
        label_kinds=tuple(sorted({KINDS[type(label)] for label in labels})),
        classes=tuple(sorted(set(labels), key=str)) if has_classes else (),
        scores=first.scores is not None,
        deterministic=deterministic,
        self_flip_rate=float(flips.mean()) if len(flips) else None,
        seconds_per_call=seconds_per_call,
        seconds_per_row=seconds / len(rows),
        problems=tuple(problems),
        answers=first,
    )


def class_order_problems(answers: Predictions, classes: Sequence[Scalar] | None) -> list[str]:
    """A problem where the highest scores hardly ever stand at the labels that were answered with them: the order of the
    card's classes is not that of the scores. (Of two classes, a threshold moved by the model's maker looks much like it.)"""
    if answers.scores is None or not classes or answers.scores.shape[1] != len(classes):
        return []
    known = [row for row, label in enumerate(answers.labels) if label is not None and not np.isnan(answers.scores[row]).any()]
    other = sum(classes[int(answers.scores[row].argmax())] != answers.labels[row] for row in known)
    if len(known) < LEAST_TO_TELL or other <= (0.9 if len(classes) == 2 else 0.5) * len(known):
        return []
    return [
        f"the highest score belongs to another class than the label in {other} of {len(known)} answers; write `classes` in the "
        "order of the model's scores"
    ]


def _asked(model: Model, rows: Sample, private: Sequence[str]) -> tuple[Predictions, float, list[str]]:
    """The answers, the seconds they took, and what was wrong with them."""
    splits = model.usage.splits
    start = time.perf_counter()
    answers = model.predict(rows)
    seconds = time.perf_counter() - start
    hide = private_mask(rows, private)
    problems = []
    failed = np.flatnonzero(answers.errors.astype(bool))
    if model.usage.splits > splits:
        problems.append(
            f"{hide(model.usage.split_reason or '')} (the batch was then halved; correct the card, or set `batch_size: 1`)"
        )
    if len(failed):
        n = int(failed[0])
        word = input_word(model.info.type)
        count = "" if len(rows) == 1 else f"{len(failed)} of {len(rows)} {word}s got no usable answer; the first: "
        problems.append(f"{count}{hide(str(answers.errors[n]))}; {_shown(taken(rows, slice(n, n + 1)), private)}")
    return answers, seconds, problems


def _flips(one: Predictions, other: Predictions) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whose labels differ, row by row of the shorter of the two."""
    pairs = zip(one.labels[: len(other)], other.labels[: len(one)], strict=True)
    return np.array([not _same(left, right) for left, right in pairs], dtype=bool)


def _same(one: Scalar | None, other: Scalar | None) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=SAME_SCORE)
    return one == other


def _same_scores(one: Predictions, other: Predictions, rows: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> bool:
    if one.scores is None or other.scores is None:
        return True
    return bool(np.allclose(one.scores[rows], other.scores[rows], rtol=0, atol=SAME_SCORE))


def _shown(one: Sample, private: Sequence[str]) -> str:
    """What was sent: one row as JSON, private columns masked; the size of an image; the length of a clip."""
    if isinstance(one, pd.DataFrame):
        return f"the row sent was {_cells(one, private)}"
    if not isinstance(one, np.ndarray):
        clip = one[0]
        return f"sent was a clip of {len(clip.samples) / clip.sample_rate:.2f} s at {clip.sample_rate} samples per second"
    height, width, channels = one.shape[1:]
    return f"sent was an image of {height}×{width} pixels, {counted(channels, 'channel')}"


def _cells(row: pd.DataFrame, private: Sequence[str]) -> str:
    cells = dict(zip(map(str, row.columns), plain_rows(row)[0], strict=True))
    masked = {name: MASK if name in private else value for name, value in cells.items()}
    try:
        text = to_json(masked)
    except ValueError:  # an infinity, bytes: what made the request impossible
        text = json.dumps(masked, default=lambda value: type(value).__name__)
    return text if len(text) <= SHOWN_ROW else text[:SHOWN_ROW] + "..."

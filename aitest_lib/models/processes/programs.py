"""Which program serves a card's model in a process of its own, and what it is told first."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from aitest_lib.config.card import LoadedCard, PythonBackend, is_settled
from aitest_lib.config.secrets import resolve
from aitest_lib.errors import InputError
from aitest_lib.models.processes import onnx_child, python_child

MLFLOW_CHILD = "aitest_tasks.mlflow_child"  # what knows MLflow stands above the library


@dataclass(frozen=True, kw_only=True)
class Program:
    """`command` runs in `folder` and gets the frame `start`; `what` is served by it; `hint` ends a message that it cannot."""

    command: Sequence[str]
    folder: Path
    start: dict[str, Any]
    what: str
    hint: str


def program_of(loaded: LoadedCard, *, want_scores: bool) -> Program:
    """The program for a `python`, `mlflow` or `onnx` card. A package that is missing for it is an `InputError`."""
    card = loaded.card
    if card.python is not None:
        return _python(card.python, loaded.base_dir, want_scores)
    if card.onnx is not None:
        if find_spec("onnxruntime") is None:
            raise InputError(f"the model {card.onnx} needs onnxruntime, which is not installed; pip install 'aitest[onnx]'")
        classes = None if card.classes is None else list(card.classes)
        image = None
        if card.type.startswith("image-"):
            image = {} if card.inputs.image is None else card.inputs.image.model_dump(mode="json", exclude_unset=True)
        start = {
            "path": str((loaded.base_dir / card.onnx).resolve()),
            "scores": want_scores,
            "classes": classes,
            "image": image,
            "decides": card.decision is not None,
        }
        return Program(
            command=_own(onnx_child.__file__),
            folder=loaded.base_dir,
            start=start,
            what=f"the model {card.onnx}",
            hint="check that it is a whole ONNX file, with its external data beside it",
        )
    uri = card.mlflow or ""
    found = find_spec(MLFLOW_CHILD)
    if found is None or found.origin is None:
        raise InputError(f"the model {uri} needs {MLFLOW_CHILD}, which is not there; install all of aitest")
    if not is_settled(uri):
        raise InputError(f"got the moving reference {uri}, expected one version of it; open the card through its registry")
    return Program(
        command=_own(found.origin),
        folder=loaded.base_dir,
        start={"uri": uri, "scores": want_scores, "home_from": str(Path.cwd())},
        what=f"the model {uri}",
        hint=f"install what it needs beside aitest ({sys.executable})",
    )


def _python(backend: PythonBackend, base_dir: Path, want_scores: bool) -> Program:
    name = backend.interpreter
    # A bare name is looked up in PATH, a path is relative to the card.
    interpreter = sys.executable if name is None else str(base_dir / name) if "/" in name else name
    path = [str((base_dir / entry).resolve()) for entry in backend.path]
    return Program(
        command=[interpreter, "-u", str(Path(python_child.__file__).resolve())],
        folder=base_dir,
        start={"callable": backend.callable, "path": path, "params": _resolved(backend.params), "scores": want_scores},
        what=f"the model {backend.callable}",
        hint=f"looked in {', '.join(path)}, with {interpreter}",
    )


def _own(program: str) -> list[str]:
    """A program of aitest's, by aitest's interpreter; its folder does not go on `sys.path` (-P)."""
    return [sys.executable, "-P", "-u", os.fspath(Path(program).resolve())]


def _resolved(value: Any) -> Any:
    """Parameters with their `${NAME}` references resolved."""
    if isinstance(value, dict):
        return {key: _resolved(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_resolved(item) for item in value]
    return resolve(value) if isinstance(value, str) else value

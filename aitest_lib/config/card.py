"""The model card (contract, section 1): how to reach a black box and what it is, from one YAML file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from aitest_lib.canonical import digest, digest_bytes
from aitest_lib.config.endpoint import Endpoint, check_endpoint
from aitest_lib.config.loading import Document, StrictModel, load_yaml, plain, validate
from aitest_lib.types import ModelInfo

ModelType = Literal[
    "tabular-classifier",
    "tabular-regressor",
    "text-classifier",
    "conversation-classifier",
    "image-classifier",
    "speech-to-text",
]

BACKENDS = ("endpoint", "mlflow", "python", "onnx", "predictions")
NOT_IN_DIGEST = ("concurrency", "rate_per_s", "timeout_s", "retries")  # how it is asked, not what it is
_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_CALLABLE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class Decision(StrictModel):
    """For models that answer a score only: label = last class where score >= threshold, else the first class."""

    threshold: float = Field(ge=0, le=1)


class Inputs(StrictModel):
    """What the model expects: the columns, in the order in which they are sent."""

    columns: tuple[str, ...] | None = None


class PythonBackend(StrictModel):
    """A Python callable, or an object or class with `predict`, run in a process of its own.

    `path`: folders put in front of the child's `sys.path`; `interpreter`: another Python; `params`: arguments of a class.
    """

    callable: str
    path: tuple[str, ...] = (".",)
    interpreter: str | None = None
    params: dict[str, Any] = Field(default_factory=dict)


class Card(StrictModel):
    """A model card; exactly one of `endpoint`, `mlflow`, `python`, `onnx`, `predictions`.

    `mlflow`: `models:/NAME`, `models:/NAME/VERSION`, `models:/NAME@ALIAS` or `runs:/RUN/PATH`; `onnx`: a file.
    """

    name: str
    revision: str | None = None
    type: ModelType
    classes: tuple[bool | int | float | str, ...] | None = None
    decision: Decision | None = None
    inputs: Inputs = Field(default_factory=Inputs)
    info: dict[str, Any] = Field(default_factory=dict)
    endpoint: Endpoint | None = None
    mlflow: str | None = None
    onnx: str | None = None
    python: PythonBackend | None = None
    predictions: str | None = None


@dataclass(frozen=True, kw_only=True)
class LoadedCard:
    """A checked card: the model, the file it came from, the folder its paths are relative to, its data and digest.

    `raw` is JSON data with `${NAME}` references unresolved: it may be stored. `digest` names card and backend.
    """

    card: Card
    path: Path | None
    base_dir: Path
    raw: dict[str, Any]
    digest: str


def load_card(path: str | Path) -> LoadedCard:
    """Reads and checks a card. Everything that is wrong with it is an `InputError` with file, line and path."""
    return _loaded(load_yaml(path), Path(path), Path(path).resolve().parent)


def load_card_data(raw: Mapping[str, Any], base_dir: str | Path) -> LoadedCard:
    """Checks a card that comes as data (from a registry, from Python); paths in it are relative to `base_dir`."""
    return _loaded(Document(raw), None, Path(base_dir).resolve())


def model_info(loaded: LoadedCard, version: str | None = None) -> ModelInfo:
    """What the card says about its model. Answers may be kept for the next run where the card has a `revision`."""
    card = loaded.card
    return ModelInfo(
        name=card.name,
        type=card.type,
        digest=loaded.digest,
        version=version,
        revision=card.revision,
        classes=card.classes,
        reusable=card.revision is not None,
    )


def _loaded(document: Document, path: Path | None, base_dir: Path) -> LoadedCard:
    card = validate(document, Card)
    _check_card(document, card)
    if card.endpoint:
        check_endpoint(document, card, card.endpoint)
    if card.python and not _CALLABLE.fullmatch(card.python.callable):
        raise document.error(("python", "callable"), f"got {card.python.callable!r}, expected package.module:name")
    raw: dict[str, Any] = plain(document)
    return LoadedCard(card=card, path=path, base_dir=base_dir, raw=raw, digest=_card_digest(document, card, raw, base_dir))


def _check_card(document: Document, card: Card) -> None:
    if not _SLUG.fullmatch(card.name):
        raise document.error(("name",), f"got {card.name!r}, expected letters, digits, '_', '-' and '.' (a slug)")
    backends = [name for name in BACKENDS if getattr(card, name) is not None]
    if len(backends) != 1:
        got = " and ".join(backends) or "none"
        raise document.error((), f"got {got}, expected exactly one backend of {', '.join(BACKENDS)}; keep one")
    regressor = card.type == "tabular-regressor"
    if regressor and card.classes is not None:
        raise document.error(("classes",), "a regressor has no classes; leave them out")
    if regressor and card.decision is not None:
        raise document.error(("decision",), "a regressor has no decision threshold; leave it out")
    if card.classes is not None and (len(card.classes) < 2 or len(set(card.classes)) < len(card.classes)):
        raise document.error(("classes",), f"got {list(card.classes)}, expected at least 2 different classes")
    if card.decision is not None and (card.classes is None or len(card.classes) != 2):
        raise document.error(("decision",), "a threshold decides between exactly 2 classes; add `classes: [first, last]`")
    columns = card.inputs.columns
    if columns is not None and (not columns or len(set(columns)) < len(columns)):
        raise document.error(("inputs", "columns"), "expected at least one column, each named once")


def _card_digest(document: Document, card: Card, raw: dict[str, Any], base_dir: Path) -> str:
    stripped = {key: value for key, value in raw.items() if key != "info"}
    if card.endpoint:
        stripped["endpoint"] = {key: value for key, value in raw["endpoint"].items() if key not in NOT_IN_DIGEST}
    content = None
    if card.predictions is not None:
        try:
            content = digest_bytes((base_dir / card.predictions).read_bytes())
        except OSError as error:
            raise document.error(
                ("predictions",), f"{card.predictions} cannot be read: {error.strerror or error}; give a Parquet or CSV file"
            ) from error
    elif card.python:
        source = python_source(card.python, base_dir)
        content = digest_bytes(source.read_bytes()) if source else None
    return digest({"card": stripped, "content": content})


def python_source(backend: PythonBackend, base_dir: Path) -> Path | None:
    """The source file of the module that `callable` names, when it lies under one of the `path` entries."""
    module = Path(*backend.callable.split(":")[0].split("."))
    for entry in backend.path:
        for candidate in (base_dir / entry / module.with_suffix(".py"), base_dir / entry / module / "__init__.py"):
            if candidate.is_file():
                return candidate
    return None

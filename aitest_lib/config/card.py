"""The model card (contract, section 1): how to reach a black box and what it is, from one YAML file."""

from __future__ import annotations

import ast
import hashlib
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from aitest_lib.canonical import DIGEST_BYTES, digest, digest_bytes
from aitest_lib.config.endpoint import Endpoint
from aitest_lib.config.endpoint_checks import check_endpoint
from aitest_lib.config.inputs import Inputs, check_inputs
from aitest_lib.config.loading import Document, Location, StrictModel, load_yaml, plain, validate
from aitest_lib.errors import InputError, unknown
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
_MLFLOW = re.compile(r"models:/(?P<name>[^/:@]+)(?:/(?P<version>[1-9][0-9]*|latest)|@(?P<alias>[^/:@]+))?|runs:/[^/:@]+/.*[^/]")
_LOGGED_MODEL = re.compile(r"m-[0-9a-f]{32}")
MLFLOW_FORMS = "models:/NAME, models:/NAME/VERSION, models:/NAME@ALIAS or runs:/RUN/PATH"
MOST_SOURCES, MOST_SOURCE_BYTES = 500, 10_000_000  # of a `python` backend's code that the digest covers


class Decision(StrictModel):
    """For models that answer a score only: label = last class where score >= threshold, else the first class."""

    threshold: float = Field(ge=0, le=1)


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

    `mlflow`: `models:/NAME` (its latest version), `models:/NAME/VERSION`, `models:/NAME@ALIAS` or `runs:/RUN/PATH`;
    `onnx`: a file.
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
    """What the card says about its model.

    Answers may be kept for the next run where the card has a `revision`, or names one version of an MLflow model.
    """
    card = loaded.card
    return ModelInfo(
        name=card.name,
        type=card.type,
        digest=loaded.digest,
        version=version,
        revision=card.revision,
        classes=card.classes,
        reusable=card.revision is not None or (card.mlflow is not None and is_settled(card.mlflow)),
    )


@dataclass(frozen=True)
class MlflowVersion:
    """What `models:/NAME...` names: a version by number, `latest`, or `@alias`."""

    name: str
    version: str


def registered_version(uri: str) -> MlflowVersion | None:
    """The registered version that an MLflow URI names; None for `runs:/` and the id of a logged model."""
    found = _MLFLOW.fullmatch(uri)
    if found is None or found["name"] is None or _LOGGED_MODEL.fullmatch(found["name"]):
        return None
    return MlflowVersion(found["name"], f"@{found['alias']}" if found["alias"] else found["version"] or "latest")


def is_settled(uri: str) -> bool:
    """Does an MLflow URI name the same model for ever: a version by number, a run's, or a logged model."""
    found = registered_version(uri)
    return found is None or found.version.isdecimal()


def card_error(loaded: LoadedCard, at: Location, text: str) -> InputError:
    """The error to raise for what stands at `at` of a card, with file and line where the card came from a file."""
    document = load_yaml(loaded.path) if loaded.path else Document(loaded.raw)
    return document.error(at, text)


def _loaded(document: Document, path: Path | None, base_dir: Path) -> LoadedCard:
    card = validate(document, Card)
    _check_card(document, card)
    if card.endpoint:
        card = card.model_copy(update={"endpoint": check_endpoint(document, card, card.endpoint)})
    if card.python:
        _check_python(document, card.python, base_dir)
    if card.mlflow is not None and not _MLFLOW.fullmatch(card.mlflow):
        raise document.error(("mlflow",), f"got {card.mlflow!r}, expected {MLFLOW_FORMS}")
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
    check_inputs(document, card.type, card.inputs)
    columns = card.inputs.columns
    if columns is not None and (not columns or len(set(columns)) < len(columns)):
        raise document.error(("inputs", "columns"), "expected at least one column, each named once")


def _card_digest(document: Document, card: Card, raw: dict[str, Any], base_dir: Path) -> str:
    stripped = {key: value for key, value in raw.items() if key != "info"}
    if card.endpoint:
        stripped["endpoint"] = {key: value for key, value in raw["endpoint"].items() if key not in NOT_IN_DIGEST}
    content: Any = None
    if card.predictions is not None:
        content = _file_digest(document, "predictions", base_dir, card.predictions, "a Parquet or CSV file")
    elif card.onnx is not None:
        # Weights that do not fit into the file lie beside it under a longer name.
        file = base_dir / card.onnx
        beside = sorted(path for path in file.parent.glob(f"{escape(file.name)}?*") if path.is_file())
        parts = [card.onnx, *map(str, beside)]
        content = [_file_digest(document, "onnx", base_dir, part, "the path of an ONNX file") for part in parts]
    elif card.python:
        content = sources_digest(card.python, base_dir)
    return digest({"card": stripped, "content": content})


def _file_digest(document: Document, key: str, base_dir: Path, path: str, expected: str) -> str:
    try:
        with (base_dir / path).open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=DIGEST_BYTES)).hexdigest()
    except OSError as error:
        raise document.error((key,), f"{path} cannot be read: {error.strerror or error}; give {expected}") from error


def _check_python(document: Document, backend: PythonBackend, base_dir: Path) -> None:
    if not _CALLABLE.fullmatch(backend.callable):
        raise document.error(("python", "callable"), f"got {backend.callable!r}, expected package.module:name")
    interpreter = backend.interpreter
    if interpreter is not None:
        # A bare name is looked up in PATH, a path is relative to the card.
        found = (base_dir / interpreter).is_file() if "/" in interpreter else shutil.which(interpreter) is not None
        if not found:
            where = base_dir / interpreter if "/" in interpreter else "PATH"
            raise document.error(
                ("python", "interpreter"),
                f"the interpreter {interpreter} is not there (looked for in {where}); "
                "give the path of a Python, or leave it out for that of aitest",
            )
    source = python_source(backend, base_dir)
    name = backend.callable.partition(":")[2].split(".")[0]
    known = _names_in(source) if source else None
    if known is not None and name not in known:
        raise document.error(("python", "callable"), f"{unknown('name', name, known)} (in {source})")


def python_source(backend: PythonBackend, base_dir: Path) -> Path | None:
    """The source file of the module that `callable` names, when it lies under one of the `path` entries."""
    module = Path(*backend.callable.split(":")[0].split("."))
    for entry in backend.path:
        for candidate in (base_dir / entry / module.with_suffix(".py"), base_dir / entry / module / "__init__.py"):
            if candidate.is_file():
                return candidate
    return None


def _names_in(source: Path) -> set[str] | None:
    """The names that a module gives a meaning anywhere; None where they cannot be told without running it."""
    try:
        nodes = list(ast.walk(ast.parse(source.read_bytes())))
    except (SyntaxError, ValueError, OSError, RecursionError):
        return None  # perhaps of a newer Python; the interpreter that runs it will say
    imported = [alias for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names]
    names = {(alias.asname or alias.name).split(".")[0] for alias in imported}
    names |= {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
    names |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    dynamic = {"*", "__getattr__"} & names or {"globals", "vars", "setattr"} & {
        node.id for node in nodes if isinstance(node, ast.Name)
    }
    return None if dynamic else names


def sources_digest(backend: PythonBackend, base_dir: Path) -> list[list[str]] | None:
    """Names and digests of the code behind a `python` backend, so that a change in a helper is a change of the model.

    It is the module, then the rest of its package (of the modules beside it where it is in none); at most 500 files, 10 MB.
    """
    source = python_source(backend, base_dir)
    if source is None:
        return None
    package = backend.callable.split(":")[0].split(".")[0]
    top = next((folder for entry in backend.path if source.is_relative_to(folder := base_dir / entry / package)), None)
    others = sorted(top.rglob("*.py") if top else source.parent.glob("*.py"))
    found: list[list[str]] = []
    size = 0
    for file in [source, *(other for other in others if other != source and other.is_file())][:MOST_SOURCES]:
        size += file.stat().st_size
        if size > MOST_SOURCE_BYTES and found:
            break
        name = file.relative_to(top.parent if top else source.parent).as_posix()
        found.append([name, digest_bytes(file.read_bytes())])
    return found

"""The model card (contract, section 1): how to reach a black box and what it is, from one YAML file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import Field

from aitest_lib.canonical import digest, digest_bytes
from aitest_lib.config.loading import Document, Location, StrictModel, load_yaml, plain, validate
from aitest_lib.config.secrets import references
from aitest_lib.config.templates import template_problem
from aitest_lib.types import ModelInfo

ModelType = Literal["tabular-classifier", "tabular-regressor"]

BACKENDS = ("endpoint", "python", "predictions")
NOT_IN_DIGEST = ("concurrency", "rate_per_s", "timeout_s", "retries")  # how it is asked, not what it is
_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_CALLABLE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_SECRET_HEADER = re.compile(r"authorization|cookie|token|secret|password|api-?key|subscription-key", re.IGNORECASE)


class Decision(StrictModel):
    """For models that answer a score only: label = last class where score >= threshold, else the first class."""

    threshold: float = Field(ge=0, le=1)


class Inputs(StrictModel):
    """What the model expects: the columns, in the order in which they are sent."""

    columns: tuple[str, ...] | None = None


class Bearer(StrictModel):
    """`Authorization: Bearer <token>`."""

    type: Literal["bearer"]
    token: str


class Basic(StrictModel):
    """HTTP basic authentication."""

    type: Literal["basic"]
    username: str
    password: str


class ApiKey(StrictModel):
    """A key in a header (default `X-Api-Key`) or in the query parameter `query`."""

    type: Literal["api-key"]
    key: str
    header: str | None = None
    query: str | None = None


Auth = Annotated[Bearer | Basic | ApiKey, Field(discriminator="type")]


class Response(StrictModel):
    """Where the answers stand in the response: JMESPath expressions."""

    kind: Literal["json"] = "json"
    labels: str | None = None
    scores: str | None = None
    success: str | None = None


class Endpoint(StrictModel):
    """A model behind HTTP: one request per batch, JSON both ways. Times in seconds, rates in calls per second."""

    url: str
    method: Literal["POST", "PUT"] = "POST"
    auth: Auth | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    body: Literal["json"] = "json"
    request: str
    response: Response
    batch_size: int = Field(default=256, ge=1, le=100_000)
    concurrency: int = Field(default=8, ge=1, le=256)
    rate_per_s: float | None = Field(default=None, gt=0)
    timeout_s: float = Field(default=30, gt=0, le=3600)
    retries: int = Field(default=5, ge=0, le=20)


class PythonBackend(StrictModel):
    """A Python callable, or an object or class with `predict`, run in a process of its own.

    `path`: folders put in front of the child's `sys.path`; `interpreter`: another Python; `params`: arguments of a class.
    """

    callable: str
    path: tuple[str, ...] = (".",)
    interpreter: str | None = None
    params: dict[str, Any] = Field(default_factory=dict)


class Card(StrictModel):
    """A model card; exactly one of `endpoint`, `python`, `predictions`."""

    name: str
    revision: str | None = None
    type: ModelType
    classes: tuple[bool | int | float | str, ...] | None = None
    decision: Decision | None = None
    inputs: Inputs = Field(default_factory=Inputs)
    info: dict[str, Any] = Field(default_factory=dict)
    endpoint: Endpoint | None = None
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
        _check_endpoint(document, card, card.endpoint)
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


def _check_endpoint(document: Document, card: Card, endpoint: Endpoint) -> None:
    at: Location = ("endpoint",)
    if problem := _url_problem(endpoint.url):
        raise document.error((*at, "url"), problem)
    if problem := template_problem(endpoint.request, card.inputs.columns):
        raise document.error((*at, "request"), problem)
    _check_secrets(document, endpoint)
    response = endpoint.response
    for key in ("labels", "scores", "success"):
        expression = getattr(response, key)
        if expression is not None and (problem := jmespath_problem(expression)):
            raise document.error((*at, "response", key), problem)
    if response.labels is None and response.scores is None:
        raise document.error((*at, "response"), "expected `labels`, `scores`, or both: where the answers stand")
    if response.scores is not None and card.type == "tabular-regressor":
        raise document.error((*at, "response", "scores"), "a regressor answers numbers as `labels`; leave `scores` out")
    if response.scores is not None and card.classes is None:
        raise document.error((*at, "response", "scores"), "scores need the order of the classes; add `classes: [...]`")
    if response.labels is None and card.decision is None:
        raise document.error((*at, "response"), "scores alone give no label; add `decision: {threshold: 0.5}`, or `labels`")
    if response.labels is not None and card.decision is not None:
        raise document.error(("decision",), "the model answers labels; leave `decision` or `response.labels` out")


def _check_secrets(document: Document, endpoint: Endpoint) -> None:
    """A card may be stored and shown, so a secret in it must be a reference."""
    say = "a secret must be a reference, not a literal; write ${NAME} and set the environment variable NAME"
    auth = endpoint.auth
    for key in ("token", "password", "key"):
        value = getattr(auth, key, None)
        if value is not None and not references(value):
            raise document.error(("endpoint", "auth", key), say)
    if isinstance(auth, ApiKey) and auth.header is not None and auth.query is not None:
        raise document.error(("endpoint", "auth"), "got header and query, expected one of them")
    for name, value in endpoint.headers.items():
        if _SECRET_HEADER.search(name) and not references(value):
            raise document.error(("endpoint", "headers", name), say)
    parts = urlsplit(endpoint.url)
    if parts.password and not references(parts.password):
        raise document.error(("endpoint", "url"), f"{say}; better, use `auth: {{type: basic, ...}}`")


def _url_problem(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return f"not a valid URL: {error}"
    if "{{" in url:
        return "got a template, expected a fixed URL; write out the address"
    # A reference may stand for the whole address: it is known only when it is used.
    if not url.startswith("${") and (parts.scheme not in ("http", "https") or not parts.hostname or port == 0):
        return f"got {url.split('?')[0]!r}, expected http:// or https:// and a host"
    return None


def jmespath_problem(expression: str) -> str | None:
    """What is wrong with a JMESPath expression, or None."""
    try:
        jmespath.compile(expression)
    except JMESPathError as error:
        problem = str(error).split("\n")[0].removeprefix("Bad jmespath expression: ").rstrip(": ")
        return f'not a valid JMESPath expression: {problem}; a key with other characters needs double quotes: "a-b"'
    return None


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

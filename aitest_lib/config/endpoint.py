"""The `endpoint` of a card (contract, section 1): how a model behind HTTP is called, and what may stand where."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import Field

from aitest_lib.config.loading import Document, Location, StrictModel
from aitest_lib.config.secrets import references
from aitest_lib.config.templates import template_problem

if TYPE_CHECKING:
    from aitest_lib.config.card import Card

_SECRET_HEADER = re.compile(r"authorization|cookie|token|secret|password|api-?key|subscription-key", re.IGNORECASE)


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


class OAuth2(StrictModel):
    """OAuth 2.0 client credentials (RFC 6749, 4.4): a token from `token_url`, renewed before it expires and after a 401."""

    type: Literal["oauth2"]
    token_url: str
    client_id: str
    client_secret: str
    scope: str | None = None
    audience: str | None = None


class SigV4(StrictModel):
    """AWS Signature Version 4, with the usual environment variables unless the card names others."""

    type: Literal["sigv4"]
    region: str
    service: str = "sagemaker"
    access_key: str = "${AWS_ACCESS_KEY_ID}"
    secret_key: str = "${AWS_SECRET_ACCESS_KEY}"  # noqa: S105 - a reference
    session_token: str | None = None


Auth = Annotated[Bearer | Basic | ApiKey | OAuth2 | SigV4, Field(discriminator="type")]


class Tls(StrictModel):
    """Files (PEM) relative to the card: `ca`, whose servers are trusted; `cert` and `key`, who is asking (`key` may stand in
    `cert`). `verify: false` trusts any server."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    verify: bool = True


class FilePart(StrictModel):
    """A part of a multipart body that carries the input itself as a file."""

    content: Literal["audio", "image"]
    filename: str
    type: str


class Response(StrictModel):
    """Where the answers stand in the response: JMESPath expressions over JSON; over a list of lists for `csv`, over a string
    for `text`. `json-in-json`: texts inside the JSON that hold JSON themselves are decoded first."""

    kind: Literal["json", "text", "csv", "json-in-json"] = "json"
    labels: str | None = None
    scores: str | None = None
    success: str | None = None


class Step(StrictModel):
    """A call besides the main one; its answer, or what `extract` takes from it, is a template variable of the step's name.

    `when`: once `before_run` (again after a 401), `before_case` (once per input; needs `batch_size: 1`), `before_call` (every
    attempt of the main call), `after_call`. With `until` the step is repeated `every_s` seconds until that is true, for at most
    `timeout_s`. `success`: when it is false, the call has failed.
    """

    name: str
    when: Literal["before_run", "before_case", "before_call", "after_call"]
    url: str
    method: Literal["GET", "POST", "PUT", "DELETE"] | None = None  # POST with a body, else GET
    headers: dict[str, str] = Field(default_factory=dict)
    auth: Auth | None = None
    body: Literal["json", "raw", "multipart"] = "json"
    request: str | None = None
    parts: dict[str, str | FilePart] | None = None
    extract: dict[str, str] | None = None
    success: str | None = None
    until: str | None = None
    every_s: float = Field(default=1, gt=0, le=3600)
    timeout_s: float | None = Field(default=None, gt=0, le=86400)


class Endpoint(StrictModel):
    """A model behind HTTP. Times in seconds, rates in calls per second."""

    url: str
    method: Literal["POST", "PUT"] = "POST"
    auth: Auth | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    tls: Tls | None = None
    proxy: str | None = None
    body: Literal["json", "raw", "multipart", "websocket"] = "json"
    request: str | None = None
    parts: dict[str, str | FilePart] | None = None
    response: Response
    steps: tuple[Step, ...] = ()
    batch_size: int = Field(default=256, ge=1, le=100_000)
    concurrency: int = Field(default=8, ge=1, le=256)
    rate_per_s: float | None = Field(default=None, gt=0)
    timeout_s: float = Field(default=30, gt=0, le=3600)
    retries: int = Field(default=5, ge=0, le=20)


def check_endpoint(document: Document, card: Card, endpoint: Endpoint) -> None:
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

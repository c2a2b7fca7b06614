"""The `endpoint` of a card (contract, section 1): how a model behind HTTP is called."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from aitest_lib.config.loading import StrictModel, describe


def _is_text(value: Any) -> Any:
    if not isinstance(value, str) and value is not None:
        got = describe(value)
        raise ValueError(f"got {got}, expected text; put quotes around the template, or `|` in front of it")
    return value


def _is_line(value: str) -> str:
    if any(ord(one) < 32 or ord(one) == 127 for one in value):
        raise ValueError("got a line break or another control character, expected one line")
    return value


TemplateText = Annotated[str, BeforeValidator(_is_text)]
Line = Annotated[str, AfterValidator(_is_line)]


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
    """Where the answers stand in the response: JMESPath expressions over JSON; over a list of lists for `csv` (cells that are
    numbers are numbers), over the text without the blanks around it for `text` (`labels: "@"`). `json-in-json`: texts inside
    the JSON that hold an object or a list are decoded first. Of a WebSocket the response is the list of its messages, decoded
    where they are JSON.
    """

    kind: Literal["json", "text", "csv", "json-in-json"] = "json"
    labels: str | None = None
    scores: str | None = None
    success: str | None = None


class Step(StrictModel):
    """A call besides the main one; its answer, or what `extract` takes from it, is a template variable of the step's name.

    `when`: once `before_run` (again after a 401), `before_case` (once per input, and again after a 401; needs `batch_size: 1`),
    `before_call` (every attempt of the main call), `after_call` (`call` is the main answer). With `until` the step is repeated
    every `every_s` seconds until that is true, for at most `timeout_s` (default: the endpoint's). `success`: when it is false,
    the call has failed. A `raw` body without `request` is the input itself. Credentials go to hosts that the card names, never
    to one that came out of an answer.
    """

    name: str
    when: Literal["before_run", "before_case", "before_call", "after_call"]
    url: Line
    method: Literal["GET", "POST", "PUT", "DELETE"] | None = None  # POST where there is a body, else GET
    headers: dict[str, Line] = Field(default_factory=dict)
    auth: Auth | None = None
    body: Literal["json", "raw", "multipart"] = "json"
    request: TemplateText | None = None
    parts: dict[str, str | FilePart] | None = None
    extract: dict[str, str] | None = None
    success: str | None = None
    until: str | None = None
    every_s: float = Field(default=1, gt=0, le=3600)
    timeout_s: float | None = Field(default=None, gt=0, le=86400)


class Endpoint(StrictModel):
    """A model behind HTTP. Times in seconds, rates in calls per second.

    `url`, `headers`, `auth`, `request` and `parts` may hold templates. `request` of a `websocket` makes the JSON list of the
    messages to send: `{"binary": "<base64>"}` is sent as bytes, any other item as its JSON text. Without a `batch_size` a call
    carries one input where it cannot carry more, else up to 256.
    """

    url: Line
    method: Literal["POST", "PUT"] = "POST"
    auth: Auth | None = None
    headers: dict[str, Line] = Field(default_factory=dict)
    tls: Tls | None = None
    proxy: str | None = None
    body: Literal["json", "raw", "multipart", "websocket"] = "json"
    request: TemplateText | None = None
    parts: dict[str, str | FilePart] | None = None
    response: Response
    steps: tuple[Step, ...] = ()
    batch_size: int = Field(default=256, ge=1, le=100_000)
    concurrency: int = Field(default=8, ge=1, le=256)
    rate_per_s: float | None = Field(default=None, gt=0)
    timeout_s: float = Field(default=30, gt=0, le=3600)
    retries: int = Field(default=5, ge=0, le=20)

"""Who is asking: the card's `auth` as headers, query parameters or a signature, resolved at every call."""

from __future__ import annotations

import base64
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, urlencode, urlsplit, urlunsplit

import httpx

from aitest_lib.config.endpoint import ApiKey, Auth, Basic, Bearer, OAuth2, SigV4
from aitest_lib.config.secrets import remember, resolve
from aitest_lib.errors import InputError
from aitest_lib.models.base import StopSwitch, excerpt
from aitest_lib.models.endpoint.wire import Answer, Call, WireError

RENEWED_BEFORE_S = 30.0

Sign = Callable[[str, str, Mapping[str, str], bytes | None], dict[str, str]]  # method, url, headers, body -> signed headers


@dataclass(frozen=True)
class Credentials:
    """What a call carries so that the endpoint lets it in. `sign`: makes headers of the call as it will be sent."""

    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    sign: Sign | None = None


@dataclass(frozen=True)
class Token:
    """An access token and when to get another, on the monotonic clock."""

    value: str
    renew_at: float = math.inf


class TokenError(Exception):
    """A token endpoint answered, but with no token."""


class Tokens:
    """The OAuth 2.0 tokens of one model, kept until they run out. Thread-safe: one thread asks, the others wait for it."""

    def __init__(self, exchange: Callable[[OAuth2], Token], stop: StopSwitch) -> None:
        self._exchange = exchange
        self._stop = stop
        self._kept: dict[str, Token] = {}
        self._lock = Lock()

    def current(self, auth: OAuth2) -> str:
        """A token that is good for a while."""
        with self._stop.holding(self._lock):
            kept = self._kept.get(_key(auth))
            if kept is None or time.monotonic() >= kept.renew_at:
                kept = self._kept[_key(auth)] = self._exchange(auth)
            return kept.value

    def refused(self, auth: OAuth2, used: Credentials) -> None:
        """Forgets the token that `used` carries, unless another thread has replaced it already."""
        with self._stop.holding(self._lock):
            kept = self._kept.get(_key(auth))
            if kept is not None and used.headers == _bearer(kept.value).headers:
                del self._kept[_key(auth)]


def credentials(auth: Auth | None, tokens: Tokens) -> Credentials:
    """What `auth` adds to a call. An unset reference is an `InputError`.

    Bearer (RFC 6750), basic (RFC 7617), an API key, OAuth 2.0 client credentials (RFC 6749, 4.4), AWS Signature Version 4.
    """
    match auth:
        case Bearer(token=token):
            return _bearer(resolve(token))
        case Basic(username=username, password=password):
            return Credentials(headers={"Authorization": f"Basic {_pair(resolve(username), resolve(password))}"})
        case ApiKey(key=key, query=str(query)):
            return Credentials(query={query: resolve(key)})
        case ApiKey(key=key, header=header):
            return Credentials(headers={header or "X-Api-Key": resolve(key)})
        case OAuth2():
            return _bearer(tokens.current(auth))
        case SigV4():
            return Credentials(sign=signer(auth))
    return Credentials()


def authorized(call: Call, url: str, held: Credentials) -> tuple[httpx.URL, dict[str, str]]:
    """Address and headers of a call with its credentials; a header of the card gives way to one of its `auth`.

    `url`: resolved. Raises `WireError` where HTTP allows no such address or header.
    """
    try:
        target = httpx.URL(url)
        if held.query:
            target = target.copy_merge_params(held.query)
        headers = httpx.Headers({name: resolve(value) for name, value in call.headers.items()})
        headers.update(held.headers)
        plain = {name.decode(): value.decode() for name, value in headers.raw}
    except (httpx.InvalidURL, UnicodeError) as error:
        problem = f"no call can be made: {excerpt(str(error))}"
        raise WireError(problem, connected=False, mend="check url and headers") from None
    if strange := next((name for name, value in plain.items() if not (name + value).isprintable()), None):
        # Its value is not quoted: it may be a secret.
        problem = f"no call can be made: the header {strange[:40]!r} holds characters that HTTP does not allow"
        raise WireError(problem, connected=False, mend="check the headers and their secrets")
    if held.sign is not None:
        plain = held.sign(call.method, str(target), plain, call.content)
    return target, plain


def token_call(auth: OAuth2) -> Call:
    """The request for a token: RFC 6749, 4.4.2, the client authenticated as in 2.3.1."""
    pair = _pair(quote_plus(resolve(auth.client_id)), quote_plus(resolve(auth.client_secret)))
    form = {"grant_type": "client_credentials", "scope": auth.scope, "audience": auth.audience}
    content = urlencode({name: resolve(value) for name, value in form.items() if value is not None}).encode()
    headers = {
        "Authorization": f"Basic {pair}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
    }
    return Call(url=auth.token_url, method="POST", headers=headers, content=content, auth=None, rows=0)


def read_token(answer: Answer, asked_at: float) -> Token:
    """The token in a successful answer (RFC 6749, 5.1), to be renewed 30 s early, a short one at half of its life.

    Raises `TokenError` that says what is wrong, without quoting an answer that may hold a token.
    """
    try:
        data: Any = json.loads(answer.text)
    except (ValueError, RecursionError):
        raise TokenError("got an answer that is no JSON") from None
    value = data.get("access_token") if isinstance(data, dict) else None
    if not isinstance(value, str) or not value.isascii() or not value.isprintable() or not value.strip():
        raise TokenError("got JSON without a usable `access_token`")
    kind = data.get("token_type", "Bearer")
    if not str(kind).lower().startswith("bearer"):
        raise TokenError("got a token whose `token_type` is not Bearer")
    remember(value)
    life = _seconds(data.get("expires_in"))
    return Token(value, math.inf if life is None else asked_at + max(life - RENEWED_BEFORE_S, life / 2))


def signer(auth: SigV4) -> Sign:
    """Signs with AWS Signature Version 4, by botocore: host, time, and all headers of the card."""
    try:
        from botocore.auth import S3SigV4Auth, SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials as AwsCredentials
    except ImportError:
        raise InputError("`auth: {type: sigv4}` needs botocore: pip install 'aitest[s3]'") from None
    session_token = auth.session_token
    if session_token is None and os.environ.get("AWS_SESSION_TOKEN"):
        session_token = "${AWS_SESSION_TOKEN}"  # noqa: S105 - a reference
    keys = AwsCredentials(
        resolve(auth.access_key), resolve(auth.secret_key), None if session_token is None else resolve(session_token)
    )
    kind = S3SigV4Auth if auth.service == "s3" else SigV4Auth

    def sign(method: str, url: str, headers: Mapping[str, str], content: bytes | None) -> dict[str, str]:
        request = AWSRequest(method, _strict_query(url), data=content or b"", headers=dict(headers))
        kind(keys, auth.service, auth.region).add_auth(request)
        return dict(request.headers.items())

    return sign


def _bearer(token: str) -> Credentials:
    return Credentials(headers={"Authorization": f"Bearer {token}"})


def _pair(user: str, password: str) -> str:
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    remember(pair)  # neither half is recognisable in it
    return pair


def _key(auth: OAuth2) -> str:
    return auth.model_dump_json()


def _seconds(value: Any) -> float | None:
    """`expires_in`, which some servers write as text; None where it says nothing."""
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if 0 < seconds < math.inf else None


def _strict_query(url: str) -> str:
    """The URL with its query encoded as AWS does before it compares signatures: all but letters, digits and `-_.~`."""
    parts = urlsplit(url)
    query = urlencode(parse_qsl(parts.query, keep_blank_values=True), quote_via=quote, safe="-_.~")
    return urlunsplit(parts._replace(query=query))

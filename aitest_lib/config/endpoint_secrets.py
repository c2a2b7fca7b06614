"""No secret stands in a card: it may be stored and shown, so a secret must be a reference or come from a step."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

from aitest_lib.config.endpoint import ApiKey, Auth, Endpoint, Step
from aitest_lib.config.loading import Document, Location
from aitest_lib.config.secrets import references

SECRET_KEYS = ("token", "password", "key", "client_secret", "access_key", "secret_key", "session_token")  # of `auth`
SECRET_HEADER = re.compile(
    r"authorization|cookie|secret|passw|credential|signature|token(?!s\b|iz)|(^|[-_])auth([-_]|$)"
    r"|(api|access|app|client|subscription|functions?|account|master|private|session)[-_]?key|^x-key$",
    re.IGNORECASE,
)
_SECRET_QUERY = re.compile(
    r"^key$|(api|access|subscription)[-_]?key|token$|^sig$|signature|secret|passw|^pwd$|^auth$", re.IGNORECASE
)
_SAY = "a secret must be a reference, not a literal; write ${NAME} and set the environment variable NAME"


def check_secrets(document: Document, endpoint: Endpoint, at: Location = ("endpoint",)) -> None:
    """Raises for every literal secret: in `auth`, headers, addresses, the proxy, and in all of these of the steps."""
    calls: dict[Location, Endpoint | Step] = {at: endpoint}
    calls |= {(*at, "steps", n): step for n, step in enumerate(endpoint.steps)}
    for where, one in calls.items():
        _check_auth(document, (*where, "auth"), one.auth)
        for name, value in one.headers.items():
            if is_secret_header(name) and not _is_reference(value):
                raise document.error((*where, "headers", name), _SAY)
        _check_url(document, (*where, "url"), one.url)
    if endpoint.proxy is not None:
        _check_url(document, (*at, "proxy"), endpoint.proxy)


def is_secret_header(name: str) -> bool:
    """Whether a header of this name usually says who is asking."""
    return SECRET_HEADER.search(name) is not None


def _check_auth(document: Document, at: Location, auth: Auth | None) -> None:
    for key in SECRET_KEYS:
        value = getattr(auth, key, None)
        if value is not None and not _is_reference(value):
            raise document.error((*at, key), _SAY)
    if isinstance(auth, ApiKey) and auth.header is not None and auth.query is not None:
        raise document.error(at, "got header and query, expected one of them")
    if (token_url := getattr(auth, "token_url", None)) is not None:
        _check_url(document, (*at, "token_url"), token_url)


def _check_url(document: Document, at: Location, url: str) -> None:
    parts = urlsplit(url)
    user, has_user, _ = parts.netloc.rpartition("@")
    if has_user and not _is_reference(user.partition(":")[2] or user):
        raise document.error(at, f"{_SAY}; better, use `auth: {{type: basic, ...}}`")
    for name, value in parse_qsl(parts.query):
        if _SECRET_QUERY.search(name) and not _is_reference(value):
            raise document.error(at, f"{_SAY}; better, use `auth: {{type: api-key, query: {name}, ...}}`")


def _is_reference(value: str) -> bool:
    return bool(references(value)) or "{{" in value

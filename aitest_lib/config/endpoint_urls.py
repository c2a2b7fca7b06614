"""Addresses in a card: what is wrong with one, and which hosts a card names."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from aitest_lib.config.secrets import REFERENCE

Origin = tuple[str, str, int]  # scheme, host, port

PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_OPEN = "\ufffc"  # stands for what is not known yet


def url_problem(url: str, *, websocket: bool) -> str | None:
    """What is wrong with an address, or None. References and templates in it are known only when it is used."""
    filled = REFERENCE.sub(_OPEN, _TEMPLATE.sub(_OPEN, url))
    if re.search(r"\s", filled):
        return "got an address with blanks, expected none; write %20 for a blank"
    if filled.startswith(_OPEN):
        return None
    schemes = ("ws", "wss") if websocket else ("http", "https")
    expected = " or ".join(f"{scheme}://" for scheme in schemes)
    try:
        parts = urlsplit(filled)
        port = None if _OPEN in parts.netloc else parts.port
    except ValueError as error:
        return f"not a valid URL: {error}"
    if parts.scheme in ("ws", "wss") and not websocket:
        return f"got {parts.scheme}://, the address of a WebSocket; add `body: websocket`, or write {expected}"
    if parts.scheme in ("http", "https") and websocket:
        return f"got {parts.scheme}://, expected {expected} for body: websocket"
    if parts.scheme not in schemes or not parts.netloc.rpartition("@")[2].partition(":")[0] or port == 0:
        return f"got {shown(url)!r}, expected {expected} and a host"
    return None


def proxy_problem(url: str) -> str | None:
    """What is wrong with a proxy's address, or None."""
    if problem := url_problem(url, websocket=False):
        return problem
    return "got a template, expected a fixed address" if _TEMPLATE.search(url) else None


def origin_of(url: str) -> Origin | None:
    """Scheme, host and port of a URL without references and templates; None where it has none."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in PORTS or not parts.hostname:
        return None
    return parts.scheme, parts.hostname.lower(), port or PORTS[parts.scheme]


def literal_start(url: str) -> str | None:
    """Scheme and host of an address where the card itself says them, references unresolved; None where a template does."""
    start = _TEMPLATE.split(url, maxsplit=1)
    head = start[0]
    if len(start) == 1:
        return head
    # The host has ended only where a path, a query or a fragment has begun before the template.
    return head if re.match(r"(\$\{\w+\}|[a-z]+://[^/?#]+)[/?#]", head, re.IGNORECASE) else None


def shown(url: str) -> str:
    """An address for a message: without its query and user, which may carry a secret."""
    plain = url.split("?")[0].split("#")[0]
    before, at, after = plain.rpartition("@")
    return f"{before.split('://')[0]}://{after}" if at and "://" in before else after if at else plain

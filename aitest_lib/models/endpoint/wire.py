"""What goes over the wire to a model: one call, its answer, and what may come instead of an answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote, urlsplit

from aitest_lib.config.endpoint import Auth
from aitest_lib.config.secrets import mask, resolve

MAX_ANSWER = 64 * 1024 * 1024  # bytes, after decompression
_USER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*@")


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call, ready to be sent. `${NAME}` in `url` and `headers` is resolved when it is sent.

    `content`: the body; None: none; for a WebSocket a JSON list of messages. `auth`: whose credentials go along.
    `rows`: inputs on board, 0 for a step.
    """

    url: str
    method: str
    headers: Mapping[str, str]
    content: bytes | None
    auth: Auth | None
    rows: int

    @property
    def shown_url(self) -> str:
        """The address for a message: references unresolved, without user and query, which may carry a key."""
        return shown(self.url)


@dataclass(frozen=True)
class Answer:
    """Status and text of one answer; of a WebSocket, 200 and a JSON list of the text messages.

    `retry_after`: the header of that name, as it came. `content`: the bytes behind the text, where it came over HTTP.
    """

    status: int
    text: str
    retry_after: str = ""
    content: bytes = b""


class WireError(Exception):
    """No answer came. `connected`: the other side was there. `mend`: what to change, where asking again cannot help.

    `stale`: the connection was one of an earlier call, and the other side closed it without a byte of an answer.
    """

    def __init__(self, problem: str, *, connected: bool, mend: str | None = None, stale: bool = False) -> None:
        super().__init__(problem)
        self.connected = connected
        self.mend = mend
        self.stale = stale


def resolved_url(url: str) -> str:
    """A URL with its references replaced; those of user and password, which may hold any character, percent-encoded."""
    user = _USER.match(url)
    end = user.end() if user else 0
    return resolve(url[:end], partial(quote, safe="")) + resolve(url[end:])


def shown(url: str) -> str:
    """A URL without user, query and fragment; secrets masked."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return mask(url.partition("?")[0].rpartition("@")[2])
    plain = url.partition("?")[0].partition("#")[0]
    return mask(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.scheme else plain)

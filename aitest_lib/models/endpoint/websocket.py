"""One exchange over a WebSocket (RFC 6455): all messages go out, text messages come back until the server closes."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from aitest_lib.errors import ModelAnswerError
from aitest_lib.models.base import POLL_S, StopSwitch, excerpt
from aitest_lib.models.endpoint.network import Network
from aitest_lib.models.endpoint.tls import tls_error
from aitest_lib.models.endpoint.wire import MAX_ANSWER, Answer, WireError, shown

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

FRAME = 8_000  # bytes of a binary message: a quarter of a second of 16 kHz PCM16, as streaming recognisers want it
MAX_MESSAGE = 64 * 1024 * 1024  # bytes
LONGEST_OPEN_S = 10.0

# Its debug lines show headers and messages, and its errors are tracebacks of what `WireError` says in a line.
logging.getLogger("websockets").setLevel(logging.CRITICAL)


class HandshakeRefused(Exception):
    """The server answered the opening handshake with an HTTP status of its own."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"HTTP {answer.status}")
        self.answer = answer


def messages_of(content: bytes) -> list[str | bytes]:
    """The messages in a body, a JSON list: `{"binary": "<base64>"}` is a binary message, all else goes as its JSON text."""
    try:
        items = json.loads(content)
        if not isinstance(items, list):
            raise ValueError(f"got {type(items).__name__}")
        return [_message(item) for item in items]
    except (ValueError, RecursionError) as error:
        problem = f"expected a JSON list of messages, binary ones as {{'binary': '<base64>'}}; {error}"
        raise ModelAnswerError(f"the request cannot be sent over a WebSocket: {problem}") from None


def exchange(
    url: str,
    messages: Sequence[str | bytes],
    headers: Mapping[str, str],
    *,
    timeout_s: float,
    ssl: ssl.SSLContext,
    stop: StopSwitch,
    network: Network,
    proxy: str | None,
    before_send: Callable[[], None],
) -> list[str]:
    """The text messages that the server sends until it closes, everything within `timeout_s`; binary ones are left out.

    `before_send`: called when there is a connection, just before the opening handshake goes out.

    Raises `WireError` (not connected, dropped, closed with an error, too late), `HandshakeRefused`, `ModelAnswerError` (too
    much came), `Interrupted`.
    """
    end = time.monotonic() + timeout_s
    with _connection(url, headers, min(timeout_s, LONGEST_OPEN_S), ssl, network, proxy, before_send) as connection:
        sender = threading.Thread(target=_send_all, args=(connection, messages), name="aitest-websocket", daemon=True)
        sender.start()
        try:
            return _received(connection, end, timeout_s, stop)
        finally:
            connection.close_socket()  # wakes the sender, too
            sender.join()


def _message(item: Any) -> str | bytes:
    if isinstance(item, dict) and set(item) == {"binary"} and isinstance(item["binary"], str):
        return base64.b64decode(item["binary"], validate=True)
    return json.dumps(item, ensure_ascii=False)


@contextmanager
def _connection(
    url: str,
    headers: Mapping[str, str],
    timeout_s: float,
    context: ssl.SSLContext,
    network: Network,
    proxy: str | None,
    before_send: Callable[[], None],
) -> Iterator[ClientConnection]:
    from websockets.exceptions import InvalidProxyStatus, InvalidStatus, WebSocketException
    from websockets.sync.client import ClientConnection, connect

    made: list[ClientConnection] = []

    class Kept(ClientConnection):
        """One that can be asked what went wrong when it has not come about."""

        def __init__(self, *args: Any, **options: Any) -> None:
            made.append(self)
            super().__init__(*args, **options)

        def handshake(self, *args: Any, **options: Any) -> None:
            before_send()
            super().handshake(*args, **options)

    parts = urlsplit(url)
    secure = parts.scheme == "wss"
    try:
        opened = None if proxy else network.open(parts.hostname or "", parts.port or (443 if secure else 80), timeout_s)
        connection = connect(
            url,
            sock=opened,
            ssl=context if secure else None,
            additional_headers=headers,
            proxy=proxy,
            proxy_ssl=context if proxy and proxy.startswith("https") else None,
            compression=None,
            open_timeout=timeout_s,
            ping_interval=None,  # a model that is busy answers no pings; the deadline is enough
            close_timeout=1,
            max_size=MAX_MESSAGE,
            create_connection=Kept,
        )
    except TimeoutError as error:
        raise WireError(f"no connection within {timeout_s:g} s", connected=False) from error
    except InvalidStatus as error:
        answer = error.response
        text = bytes(answer.body or b"").decode("utf-8", "replace")
        raise HandshakeRefused(Answer(answer.status_code, text, answer.headers.get("Retry-After", ""))) from error
    except InvalidProxyStatus as error:
        said, mend = error.response.status_code, "check `endpoint.proxy` and its credentials"
        busy = said in (502, 503, 504)
        problem = f"the proxy {shown(proxy or '')} refuses the connection: HTTP {said}"
        raise WireError(problem, connected=busy, mend=None if busy else mend) from error
    except (OSError, EOFError, WebSocketException) as error:
        reason = made[0].recv_exc if made else error  # with TLS 1.3 a server says only now what it thinks of our certificate
        refused = tls_error(reason) if isinstance(reason, ssl.SSLError) else None
        what = "the opening handshake failed: " if made else ""
        problem = f"{what}{type(error).__name__}: {excerpt(str(error))}"
        raise refused or WireError(problem, connected=bool(made)) from error
    yield connection


def _send_all(connection: ClientConnection, messages: Sequence[str | bytes]) -> None:
    from websockets.exceptions import ConnectionClosed

    with contextlib.suppress(ConnectionClosed, OSError):  # the receiver sees it, too, and says what it means
        for message in messages:
            if isinstance(message, str):
                connection.send(message)
            else:
                for start in range(0, max(len(message), 1), FRAME):
                    connection.send(message[start : start + FRAME])


def _received(connection: ClientConnection, end: float, timeout_s: float, stop: StopSwitch) -> list[str]:
    from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK

    texts: list[str] = []
    size = 0
    while (left := end - time.monotonic()) > 0:
        stop.check()
        try:
            message = connection.recv(timeout=min(left, POLL_S))
        except TimeoutError:
            continue
        except ConnectionClosedOK:
            return texts
        except ConnectionClosedError as error:
            raise WireError(f"the connection was lost: {excerpt(str(error))}", connected=True) from error
        if isinstance(message, str):
            texts.append(message)
            size += len(message)
        if size > MAX_ANSWER:
            raise ModelAnswerError(f"got messages of more than {MAX_ANSWER // 2**20} MiB, expected less")
    raise WireError(f"no close within {timeout_s:g} s, after {len(texts)} text messages", connected=True)

"""A real HTTP server on loopback whose answers are functions: for tests of what is sent, in which order, with which headers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Request:
    """One request as it came in; header names in lower case."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def parts(self) -> dict[str, tuple[str | None, str | None, bytes]]:
        """The parts of a multipart body: name -> file name, media type, content; read by the standard library."""
        head = f"Content-Type: {self.headers['content-type']}\r\n\r\n".encode()
        found = {}
        for part in message_from_bytes(head + self.body).get_payload():
            name = part.get_param("name", header="content-disposition")
            media = part.get_content_type() if "content-type" in part else None
            found[name] = (part.get_filename(), media, part.get_payload(decode=True))
        return found


Reply = tuple[int, Any] | Any  # status and body, or a body (JSON data, text or bytes) with status 200


@dataclass
class App:
    """`routes`: "METHOD /path" -> a reply, or a function of the request. A path that ends in * stands for all that start so."""

    routes: dict[str, Callable[[Request], Reply] | Reply]
    requests: list[Request] = field(default_factory=list)
    url: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def seen(self, start: str) -> list[Request]:
        """The requests to a path, in their order."""
        return [one for one in list(self.requests) if f"{one.method} {one.path}".startswith(start)]

    def paths(self) -> list[str]:
        """What was asked, in its order."""
        return [f"{one.method} {one.path}" for one in self.requests]

    def reply(self, request: Request) -> tuple[int, bytes, str]:
        with self._lock:
            self.requests.append(request)
        key = f"{request.method} {request.path}"
        found = self.routes.get(key)
        if found is None:
            found = next(
                (one for name, one in self.routes.items() if name.endswith("*") and key.startswith(name[:-1])), (404, {})
            )
        made = found(request) if callable(found) else found
        status, body = made if isinstance(made, tuple) else (200, made)
        if isinstance(body, bytes):
            return status, body, "application/octet-stream"
        text, kind = (body, "text/plain; charset=utf-8") if isinstance(body, str) else (json.dumps(body), "application/json")
        return status, text.encode("utf-8", "surrogatepass"), kind


@contextmanager
def app(routes: dict[str, Callable[[Request], Reply] | Reply]) -> Iterator[App]:
    """A running server, stopped at the end."""
    made = App(routes)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(made))
    server.daemon_threads = True
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()


def _handler(made: App) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _any(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, parts.path, parse_qs(parts.query), headers, body)
            status, content, kind = made.reply(request)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = _any  # noqa: N815 - as the standard library names them

        def log_message(self, *_: Any) -> None:
            return

    return Handler

"""A real HTTP model server on loopback for tests: threaded, counts what it is asked, and misbehaves on request."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Row = list[Any]
REQUEST = '{"fields": {{ fields|tojson }}, "rows": {{ rows|tojson }} }'

FAULTS = (
    "429",  # Retry-After: 0, in seconds
    "503",  # Retry-After as an HTTP date
    "502",
    "500",
    "400",
    "401",
    "403",
    "404",
    "drop",  # the connection is closed without an answer
    "short",  # n-1 answers
    "one",  # one answer whatever n is
    "invalid_json",
    "nan",  # NaN as the first label
    "null",  # null as the first label
    "error",  # HTTP 200 with an error in the body
    "slow",  # answers after `slow_s`
    "redirect",  # to /other on this host
    "redirect_away",  # to another host
    "empty",  # {} only
)


class ModelServer:
    """Answers `{"fields": [...], "rows": [[...], ...]}` with `{"predictions": [{"label": ..., "score": ...}, ...]}`.

    `label`: row -> label; `score`: row -> score. `inject(fault, times)` makes the next calls misbehave (None: all of them);
    `bad_row`: rows for which it is true make the whole call an HTTP 500, or `bad_status`. Counters: `calls`, `rows`,
    `distinct`, `statuses`, `most_at_once`.
    """

    def __init__(self, label: Callable[[Row], Any], score: Callable[[Row], float] | None = None) -> None:
        self.label, self.score = label, score
        self.bad_row: Callable[[Row], bool] | None = None
        self.bad_status = 500
        self.token: str | None = None
        self.slow_s = 5.0
        self.calls = self.rows = self.most_at_once = 0
        self.distinct: set[str] = set()
        self.statuses: Counter[int] = Counter()
        self.batch_sizes: list[int] = []
        self.requests: list[dict[str, Any]] = []  # path, headers, body
        self.times: list[float] = []
        self.plan: Callable[[int], str | None] = lambda call: None  # number of the call -> its fault
        self._faults: list[str] = []
        self._always: str | None = None
        self._at_once = 0
        self._lock = threading.Lock()
        self.released = threading.Event()  # ends slow answers at shutdown
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """Where to POST."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/score"

    def inject(self, fault: str, times: int | None = 1) -> None:
        """The next `times` calls (None: every call) get this fault."""
        if fault not in FAULTS:
            raise ValueError(f"got {fault!r}, expected one of {FAULTS}")
        with self._lock:
            if times is None:
                self._always = fault
            else:
                self._faults += [fault] * times

    def card(self, **endpoint: Any) -> dict[str, Any]:
        """A card (as data) of this server; keyword arguments go into `endpoint`, `card__*` ones into the card."""
        top = {key[6:]: endpoint.pop(key) for key in list(endpoint) if key.startswith("card__")}
        response = {"labels": "predictions[*].label"}
        return {
            "name": "served",
            "type": "tabular-classifier",
            "endpoint": {"url": self.url, "request": REQUEST, "response": response, "retries": 2, **endpoint},
            **top,
        }

    def start(self) -> ModelServer:
        self._thread.start()
        return self

    def stop(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def _enter(self, handler: BaseHTTPRequestHandler, body: bytes) -> str | None:
        with self._lock:
            self.calls += 1
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            self.times.append(time.monotonic())
            self.requests.append({"path": handler.path, "headers": dict(handler.headers), "body": body})
            return self._faults.pop(0) if self._faults else self._always or self.plan(self.calls)

    def _leave(self, status: int) -> None:
        with self._lock:
            self._at_once -= 1
            self.statuses[status] += 1

    def _count(self, rows: Sequence[Row]) -> None:
        with self._lock:
            self.rows += len(rows)
            self.batch_sizes.append(len(rows))
            self.distinct.update(json.dumps(row) for row in rows)


@contextmanager
def serving(label: Callable[[Row], Any], score: Callable[[Row], float] | None = None) -> Iterator[ModelServer]:
    """A running server, stopped at the end."""
    server = ModelServer(label, score).start()
    try:
        yield server
    finally:
        server.stop()


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            fault = server._enter(self, body)
            status = 0
            try:
                status = self._answer(body, fault)
            finally:
                server._leave(status)

        def _answer(self, body: bytes, fault: str | None) -> int:
            if server.token is not None and self.headers.get("Authorization") != f"Bearer {server.token}":
                return self._send(401, {"error": f"bad token {self.headers.get('Authorization')}"})
            if fault in ("429", "503", "502", "500", "400", "401", "403", "404"):
                wait = {"429": "0", "503": formatdate(time.time(), usegmt=True)}.get(fault)
                return self._send(int(fault), {"error": f"fault {fault}"}, {"Retry-After": wait} if wait else {})
            if fault == "drop":
                self.close_connection = True
                self.connection.close()
                return 0
            if fault == "redirect" and self.path != "/other":
                return self._send(307, {}, {"Location": "/other"})
            if fault == "redirect_away":
                return self._send(307, {}, {"Location": "http://localhost:9/elsewhere"})
            if fault == "slow":
                server.released.wait(server.slow_s)
            rows = json.loads(body)["rows"]
            server._count(rows)
            if server.bad_row is not None and any(map(server.bad_row, rows)):
                return self._send(server.bad_status, {"error": "cannot score this batch"})
            return self._send(200, _predictions(server, rows, fault), raw=fault == "invalid_json")

        def _send(self, status: int, data: Any, headers: dict[str, str] | None = None, raw: bool = False) -> int:
            content = json.dumps(data).encode()
            content = content[: len(content) // 2] if raw else content
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            return status

        def log_message(self, *_: Any) -> None:
            return

        def handle(self) -> None:
            try:
                super().handle()
            except (ConnectionError, ValueError):  # the client hung up, or a test dropped the connection
                self.close_connection = True

        def finish(self) -> None:
            try:
                super().finish()
            except (ConnectionError, ValueError):
                self.close_connection = True

    return Handler


def _predictions(server: ModelServer, rows: list[Row], fault: str | None) -> dict[str, Any]:
    if fault == "error":
        return {"error": "model is warming up"}
    if fault == "empty":
        return {}
    answers: list[dict[str, Any]] = [{"label": server.label(row)} for row in rows]
    if server.score is not None:
        for answer, row in zip(answers, rows, strict=True):
            answer["score"] = server.score(row)
    if fault in ("nan", "null"):
        answers[0]["label"] = float("nan") if fault == "nan" else None
    if fault == "short":
        answers = answers[:-1]
    return {"predictions": answers[:1] if fault == "one" else answers, "error": None}

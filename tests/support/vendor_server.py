"""Servers on loopback that speak like the services of the ready cards: strict about the shape of what is asked of them."""

from __future__ import annotations

import email.parser
import email.policy
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

SIGNED = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/\d{8}/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request, ?"
    r"SignedHeaders=(?P<headers>[a-z0-9;-]+), ?Signature=[0-9a-f]{64}"
)


def secret_of(name: str) -> str:
    """The value of `${name}` in these tests; most hold what has to be quoted in a URL or a form."""
    return f"AKID{name.replace('_', '')}" if name.startswith("AWS_ACCESS") else f"{name.lower()}/+=&%"


@dataclass(frozen=True)
class Part:
    """One part of a multipart body."""

    filename: str | None
    type: str
    content: bytes


@dataclass(frozen=True)
class Request:
    """One request. `host` is that of the card, whatever address the test put in its place."""

    host: str
    method: str
    path: str
    query: Mapping[str, str]
    headers: Message
    body: bytes

    @property
    def type(self) -> str:
        return self.headers.get("Content-Type", "")

    def json(self) -> Any:
        """The JSON body; a wrong Content-Type or invalid JSON is refused."""
        expect(self.type.split(";")[0] in ("application/json", "application/x-amz-json-1.1"), "expected JSON")
        return json.loads(self.body)

    def form(self) -> dict[str, str]:
        expect(self.type == "application/x-www-form-urlencoded", "expected a form")
        return dict(parse_qsl(self.body.decode(), strict_parsing=True))

    def parts(self) -> dict[str, Part]:
        expect(self.type.startswith("multipart/form-data; boundary="), "expected multipart/form-data")
        head = f"Content-Type: {self.type}\r\n\r\n".encode()
        message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + self.body)
        return {
            str(part.get_param("name", header="content-disposition")): Part(
                part.get_filename(), part.get_content_type(), part.get_payload(decode=True)
            )
            for part in message.iter_parts()
        }


@dataclass(frozen=True)
class Reply:
    """What is answered: JSON data, or text or bytes as they are."""

    status: int
    data: Any
    headers: Mapping[str, str] = field(default_factory=dict)


class Refusal(Exception):
    """The service says no."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply


def expect(condition: Any, message: str) -> None:
    """Refuses a request of another shape than the service's."""
    if not condition:
        raise Refusal(Reply(400, {"error": f"bad request: {message}"}))


class Vendor:
    """One service. `bad`: inputs (as they arrived) that it refuses with its `refusal`; `faults`: replies to its next requests.

    `requests`: what has been asked so far.
    """

    refusal: ClassVar[Reply] = Reply(400, {"error": "the model cannot take this"})

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.faults: list[Reply] = []
        self.bad: Callable[[Any], bool] = lambda given: False
        self.addresses: dict[str, str] = {}
        self.lock = threading.Lock()

    def answer(self, request: Request) -> Any:
        """The reply, or the data of an HTTP 200."""
        raise NotImplementedError

    def refuse_bad(self, inputs: Iterable[Any]) -> None:
        if any(map(self.bad, inputs)):
            raise Refusal(self.refusal)

    def reply(self, request: Request) -> Reply:
        with self.lock:
            self.requests.append(request)
            if self.faults:
                return self.faults.pop(0)
        try:
            found = self.answer(request)
        except Refusal as refusal:
            return refusal.reply
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            return Reply(400, {"error": f"bad request: {error!r}"})
        return found if isinstance(found, Reply) else Reply(200, found)


def bearer(request: Request, name: str) -> None:
    """Refuses a request without `Authorization: Bearer` and the value of `${name}`."""
    authorized(request.headers.get("Authorization") == f"Bearer {secret_of(name)}")


def authorized(condition: bool, status: int = 401) -> None:
    if not condition:
        raise Refusal(Reply(status, {"error": "no valid credentials"}))


def signed(request: Request, service: str, region: str = "eu-west-1") -> None:
    """Refuses a request that is not signed with Signature Version 4 for this service and region."""
    found = SIGNED.fullmatch(request.headers.get("Authorization", ""))
    authorized(
        found is not None
        and found["key"] == secret_of("AWS_ACCESS_KEY_ID")
        and (found["region"], found["service"]) == (region, service)
        and {"host", "x-amz-date"} <= set(found["headers"].split(";"))
        and re.fullmatch(r"\d{8}T\d{6}Z", request.headers.get("X-Amz-Date", "")) is not None,
        403,
    )


@contextmanager
def serving(vendor: Vendor, hosts: Iterable[str]) -> Iterator[dict[str, str]]:
    """A server for each host; yields host -> its address on loopback, which `vendor.addresses` holds, too."""
    servers = {host: ThreadingHTTPServer(("127.0.0.1", 0), _handler(vendor, host)) for host in hosts}
    for server in servers.values():
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    vendor.addresses = {host: f"127.0.0.1:{server.server_address[1]}" for host, server in servers.items()}
    try:
        yield vendor.addresses
    finally:
        for server in servers.values():
            server.shutdown()
            server.server_close()


def _handler(vendor: Vendor, host: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            target = urlsplit(self.path)
            query = dict(parse_qsl(target.query, keep_blank_values=True))
            request = Request(host, self.command, unquote(target.path), query, self.headers, body)
            self._send(vendor.reply(request))

        do_GET = do_POST = do_PUT = do_DELETE = _do  # noqa: N815 - names of the base class

        def _send(self, reply: Reply) -> None:
            data = reply.data.encode() if isinstance(reply.data, str) else reply.data
            content = data if isinstance(data, bytes) else json.dumps(data).encode()
            self.send_response(reply.status)
            for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            return

    return Handler

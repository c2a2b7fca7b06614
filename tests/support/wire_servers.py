"""Real servers on loopback for tests of the wire: HTTP(S) with an answer function, bare TCP, a forward proxy, certificates."""

from __future__ import annotations

import base64
import contextlib
import datetime
import ipaddress
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from aitest_lib.config.endpoint import Endpoint
from aitest_lib.models.base import StopSwitch, Usage
from aitest_lib.models.endpoint.transport import Call, Transport


@dataclass(frozen=True)
class Request:
    """What a server was asked."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float


@dataclass
class Served:
    """A running HTTP server: where it is, and what it was asked so far."""

    url: str
    requests: list[Request] = field(default_factory=list)


Reply = tuple[int, bytes, dict[str, str]]


@contextmanager
def http_serving(answer: Callable[[Request], Reply], context: ssl.SSLContext | None = None) -> Iterator[Served]:
    """A threaded HTTP/1.1 server, over TLS with a context, that answers every method as the function says."""
    served = Served("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            if context is not None:  # here, not at accept: a handshake must not hold up the others
                self.request = _over_tls(self.request, context)
            super().setup()

        def finish(self) -> None:
            super().finish()
            if context is not None:
                self.request.close()  # the server closes only what it accepted, which the TLS socket has taken over

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Request(self.command, self.path, dict(self.headers), body, time.monotonic())
            served.requests.append(request)
            status, content, headers = answer(request)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _any  # noqa: N815 - the names that http.server looks for

        def log_message(self, *_: object) -> None:
            return

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            return  # a client that hung up, or a handshake that failed: what the tests are about

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    served.url = f"http{'s' if context else ''}://127.0.0.1:{server.server_address[1]}/score"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def tcp_serving(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """A TCP server that hands each connection to `talk` in a thread of its own; gives the port."""
    listener = socket.create_server(("127.0.0.1", 0))
    open_ones: list[socket.socket] = []

    def talking(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            talk(connection)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                open_ones.append(connection)
                threading.Thread(target=talking, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for one in open_ones:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@dataclass
class Proxied:
    """A running forward proxy: its port, the request lines it got, and the pairs in Proxy-Authorization."""

    port: int = 0
    lines: list[str] = field(default_factory=list)
    pairs: list[str | None] = field(default_factory=list)
    refuse: str | None = None  # a status line, such as "407 Proxy Authentication Required"


@contextmanager
def proxying(context: ssl.SSLContext | None = None) -> Iterator[Proxied]:
    """A forward proxy (RFC 9110, 9.3.6 and 3.7): CONNECT tunnels, and requests in absolute form; over TLS with a context."""
    proxied = Proxied()

    def talk(accepted: socket.socket) -> None:
        with accepted if context is None else _over_tls(accepted, context) as connection:
            forward(connection)

    def forward(connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(65536) or b"\r\n\r\n"
        lines = head.partition(b"\r\n\r\n")[0].decode().split("\r\n")
        rest = head.partition(b"\r\n\r\n")[2]
        headers = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in lines[1:]}
        pair = headers.get("proxy-authorization")
        proxied.lines.append(lines[0])
        proxied.pairs.append(None if pair is None else base64.b64decode(pair.removeprefix("Basic ")).decode())
        if proxied.refuse:
            connection.sendall(f"HTTP/1.1 {proxied.refuse}\r\nContent-Length: 0\r\n\r\n".encode())
            return
        method, target, _ = lines[0].split(" ")
        authority = target if method == "CONNECT" else target.split("/")[2]
        upstream = socket.create_connection((authority.rpartition(":")[0], int(authority.rpartition(":")[2])))
        with upstream:
            if method == "CONNECT":
                connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                path = "/" + target.split("/", 3)[3]
                kept = [line for line in lines[1:] if not line.lower().startswith(("proxy-", "connection:"))]
                start = [f"{method} {path} HTTP/1.1", *kept, "Connection: close", "", ""]
                upstream.sendall("\r\n".join(start).encode() + rest)
            _pump(connection, upstream)

    with tcp_serving(talk) as port:
        proxied.port = port
        yield proxied


def _over_tls(accepted: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
    """Closed where the handshake fails, too."""
    connection = context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
    try:
        connection.do_handshake()
    except OSError:
        connection.close()
        raise
    return connection


def _pump(one: socket.socket, other: socket.socket) -> None:
    """Carries bytes both ways until a side closes."""
    while True:
        pending = [one] if isinstance(one, ssl.SSLSocket) and one.pending() else []
        for source in pending or select.select([one, other], [], [])[0]:
            data = source.recv(65536)
            if not data:
                return
            (other if source is one else one).sendall(data)


class Authority:
    """A certificate authority that writes PEM files into a folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"test {name}")])
        constraints = (x509.BasicConstraints(ca=True, path_length=None), True)
        self._cert = self._signed(self._name, self._key.public_key(), [constraints])
        self.pem = folder / f"{name}.pem"
        self.pem.write_bytes(self._cert.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, host: str = "127.0.0.1", days: tuple[int, int] = (-1, 1)) -> tuple[Path, Path]:
        """Certificate and key for server and client use, for an address or a host name; `days`: valid from, until, from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        numeric = host.replace(".", "").isdigit()
        entry = x509.IPAddress(ipaddress.ip_address(host)) if numeric else x509.DNSName(host)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        cert = self._signed(subject, key.public_key(), [(x509.SubjectAlternativeName([entry]), False), (usage, False)], days)
        paths = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        paths[0].write_bytes(cert.public_bytes(serialization.Encoding.PEM))
        plain, pkcs8 = serialization.NoEncryption(), serialization.PrivateFormat.PKCS8
        paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, pkcs8, plain))
        return paths

    def server_context(self, *, clients: bool = False, days: tuple[int, int] = (-1, 1)) -> ssl.SSLContext:
        """What a server of 127.0.0.1 needs; `clients`: it asks for certificates of this authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue("server", days=days))
        if clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.pem)
        return context

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, extensions: list, days: tuple[int, int] = (-1, 1)
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key)
        builder = builder.serial_number(x509.random_serial_number())
        start, end = (now + datetime.timedelta(days=n) for n in days)
        builder = builder.not_valid_before(start).not_valid_after(end)
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(self._key, hashes.SHA256())


class Wire:
    """A transport with its usage and stop switch, and `post`, which sends one call as a model would."""

    def __init__(self, url: str, base_dir: Path = Path(), **endpoint: object) -> None:
        data = {"response": {"labels": "x"}, "retries": 0, "timeout_s": 20, **endpoint}
        self.endpoint = Endpoint.model_validate({"url": url, **data})
        self.usage, self.stop = Usage(), StopSwitch()
        self.transport = Transport(self.endpoint, base_dir, self.usage, self.stop)

    def call(self, **changes: object) -> Call:
        """A call to the endpoint with a small JSON body."""
        usual = {
            "url": self.endpoint.url,
            "method": "POST",
            "headers": {"Content-Type": "application/json"},
            "content": b'{"n": 1}',
            "auth": self.endpoint.auth,
            "rows": 1,
        }
        return Call(**{**usual, **changes})

    def post(self, **changes: object):
        """The answer to one call."""
        return self.transport.send(lambda: self.call(**changes))

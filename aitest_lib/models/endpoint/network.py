"""Sockets under httpcore that keep a deadline over a whole call and that another thread can end.

The timeouts of an HTTP library hold for one read: a server that sends a byte now and then is never late. Here each read and
write gets what is left of the call's time. A connection is polled while it is made, so that a stop is noticed within `POLL_S`.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar
from weakref import WeakSet

import httpcore

from aitest_lib.models.base import POLL_S, StopSwitch
from aitest_lib.models.endpoint.tls import tls_error

Address = tuple[Any, ...]
Resolved = tuple[socket.AddressFamily, Address]
T = TypeVar("T")
TLS_CHUNK = 64 * 1024  # bytes


class Network(httpcore.NetworkBackend):
    """Opens TCP connections for one model. Thread-safe; the deadline belongs to the calling thread."""

    def __init__(self, stop: StopSwitch) -> None:
        self._stop = stop
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._lock = threading.RLock()  # re-entrant: a signal handler may call `shutdown` in a thread that holds it
        self._now = threading.local()

    def begin(self) -> None:
        """A call of this thread is about to go out."""
        self._now.connects = self._now.heard = False

    def heard(self) -> None:
        """A byte of an answer has come."""
        self._now.heard = True

    @property
    def is_stale(self) -> bool:
        """Whether this thread's call went out on a connection of an earlier one, and not a byte came back."""
        return not self._now.connects and not self._now.heard

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Everything that this thread does on the network inside must end in time."""
        self._now.deadline = time.monotonic() + seconds
        try:
            yield
        finally:
            del self._now.deadline

    def pause(self, wait: Callable[[], None]) -> None:
        """Runs `wait`, which does not count against the deadline."""
        start = time.monotonic()
        wait()
        self._now.deadline += time.monotonic() - start

    def left(self, timeout: float | None) -> float:
        """Seconds for the next operation. Raises `TimeoutError` when there are none."""
        left = getattr(self._now, "deadline", float("inf")) - time.monotonic()
        seconds = left if timeout is None else min(left, timeout)
        if seconds <= 0:
            raise TimeoutError("the time is up")
        return seconds

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """A connection to the first address of `host` that takes one."""
        self._now.connects = True
        with _raising(httpcore.ConnectTimeout, httpcore.ConnectError):
            return SocketStream(self.open(host, port, self.left(timeout)), self)

    def open(self, host: str, port: int, timeout: float) -> socket.socket:
        """A connected socket that `shutdown` ends. Raises `OSError`, or `Interrupted` after a stop."""
        end = time.monotonic() + timeout
        addresses = self._resolve(host, port, end)
        failure = OSError(f"{host} has no address")
        for n, (family, address) in enumerate(addresses):
            # An address that swallows everything must leave time for the next one.
            share = (end - time.monotonic()) / (len(addresses) - n)
            try:
                return self._connect(family, address, time.monotonic() + share)
            except OSError as error:
                failure = error
        raise failure

    def shutdown(self) -> None:
        """Ends all reads and writes. Closing a socket would not wake its reader; shutting it down does."""
        with self._lock:
            sockets = list(self._sockets)
        for one in sockets:
            with contextlib.suppress(OSError):  # closed meanwhile
                one.shutdown(socket.SHUT_RDWR)

    def _connect(self, family: socket.AddressFamily, address: Address, end: float) -> socket.socket:
        one = socket.socket(family, socket.SOCK_STREAM)
        try:
            with self._lock:
                self._sockets.add(one)
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                one.connect(address)
            with selectors.DefaultSelector() as selector:
                selector.register(one, selectors.EVENT_WRITE)
                self._poll(lambda seconds: bool(selector.select(seconds)), end, "no connection in time")
            if code := one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(code, os.strerror(code))
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.settimeout(None)
        except BaseException:
            one.close()
            raise
        return one

    def _resolve(self, host: str, port: int, end: float) -> list[Resolved]:
        """The addresses of a host. A name server cannot be interrupted, so a thread waits for it that may be left behind."""
        found: list[Resolved] = []
        failed: list[OSError] = []

        def look_up() -> None:
            try:
                found.extend((info[0], info[4]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
            except (OSError, UnicodeError) as error:  # UnicodeError: a label that is empty or too long
                failed.append(error if isinstance(error, OSError) else OSError(f"not a host name: {error}"))

        thread = threading.Thread(target=look_up, name="aitest-resolve", daemon=True)
        thread.start()

        def done(seconds: float) -> bool:
            thread.join(seconds)
            return not thread.is_alive()

        self._poll(done, end, f"no address of {host} in time")
        if failed:
            raise failed[0]
        return found

    def _poll(self, done: Callable[[float], bool], end: float, late: str) -> None:
        """Waits until `done(seconds)`, in small steps between which a stop is noticed."""
        while not done(max(0.0, min(POLL_S, end - time.monotonic()))):
            self._stop.check()
            if time.monotonic() >= end:
                raise TimeoutError(late)
        self._stop.check()


class SocketStream(httpcore.NetworkStream):
    """A TCP connection."""

    def __init__(self, connected: socket.socket, network: Network) -> None:
        self._socket = connected
        self._network = network
        self._carries_tls = False

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _raising(httpcore.ReadTimeout, httpcore.ReadError):
            self._socket.settimeout(self._network.left(timeout))
            data = self._socket.recv(max_bytes)
        if data and not self._carries_tls:
            self._network.heard()
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        left = memoryview(buffer)
        with _raising(httpcore.WriteTimeout, httpcore.WriteError):
            while left:
                self._socket.settimeout(self._network.left(timeout))
                left = left[self._socket.send(left) :]

    def close(self) -> None:
        self._socket.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        self._carries_tls = True
        return TlsStream(self, self._network, ssl_context, server_hostname, timeout)

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            return _readable(self._socket)
        if info == "socket":
            return self._socket
        return None


class TlsStream(httpcore.NetworkStream):
    """TLS over any other stream, TLS itself included (an https proxy). Raises `WireError` where certificates do not do."""

    def __init__(
        self,
        inner: httpcore.NetworkStream,
        network: Network,
        context: ssl.SSLContext,
        hostname: str | None,
        timeout: float | None,
    ) -> None:
        self._inner = inner
        self._network = network
        self._carries_tls = False
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        try:
            self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=hostname)
            self._run(self._tls.do_handshake, timeout, httpcore.ConnectError)
        except (httpcore.ReadTimeout, httpcore.WriteTimeout) as error:
            self.close()
            raise httpcore.ConnectTimeout(str(error)) from error
        except (httpcore.ReadError, httpcore.WriteError) as error:
            self.close()
            raise httpcore.ConnectError(str(error)) from error
        except BaseException:
            self.close()
            raise

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            data = self._run(partial(self._tls.read, max_bytes), timeout, httpcore.ReadError)
        except ssl.SSLZeroReturnError:
            return b""
        except ssl.SSLEOFError as error:
            # HTTP may take the end of the connection for the end of the answer, so that anybody could cut it (RFC 9112, 9.8).
            raise httpcore.ReadError("the connection was closed without the end that TLS demands") from error
        if data and not self._carries_tls:
            self._network.heard()
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        left = memoryview(buffer)
        while left:
            part = left[:TLS_CHUNK]
            left = left[self._run(partial(self._tls.write, part), timeout, httpcore.WriteError) :]

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        self._carries_tls = True
        return TlsStream(self, self._network, ssl_context, server_hostname, timeout)

    def get_extra_info(self, info: str) -> Any:
        if info == "ssl_object":
            return self._tls
        if info == "is_readable" and (self._tls.pending() or self._incoming.pending):
            return True
        return self._inner.get_extra_info(info)

    def _run(self, step: Callable[[], T], timeout: float | None, failure: type[Exception]) -> T:
        """Repeats a TLS operation while it wants more from the other side; what it has to say goes out each time."""
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                self._flush(timeout)
                data = self._inner.read(TLS_CHUNK, timeout)
                if data:
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError) as error:
                if failure is httpcore.ReadError:
                    raise
                raise failure("the connection was closed during TLS") from error
            except ssl.SSLError as error:
                with contextlib.suppress(httpcore.NetworkError, httpcore.TimeoutException):
                    self._flush(timeout)  # the alert that tells the other side
                raise tls_error(error) or failure(_tls_message(error)) from error
            else:
                self._flush(timeout)
                return result

    def _flush(self, timeout: float | None) -> None:
        if data := self._outgoing.read():
            self._inner.write(data, timeout)


def _tls_message(error: ssl.SSLError) -> str:
    """`TLS: wrong version number`, without OpenSSL's file and line."""
    return f"TLS: {(error.reason or str(error)).lower().replace('_', ' ')}"


@contextmanager
def _raising(timeout: type[Exception], failure: type[Exception]) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise timeout(str(error)) from error
    except OSError as error:
        raise failure(str(error)) from error


def _readable(one: socket.socket) -> bool:
    """Whether a read would return at once; of an idle connection: that it has been closed, or sends what nobody asked for."""
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(one, selectors.EVENT_READ)
            return bool(selector.select(0))
    except (ValueError, OSError):
        return True

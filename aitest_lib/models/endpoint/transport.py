"""HTTP for one endpoint: one client, a limit on calls at once and per second, retries with back-off, and a circuit breaker."""

from __future__ import annotations

import email.utils
import logging
import random
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from threading import BoundedSemaphore, Lock, RLock
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakSet

import httpx

from aitest_lib.config.endpoint import Endpoint
from aitest_lib.config.secrets import resolve
from aitest_lib.errors import ModelUnavailable
from aitest_lib.models.base import RateLimiter, StopSwitch, Usage, excerpt, rows_text
from aitest_lib.models.batches import CallLostError
from aitest_lib.models.endpoint.auth import credentials

RETRIED = (429, 502, 503, 504)
REFUSED = {
    401: "check `endpoint.auth` and its secret",
    403: "check that the credentials may use this model",
    404: "check `endpoint.url`",
}
OPEN_AFTER = 3  # calls in a row that got no answer
BACKOFF_S = 0.5  # mean of the first pause is half of it
LONGEST_BACKOFF_S = 30.0
LONGEST_RETRY_AFTER_S = 60.0
LONGEST_CONNECT_S = 10.0
MAX_REDIRECTS = 5

for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)  # their info lines show URLs, which may carry keys


@dataclass(frozen=True)
class Answer:
    """Status and text of one HTTP answer."""

    status: int
    text: str


class Transport:
    """Sends the calls of one model. Thread-safe."""

    def __init__(self, endpoint: Endpoint, usage: Usage, stop: StopSwitch) -> None:
        self._endpoint = endpoint
        self._usage = usage
        self._stop = stop
        self._places = BoundedSemaphore(endpoint.concurrency)
        self._rate = RateLimiter(endpoint.rate_per_s, stop)
        self._lost_in_a_row = 0
        self._broken: str | None = None
        self._lock = Lock()
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._sockets_lock = RLock()  # re-entrant: a signal handler may call `shutdown` in a thread that holds it
        # Proxies of the environment would see the data that is sent: only what the card names is used.
        self._client = httpx.Client(
            trust_env=False,
            timeout=httpx.Timeout(endpoint.timeout_s, connect=min(endpoint.timeout_s, LONGEST_CONNECT_S)),
            limits=httpx.Limits(max_connections=endpoint.concurrency, max_keepalive_connections=endpoint.concurrency),
        )

    def send(self, body: str, rows: int) -> Answer:
        """The answer to one call, retried as the card says.

        Raises `ModelUnavailable` (refused, cannot be connected, no answer three calls in a row), `CallLostError` (this call got
        no answer), `Interrupted`, or `InputError` (a reference that is not set).
        """
        problem = ""
        connected = False
        for attempt in range(self._endpoint.retries + 1):
            self._check()
            wait = random.uniform(0, min(LONGEST_BACKOFF_S, BACKOFF_S * 2**attempt))  # full jitter
            try:
                answer, retry_after = self._send_once(body, rows, retry=attempt > 0)
            except httpx.TransportError as error:
                self._stop.check()
                connected |= not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
                problem = _transport_problem(error, self._endpoint.timeout_s)
            else:
                if answer.status not in RETRIED:
                    self._reached(answer)
                    return answer
                connected = True
                problem = f"HTTP {answer.status} {excerpt(answer.text)}".strip()
                wait = wait if retry_after is None else retry_after
            if attempt < self._endpoint.retries:
                self._stop.pause(wait)
        raise self._lost(problem, rows, connected)

    def refused(self, message: str) -> ModelUnavailable:
        """Opens the circuit: from now on every call raises this."""
        with self._lock:
            self._broken = self._broken or message
        return ModelUnavailable(self._broken)

    def shutdown(self) -> None:
        """Ends the calls that wait for an answer. Closing a socket would not wake its reader; shutting it down does."""
        with self._sockets_lock:
            sockets = list(self._sockets)
        for one in sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # closed meanwhile

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def _check(self) -> None:
        self._stop.check()
        if self._broken:
            raise ModelUnavailable(self._broken)

    def _send_once(self, body: str, rows: int, *, retry: bool) -> tuple[Answer, float | None]:
        with self._stop.holding(self._places):
            self._rate.wait()
            self._check()
            self._usage.add(rows=rows, retry=retry)
            request = self._request(body)
            deadline = time.monotonic() + self._endpoint.timeout_s
            for _ in range(MAX_REDIRECTS + 1):
                response = self._client.send(request, stream=True)
                try:
                    target = response.next_request
                    if target is None:
                        text = _read(response, deadline)
                        return Answer(response.status_code, text), _retry_after(response.headers)
                finally:
                    response.close()
                request = self._redirected(request, target, body)
            raise self.refused(
                f"{self._shown_url()} redirects more than {MAX_REDIRECTS} times; put the final URL into the card"
            )

    def _request(self, body: str) -> httpx.Request:
        held = credentials(self._endpoint.auth)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        headers |= {name: resolve(value) for name, value in self._endpoint.headers.items()}
        return self._build(resolve(self._endpoint.url), body, headers | held.headers, held.query)

    def _build(self, url: str, body: str, headers: Mapping[str, str], query: Mapping[str, str]) -> httpx.Request:
        try:
            target = httpx.URL(url).copy_merge_params(query) if query else httpx.URL(url)
            return self._client.build_request(
                self._endpoint.method, target, content=body.encode(), headers=headers, extensions={"trace": self._trace}
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise self.refused(f"no call can be made to {self._shown_url()}: {error}; check url and headers") from None

    def _redirected(self, request: httpx.Request, target: httpx.Request, body: str) -> httpx.Request:
        """The same call at the new place. A redirect must not carry data and credentials to another host."""
        same = target.url.host == request.url.host and _port(target.url) in (_port(request.url), 443)
        downgraded = request.url.scheme == "https" and target.url.scheme != "https"
        if not same or downgraded:
            to = f"{target.url.scheme}://{target.url.host}"
            raise self.refused(
                f"{self._shown_url()} redirects to {to}, another host; if you trust it, put that URL into the card"
            )
        return self._build(str(target.url), body, request.headers, {})

    def _trace(self, event: str, details: Mapping[str, Any]) -> None:
        """Remembers the sockets, through httpcore's public trace, so that `shutdown` can reach them."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            one = details["return_value"].get_extra_info("socket")
            if isinstance(one, socket.socket):
                with self._sockets_lock:
                    self._sockets.add(one)

    def _reached(self, answer: Answer) -> None:
        if answer.status in REFUSED:
            raise self.refused(
                f"the model at {self._shown_url()} refuses calls: {self._endpoint.method} got HTTP {answer.status} "
                f"{excerpt(answer.text)}; {REFUSED[answer.status]}"
            )
        with self._lock:
            self._lost_in_a_row = 0

    def _lost(self, problem: str, rows: int, connected: bool) -> ModelUnavailable | CallLostError:
        tries = self._endpoint.retries + 1
        message = f"sent {rows_text(rows)} to {self._shown_url()} {tries} time{'s' if tries > 1 else ''}, got {problem}"
        if not connected:
            return self.refused(f"the model cannot be reached: {message}; check that it runs and `endpoint.url`")
        with self._lock:
            self._lost_in_a_row += 1
            lost = self._lost_in_a_row
        if lost >= OPEN_AFTER:
            return self.refused(
                f"the model gives no answers: {lost} calls in a row failed, the last: {message}; "
                "check its health, or lower `concurrency` and `rate_per_s`, or raise `timeout_s` and `retries`"
            )
        return CallLostError(message)

    def _shown_url(self) -> str:
        """The address with references unresolved and without its query, which may carry a key."""
        parts = urlsplit(self._endpoint.url)
        return self._endpoint.url if not parts.scheme else f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _read(response: httpx.Response, deadline: float) -> str:
    """The body; httpx's own timeout is one per read, which a dripping server never meets."""
    chunks = []
    for chunk in response.iter_bytes():
        chunks.append(chunk)
        if time.monotonic() > deadline:
            raise httpx.ReadTimeout("the answer went on too long", request=response.request)
    return b"".join(chunks).decode(response.encoding or "utf-8", "replace")


def _retry_after(headers: httpx.Headers) -> float | None:
    """Seconds to wait (RFC 9110, 10.2.3: seconds or an HTTP date), at most 60; None where the header says nothing usable."""
    value = headers.get("Retry-After", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER_S)


def _transport_problem(error: httpx.TransportError, timeout_s: float) -> str:
    if isinstance(error, httpx.ConnectTimeout):
        return f"no connection within {min(timeout_s, LONGEST_CONNECT_S):g} s"
    if isinstance(error, httpx.TimeoutException):
        return f"no answer within {timeout_s:g} s"
    return f"{type(error).__name__}: {excerpt(str(error))}"


def _port(url: httpx.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)

"""The calls of one endpoint: a limit on calls at once and per second, retries with back-off, tokens, and a circuit breaker."""

from __future__ import annotations

import email.utils
import json
import random
import re
import time
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from threading import BoundedSemaphore, Lock

from aitest_lib.config.endpoint import Auth, Endpoint, OAuth2
from aitest_lib.errors import ModelAnswerError, ModelUnavailable
from aitest_lib.models.answers import counted
from aitest_lib.models.base import StopSwitch, Usage, excerpt
from aitest_lib.models.batches import CallLostError
from aitest_lib.models.endpoint.auth import (
    Credentials,
    Token,
    TokenError,
    Tokens,
    authorized,
    credentials,
    read_token,
    token_call,
)
from aitest_lib.models.endpoint.http import HttpClient, parsed_proxy
from aitest_lib.models.endpoint.network import Network
from aitest_lib.models.endpoint.rate import RateLimiter
from aitest_lib.models.endpoint.tls import tls_context
from aitest_lib.models.endpoint.websocket import HandshakeRefused, exchange, messages_of
from aitest_lib.models.endpoint.wire import Answer, Call, WireError, resolved_url, shown

__all__ = ["Answer", "Call", "Transport"]

RETRIED = (429, 502, 503, 504)
REFUSED = {
    401: "check `endpoint.auth` and its secret",
    407: "check `endpoint.proxy` and its credentials",
}
OPEN_AFTER = 3  # calls in a row that got no answer
REPEATS = 6  # of a call that got HTTP 401, each time with new credentials
BACKOFF_S = 0.5  # mean of the first pause is half of it
LONGEST_BACKOFF_S = 30.0
LONGEST_RETRY_AFTER_S = 60.0


class Transport:
    """Sends the calls of one model. Thread-safe."""

    def __init__(self, endpoint: Endpoint, base_dir: Path, usage: Usage, stop: StopSwitch) -> None:
        """`base_dir`: where the paths in `tls` start. A file there that cannot be used is an `InputError`."""
        self._endpoint = endpoint
        self._usage = usage
        self._stop = stop
        self._places = BoundedSemaphore(endpoint.concurrency)
        self._rate = RateLimiter(endpoint.rate_per_s, stop)
        self._network = Network(stop)
        self._tls = tls_context(endpoint.tls, base_dir)
        self._tokens = Tokens(self._token, stop)
        self._client: HttpClient | None = None
        self._lost_in_a_row = {"calls": 0, "steps": 0}
        self._has_let_in = False
        self._has_answered = False
        self._broken: str | None = None
        self._lock = Lock()

    def send(self, make: Callable[[], Call], *, renew: Callable[[], bool] | None = None) -> Answer:
        """The answer to one call, retried as the card says. Re-entrant: `make` may send calls of its own.

        `make`: builds the call, before every attempt. `renew`: told of an HTTP 401; true where it has renewed what the call
        carries, so that asking again makes sense. That is done once; up to `REPEATS` times where the model has let calls in
        before, since credentials that do not last may be used up by other threads before this one comes to use them.

        The status is 200..599; 401 and 407 to a call with inputs are refusals of the model, not answers.
        Raises `ModelUnavailable` (refused, cannot be connected, no answer three calls in a row), `CallLostError` (this call got
        no answer), `ModelAnswerError` (too large), `Interrupted`, or `InputError` (a reference that is not set).
        """
        repeats = 0

        def ask(call: Call, retry: bool) -> Answer:
            nonlocal repeats
            while True:
                held = credentials(call.auth, self._tokens)
                answer = self._exchange(call, held, retry=retry)
                if answer.status != 401:
                    return answer
                if repeats >= (REPEATS if self._has_let_in else 1) or not self._renewed(call.auth, held, renew):
                    return answer
                repeats += 1
                call, retry = make(), True

        try:
            call, answer = self._persistently(make, ask, lambda status: status in RETRIED)
        except _NoAnswerError as error:
            raise self._lost(error) from error.__cause__
        self._judge(call, answer)
        return answer

    def refused(self, message: str) -> ModelUnavailable:
        """Opens the circuit: from now on every call raises this."""
        with self._lock:
            self._broken = self._broken or message
        return ModelUnavailable(self._broken)

    def shutdown(self) -> None:
        """Ends the calls that wait for an answer."""
        self._network.shutdown()

    def close(self) -> None:
        """Closes the connections."""
        self.refused("the model has been closed; open it again")
        if self._client is not None:
            self._client.close()

    def _check(self) -> None:
        self._stop.check()
        if self._broken:
            raise ModelUnavailable(self._broken)

    def _persistently(
        self, make: Callable[[], Call], ask: Callable[[Call, bool], Answer], retried: Callable[[int], bool]
    ) -> tuple[Call, Answer]:
        """The first answer that is final, and its call. `ask`: gets each call, and whether it is a retry."""
        connected = False
        wait = 0.0
        for attempt in range(self._endpoint.retries + 1):
            if attempt:
                self._stop.pause(wait)
            self._check()
            call = make()
            wait = random.uniform(0, min(LONGEST_BACKOFF_S, BACKOFF_S * 2**attempt))  # full jitter
            try:
                answer = ask(call, attempt > 0)
            except WireError as error:
                self._check()
                connected |= error.connected
                lost = _NoAnswerError(call, str(error), connected, error.mend)
                lost.__cause__ = error
                if error.mend:
                    break
            else:
                if not retried(answer.status):
                    return call, answer
                connected = True
                lost = _NoAnswerError(call, _came(answer), connected, None)
                asked_for = _retry_after(answer.retry_after)
                wait = wait if asked_for is None else asked_for
        raise lost

    def _exchange(self, call: Call, held: Credentials, *, retry: bool, counted: bool = True) -> Answer:
        with self._stop.holding(self._places):
            self._rate.turn()
            self._check()
            if counted:
                self._usage.add(rows=call.rows, retry=retry)
            if resolved_url(call.url).startswith(("ws://", "wss://")):
                return self._over_websocket(call, held)
            return self._over_http(call, held, counted=counted)

    def _over_http(self, call: Call, held: Credentials, *, counted: bool) -> Answer:
        try:
            return self._http().send(call, held)
        except WireError as error:
            if not error.stale:
                raise
        # The server gave up the idle connection just when we used it: browsers, too, ask again then (RFC 9112, 9.3.1).
        self._rate.turn()
        self._check()
        if counted:
            self._usage.add(rows=call.rows, retry=True)
        return self._http().send(call, held, fresh=True)

    def _over_websocket(self, call: Call, held: Credentials) -> Answer:
        messages = messages_of(call.content or b"[]")
        target, headers = authorized(call, resolved_url(call.url), held)
        try:
            texts = exchange(
                str(target),
                messages,
                headers,
                timeout_s=self._endpoint.timeout_s,
                ssl=self._tls,
                stop=self._stop,
                network=self._network,
                proxy=self._proxy(),
                before_send=self._rate.distance,
            )
        except HandshakeRefused as refusal:
            return refusal.answer
        return Answer(200, json.dumps(texts, ensure_ascii=False))

    def _http(self) -> HttpClient:
        """Made when it is first used: the proxy may be a reference, and a card may be opened without its secrets."""
        with self._lock:
            if self._client is None:
                timeout_s, keep = self._endpoint.timeout_s, self._endpoint.concurrency
                self._client = HttpClient(self._network, self._tls, self._proxy(), self._rate, timeout_s=timeout_s, keep=keep)
            return self._client

    def _proxy(self) -> str | None:
        return None if self._endpoint.proxy is None else str(parsed_proxy(resolved_url(self._endpoint.proxy)))

    def _renewed(self, auth: Auth | None, used: Credentials, renew: Callable[[], bool] | None) -> bool:
        """Whether a call that got HTTP 401 will carry something new when it is made again."""
        if isinstance(auth, OAuth2):
            self._tokens.refused(auth, used)
        by_caller = renew is not None and renew()
        return by_caller or isinstance(auth, OAuth2)

    def _token(self, auth: OAuth2) -> Token:
        def ask(call: Call, _: bool) -> Answer:
            return self._exchange(call, Credentials(), retry=False, counted=False)

        where = shown(auth.token_url)
        asked_at = time.monotonic()
        try:
            _, answer = self._persistently(lambda: token_call(auth), ask, lambda status: status == 429 or status >= 500)
            if not 200 <= answer.status < 300:
                raise TokenError(f"got {_came(answer)}")
            return read_token(answer, asked_at)
        except _NoAnswerError as error:
            problem = str(error) if error.mend else f"got {error}"
            mend = error.mend or "check `endpoint.auth.token_url` and that it can be reached"
        except (TokenError, ModelAnswerError) as error:
            problem, mend = str(error), "check client_id, client_secret, scope and audience in `endpoint.auth`"
        raise self.refused(f"no access token from {where}: {problem}; {mend}")

    def _judge(self, call: Call, answer: Answer) -> None:
        with self._lock:
            self._lost_in_a_row[_kind(call)] = 0
            self._has_answered |= bool(call.rows)
            self._has_let_in |= bool(call.rows) and answer.status != 401
        if call.rows and answer.status in REFUSED:
            raise self.refused(
                f"the model at {call.shown_url} refuses calls: {call.method} got {_came(answer)}; {REFUSED[answer.status]}"
            )

    def _lost(self, error: _NoAnswerError) -> ModelUnavailable | CallLostError:
        call, tries = error.call, self._endpoint.retries + 1
        if error.mend:
            return self.refused(f"the model at {call.shown_url} cannot be used: {error}; {error.mend}")
        what = f"sent {counted(call.rows, 'row')} to" if call.rows else f"asked {call.method}"
        message = f"{what} {call.shown_url} {tries} time{'s' if tries > 1 else ''}, got {error}"
        if not error.connected:
            proxy = " and `endpoint.proxy`" if self._endpoint.proxy else ""
            return self.refused(f"the model cannot be reached: {message}; check that it runs and `endpoint.url`{proxy}")
        with self._lock:
            self._lost_in_a_row[_kind(call)] += 1
            lost = self._lost_in_a_row[_kind(call)]
        if lost >= OPEN_AFTER:
            mend = "check its health, or lower `concurrency` and `rate_per_s`, or raise `timeout_s` and `retries`"
            if not self._has_answered:
                mend = "it has not answered once: its log may say what it cannot take in `endpoint.request`, or " + mend
            return self.refused(f"the model gives no answers: {lost} calls in a row failed, the last: {message}; {mend}")
        return CallLostError(message)


class _NoAnswerError(Exception):
    """All attempts are used up, or the first showed that more are of no use (`mend`)."""

    def __init__(self, call: Call, problem: str, connected: bool, mend: str | None) -> None:
        super().__init__(problem)
        self.call, self.connected, self.mend = call, connected, mend


def _kind(call: Call) -> str:
    """Steps are counted by themselves: a model that answers them may yet be lost for its inputs, and the other way round."""
    return "calls" if call.rows else "steps"


def _came(answer: Answer) -> str:
    return f"HTTP {answer.status} {excerpt(answer.text)}".strip()


def _retry_after(value: str) -> float | None:
    """Seconds to wait (RFC 9110, 10.2.3: seconds or an HTTP date), 0..60; None where the header says nothing usable."""
    value = value.strip()
    if re.fullmatch(r"[+-]?[0-9]{1,20}(\.[0-9]{1,20})?", value):
        seconds = float(value)
    else:
        try:
            date = email.utils.parsedate_to_datetime(value)
            # HTTP dates are in GMT; one that says "-0000" is parsed without a zone.
            seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError, IndexError):
            return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER_S)

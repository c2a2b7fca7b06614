"""The calls around the main one: a token or a session first, an upload before, a job that is polled afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import Lock
from typing import Any

import jmespath
from jmespath.parser import ParsedResult

from aitest_lib.config.endpoint import Endpoint, Step
from aitest_lib.errors import ModelAnswerError, ModelUnavailable
from aitest_lib.models.base import StopSwitch, excerpt
from aitest_lib.models.batches import CallLostError
from aitest_lib.models.endpoint.bodies import File
from aitest_lib.models.endpoint.calls import CallMaker, Hosts
from aitest_lib.models.endpoint.payloads import Payload
from aitest_lib.models.endpoint.responses import compiled, messages_json, parsed_json, searched
from aitest_lib.models.endpoint.transport import Transport
from aitest_lib.models.endpoint.wire import Answer, Call
from aitest_lib.types import ModelInfo

Values = Mapping[str, Any]
Renew = Callable[[], bool]


class Exchange:
    """Asks one endpoint: the main call with its steps. Thread-safe; `uses`: the variables that all templates need."""

    def __init__(self, endpoint: Endpoint, info: ModelInfo, transport: Transport, stop: StopSwitch) -> None:
        hosts = Hosts(endpoint)
        self._transport = transport
        self._stop = stop
        self._main = CallMaker(endpoint, endpoint, hosts)
        self._is_websocket = endpoint.body == "websocket"
        self._model = {"model": {"name": info.name, "version": info.version or ""}}
        steps = [StepCall(step, endpoint, hosts, transport, stop) for step in endpoint.steps]
        self._steps = {when: [one for one in steps if one.step.when == when] for when in _PLACES}
        self.uses: set[str] = self._main.uses.union(*(one.uses for one in steps))
        self._lock = Lock()
        self._run_values: Values | None = None
        self._has_answered = False

    def ask(self, payload: Payload, n: int) -> Answer:
        """The answer that holds the predictions for n inputs: the last `after_call` step's, else that of the main call.

        After a 401 the steps before the run and before this case are made again, once. An input that is asked anew, since its
        answer was unusable, is a new case. Raises what `Transport.send` does, and `ModelAnswerError` where a step fails; one
        that is refused before anything was answered ends the run, since its credentials do not get better with the next input.
        """
        try:
            answer = self._asked(_Case(self, payload), n)
        except StepRefused as error:
            if self._has_answered:
                raise
            raise self._transport.refused(f"the model cannot be used: {error}; check this step's credentials") from error
        self._has_answered |= 200 <= answer.status < 300
        return answer

    def run_values(self) -> Values:
        """The model's variables and what the `before_run` steps gave; they are made at the first use, by one thread."""
        with self._stop.holding(self._lock):
            if self._run_values is None:
                self._run_values = self._made_before_run()
            return self._run_values

    def renew_run(self, seen: Values) -> bool:
        """Makes the `before_run` steps again, unless another thread has done so since `seen`. False where there are none."""
        if not self._steps["before_run"]:
            return False
        with self._stop.holding(self._lock):
            if self._run_values is seen:
                self._run_values = self._made_before_run()
        return True

    def case_values(self, values: Values, case: _Case) -> dict[str, Any]:
        """What the `before_case` steps give."""
        return self._results("before_case", values, case)

    def _asked(self, case: _Case, n: int) -> Answer:
        renew = case.renew if self._steps["before_run"] or self._steps["before_case"] else None

        def make() -> Call:
            values = case.values | self._results("before_call", case.values, case)
            case.last = values
            return self._main.make(values, case.file, n)

        answer = self._transport.send(make, renew=renew)
        if self._is_websocket and answer.status == 200:
            answer = replace(answer, text=messages_json(answer.text))
        if not self._steps["after_call"] or not 200 <= answer.status < 300:
            return answer
        values = case.last | {"call": _data(answer.text)}
        for step in self._steps["after_call"]:
            result, answer = step.made(case.current(values), case.file, case.renew_run)
            values[step.step.name] = result
        return answer

    def _made_before_run(self) -> Values:
        values: dict[str, Any] = dict(self._model)
        for step in self._steps["before_run"]:
            try:
                values[step.step.name], _ = step.made(lambda: values, _no_file, None)
            except ModelAnswerError as error:
                raise self._transport.refused(f"the model cannot be used: {error}; check this step of the card") from error
        return values

    def _results(self, when: str, values: Values, case: _Case) -> dict[str, Any]:
        values, results = dict(values), {}
        for step in self._steps[when]:
            results[step.step.name], _ = step.made(case.current(values), case.file, case.renew_run)
            values |= results
        return results


_PLACES = ("before_run", "before_case", "before_call", "after_call")


class _Case:
    """One asking of a batch: its variables, and what the steps before it gave."""

    def __init__(self, exchange: Exchange, payload: Payload) -> None:
        self._exchange = exchange
        self._payload = payload
        self._run: Values = {}
        self.last: dict[str, Any] = {}
        self.values: dict[str, Any] = {}
        self._begin()

    def file(self) -> tuple[bytes, str]:
        """The bytes of the input."""
        return self._payload.file

    def current(self, values: Values) -> Callable[[], Values]:
        """These values with what holds for the run, which may be renewed between two attempts."""
        return lambda: {**values, **self._run}

    def renew(self) -> bool:
        """The session has ended: everything before the call is made again."""
        self._exchange.renew_run(self._run)
        self._begin()
        return True

    def renew_run(self) -> bool:
        """The same for a step: what holds for the run is made again."""
        renewed = self._exchange.renew_run(self._run)
        self._run = self._exchange.run_values()
        self.values |= self._run
        return renewed

    def _begin(self) -> None:
        self._run = self._exchange.run_values()
        self.values = {**self._payload.variables, **self._run}
        self.values |= self._exchange.case_values(self.values, self)


class StepFailed(ModelAnswerError):
    """A step that the endpoint did not answer as the card expects; for its input there is no answer."""


class StepRefused(StepFailed):
    """A step whose credentials were refused, HTTP 401 or 403, at a host that the card names."""


class StepCall:
    """One step of the card, ready to be made."""

    def __init__(self, step: Step, endpoint: Endpoint, hosts: Hosts, transport: Transport, stop: StopSwitch) -> None:
        self.step = step
        self._call = CallMaker(step, endpoint, hosts)
        self._hosts = hosts
        self.uses = self._call.uses
        self._timeout_s = step.timeout_s or endpoint.timeout_s
        self._transport = transport
        self._stop = stop
        self._until, self._success = compiled(step.until), compiled(step.success)
        self._extract = {key: jmespath.compile(expression) for key, expression in (step.extract or {}).items()}

    def made(self, values: Callable[[], Values], file: File, renew: Renew | None) -> tuple[Any, Answer]:
        """The step's variable and its answer, once `until` is true. What goes wrong is an error that names the step."""
        start = time.monotonic()
        while True:
            answer = self._sent(values, file, renew)
            data = _data(answer.text)
            if self._until is None or self._searched(self._until, data, "until"):
                break
            if time.monotonic() - start + self.step.every_s > self._timeout_s:
                raise self._failed(f"`{self.step.until}` was not true within {self._timeout_s:g} s, last got {_outline(data)}")
            self._stop.pause(self.step.every_s)
        if self._success is not None and not self._searched(self._success, data, "success"):
            raise self._failed(f"`{self.step.success}` is not true, got {_outline(data)}")
        return self._result(data), answer

    def _sent(self, values: Callable[[], Values], file: File, renew: Renew | None) -> Answer:
        url = ""

        def make() -> Call:
            nonlocal url
            call = self._call.make(values(), file, 0)
            url = call.url
            return call

        try:
            answer = self._transport.send(make, renew=renew)
        except CallLostError as error:
            raise CallLostError(f"step {self.step.name}: {error}") from error
        except ModelAnswerError as error:
            raise self._failed(str(error)) from error
        except ModelUnavailable as error:
            raise ModelUnavailable(f"step {self.step.name}: {error}") from error
        if 200 <= answer.status < 300:
            return answer
        problem = f"step {self.step.name}: got HTTP {answer.status} {excerpt(answer.text)}".strip()
        # A signed address out of an answer may be another one with the next input.
        is_refused = answer.status in (401, 403) and self._hosts.names(url)
        raise StepRefused(problem) if is_refused else StepFailed(problem)

    def _result(self, data: Any) -> Any:
        if not self._extract:
            return data
        found = {}
        for key, expression in self._extract.items():
            value = self._searched(expression, data, f"extract.{key}")
            if value is None:
                place = (self.step.extract or {})[key]
                raise self._failed(f"found no `{key}` at `{place}`, got {_outline(data)}")
            found[key] = value
        return found

    def _searched(self, expression: ParsedResult, data: Any, what: str) -> Any:
        try:
            return searched(expression, data, what)
        except ModelAnswerError as error:
            raise self._failed(f"{error}; got {_outline(data)}") from error

    def _failed(self, problem: str) -> StepFailed:
        return StepFailed(f"step {self.step.name}: {problem}")


def _no_file() -> tuple[bytes, str]:
    raise ModelAnswerError("no input is known before the run")


def _data(text: str) -> Any:
    """The JSON of a step's answer; the text itself where it is none, None where there is nothing."""
    try:
        return parsed_json(text) if text.strip() else None
    except ModelAnswerError:
        return text


def _outline(data: Any) -> str:
    """What an answer is made of, for a message; never its values, which may be tokens."""
    if isinstance(data, Mapping):
        return excerpt(f"an object with {', '.join(map(str, list(data)[:10])) or 'nothing in it'}")
    if data is None:
        return "nothing"
    return f"a list of {len(data)}" if isinstance(data, list) else "text" if isinstance(data, str) else "a single value"

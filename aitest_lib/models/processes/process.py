"""A child process that holds a Python model, and the frames to and from it (`python_child.py` is the other end)."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import struct
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO, cast

import pandas as pd

from aitest_lib.config.card import PythonBackend
from aitest_lib.config.secrets import resolve
from aitest_lib.errors import InputError, Interrupted, ModelAnswerError
from aitest_lib.models.base import POLL_S, StopSwitch, excerpt, rows_text
from aitest_lib.models.batches import CallLostError
from aitest_lib.models.processes import python_child

TIMEOUT_S = 600.0  # of one call, and of the start
LOG_LINES = 50


class ProcessDied(ModelAnswerError):
    """The child ended while it was asked."""


class ModelProcess:
    """One running child. `classes`: the model's `classes_`, or None."""

    def __init__(self, backend: PythonBackend, base_dir: Path, stop: StopSwitch, *, want_scores: bool) -> None:
        self._stop = stop
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self._process = _spawn(backend, base_dir)
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        stdin, stdout, stderr = (cast(BinaryIO, pipe) for pipe in pipes)  # `_spawn` asks for all three
        self._to, self._from = stdin.fileno(), stdout.fileno()
        os.set_blocking(self._to, False)
        Thread(target=_drain, args=(stderr, self._log), daemon=True).start()
        start = {
            "callable": backend.callable,
            "path": [str((base_dir / entry).resolve()) for entry in backend.path],
            "params": _resolved(backend.params),
            "scores": want_scores,
        }
        try:
            header, _ = self._exchange(start, [], "the start")
        except (ProcessDied, CallLostError) as error:
            self.end()
            raise InputError(f"the model {backend.callable} cannot be started: {error}") from error
        except Interrupted:
            self.end()
            raise
        if "error" in header:
            self.end()
            raise InputError(
                f"the model {backend.callable} cannot be loaded: {excerpt(header['error'])}; "
                f"looked in {', '.join(start['path'])}, with {_interpreter(backend, base_dir)}"
            )
        self._calls = 0
        self.classes: list[Any] | None = header["classes"]

    def call(self, inputs: pd.DataFrame) -> python_child.Frame:
        """The child's answer to a table: `labels` and `scores`, or `error`.

        Raises `ProcessDied`, `CallLostError` (no answer within 600 s; the child must be ended) or `Interrupted`.
        """
        table, buffers = python_child.encode_table(inputs)
        self._calls += 1
        answer, parts = self._exchange({"table": table, "id": self._calls}, buffers, rows_text(len(inputs)))
        if answer.get("id") != self._calls:
            raise ProcessDied(
                f"the model's process answered out of turn at {rows_text(len(inputs))}; it must not write to its pipe"
            )
        return answer, parts

    def end(self) -> None:
        """Kills the child and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # it leads a session, so the group is its own
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()

    def _exchange(self, header: dict[str, Any], buffers: list[bytes], what: str) -> python_child.Frame:
        deadline = time.monotonic() + TIMEOUT_S
        try:
            self._write(python_child.pack(header, buffers), deadline)
            size = struct.unpack(">I", self._read(4, deadline))[0]
            answer = json.loads(self._read(size, deadline))
            return answer, [self._read(size, deadline) for size in answer["buffers"]]
        except (BrokenPipeError, EOFError) as error:
            raise ProcessDied(f"the model's process {self._ending()} at {what}{self._last_words()}") from error
        except TimeoutError as error:
            raise CallLostError(f"the model's process gave no answer to {what} within {TIMEOUT_S:g} s") from error

    def _write(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            self._wait([], [self._to], deadline)
            view = view[os.write(self._to, view) :]

    def _read(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._wait([self._from], [], deadline)
            chunk = os.read(self._from, min(size - len(data), 1 << 20))
            if not chunk:
                raise EOFError
            data += chunk
        return bytes(data)

    def _wait(self, reading: list[int], writing: list[int], deadline: float) -> None:
        while not any(select.select(reading, writing, [], POLL_S)):
            self._stop.check()
            if time.monotonic() > deadline:
                raise TimeoutError

    def _ending(self) -> str:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "closed its pipe"
        return f"died ({signal.Signals(-code).name})" if code < 0 else f"exited with status {code}"

    def _last_words(self) -> str:
        lines = [line for line in self._log if line.strip()]
        # After a crash, faulthandler's first line says what happened; else a traceback's last one does.
        told = next((line for line in lines if line.startswith("Fatal Python error")), lines[-1] if lines else "")
        return f": {excerpt(told)}" if told else ""


def _spawn(backend: PythonBackend, base_dir: Path) -> subprocess.Popen[bytes]:
    interpreter = _interpreter(backend, base_dir)
    program = str(Path(python_child.__file__).resolve())
    try:
        return subprocess.Popen(
            [interpreter, "-u", program],
            cwd=base_dir,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for aitest, which ends the call and then the child
        )
    except OSError as error:
        raise InputError(
            f"the interpreter {interpreter} cannot be started in {base_dir}: {error.strerror}; check `python.interpreter`"
        ) from error


def _interpreter(backend: PythonBackend, base_dir: Path) -> str:
    """A bare name is looked up in PATH, a path is relative to the card."""
    name = backend.interpreter
    if name is None:
        return sys.executable
    return str(base_dir / name) if "/" in name else name


def _resolved(value: Any) -> Any:
    """Parameters with their `${NAME}` references resolved."""
    if isinstance(value, dict):
        return {key: _resolved(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_resolved(item) for item in value]
    return resolve(value) if isinstance(value, str) else value


def _drain(stream: BinaryIO, log: deque[str]) -> None:
    with stream:
        for line in iter(lambda: stream.readline(1000), b""):
            log.append(line.decode("utf-8", "replace").rstrip())

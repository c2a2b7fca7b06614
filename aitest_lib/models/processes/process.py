"""A child process that holds a model, and the frames to and from it (`python_child.serve` is the other end)."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections import deque
from threading import Thread
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from aitest_lib.errors import InputError, Interrupted, ModelAnswerError
from aitest_lib.models.answers import counted
from aitest_lib.models.base import POLL_S, StopSwitch, excerpt
from aitest_lib.models.processes import python_child
from aitest_lib.models.processes.encoding import encode_inputs
from aitest_lib.models.processes.memory import available, gigabytes, resident
from aitest_lib.models.processes.programs import Program

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

START_S = 600.0  # packages are imported, weights are read
LOG_LINES = 50
MOST_SHARE = 0.5  # of this machine's memory
MOST_GROWTH = 2_000_000_000  # bytes since the first answer


class ProcessDied(ModelAnswerError):
    """The child ended while it was asked."""


class ProcessKilled(ModelAnswerError):
    """The child has to be ended, for its silence (`hung`) or its memory."""

    def __init__(self, message: str, *, hung: bool) -> None:
        super().__init__(message)
        self.hung = hung


class ModelProcess:
    """One running child. `classes`: the model's `classes_`, or None. `word`: what messages call one input."""

    def __init__(self, program: Program, stop: StopSwitch, word: str) -> None:
        self._stop = stop
        self._word = word
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self._process = _spawn(program)
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        stdin, stdout, stderr = (cast(BinaryIO, pipe) for pipe in pipes)  # `_spawn` asks for all three
        self._to, self._from = stdin.fileno(), stdout.fileno()
        os.set_blocking(self._to, False)
        Thread(target=_drain, args=(stderr, self._log), daemon=True).start()
        try:
            header, _ = self._exchange(program.start, [], 0, START_S)
        except (ProcessDied, ProcessKilled) as error:
            self.end()
            raise InputError(f"{program.what} cannot be started: {error}") from error
        except Interrupted:
            self.end()
            raise
        if "error" in header:
            self.end()
            raise InputError(f"{program.what} cannot be loaded: {excerpt(header['error'])}; {program.hint}")
        self._calls = 0
        self._at_first = 0
        self.classes: list[Any] | None = header["classes"]

    def call(self, inputs: pd.DataFrame | NDArray[Any] | python_child.Clips, limit_s: float) -> python_child.Frame:
        """The child's answer to a table, an array of images, or clips: `labels` and `scores`, or `error`, or `misfit`.

        Raises `ProcessDied`, `ProcessKilled` (no answer within the limit, or too much memory: the child must be ended) or
        `Interrupted`.
        """
        encoded, buffers = encode_inputs(inputs)
        self._calls += 1
        answer, parts = self._exchange({"inputs": encoded, "id": self._calls}, buffers, len(inputs), limit_s)
        if answer.get("id") != self._calls:
            raise self._out_of_turn(counted(len(inputs), self._word))
        self._at_first = self._at_first or resident(self._process.pid)
        return answer, parts

    def has_grown(self) -> bool:
        """Does it hold 2 GB more than after its first answer."""
        return resident(self._process.pid) - self._at_first > MOST_GROWTH

    def end(self) -> None:
        """Kills the child and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # it leads a session, so the group is its own
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()

    def _exchange(self, header: dict[str, Any], buffers: list[bytes], rows: int, limit_s: float) -> python_child.Frame:
        """Sends a frame and reads the next one. `rows`: as many as are asked, 0 at the start."""
        what = counted(rows, self._word) if rows else "the start"
        most = python_child.most_bytes(rows)
        deadline = time.monotonic() + limit_s
        try:
            self._write(python_child.pack(header, buffers), deadline)
            mark, size = python_child.HEAD.unpack(self._read(python_child.HEAD.size, deadline))
            if mark != python_child.MARK or size > most:
                raise self._out_of_turn(what)
            answer = json.loads(self._read(size, deadline))
            if sum(map(abs, answer["buffers"])) > most:
                raise self._out_of_turn(what)
            return answer, [self._read(size, deadline) for size in answer["buffers"]]
        except (BrokenPipeError, EOFError) as error:
            raise ProcessDied(f"the model's process {self._ending()} at {what}{self._last_words()}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise self._out_of_turn(what) from error
        except TimeoutError as error:
            raise ProcessKilled(f"the model's process gave no answer to {what} within {limit_s:.0f} s", hung=True) from error
        except MemoryError as error:
            raise ProcessKilled(f"the model's process took {error} at {what}", hung=False) from error

    def _out_of_turn(self, what: str) -> ProcessDied:
        return ProcessDied(f"the model's process answered out of turn at {what}; it must not write to its pipe")

    def _write(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            self._wait(self._to, select.POLLOUT, deadline)
            view = view[os.write(self._to, view) :]

    def _read(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._wait(self._from, select.POLLIN, deadline)
            chunk = os.read(self._from, min(size - len(data), 1 << 20))
            if not chunk:
                raise EOFError
            data += chunk
        return bytes(data)

    def _wait(self, pipe: int, event: int, deadline: float) -> None:
        """Until the pipe is ready; looks after the child meanwhile."""
        ready = select.poll()
        ready.register(pipe, event)
        while not ready.poll(POLL_S * 1000):
            self._stop.check()
            if self._process.poll() is not None and not ready.poll(0):
                raise EOFError  # what it started may still hold the pipe open
            if time.monotonic() > deadline:
                raise TimeoutError
            held, limit = resident(self._process.pid), available()
            if limit is not None and held > MOST_SHARE * limit:
                raise MemoryError(f"{gigabytes(held)} of memory, and {gigabytes(limit)} is all there is")

    def _ending(self) -> str:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "closed its pipe"
        if code == -signal.SIGKILL:
            return "was killed from outside (SIGKILL), often for lack of memory,"
        return f"died ({signal.Signals(-code).name})" if code < 0 else f"exited with status {code}"

    def _last_words(self) -> str:
        lines = [line for line in self._log if line.strip()]
        # After a crash, faulthandler's first line says what happened; else a traceback's last one does.
        told = next((line for line in lines if line.startswith("Fatal Python error")), lines[-1] if lines else "")
        return f": {excerpt(python_child.printable(told))}" if told else ""


def _spawn(program: Program) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            program.command,
            cwd=program.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for aitest, which ends the call and then the child
        )
    except OSError as error:
        raise InputError(
            f"the interpreter {program.command[0]} cannot be started in {program.folder}: {error.strerror}; "
            "check `python.interpreter`"
        ) from error


def _drain(stream: BinaryIO, log: deque[str]) -> None:
    with stream:
        for line in iter(lambda: stream.readline(1000), b""):
            log.append(line.decode("utf-8", "replace").rstrip())

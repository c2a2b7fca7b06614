"""A service as a process of its own: started detached, found again, ended with everything that it has started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from aitest_lib.canonical import digest
from aitest_lib.errors import UnavailableError
from aitest_tasks.processes import birth, boot
from aitest_tasks.services import Process

TOKEN = "AITEST_SERVICE"  # noqa: S105 - the name of the variable that marks whatever a service starts
POLL_S = 0.1
END_TIMEOUT_S = 25.0
KILLED_TIMEOUT_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Service:
    """What to start. `environment` goes over that of whoever starts it; `ready` says whether it answers.

    `needs`: names of services that must be ready before; `prepare` runs after that and before the process starts.
    `user`: whose the process is to be, where not that of the current user.
    """

    name: str
    url: str
    command: Sequence[str]
    environment: Mapping[str, str]
    ready: Callable[[], bool]
    needs: tuple[str, ...] = ()
    prepare: Callable[[], object] = lambda: None
    stop_signal: int = signal.SIGTERM
    user: str | None = None

    @property
    def fingerprint(self) -> str:
        """Digest of command and environment: a process of another one has to be started anew."""
        return digest([list(self.command), dict(self.environment)])


def launch(service: Service, base: Mapping[str, str], log: Path, folder: Path) -> Process:
    """Starts a service in a session of its own, in `folder`, on the environment `base`."""
    token = uuid4().hex
    try:
        with log.open("ab") as file:
            started = subprocess.Popen(
                list(service.command),
                env={**base, **service.environment, TOKEN: token},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,  # Ctrl-C in the terminal is not for it
                user=service.user,
                group=service.user,
                extra_groups=None if service.user is None else [],
            )
    except (OSError, LookupError) as error:
        raise UnavailableError(f"{service.name} could not be started ({service.command[0]}): {error}") from error
    _started[started.pid] = started
    return Process(
        service.name,
        service.url,
        started.pid,
        birth(started.pid),
        boot(),
        token,
        str(log),
        service.fingerprint,
        service.stop_signal,
    )


def wait_ready(service: Service, process: Process, timeout_s: float, stopped: Callable[[], bool] = lambda: False) -> None:
    """Waits until a service answers; one that ends or stays silent is an `UnavailableError` with its log file."""
    deadline = time.monotonic() + timeout_s
    while True:
        answers = service.ready()
        _reap()
        if not process.alive:  # and what answers at its address is another one
            raise UnavailableError(f"{service.name} ended as soon as it was started; its log is {process.log}")
        if answers:
            return
        if time.monotonic() > deadline:
            raise UnavailableError(f"{service.name} did not answer within {timeout_s:g} s; its log is {process.log}")
        if stopped():
            raise UnavailableError(f"{service.name} was stopped before it answered")
        time.sleep(POLL_S)


def end(processes: Iterable[Process], timeout_s: float = END_TIMEOUT_S) -> None:
    """Ends processes and all that they have started; returns when they are gone. What does not end in time is killed."""
    left = list(processes)
    for process in left:
        _signal(process, process.stop_signal)
    if _gone(left, timeout_s):
        return
    deadline = time.monotonic() + KILLED_TIMEOUT_S
    while not _gone(left, POLL_S):  # as often as it takes: what is being killed may start others
        for process in left:
            _signal(process, signal.SIGKILL)
        if time.monotonic() > deadline:
            pids = ", ".join(str(pid) for process in left for pid in members(process))
            raise UnavailableError(f"processes {pids} cannot be ended; end them as the user they belong to")


def members(process: Process) -> list[int]:
    """The pids of a service: of its own process while that is alive, and of whatever it has started, however."""
    own = [process.pid] if process.alive else []
    mark = f"{TOKEN}={process.token}".encode()
    return own + [pid for pid in _pids() if pid != process.pid and mark in _environment(pid)]


def _gone(processes: Sequence[Process], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while True:
        _reap()
        if not any(members(process) for process in processes):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)


def _signal(process: Process, number: int) -> None:
    for pid in members(process):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _pids() -> Iterable[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 - names are all it takes
    return []


def _environment(pid: int) -> list[bytes]:
    """The variables that a process was started with (Linux); empty where it has ended or belongs to another user."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


_started: dict[int, subprocess.Popen[bytes]] = {}


def _reap() -> None:
    """Takes notice of the processes of this one that have ended."""
    for pid, started in list(_started.items()):
        if started.poll() is not None:
            del _started[pid]

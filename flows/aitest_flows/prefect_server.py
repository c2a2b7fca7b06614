"""The Prefect server that `aitest run` starts for itself, and that ends with the last run.

Prefect's own in-process server dies first on Ctrl-C, outlives `kill -9`, and stumbles when three runs start at once.
Here a small supervisor process starts `prefect server start` on a free port of the loopback interface and stops it once
no process that uses it is alive, however those ended.

    prefect/server.json      {"url", "pid"}: there while the server is up
    prefect/users/<pid>      one file for each process that uses it
    prefect/unfinished       there while no server has come up with the database yet
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

START_TIMEOUT_S = 120.0
# Who holds the slots of a limit is kept in the server's home: in memory, as by default, a server that ends would forget it,
# while its database went on counting slots that nobody gives back.
LEASES = "prefect.server.concurrency.lease_storage.filesystem"
IDLE_S = 3.0
DATABASE, UNFINISHED = "prefect.db", "unfinished"


@contextlib.contextmanager
def prefect_server(home: Path, logs: Path) -> Iterator[str]:
    """The API URL of a server that is up: `PREFECT_API_URL` where it is set, else the project's own, started if need be."""
    from aitest_lib.errors import UnavailableError
    from aitest_tasks.settings import user_environment

    given = given_url()
    if given:
        if not healthy(given):
            own = "PREFECT_API_URL" not in user_environment()  # nothing that the user has set, or could unset
            origin = "of `aitest up`" if own else "(PREFECT_API_URL)"
            mend = "restart it with: aitest down, then aitest up" if own else "start it, or unset PREFECT_API_URL"
            raise UnavailableError(f"the Prefect server at {given} {origin} does not answer; {mend}")
        yield given
        return
    user = _use(home, logs, lambda: _running(home) is not None)
    try:
        yield _wait(home, logs)
    finally:
        user.unlink(missing_ok=True)


def start_early(home: Path, logs: Path) -> None:
    """Starts the server in the background, so that it boots while this process imports its libraries."""
    if not given_url():
        _use(home, logs, lambda: _running(home) is not None or _starting(home))


def given_url() -> str | None:
    """`PREFECT_API_URL`, None where it is not set; what is no address is an `InputError`."""
    given = os.environ.get("PREFECT_API_URL")
    if given and not re.fullmatch(r"https?://[^/\s?#@]+(/[^\s?#]*)?", given):
        from aitest_lib.errors import InputError

        raise InputError(
            "PREFECT_API_URL is not the address of a Prefect server; expected http://host:4200/api, without credentials "
            "(those belong into PREFECT_API_AUTH_STRING)"
        )
    return given or None


def check_prefect(error: BaseException) -> None:
    """Raises `PrefectGone` where the server that a run works with does not answer, or did not, and may be back by now:
    that, and no defect, broke it."""
    from prefect.settings import get_current_settings

    from aitest_lib.errors import PrefectGone

    url = get_current_settings().api.url
    if url and (_lost_connection(error) or not healthy(url)):
        raise PrefectGone(f"the Prefect server at {url} went away during the run ({type(error).__name__})") from error


def _lost_connection(error: BaseException | None) -> bool:
    """Did a call to the server end without an answer, or with one like 503. (The model's calls raise errors of our own.)"""
    import httpx

    while error is not None:
        if isinstance(error, httpx.TransportError):
            return True
        if isinstance(error, httpx.HTTPStatusError) and error.response.status_code >= 500:
            return True
        error = error.__cause__ or error.__context__
    return False


def healthy(url: str) -> bool:
    """Does the API answer."""
    import httpx

    try:
        return httpx.get(f"{url}/health", timeout=5, trust_env=False).status_code == 200
    except (httpx.HTTPError, httpx.InvalidURL):
        return False


def discard_unfinished(home: Path) -> None:
    """Removes a database that no server ever came up with: its migrations may have been cut short, and cannot go on."""
    unfinished = home / UNFINISHED
    if unfinished.exists():
        for path in home.glob(f"{DATABASE}*"):
            path.unlink(missing_ok=True)
    if not (home / DATABASE).exists():
        unfinished.touch()


def came_up(home: Path, url: str) -> bool:
    """Does the server answer that was started with the database in `home`; if it does, that database is whole."""
    up = healthy(url)
    if up:
        (home / UNFINISHED).unlink(missing_ok=True)
    return up


def _running(home: Path) -> str | None:
    """The URL of the project's server if it is up or still starting under a live supervisor."""
    try:
        state = json.loads((home / "server.json").read_text())
        return str(state["url"]) if _alive(state["pid"]) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _starting(home: Path) -> bool:
    try:
        return _alive(int((home / "supervisor.pid").read_text()))
    except (OSError, ValueError):
        return False


def _use(home: Path, logs: Path, is_up: Callable[[], bool]) -> Path:
    """Says that this process uses the project's server, and starts one unless `is_up`; returns the file that says so."""
    from aitest_lib.errors import InputError

    user = home / "users" / str(os.getpid())
    try:
        user.parent.mkdir(parents=True, exist_ok=True)
        with _lock(home):
            user.touch()
            if not is_up():
                (home / "server.json").unlink(missing_ok=True)
                _spawn(home, logs)
    except OSError as error:
        raise InputError(
            f"cannot write {error.filename or home}: {error.strerror}; make {home.parent} writable, "
            "or run aitest in a folder you may write to"
        ) from error
    return user


def _spawn(home: Path, logs: Path) -> None:
    discard_unfinished(home)
    with (logs / "prefect-server.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "aitest_flows.prefect_server", str(home), str(logs)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C in the terminal is for the run, not for the server of others
        )
    (home / "supervisor.pid").write_text(str(process.pid))
    (home / "server.json").write_text(json.dumps({"url": "", "pid": process.pid}))


def _wait(home: Path, logs: Path) -> str:
    from aitest_lib.errors import UnavailableError

    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        url = _running(home)
        if url is None:
            raise UnavailableError(
                f"the Prefect server did not start; its log is {logs / 'prefect-server.log'}; "
                f"where that speaks of the database, move {home / DATABASE} away"
            )
        if url and came_up(home, url):
            return url
        time.sleep(0.1)
    raise UnavailableError(
        f"the Prefect server was not up after {START_TIMEOUT_S:g} s; its log is {logs / 'prefect-server.log'}"
    )


@contextlib.contextmanager
def _lock(home: Path) -> Iterator[None]:
    with (home / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # A zombie answers signals, but works for nobody.
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _die_with_parent() -> None:
    """The server goes when its supervisor is killed (Linux; elsewhere it stays until the next one finds it)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


# What a server does for deployments and schedules: nothing that a run in this process needs, and it costs CPU all the time.
IDLE_SERVICES = (
    "CANCELLATION_CLEANUP",
    "CLEANUP_RECONCILER",
    "FOREMAN",
    "LATE_RUNS",
    "PAUSE_EXPIRATIONS",
    "SCHEDULER",
    "TRIGGERS",
)


def supervise(home: Path) -> int:
    """The supervisor's main: start, publish, watch the users, stop."""
    port = _free_port()
    url = f"http://127.0.0.1:{port}/api"
    environment = {**os.environ, "PREFECT_HOME": str(home), "PREFECT_SERVER_LOGGING_LEVEL": "WARNING"}
    environment |= {"PREFECT_SERVER_UI_API_URL": url, "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": LEASES}
    environment |= {f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in IDLE_SERVICES}
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, env=environment, preexec_fn=_die_with_parent)
    state: dict[str, Any] = {"url": url, "pid": os.getpid()}
    (home / "server.json").write_text(json.dumps(state))
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    idle_since: float | None = None
    while server.poll() is None:
        time.sleep(0.5)
        if any(_alive(int(user.name)) for user in (home / "users").iterdir()):
            idle_since = None
            continue
        idle_since = idle_since or time.monotonic()
        if time.monotonic() - idle_since < IDLE_S:
            continue
        with _lock(home):  # a run that starts now either is seen here, or finds no server and starts its own
            if any(_alive(int(user.name)) for user in (home / "users").iterdir()):
                continue
            (home / "server.json").unlink(missing_ok=True)
            for user in (home / "users").iterdir():
                user.unlink(missing_ok=True)
        server.terminate()
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            server.kill()
    return server.wait()


if __name__ == "__main__":
    sys.exit(supervise(Path(sys.argv[1])))

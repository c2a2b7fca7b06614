"""A process at work on a run: it says so in the store, tells how far it is, and leaves nothing open behind it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from aitest_lib.config.secrets import mask
from aitest_lib.errors import AitestError
from aitest_tasks import live
from aitest_tasks.leases import Lease, Presence
from aitest_tasks.memory import keep_memory_lean
from aitest_tasks.runs import Run
from aitest_tasks.settings import current

PROGRESS_S = 1.0

_present: dict[str, Presence] = {}  # of this process, by run
_leases: dict[str, Lease] = {}


@contextmanager
def leading(run: Run) -> Iterator[None]:
    """While this process leads a run: nobody else does. What ends the run early is marked in MLflow."""
    from aitest_flows.interrupt import mark_interrupted

    with Lease(run) as lease, working(run):
        _leases[run.run_id] = lease
        run.store.remove(f"runs/{run.run_id}/ended.json")
        try:
            yield
        except Exception as error:
            lease.check()  # or what the other one has written would be lost
            mark_interrupted(current(), run)
            if isinstance(error, AitestError):
                run.write("ended", {"message": str(error), "exit_code": error.exit_code})
            raise
        finally:
            del _leases[run.run_id]


@contextmanager
def working(run: Run) -> Iterator[None]:
    """While this process works on a run, leading it or not; within another such block of the same run nothing more happens."""
    if run.run_id in _present:
        yield
        return
    from prefect.runtime import flow_run

    current()  # a worker's process has opened no settings yet
    keep_memory_lean()
    flow_run_id = flow_run.get_id()
    with live.running(), Presence(run, str(flow_run_id) if flow_run_id else None) as presence:
        _present[run.run_id] = presence
        try:
            with _progress_file(run, presence.token):
                yield
        except AitestError as error:
            # Prefect writes what ends a flow into its log, causes included.
            error.args, error.__cause__, error.__suppress_context__ = (mask(str(error)),), None, True
            raise
        finally:
            del _present[run.run_id]
            _leave_usage(run, presence.token)
            live.close_model(run.run_id)


def token_of(run: Run) -> str:
    """By what this process's claims on a run are known."""
    return _present[run.run_id].token


def check_leading(run: Run) -> None:
    """Raises `Interrupted` where another process has taken over the run that this one led."""
    _leases[run.run_id].check()


def leave(run: Run) -> None:
    """Says at once that this process works on a run no more; for a way out that skips what comes after."""
    for held in (_present.get(run.run_id), _leases.get(run.run_id)):
        if held is not None:
            held.release()


def retries(run: Run) -> int:
    """How often calls of this run were repeated, by all its processes so far."""
    elsewhere = sum(run.store.read_json(path)["retries"] for path in run.store.files(f"runs/{run.run_id}/usage"))
    return int(elsewhere) + live.usage(run.run_id).retries


def _leave_usage(run: Run, token: str) -> None:
    found = live.usage(run.run_id).retries
    if found and run.pool:
        with suppress(AitestError):
            run.write(f"usage/{token}", {"retries": found})


@contextmanager
def _progress_file(run: Run, token: str) -> Iterator[None]:
    """Writes how far the run is, about once a second, for `aitest status`."""
    state: dict[str, dict[str, Any]] = {}
    lock, changed, done = threading.Lock(), threading.Event(), threading.Event()

    def hear(name: str, stage: str, now: int, total: int, note: str) -> None:
        with lock:
            state.setdefault(name, {})[stage] = {"done": now, "total": total, "note": note}
        changed.set()

    def write() -> None:
        while not done.is_set():
            changed.wait(PROGRESS_S)
            if not changed.is_set():
                continue
            changed.clear()
            _save(run, token, state, lock)
            done.wait(PROGRESS_S)

    forget = live.listen(hear)
    writer = threading.Thread(target=write, name="aitest-progress", daemon=True)
    writer.start()
    try:
        yield
    finally:
        forget()
        done.set()
        changed.set()
        writer.join(timeout=5)
        if state:
            _save(run, token, state, lock)


def _save(run: Run, token: str, state: Mapping[str, Any], lock: threading.Lock) -> None:
    """Writes the progress file; a store that is away for a moment costs a line of it, not the run."""
    with lock:
        snapshot = {"time": time.time(), "properties": {name: dict(stages) for name, stages in state.items()}}
    try:
        run.write(f"progress/{token}", snapshot)
    except AitestError:
        return

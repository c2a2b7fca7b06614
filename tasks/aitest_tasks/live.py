"""What lives in this process only: opened models, objects given in Python, progress listeners, the stop switch.

Tasks exchange references; whatever cannot be written down is looked up here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aitest_lib.artifacts.patience import Patience
from aitest_lib.errors import Interrupted
from aitest_lib.models.base import Model, Usage

AWAY_S = 90.0  # how long a run waits for a store or a tracking server that is away

ProgressListener = Callable[[str, str, int, int, str], None]  # property, stage, done, total, note


@dataclass
class _Live:
    models: dict[str, Model] = field(default_factory=dict)
    objects: dict[str, Any] = field(default_factory=dict)
    listeners: list[ProgressListener] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    running: int = 0
    done: dict[tuple[str, str], int] = field(default_factory=dict)  # by property and stage, where tasks count together
    lock: threading.RLock = field(default_factory=threading.RLock)


_live = _Live()


def model(run_id: str, opener: Callable[[], Model]) -> Model:
    """The model of a run, opened once in this process: its rate and concurrency limits hold over all tasks."""
    with _live.lock:
        if run_id not in _live.models:
            _live.models[run_id] = opener()
        return _live.models[run_id]


def usage(run_id: str) -> Usage:
    """What the model of a run was asked by this process; nothing where it was not opened."""
    with _live.lock:
        opened = _live.models.get(run_id)
    return opened.usage if opened is not None else Usage()


def close_model(run_id: str) -> None:
    """Closes the model of a run."""
    with _live.lock:
        opened = _live.models.pop(run_id, None)
    if opened is not None:
        opened.close()


def keep_object(run_id: str, value: Any) -> None:
    """Remembers the in-memory model of a run."""
    _live.objects[run_id] = value


def kept_object(run_id: str) -> Any | None:
    """The in-memory model of a run, if it was given in this process."""
    return _live.objects.get(run_id)


def listen(listener: ProgressListener) -> Callable[[], None]:
    """Calls `listener` at every progress from now on; returns what ends that."""
    _live.listeners.append(listener)
    return lambda: _live.listeners.remove(listener)


def progress(name: str, stage: str, done: int, total: int, note: str = "") -> None:
    """Tells the listeners how far a property is."""
    for listener in list(_live.listeners):
        listener(name, stage, done, total, note)


def advance(name: str, stage: str, by: int, total: int) -> None:
    """Tells the listeners that a property is so much further; tasks that work side by side count together."""
    with _live.lock:
        done = _live.done[name, stage] = _live.done.get((name, stage), 0) + by
    progress(name, stage, min(done, total), total)


def begin(name: str, stage: str, total: int) -> None:
    """Sets the count of `advance` to zero and tells the listeners."""
    with _live.lock:
        _live.done[name, stage] = 0
    progress(name, stage, 0, total)


@contextmanager
def running() -> Iterator[None]:
    """While a run works in this process, a store or a tracking server that is away is waited for. May be nested."""
    with _live.lock:
        _live.running += 1
        if _live.running == 1:
            _live.stopped.clear()  # a run that was stopped in this process must not stop the next one
    _wait_for_servers(AWAY_S)
    try:
        yield
    finally:
        with _live.lock:
            _live.running -= 1
        if not _live.running:
            _wait_for_servers(0.0)


def _wait_for_servers(seconds: float) -> None:
    for patience in (store_patience, tracking_patience):
        patience.seconds = seconds


def pause(seconds: float) -> None:
    """Waits, and raises `Interrupted` as soon as `stop` is called."""
    _live.stopped.wait(seconds)
    check_stopped()


def stop() -> None:
    """Ends the run in this process soon: models stop waiting, tasks stop between two batches."""
    _live.stopped.set()
    with _live.lock:
        for opened in _live.models.values():
            opened.stop()


def check_stopped() -> None:
    """Raises `Interrupted` once `stop` was called."""
    if _live.stopped.is_set():
        raise Interrupted("stopped; answers so far are kept")


def _tell(name: str) -> Callable[[float, bool], None]:
    def tell(waited: float, back: bool) -> None:
        if back:
            progress(name, "done", 1, 1, f"is back after {waited:.0f} s")
        else:
            progress(name, "waiting", int(waited), int(AWAY_S), "is away")

    return tell


store_patience = Patience(pause=pause, tell=_tell("the store"))
tracking_patience = Patience(pause=pause, tell=_tell("the tracking server"))

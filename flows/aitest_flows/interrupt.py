"""Ctrl-C, SIGTERM and a closed terminal (SIGHUP) during a run: one line, what is answered is kept, gone within three seconds.

Prefect's way out waits for its threads and its server; ours does not: the run's record is what counts, and it is in the
store already.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TypeVar

from rich.console import Console

from aitest_flows.working import leave
from aitest_lib.errors import AitestError
from aitest_tasks import live
from aitest_tasks.runs import Run
from aitest_tasks.settings import Settings

T = TypeVar("T")
PATIENCE_S = 2.0
HIDING_S = 0.5
LOOKS_UP_S = 0.2
EXIT_STATUS = 130
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ends_at_once(settings: Settings, run: Run, console: Console, hide: Callable[[], None]) -> Iterator[None]:
    """While active, SIGINT, SIGTERM and SIGHUP end the process cleanly and soon; under `nohup` the last one does nothing.

    `hide` ends what else is drawn on the console.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        for one in ENDING:
            signal.signal(one, signal.SIG_IGN)
        _briefly(hide, HIDING_S)  # it may wait for a thread that draws
        console.show_cursor(True)
        if run.pool:
            goes_on = f"the run goes on on the pool {run.pool}; see: aitest status {run.run_id[:12]}"
            console.print(f"\nno longer watched; {goes_on}", highlight=False)
        else:
            console.print(f"\nstopped; what was answered is kept. Go on with: aitest resume {run.run_id[:12]}", highlight=False)
            _briefly(lambda: _leave(settings, run), PATIENCE_S)
        os._exit(EXIT_STATUS)

    under_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    numbers = [number for number in ENDING if number != signal.SIGHUP or not under_nohup]
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def beside_main_thread(action: Callable[[], T]) -> T:
    """What `action` returns or raises, run in a thread of its own.

    In the main thread Prefect takes SIGTERM over and waits for its tasks; anywhere else it leaves signals alone. This thread
    looks up now and then: a signal that the kernel hands to another thread does not wake it, and its handler runs here only.
    """
    with ThreadPoolExecutor(1, "aitest-run") as pool:
        future = pool.submit(action)
        while not future.done():
            wait([future], LOOKS_UP_S)
        return future.result()


def mark_interrupted(settings: Settings, run: Run) -> None:
    """Says in MLflow that the run has not ended as it should; where MLflow is away, too, nothing is said."""
    from aitest_tasks.tracking import Tracking

    with suppress(AitestError):
        tracking = Tracking(settings)
        tracking.log(run.run_id, metrics={}, tags={"aitest.status": "interrupted"})
        tracking.end(run.run_id, "KILLED")


def _briefly(action: Callable[[], None], seconds: float) -> None:
    """Runs an action beside this thread, and waits for it no longer than that."""
    worker = threading.Thread(target=action, daemon=True)
    worker.start()
    worker.join(seconds)


def _leave(settings: Settings, run: Run) -> None:
    """What is worth doing on the way out, each step at most once."""
    live.stop()
    with suppress(AitestError, OSError):
        leave(run)
    with suppress(OSError):
        (settings.prefect_home / "users" / str(os.getpid())).unlink(missing_ok=True)
    live.close_model(run.run_id)
    mark_interrupted(settings, run)

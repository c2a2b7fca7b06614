"""Several services at once: started side by side as far as they do not need one another, ended in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path

from aitest_flows.services.processes import END_TIMEOUT_S, Service, end, launch, wait_ready
from aitest_lib.errors import UnavailableError
from aitest_tasks.services import WORKER, Process, ServiceFolder

READY_TIMEOUT_S = 120.0
STARTED, RESTARTED, UP = "started", "started again", "up already"
Report = Callable[[str, str], None]  # takes a service's name, and how it has come up


def start(
    services: Sequence[Service], folder: ServiceFolder, base: Mapping[str, str], logs: Path, place: Path, report: Report
) -> None:
    """Brings all of them up, each after those it needs; whoever calls holds the folder's lock.

    A process that is alive and was started with the same command and environment stays. If one does not come up, all that
    this call has started end, and the error (`UnavailableError`) names the log file.
    """
    stop = threading.Event()
    begun: list[Process] = []
    ready: dict[str, Future[None]] = {}

    def bring_up(service: Service) -> None:
        for name in service.needs:
            ready[name].result()
        known = folder.read().get(service.name)
        kept = known if known is not None and known.alive and known.of == service.fingerprint else None
        if kept is None:
            if known is not None:
                end([known])  # also what a dead one has left running
            service.prepare()
            if stop.is_set():
                raise UnavailableError(f"{service.name} was not started")
            kept = launch(service, base, logs / log_name(service.name), place)
            begun.append(kept)
            folder.add(kept)
            how = STARTED if known is None else RESTARTED
        else:
            how = UP
        wait_ready(service, kept, READY_TIMEOUT_S, stop.is_set)
        report(service.name, how)

    with ThreadPoolExecutor(len(services)) as pool:
        try:
            for service in services:  # those that others need come first
                ready[service.name] = pool.submit(bring_up, service)
            done, _ = wait(ready.values(), return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        except BaseException:  # Ctrl-C as well
            stop.set()
            wait(ready.values())
            finish(begun, folder)
            raise


def finish(processes: Iterable[Process], folder: ServiceFolder, patience_s: float = END_TIMEOUT_S) -> None:
    """Ends processes, workers with what they run before the servers they work with, and forgets them."""
    left = list(processes)
    workers = [process for process in left if process.name.startswith(WORKER)]
    for some in (workers, [process for process in left if process not in workers]):
        end(some, patience_s)
        for process in some:
            folder.remove(process.name)


def log_name(service: str) -> str:
    """The name of a service's log file."""
    return f"{service.lower().replace(' ', '-')}.log"

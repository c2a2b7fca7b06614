"""CPU seconds and memory of processes, as /proc tells them (Linux)."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SAMPLES_EVERY_S = 0.2


def cpu_of(pids: Iterable[int]) -> float:
    """CPU seconds of processes so far, with those of all that they have started and that has ended."""
    fields = (_stat(pid) for pid in pids)
    return sum(sum(int(value) for value in found[11:15]) for found in fields if found) / TICK


def rss_of(pids: Iterable[int]) -> float:
    """Resident megabytes of processes; what they share counts once for each."""
    return sum(int(found[21]) for pid in pids if (found := _stat(pid))) * PAGE / 1e6


def pss_of(pids: Iterable[int]) -> float:
    """Resident megabytes of processes; what several share is divided among them. Takes their user's rights, or root's."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total * 1024 / 1e6


def tree(pid: int) -> list[int]:
    """A process and all that has come from it and still has its parent."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        if found := _stat(int(path.name)):
            children.setdefault(int(found[1]), []).append(int(path.name))
    found_pids = [pid]
    for one in found_pids:
        found_pids += children.get(one, [])
    return found_pids


@contextmanager
def peak_of(pids: Callable[[], Iterable[int]]) -> Iterator[Callable[[], float]]:
    """The most resident megabytes of some processes together, looked at five times a second; what is yielded tells it."""
    most, done = 0.0, threading.Event()

    def look() -> None:
        nonlocal most
        while not done.wait(SAMPLES_EVERY_S):
            most = max(most, rss_of(pids()))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield lambda: most
    finally:
        done.set()
        watcher.join()


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; empty where the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []

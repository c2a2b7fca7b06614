"""What an installation costs that has nothing to do: the services of `infra/local` with many workers."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from accounting import cpu_of, pss_of, rss_of, tree

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from local_services import local_services

from aitest_flows.services.processes import members
from aitest_tasks.services import WORKER, Process

WORKERS, LIMIT = 8, 2
SETTLE_S = 20  # what servers do once, after they have come up
IDLE_S = 120


def idle() -> None:
    """Start-up, then CPU seconds a minute and memory, by kind of service."""
    with tempfile.TemporaryDirectory() as root:
        started = time.perf_counter()
        with local_services(Path(root), workers=WORKERS, limit=LIMIT) as services:
            wall = time.perf_counter() - started
            pids = pids_by_kind(services.state.read())
            start_up = {kind: cpu_of(found) for kind, found in pids.items()}
            time.sleep(SETTLE_S)
            before, began = {kind: cpu_of(found) for kind, found in pids.items()}, time.perf_counter()
            time.sleep(IDLE_S)
            minutes = (time.perf_counter() - began) / 60
            print(f"{'idle':<14}{'processes':>12}{'start CPU s':>12}{'CPU s/min':>12}{'RSS MB':>12}{'PSS MB':>12}")
            for kind, found in pids.items():
                a_minute = (cpu_of(found) - before[kind]) / minutes
                figures = f"{start_up[kind]:>12.1f}{a_minute:>12.2f}{rss_of(found):>12,.0f}{pss_of(found):>12,.0f}"
                print(f"{kind:<14}{len(found):>12}{figures}")
            print(f"{WORKERS} workers x --limit {LIMIT}: all up after {wall:.1f} s, {sum(start_up.values()):.1f} CPU s\n")


def pids_by_kind(services: Mapping[str, Process]) -> dict[str, list[int]]:
    """The processes of services, those of all workers together.

    PostgreSQL's write over their environment, by which `members` knows what a service has started: they are its children.
    """
    found: dict[str, set[int]] = {}
    for name, process in services.items():
        kind = "workers" if name.startswith(WORKER) else name
        found.setdefault(kind, set()).update(pid for member in members(process) for pid in tree(member))
    return {kind: sorted(pids) for kind, pids in found.items()}

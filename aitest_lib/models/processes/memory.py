"""How much memory a process holds, and how much there is: from /proc and the control groups. Elsewhere nothing is known."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
PER_GB = 1e9


def resident(pid: int) -> int:
    """Bytes of memory that a process holds; 0 where that cannot be told."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@cache
def available() -> int | None:
    """Bytes of memory that this process may use with its children: the machine's, or less where its control group says so."""
    limits = [_number(path) for path in (*_group_files(), CGROUP / "memory/memory.limit_in_bytes")]
    with suppress(OSError, ValueError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min((limit for limit in limits if limit is not None), default=None)


def gigabytes(size: int) -> str:
    """`3.2 GB`."""
    return f"{size / PER_GB:.1f} GB"


def _group_files() -> list[Path]:
    """The files with the limits of this process's group and the groups around it (version 2)."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    group = next((line[3:].lstrip("/") for line in lines if line.startswith("0::")), "")
    folder = CGROUP / group
    return [one / "memory.max" for one in (folder, *folder.parents) if one.is_relative_to(CGROUP)]


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # not there, or `max`
        return None

"""Which process is which: tells a pid that the system has given to another one from the old one."""

from __future__ import annotations

import os
import socket
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # Linux: another one after every start of the machine


def boot() -> str:
    """Tells machines of one name apart, and a process from one of before a restart; empty where the system does not say."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def birth(pid: int) -> str | None:
    """When a process started (clock ticks since boot), None when it is not there: tells a reused pid from the old one."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return None
        except PermissionError:
            return "unknown"
        return None if Path("/proc/self").exists() else "unknown"
    return stat.rpartition(")")[2].split()[19]


def identity() -> dict[str, object]:
    """This process, as others can tell it from any other."""
    return {"host": socket.gethostname(), "boot": boot(), "pid": os.getpid(), "birth": birth(os.getpid())}


def is_here(known: dict[str, object]) -> bool:
    """Is a process (see `identity`) running on this machine."""
    pid = known.get("pid")
    here = known.get("host") == socket.gethostname() and known.get("boot") == boot()
    return here and isinstance(pid, int) and birth(pid) is not None and birth(pid) == known.get("birth")

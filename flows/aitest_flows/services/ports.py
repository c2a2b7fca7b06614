"""Ports of the loopback interface that stay the same from one start to the next."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Collection, Iterable
from pathlib import Path

# Below the ports that Linux gives to outgoing connections: those would take them away while a service is down.
RANGE = range(20_000, 30_000)


def choose_ports(file: Path, names: Iterable[str], in_use: Collection[str]) -> dict[str, int]:
    """A port for each name: the one it had before where that is free, or `in_use` by the service itself; kept in `file`."""
    known = _read(file)
    for name in names:
        if not (name in known and (name in in_use or is_free(known[name]))):
            taken = set(known.values())
            known[name] = next(port for port in random.sample(RANGE, len(RANGE)) if port not in taken and is_free(port))
    file.write_text(json.dumps(known), encoding="utf-8")
    return known


def is_free(port: int) -> bool:
    """Does nobody listen at a port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that are ending do not count
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _read(file: Path) -> dict[str, int]:
    """The ports that a file names; what is damaged in it counts as missing."""
    try:
        found = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: port for name, port in found.items() if type(port) is int and 0 < port < 1 << 16}

"""Small disks and read-only ones for tests, where this machine lets a test mount them."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """Makes `folder` a disk of its own, of that size; skips the test where none may be mounted."""
    folder.mkdir(exist_ok=True)
    try:
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True)
    except OSError:
        pytest.skip("there is no `mount` here")
    if made.returncode:
        pytest.skip("no disk may be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def make_read_only(folder: Path) -> None:
    """Makes a small disk read-only, for root, too."""
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)

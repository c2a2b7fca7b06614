"""Keeps a long run lean: its memory does not grow with its cases, nor its CPU time with the cores of the machine."""

from __future__ import annotations

import ctypes
from contextlib import AbstractContextManager, suppress
from typing import Any

import pyarrow as pa

M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8  # of glibc's malloc.h
LARGE = 1 << 18


def keep_memory_lean() -> None:
    """Makes freed arrays go back to the system.

    By default every thread keeps an arena of its own, the threshold from which arrays are returned at once grows with the
    largest one freed, and Arrow's pool keeps what it has: measured, a run of 1,000,000 cases peaked at 1.41 times the
    memory of one of 100,000. Only glibc knows the first two; elsewhere they are left alone.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_ARENA_MAX, 2)
        libc.mallopt(M_MMAP_THRESHOLD, LARGE)


def one_thread() -> AbstractContextManager[Any]:
    """While it is open, linear algebra in this process takes one thread: on small matrices more of them only wait for one
    another (measured: 2.5 times the CPU time of a search with Gaussian processes)."""
    import scipy.linalg  # noqa: F401 -- what is loaded later would not be limited
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    limits: AbstractContextManager[Any] = threadpool_limits(1)
    return limits

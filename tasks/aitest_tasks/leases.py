"""Who works on a run: one process leads it, others may share its work; each says so in a lease that it renews.

runs/<id>/lease.json             of the process that leads
runs/<id>/present/<token>.json   of every process that works on the run, the leading one included
"""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Any, Self
from uuid import uuid4

from aitest_lib.artifacts.store import json_bytes
from aitest_lib.errors import AitestError, ArtifactMissing, InputError, Interrupted
from aitest_tasks import live
from aitest_tasks.processes import birth, boot
from aitest_tasks.records import LEASE, misfit
from aitest_tasks.runs import Run

LEASE_S = 60.0
RENEW_S = 15.0
SETTLE_S = 1.0  # in which everybody who takes over an ended lease at the same time has written

_held: set[str] = set()  # tokens of the leases of this process


class _Renewed:
    """A record in the store that says until when its writer is at work; a thread renews it."""

    def __init__(self, run: Run, path: str, flow_run: str | None = None) -> None:
        self.run = run
        self.token = uuid4().hex
        self._path = path.format(token=self.token)
        self._flow_run = flow_run
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="aitest-lease", daemon=True)

    def __enter__(self) -> Self:
        _held.add(self.token)
        try:
            self._take()
        except BaseException:
            _held.discard(self.token)
            raise
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def release(self) -> None:
        """Ends the lease at once."""
        self._done.set()
        _held.discard(self.token)
        try:
            if self._stands():
                self.run.store.remove(self._path)
        except AitestError:
            return  # it runs out by itself

    def _take(self) -> None:
        self._write()

    def _stands(self) -> bool:
        """Is the lease in the store this one."""
        lease = _read(self.run, self._path)
        return lease is not None and lease["token"] == self.token

    def _write(self) -> None:
        self.run.store.write_json(self._path, self._content())

    def _renew(self) -> None:
        while not self._done.wait(RENEW_S):
            try:
                if not self._may_go_on():
                    return
                self._write()
            except AitestError:
                continue  # the next one may succeed; a store that stays away ends the run elsewhere

    def _may_go_on(self) -> bool:
        return True

    def _content(self) -> dict[str, Any]:
        return {
            "host": socket.gethostname(),
            "boot": boot(),
            "pid": os.getpid(),
            "birth": birth(os.getpid()),
            "until": time.time() + LEASE_S,
            "token": self.token,
            "flow_run": self._flow_run,
        }


class Lease(_Renewed):
    """Says that this process leads a run. A lease whose process is gone counts as ended.

    Of several that enter at once one gets it, the others an `InputError`.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run, f"runs/{run.run_id}/lease.json")

    def _take(self) -> None:
        if self.run.store.create(self._path, json_bytes(self._content())):
            return
        if self._stands():
            return  # it was created, but the answer to that was lost
        check_free(self.run)
        # It has ended. Others may have found the same just now: all write, and the last one stands.
        self._write()
        live.pause(SETTLE_S)
        if not self._stands():
            raise _busy(self.run, _standing(self.run))

    def check(self) -> None:
        """Raises `Interrupted` where another process leads the run by now: this one was suspended for too long."""
        if not self._stands():
            raise Interrupted(f"run {self.run.run_id[:8]} was taken over by another process while this one was suspended")

    def _may_go_on(self) -> bool:
        if self._stands():
            return True
        live.stop()  # the work of this process ends at its next step
        return False


class Presence(_Renewed):
    """Says that this process works on a run; what it has claimed counts for as long as that. `flow_run`: of Prefect."""

    def __init__(self, run: Run, flow_run: str | None) -> None:
        super().__init__(run, f"runs/{run.run_id}/present/{{token}}.json", flow_run)


def present(run: Run) -> dict[str, dict[str, Any]]:
    """The processes that work on a run, by token; those that are gone left out."""
    found = (_read(run, path) for path in run.store.files(f"runs/{run.run_id}/present"))
    return {lease["token"]: lease for lease in found if lease is not None and _counts(lease)}


def is_present(run: Run, token: str) -> bool:
    """Does the process of this token still work on the run."""
    lease = _read(run, f"runs/{run.run_id}/present/{token}.json")
    return lease is not None and _counts(lease)


def is_alive(run: Run) -> bool:
    """Is somebody leading the run."""
    lease = _standing(run)
    return lease is not None and _counts(lease)


def check_free(run: Run) -> None:
    """Raises `InputError` while somebody else leads the run."""
    lease = _standing(run)
    if lease is not None and _counts(lease):
        raise _busy(run, lease)


def _standing(run: Run) -> dict[str, Any] | None:
    return _read(run, f"runs/{run.run_id}/lease.json")


def _read(run: Run, path: str) -> dict[str, Any] | None:
    """The lease at a path; None where there is none or a damaged one."""
    try:
        lease = run.store.read_json(path)
    except ArtifactMissing:
        return None
    return dict(lease) if misfit(lease, LEASE) is None else None


def _counts(lease: dict[str, Any]) -> bool:
    """Does the process of a lease still work."""
    if (lease["host"], lease["boot"]) == (socket.gethostname(), boot()):
        if birth(lease["pid"]) != lease["birth"]:
            return False  # killed on this machine: nobody has to wait for the lease to run out
        if lease["pid"] == os.getpid() and lease["token"] not in _held:
            return False  # ended here while the store was away
    # A lease that runs longer than any that is written is damaged.
    return 0 < float(lease["until"]) - time.time() <= 2 * LEASE_S


def _busy(run: Run, lease: dict[str, Any] | None) -> InputError:
    who = f"process {lease['pid']} on {lease['host']}" if lease else "another process"
    return InputError(f"run {run.run_id[:8]} is being worked on by {who}; wait for it or stop it first")

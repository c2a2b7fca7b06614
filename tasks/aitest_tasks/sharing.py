"""How several processes share one run: they claim properties and shards in the store, and nobody waits for the dead.

    runs/<id>/claims/<what>/<n>.json   {"by": token}; the last one counts, for as long as its process is present
    runs/<id>/plans/<time>/plan.json   the shards that are open to everybody, and whose they are
    runs/<id>/plans/<time>/taken/<n>   who asks shard n
    runs/<id>/plans/<time>/done/<n>    {"sent", "errors", …}: what came of shard n
    runs/<id>/plans/<time>/closed.json nobody need look at the plan any more
    runs/<id>/asked/<index>.json       property `index` has all its answers: the next one may ask
    runs/<id>/results/<index>.json     property `index` is done

A claim is made by creating a file that must not exist yet, so that of several one has it. States of Prefect's decide nothing:
a flow run that was killed goes on reading RUNNING.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from aitest_lib.artifacts.store import json_bytes
from aitest_lib.errors import ArtifactMissing
from aitest_tasks.leases import is_present
from aitest_tasks.records import RECORDS, misfit
from aitest_tasks.runs import Run

Kind = Literal["query", "attack"]  # of work: which task takes a shard


def claim(run: Run, what: str, token: str) -> bool:
    """Whether `what` is this process's now: it was nobody's, its process is gone, or it was this one's before."""
    folder = f"runs/{run.run_id}/claims/{what}"
    claims = run.store.files(folder)
    holder = _holder(run, claims[-1]) if claims else None
    if holder == token:
        return True
    if holder is not None and is_present(run, holder):
        return False
    return run.store.create(f"{folder}/{len(claims):04d}.json", json_bytes({"by": token}))


def is_claimed(run: Run, what: str) -> bool:
    """Does somebody who is present work on it."""
    claims = run.store.files(f"runs/{run.run_id}/claims/{what}")
    holder = _holder(run, claims[-1]) if claims else None
    return holder is not None and is_present(run, holder)


def property_claim(index: int) -> str:
    """What the claim of a property is called."""
    return f"property-{index}"


def set_asked(run: Run, index: int) -> None:
    """Says that a property has all its answers."""
    run.write(f"asked/{index}", {})


def is_asked(run: Run, index: int) -> bool:
    """Has a property all its answers."""
    return run.has(f"asked/{index}") or run.has(f"results/{index}")


def write_result(run: Run, index: int, result: dict[str, Any]) -> None:
    """Keeps what the flow of a property has returned."""
    run.write(f"results/{index}", result)


def read_result(run: Run, index: int) -> dict[str, Any] | None:
    """What the flow of a property has returned; None as long as it has not, or where that is damaged."""
    try:
        found = run.store.read_json(f"runs/{run.run_id}/results/{index}.json")
    except ArtifactMissing:
        return None
    return found if misfit(found, RECORDS["result"]) is None else None


def begin_again(run: Run) -> None:
    """A resumed run asks errors again, so its properties are scored anew, but for those that somebody is working on."""
    for path in (*run.store.files(f"runs/{run.run_id}/errors"), f"runs/{run.run_id}/ended.json"):
        run.store.remove(path)
    for index in run.properties:
        if not is_claimed(run, property_claim(index)):
            for name in ("asked", "results"):
                run.store.remove(f"runs/{run.run_id}/{name}/{index}.json")


@dataclass(frozen=True)
class SharedPlan:
    """Shards of work that every process of the run may take from: queries to ask, or seeds to search on."""

    run: Run
    name: str
    property_name: str
    shards: list[dict[str, Any]]
    kind: Kind = "query"

    @classmethod
    def publish(cls, run: Run, property_name: str, shards: list[dict[str, Any]], kind: Kind = "query") -> SharedPlan:
        """Opens the shards to everybody."""
        plan = cls(run, f"{time.time_ns():020d}-{os.urandom(4).hex()}", property_name, shards, kind)
        run.store.write_json(plan._path("plan.json"), {"property": property_name, "shards": shards, "kind": kind})
        return plan

    @classmethod
    def find(cls, run: Run, name: str) -> SharedPlan | None:
        """The plan of a name, None where it is closed or was never open."""
        plan = cls(run, name, "", [])
        try:
            found = run.store.read_json(plan._path("plan.json"))
        except ArtifactMissing:
            return None
        return None if plan.is_closed() else cls(run, name, str(found["property"]), list(found["shards"]), found["kind"])

    @classmethod
    def open_one(cls, run: Run) -> SharedPlan | None:
        """The plan that is open now, if one is: there is one at a time."""
        names = run.store.folders(f"runs/{run.run_id}/plans")
        return cls.find(run, names[-1]) if names else None

    def close(self) -> None:
        """Says that there is nothing left to take."""
        self.run.store.write_json(self._path("closed.json"), {})

    def is_closed(self) -> bool:
        """Is there nothing left to take."""
        return self.run.store.exists(self._path("closed.json"))

    def has_untaken(self) -> bool:
        """Is there a shard that is nobody's yet."""
        return len(self.run.store.files(self._path("taken"))) < len(self.shards)

    def untaken(self, token: str) -> Iterator[int]:
        """Takes shard after shard that is nobody's yet; yields their places."""
        taken = {_place(path) for path in self.run.store.files(self._path("taken"))}
        for place in range(len(self.shards)):
            # Somebody else may have taken it since; creating decides.
            if place not in taken and self.run.store.create(self._path(f"taken/{place:06d}.json"), json_bytes({"by": token})):
                yield place

    def finish(self, place: int, result: dict[str, Any]) -> None:
        """Says what came of a shard."""
        self.run.store.write_json(self._path(f"done/{place:06d}.json"), result)

    def done(self, known: Collection[int] = ()) -> dict[int, dict[str, Any]]:
        """What came of the shards that are done, by place; those `known` already left out."""
        paths = [path for path in self.run.store.files(self._path("done")) if _place(path) not in known]
        return {_place(path): self.run.store.read_json(path) for path in paths}

    def lost(self, places: set[int]) -> set[int]:
        """Those of the places whose takers are gone."""
        holders = {place: _holder(self.run, self._path(f"taken/{place:06d}.json")) for place in places}
        gone = {holder for holder in set(holders.values()) if holder is None or not is_present(self.run, holder)}
        return {place for place, holder in holders.items() if holder in gone}

    def _path(self, name: str) -> str:
        return f"runs/{self.run.run_id}/plans/{self.name}/{name}"


def _place(path: str) -> int:
    return int(path.rpartition("/")[2].removesuffix(".json"))


def _holder(run: Run, path: str) -> str | None:
    """Who made a claim; None where it is damaged."""
    try:
        found = run.store.read_json(path)
    except ArtifactMissing:
        return None
    return found.get("by") if isinstance(found, dict) and isinstance(found.get("by"), str) else None

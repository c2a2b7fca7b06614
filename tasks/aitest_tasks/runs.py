"""The record of a run in the store: what was asked for, who holds it, how far it is.

    runs/<id>/run.json        written once, before the first query: everything a worker or a `resume` needs
    runs/<id>/prepared.json   seeds, profile, epoch: written once they are known
    runs/<id>/lease.json      who works on it; renewed while alive
    runs/<id>/progress.json   for `status`
    runs/<id>/report.json     at the end
    runs/<id>/logged.json     once the report is in MLflow, too

The id is that of the MLflow parent run. Secrets and private values are in none of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from aitest_lib import __version__
from aitest_lib.answers import folder
from aitest_lib.artifacts.store import Store
from aitest_lib.canonical import digest
from aitest_lib.config.card import LoadedCard, load_card_data
from aitest_lib.config.loading import Document, Location
from aitest_lib.config.suite import LoadedSuite, attacks_of, searches_of, suite_of, transforms_of
from aitest_lib.config.templates import modality
from aitest_lib.data.schema import Profile
from aitest_lib.data.sources import Source, open_source
from aitest_lib.data.table import TableSource
from aitest_lib.errors import ArtifactMissing, InputError, StoreError
from aitest_lib.properties.catalog import spec
from aitest_lib.reports.report import FailingCase, RunReport
from aitest_lib.searches.strengths import StrengthSearch
from aitest_lib.surrogates.growing import TreeSurrogate
from aitest_lib.surrogates.simulating import MAKING
from aitest_lib.surrogates.trepan import Trepan
from aitest_lib.transforms.base import Transform
from aitest_lib.types import ArtifactRef, ModelInfo
from aitest_tasks import live
from aitest_tasks.records import MODEL, RECORDS, misfit

DRY = "dry-"  # the record of a dry run, gone when it ends
# What to do where a file of the record is damaged.
ANEW = "remove it and go on with: aitest resume {}"
MENDS = {"run": "remove the run's folder and run the suite again: kept answers are used", "prepared": ANEW, "report": ANEW}


@dataclass(frozen=True)
class Run:
    """A run as its record says; opened anew by every worker."""

    store: Store
    run_id: str
    record: dict[str, Any]

    @property
    def uri(self) -> str:
        """What flows are given: the record's folder."""
        return self.store.url_of(f"runs/{self.run_id}")

    @cached_property
    def suite(self) -> LoadedSuite:
        """The validated suite."""
        return suite_of(Document(self.record["suite"]), Path(self.record["base_dir"]))

    @cached_property
    def card(self) -> LoadedCard:
        """The card; an object given in Python has none of its own."""
        return load_card_data(self.record["card"], self.record["card_dir"])

    @cached_property
    def info(self) -> ModelInfo:
        """The model."""
        data = {name: self.record["model"][name] for name in MODEL}
        data["classes"] = tuple(data["classes"]) if data["classes"] is not None else None
        return ModelInfo(**data)

    @property
    def modality(self) -> str:
        """What an input is: tabular, image, …"""
        return modality(self.info.type)

    @cached_property
    def test(self) -> Source:
        """The data of the seeds."""
        return open_source(self.record["test"], self.modality)

    @property
    def train(self) -> TableSource | None:
        """The table that distributions come from, if the suite names one."""
        return TableSource(self.record["train"]) if self.record["train"] else None

    @property
    def options(self) -> dict[str, Any]:
        """What the command line said beyond the suite."""
        return dict(self.record["options"])

    @property
    def budget(self) -> int | None:
        """Most unique queries this run may send."""
        given = self.options.get("budget")
        return int(given) if given is not None else self.suite.suite.budget.queries

    @property
    def pool(self) -> str | None:
        """The Prefect work pool whose workers share this run, if one does."""
        return self.options.get("pool")

    def property_name(self, index: int) -> str:
        """The property at a place of the suite."""
        return self.suite.suite.properties[index].property

    @property
    def properties(self) -> list[int]:
        """Places (in the suite) of the properties to run."""
        return list(self.options["properties"])

    def write(self, name: str, value: Any) -> None:
        """Writes one file of the record."""
        self.store.write_json(f"runs/{self.run_id}/{name}.json", value)

    def read(self, name: str) -> Any:
        """Reads one file of the record. A damaged one is a `StoreError` that says what to do, or, where the run can do
        without (lease, progress), `ArtifactMissing`."""
        path = f"runs/{self.run_id}/{name}.json"
        data = self.store.read(path)
        try:
            return checked(self.store, self.run_id, name, data)
        except StoreError:  # a proxy's page or half an answer may have come in its place: asked for once more
            return checked(self.store, self.run_id, name, self.store.read(path))

    def has(self, name: str) -> bool:
        """Is a file of the record there."""
        return self.store.exists(f"runs/{self.run_id}/{name}.json")

    @cached_property
    def prepared(self) -> dict[str, Any]:
        """Seeds, profile and epoch; only once the run has prepared them."""
        return dict(self.read("prepared"))

    @cached_property
    def profile(self) -> Profile:
        """The columns of the data."""
        return Profile.of(self.store.get_json(ArtifactRef.of(self.prepared["profile"])))

    @property
    def seeds(self) -> list[ArtifactRef]:
        """The shards of the seeds, in rank order."""
        return [ArtifactRef.of(item) for item in self.prepared["shards"]]

    @property
    def answers(self) -> str:
        """Where this run's answers stand."""
        return folder(self.info.digest, self.prepared["epoch"])


def open_run(run_uri: str) -> Run:
    """The run at a URI, as flows are given it."""
    return _open(run_uri)


@lru_cache(maxsize=64)
def _open(run_uri: str) -> Run:
    root, _, run_id = run_uri.rpartition("/runs/")
    store = Store(root, live.store_patience)
    return Run(store, run_id, Run(store, run_id, {}).read("run"))


def checked(store: Store, run_id: str, name: str, data: bytes) -> Any:
    """One file of a run's record, from its bytes. The record of a dry run, which only its process reads, is not complete."""
    try:
        value = json.loads(data)
        why = None if run_id.startswith(DRY) else misfit(value, RECORDS[name])
        if name == "report" and why is None:
            RunReport.model_validate(value)
    except RecursionError:
        why = "it is nested too deeply"
    except ValueError as error:  # pydantic's errors are ValueErrors, too
        why = "it is no JSON" if isinstance(error, json.JSONDecodeError | UnicodeDecodeError) else "it is no report"
    if why is None:
        return value
    uri = store.url_of(f"runs/{run_id}/{name}.json")
    if name not in MENDS:
        raise ArtifactMissing(uri, f"it is damaged ({why})")
    raise StoreError(f"the {name}.json of run {run_id[:8]} is damaged ({why}): {uri}; {MENDS[name].format(run_id[:12])}")


def create_run(store: Store, run_id: str, record: dict[str, Any]) -> Run:
    """Writes the record of a new run."""
    run = Run(store, run_id, record)
    run.write("run", record)
    return run


def all_runs(store: Store) -> list[Run]:
    """The runs of a store, the oldest first. A damaged record is a `StoreError`."""
    return _oldest_first([Run(store, one, checked(store, one, "run", data)) for one, data in _records(store)])


def readable_runs(store: Store) -> tuple[list[Run], dict[str, str]]:
    """The runs of a store, the oldest first, and by run id why the record of another cannot be read."""
    found, damaged = [], {}
    for one, data in _records(store):
        try:
            found.append(Run(store, one, checked(store, one, "run", data)))
        except StoreError as error:
            damaged[one] = str(error)
    return _oldest_first(found), damaged


def _records(store: Store) -> Iterator[tuple[str, bytes]]:
    ids = _run_ids(store)
    records = store.read_many(f"runs/{one}/run.json" for one in ids)
    yield from ((one, data) for one, (_, data) in zip(ids, records, strict=True) if data is not None)


def _oldest_first(runs: list[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: (run.record["started"], run.run_id))


def _run_ids(store: Store) -> list[str]:
    return [one for one in store.folders("runs") if not one.startswith(DRY)]


def find_run(store: Store, given: str) -> Run:
    """The run whose id is `given`, a unique prefix of it, or `last`."""
    if given == "last":
        found = all_runs(store)
        if not found:
            raise InputError(f"there is no run in {store.url} yet; start one with `aitest run SUITE`")
        return open_run(found[-1].uri)
    ids = _run_ids(store)
    matching = [one for one in ids if one.startswith(given)]
    if len(matching) != 1:
        what = "no run" if not matching else f"{len(matching)} runs"
        verb = "start" if matching else "starts"
        shown = f"; the latest: {', '.join(one[:8] for one in ids[-5:])}" if ids and not matching else ""
        raise InputError(
            f"got RUN {given!r}, but {what} in {store.url} {verb} with it{shown}; give a longer part of the id, or `last`"
        )
    return open_run(store.url_of(f"runs/{matching[0]}"))


def failing_cases(run: Run, report: RunReport) -> dict[str, list[FailingCase]]:
    """The failing cases to show, by the property's shown name."""
    found = {}
    for name, item in report.named.items():
        reference = item.artifacts.get("failures")
        if reference:
            path = reference.removeprefix(f"{run.store.url}/")
            try:
                ref = ArtifactRef(uri=path, digest=Path(path).parent.name + Path(path).stem, codec="json", rows=0)
            except ValueError as error:
                raise ArtifactMissing(repr(reference)[:100], "it is no path of an artifact") from error
            found[name] = [FailingCase.model_validate(case) for case in run.store.get_json(ref)]
    return found


def fingerprints(loaded: LoadedSuite) -> dict[str, str]:
    """What a resumed run must find unchanged: the code version and every component of every property."""
    result = {"aitest": __version__}
    for index, item in enumerate(loaded.suite.properties):
        if spec(item.property).shape == "perturbation":
            at: Location = ("properties", index)
            parts: list[Transform | StrengthSearch] = [*transforms_of(item, loaded.document, at)]
            parts += searches_of(item, loaded.document, at)
            result[f"{index}.{item.property}"] = digest([part.fingerprint() for part in parts])
        if spec(item.property).shape == "search":
            attacks = attacks_of(item, loaded.document, ("properties", index))
            result[f"{index}.{item.property}"] = digest([attack.fingerprint() for attack in attacks])
        if spec(item.property).shape == "surrogate":
            own = (TreeSurrogate(), MAKING, Trepan())
            result[f"{index}.{item.property}"] = digest([part.fingerprint() for part in own])
    return result

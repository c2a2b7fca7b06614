"""Synthesized seeds: rows made of the real ones, in place of them, with what is known of how real they look."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from prefect import task

from aitest_lib.answers import book_digest
from aitest_lib.artifacts.codecs import get_table, put_table
from aitest_lib.config.synthesize import SynthesizeConfig
from aitest_lib.data.coverage import Coverage, CoverageRows
from aitest_lib.data.drift import Drift
from aitest_lib.data.synthesis import CHUNK, Marginal, Rows, Swap
from aitest_lib.data.synthesis_checks import check_synthesize
from aitest_lib.data.table import row_digests, to_frame, to_table
from aitest_lib.data.ties import find_ties
from aitest_lib.data.units import build_pool
from aitest_lib.metrics.realism import column_shifts, rule_violations, tied_violations, two_sample_auc
from aitest_lib.reports.report import ColumnShift, SynthesisReport
from aitest_lib.surrogates.growing import TreeSurrogate
from aitest_lib.surrogates.simulating import Answered, Task, small_tree
from aitest_lib.surrogates.tree import Tree
from aitest_lib.types import ArtifactRef
from aitest_tasks import live
from aitest_tasks.baseline import answer_values
from aitest_tasks.caching import CACHED, job_key
from aitest_tasks.growing_rows import class_names, model_classes, public_columns, tree_columns
from aitest_tasks.inputs import input_digests
from aitest_tasks.querying import answer_book
from aitest_tasks.runs import Run, open_run
from aitest_tasks.sampling import SHARD_ROWS
from aitest_tasks.seed_tables import DIGEST, LABEL, RANK, SEED_ID

SAMPLE = 10_000  # synthesized rows that the report looks at
COMPONENTS = {"swap": Swap, "marginal": Marginal, "coverage": Coverage}


def synthesis_of(run: Run) -> SynthesizeConfig | None:
    """What the suite asks for; None where the seeds are the real rows."""
    return run.suite.suite.data.synthesize


def needs_answers(config: SynthesizeConfig) -> bool:
    """Does the method need the model's answers to the real rows: its surrogate is grown on them."""
    return config.method != "marginal"


def synthesis_job(run: Run, config: SynthesizeConfig, answered: bool = True) -> dict[str, Any]:
    """Everything that synthesized seeds depend on. `answered`: has the model been asked the real rows."""
    check_synthesize(config, run.profile)
    answers = []
    if answered and needs_answers(config):
        book, refs = answer_book(run), [ArtifactRef.of(ref) for ref in run.prepared["shards"]]
        answers = [book_digest(book, book.find(input_digests(run, get_table(run.store, ref)))) for ref in refs]
    return {
        "config": config.model_dump(mode="json"),
        "component": COMPONENTS[config.method]().fingerprint(),
        "surrogate": TreeSurrogate().fingerprint(),
        "shards": run.prepared["shards"],
        "positions": run.prepared["positions"],
        "answers": answers,
        "profile": run.prepared["profile"],
        "columns": tree_columns(run),
        "sent": public_columns(run),
        "random_seed": run.suite.suite.random_seed,
    }


@task(name="synthesize_seeds", cache_key_fn=job_key, **CACHED)
def synthesize_seeds(job: dict[str, Any], run_uri: str) -> dict[str, Any]:
    """Makes the seeds and stores them like real ones; returns their shards, positions (of the real rows that they descend from)
    and a report on them."""
    live.check_stopped()
    return write_synthesized(open_run(run_uri), job)


def write_synthesized(run: Run, job: dict[str, Any], answered: bool = True) -> dict[str, Any]:
    """The work of `synthesize_seeds`, without Prefect. Where nothing is `answered` yet, cells are swapped between all rows."""
    config = SynthesizeConfig.model_validate(job["config"])
    asked = answered and needs_answers(config)
    real = _real(run, job, asked)
    found = [list(tie.columns) for tie in find_ties(real.frame, run.profile)]
    tied, rules = [*found, *config.tied], list(config.rules)
    frame, origin = real.frame, np.arange(len(real.frame))
    if config.drifts:
        drift = Drift(ranges=config.ranges, distributions=config.distributions)
        drifted = drift.apply(frame, run.profile, tied, rules, job["random_seed"])
        frame, origin = drifted.frame, drifted.origin
    tree = _tree(run, real, job) if asked else None
    pool = build_pool(frame, run.profile, tied, rules, job["random_seed"])
    if config.method == "marginal":
        rows: Rows = Marginal().over(pool)
    elif config.method == "coverage" and tree is not None:
        rows = Coverage().over(pool, {int(leaf): tree.path(int(leaf)) for leaf in tree.leaves})
    else:
        rows = Swap(rate=config.rate).over(pool, np.zeros(len(frame), np.int64) if tree is None else tree.route(frame))
    checks = _Checks(real.frame, [*run.profile.rules, *rules], tied, tree)
    writer = _SeedWriter(run, job, real.table, config.labelled)
    for number, chunk in enumerate(rows.chunks(config.rows), start=1):
        live.check_stopped()
        base = origin[chunk.base]
        writer.add(chunk.frame, base)
        checks.add(chunk.frame, base)
        live.progress("seeds", "synthesize", number, -(-config.rows // CHUNK))
    return {
        "shards": [ref.to_dict() for ref in writer.shards],
        "positions": put_table(run.store, pa.table({"row": np.concatenate(writer.positions)})).to_dict(),
        "report": run.store.put_json(_report(run, config, real, checks, tree, rows, found)).to_dict(),
    }


@dataclass(frozen=True)
class _Real:
    """The real seeds: their table, their features as a frame, the model's answers (n,), NaN where there is none."""

    table: pa.Table
    frame: pd.DataFrame
    answers: NDArray[np.float64]


def _real(run: Run, job: dict[str, Any], answered: bool) -> _Real:
    tables = [get_table(run.store, ArtifactRef.of(ref)) for ref in job["shards"]]
    table = pa.concat_tables(tables)
    nullable = [column.name for column in run.profile.columns if column.missing]
    features = [name for name in table.column_names if not name.startswith("@")]
    answers = np.full(table.num_rows, np.nan)
    if answered:
        book, classes = answer_book(run), model_classes(run)
        answers = answer_values(book, book.find(input_digests(run, table)), classes)
        answers[(answers < 0) & (classes is not None)] = np.nan  # -1: no class
    return _Real(table, to_frame(table.select(features), nullable), answers)


def _tree(run: Run, real: _Real, job: dict[str, Any]) -> Tree:
    """A small surrogate grown on the answers to the real rows."""
    known = ~np.isnan(real.answers)
    task = Task(run.profile, job["columns"], class_names(run), job["random_seed"])
    return small_tree(task, Answered(real.frame[known].reset_index(drop=True), real.answers[known]))


class _Checks:
    """What synthesized rows break, and which paths of the surrogate they take; a sample of them, with the places of the real
    rows that they descend from."""

    def __init__(self, real: pd.DataFrame, rules: list[str], tied: list[list[str]], tree: Tree | None) -> None:
        self._real, self._rules, self._tied, self._tree = real, rules, tied, tree
        self.broken_rules = self.broken_ties = 0
        self.reached: set[int] = set()
        self.sample: list[pd.DataFrame] = []
        self.bases: list[NDArray[np.int64]] = []

    def add(self, frame: pd.DataFrame, base: NDArray[np.int64]) -> None:
        """Looks at some rows."""
        self.broken_rules += rule_violations(frame, self._rules)
        self.broken_ties += tied_violations(frame, self._real, self._tied)
        if self._tree is not None:
            self.reached |= set(np.unique(self._tree.route(frame)).tolist())
        left = SAMPLE - sum(map(len, self.sample))
        if left > 0:
            self.sample.append(frame.head(left))
            self.bases.append(base[:left])


class _SeedWriter:
    """Writes synthesized rows as shards of seeds, in the order in which they are made, which is their rank.

    Their ids are digests of their content, as those of real seeds; the private columns are those of the real row at their
    position.
    """

    def __init__(self, run: Run, job: dict[str, Any], real: pa.Table, labelled: bool) -> None:
        self._store, self._sent = run.store, job["sent"]
        self._position = get_table(run.store, ArtifactRef.of(job["positions"])).column("row").to_numpy()
        self._labels = real.column(LABEL) if labelled and LABEL in real.column_names else None
        self._schema = real.select([name for name in real.column_names if not name.startswith("@")]).schema.remove_metadata()
        self._seen: Counter[bytes] = Counter()
        self._rows = 0
        self.shards: list[ArtifactRef] = []
        self.positions: list[NDArray[np.int64]] = []

    def add(self, frame: pd.DataFrame, base: NDArray[np.int64]) -> None:
        """Writes some rows; `base`: the real row that each descends from."""
        table = to_table(frame, self._schema)
        label = None if self._labels is None else self._labels.take(pa.array(base))
        ids = self._ids(table if label is None else table.append_column(LABEL, label))
        for start in range(0, table.num_rows, SHARD_ROWS):
            part = table.slice(start, SHARD_ROWS)
            own = {
                SEED_ID: pa.array(ids[start : start + SHARD_ROWS]),
                RANK: pa.array(np.arange(self._rows, self._rows + part.num_rows, dtype=np.int32)),
                DIGEST: pa.array([item.tobytes() for item in row_digests(part.select(self._sent))], pa.binary(16)),
            }
            if label is not None:
                own[LABEL] = label.slice(start, SHARD_ROWS)
            columns = {name: part.column(name) for name in part.column_names}
            self.shards.append(put_table(self._store, pa.table({**own, **columns})))
            self._rows += part.num_rows
        self.positions.append(self._position[base])

    def _ids(self, table: pa.Table) -> list[str]:
        """Digests as ids; equal rows get a running number."""
        ids = []
        for digest in row_digests(table):
            key = digest.tobytes()
            self._seen[key] += 1
            ids.append(key.hex() if self._seen[key] == 1 else f"{key.hex()}-{self._seen[key]}")
        return ids


def _report(
    run: Run,
    config: SynthesizeConfig,
    real: _Real,
    checks: _Checks,
    tree: Tree | None,
    rows: Rows,
    found: list[list[str]],
) -> dict[str, Any]:
    """How real the rows look, on a sample of them; what they break, and which paths they take, on all."""
    sample, base = pd.concat(checks.sample, ignore_index=True), np.concatenate(checks.bases)
    asked = {*config.ranges, *config.distributions}
    left = [name for name in real.frame.columns if name not in asked]  # that those differ was asked for
    told = two_sample_auc(real.frame[left], sample[left], base, run.profile, run.suite.suite.random_seed)
    bounds = told.bounds(run.suite.suite.confidence)
    shifts = column_shifts(real.frame, sample, run.profile)
    report = SynthesisReport(
        rows=config.rows,
        method=config.method,
        from_rows=len(real.frame),
        auc=told.value,
        auc_low=bounds[0] if bounds else None,
        auc_high=bounds[1] if bounds else None,
        rules=[*run.profile.rules, *config.rules],
        rule_violations=checks.broken_rules,
        tied=[*(list(group.columns) for group in run.profile.tied), *config.tied],
        found_tied=found,
        tied_violations=checks.broken_ties,
        paths=None if tree is None else len(tree.leaves),
        feasible=sum(leaf.infeasible is None for leaf in rows.leaves) if isinstance(rows, CoverageRows) else None,
        reached=None if tree is None else len(checks.reached),
        shifts=[ColumnShift(column=name, distance=round(far, 6), asked=name in asked) for name, far in shifts.items()],
        labels=config.labelled,
    )
    return report.model_dump(mode="json")

"""Rows made for a surrogate tree to be grown on, round by round, from rows that the model has answered."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from prefect import task

from aitest_lib.answers import book_digest
from aitest_lib.artifacts.codecs import get_table, put_table
from aitest_lib.config.suite import PropertyConfig
from aitest_lib.data.table import row_digests, to_table
from aitest_lib.data.ties import find_ties
from aitest_lib.errors import InputError
from aitest_lib.surrogates.growing import TreeSurrogate
from aitest_lib.surrogates.pruning import Limits
from aitest_lib.surrogates.simulating import DEEPEST, MAKING, Answered, Task, made_rows
from aitest_lib.surrogates.trepan import Trepan, TrepanState
from aitest_lib.types import ArtifactRef
from aitest_tasks import live
from aitest_tasks.caching import CACHED, job_key
from aitest_tasks.growing_rows import (
    Growing,
    class_names,
    from_training,
    held_out,
    model_classes,
    public_columns,
    read_growing,
    tree_columns,
)
from aitest_tasks.preparing import check_predictions_backend
from aitest_tasks.querying import answer_book, needed
from aitest_tasks.runs import Run, open_run
from aitest_tasks.seed_tables import DIGEST, ORIGIN, RANK

ENOUGH_ROWS = 10_000  # rows to grow on from which on none are made, and how many are made otherwise
DEEPER = 25  # grown to say what it would take, where no tree satisfies every gate
ENOUGH_REAL = 200  # real rows that prune, from which on they alone say whether a tree is faithful enough
LIKELY = 0.95  # with which a tree that is found faithful enough shall be so on the held-out rows
STRUCTURE = ("apl", "epl", "mpl", "leaves")


def generation_round(run: Run, index: int, rows: list[dict[str, Any]], made: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Everything that the next rows to ask depend on; None where no more are wanted. `rows`: shards of the rows to grow on,
    `made`: those of earlier rounds."""
    config = run.suite.suite.properties[index]
    method = method_of(run, config, sum(ref["rows"] for ref in rows))
    if method == "none" or (method == "swap" and made):
        return None
    return {
        "method": method,
        "component": (MAKING if method == "swap" else Trepan()).fingerprint(),
        "surrogate": TreeSurrogate().fingerprint(),
        "rows": config.generated if config.generated is not None else ENOUGH_ROWS if method == "swap" else None,
        "depth": limits_of(config).mpl or DEEPEST,
        "round": len(made),
        **_kept(run),
        **grown_on(run, [*rows, *made], rows),
    }


@task(name="generate_growing", cache_key_fn=job_key, **CACHED)
def generate_growing(job: dict[str, Any], run_uri: str) -> dict[str, Any]:
    """Makes rows that nobody has answered yet, from those that are; returns their shard, which is empty where there is no
    more to ask."""
    live.check_stopped()
    run = open_run(run_uri)
    real, rounds = read_rows(run, job)
    answered = real.of(~np.isnan(real.answers))
    frame, base = answered.frame.iloc[:0], np.empty(0, np.int64)
    # Without an answered row, a valid one, or a column that may change there is nothing to make.
    with suppress(InputError):
        if job["method"] == "swap":
            rows = Answered(answered.frame, answered.answers)
            made = made_rows(task_of(run, job), rows, job["rows"], job["tied"], job["rules"])
            frame, base = made.frame, made.base
        else:
            frame, base = searcher(job).ask(trepan(run, answered, rounds, job))
    return {"made": _written(run, job, answered, frame, base).to_dict()}


def too_few(run: Run, rows: list[dict[str, Any]], unpaid: int) -> str | None:
    """Why there is no tree: no answered row to grow it on, or none to prune it on; None where there are both."""
    refs = [ArtifactRef.of(ref) for ref in rows]
    real = read_growing(run, refs, answer_book(run), model_classes(run), sum(ref.rows for ref in refs))
    known = ~np.isnan(real.answers)
    if (known & real.prunes).any() and (known & ~real.prunes).any():
        return None
    why = "the budget left the others out" if unpaid else "give it more rows, or look at the model's errors"
    return f"a tree needs answered rows to grow on and others to prune it, and {int(known.sum())} are there; {why}"


def limits_of(config: PropertyConfig) -> Limits:
    """The strictest limits that the gates set on the whole tree."""
    bounds: dict[str, Any] = {}
    for metric, given in config.gates.items():
        for gate in given if isinstance(given, list) else [given]:
            if metric in STRUCTURE and gate.max is not None:
                bounds[metric] = min(bounds.get(metric, gate.max), gate.max)
    for name in ("mpl", "leaves"):
        if name in bounds:
            bounds[name] = int(bounds[name])
    return Limits(**bounds)


def wanted_fidelity(config: PropertyConfig) -> float | None:
    """The strictest fidelity that the gates ask of the whole tree."""
    given = config.gates.get("fidelity", [])
    wanted = [gate.min for gate in (given if isinstance(given, list) else [given]) if gate.min is not None and not gate.slice]
    return max(wanted, default=None)


def enough_fidelity(config: PropertyConfig) -> float | None:
    """The fidelity with which the search may be content; None where other gates ask for the most faithful tree."""
    gates = [(name, one) for name, given in config.gates.items() for one in (given if isinstance(given, list) else [given])]
    others = [name for name, gate in gates if name not in STRUCTURE and (name != "fidelity" or gate.slice)]
    return None if others else wanted_fidelity(config)


def most_generated(run: Run, index: int, rows: int) -> int:
    """The most rows that are made and asked beside `rows` of the data (for a dry run)."""
    config = run.suite.suite.properties[index]
    method = method_of(run, config, rows)
    if method == "none":
        return 0
    search = Trepan()
    bound = ENOUGH_ROWS if method == "swap" else 2 * search.max_leaves * search.smallest_sample
    return bound if config.generated is None else config.generated


def method_of(run: Run, config: PropertyConfig, rows: int) -> str:
    """How further rows are made: as the suite says, else by swapping where there are few."""
    if check_predictions_backend(run, config.property, True) is not None:
        return "none"
    grown = rows if from_training(run) else rows - held_out(run)
    return config.generation or ("swap" if grown < ENOUGH_ROWS else "none")


def grown_on(run: Run, refs: list[dict[str, Any]], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the answered rows are, and what they mean."""
    suite = run.suite.suite
    return {
        "shards": refs,
        "real": len(rows),
        "answers": [answers_of(run, ref) for ref in refs],
        "training": from_training(run),
        "profile": run.prepared["profile"],
        "columns": tree_columns(run),
        "sent": public_columns(run),
        "labels": run.prepared["labels"],
        "classes": list(run.info.classes) if run.info.classes is not None else None,
        "type": run.info.type,
        "random_seed": suite.random_seed,
    }


def answers_of(run: Run, ref: dict[str, Any]) -> str:
    book = answer_book(run)
    return book_digest(book, book.find(needed(run, ArtifactRef.of(ref))[0]))


def read_rows(run: Run, job: dict[str, Any]) -> tuple[Growing, list[Growing]]:
    """The real rows, and those of each round."""
    refs = [ArtifactRef.of(ref) for ref in job["shards"]]
    book, classes = answer_book(run), model_classes(run)
    rows = sum(ref.rows for ref in refs[: job["real"]])
    real = read_growing(run, refs[: job["real"]], book, classes, rows)
    return real, [read_growing(run, [ref], book, classes, rows) for ref in refs[job["real"] :]]


def _kept(run: Run) -> dict[str, Any]:
    """What the suite asks of all rows that are made."""
    made = run.suite.suite.data.synthesize
    return {"tied": made.tied if made else [], "rules": made.rules if made else []}


def task_of(run: Run, job: dict[str, Any], tolerance: float = 0.0) -> Task:
    """What all trees of this model have in common."""
    return Task(run.profile, job["columns"], class_names(run), job["random_seed"], tolerance)


def searcher(job: dict[str, Any]) -> Trepan:
    return Trepan(max_depth=job["depth"])


def trepan(run: Run, real: Growing, rounds: list[Growing], job: dict[str, Any]) -> TrepanState:
    """How far TREPAN is after the answers so far: a function of these."""
    search = searcher(job)
    state = search.start(
        real.frame,
        real.answers,
        run.profile,
        job["columns"],
        classes=class_names(run),
        ties=[*(tie.columns for tie in find_ties(real.frame, run.profile)), *_kept(run)["tied"]],
        random_seed=job["random_seed"],
        budget=job["rows"],
    )
    for round in rounds:
        state = search.tell(state, round.answers)
    return state


def _written(run: Run, job: dict[str, Any], real: Growing, frame: pd.DataFrame, base: NDArray[np.int64]) -> ArtifactRef:
    """Made rows as a shard: each with the rank, and so the private columns, of the real row that it descends from."""
    sample = get_table(run.store, ArtifactRef.of(job["shards"][0]))
    table = to_table(frame[job["sent"]], sample.select(job["sent"]).schema.remove_metadata())
    own = {
        RANK: pa.array(real.ranks[base].astype(np.int32)),
        DIGEST: pa.array([item.tobytes() for item in row_digests(table)], pa.binary(16)),
    }
    metadata = {key: value for key, value in (sample.schema.metadata or {}).items() if key == ORIGIN}
    columns = {name: table.column(name) for name in table.column_names}
    return put_table(run.store, pa.table({**own, **columns}).replace_schema_metadata(metadata or None))

"""The rows that a surrogate tree is grown and pruned on, and those that it is judged on.

With training data in the suite: grown and pruned on these, judged on all seeds. Without: the seeds are split, the first
in rank order judge, so that a budget leaves them for last.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from prefect import task

from aitest_lib.answers import AnswerBook
from aitest_lib.artifacts.codecs import get_table, put_table
from aitest_lib.config.suite import LoadedSuite
from aitest_lib.data.sampling import StratifiedSampler
from aitest_lib.data.sources import Source
from aitest_lib.data.table import row_digests, to_frame
from aitest_lib.errors import InputError, unknown
from aitest_lib.properties.catalog import spec
from aitest_lib.scorers.oracle import Classes, classes_of
from aitest_lib.types import ArtifactRef
from aitest_tasks.baseline import answer_values
from aitest_tasks.caching import CACHED, job_key
from aitest_tasks.inputs import Origin, input_digests, private_columns
from aitest_tasks.preparing import check_predictions_backend
from aitest_tasks.querying import answer_book
from aitest_tasks.runs import Run, open_run
from aitest_tasks.sampling import SHARD_ROWS
from aitest_tasks.seed_tables import DIGEST, RANK

MOST_ROWS = 40_000  # training rows that are asked where the suite names no number
HELD_OUT = 0.2  # share of the seeds that judge, where there are no training data
PRUNING = 0.25  # share of the other rows that the tree is pruned on


@dataclass(frozen=True)
class Growing:
    """Rows with the model's answers, in order: the public columns that it is sent; `answers` (n,) as class codes or numbers;
    `prunes` (n,): does a row prune rather than grow; `digests` (n,) of the inputs; `ranks` (n,) in the order of their file."""

    frame: pd.DataFrame
    answers: NDArray[np.float64]
    prunes: NDArray[np.bool_]
    digests: NDArray[np.void]
    ranks: NDArray[np.int64]

    def of(self, rows: NDArray[np.bool_]) -> Growing:
        """The rows of a mask (n,)."""
        frame = self.frame[rows].reset_index(drop=True)
        return Growing(frame, self.answers[rows], self.prunes[rows], self.digests[rows], self.ranks[rows])


def from_training(run: Run) -> bool:
    """Is the tree grown on the training data of the suite."""
    name = "tabular.tree_simulatability"
    return run.train is not None and check_predictions_backend(run, name, True) is None


def held_out(run: Run) -> int:
    """Number of seeds, the first in rank order, that judge the tree."""
    seeds = int(run.prepared["seeds"])
    return seeds if from_training(run) else min(math.ceil(HELD_OUT * seeds), seeds)


def check_growing(loaded: LoadedSuite, columns: list[str], test: Source, train: Source | None) -> None:
    """Raises `InputError` where a surrogate is to be grown on training data that lack a column of the model's, or have it in a
    type that is not that of the test data."""
    grown = any(spec(item.property).shape == "surrogate" for item in loaded.suite.properties)
    for name in columns if grown and train is not None else []:
        if train is not None and name not in train.schema.names:
            problem = f"{unknown('column', name, train.schema.names)} (of {train.url}), and the model is sent it"
            raise loaded.document.error(("data", "train"), problem)
        if train is not None and not _fits(train.schema.field(name).type, test.schema.field(name).type):
            have, want = train.schema.field(name).type, test.schema.field(name).type
            problem = f"column {name!r} is {have} in {train.url}, expected {want} as in the test data; make them alike"
            raise loaded.document.error(("data", "train"), problem)


def _fits(have: pa.DataType, want: pa.DataType) -> bool:
    """Can training values be sent as those of the test data are: whole numbers as such with fractions, and nothing else."""
    return bool(have == want or (pa.types.is_integer(have) and pa.types.is_floating(want)))


def growing_job(run: Run, index: int) -> dict[str, Any]:
    """Everything that the choice of training rows depends on."""
    rows = run.suite.suite.properties[index].rows or MOST_ROWS
    return {
        "sampler": StratifiedSampler(rows=rows).fingerprint(),
        "rows": rows,
        "train": run.record["train_digest"],
        "columns": run.record["columns"],
        "private": private_columns(run),
        "types": [str(run.test.schema.field(name).type) for name in run.record["columns"]],
        "random_seed": run.suite.suite.random_seed,
        "shard_rows": SHARD_ROWS,
    }


@task(name="sample_growing", cache_key_fn=job_key, **CACHED)
def sample_growing(job: dict[str, Any], run_uri: str) -> dict[str, Any]:
    """Chooses the training rows and stores them in rank order, private columns left out; returns the shards and the rows'
    positions in their file."""
    return write_growing(open_run(run_uri), job)


def write_growing(run: Run, job: dict[str, Any]) -> dict[str, Any]:
    """The work of `sample_growing`, without Prefect."""
    schema, columns, train = run.test.schema, list(job["columns"]), run.train
    if train is None:
        raise InputError("data.train: got no training data, expected a table to grow the surrogate on; name one")
    public = [name for name in columns if name not in job["private"]]
    sampler = StratifiedSampler(rows=job["rows"])
    chosen = sampler.choose(train, public, list(job["private"]), None, job["random_seed"])
    positions = put_table(run.store, pa.table({"row": chosen.positions}))
    table = _cast(train.take(chosen.positions, public), schema.empty_table().select(public).schema, train.url)
    metadata = Origin("train", json.dumps(positions.to_dict())).metadata()
    shards = []
    for start in range(0, table.num_rows, SHARD_ROWS):
        part = table.slice(start, SHARD_ROWS)
        own = {
            RANK: pa.array(np.arange(start, start + part.num_rows, dtype=np.int32)),
            DIGEST: pa.array([item.tobytes() for item in row_digests(part)], pa.binary(16)),
        }
        columns_of = {name: part.column(name) for name in part.column_names}
        shards.append(put_table(run.store, pa.table({**own, **columns_of}).replace_schema_metadata(metadata)))
    return {"shards": [shard.to_dict() for shard in shards], "positions": positions.to_dict()}


def read_growing(run: Run, refs: list[ArtifactRef], book: AnswerBook, classes: Classes | None, rows: int) -> Growing:
    """The rows of shards, NaN as answer where there is none. `classes`: None for a regressor; `rows`: in the
    file that they descend from. Of seeds that were split, those that judge are left out."""
    nullable = [column.name for column in run.profile.columns if column.missing]
    columns, first = public_columns(run), 0 if from_training(run) else held_out(run)
    frames, answers, prunes, digests, all_ranks = [], [], [], [], []
    for ref in refs:
        table = get_table(run.store, ref)
        ids = input_digests(run, table)
        ranks = table.column(RANK).to_numpy().astype(np.int64)
        values = answer_values(book, book.find(ids), classes)
        kept = ranks >= first
        frames.append(to_frame(table.select(columns).filter(pa.array(kept)), nullable))
        answers.append(np.where(values[kept] < 0, np.nan, values[kept]) if classes else values[kept])
        prunes.append(ranks[kept] < first + PRUNING * (rows - first))
        digests.append(ids[kept])
        all_ranks.append(ranks[kept])
    return Growing(
        pd.concat(frames, ignore_index=True),
        np.concatenate(answers),
        np.concatenate(prunes),
        np.concatenate(digests),
        np.concatenate(all_ranks),
    )


def model_classes(run: Run) -> Classes | None:
    """The classes that the model answers, None for a regressor."""
    if not run.info.type.endswith("-classifier"):
        return None
    return classes_of(run.info.classes, run.prepared["labels"], list(answer_book(run).values))


def class_names(run: Run) -> list[str]:
    """Those classes as text, none for a regressor."""
    classes = model_classes(run)
    return [] if classes is None else classes.names


def public_columns(run: Run) -> list[str]:
    """The columns that are sent to the model, but the private ones."""
    private = private_columns(run)
    return [name for name in run.record["columns"] if name not in private]


def tree_columns(run: Run) -> list[str]:
    """The columns that a surrogate may ask about: sent to the model, and neither private nor ignored nor free text."""
    usable = [column.name for column in run.profile.columns if not (column.private or column.ignored or column.kind == "text")]
    return [name for name in run.record["columns"] if name in usable]


def _cast(table: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    """Training rows in the types of the test data, so that both are sent alike."""
    columns = []
    for field in schema:
        try:
            columns.append(table.column(field.name).cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(
                f"data.train {where}: column {field.name!r} has type {table.schema.field(field.name).type}, "
                f"expected {field.type} as in the test data; make them alike"
            ) from error
    return pa.table(columns, schema=schema)

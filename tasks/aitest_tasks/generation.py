"""Cases: one transform applied to one shard of seeds, stored as one artifact."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from prefect import task

from aitest_lib.artifacts.codecs import get_table, put_table
from aitest_lib.artifacts.store import Store
from aitest_lib.canonical import canonical_json, digest_bytes
from aitest_lib.data.schema import Profile, invalid_reasons
from aitest_lib.data.table import row_digests, to_frame, to_table
from aitest_lib.registry import component_class
from aitest_lib.rng import rng_for
from aitest_lib.transforms.base import TableBatch, TabularTransform
from aitest_lib.types import ArtifactRef
from aitest_tasks import live
from aitest_tasks.caching import CACHED, job_key
from aitest_tasks.runs import Run, open_run
from aitest_tasks.sampling import DIGEST, RANK, SEED_ID, changeable

CASE_ID, STATUS, DETAIL, PARAMS, DISTANCE = "@case_id", "@status", "@detail", "@params", "@distance"


# Rows are drawn in Python, one thread at a time in any case; threads that fight for the interpreter only cost more.
_one_at_a_time = threading.Lock()


def generation_job(run: Run, component: TabularTransform, shard: ArtifactRef) -> dict[str, Any]:
    """Everything that the cases of one shard depend on: not the model, so that a new revision generates nothing anew."""
    return {
        "fingerprint": component.fingerprint(),
        "component": component.name,
        "parameters": component.parameters(),
        "shard": shard.to_dict(),
        "profile": run.prepared["profile"],
        "columns": run.record["columns"],
        "protected": sorted(run.suite.suite.data.protected),
        "random_seed": run.suite.suite.random_seed,
    }


@task(name="generate_cases", task_run_name="generate_{job[component]}", cache_key_fn=job_key, **CACHED)
def generate_cases(job: dict[str, Any], run_uri: str) -> dict[str, Any]:
    """Draws and applies a transform to a shard of seeds; returns the reference of its cases."""
    live.check_stopped()
    with _one_at_a_time:
        return write_cases(open_run(run_uri).store, job).to_dict()


def write_cases(store: Store, job: dict[str, Any]) -> ArtifactRef:
    """The work of `generate_cases`, without Prefect. Columns: case id, seed id, rank, status (None: to be asked, else
    why not), detail, parameters, distance, digest of the input, and the input's public columns."""
    cls = component_class(job["component"])
    component = cls(**job["parameters"])
    if not isinstance(component, TabularTransform):
        raise TypeError(f"{job['component']} is no tabular transform")
    profile = Profile.of(store.get_json(ArtifactRef.of(job["profile"])))
    seeds = get_table(store, ArtifactRef.of(job["shard"]))
    nullable = [column.name for column in profile.columns if column.missing]
    features = [name for name in seeds.column_names if not name.startswith("@")]
    sent = [name for name in job["columns"] if name in features]
    frame = to_frame(seeds.select(features), nullable)
    batch = TableBatch(frame, profile, tuple(changeable(profile, sent)), tuple(job["protected"]))
    seed_ids = seeds.column(SEED_ID).to_pylist()
    drawn = component.draw(seed_ids, batch, partial(rng_for, job["random_seed"], component.key))
    changed = component.apply(frame, drawn.params)
    table = to_table(changed[sent], seeds.select(sent).schema)
    digests = row_digests(table)
    status, detail = _statuses(
        list(drawn.not_applicable),
        digests == np.frombuffer(b"".join(seeds.column(DIGEST).to_pylist()), dtype="V16"),
        invalid_reasons(changed, profile),
    )
    texts = [canonical_json(params) for params in drawn.params]
    extra = {
        CASE_ID: pa.array(
            [case_digest(seed, component.name, component.version, text) for seed, text in zip(seed_ids, texts, strict=True)]
        ),
        SEED_ID: seeds.column(SEED_ID),
        RANK: seeds.column(RANK),
        STATUS: pa.array(status, pa.string()),
        DETAIL: pa.array(detail, pa.string()),
        PARAMS: pa.array(texts),
        DISTANCE: pa.array(drawn.distance),
        DIGEST: pa.array([item.tobytes() for item in digests], pa.binary(16)),
    }
    return put_table(store, pa.table({**extra, **{name: table.column(name) for name in table.column_names}}))


def case_id(seed_id: str, name: str, version: int, params: dict[str, Any]) -> str:
    """The id of a case: the same in every run, whatever the model, the batches and the workers."""
    return case_digest(seed_id, name, version, canonical_json(params))


def case_digest(seed_id: str, name: str, version: int, params: str) -> str:
    """The same from parameters that are canonical JSON text already."""
    return digest_bytes(
        f"[{canonical_json(seed_id)},{canonical_json(name)},{version},{params}]".encode("utf-8", "surrogatepass")
    )


def _statuses(
    not_applicable: list[str | None],
    unchanged: np.ndarray[Any, np.dtype[np.bool_]],
    invalid: np.ndarray[Any, np.dtype[np.object_]],
) -> tuple[list[str | None], list[str | None]]:
    status: list[str | None] = []
    detail: list[str | None] = []
    for no_case, same, broken in zip(not_applicable, unchanged, invalid, strict=True):
        if no_case is not None:
            status.append("not_applicable")
            detail.append(no_case)
        elif same:
            status.append("no_op")
            detail.append("the transform left the row as it was")
        elif broken is not None:
            status.append("invalid")
            detail.append(broken)
        else:
            status.append(None)
            detail.append(None)
    return status, detail

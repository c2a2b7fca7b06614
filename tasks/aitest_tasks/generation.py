"""Cases: one transform applied to one shard of seeds, stored as one artifact."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pyarrow as pa
from prefect import task

from aitest_lib.artifacts.codecs import get_table, put_table
from aitest_lib.artifacts.store import Store
from aitest_lib.data.schema import Profile, invalid_reasons
from aitest_lib.data.table import row_digests, to_frame, to_table
from aitest_lib.properties.catalog import spec
from aitest_lib.rng import rng_for
from aitest_lib.transforms.audio.voice import VoiceOver
from aitest_lib.transforms.base import TableBatch, TabularTransform, Transform
from aitest_lib.types import ArtifactRef
from aitest_tasks import live
from aitest_tasks.audio_cases import write_audio_cases
from aitest_tasks.caching import CACHED, job_key
from aitest_tasks.case_tables import INVALID, case_table, pieces
from aitest_tasks.components import components
from aitest_tasks.counterparts import rows_looked_at, shard_rows
from aitest_tasks.image_cases import write_image_cases
from aitest_tasks.noises import noise_of
from aitest_tasks.runs import Run, open_run
from aitest_tasks.sampling import changeable
from aitest_tasks.seed_tables import SEED_ID
from aitest_tasks.voices import voice_of

# Rows are drawn in Python, one thread at a time in any case; threads that fight for the interpreter only cost more.
_one_at_a_time = threading.Lock()


def case_jobs(run: Run, index: int) -> list[dict[str, Any]]:
    """The generations of a property, component by component and shard by shard."""
    made = components(run, index)
    if not spec(run.suite.suite.properties[index].property).own_answers:
        return [generation_job(run, item, shard) for item in made for shard in run.seeds]
    parts = zip(run.seeds, shard_rows(run, rows_looked_at(run, index)), strict=True)
    some = [(shard, rows.tolist()) for shard, rows in parts if len(rows)]
    return [generation_job(run, item, shard, rows) for item in made for shard, rows in some]


def generation_job(
    run: Run, component: Transform, shard: ArtifactRef, rows: list[int] | None = None, strengths: list[float] | None = None
) -> dict[str, Any]:
    """Everything that the cases of one shard depend on: not the model, so that a new revision generates nothing anew.

    `rows`: of the shard, all by default; `strengths`: of each of them, in place of the component's own.
    """
    job = {
        "fingerprint": component.fingerprint(),
        "component": component.name,
        "parameters": component.parameters(),
        "shard": shard.to_dict(),
        "random_seed": run.suite.suite.random_seed,
    }
    if rows is not None:
        job |= {"rows": rows, "strengths": strengths}
    if run.modality == "speech":
        job["modality"] = "speech"
        if isinstance(component, VoiceOver):
            return job | {"engine": voice_of(component, run.suite.base_dir).identity()}
        noise = noise_of(run, component)
        return job if noise is None else job | {"noise": noise}
    if run.modality == "image":
        return job
    return job | {
        "profile": run.prepared["profile"],
        "columns": run.record["columns"],
        "protected": sorted(run.suite.suite.data.protected),
    }


@task(name="generate_cases", task_run_name="generate_{job[component]}", cache_key_fn=job_key, **CACHED)
def generate_cases(job: dict[str, Any], run_uri: str) -> dict[str, Any]:
    """Draws and applies a transform to a shard of seeds; returns the references of its cases, and of their images or clips."""
    live.check_stopped()
    run = open_run(run_uri)
    made = write(run, job)
    return made | {"made_by": run.run_id} if made.get("unsaid") else made


def write(run: Run, job: dict[str, Any]) -> dict[str, Any]:
    """The work of `generate_cases`, without Prefect."""
    store = run.store
    if job.get("modality") == "speech":
        return write_audio_cases(store, job, run.suite.base_dir)
    if "profile" not in job:
        return write_image_cases(store, job)
    with _one_at_a_time:
        return {"cases": write_cases(store, job).to_dict()}


def write_cases(store: Store, job: dict[str, Any]) -> ArtifactRef:
    """The cases of a shard of rows. Columns: those of `case_table`, and the input's public columns."""
    profile = Profile.of(store.get_json(ArtifactRef.of(job["profile"])))
    whole = get_table(store, ArtifactRef.of(job["shard"]))
    nullable = [column.name for column in profile.columns if column.missing]
    features = [name for name in whole.column_names if not name.startswith("@")]
    sent = [name for name in job["columns"] if name in features]
    parts = []
    for component, rows in pieces(job, whole.num_rows):
        if not isinstance(component, TabularTransform):
            raise TypeError(f"{job['component']} is no tabular transform")
        seeds = whole.take(pa.array(rows))
        frame = to_frame(seeds.select(features), nullable)
        batch = TableBatch(frame, profile, tuple(changeable(profile, sent)), tuple(job["protected"]))
        drawn = component.draw(seeds.column(SEED_ID).to_pylist(), batch, partial(rng_for, job["random_seed"], component.key))
        changed = component.apply(frame, drawn.params)
        table = to_table(changed[sent], seeds.select(sent).schema)
        reasons = [why and (INVALID, why) for why in invalid_reasons(changed, profile)]
        cases = case_table(
            component, seeds, drawn.params, drawn.not_applicable, row_digests(table), reasons, drawn.distance, "row"
        )
        parts.append(pa.table({**cases, **{name: table.column(name) for name in table.column_names}}))
    return put_table(store, pa.concat_tables(parts))

"""What every table of generated cases holds, whatever the modality of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.canonical import canonical_json, digest_bytes
from aitest_lib.registry import component_class
from aitest_lib.transforms.base import Transform
from aitest_lib.transforms.values import UNLISTED
from aitest_tasks.seed_tables import DIGEST, RANK, SEED_ID

CASE_ID, STATUS, DETAIL, PARAMS, DISTANCE = "@case_id", "@status", "@detail", "@params", "@distance"
INVALID = "invalid"


def pieces(job: dict[str, Any], seeds: int) -> list[tuple[Transform, NDArray[np.int64]]]:
    """The transform of a generation's job with the rows it is applied to; several where the job gives rows their strengths."""
    cls: Any = UNLISTED.get(job["component"]) or component_class(job["component"], "transform")
    rows = np.asarray(job.get("rows", range(seeds)), np.int64)
    if not job.get("strengths"):
        return [(cls(**job["parameters"]), rows)]
    given = np.asarray(job["strengths"], float)
    return [(cls(**job["parameters"] | {cls.strength: float(one)}), rows[given == one]) for one in np.unique(given)]


def strengths_of(job: dict[str, Any]) -> NDArray[np.float64]:
    """The strength of every case of a job that gives them, in the order of its table."""
    return np.sort(np.asarray(job["strengths"], float))


def case_table(
    component: Transform,
    seeds: pa.Table,
    params: Sequence[dict[str, Any]],
    not_applicable: Sequence[str | None],
    digests: NDArray[np.void],
    reasons: Sequence[tuple[str, str] | None],
    distance: NDArray[np.float64],
    noun: str,
) -> dict[str, Any]:
    """Columns of the cases of some seeds: case id, seed id, rank, status (None: to be asked, else why not), detail,
    parameters, distance, digest of the input. `reasons`: status and detail of cases that are not valid."""
    seed_ids = seeds.column(SEED_ID).to_pylist()
    unchanged = digests == np.frombuffer(b"".join(seeds.column(DIGEST).to_pylist()), dtype="V16")
    ends = []
    for no_case, same, broken in zip(not_applicable, unchanged, reasons, strict=True):
        no_op = broken or (("no_op", f"the transform left the {noun} as it was") if same else None)
        ends.append(no_op if no_case is None else ("not_applicable", no_case))
    texts = [canonical_json(one) for one in params]
    return {
        CASE_ID: pa.array(
            [case_digest(seed, component.name, component.version, text) for seed, text in zip(seed_ids, texts, strict=True)],
            pa.string(),
        ),
        SEED_ID: seeds.column(SEED_ID),
        RANK: seeds.column(RANK),
        STATUS: pa.array([end and end[0] for end in ends], pa.string()),
        DETAIL: pa.array([end and end[1] for end in ends], pa.string()),
        PARAMS: pa.array(texts, pa.string()),
        DISTANCE: pa.array(distance, pa.float64()),
        DIGEST: pa.array([item.tobytes() for item in digests], pa.binary(16)),
    }


def case_id(seed_id: str, name: str, version: int, params: dict[str, Any]) -> str:
    """The id of a case: the same in every run, whatever the model, the batches and the workers."""
    return case_digest(seed_id, name, version, canonical_json(params))


def case_digest(seed_id: str, name: str, version: int, params: str) -> str:
    """The same from parameters that are canonical JSON text already."""
    return digest_bytes(
        f"[{canonical_json(seed_id)},{canonical_json(name)},{version},{params}]".encode("utf-8", "surrogatepass")
    )

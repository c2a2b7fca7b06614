"""`cases.parquet`: every case of a property with its outcome and the sentence why, written shard by shard."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.artifacts.codecs import TableWriter
from aitest_lib.reports.report import CaseCounts
from aitest_lib.reports.slices import SliceColumn
from aitest_lib.scorers.invariance import ERROR, OUTCOME_NAMES

SCHEMA_VERSION = "1"

BASE = [
    ("case_id", pa.string()),
    ("seed_id", pa.string()),
    ("property", pa.string()),
    ("transform", pa.string()),
    ("params", pa.string()),
    ("strength", pa.float64()),
    ("expected", pa.string()),
    ("observed", pa.string()),
    ("score", pa.float64()),
    ("outcome", pa.string()),
    ("reason", pa.string()),
    ("explanation", pa.string()),
    ("distance", pa.float64()),
    ("input_uri", pa.string()),
    ("query_cost", pa.int32()),
]


def cases_schema(columns: list[SliceColumn]) -> pa.Schema:
    """The columns of `cases.parquet` for a property with these slices."""
    return pa.schema([*BASE, *((f"slice.{column.name}", pa.string()) for column in columns)])


METADATA = {"schema_version": SCHEMA_VERSION}


@dataclass
class CaseBlock:
    """The cases of one component and shard, ready to be written; all lists have one entry a case."""

    case_id: list[str]
    seed_id: list[str]
    transform: str | None
    strength: list[float | None]
    params: list[str]
    expected: list[str | None]
    observed: list[str | None]
    score: NDArray[np.float64]
    outcome: NDArray[np.int8]
    reason: NDArray[np.object_]
    explanation: list[str | None]
    distance: NDArray[np.float64]
    input_uri: list[str]
    asked: NDArray[Any]  # how many queries each has cost
    ranks: NDArray[np.int64]
    found: list[int | None] | None = None  # of a search: the number of the query that found each


@dataclass
class CaseLog:
    """Writes blocks in their order and counts how their cases ended."""

    writer: TableWriter
    property: str
    columns: list[SliceColumn]
    counts: CaseCounts = field(default_factory=CaseCounts)
    skipped: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, block: CaseBlock) -> None:
        """Appends one block."""
        n = len(block.case_id)
        values: dict[str, Any] = {
            "case_id": block.case_id,
            "seed_id": block.seed_id,
            "property": [self.property] * n,
            "transform": [block.transform] * n,
            "params": block.params,
            "strength": block.strength,
            "expected": block.expected,
            "observed": block.observed,
            "score": pa.array(np.round(block.score, 6), from_pandas=True),
            "outcome": [OUTCOME_NAMES[code] for code in block.outcome],
            "reason": list(block.reason),
            "explanation": block.explanation,
            "distance": block.distance,
            "input_uri": block.input_uri,
            "query_cost": block.asked.astype(np.int32),
        }
        for column in self.columns:
            names = np.array(column.names, dtype=object)
            values[f"slice.{column.name}"] = names[column.codes[block.ranks]]
        schema = cases_schema(self.columns)
        self.writer.write(
            pa.table({name: pa.array(values[name], schema.field(name).type) for name in schema.names}, schema=schema)
        )
        ended = np.bincount(block.outcome, minlength=len(OUTCOME_NAMES))
        self.counts = CaseCounts(
            total=self.counts.total + n,
            **{name: getattr(self.counts, name) + int(count) for name, count in zip(OUTCOME_NAMES, ended, strict=True)},
        )
        self.skipped.update(str(reason) for reason in block.reason[block.outcome == 2])
        self.errors.update(str(reason) for reason in block.reason[block.outcome == ERROR])


def text_of(value: Any) -> str:
    """A cell or an answer as text: numbers with six digits at most, missing values as such."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "missing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"
    return str(value)


def texts(values: NDArray[np.object_]) -> list[str | None]:
    """Answers as text, None where there is none."""
    return [None if pd.isna(value) else text_of(value) for value in values]

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
from aitest_lib.data.schema import Profile
from aitest_lib.reports.report import CaseCounts, FailingCase, UnansweredCase
from aitest_lib.reports.slices import SliceColumn
from aitest_lib.scorers.invariance import ERROR, FAILED, OUTCOME_NAMES

SHOWN_FAILURES, SHOWN_UNANSWERED = 200, 20
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
    strength: float | None
    params: list[str]
    expected: list[str | None]
    observed: list[str | None]
    score: NDArray[np.float64]
    outcome: NDArray[np.int8]
    reason: NDArray[np.object_]
    explanation: list[str | None]
    distance: NDArray[np.float64]
    input_uri: str
    asked: NDArray[np.bool_]
    ranks: NDArray[np.int64]


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
            "strength": [block.strength] * n,
            "expected": block.expected,
            "observed": block.observed,
            "score": pa.array(np.round(block.score, 6), from_pandas=True),
            "outcome": [OUTCOME_NAMES[code] for code in block.outcome],
            "reason": list(block.reason),
            "explanation": block.explanation,
            "distance": block.distance,
            "input_uri": [f"{block.input_uri}#{row}" for row in range(n)],
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


class FailureSample:
    """The failing cases that are shown: the first ones of every component, in rank order, 200 in all; and the first 20 to
    which the model gave no usable answer."""

    def __init__(self, components: int) -> None:
        self._share = max(SHOWN_FAILURES // max(components, 1), 1)
        self._taken: Counter[Any] = Counter()
        self.cases: list[FailingCase] = []
        self.unanswered: list[UnansweredCase] = []

    def add(self, component: int, block: CaseBlock, rows: Rows) -> None:
        """Takes what is to be shown of a block."""
        failed = np.flatnonzero(block.outcome == FAILED)[: self._share - self._taken[component]]
        self._taken[component] += len(failed)
        self.cases += failing_rows(block, rows, failed)
        errors = np.flatnonzero(block.outcome == ERROR)[: SHOWN_UNANSWERED - len(self.unanswered)]
        self.unanswered += unanswered_rows(block, rows, errors)


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


class Rows:
    """Seeds and what was changed in them, cell by cell, for the cases that are shown or explained."""

    def __init__(self, seeds: pa.Table, params: list[dict[str, Any]]) -> None:
        self._columns = {name: seeds.column(name) for name in seeds.column_names if not name.startswith("@")}
        self._params = params

    def seed(self, row: int) -> dict[str, str]:
        return {name: text_of(column[row].as_py()) for name, column in self._columns.items()}

    def changed(self, row: int) -> dict[str, Any]:
        return dict(self._params[row]["set"]) if self._params else {}

    def case(self, row: int) -> dict[str, str]:
        return self.seed(row) | {name: text_of(value) for name, value in self.changed(row).items()}

    def changes(self, row: int, profile: Profile) -> list[tuple[str, str, str, float | None]]:
        result = []
        for name, after in self.changed(row).items():
            before = self._columns[name][row].as_py()
            sd = profile[name].sd if profile[name].numeric else 0
            shift = (after - before) / sd if sd and after is not None and before is not None else None
            result.append((name, text_of(before), text_of(after), shift))
        return result


def failing_rows(block: CaseBlock, rows: Rows, shown: NDArray[np.int64]) -> list[FailingCase]:
    cases = []
    for row in shown.tolist():
        score = float(block.score[row])
        cases.append(
            FailingCase(
                case_id=block.case_id[row],
                seed_id=block.seed_id[row],
                transform=block.transform,
                strength=block.strength,
                expected=block.expected[row],
                observed=block.observed[row],
                score=None if np.isnan(score) else score,
                explanation=block.explanation[row] or "",
                seed=rows.seed(row),
                case=rows.case(row),
                changed=list(rows.changed(row)),
            )
        )
    return cases


def unanswered_rows(block: CaseBlock, rows: Rows, shown: NDArray[np.int64]) -> list[UnansweredCase]:
    return [
        UnansweredCase(
            case_id=block.case_id[row],
            transform=block.transform,
            strength=block.strength,
            reason=str(block.reason[row]),
            case=rows.case(row),
        )
        for row in shown.tolist()
    ]

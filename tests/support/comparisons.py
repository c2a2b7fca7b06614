"""Two small runs in memory, as `compare_runs` takes them: outcomes are given, everything else has a plain default."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from aitest_lib.reports.compare import ComparableRun
from aitest_lib.reports.compare_cases import COLUMNS
from aitest_lib.reports.report import (
    CaseCounts,
    FailingCase,
    Metric,
    ModelReport,
    PropertyReport,
    Provenance,
    Queries,
    RunReport,
)

TYPES = {"strength": pa.float64()}
P, F = ("passed", None), ("failed", None)
WRONG, NO_OP, BUDGET = (("skipped", why) for why in ("misclassified_seed", "no_op", "budget"))
ERROR = ("error", "HTTP 500")


def case_table(rows: list[dict[str, Any]], slices: dict[str, list[str]] | None = None) -> pa.Table:
    """Rows with what differs from the defaults; a case's id is its seed's, its transform's and its strength's names."""
    default = {
        "transform": None,
        "strength": None,
        "params": "{}",
        "expected": "a",
        "observed": "a",
        "reason": None,
        "explanation": None,
    }
    full = [default | row for row in rows]
    for row in full:
        row.setdefault("case_id", f"{row['seed_id']}/{row['transform']}/{row['strength']}")
    columns = {name: pa.array([row[name] for row in full], TYPES.get(name, pa.string())) for name in COLUMNS}
    return pa.table(columns | {f"slice.{name}": pa.array(values) for name, values in (slices or {}).items()})


def outcomes(found: dict[str, tuple[str, str | None]], transform: str | None = None, **more: Any) -> list[dict[str, Any]]:
    """One case a seed, from seed id to outcome and reason."""
    return [
        {"seed_id": seed, "transform": transform, "outcome": outcome, "reason": reason, **more}
        for seed, (outcome, reason) in found.items()
    ]


def suite_of(*properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A suite as a run's record holds it."""
    data = {"test": "data.csv", "label": "y", "sample": "all"}
    return {
        "suite": "nightly",
        "random_seed": 1,
        "model": {"card": "m.yaml"},
        "data": data,
        "properties": [*properties],
        **more,
    }


def run_of(
    tables: dict[str, pa.Table | None],
    *,
    run_id: str = "b" * 32,
    suite: dict[str, Any] | None = None,
    record: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    origin: dict[str, Any] | None = None,
    properties: dict[str, dict[str, Any]] | None = None,
    failures: dict[str, list[FailingCase]] | None = None,
) -> ComparableRun:
    """A run with these cases by property; the rest goes over the defaults of record, model, provenance and properties."""
    reports = [
        PropertyReport(
            **{
                "property": name,
                "status": "passed",
                "cases": CaseCounts(total=table.num_rows if table is not None else 0),
                "metrics": [Metric(name="pass_rate", value=0.9, low=0.88, high=0.92, n=100)],
                **(properties or {}).get(name, {}),
            }
        )
        for name, table in tables.items()
    ]
    default = {"aitest": "0.1.0", "packages": {"numpy": "2.4.6"}, "suite_digest": "s", "data_digest": "d"}
    provenance = default | {"random_seed": 1, "confidence": 0.95, "started_by": "tests", "rows": 9, "seeds": 9}
    report = RunReport(
        suite=(suite or {}).get("suite", "nightly"),
        run_id=run_id,
        status="passed",
        model=ModelReport(**{"name": "m", "type": "tabular-classifier", "digest": "d1", **(model or {})}),
        provenance=Provenance(**(provenance | (origin or {}))),
        started="2026-11-29T02:00:00Z",
        seconds=1.0,
        queries=Queries(),
        properties=reports,
    )
    base = {"suite": suite or suite_of(*({"property": name} for name in tables))}
    full = base | {"test_digest": "t", "train_digest": None, "fingerprints": {"aitest": "0.1.0"}, **(record or {})}
    return ComparableRun(full, report, lambda item: tables[item.property], failures or {})

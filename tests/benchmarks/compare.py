"""`aitest compare` on two runs of 100,000 cases: made up here, compared by the command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from aitest_lib.artifacts.codecs import TableWriter
from aitest_lib.artifacts.store import Store
from aitest_lib.canonical import digest
from aitest_lib.reports.report import CaseCounts, ModelReport, PropertyReport, Provenance, Queries, RunReport
from aitest_lib.reports.slices import SliceColumn
from aitest_tasks.cases import METADATA, cases_schema

SEEDS, CASES_PER_SEED = 10_000, 10
SLICES = 12  # columns of the data that are cut into slices, five values each
FORMATS = ("json", "html", "table")


def compare() -> None:
    """Wall time and peak memory of the whole command, start included."""
    print(f"{'compare':<22}{'wall s':>10}{'CPU s':>10}{'peak MB':>10}")
    with tempfile.TemporaryDirectory() as root:
        store = Store(str(Path(root, ".aitest", "store")))
        for run_id, failing in (("a" * 32, 0.10), ("b" * 32, 0.12)):
            _write_run(store, run_id, failing)
        for name in FORMATS:
            started = time.perf_counter()
            process = subprocess.Popen(
                [sys.executable, "-m", "aitest_flows.cli", "compare", "a", "b", "--format", name],
                cwd=root,
                stdout=subprocess.DEVNULL,
            )
            _, status, usage = os.wait4(process.pid, 0)
            if os.waitstatus_to_exitcode(status):
                sys.exit(f"the comparison ended with {os.waitstatus_to_exitcode(status)}")
            wall, cpu = time.perf_counter() - started, usage.ru_utime + usage.ru_stime
            print(f"{f'2 x {SEEDS * CASES_PER_SEED:,}, {name}':<22}{wall:>10.1f}{cpu:>10.1f}{usage.ru_maxrss / 1e3:>10,.0f}")
    print()


def _write_run(store: Store, run_id: str, failing: float) -> None:
    rng = np.random.default_rng(len(run_id) + ord(run_id[0]))
    names = [f"column {place}" for place in range(SLICES)]
    schema = cases_schema([SliceColumn(name, [], np.empty(0, np.int32)) for name in names])
    seeds = [digest(["seed", place]) for place in range(SEEDS)]
    cut = np.random.default_rng(0).integers(0, 5, (SLICES, SEEDS))
    failed = 0
    with TableWriter(store, schema, METADATA) as writer:
        for transform in range(CASES_PER_SEED):
            bad = rng.random(SEEDS) < failing
            failed += int(bad.sum())
            values = {
                "case_id": [digest([seed, transform]) for seed in seeds],
                "seed_id": seeds,
                "property": ["tabular.robustness"] * SEEDS,
                "transform": ["numeric_noise"] * SEEDS,
                "params": ['{"set":{"column 0":0.25}}'] * SEEDS,
                "strength": [0.1 * (transform + 1)] * SEEDS,
                "expected": ["yes"] * SEEDS,
                "observed": np.where(bad, "no", "yes").tolist(),
                "score": rng.random(SEEDS),
                "outcome": np.where(bad, "failed", "passed").tolist(),
                "reason": [None] * SEEDS,
                "explanation": [
                    f"column 0 of {seed} turned the answer from yes to no" if one else None
                    for seed, one in zip(seeds, bad, strict=True)
                ],
                "distance": rng.random(SEEDS),
                "input_uri": [f"{store.url}/objects/00/{0:030x}.parquet#{row}" for row in range(SEEDS)],
                "query_cost": [1] * SEEDS,
            }
            values |= {f"slice.{name}": [f"value {code}" for code in codes] for name, codes in zip(names, cut, strict=True)}
            writer.write(
                pa.table({name: pa.array(values[name], schema.field(name).type) for name in schema.names}, schema=schema)
            )
    if writer.ref is None:
        raise RuntimeError("the cases were not written")
    failures = store.put_json([])
    cases = SEEDS * CASES_PER_SEED
    item = PropertyReport(
        property="tabular.robustness",
        status="passed",
        cases=CaseCounts(total=cases, passed=cases - failed, failed=failed),
        artifacts={"cases": store.url_of(writer.ref.uri), "failures": store.url_of(failures.uri)},
    )
    store.write_json(f"runs/{run_id}/run.json", _record(store))
    report = RunReport(
        suite="bench",
        run_id=run_id,
        status="passed",
        model=ModelReport(name="bench", type="tabular-classifier", digest=run_id[0]),
        provenance=Provenance(
            aitest="0", suite_digest="s", data_digest="d", random_seed=0, confidence=0.95, started_by="benchmark", seeds=SEEDS
        ),
        started="2026-11-29T02:00:00Z",
        seconds=1.0,
        queries=Queries(),
        properties=[item],
    )
    store.write_json(f"runs/{run_id}/report.json", report.model_dump(mode="json"))


def _record(store: Store) -> dict[str, object]:
    model = {"name": "bench", "type": "tabular-classifier", "digest": "d", "version": None, "revision": None}
    return {
        "suite": {"suite": "bench", "data": {"test": "data.parquet"}, "properties": [{"property": "tabular.robustness"}]},
        "base_dir": "",
        "card": None,
        "card_dir": None,
        "model": model | {"classes": None, "reusable": True},
        "registered": None,
        "test": "data.parquet",
        "train": None,
        "test_digest": "t",
        "train_digest": None,
        "columns": ["column 0"],
        "options": {"properties": [0], "fresh": False, "budget": None, "workers": 1},
        "fingerprints": {"aitest": "0"},
        "started": "2026-11-29T02:00:00.000Z",
        "started_by": "benchmark",
        "home": str(store.root),
    }

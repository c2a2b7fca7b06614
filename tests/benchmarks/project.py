"""A project folder to measure with, and the `aitest` command in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from accounting import peak_of, tree

HERE = Path(__file__).parent
AITEST = [sys.executable, "-m", "aitest_flows.cli"]
JUDGED = (0, 1, 4)  # exit statuses of a run that has ended with a verdict
FOREIGN = ("AITEST_", "AWS_", "MLFLOW_", "PREFECT_")


def project(
    folder: Path,
    rows: int,
    model: str,
    transforms: list[dict[str, Any]],
    *,
    params: Mapping[str, Any] | None = None,
    endpoint: Mapping[str, Any] | None = None,
) -> Path:
    """A project folder: synthetic rows, a card, a suite with `tabular.robustness`.

    The card is for a model of `models.py`, with `params` where it is a class, or for an `endpoint`.
    """
    rng = np.random.default_rng(0)
    columns = {name: np.round(rng.normal(size=rows), 3) for name in "abcdef"}
    frame = pd.DataFrame(columns | {"kind": rng.choice(["x", "y", "z"], rows), "count": rng.integers(0, 100, rows)})
    frame["label"] = np.where(frame["a"] + frame["b"] + rng.normal(0, 0.3, rows) > 0, "yes", "no")
    folder.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(folder / "data.parquet")
    python = {"callable": f"models:{model}", "path": [str(HERE)], "params": dict(params or {})}
    card = {
        "name": "bench",
        "revision": "1",
        "type": "tabular-classifier",
        "classes": ["no", "yes"],
        **({"endpoint": dict(endpoint)} if endpoint else {"python": python}),
    }
    suite = {
        "suite": "bench",
        "model": {"card": "card.yaml"},
        "data": {"test": "data.parquet", "label": "label"},
        "properties": [{"property": "tabular.robustness", "transforms": transforms, "gates": {"pass_rate": {"min": 0.9}}}],
    }
    (folder / "card.yaml").write_text(json.dumps(card))
    (folder / "suite.yaml").write_text(json.dumps(suite))
    return folder / "suite.yaml"


def plain_environment() -> dict[str, str]:
    """The environment without settings of aitest and of the libraries under it."""
    return {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}


@dataclass(frozen=True)
class Measured:
    """What a run has cost: seconds, CPU seconds (with the children that it waited for), and megabytes at most, of the process
    alone and with its children."""

    report: dict[str, Any]
    wall: float
    cpu: float
    peak: float
    peak_with_children: float


def measured_run(suite_file: Path, *args: str, environment: Mapping[str, str] | None = None) -> Measured:
    """Runs a suite as a process of its own, `--json` added; ends the benchmark where there is no verdict."""
    folder = suite_file.parent
    errors = folder / "stderr.txt"
    started = time.perf_counter()
    with errors.open("wb") as err:
        process = subprocess.Popen(
            [*AITEST, "run", suite_file.name, "--json", "report.json", *args],
            cwd=folder,
            env=plain_environment() | dict(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=err,
        )
        with peak_of(lambda: tree(process.pid)) as peak:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - started
    if process.returncode not in JUDGED:
        sys.exit(f"aitest run {' '.join(args)} ended with {process.returncode}: {errors.read_text()[-2000:]}")
    report = json.loads((folder / "report.json").read_text())
    return Measured(report, wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3, max(peak(), usage.ru_maxrss / 1e3))

"""The card mlflow-scoring against the real thing: a scikit-learn pipeline served by `mlflow models serve`."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pytest
import yaml
from opening import open_card
from projects import COLUMNS, FOREIGN, empty_tracking, is_calm, new_project, people, until

from aitest_lib.properties.catalog import specs_for

CARD = Path(__file__).parents[2] / "deployments" / "cards" / "mlflow-scoring.yaml"


@dataclass(frozen=True)
class Served:
    """A running server, and the pipeline behind it."""

    url: str
    pipeline: Any


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("serve")
    pipeline = trained(people(400, seed=3))
    model = logged(pipeline, folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    clean["PATH"] = f"{Path(sys.executable).parent}:{clean['PATH']}"  # `mlflow models serve` looks for uvicorn there
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "models", "serve", "-m", model, "--env-manager", "local", "-p", str(port)],
            env={**clean, "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}", "MLFLOW_DISABLE_TELEMETRY": "true"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def answers() -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/ping", timeout=2, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return process.poll() is not None

    try:
        until(answers, 120)
        assert process.poll() is None, (folder / "server.log").read_text()[-2000:]
        yield Served(f"http://127.0.0.1:{port}/invocations", pipeline)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def trained(data: pd.DataFrame) -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    columns = ColumnTransformer(
        [("n", StandardScaler(), COLUMNS[:3]), ("c", OneHotEncoder(handle_unknown="ignore"), COLUMNS[3:])]
    )
    return make_pipeline(columns, LogisticRegression()).fit(data[COLUMNS], data["income"])


def logged(pipeline: Any, folder: Path) -> str:
    """The URI of the pipeline in a local store."""
    import mlflow
    from mlflow.models import infer_signature

    shutil.copy(empty_tracking(), folder / "mlflow.db")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    try:
        experiment = mlflow.create_experiment("serve", artifact_location=(folder / "artifacts").as_uri())
        sample = people(5)[COLUMNS]
        with mlflow.start_run(experiment_id=experiment):
            signature = infer_signature(sample, pipeline.predict(sample))
            # Requirements that are given are not looked for, which would load the model in another process.
            requirements = ["scikit-learn"]
            info = mlflow.sklearn.log_model(pipeline, name="model", signature=signature, pip_requirements=requirements)
            return info.model_uri
    finally:
        mlflow.set_tracking_uri(before)


def test_the_served_model_answers_as_the_pipeline_does(served: Served) -> None:
    card = yaml.safe_load(CARD.read_text())
    card |= {"classes": ["high", "low"], "inputs": {"columns": COLUMNS}}
    card["endpoint"] |= {"url": served.url, "batch_size": 7}
    data = people(50, seed=5).sample(frac=1, axis=1, random_state=1)
    found = open_card(card).predict(data)
    assert list(found.errors) == [None] * 50
    assert list(found.labels) == served.pipeline.predict(data[COLUMNS]).tolist()


def test_a_row_that_the_signature_refuses_is_an_error_of_its_own(served: Served) -> None:
    card = yaml.safe_load(CARD.read_text())
    card |= {"classes": ["high", "low"], "inputs": {"columns": COLUMNS}}
    card["endpoint"] |= {"url": served.url}
    data = people(6, seed=6).astype({"age": object})
    data.loc[2, "age"] = "old"
    found = open_card(card).predict(data)
    assert [reason is not None for reason in found.errors] == [False, False, True, False, False, False]
    assert "HTTP 400" in found.errors[2] and "Data is not compatible with model signature" in found.errors[2]


def test_every_tabular_property_runs_through_a_copy_of_the_card(served: Served, tmp_path: Path) -> None:
    project = new_project(tmp_path / "project")
    people(120, seed=8).to_csv(project.folder / "data.csv", index=False)
    started = project.here("init", "--like", "mlflow-scoring", "--data", "data.csv", "--label", "income", "--name", "served")
    assert started.code == 0, started.text
    card = project.folder / "model.yaml"
    card.write_text(card.read_text().replace("http://127.0.0.1:5000/invocations", served.url))
    ended = project.here("run", "suite.yaml", "--json", "report.json")
    report = project.report("report.json")
    assert ended.code in (0, 1, 4) and is_calm(ended.text), ended.text
    every = [spec for spec in specs_for("tabular-classifier") if not (spec.by_protected or spec.by_directions)]  # these wait
    assert [item["property"] for item in report["properties"]] == [spec.name for spec in every]
    assert not {item["status"] for item in report["properties"]} & {"error", "skipped"}
    assert report["queries"]["errors"] == 0 and report["queries"]["sent"] > 120

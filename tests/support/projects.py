"""Project folders for tests of whole runs: data, card and suite, and the `aitest` command, here or as a process."""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from model_server import ModelServer

from aitest_tasks.settings import QUIET


def _quiet_prefect() -> None:
    """Prefect reads its settings once, at its first import: as the command has them, and away from the user's home."""
    home = tempfile.mkdtemp(prefix="aitest-client-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    logging_yaml = str(files("aitest_tasks") / "logging.yaml")
    os.environ.update({**QUIET, "PREFECT_HOME": home, "PREFECT_LOGGING_SETTINGS_PATH": logging_yaml})


_quiet_prefect()
AITEST = str(Path(sys.executable).with_name("aitest"))
COLUMNS = ["age", "hours", "rate", "job", "sex"]
WIDTH = 160
NOISE_AND_SWAP = [{"name": "numeric_noise", "epsilon": 0.1}, {"name": "category_swap"}]
# What libraries read from the environment; tests start from none of it.
FOREIGN = ("AITEST_", "MLFLOW_", "PREFECT_", "PLANTED_")


def people(rows: int, seed: int = 0, wrong: float = 0.1) -> pd.DataFrame:
    """Rows with a label that `income` gets right but for a share of `wrong`."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(17, 90, rows),
            "hours": rng.integers(5, 80, rows),
            "rate": rng.normal(10, 3, rows).round(3),
            "job": rng.choice(["clerk", "cook", "nurse"], rows),
            "sex": rng.choice(["F", "M"], rows),
        }
    )
    label = np.array([income(row) for row in frame.to_numpy().tolist()], dtype=object)
    wrongly = rng.random(rows) < wrong
    label[wrongly] = np.where(label[wrongly] == "high", "low", "high")
    return frame.assign(income=label)


def income(row: list[Any]) -> str:
    """The model of these tests: a rule on a row in the order of `COLUMNS`."""
    return "high" if row[0] + row[1] + (10 if row[3] == "nurse" else 0) > 95 else "low"


def wage(row: list[Any]) -> float:
    """A regressor on the same rows."""
    return float(row[2] * 10 + row[1] * 0.5)


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


@dataclass
class Project:
    """A folder with data, card and suite. `env`: variables for the commands."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.folder / ".aitest"

    @property
    def store(self) -> Path:
        return self.home / "store"

    def fill(
        self,
        server: ModelServer,
        data: pd.DataFrame,
        *,
        properties: list[dict[str, Any]] | None = None,
        card: dict[str, Any] | None = None,
        suite: dict[str, Any] | None = None,
        **endpoint: Any,
    ) -> Project:
        """Writes the three files. `card` and `suite` go over the defaults, `endpoint` into the card's endpoint."""
        data.to_csv(self.folder / "data.csv", index=False)
        top = {"card__revision": "1", "card__inputs": {"columns": COLUMNS}}
        top |= {f"card__{key}": value for key, value in (card or {}).items()}
        self.write("card.yaml", server.card(**{**endpoint, **top}))
        self.write("suite.yaml", suite_data(properties) | (suite or {}))
        return self

    def write(self, name: str, content: Any) -> Path:
        """A file from YAML data or text; None values at the top of data are left out."""
        path = self.folder / name
        if not isinstance(content, str):
            content = yaml.safe_dump({key: value for key, value in content.items() if value is not None}, sort_keys=False)
        path.write_text(content, encoding="utf-8")
        return path

    def change(self, name: str, **values: Any) -> None:
        """Puts values over the top keys of a YAML file."""
        data = yaml.safe_load((self.folder / name).read_text())
        self.write(name, data | values)

    def environment(self) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        return clean | {"COLUMNS": str(WIDTH), "TERM": "dumb"} | self.env

    def start(self, *args: str, out: Any = subprocess.PIPE, err: Any = subprocess.PIPE) -> subprocess.Popen[str]:
        """The `aitest` command as a process, leader of its own process group."""
        return subprocess.Popen(
            [AITEST, *args],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            text=True,
            start_new_session=True,
        )

    def cli(self, *args: str, timeout: float = 180) -> Ended:
        """Runs the `aitest` command as a process of its own."""
        return ended(self.start(*args), timeout)

    def here(self, *args: str) -> Ended:
        """Runs the `aitest` command in this process; anything but an orderly end is raised."""
        from aitest_flows import cli

        cli.out.width = cli.err.width = WIDTH  # they took the width of the terminal when they were imported
        out, err = io.StringIO(), io.StringIO()
        with self.entered(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            argv, sys.argv = sys.argv, ["aitest", *args]
            try:
                cli.main()
            except SystemExit as exit_:
                code = exit_.code
            finally:
                sys.argv = argv
        if not isinstance(code, int):
            raise TypeError(f"the command exits with {code!r}, expected an integer")
        return Ended(code, out.getvalue(), err.getvalue())

    def run(self, *args: str) -> dict[str, Any]:
        """Runs the suite in this process; the report as JSON data."""
        found = self.here("run", "suite.yaml", "--json", "report.json", *args)
        if not (self.folder / "report.json").exists():
            raise RuntimeError(f"exit {found.code}: {found.text}")
        return self.report("report.json", remove=True)

    def report(self, name: str, remove: bool = False) -> dict[str, Any]:
        """A JSON report that a command wrote."""
        path = self.folder / name
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if remove:
            path.unlink()
        return data

    def cases(self, report: dict[str, Any], name: str = "tabular.robustness") -> pa.Table:
        """The `cases.parquet` of a property of a report."""
        return pq.read_table(property_of(report, name)["artifacts"]["cases"].removeprefix("file://"))

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Makes the folder and the environment those of this process for a while."""
        before, old = dict(os.environ), Path.cwd()
        os.chdir(self.folder)
        os.environ.clear()
        os.environ.update(self.environment())
        try:
            yield
        finally:
            os.chdir(old)
            os.environ.clear()
            os.environ.update(before)


def suite_data(properties: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A suite on `data.csv` and `card.yaml`."""
    default = [
        {"property": "tabular.generalization"},
        {"property": "tabular.robustness", "transforms": NOISE_AND_SWAP, "gates": {"pass_rate": {"min": 0.5}}},
    ]
    return {
        "suite": "people",
        "random_seed": 7,
        "model": {"card": "card.yaml"},
        "data": {"test": "data.csv", "label": "income"},
        "properties": properties or default,
    }


def property_of(report: dict[str, Any], name: str) -> dict[str, Any]:
    """One property of a report."""
    [found] = [item for item in report["properties"] if item["property"] == name]
    return dict(found)


def ended(process: subprocess.Popen[str], timeout: float = 180) -> Ended:
    """Waits for a process; one that hangs is killed and fails the test."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return Ended(process.returncode, out or "", err or "")


def until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Waits for a condition; what it was in the end."""
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def is_calm(text: str) -> bool:
    """Is there no sign of a defect or of a library talking about itself."""
    return re.search(r"Traceback|\bError\b|database is locked|Warning|WARNING|Exception", text) is None


@cache
def shared_prefect() -> str:
    """The API URL of a Prefect server of this test session, stopped when the session ends."""
    home = tempfile.mkdtemp(prefix="aitest-prefect-")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = {"PREFECT_HOME": home, "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
    with Path(home, "server.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)],
            env={**{name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}, **quiet},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def stop() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(home, ignore_errors=True)

    atexit.register(stop)
    url = f"http://127.0.0.1:{port}/api"

    def healthy() -> bool:
        try:
            return httpx.get(f"{url}/health", timeout=2, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    if not until(healthy, 120):
        raise RuntimeError("the Prefect server of the tests did not start: " + Path(home, "server.log").read_text()[-2000:])
    return url


@cache
def empty_tracking() -> Path:
    """A new MLflow database, to be copied: its migrations take longer than a small run."""
    from mlflow.tracking import MlflowClient

    folder = Path(tempfile.mkdtemp(prefix="aitest-mlflow-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    MlflowClient(f"sqlite:///{folder / 'mlflow.db'}").search_experiments(max_results=1)
    return folder / "mlflow.db"


def new_project(folder: Path, prefect: bool = True) -> Project:
    """An empty project; without `prefect` its runs start a server of their own, on a fresh `.aitest`."""
    folder.mkdir(parents=True, exist_ok=True)
    project = Project(folder)
    if prefect:
        project.env["PREFECT_API_URL"] = shared_prefect()
        project.home.mkdir()
        shutil.copy(empty_tracking(), project.home / "mlflow.db")
    return project

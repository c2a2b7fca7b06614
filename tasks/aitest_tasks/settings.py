"""Where things are: `.aitest`, the store, the tracking server, Prefect; from the environment, with embedded defaults."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from aitest_lib.artifacts.store import Store
from aitest_lib.config.secrets import remember
from aitest_lib.errors import InputError

HOME = ".aitest"
# Nothing reaches the network that the suite did not name: every library's telemetry is off, whatever it listens to.
QUIET = {
    "DO_NOT_TRACK": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "PREFECT_CLI_PROMPT": "false",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    # MLflow's own seven retries keep a user waiting for minutes before he learns that the server is down.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "GIT_PYTHON_REFRESH": "quiet",
}


@dataclass(frozen=True)
class Settings:
    """The places of one project. `home` is its `.aitest` folder."""

    home: Path

    @property
    def store_url(self) -> str:
        """The artifact store."""
        return os.environ.get("AITEST_STORE") or str(self.home / "store")

    @cached_property
    def store(self) -> Store:
        """The artifact store, opened."""
        from aitest_tasks import live  # imports models, which the start of the Prefect server need not wait for

        for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            remember(os.environ.get(name, ""))
        return Store(self.store_url, live.store_patience)

    @property
    def tracking_uri(self) -> str:
        """MLflow's tracking server or database."""
        # The time-out: three runs at once share the SQLite file, and each waits for the others instead of failing.
        return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{self.home / 'mlflow.db'}?timeout=60"

    @property
    def artifact_location(self) -> str | None:
        """Where MLflow keeps a new experiment's artifacts; the server decides where there is one."""
        return None if os.environ.get("MLFLOW_TRACKING_URI") else (self.home / "mlartifacts").as_uri()

    @property
    def prefect_home(self) -> Path:
        """Prefect's own folder."""
        return self.home / "prefect"

    @property
    def logs(self) -> Path:
        """Log files of everything that runs in the background."""
        return self.home / "logs"


def find_home(start: Path | None = None) -> Path:
    """The nearest `.aitest` in a parent folder, else the one to be made in the current folder."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / HOME).is_dir():
            return folder / HOME
    return here / HOME


def open_settings() -> Settings:
    """The settings of the current folder, with `.aitest` made and the libraries told to be quiet and stay at home.

    Must run before Prefect or MLflow is imported: both read the environment once.
    """
    settings = Settings(find_home())
    for folder in (settings.home, settings.prefect_home, settings.logs):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make {folder}: {error.strerror}; run aitest in a folder you may write to") from error
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    for name in ("NO_PROXY", "no_proxy"):  # our own servers are on loopback, whatever proxy leads elsewhere
        given = os.environ.get(name, "")
        if given != "*" and "127.0.0.1" not in given:
            os.environ[name] = ",".join(part for part in (given, "127.0.0.1", "localhost") if part)
    os.environ.setdefault("PREFECT_HOME", str(settings.prefect_home))
    os.environ.setdefault("PREFECT_PROFILES_PATH", str(settings.prefect_home / "profiles.toml"))
    os.environ.setdefault("PREFECT_LOGGING_SETTINGS_PATH", str(files("aitest_tasks") / "logging.yaml"))
    return settings

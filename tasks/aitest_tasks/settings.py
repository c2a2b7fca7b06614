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
from aitest_tasks.services import RECEIVER, S3, services_of, variables

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
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
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
        return os.environ.get("MLFLOW_TRACKING_URI") or self.database

    @property
    def artifact_location(self) -> str | None:
        """Where MLflow keeps a new experiment's artifacts; the server decides where there is one."""
        return None if os.environ.get("MLFLOW_TRACKING_URI") else self.artifacts.as_uri()

    @property
    def database(self) -> str:
        """The project's own MLflow database: the embedded default, and that of the MLflow server of `aitest up`."""
        # The time-out: three runs at once share the SQLite file, and each waits for the others instead of failing.
        return f"sqlite:///{self.home / 'mlflow.db'}?timeout=60"

    @property
    def artifacts(self) -> Path:
        """The folder of the artifacts of the project's own MLflow database."""
        return self.home / "mlartifacts"

    @property
    def prefect_home(self) -> Path:
        """Prefect's own folder."""
        return self.home / "prefect"

    @property
    def logs(self) -> Path:
        """Log files of everything that runs in the background."""
        return self.home / "logs"


class EmbeddedSettings(Settings):
    """The same project with its own MLflow database, whatever server there is: for what is below that server."""

    @property
    def tracking_uri(self) -> str:
        return self.database

    @property
    def artifact_location(self) -> str | None:
        return self.artifacts.as_uri()


def find_home(start: Path | None = None) -> Path:
    """The nearest `.aitest` in a parent folder, else the one to be made in the current folder."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / HOME).is_dir():
            return folder / HOME
    return here / HOME


def open_settings() -> Settings:
    """The settings of the current folder, with `.aitest` made and the libraries told to be quiet and stay at home.

    Services of `aitest up` that are alive are put into the environment, where the user has not set others. Must run before
    Prefect or MLflow is imported: both read the environment once.
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
    _set_for(settings)
    _opened[:] = [settings]
    return settings


def current() -> Settings:
    """The settings that this process has opened last; opened now where it has not."""
    return _opened[0] if _opened else open_settings()


def user_environment() -> dict[str, str]:
    """The environment without what `open_settings` has set for a project."""
    return {name: value for name, value in os.environ.items() if _set.get(name) != value}


_opened: list[Settings] = []  # one at most
_set: dict[str, str] = {}  # variables that stand in the environment for the project opened last


def _set_for(settings: Settings) -> None:
    """Sets the variables of a project in the place of those of the one before, where the user has not set them himself."""
    given = user_environment()
    own = {
        "PREFECT_HOME": str(settings.prefect_home),
        "PREFECT_PROFILES_PATH": str(settings.prefect_home / "profiles.toml"),
        "PREFECT_LOGGING_SETTINGS_PATH": str(files("aitest_tasks") / "logging.yaml"),
    }
    own |= _service_variables(settings, given)
    for name in [name for name in _set if name not in given]:
        os.environ.pop(name, None)
    _set.clear()
    for name, value in own.items():
        if not given.get(name):
            os.environ[name] = _set[name] = value


def _service_variables(settings: Settings, given: dict[str, str]) -> dict[str, str]:
    services = services_of(settings.home)
    urls = {name: process.url for name, process in services.alive().items()}
    secrets = services.secrets() if {S3, RECEIVER} & urls.keys() else {}
    for secret in secrets.values():
        remember(secret)
    return variables(urls, secrets, given)

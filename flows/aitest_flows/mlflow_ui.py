"""The MLflow UI of a project on the loopback interface: found if it is up, else started as a service of the project."""

from __future__ import annotations

from aitest_flows.services.definitions import local_artifacts, mlflow_server
from aitest_flows.services.group import start
from aitest_flows.services.ports import choose_ports
from aitest_flows.services.project import CLIENT_VARIABLES
from aitest_tasks.services import MLFLOW, services_of
from aitest_tasks.settings import Settings, user_environment

OTHER = "MLflow UI"  # of a database that is not the project's own: runs must not take it for their server


def ui_url(settings: Settings) -> tuple[str, bool]:
    """The base URL of the UI, and whether this call has brought its server up.

    It is the one that `aitest up` would start, and ends with `aitest down` all the same.
    """
    if settings.tracking_uri.startswith("http"):
        return settings.tracking_uri.rstrip("/"), False
    folder = services_of(settings.home)
    name = MLFLOW if settings.tracking_uri == settings.database else OTHER
    with folder.locked():
        ports = choose_ports(folder.folder / "ports.json", [name], folder.alive())
        key = folder.make_secrets()["mlflow"]
        service = mlflow_server(ports[name], settings.tracking_uri, local_artifacts(settings.artifacts), key, name=name)
        base = {variable: value for variable, value in user_environment().items() if variable not in CLIENT_VARIABLES}
        start([service], folder, base, settings.logs, settings.home.parent, lambda *_: None)
    return service.url, True


def run_url(base: str, experiment_id: str, run_id: str) -> str:
    """The page of a run."""
    return f"{base}/#/experiments/{experiment_id}/runs/{run_id}?workflowType=machine_learning"

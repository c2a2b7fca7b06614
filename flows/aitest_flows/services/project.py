"""The services of a project: `aitest up` and `aitest down`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aitest_flows.services import definitions
from aitest_flows.services.group import Report, finish, start
from aitest_flows.services.ports import choose_ports
from aitest_flows.services.processes import Service, end, members
from aitest_tasks.services import MLFLOW, PREFECT, RECEIVER, S3, WORKER, Process, ServiceFolder, services_of, variables
from aitest_tasks.settings import EmbeddedSettings, Settings, user_environment

LIMIT = 4  # flow runs that the worker takes at once
# Where the servers must not read that they are someone's clients.
CLIENT_VARIABLES = ("MLFLOW_TRACKING_URI", "PREFECT_API_URL", "PREFECT_LOGGING_SETTINGS_PATH")
PORTS = {MLFLOW: (MLFLOW,), PREFECT: (PREFECT,), S3: definitions.S3_PORTS, RECEIVER: (RECEIVER,)}


@dataclass(frozen=True)
class Standing:
    """One service in the answer of `up`: its process, and how it has come up."""

    process: Process
    how: str


def up(settings: Settings, *, s3: bool = False, webhook: bool = False, report: Report | None = None) -> list[Standing]:
    """Starts the services of a project that are not up: MLflow, Prefect, a worker, with `s3` an S3 server, with `webhook`
    the receiver, and whatever was up and has died. `report` hears of each that is ready, from any thread.

    Errors: `UnavailableError` where one does not come up; what this call has started has ended then.
    """
    folder = services_of(settings.home)
    how: dict[str, str] = {}

    def note(name: str, word: str) -> None:
        how[name] = word
        if report is not None:
            report(name, word)

    with folder.locked():
        end([process for process in folder.read().values() if not process.alive])  # what they have left may hold their ports
        wanted = [MLFLOW, PREFECT, WORKER]
        wanted += [name for name, asked in ((S3, s3), (RECEIVER, webhook)) if asked or name in folder.read()]
        given = user_environment()
        base = {name: value for name, value in given.items() if name not in CLIENT_VARIABLES}
        start(_services(settings, folder, wanted, given), folder, base, settings.logs, settings.home.parent, note)
        found = folder.read()
    return [Standing(found[name], how[name]) for name in wanted]


def down(settings: Settings) -> list[str]:
    """Ends everything that `up` has started; the names of what was running."""
    folder = services_of(settings.home)
    if not folder.folder.is_dir():
        return []
    with folder.locked():
        processes = folder.read()
        running = [name for name, process in processes.items() if members(process)]
        finish(processes.values(), folder)
        if S3 in processes:
            definitions.remove_sockets(choose_ports(_ports_file(folder), (), ()))
    return running


def _services(settings: Settings, folder: ServiceFolder, wanted: list[str], given: Mapping[str, str]) -> list[Service]:
    secrets = folder.make_secrets()
    in_use = [port for name in folder.alive() for port in PORTS.get(name, ())]
    ports = choose_ports(_ports_file(folder), [port for name in wanted for port in PORTS.get(name, ())], in_use)
    api = f"{definitions.address(ports[PREFECT])}/api"
    urls = {name: definitions.address(ports[PORTS[name][0]]) for name in wanted if name in PORTS} | {PREFECT: api}
    client = _client_environment(settings, given) | variables(urls, secrets, given)
    own = EmbeddedSettings(settings.home)
    made = [
        definitions.mlflow_server(
            ports[MLFLOW],
            own.database,
            definitions.local_artifacts(own.artifacts),
            secrets["mlflow"],
            prepare=lambda: _make_database(own),
        ),
        definitions.prefect_server(ports[PREFECT], folder.folder / "prefect"),
        definitions.worker(WORKER, api, LIMIT, client),
    ]
    if S3 in wanted:
        made.append(definitions.s3_server(ports, settings.home / "s3", folder.folder / "s3.json", secrets["s3"]))
    if RECEIVER in wanted:
        secret = given.get("AITEST_WEBHOOK_SECRET") or secrets["webhook"]
        made.append(definitions.receiver(ports[RECEIVER], api, secret, client))
    return made


def _client_environment(settings: Settings, given: Mapping[str, str]) -> dict[str, str]:
    """What the user has set for runs, and the places of this project, for processes that stand elsewhere."""
    store = given.get("AITEST_STORE") or str(settings.home / "store")
    found = {name: given[name] for name in ("MLFLOW_TRACKING_URI",) if given.get(name)}
    return found | {
        "AITEST_STORE": store if "://" in store else str(Path(store).resolve()),
        "PREFECT_HOME": given.get("PREFECT_HOME") or str(settings.prefect_home),
    }


def _make_database(own: EmbeddedSettings) -> None:
    """MLflow's database as runs make it, under the same lock."""
    path = own.home / "mlflow.db"
    if not (path.exists() and path.stat().st_size):  # importing MLflow takes seconds
        from aitest_tasks.tracking import Tracking

        Tracking(own)


def _ports_file(folder: ServiceFolder) -> Path:
    return folder.folder / "ports.json"

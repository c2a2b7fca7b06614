"""The services that `aitest up` has started: which processes they are, and what a run must know to use them.

.aitest/services/state.json     {name: process}; no secrets
.aitest/services/ports.json     {name: port}; stays, so that an address (a webhook's, say) is the same the next time
.aitest/services/secrets.json   {name: secret}, mode 0600; stays
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from aitest_lib.errors import InputError
from aitest_tasks.processes import birth, boot

MLFLOW, PREFECT, WORKER, S3, RECEIVER = "MLflow", "Prefect", "worker", "S3", "receiver"
BUCKET, S3_KEY, REGION = "aitest", "aitest", "us-east-1"
WEBHOOK_PATH = "/webhooks/mlflow"
# Where one of these is set, the user has an object storage of his own, whose address or keys must not be mixed with ours.
OTHER_S3 = ("AWS_ENDPOINT_URL_S3", "AWS_SESSION_TOKEN", "AWS_PROFILE")


@dataclass(frozen=True)
class Process:
    """A process in the background: pid and birth say which one, `token` stands in the environment of all that it starts.

    `of` is a digest of its command and environment.
    """

    name: str
    url: str
    pid: int
    birth: str | None
    boot: str
    token: str
    log: str
    of: str
    stop_signal: int

    @property
    def alive(self) -> bool:
        """Does it run: it, and not another one that has its pid now."""
        return self.boot == boot() and birth(self.pid) == self.birth is not None and not _zombie(self.pid)


class ServiceFolder:
    """The files of the services of one project. Threads may share it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writing = threading.RLock()

    def read(self) -> dict[str, Process]:
        """The processes by name, whether they are alive or not."""
        try:
            return {name: Process(**item) for name, item in json.loads(self._state.read_text("utf-8")).items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def alive(self) -> dict[str, Process]:
        """Those that are alive."""
        return {name: process for name, process in self.read().items() if process.alive}

    def add(self, process: Process) -> None:
        """Records a process."""
        with self._writing:
            self._write(self.read() | {process.name: process})

    def remove(self, name: str) -> None:
        """Forgets a process; with the last one the file goes."""
        with self._writing:
            left = self.read()
            left.pop(name, None)
            self._write(left)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """A lock between processes that start or stop services; makes the folder."""
        if self.folder.is_file():
            raise InputError(f"{self.folder} is a file; move it away")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = (self.folder / "lock").open("w")
        except OSError as error:
            raise InputError(f"cannot write into {self.folder}: {error.strerror}; make it writable") from error
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def secrets(self) -> dict[str, str]:
        """The secrets; empty before the first start."""
        try:
            return dict(json.loads((self.folder / "secrets.json").read_text("utf-8")))
        except (OSError, ValueError):
            return {}

    def make_secrets(self) -> dict[str, str]:
        """The secrets, made where they are missing; whoever calls holds the lock."""
        made = {name: make() for name, make in SECRETS.items()} | self.secrets()
        write_private(self.folder / "secrets.json", json.dumps(made))
        return made

    @property
    def _state(self) -> Path:
        return self.folder / "state.json"

    def _write(self, processes: Mapping[str, Process]) -> None:
        if not processes:
            self._state.unlink(missing_ok=True)
            return
        write_private(self._state, json.dumps({name: asdict(process) for name, process in processes.items()}, indent=1))


def services_of(home: Path) -> ServiceFolder:
    """The services of a project; `home` is its `.aitest`."""
    return ServiceFolder(home / "services")


def variables(urls: Mapping[str, str], known: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """What the environment `given` lacks to use the services at `urls`; `known`: their secrets.

    What the user has set himself stands, and with it everything that belongs to it.
    """
    found: dict[str, str] = {}
    for name, variable in ((MLFLOW, "MLFLOW_TRACKING_URI"), (PREFECT, "PREFECT_API_URL")):
        if name in urls and not given.get(variable):
            found[variable] = urls[name]
    if S3 in urls:
        ours = {
            "AITEST_STORE": f"s3://{BUCKET}/store",
            "AWS_ENDPOINT_URL": urls[S3],
            "AWS_ACCESS_KEY_ID": S3_KEY,
            "AWS_SECRET_ACCESS_KEY": known["s3"],
        }
        if not any(given.get(name) for name in (*ours, *OTHER_S3)):
            found |= ours | ({} if given.get("AWS_DEFAULT_REGION") else {"AWS_DEFAULT_REGION": REGION})
    if RECEIVER in urls and not given.get("AITEST_WEBHOOK_URL"):
        found["AITEST_WEBHOOK_URL"] = urls[RECEIVER] + WEBHOOK_PATH
        if not given.get("AITEST_WEBHOOK_SECRET"):
            found["AITEST_WEBHOOK_SECRET"] = known["webhook"]
    return found


def write_private(path: Path, content: str) -> None:
    """Writes a file that only its owner can read; it is there as a whole or not at all."""
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(content)
    new.replace(path)


def _zombie(pid: int) -> bool:
    """Has the process ended, and only its parent has not noticed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return False


SECRETS: dict[str, Callable[[], str]] = {
    "s3": lambda: secrets.token_urlsafe(24),
    "webhook": lambda: secrets.token_urlsafe(32),
    "mlflow": lambda: base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),  # a Fernet key
    "postgresql": lambda: secrets.token_urlsafe(24),
}

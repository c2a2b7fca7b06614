"""PostgreSQL as a service: a cluster of its own in a folder, on the loopback interface, for Prefect and for MLflow."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path
from tempfile import NamedTemporaryFile

from aitest_flows.services.definitions import HOST
from aitest_flows.services.processes import Service
from aitest_lib.errors import InputError, UnavailableError

POSTGRESQL = "PostgreSQL"
OWNER = "aitest"  # the role that owns the databases
DATABASES = ("prefect", "mlflow")
DEBIAN = "/usr/lib/postgresql"  # programs stand in a folder for each version, which is on nobody's path


def postgresql(port: int, folder: Path, password: str) -> Service:
    """A server with its data in `folder`, and empty databases `prefect` and `mlflow` where there are none.

    PostgreSQL does not run as root: for root it runs as the user `postgres`, who has to be able to reach the folder.
    """
    user = None if os.geteuid() else _unprivileged()
    options = {"listen_addresses": HOST, "port": port, "unix_socket_directories": "", "max_connections": 200}
    return Service(
        name=POSTGRESQL,
        url=f"postgresql://{HOST}:{port}",
        command=[program("postgres"), "-D", str(folder), *(f"--{name}={value}" for name, value in options.items())],
        environment={},
        ready=lambda: _has_databases(port, password),
        prepare=lambda: _make_cluster(folder, password, user),
        stop_signal=signal.SIGINT,  # SIGTERM would wait for its clients
        user=user,
    )


def database_url(driver: str, port: int, password: str, name: str) -> str:
    """The SQLAlchemy URL of a database: `postgresql+asyncpg://…`."""
    return f"postgresql+{driver}://{OWNER}:{password}@{HOST}:{port}/{name}"


def program(name: str) -> str:
    """A program of PostgreSQL: on the path, or where Debian puts it, of the newest version."""
    newest = sorted(Path(DEBIAN).glob("*/bin"), key=lambda path: float(path.parent.name))
    found = shutil.which(name) or next((str(path / name) for path in reversed(newest) if (path / name).exists()), None)
    if found is None:
        raise UnavailableError(f"PostgreSQL's program {name} is not installed; on Debian: apt-get install postgresql")
    return found


def _unprivileged() -> str:
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        raise UnavailableError("there is no user postgres, as whom PostgreSQL runs for root; create it") from None


def _make_cluster(folder: Path, password: str, user: str | None) -> None:
    if (folder / "PG_VERSION").exists():
        return
    new = folder.with_name(f"{folder.name}-new")  # so that one that was cut short is not taken for a whole one
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700, parents=True)
    with NamedTemporaryFile("w") as file:
        file.write(password)
        file.flush()
        if user is not None:
            shutil.chown(new, user)
            shutil.chown(file.name, user)
        done = subprocess.run(
            [program("initdb"), "-D", str(new), "-U", OWNER, "--auth=scram-sha-256", f"--pwfile={file.name}", "--no-sync"],
            capture_output=True,
            text=True,
            cwd="/",
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            check=False,
        )
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        mend = f"; as root choose a folder that the user {user} can reach" if user else ""
        raise InputError(f"PostgreSQL could not make its files in {folder}: {why}{mend}")
    new.rename(folder)


def _has_databases(port: int, password: str) -> bool:
    """Makes the databases that are missing."""
    import psycopg2

    try:
        connection = psycopg2.connect(database_url("", port, password, "postgres").replace("+", ""), connect_timeout=5)
    except psycopg2.OperationalError:
        return False  # it is starting
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT datname FROM pg_database")
            there = {name for (name,) in cursor.fetchall()}
            for name in DATABASES:
                if name not in there:
                    cursor.execute(f"CREATE DATABASE {name}")
    finally:
        connection.close()
    return True

"""The project's own MLflow database: made whole beside its place, then moved there, so that nothing can leave half of it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

_MAKING = "mlflow-new-"  # a folder beside the database


def make_database(path: Path, artifact_location: str) -> None:
    """Makes a SQLite database with all of MLflow's migrations at `path`, where there is none; whoever calls holds a lock.

    `artifact_location`: of its `Default` experiment, which aitest does not use.
    """
    if path.exists() and path.stat().st_size:
        return
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    for left in path.parent.glob(f"{_MAKING}*"):  # by one that was killed
        shutil.rmtree(left, ignore_errors=True)
    with TemporaryDirectory(prefix=_MAKING, dir=path.parent, ignore_cleanup_errors=True) as folder:
        made = Path(folder) / path.name
        new: Any = SqlAlchemyStore  # it has no types
        new(f"sqlite:///{made}", artifact_location).engine.dispose()
        made.replace(path)


def holds_nothing(path: Path) -> bool:
    """Is this a SQLite database, and without any run of MLflow's."""
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            [known] = database.execute("SELECT COUNT(*) FROM sqlite_master WHERE name = 'runs'").fetchone()
            return not known or database.execute("SELECT 1 FROM runs LIMIT 1").fetchone() is None
    except sqlite3.Error:
        return False

"""The project's own MLflow database: made whole beside its place, then moved there, so that nothing can leave half of it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

_MAKING = "mlflow-new-"  # a folder beside the database


def make_database(path: Path, migrate: Callable[[str], None]) -> None:
    """Makes a SQLite database at `path`, where there is none; whoever calls holds a lock. `migrate` gets its URI."""
    if path.exists() and path.stat().st_size:
        return
    for left in path.parent.glob(f"{_MAKING}*"):  # by one that was killed
        shutil.rmtree(left, ignore_errors=True)
    with TemporaryDirectory(prefix=_MAKING, dir=path.parent, ignore_cleanup_errors=True) as folder:
        made = Path(folder) / path.name
        migrate(f"sqlite:///{made}")
        made.replace(path)


def holds_nothing(path: Path) -> bool:
    """Is this a SQLite database, and without any run of MLflow's."""
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            [known] = database.execute("SELECT COUNT(*) FROM sqlite_master WHERE name = 'runs'").fetchone()
            return not known or database.execute("SELECT 1 FROM runs LIMIT 1").fetchone() is None
    except sqlite3.Error:
        return False

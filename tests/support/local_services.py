"""The services of a team's installation as processes (`infra/local`), for tests of what takes more than one machine's worth."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from infra.local import stack  # noqa: E402
from infra.local.stack import LocalServices  # noqa: E402


@contextmanager
def local_services(folder: Path, workers: int = 2, limit: int = 2) -> Iterator[LocalServices]:
    """PostgreSQL, SeaweedFS, MLflow, Prefect, workers and the receiver, all up; killed on the way out.

    They are also ended when the test process is killed.
    """
    # PostgreSQL runs as another user for root, who cannot look into pytest's folders.
    database = Path(tempfile.mkdtemp(prefix="aitest-postgresql-"))
    if os.geteuid() == 0:
        database.chmod(0o755)
    watcher = subprocess.Popen(
        [
            "sh",
            "-c",
            'cat >/dev/null; "$@"; rm -rf "$0"',
            str(database),
            sys.executable,
            "-m",
            "infra.local",
            str(folder),
            "--down",
        ],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        services = stack.local_services(folder, workers=workers, limit=limit, database=database / "data")
        with stack.running(services, patience_s=3):
            yield services
    finally:
        watcher.communicate()
        shutil.rmtree(database, ignore_errors=True)

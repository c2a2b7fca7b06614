"""Starts the services of a team's installation as processes of this machine, and ends them on Ctrl-C or SIGTERM.

python -m infra.local FOLDER --workers 2 --limit 2
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from aitest_lib.errors import AitestError
from infra.local.stack import LocalServices, local_services, running, write_environment


def main() -> int:
    """The command; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m infra.local", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where data, logs and secrets are kept")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="how many workers (2)")
    parser.add_argument("--limit", type=int, default=2, metavar="N", help="flow runs that a worker takes at once (2)")
    parser.add_argument("--down", action="store_true", help="end what was left running in FOLDER, and start nothing")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = given.folder.resolve()
    try:
        if given.down:
            LocalServices(folder).stop(25)
            return 0
        print(f"starting in {folder}", flush=True)  # noqa: T201
        with running(local_services(folder, workers=given.workers, limit=given.limit)) as services:
            for process in services.state.read().values():
                print(f"{process.name:12} {process.url:40} pid {process.pid:<8} {process.log}")  # noqa: T201
            print(f"to use them, in another terminal: . {write_environment(services)}", flush=True)  # noqa: T201
            signal.pause()
    except KeyboardInterrupt:
        return 0
    except AitestError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())

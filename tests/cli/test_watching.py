"""`aitest status` on a terminal: live while the run goes on, from any folder with the same store, and no part of the run."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable

from projects import AITEST, Project, ended, new_project, people, until

PROPERTIES = [{"property": "tabular.generalization"}]


class Screen:
    """`aitest status` on a terminal of its own, and all that it has written there so far."""

    def __init__(self, project: Project) -> None:
        self.text = ""
        self._terminal, line = os.openpty()
        self.process = subprocess.Popen(
            [AITEST, "status"],
            cwd=project.folder,
            env=project.environment() | {"TERM": "xterm"},
            start_new_session=True,
            preexec_fn=lambda: os.login_tty(line),
        )
        os.close(line)
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def press(self, key: bytes) -> None:
        os.write(self._terminal, key)

    def end(self) -> int:
        code = self.process.wait(60)
        self._reading.join(60)
        os.close(self._terminal)
        return code

    def _read(self) -> None:
        while True:
            try:
                self.text += os.read(self._terminal, 65536).decode(errors="replace")
            except OSError:  # nobody writes any more
                return


def looks(screen: Screen, more_than: int) -> Callable[[], bool]:
    return lambda: screen.text.count("RUNNING") > more_than


def test_it_follows_a_run_to_its_end_and_leaves_it_alone(project, server, tmp_path):
    project.fill(server, people(300), properties=PROPERTIES, batch_size=32, concurrency=1, timeout_s=600)
    elsewhere = new_project(tmp_path / "elsewhere")
    elsewhere.env["AITEST_STORE"] = str(project.store)
    server.slow_s, server.plan = 600, lambda call: None if server.released.is_set() else "slow"
    run = project.start("run", "suite.yaml")
    assert until(lambda: server.calls)

    here, there = Screen(project), Screen(elsewhere)
    assert until(looks(here, 2)), here.text
    assert until(looks(there, 2)), there.text
    piped = elsewhere.cli("status")  # no terminal: once
    assert (piped.code, piped.out.count("RUNNING")) == (0, 1)

    here.press(b"\x03")  # Ctrl-C
    assert here.end() == 0
    assert run.poll() is None
    assert "Traceback" not in here.text

    server.released.set()
    assert ended(run).code == 0
    assert there.end() == 0
    last = there.text.rpartition("RUNNING")[2]
    assert "300" in last
    assert "INTERRUPTED" not in there.text

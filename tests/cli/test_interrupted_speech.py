"""A run on speech that is killed in the middle: nothing is heard twice but what was in flight."""

from __future__ import annotations

import os
import signal

from projects import ended, is_calm, new_project, until
from recognisers import serve
from speech_projects import CARD, FLITE, ROBUSTNESS, clips, filled, rows

PROPERTIES = [{"property": ROBUSTNESS, "transforms": [{"name": "white_noise", "snr_db": [30, 20, 10, 5]}]}]
CLIPS = clips(FLITE[:2], texts=5)


def test_a_killed_run_is_taken_up_where_it_was(tmp_path):
    whole = new_project(tmp_path / "whole")
    expected = rows(whole, filled(whole, PROPERTIES, rows=CLIPS).run())
    project = new_project(tmp_path / "killed")
    with serve("whisper", grammar=CARD["python"]["params"]["grammar"], slow_s=0.05) as service:
        project.env |= service.environment
        filled(project, PROPERTIES, rows=CLIPS, card=service.card)
        process = project.start("run", "suite.yaml")
        heard = service.recogniser
        assert until(lambda: heard.distinct > 25 or process.poll() is not None, 120)
        os.killpg(process.pid, signal.SIGKILL)
        ended(process)
        assert heard.distinct < 50
        resumed = project.cli("resume", "last", "--json", "r.json")
    assert resumed.code == 0, resumed.text
    assert is_calm(resumed.text)
    again = project.report("r.json")
    assert again["queries"]["planned"] == heard.distinct == 50
    assert rows(project, again) == expected
    in_flight = service.card["endpoint"].get("concurrency", 4)
    # Heard twice: what the probe asked again, and what was under way when it was killed.
    assert heard.repeated <= again["queries"]["sentinel"] + 1 + 5 * in_flight

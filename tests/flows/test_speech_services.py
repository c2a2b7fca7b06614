"""Services of the shapes of Whisper, Watson, Google, Amazon and Vosk, with a real recogniser behind them: one suite for all."""

from __future__ import annotations

import pytest
from projects import new_project, property_of
from recognisers import KINDS, serve
from speech_projects import CARD, FLITE, ROBUSTNESS, clips, filled, rows

GRAMMAR = CARD["python"]["params"]["grammar"]
SWEEP = [{"name": "white_noise", "snr_db": [20, 0]}]
PROPERTIES = [{"property": "speech.generalization"}, {"property": ROBUSTNESS, "transforms": SWEEP}]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The cases of the recogniser in a process of its own."""
    project = new_project(tmp_path_factory.mktemp("sphinx"))
    return rows(project, filled(project, PROPERTIES, rows=clips(FLITE[:1], texts=4)).run())


@pytest.mark.parametrize("kind", KINDS)
def test_a_service_gives_the_cases_of_its_recogniser_and_hears_no_clip_twice(kind, expected, tmp_path):
    project = new_project(tmp_path / "project")
    with serve(kind, grammar=GRAMMAR, busy=1) as service:
        project.env |= service.environment
        report = filled(project, PROPERTIES, rows=clips(FLITE[:1], texts=4), card=service.card).run()
    assert rows(project, report) == expected
    queries = report["queries"]
    assert queries["errors"] == 0 and queries["planned"] == queries["sent"] == service.recogniser.distinct == 12
    assert service.recogniser.repeated == queries["sentinel"] + 1  # the probe asks its clips again, and the first one alone
    empty = [case for case in property_of(report, ROBUSTNESS)["metrics"] if case["name"] == "empty_rate"]
    assert max(one["value"] for one in empty) > 0.5  # at 0 dB nothing is heard, and that is an answer

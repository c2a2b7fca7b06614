"""Speech that would mislead: wrong groups, copies of clips, voices that fail on a text, gates that nothing can decide."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile
from projects import new_project, property_of
from speech_projects import CARD, FAIRNESS, FLITE, GENERALIZATION, ROBUSTNESS, clips, filled, rows

from aitest_flows import api
from aitest_lib.config.suite import load_suite
from aitest_lib.models.pocketsphinx import PocketSphinx
from aitest_tasks.runs import find_run, fingerprints
from aitest_tasks.settings import open_settings

SLT = {"voice": "slt", "engine": "flite", "groups": {"gender": "female"}}
RMS = {"voice": "rms", "engine": "flite", "groups": {"gender": "male"}}
BY_GENDER = {"test": "clips.csv", "protected": ["gender"]}


@pytest.fixture
def project(tmp_path):
    return new_project(tmp_path / "project")


def fairness(**more):
    return [{"property": FAIRNESS, "gates": {"wer_gap": {"max": 0.05}}, **more}]


def robustness(*transforms, **gates):
    return [{"property": ROBUSTNESS, "transforms": list(transforms), "gates": gates}]


NOISE = {"name": "white_noise", "snr_db": [20, 5]}


@pytest.mark.parametrize(
    ("properties", "data", "message"),
    [
        (fairness(), {"gender": {"privileged": "alien"}}, "data.protected.gender.privileged: unknown group 'alien'"),
        (fairness(), {"speaker": {}, "copy": {}}, "got 1 groups in the column copy"),
        (fairness(), {}, "compares groups of speakers"),
        (fairness(voices=[SLT, {"voice": "rms", "engine": "flite"}]), {}, "give the voices `groups`"),
        (robustness(NOISE, wer={"min": 0.1}), {}, "the less of it the better"),
        (robustness(NOISE, wer={"max": 0.1, "slice": {"snr_db": 7}}), {}, "no transform of the property has snr_db 7"),
        (robustness(NOISE, wer={"max": 0.1, "slice": {"size": 7}}), {}, "unknown slice 'size'"),
        (robustness({**NOISE, "snr_dB": 3}), {}, "snr_dB"),
        (robustness({"name": "interference", "noise": "rian"}), {}, "did you mean rain"),
        ([{"property": GENERALIZATION, "normalizer": "standrad"}], {}, "did you mean standard"),
        ([{"property": GENERALIZATION, "voices": [SLT, RMS]}], {}, "compares no voices"),
    ],
)
def test_what_could_not_be_judged_is_told_before_anything_is_asked(properties, data, message, project):
    given = [row | {"copy": "x"} for row in clips(FLITE, texts=1)]
    filled(project, properties, rows=given, data={"test": "clips.csv", "protected": data})
    ended = project.here("run", "suite.yaml")
    assert ended.code == 2 and message in ended.text, ended.text
    assert "Traceback" not in ended.text and not (project.store / "runs").exists()


def test_a_speaker_in_two_groups_is_named(project):
    given = [*clips(FLITE[:2], texts=1), clips(FLITE[:1], texts=2)[1] | {"gender": "male"}]
    ended = filled(project, fairness(), rows=given, data=BY_GENDER).here("run", "suite.yaml")
    assert ended.code == 2 and "got speaker 'flite slt' in two groups" in ended.text
    hidden = BY_GENDER | {"schema": {"speaker": {"private": True}}}
    ended = filled(project, fairness(), rows=given, data=hidden).here("run", "suite.yaml")
    assert ended.code == 2 and "a speaker in two groups" in ended.text and "flite slt" not in ended.text


def test_a_private_speaker_is_still_one_speaker(project):
    given = clips((*FLITE, "flite kal16", "espeak-ng en-us+f3"), texts=2)
    open_ = property_of(filled(project, fairness(), rows=given, data=BY_GENDER).run(), FAIRNESS)
    data = BY_GENDER | {"schema": {"speaker": {"private": True}}}
    hidden = property_of(filled(project, fairness(), rows=given, data=data).run(), FAIRNESS)
    assert hidden["speech"]["bounds_by"] == open_["speech"]["bounds_by"] == "speaker"
    assert hidden["speech"]["clean"] == open_["speech"]["clean"]
    assert sorted(one["name"] for one in hidden["speech"]["speakers"]) == [f"speaker {number}" for number in range(1, 6)]


def test_clips_of_unknown_speakers_make_no_speakers_and_copies_no_precision(project):
    given = clips(("flite slt", "espeak-ng de"), texts=4)
    single = property_of(filled(project, fairness(), rows=given, data=BY_GENDER).run(), FAIRNESS)
    blank = [row | {"speaker": ""} if place % 2 else row for place, row in enumerate(given)]
    found = property_of(filled(project, fairness(), rows=blank, data=BY_GENDER).run(), FAIRNESS)
    assert "nobody knows who speaks in 4 of 8 clips" in found["gates"][0]["reason"]
    fourfold = property_of(filled(project, fairness(), rows=given * 4, data=BY_GENDER).run(), FAIRNESS)
    bounds = [(one["speech"]["clean"]["low"], one["speech"]["clean"]["high"]) for one in (single, fourfold)]
    assert bounds[0] == pytest.approx(bounds[1], rel=0.01)  # one imagined clip among four times as many


def test_what_a_voice_fails_to_say_is_an_error_and_is_tried_again_in_the_next_run(project):
    program = project.folder / "voice.sh"
    program.write_text('#!/bin/sh\n[ "$2" = "keep holding" ] && exit 3\nflite -voice rms -t "$2" -o "$1"\n')
    program.chmod(0o755)
    broken = {"voice": "rms", "command": ["./voice.sh", "{out}", "{text}"], "groups": {"gender": "male"}}
    suite = {"max_error_rate": 0.5}
    first = filled(project, fairness(voices=[SLT, broken]), rows=clips(FLITE[:1], texts=3), **suite).run()
    found = property_of(first, FAIRNESS)
    assert found["cases"] == {"total": 3, "passed": 2, "failed": 0, "skipped": 0, "error": 1}
    assert any("status 3" in reason for reason in found["errors"])
    words = {group["errors"]["words"] for group in found["speech"]["disparities"][0]["groups"]}
    assert words == {8}  # of the texts that both have said
    program.write_text('#!/bin/sh\nflite -voice rms -t "$2" -o "$1"\n')
    assert property_of(project.run(), FAIRNESS)["cases"]["passed"] == 3


def test_a_run_with_voices_is_what_its_record_says(project):
    http = {"url": "http://127.0.0.1:9/say", "request": '{"t": {{ text|tojson }}}', "timeout_s": 5}
    voices = [SLT, RMS, {"voice": "a", "http": http}, {"voice": "b", "command": ["x", "{out}"]}]
    project.env |= {}
    report = filled(project, fairness(voices=[SLT, RMS]), rows=clips(FLITE[:1], texts=1)).run()
    with project.entered():
        run = find_run(open_settings().store, report["run_id"])
        assert fingerprints(run.suite) == run.record["fingerprints"]
    filled(project, fairness(voices=voices), rows=clips(FLITE[:1], texts=1))
    loaded = load_suite(project.folder / "suite.yaml")
    again = loaded.suite.model_dump(mode="json", by_alias=True, exclude_none=True)
    project.write("again.yaml", again)
    assert fingerprints(load_suite(project.folder / "again.yaml")) == fingerprints(loaded)


def test_a_voice_says_a_text_once_however_many_clips_have_it(project):
    report = filled(project, fairness(voices=[SLT, RMS]), rows=clips(FLITE, texts=2)).run()
    found = property_of(report, FAIRNESS)
    assert found["cases"]["passed"] == 2 and found["skipped"] == {"not_applicable": 4}
    assert found["speech"]["clean"]["clips"] == 4  # two texts by two voices


def test_the_gate_of_what_changes_nothing_is_skipped(project):
    gates = {"wer_rise": {"max": 0.1}}
    transforms = [{"name": "speed", "factor": 1.0}, {"name": "interference", "noise": "rain", "theta": 1.0}, NOISE]
    found = property_of(filled(project, robustness(*transforms, **gates), rows=clips(FLITE[:1], texts=1)).run(), ROBUSTNESS)
    verdicts = [gate["verdict"] for gate in found["gates"]]
    assert verdicts[:2] == ["skipped", "skipped"] and "skipped" not in verdicts[2:]
    assert found["gates"][0]["reason"] == "it leaves every clip as it is"


def test_silent_clips_and_what_cannot_be_used_are_told_and_not_counted(project):
    given = clips(FLITE[:1], texts=2)
    bad = {"nan.wav": np.full(8_000, np.nan), "opposite.wav": np.array([[0.5, -0.5]] * 8_000), "loud.wav": np.array([2.0] * 99)}
    for name, samples in bad.items():
        soundfile.write(project.folder / name, samples, 16_000, subtype="FLOAT")
    soundfile.write(project.folder / "silent.wav", np.zeros(8_000), 16_000)
    given += [{**given[0], "path": name} for name in (*bad, "silent.wav", "gone.wav")]
    report = filled(project, robustness(NOISE), rows=given).run()
    assert report["provenance"]["unreadable"] == 3  # nan, opposite, gone
    assert report["provenance"]["converted"]["silent, kept"] == 1
    assert report["provenance"]["converted"]["scaled down to full scale"] == 1
    ended = {(case[6], case[7]) for case in rows(project, report) if case[6] == "skipped"}
    assert ("skipped", "not_applicable") in ended


def test_clips_in_memory_are_audited(project):
    read = [soundfile.read(row["path"], dtype="float32") for row in clips(FLITE[:1], texts=2)]
    texts = [row["text"] for row in clips(FLITE[:1], texts=2)]
    model = PocketSphinx(CARD["python"]["params"]["grammar"])
    with project.entered():
        report = api.audit(model=model, data=([(samples, rate) for samples, rate in read], texts), sample="all")
    assert [item.property for item in report.properties] == [GENERALIZATION, ROBUSTNESS]
    assert report.properties[0].speech.clean.wer == 0

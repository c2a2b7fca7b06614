"""Fairness of speech in whole runs: by those who speak in the clips, and by voices of real engines that say the same texts."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import soundfile
from projects import new_project, property_of
from speech_projects import CARD, FAIRNESS, FLITE, clips, filled

SHARED = Path(os.environ.get("AITEST_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
SLT = {"voice": "slt", "engine": "flite", "groups": {"gender": "female"}}
RMS = {"voice": "rms", "engine": "flite", "groups": {"gender": "male"}}
GATE = {"gates": {"wer_gap": {"max": 0.05}}}
FEW = "these voices differ, not the groups"


@pytest.fixture
def project(tmp_path):
    return new_project(tmp_path / "project")


def by_voices(project, voices, texts=3, **more):
    item = {"property": FAIRNESS, "voices": voices, **GATE, **more}
    report = filled(project, [item], rows=clips(FLITE[:1], texts=texts)).run()
    return report, property_of(report, FAIRNESS)


def speaker(found, name):
    return next(one for one in found["speech"]["speakers"] if one["name"] == name)


def test_groups_of_those_who_speak_are_compared_by_speaker(project):
    rows = clips((*FLITE, "flite kal16", "espeak-ng de"))
    item = {"property": FAIRNESS, **GATE}
    report = filled(project, [item], rows=rows, data={"test": "clips.csv", "protected": ["accent"]}).run()
    found = property_of(report, FAIRNESS)
    [disparity] = found["speech"]["disparities"]
    groups = {group["name"]: group for group in disparity["groups"]}
    assert {name: group["speakers"] for name, group in groups.items()} == {"US": 3, "Scottish": 1, "German": 1}
    assert groups["German"]["gap"] > 0.5 and groups["German"]["errors"]["clips"] == 5
    assert FEW in disparity["unjudged"]
    assert speaker(found, "espeak-ng de")["errors"]["wer"] > 0.5 > speaker(found, "flite awb")["errors"]["wer"]
    [gate] = found["gates"]
    assert gate["verdict"] == "inconclusive" and FEW in gate["reason"] and gate["slice"] == {"attribute": "accent"}
    assert found["status"] == "inconclusive" and FEW in found["explanation"]


def test_without_speakers_nothing_can_be_said_of_groups(project):
    rows = [{key: value for key, value in row.items() if key != "speaker"} for row in clips((*FLITE, "espeak-ng de"), texts=2)]
    item = {"property": FAIRNESS, **GATE}
    report = filled(project, [item], rows=rows, data={"test": "clips.csv", "protected": ["accent"]}).run()
    found = property_of(report, FAIRNESS)
    assert "no column `speaker`" in found["gates"][0]["reason"] and found["status"] == "inconclusive"
    assert found["speech"]["disparities"][0]["groups"][-1]["p_value"] is None


def test_a_voice_is_compared_with_the_original_text_by_text(project):
    report, found = by_voices(project, [SLT, RMS, {"voice": "fr", "groups": {"gender": "male"}}])
    cases = project.cases(report, FAIRNESS).to_pandas()
    assert set(cases["transform"]) == {"voice rms (flite)", "voice fr (espeak-ng)"}
    assert len(cases) == 6 and found["speech"]["synthetic"]
    assert (cases[cases["transform"] == "voice rms (flite)"]["outcome"] == "passed").all()
    french = cases[cases["transform"] == "voice fr (espeak-ng)"]
    assert (french["outcome"] == "failed").any()
    assert french[french["outcome"] == "failed"]["explanation"].str.contains("slt").all()
    names = {(one["name"], tuple(one["slice"].items())) for one in found["metrics"]}
    assert ("wer_rise", (("transform", "voice"), ("voice", "rms (flite)"))) in names


def test_a_voice_that_changes_nothing_is_found_out(project):
    twins = [SLT, {"voice": "en-gb", "groups": {"gender": "male"}}, {"voice": "en-gb+f3", "groups": {"gender": "female"}}]
    report, found = by_voices(project, twins)
    cases = project.cases(report, FAIRNESS).to_pandas()
    same = cases[cases["transform"] == "voice en-gb+f3 (espeak-ng)"]
    assert set(zip(same["outcome"], same["reason"], strict=True)) == {("skipped", "no_op")}
    assert speaker(found, "en-gb+f3 (espeak-ng)")["excluded"] == "it sounds exactly like en-gb (espeak-ng)"
    assert report["queries"]["sent"] == 3 + 2 * 3  # what sounds the same is asked once


@pytest.mark.parametrize(
    ("voice", "message"),
    [
        ({"voice": "nosuch", "engine": "flite"}, "unknown voice of flite 'nosuch'"),
        ({"voice": "en-gb+zzz"}, "properties[0].voices[1]"),
        ({"voice": "x", "command": ["false", "{out}"]}, "status 1"),
    ],
)
def test_a_voice_that_is_not_there_is_one_message_before_anything_is_asked(voice, message, project):
    filled(project, [{"property": FAIRNESS, "voices": [SLT, voice]}], rows=clips(FLITE[:1], texts=1))
    ended = project.here("run", "suite.yaml")
    assert ended.code == 2 and message in ended.text and "properties[0].voices[1]" in ended.text
    assert "Traceback" not in ended.text


def second(project, texts):
    grammar = CARD | {"name": "second", "python": {**CARD["python"], "params": {"grammar": texts}}}
    project.write("second.yaml", grammar)


def test_a_voice_that_is_not_understood_leaves_its_groups_unjudged_unless_a_second_recogniser_fails_too(project, tmp_path):
    misheard = {"voice": "fr", "groups": {"gender": "male"}}
    _, found = by_voices(project, [SLT, RMS, misheard])
    assert "fr (espeak-ng) is not understood" in found["speech"]["disparities"][0]["unjudged"]
    assert "is not understood" in found["gates"][0]["reason"] and found["gates"][0]["verdict"] == "inconclusive"
    assert speaker(found, "fr (espeak-ng)")["excluded"] is None
    other = new_project(tmp_path / "other")
    second(other, CARD["python"]["params"]["grammar"])  # hears as badly
    _, found = by_voices(other, [SLT, RMS, misheard], reference_model="second.yaml")
    assert "a second recogniser does not understand it either" in speaker(found, "fr (espeak-ng)")["excluded"]
    assert "not understood" not in found["speech"]["disparities"][0]["unjudged"]
    better = new_project(tmp_path / "better")
    (better.folder / "hears.py").write_text(
        "BY_LENGTH = ['i am ready', 'keep holding', 'can i talk to someone']\n"
        "class Hears:\n"
        "    def predict(self, clips, sample_rate):\n"
        "        order = sorted(range(len(clips)), key=lambda at: len(clips[at]))\n"
        "        return [BY_LENGTH[order.index(at)] for at in range(len(clips))]\n"
    )
    known = {key: CARD[key] for key in ("revision", "type", "inputs")}
    better.write("second.yaml", known | {"name": "second", "python": {"callable": "hears:Hears", "path": ["."]}})
    _, found = by_voices(better, [SLT, RMS, misheard], reference_model="second.yaml")
    assert speaker(found, "fr (espeak-ng)")["excluded"] is None
    assert "a second recogniser does" in speaker(found, "fr (espeak-ng)")["note"]


def test_programs_and_functions_of_the_user_are_voices_too(project):
    (project.folder / "my_voices.py").write_text(
        "import io, subprocess\nimport soundfile\n"
        "def speak(text, voice):\n"
        "    command = ['espeak-ng', '-v', voice, '--stdout', '--', text]\n"
        "    audio = subprocess.run(command, capture_output=True, check=True).stdout\n"
        "    return soundfile.read(io.BytesIO(audio), dtype='float32')\n"
    )
    voices = [
        SLT,
        {
            "voice": "awb",
            "command": ["flite", "-voice", "{voice}", "-t", "{text}", "-o", "{out}"],
            "groups": {"gender": "male"},
        },
        {"voice": "en-us+f3", "callable": "my_voices:speak", "groups": {"gender": "female"}},
    ]
    report, found = by_voices(project, voices, texts=2)
    assert report["queries"]["errors"] == 0 and found["cases"]["total"] == found["cases"]["passed"] == 4
    assert [one["name"] for one in found["speech"]["speakers"]] == ["slt (flite)", "awb (command)", "en-us+f3 (callable)"]


@pytest.mark.shared
@pytest.mark.skipif(not (SHARED / "spoken_digits120.npz").exists(), reason=f"{SHARED / 'spoken_digits120.npz'} is not there")
def test_six_people_say_digits_and_the_verdict_is_about_their_voices(project):
    with np.load(SHARED / "spoken_digits120.npz") as file:
        audio, length = file["audio"], file["length"]
        digit, who, accent = file["digit"], file["speaker"], file["accent"]
    ends = np.cumsum(length)
    rows = []
    for place, (start, end) in enumerate(zip(ends - length, ends, strict=True)):
        samples = audio[start:end] if audio.ndim == 1 else audio[place, : length[place]]
        name = f"{place}.wav"
        soundfile.write(project.folder / name, samples.astype(np.int16), 8_000)
        rows.append({"path": name, "text": DIGITS[int(digit[place])], "speaker": str(who[place]), "accent": str(accent[place])})
    card = CARD | {"python": {**CARD["python"], "params": {"grammar": DIGITS}}}
    data = {"test": "clips.csv", "protected": ["accent"]}
    report = filled(project, [{"property": FAIRNESS, **GATE}], rows=rows, card=card, data=data).run()
    found = property_of(report, FAIRNESS)
    assert report["provenance"]["converted"] == {"resampled from 8000 Hz": 120}
    assert len(found["speech"]["speakers"]) == 6
    [disparity] = found["speech"]["disparities"]
    assert len(disparity["groups"]) == 4 and FEW in disparity["unjudged"]
    assert found["gates"][0]["verdict"] == "inconclusive"
    assert sum(group["errors"]["clips"] for group in disparity["groups"]) == 120

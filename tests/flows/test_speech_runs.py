"""Runs on speech: everything asked once, the same cases whatever the order and the workers, noises, breaking points, slices."""

from __future__ import annotations

import json

import jiwer
import numpy as np
import pytest
import soundfile
from projects import new_project, property_of
from speech_projects import CARD, FLITE, GENERALIZATION, ROBUSTNESS, clips, filled, measured, rows

from aitest_lib.artifacts.clips import get_clips
from aitest_lib.artifacts.store import Store
from aitest_lib.types import ArtifactRef


@pytest.fixture
def project(tmp_path):
    return new_project(tmp_path / "project")


def metric(found, name, **slice):
    return next(one for one in found["metrics"] if one["name"] == name and one["slice"] == slice)


def test_noise_breaks_a_recogniser_and_every_figure_is_that_of_its_cases(project):
    report = filled(project).run()
    found = property_of(report, ROBUSTNESS)
    cases = project.cases(report, ROBUSTNESS).to_pandas()
    assert len(cases) == 3 * 15 and report["queries"]["errors"] == 0
    assert report["queries"]["planned"] == report["queries"]["sent"] == 4 * 15
    noisy = cases[(cases["transform"] == "white_noise") & (cases["strength"] == 5)]
    said, heard = noisy["expected"].tolist(), noisy["observed"].fillna("").tolist()  # heard untouched, and in noise
    assert said == [text for text in said if text in CARD["python"]["params"]["grammar"]]
    wer = metric(found, "wer", transform="white_noise", snr_db=5.0)
    assert wer["value"] == pytest.approx(jiwer.wer(said, heard)) and wer["value"] > 0.3
    assert metric(found, "mean_wer", transform="white_noise", snr_db=5.0)["value"] == pytest.approx(noisy["score"].mean())
    rise = metric(found, "wer_rise", transform="white_noise", snr_db=5.0)
    assert rise["value"] == pytest.approx(
        wer["value"] - metric(found, "clean_wer", transform="white_noise", snr_db=5.0)["value"]
    )
    assert metric(found, "wer", transform="white_noise", snr_db=20.0)["value"] <= 0.1
    failed = noisy[noisy["outcome"] == "failed"]
    assert (failed["score"] > 0.1).all() and (noisy[noisy["outcome"] == "passed"]["score"] <= 0.1).all()
    assert failed["explanation"].str.startswith("with white noise at 5 dB").all()
    assert all(
        abs(one["snr_db"] - float(strength)) < 0.1
        for one, strength in zip(measured(project, report), cases["strength"], strict=True)
    )
    assert set(found["speech"]) >= {"normalizer", "clean", "sweeps"}
    assert [sweep["transform"] for sweep in found["speech"]["sweeps"]] == ["white_noise", "interference rain"]


def test_a_second_run_asks_sentinels_only(project):
    filled(project)
    first = project.run()
    again = project.run()
    assert again["queries"]["sent"] == 0 and again["queries"]["sentinel"] == 15
    assert rows(project, again) == rows(project, first)


def test_cases_are_the_same_whatever_the_order_and_the_workers(project, tmp_path):
    first = rows(project, filled(project).run())
    other = new_project(tmp_path / "other")
    shuffled = [clips()[place] for place in np.random.default_rng(0).permutation(15)]
    assert rows(other, filled(other, rows=shuffled).run("--workers", "1")) == first


def test_a_stored_case_is_the_clip_in_noise_at_the_ratio_asked_for(project):
    report = filled(project, rows=clips(FLITE[:1], texts=2)).run()
    case = next(row for row in project.cases(report, ROBUSTNESS).to_pylist() if row["strength"] == 5)
    uri, _, place = case["input_uri"].rpartition("#")
    root, _, path = uri.partition("/objects/")
    stored = ArtifactRef(uri=f"objects/{path}", digest=path.replace("/", "").partition(".")[0], codec="parquet", rows=2)
    noisy = get_clips(Store(root), stored)[int(place)].samples
    text = case["expected"]
    source = next(row["path"] for row in clips(FLITE[:1]) if row["text"] == text)
    clean = soundfile.read(source, dtype="float32")[0]
    noise = noisy - clean
    ratio = 10 * np.log10(np.var(clean) / np.var(noise))
    assert ratio == pytest.approx(5, abs=0.1)


def test_breaking_points_are_signal_to_noise_ratios(project):
    search = [{"name": "white_noise", "strength": "breaking_point"}]
    report = filled(project, [{"property": ROBUSTNESS, "transforms": search}], rows=clips(FLITE[:2], texts=2)).run()
    [points] = property_of(report, ROBUSTNESS)["breaking_points"]
    assert points["parameter"] == "snr_db" and points["unit"] == "dB"
    assert points["levels"] == sorted(points["levels"], reverse=True) and points["levels"][-1] == -10
    assert points["unbroken"] == 0 and -10 <= points["median"] <= 15
    for case in project.cases(report, ROBUSTNESS).to_pylist():
        assert case["outcome"] == "failed" and case["strength"] is not None
        assert case["query_cost"] <= 16 and "dB" in case["explanation"]


def test_recordings_of_the_user_are_noise_too(project):
    rng = np.random.default_rng(0)
    for label, scale in (("tram", 0.1), ("kitchen", 0.02)):
        folder = project.folder / "noises" / label
        folder.mkdir(parents=True)
        soundfile.write(folder / "one.wav", rng.normal(0, scale, 44_100 * 3), 44_100)
    sweep = [{"name": "interference", "recordings": "noises", "noise": ["tram", "kitchen"], "snr_db": 0}]
    report = filled(project, [{"property": ROBUSTNESS, "transforms": sweep}], rows=clips(FLITE[:1], texts=3)).run()
    found = property_of(report, ROBUSTNESS)
    assert [one["transform"] for one in found["speech"]["sweeps"]] == [
        "interference tram",
        "interference kitchen",
    ]
    assert all(abs(one["snr_db"]) < 0.1 for one in measured(project, report))
    bad = [{"name": "interference", "recordings": "noises", "noise": "trams", "snr_db": 0}]
    ended = filled(project, [{"property": ROBUSTNESS, "transforms": bad}]).here("run", "suite.yaml")
    assert ended.code == 2 and "unknown noise 'trams'" in ended.text and "tram" in ended.text


def test_generalization_tells_every_slice_and_the_clips_that_cannot_be_used(project):
    given = clips(("flite slt", "espeak-ng de"), texts=4)
    (project.folder / "cut.wav").write_bytes(b"RIFF")
    silent = {**given[0], "path": str(project.folder / "silent.wav"), "text": ""}
    soundfile.write(silent["path"], np.zeros(16_000), 16_000)
    broken = {**given[0], "path": str(project.folder / "cut.wav")}
    suite = [{"property": GENERALIZATION, "gates": {"wer": {"max": 0.9}}}]
    report = filled(project, suite, rows=[*given, broken, silent]).run()
    found = property_of(report, GENERALIZATION)
    assert report["provenance"]["unreadable"] == 1 and report["provenance"]["seeds"] == 9
    assert metric(found, "wer", speaker="flite slt")["value"] == 0
    assert metric(found, "wer", speaker="espeak-ng de")["value"] > 0.5
    assert found["speech"]["silent_clips"] == 1 and found["speech"]["clean"]["clips"] == 8
    failed = [case for case in project.cases(report, GENERALIZATION).to_pylist() if case["outcome"] == "failed"]
    assert failed and all(case["score"] > 0.5 for case in failed)
    assert all("WER" in case["explanation"] for case in failed)


def test_without_transcripts_the_models_own_words_are_the_measure(project):
    given = [{"path": row["path"]} for row in clips(FLITE[:1])]
    report = filled(project, rows=given).run()
    found = property_of(report, ROBUSTNESS)
    assert found["speech"]["own_reference"] and found["speech"]["clean"]["wer"] == 0
    assert not [one for one in found["metrics"] if one["name"] == "accuracy"]
    assert metric(found, "wer", transform="white_noise", snr_db=5.0)["value"] > 0.2


def test_what_a_dry_run_says_is_what_a_run_asks(project):
    ended = filled(project, rows=clips(FLITE[:2], texts=2)).here("run", "suite.yaml", "--dry-run")
    assert ended.code == 0 and "16" in ended.text, ended.text
    assert project.run()["queries"]["sent"] == 16


def test_a_replayed_case_reproduces_and_two_runs_compare_case_by_case(project):
    report = filled(project, rows=clips(FLITE[:1], texts=4)).run()
    case = next(row for row in project.cases(report, ROBUSTNESS).to_pylist() if row["outcome"] == "failed")
    ended = project.here("replay", "last", case["case_id"][:12])
    assert ended.code == 0 and "REPRODUCES" in ended.text, ended.text
    deaf = CARD | {"revision": "2", "python": {**CARD["python"], "params": {"grammar": ["repeat please"]}}}
    changed = filled(project, rows=clips(FLITE[:1], texts=4), card=deaf).run()
    ended = project.here("compare", report["run_id"], changed["run_id"], "--format", "json")
    assert ended.code == 0, ended.text
    assert json.loads(ended.out)["properties"]


def test_the_resampled_clip_is_what_is_sent_where_the_card_says_a_rate(project):
    samples, _ = soundfile.read(clips(FLITE[:1])[0]["path"], dtype="float32")
    path = project.folder / "fast.wav"
    soundfile.write(path, np.repeat(samples, 3), 48_000)
    given = [{**clips(FLITE[:1])[0], "path": str(path)}]
    report = filled(project, [{"property": GENERALIZATION}], rows=given).run()
    assert report["provenance"]["converted"] == {"resampled from 48000 Hz": 1}
    assert project.cases(report, GENERALIZATION).to_pylist()[0]["observed"] == given[0]["text"]

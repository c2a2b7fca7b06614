"""Clips that cannot be used: broken ones are listed one by one and end nothing; what no run can go on with is one message."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import clips
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitest_lib.config.inputs import Speech
from aitest_lib.data.audio import AudioSource, audio_memory_source
from aitest_lib.data.audio_decoding import decode_audio, fitted, of_array
from aitest_lib.data.audio_format import UnreadableAudio
from aitest_lib.errors import InputError, UnavailableError

GOOD, BAD = clips.good_files(), clips.bad_files()


def problem(source: AudioSource) -> str:
    with pytest.raises(InputError) as caught:
        source.index()
    text = str(caught.value)
    assert "\n" not in text
    return text


def reasons(source: AudioSource) -> dict[str, str]:
    unreadable = source.index().unreadable
    assert all("\n" not in one.reason and len(one.reason) < 200 for one in unreadable)
    return {one.place: one.reason for one in unreadable}


class TestBrokenFiles:
    @pytest.mark.parametrize("name", BAD)
    def test_have_one_reason(self, name):
        data, reason = BAD[name]
        with pytest.raises(UnreadableAudio) as caught:
            decode_audio(data)
        assert reason in str(caught.value)

    def test_are_listed_and_the_others_are_read(self, tmp_path):
        clips.write_all(tmp_path / "bad", BAD)
        clips.write_all(tmp_path / "good", GOOD)
        source = AudioSource(str(tmp_path))
        found = reasons(source)
        assert set(found) == {f"bad/{name}" for name in BAD}
        assert all(BAD[place.removeprefix("bad/")][1] in reason for place, reason in found.items())
        assert source.rows == len(BAD) + len(GOOD) == source.table.rows
        assert source.index().positions.tolist() == list(range(len(BAD), source.rows))

    def test_are_listed_in_manifests(self, tmp_path):
        clips.write_all(tmp_path, {**BAD, "ok.wav": GOOD["a.wav"]})
        paths = ["ok.wav", *BAD, None, "nowhere.wav", "s3://b/a.wav", ".", "nul\0.wav"]
        pd.DataFrame({"path": paths, "text": "yes"}).to_parquet(tmp_path / "m.parquet")
        listed = reasons(AudioSource(str(tmp_path / "m.parquet")))
        assert all(reason in listed[name] for name, (_, reason) in BAD.items())
        assert {name: reason for name, reason in listed.items() if name not in BAD} == {
            f"row {len(BAD) + 1}": "its row has no path",
            "nowhere.wav": "there is no such file",
            "s3://b/a.wav": "its path begins with s3://, expected one relative to the manifest",
            ".": "it is a folder",
            "nul\0.wav": "it cannot be read: embedded null byte",
        }

    def test_so_are_huge_files_and_pipes(self, tmp_path):
        for name in ("ok.wav", "huge.wav"):
            (tmp_path / name).write_bytes(GOOD["a.wav"][0])
        os.truncate(tmp_path / "huge.wav", 2 << 30)
        os.mkfifo(tmp_path / "pipe.wav")
        assert reasons(AudioSource(str(tmp_path))) == {
            "huge.wav": "it has more than 512 MiB",
            "pipe.wav": "it is no regular file",
        }

    def test_a_file_that_vanishes_is_listed_and_later_missed(self, tmp_path):
        clips.write_all(tmp_path, {"0.wav": GOOD["a.wav"], "1.wav": GOOD["float.wav"]})
        source = AudioSource(str(tmp_path))
        before, digest = source.index(), source.digest()
        (tmp_path / "1.wav").unlink()
        assert reasons(source) == {"1.wav": "there is no such file"}
        assert source.digest() != digest
        with pytest.raises(InputError, match=r"1\.wav has changed since it was read: there is no such file"):
            list(source.clips(before.positions))

    def test_only_broken_files_are_one_message(self, tmp_path):
        clips.write_all(tmp_path, BAD)
        assert f"none of {len(BAD)} clips can be used; a.aac: its content is AAC" in problem(AudioSource(str(tmp_path)))

    def test_cost_not_a_word(self, tmp_path):
        clips.write_all(tmp_path, {**BAD, **GOOD})
        program = (
            "import sys; from aitest_lib.data.audio import AudioSource\nprint(len(AudioSource(sys.argv[1]).index().unreadable))"
        )
        command = [sys.executable, "-W", "always", "-c", program, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.stderr == ""
        assert int(done.stdout) == len(BAD)

    def test_are_told_alike_in_many_threads(self):
        def told(name: str) -> str:
            try:
                return str(np.abs(decode_audio({**BAD, **GOOD}[name][0])[0]).sum())
            except UnreadableAudio as error:
                return str(error)

        names = [*BAD, *GOOD] * 3
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(told, names)) == list(map(told, names))


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "deep.flac", "large.wav", "float.wav", "voice.ogg"])
@given(st.data())
def test_any_damage_is_a_clip_or_a_reason(name, data):
    whole = GOOD[name][0]
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for place in data.draw(st.lists(st.integers(0, max(len(damaged) - 1, 0)), max_size=4)):
        damaged[place : place + 1] = data.draw(st.binary(min_size=1, max_size=1))
    try:
        clip, _ = fitted(*decode_audio(bytes(damaged)), None)
    except UnreadableAudio as error:
        assert str(error)
    else:
        assert clip.samples.dtype == np.float32
        assert clip.samples.ndim == 1
        assert len(clip.samples) > 0
        assert np.abs(clip.samples).max() <= 1


@pytest.mark.parametrize("name", ["a.flac", "voice.ogg"])
def test_no_file_is_cut_off_unseen(name):
    whole = GOOD[name][0]
    for length in range(1, len(whole), max(1, len(whole) // 60)):
        with pytest.raises(UnreadableAudio):
            decode_audio(whole[:length])


class TestWrongLayouts:
    def test_nothing_there(self, tmp_path):
        assert "there is no such file or folder; in a suite, paths are relative" in problem(AudioSource(str(tmp_path / "d")))
        assert "got an empty folder, expected audio files (.wav" in problem(AudioSource(str(tmp_path)))
        (tmp_path / "notes.txt").write_text("x")
        assert "got 1 other files (notes.txt, …)" in problem(AudioSource(str(tmp_path)))

    @pytest.mark.parametrize("name", ["a.wav", "a.npz", "a"])
    def test_another_file(self, tmp_path, name):
        (tmp_path / name).write_bytes(GOOD["a.wav"][0])
        assert "expected clips as a folder, or as a manifest ending in .csv" in problem(AudioSource(str(tmp_path / name)))

    @pytest.mark.parametrize("name", ["m.csv", "m.parquet", "m.jsonl"])
    def test_a_table_without_paths(self, tmp_path, name):
        clips.write_table(pd.DataFrame({"audio": ["a.wav"], "text": ["yes"]}), tmp_path / name)
        assert "got the columns audio, text, expected a text column `path`" in problem(AudioSource(str(tmp_path / name)))

    def test_transcripts_that_are_no_text(self, tmp_path):
        pd.DataFrame({"path": ["a.wav"], "text": [0.5]}).to_parquet(tmp_path / "m.parquet")
        assert "column 'text' has type double, expected what is said; store it as text" in problem(
            AudioSource(str(tmp_path / "m.parquet"))
        )

    @pytest.mark.parametrize("url", ["nope://bucket/clips", "s3://bucket/clips", "memory://nowhere/at/all"])
    def test_no_place(self, url, monkeypatch):
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        with pytest.raises(UnavailableError if url.startswith("s3") else InputError) as caught:
            AudioSource(url).index()
        assert url in str(caught.value)

    def test_data_of_another_process(self):
        assert "lived in the memory of another process" in problem(AudioSource(f"memory:{'0' * 32}"))


class TestWrongArrays:
    @pytest.mark.parametrize(
        ("samples", "rate", "reason"),
        [
            (np.zeros((2, 100)), 16_000, r"its shape is \(2, 100\), expected \(samples, channels\); transpose it"),
            (np.zeros((2, 2, 2)), 16_000, r"it is float64 of shape \(2, 2, 2\)"),
            (np.array(["a"]), 16_000, "expected floats from -1 to 1 or integers"),
            (np.zeros(0), 16_000, "it has no samples"),
            (np.array([0, np.nan]), 16_000, "it holds NaN"),
            (np.zeros(9), 0, "its sample rate is 0, expected a whole number from 1,000 to 384,000"),
            (np.zeros(9), 16_000.5, "its sample rate is 16000.5"),
            (np.zeros(9), True, "its sample rate is True"),
            (np.zeros(601_000), 1000, "it is longer than 10 minutes"),
        ],
    )
    def test_have_one_reason(self, samples, rate, reason):
        with pytest.raises(UnreadableAudio, match=reason):
            of_array(samples, rate)
        index = audio_memory_source([(np.ones(9, np.int16), 16_000), (samples, rate)]).index()
        assert [one.place for one in index.unreadable] == ["clip[1]"]

    @pytest.mark.parametrize(
        ("clip", "message"),
        [
            (np.zeros(9), "clip 0 is a ndarray of 9, expected a pair"),
            ((np.zeros(9),), "clip 0 is a tuple of 1, expected a pair"),
            ((np.zeros(9), "fast"), "clip 0 is no array with a sample rate"),
            (([[1], [1, 2]], 16_000), "clip 0 is no array with a sample rate"),
            ((np.zeros(9), np.nan), "clip 0 is no array with a sample rate"),
        ],
    )
    def test_that_are_no_clips_are_one_message(self, clip, message):
        with pytest.raises(InputError, match=message):
            audio_memory_source([clip])

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            (([],), r"got a list of 0, expected a list of pairs \(samples, sample rate\)"),
            (("clips",), "got a str"),
            (([clips.clip()], ["a", "b"]), "got 2 texts for 1 clips"),
            (([clips.clip()], [7]), "got a text that is a int"),
            (([clips.clip()], None, pd.DataFrame({"speaker": ["a", "b"]})), "got a table of 2 rows with the columns speaker"),
            (([clips.clip()], ["a"], pd.DataFrame({"text": ["a"]})), "expected 1 rows and no column file or text"),
        ],
    )
    def test_so_is_what_stands_beside_them(self, given, message):
        with pytest.raises(InputError, match=message):
            audio_memory_source(*given)


def test_rates_without_a_simple_ratio_are_refused():
    with pytest.raises(UnreadableAudio, match="its 44099 Hz have no simple ratio to 16000 Hz; convert it"):
        fitted(np.zeros(9, np.float32), 44_099, (), Speech(sample_rate=16_000))

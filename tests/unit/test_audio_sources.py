"""Clips from manifests, folders and memory: equal content is equal, whatever holds it and in whatever order."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import clips
import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import resample

from aitest_lib.config.inputs import Speech
from aitest_lib.data.audio import AudioSource, audio_memory_source
from aitest_lib.data.audio_decoding import decode_audio, fitted, of_array, resampled
from aitest_lib.data.images import ImageSource
from aitest_lib.data.sources import holds_audio, holds_images, memory_source_of, open_source
from aitest_lib.data.table import TableSource
from aitest_lib.errors import InputError
from aitest_lib.pcm import clip_digest
from aitest_lib.types import Clip

SHARED = Path(os.environ.get("AITEST_SHARED_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
GOOD = clips.good_files()
LOSSY = {"voice.ogg": 0.02, "voice.mp3": 0.05, "phone.wav": 0.02}


def columns(source: AudioSource) -> dict[str, list]:
    return source.table.take(np.arange(source.rows), source.schema.names).to_pydict()


def heard(source: AudioSource, speech: Speech | None = None) -> list[Clip]:
    return list(source.clips(source.index(speech).positions, speech))


def manifest(path: Path, texts: list) -> Path:
    """A table of so many clips in the folder `c`, with these texts."""
    names = [f"c/{place}.wav" for place in range(len(texts))]
    clips.write_all(path.parent, {name: clips.encoded(clips.values(seed=place)) for place, name in enumerate(names)})
    return clips.write_table(pd.DataFrame({"text": texts, "path": names, "speaker": "anna"}), path)


class TestDecoding:
    @pytest.mark.parametrize("name", GOOD)
    def test_gives_the_samples_and_names_what_it_converts(self, name):
        data, expected, notes = GOOD[name]
        clip, told = fitted(*decode_audio(data), None)
        assert clip.sample_rate == clips.RATE
        assert clip.samples.dtype == np.float32
        assert clip.samples.shape == expected.shape
        assert np.abs(clip.samples - expected).max() <= LOSSY.get(name, 0.51 / 32_768)
        assert list(told) == notes

    @settings(max_examples=40)
    @given(st.binary(min_size=2, max_size=200), st.sampled_from(["WAV", "FLAC"]), st.sampled_from([8000, 16_000, 44_100]))
    def test_pcm16_is_exact(self, raw, kind, rate):
        # Samples that begin like another file (OggS) make libsndfile take the WAV for one that holds it.
        values = np.frombuffer(b"\0\0" + raw[: len(raw) // 2 * 2], "<i2")
        clip, _ = fitted(*decode_audio(clips.encoded(values, kind, "PCM_16", rate)), None)
        assert np.array_equal(clip.samples * 32_768, values)
        assert clip.sample_rate == rate

    def test_opus_is_read_at_its_rate(self):
        samples, rate, notes = decode_audio(clips.encoded(clips.tone(300, 1.0, 24_000), "OGG", "OPUS", 24_000))
        assert (rate, notes) == (24_000, ())
        assert abs(len(samples) - 24_000) < 1000  # Opus keeps no samples

    def test_a_part_is_the_beginning(self):
        whole = clips.encoded(clips.tone(300, 3.0), "FLAC")
        samples, rate, _ = decode_audio(whole, first_s=1.5)
        assert len(samples) == 1.5 * rate
        assert np.array_equal(samples, decode_audio(whole)[0][:24_000])

    def test_an_mp3_is_read_whole_where_its_length_is_a_guess(self):
        quiet = np.concatenate([np.zeros(80_000, np.float32), clips.values(32_000).astype(np.float32) / 40_000])
        data = clips.encoded(quiet, "MP3", bitrate_mode="VARIABLE")
        first = data.index(data[:2], 4)  # where the second frame begins; the first one tells the length
        samples, _, _ = decode_audio(data[first:])
        assert abs(len(samples) - len(quiet)) < 3000

    def test_an_ogg_without_its_end_is_noted(self):
        data = clips.encoded(clips.values(64_000), "OGG", "VORBIS")
        last = data.rindex(b"OggS")
        samples, rate, notes = decode_audio(data[:last])
        assert notes == ("without an end mark (cut off?)",)
        assert 0 < len(samples) < 4 * rate

    def test_an_array_is_scaled_by_its_type(self):
        expected = clips.values() / np.float32(32_768)
        for array in (
            clips.values(),
            clips.values().astype(np.int32) << 16,
            expected,
            expected.astype(np.float64),
            clips.values().astype(">i2"),
        ):
            samples, rate, notes = of_array(array, np.int64(16_000))
            assert np.array_equal(samples, expected)
            assert (rate, notes) == (16_000, ())
        unsigned = np.array([0, 128, 255], np.uint8)
        assert of_array(unsigned, 16_000)[0].tolist() == [-1, 0, 127 / 128]
        assert of_array(np.stack([expected, expected], axis=1), 16_000)[2] == ("mixed down to mono",)


class TestFitting:
    card = Speech(sample_rate=16_000)

    def test_the_rate_of_the_card_is_kept(self):
        samples = clips.clip().samples
        for card in (None, self.card):
            clip, notes = fitted(samples, 16_000, (), card)
            assert np.array_equal(clip.samples, samples)
            assert (clip.sample_rate, notes) == (16_000, ())
        assert fitted(samples, 8000, (), None)[0].sample_rate == 8000

    @pytest.mark.parametrize("rate", [8000, 11_025, 22_050, 44_100, 48_000])
    def test_other_rates_become_it(self, rate):
        clip, notes = fitted(clips.tone(440, 1.0, rate), rate, ("mixed down to mono",), self.card)
        assert notes == ("mixed down to mono", f"resampled from {rate} Hz")
        assert (len(clip.samples), clip.sample_rate) == (16_000, 16_000)
        inner = slice(1000, -1000)
        assert np.abs(clip.samples - clips.tone(440))[inner].max() < 1e-3
        assert np.array_equal(clip.samples * 32_768, np.rint(clip.samples * 32_768))

    @pytest.mark.parametrize("rate", [44_100, 48_000])
    def test_what_the_card_cannot_hold_is_filtered_out(self, rate):
        assert np.abs(resampled(clips.tone(8800, 1.0, rate), rate, 16_000)[1000:-1000]).max() < 1e-4
        speech = clips.tone(7000, 1.0, rate)
        assert np.abs(resampled(speech, rate, 16_000)[1000:-1000]).max() == pytest.approx(0.5, rel=0.01)

    def test_agrees_with_scipy(self):
        tones = np.random.default_rng(5).normal(size=24_001) * (np.arange(24_001) < 7000)
        band = np.fft.irfft(tones, 48_000).astype(np.float32)
        expected = resample(band.astype(np.float64), 16_000)  # exact: it has no frequency that 16 kHz cannot hold
        found = resampled(band, 48_000, 16_000)
        assert np.abs(found - expected)[500:-500].max() < 1e-3 * np.abs(expected).max()

    def test_what_resampling_makes_too_loud_is_scaled_down(self):
        square = np.sign(clips.tone(441, 1.0, 44_100))
        clip, notes = fitted(square, 44_100, (), self.card)
        assert notes == ("resampled from 44100 Hz", "scaled down to full scale")
        assert 0.999 < np.abs(clip.samples).max() <= 1


class TestFolders:
    def test_have_no_labels(self, tmp_path):
        clips.write_all(tmp_path, {"b.wav": GOOD["a.wav"], "anna/a.flac": GOOD["a.flac"], "anna/x/c.WAV": GOOD["float.wav"]})
        source = AudioSource(str(tmp_path))
        assert columns(source) == {"file": ["anna/a.flac", "anna/x/c.WAV", "b.wav"]}
        assert source.schema == pa.schema([("file", pa.string())])
        index = source.index()
        assert index.unreadable == []
        assert (source.has_manifest, source.is_one_file, source.in_memory) == (False, False, False)

    def test_the_index_is_that_of_the_clips(self, tmp_path):
        clips.write_all(tmp_path, GOOD)
        source = AudioSource(str(tmp_path))
        index, found = source.index(), heard(source)
        assert [digest.tobytes().hex() for digest in index.digests] == [clip_digest(clip) for clip in found]
        assert index.lengths.tolist() == [len(clip.samples) for clip in found]
        assert index.sample_rates.tolist() == [16_000] * len(GOOD)
        assert (index.lengths.dtype, index.sample_rates.dtype, index.positions.dtype) == ("int64", "int32", "int64")
        assert index.converted == {
            "DC offset, kept": 2,
            "mixed down to mono": 1,
            "scaled down to full scale": 1,
            "silent, kept": 1,
        }
        order = np.array([3, 0, 0])
        assert [clip_digest(clip) for clip in source.clips(order)] == [clip_digest(found[place]) for place in order]

    def test_what_is_no_audio_is_listed(self, tmp_path):
        clips.write_all(tmp_path, {"a.wav": GOOD["a.wav"], "notes.txt": b"x", "x/b.txt": b"x", ".hidden.wav": b"x"})
        assert {one.place: one.reason for one in AudioSource(str(tmp_path)).index().unreadable} == {
            "notes.txt": "it is no audio file: its name ends in .txt, as do 1 more"
        }

    def test_the_card_decides_the_rate(self, tmp_path):
        clips.write_all(
            tmp_path, {f"{rate}.wav": clips.encoded(clips.tone(440, 0.5, rate), rate=rate) for rate in (8000, 44_100)}
        )
        source = AudioSource(str(tmp_path))
        assert source.index().sample_rates.tolist() == [44_100, 8000]
        index = source.index(Speech(sample_rate=8000))
        assert index.sample_rates.tolist() == [8000, 8000]
        assert index.lengths.tolist() == [4000, 4000]
        assert index.converted == {"resampled from 44100 Hz": 1}
        assert [clip.sample_rate for clip in heard(source, Speech(sample_rate=8000))] == [8000, 8000]


class TestTranscripts:
    TEXTS = ("007", "7", "null", "NA", "nan", "3.50", "true", "2020-01-01", "turn on, the “light”", "", " a  b ", "", "नमस्ते")

    @pytest.mark.parametrize("name", ["m.csv", "m.jsonl", "m.parquet"])
    def test_are_text_as_it_is_written(self, tmp_path, name):
        source = AudioSource(str(manifest(tmp_path / name, list(self.TEXTS))))
        assert columns(source)["text"] == list(self.TEXTS)
        assert source.schema.names == ["file", "text", "speaker"]

    @pytest.mark.parametrize("name", ["m.csv", "m.jsonl", "m.parquet"])
    @pytest.mark.parametrize("texts", [["7", "42"], ["007", "0"], ["NA", "null"]])
    def test_may_all_look_like_something_else(self, tmp_path, name, texts):
        source = AudioSource(str(manifest(tmp_path / name, texts)))
        assert columns(source)["text"] == texts
        assert source.schema.field("text").type == pa.string()

    def test_that_are_integers_become_text(self, tmp_path):
        for name in ("m.jsonl", "m.parquet"):
            assert columns(AudioSource(str(manifest(tmp_path / name, [7, 42]))))["text"] == ["7", "42"]

    @pytest.mark.parametrize("name", ["m.csv", "m.jsonl", "m.parquet"])
    def test_may_be_missing(self, tmp_path, name):
        assert columns(AudioSource(str(manifest(tmp_path / name, ["yes", None]))))["text"] == ["yes", ""]

    @pytest.mark.parametrize(
        "texts", [["yes", None, "", float("nan")], pd.Series(["yes", None, "", np.nan], index=[3, 2, 1, 0])]
    )
    def test_may_be_missing_in_memory(self, texts):
        assert columns(audio_memory_source([clips.clip(seed=seed) for seed in range(4)], texts))["text"] == ["yes", "", "", ""]

    def test_need_not_be_there(self, tmp_path):
        clips.write_all(tmp_path, {"a.wav": GOOD["a.wav"]})
        (tmp_path / "m.csv").write_text("path,speaker\na.wav,7\n")
        assert columns(AudioSource(str(tmp_path / "m.csv"))) == {"file": ["a.wav"], "speaker": [7]}


class TestTheSameClips:
    @pytest.fixture
    def sources(self, tmp_path) -> dict[str, AudioSource]:
        texts, folder = ["yes", "no", "7"], tmp_path / "d"
        urls = {name: str(manifest(folder / name, texts)) for name in ("m.csv", "m.jsonl", "m.parquet")}
        fs, root = fsspec.core.url_to_fs(f"memory://{tmp_path.name}")
        fs.put(str(folder), root, recursive=True)
        urls |= {f"remote {name}": f"memory://{tmp_path.name}/{name}" for name in ("m.csv", "m.jsonl", "m.parquet")}
        urls["file URL"] = f"file://{folder}/m.csv"
        arrays = [(clips.values(seed=place), 16_000) for place in range(3)]
        found = {name: AudioSource(url) for name, url in urls.items()}
        found["memory"] = audio_memory_source(arrays, texts, pd.DataFrame({"speaker": ["anna"] * 3}))
        found["of clips"] = audio_memory_source(heard(found["m.csv"]), texts, pd.DataFrame({"speaker": ["anna"] * 3}))
        return found

    def test_are_the_same_wherever_they_come_from(self, sources):
        expected = sources["m.csv"].index()
        for name, source in sources.items():
            index = source.index()
            assert index.digests.tobytes() == expected.digests.tobytes(), name
            assert columns(source)["text"] == ["yes", "no", "7"], name
            assert columns(source)["speaker"] == ["anna"] * 3
            assert source.rows == 3
            assert source.in_memory == (name in ("memory", "of clips"))

    def test_have_a_digest_that_holds(self, sources):
        digests = {name: source.digest() for name, source in sources.items()}
        assert all(AudioSource(source.url).digest() == digests[name] for name, source in sources.items())
        assert digests["m.csv"] == digests["remote m.csv"] == digests["file URL"]
        assert digests["memory"] == digests["of clips"]
        assert len(set(digests.values())) == 4

    def test_are_given_out_as_they_are(self, sources, tmp_path):
        names = [f"c/{place}.wav" for place in range(3)]
        expected = [(name, (tmp_path / "d" / name).read_bytes()) for name in names]
        assert list(sources["m.csv"].contents()) == list(sources["remote m.csv"].contents()) == expected
        (tmp_path / "d" / "c" / "1.wav").unlink()
        assert list(sources["m.csv"].contents())[1] == ("c/1.wav", None)
        with pytest.raises(InputError, match="got clips in memory, expected audio files"):
            list(sources["memory"].contents())


class TestDigests:
    def test_every_byte_counts(self, tmp_path):
        path = manifest(tmp_path / "m.csv", ["a", "b"])
        digests = {AudioSource(str(path)).digest()}
        shutil.copy(tmp_path / "c" / "0.wav", tmp_path / "c" / "1.wav")
        digests.add(AudioSource(str(path)).digest())
        path.write_text(path.read_text().replace("b,", "c,"))
        digests.add(AudioSource(str(path)).digest())
        assert len(digests) == 3

    def test_clips_in_memory_are_known_by_their_content(self):
        batch = [(clips.values(seed=seed), 16_000) for seed in range(2)]
        days = ["2026-01-01", "2026-01-02"]
        pairs = (["a", "b"], ["b", "a"], [1, 2], ["1", "2"], days, pd.to_datetime(days))
        speakers = [pd.DataFrame({"speaker": pair}) for pair in pairs]
        sources = [
            audio_memory_source(batch),
            audio_memory_source(batch[::-1]),
            audio_memory_source([(samples, 8000) for samples, _ in batch]),
            audio_memory_source(batch, ["a", "b"]),
            *(audio_memory_source(batch, ["a", "b"], table) for table in speakers),
        ]
        assert len({source.url for source in sources}) == len(sources)
        assert audio_memory_source(list(batch)) == sources[0]

    def test_later_changes_of_an_array_do_not_count(self):
        samples = clips.clip().samples.copy()
        source = audio_memory_source([(samples, 16_000)])
        samples[:] = 0
        [found] = heard(source)
        found.samples[:] = 0
        assert np.array_equal(heard(source)[0].samples, clips.clip().samples)


def test_clips_are_read_one_at_a_time(tmp_path):
    (tmp_path / "0.flac").write_bytes(clips.encoded(clips.values(480_000), "FLAC"))
    for number in range(1, 40):
        (tmp_path / f"{number}.flac").symlink_to(tmp_path / "0.flac")
    source = AudioSource(str(tmp_path))
    given_out = source.clips(np.arange(40).repeat(1000))  # 77 GB
    next(given_out)
    tracemalloc.start()
    try:
        source.index()
        assert sum(len(clip.samples) for _, clip in zip(range(20), given_out, strict=False)) == 20 * 480_000
        assert tracemalloc.get_traced_memory()[1] < 20_000_000  # of 77 MB
    finally:
        tracemalloc.stop()


class TestOpening:
    def test_by_modality(self, tmp_path):
        assert isinstance(open_source("m.csv", "speech"), AudioSource)
        assert isinstance(open_source("m.csv", "image"), ImageSource)
        assert isinstance(open_source("m.csv", "tabular"), TableSource)

    def test_of_objects(self):
        batch = [(clips.values(seed=seed), 16_000) for seed in range(2)]
        assert memory_source_of(batch, "speech") == audio_memory_source(batch)
        assert memory_source_of((batch, ["a", "b"]), "speech") == audio_memory_source(batch, ["a", "b"])

    def test_what_data_are_by_their_names(self, tmp_path):
        clips.write_all(tmp_path, {"sound/anna/a.wav": b"", "image/cat/a.png": b"", "none/a.txt": b""})
        for name, path in (("audio.csv", "x/a.FLAC"), ("image.csv", "a.png"), ("other.csv", "a.txt"), ("table.csv", "")):
            (tmp_path / name).write_text(f"path\n{path}\n" if path else "a\n1\n")
        audio = {path.name for path in tmp_path.iterdir() if holds_audio(path)}
        images = {path.name for path in tmp_path.iterdir() if holds_images(path)}
        assert audio == {"sound", "audio.csv"}
        assert images == {"image", "image.csv", "none"}


def test_neither_torch_nor_soundfile_are_needed_to_import():
    program = "import sys, json, aitest_lib.data.sources; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert not {"torch", "torchaudio", "soundfile", "scipy"} & set(json.loads(done.stdout))


@pytest.mark.shared
@pytest.mark.skipif(not (SHARED / "speech").exists(), reason=f"{SHARED / 'speech'} is not there")
def test_recordings_of_people_and_voices_are_read():
    source = AudioSource(str(SHARED / "speech"))
    index = source.index(Speech(sample_rate=16_000))
    assert len(index.positions) == source.rows
    assert index.converted == {}
    assert 1 < (index.lengths / index.sample_rates).mean() < 10

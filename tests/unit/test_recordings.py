"""Recordings of noise from folders in every layout that collections have, and what is wrong with them in one message."""

from __future__ import annotations

from pathlib import Path

import clips
import fsspec
import numpy as np
import pytest

from aitest_lib.data import recordings
from aitest_lib.data.recordings import NoiseSource, labels_of, read_recordings, recordings_digest
from aitest_lib.errors import InputError


def noise(seed: int = 0, kind: str = "WAV", seconds: float = 0.1, rate: int = 16_000) -> bytes:
    return clips.encoded(clips.values(round(seconds * rate), seed), kind, rate=rate)


def folder(root: Path, *names: str) -> str:
    kinds = {".flac": "FLAC", ".ogg": "OGG", ".mp3": "MP3"}
    return str(
        clips.write_all(root, {name: noise(place, kinds.get(Path(name).suffix, "WAV")) for place, name in enumerate(names)})
    )


def read(url: str, name: str | None = None, rate: int = 16_000) -> tuple[str, ...]:
    return read_recordings(NoiseSource(name=name, folder=url), rate).names


def problem(url: str, name: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        read(url, name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestLayouts:
    def test_a_folder_for_each_label(self, tmp_path):
        url = folder(tmp_path, "rain/a.wav", "rain/far/b.flac", "street/c.ogg", "street/d.mp3", "street/e.wav", "README.md")
        assert labels_of(url) == {"rain": 2, "street": 3}
        assert read(url, "rain") == ("rain/a.wav", "rain/far/b.flac")
        assert len(read(url)) == 5

    def test_a_flat_folder(self, tmp_path):
        url = folder(tmp_path, "rain.wav", "wind.flac")
        assert labels_of(url) == {"rain": 1, "wind": 1}
        assert read(url, "wind") == ("wind.flac",)

    @pytest.mark.parametrize("below", ["", "musan/"])
    def test_musan(self, tmp_path, below):
        url = folder(
            tmp_path, *(f"{below}{name}" for name in ("music/fma/a.wav", "noise/free-sound/b.wav", "speech/us-gov/c.wav"))
        )
        assert labels_of(url) == {"music": 1, "noise": 1, "speech": 1}

    def test_demand_has_one_channel_of_sixteen(self, tmp_path):
        url = folder(tmp_path, *(f"{place}/ch{number:02}.wav" for place in ("DKITCHEN", "NPARK") for number in range(1, 17)))
        assert labels_of(url) == {"DKITCHEN": 1, "NPARK": 1}
        assert read(url) == ("DKITCHEN/ch01.wav", "NPARK/ch01.wav")
        assert labels_of(str(tmp_path / "NPARK")) == {"ch01": 1}
        assert labels_of(folder(tmp_path, "more/NFIELD/ch01.wav")) == {"DKITCHEN": 1, "NFIELD": 1, "NPARK": 1}

    @pytest.mark.parametrize("below", ["", "ESC-50-master/"])
    def test_esc_50(self, tmp_path, below):
        url = folder(tmp_path, f"{below}audio/1-1-A-0.wav", f"{below}audio/1-2-A-10.wav", f"{below}audio/1-3-A-10.wav")
        table = tmp_path / below / "meta" / "esc50.csv"
        table.parent.mkdir()
        table.write_text("filename,fold,target,category\n1-1-A-0.wav,1,0,dog\n1-2-A-10.wav,1,10,rain\n1-3-A-10.wav,1,10,rain\n")
        assert labels_of(url) == {"dog": 1, "rain": 2}
        assert read(url, "dog") == (f"{below}audio/1-1-A-0.wav",)

    def test_urban_sound(self, tmp_path):
        url = folder(tmp_path, "audio/fold1/a.wav", "audio/fold5/b.wav")
        clips.write_all(
            tmp_path, {"metadata/UrbanSound8K.csv": b"slice_file_name,fold,class\na.wav,1,siren\nb.wav,5,drilling\n"}
        )
        assert labels_of(url) == {"drilling": 1, "siren": 1}
        assert read(url, "drilling") == ("audio/fold5/b.wav",)

    def test_labels_of_the_users_own(self, tmp_path):
        url = folder(tmp_path, "a.wav", "x/b.wav", "x/unlisted.wav")
        (tmp_path / "labels.csv").write_text("\ufeffpath,label\na.wav,café\nx/b.wav,7\n", encoding="utf-8")
        assert labels_of(url) == {"7": 1, "café": 1}
        assert read(url, "7") == ("x/b.wav",)
        (tmp_path / "labels.csv").rename(tmp_path / "x" / "labels.csv")
        assert labels_of(url) == {"a": 1, "x": 2}

    def test_on_another_file_system(self, tmp_path):
        local = folder(tmp_path / "n", "rain/a.wav", "wind/b.wav")
        fs, root = fsspec.core.url_to_fs(f"memory://{tmp_path.name}")
        fs.put(local, root, recursive=True)
        url = f"memory://{tmp_path.name}"
        assert labels_of(url) == labels_of(local)
        assert read(url, "rain") == ("rain/a.wav",)
        assert recordings_digest(NoiseSource(name=None, folder=url)) == recordings_digest(NoiseSource(name=None, folder=local))


class TestReading:
    def test_gives_the_samples(self, tmp_path):
        found = read_recordings(NoiseSource(name=None, folder=folder(tmp_path, "a.wav", "b.flac")), 16_000)
        assert found.sample_rate == 16_000
        for seed, samples in enumerate(found.samples):
            expected = clips.values(1600, seed) / 32_768
            assert samples.dtype == np.float32
            assert np.abs(samples - (expected - expected.mean())).max() < 1e-6

    def test_resamples_and_removes_the_mean(self, tmp_path):
        loud = clips.tone(440, 1.0, 44_100) * 4 + 0.3
        stereo = clips.encoded(np.stack([loud, loud], axis=1), subtype="FLOAT", rate=44_100)
        [samples] = read_recordings(
            NoiseSource(name="hum", folder=str(clips.write_all(tmp_path, {"hum.wav": stereo}))), 8000
        ).samples
        assert len(samples) == 8000
        assert abs(samples[500:-500].mean()) < 0.01
        assert np.abs(samples[500:-500]).max() == pytest.approx(2, rel=0.01)  # its level is for the transform to set

    def test_leaves_out_what_is_silent(self, tmp_path):
        url = folder(tmp_path, "rain/a.wav")
        for name, level in (("none", 0.0), ("faint", 0.0005), ("low", 0.003)):
            clips.write_all(tmp_path, {f"rain/{name}.wav": clips.encoded(clips.tone(440, level=level) + 0.2, subtype="FLOAT")})
        assert read(url, "rain") == ("rain/a.wav", "rain/low.wav")

    def test_reads_a_minute_of_each(self, tmp_path):
        clips.write_all(tmp_path, {"long.flac": noise(kind="FLAC", seconds=700, rate=1000)})
        [samples] = read_recordings(NoiseSource(name=None, folder=str(tmp_path)), 1000).samples
        assert len(samples) == 60_000

    def test_chooses_among_many_by_their_names(self, tmp_path, monkeypatch):
        monkeypatch.setattr(recordings, "MOST", 3)
        url = folder(tmp_path, *(f"{number}.wav" for number in range(8)))
        chosen = read(url)
        assert len(chosen) == 3
        assert list(chosen) == sorted(chosen)
        before = recordings_digest(NoiseSource(name=None, folder=url))
        for number in set(range(8)) - {int(name[0]) for name in chosen}:
            (tmp_path / f"{number}.wav").unlink()
        assert read(url) == chosen
        assert recordings_digest(NoiseSource(name=None, folder=url)) == before


class TestDigest:
    def test_is_that_of_what_is_used(self, tmp_path):
        url = folder(tmp_path, "rain/a.wav", "wind/b.wav")

        def known(label: str | None) -> str:
            return recordings_digest(NoiseSource(name=label, folder=url))

        rain, both = known("rain"), known(None)
        clips.write_all(tmp_path, {"wind/b.wav": noise(9)})
        assert known("rain") == rain
        assert known(None) != both
        (tmp_path / "rain" / "a.wav").rename(tmp_path / "rain" / "c.wav")
        assert known("rain") != rain


class TestProblems:
    def test_nothing_there(self, tmp_path):
        assert "got an empty folder, expected audio files" in problem(str(tmp_path))
        assert "there is no such file or folder" in problem(str(tmp_path / "nowhere"))
        folder(tmp_path, "a.wav")
        assert "expected a folder of noise recordings" in problem(str(tmp_path / "a.wav"))

    def test_an_unknown_label(self, tmp_path):
        url = folder(tmp_path, "rain/a.wav", "street/b.wav")
        assert f"noise recordings {url}: unknown label 'rian'; did you mean rain?" in problem(url, "rian")
        assert "known: rain, street" in problem(url, "xyz")

    def test_a_corrupt_file_is_named(self, tmp_path):
        url = folder(tmp_path, "rain/a.wav")
        clips.write_all(tmp_path, {"rain/b.wav": noise()[:500]})
        assert f"noise recordings {url}: rain/b.wav cannot be used: it is cut off" in problem(url, "rain")

    def test_nothing_but_silence(self, tmp_path):
        clips.write_all(tmp_path, {f"{name}.wav": clips.encoded(np.zeros(400, np.int16)) for name in "ab"})
        assert problem(str(tmp_path)).endswith("the noise recording is silent (below -60 dBFS): a.wav and 1 more")
        assert problem(str(tmp_path), "b").endswith("the noise recording is silent (below -60 dBFS): b.wav")

    def test_a_rate_that_cannot_be_resampled(self, tmp_path):
        clips.write_all(tmp_path, {"a.wav": noise(rate=44_099)})
        assert "a.wav cannot be used: its 44099 Hz have no simple ratio to 16000 Hz" in problem(str(tmp_path))

    @pytest.mark.parametrize(
        ("table", "message"),
        [
            (b"", "labels.csv: got no rows, expected label and path"),
            (b"file,label\na.wav,rain\n", "labels.csv: row 1 has no path, expected label, path in each"),
            (b"path,label\na.wav,\n", "labels.csv: row 1 has no label"),
            (b"path,label\na.wav\n", "labels.csv: row 1 has no label"),
            (b"path,label\n\xff.wav,rain\n", "labels.csv cannot be read: 'utf-8'"),
            (b"path,label\nb.wav,rain\n", "b.wav cannot be used: there is no such file"),
        ],
    )
    def test_a_wrong_table(self, tmp_path, table, message):
        url = folder(tmp_path, "a.wav")
        clips.write_all(tmp_path, {"labels.csv": table})
        assert message in problem(url)

    def test_no_folder(self):
        with pytest.raises(ValueError, match="expected a folder of recordings"):
            read_recordings(NoiseSource(name="rain"), 16_000)

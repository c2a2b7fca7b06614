"""Images that cannot be used: broken ones are listed one by one and end nothing; what no run can go on with is one message."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor

import images
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aitest_lib.data.decoding import UnreadableImage, decode
from aitest_lib.data.images import ImageSource, image_memory_source
from aitest_lib.errors import InputError, UnavailableError

GOOD, BAD = images.good_files(), images.bad_files()
X = images.pixels(12, 8, 3)[None].repeat(4, axis=0)


def problem(source: ImageSource) -> str:
    with pytest.raises(InputError) as caught:
        source.index()
    text = str(caught.value)
    assert "\n" not in text
    return text


def reasons(source: ImageSource) -> dict[str, str]:
    unreadable = source.index().unreadable
    assert all("\n" not in one.reason and len(one.reason) < 200 for one in unreadable)
    return {one.place: one.reason for one in unreadable}


class TestBrokenFiles:
    @pytest.mark.parametrize("name", BAD)
    def test_have_one_reason(self, name):
        data, reason = BAD[name]
        with pytest.raises(UnreadableImage) as caught:
            decode(data)
        assert reason in str(caught.value)

    def test_are_listed_and_the_others_are_read(self, tmp_path):
        images.write_all(tmp_path / "bad", BAD)
        images.write_all(tmp_path / "good", GOOD)
        source = ImageSource(str(tmp_path))
        found = reasons(source)
        assert set(found) == {f"bad/{name}" for name in BAD}
        assert all(BAD[place.removeprefix("bad/")][1] in reason for place, reason in found.items())
        assert source.rows == len(BAD) + len(GOOD)
        assert source.index().positions.tolist() == list(range(len(BAD), source.rows))
        assert source.table.rows == source.rows

    def test_are_listed_in_archives_and_manifests(self, tmp_path):
        files = {**BAD, "ok.png": GOOD["rgb.png"]}
        images.write_all(tmp_path, files)
        with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
            for name, (data, *_) in files.items():
                archive.writestr(name, data)
        pd.DataFrame({"path": ["ok.png", *BAD, None, "nowhere.png", "s3://b/a.png", ".", "nul\0.png"]}).to_parquet(
            tmp_path / "m.parquet"
        )
        archived, listed = reasons(ImageSource(str(tmp_path / "z.zip"))), reasons(ImageSource(str(tmp_path / "m.parquet")))
        for name, (_, reason) in BAD.items():
            assert reason in archived[name]
            assert reason in listed[name]
        assert {name: reason for name, reason in listed.items() if name not in BAD} == {
            f"row {len(BAD) + 1}": "its row has no path",
            "nowhere.png": "there is no such file",
            "s3://b/a.png": "its path begins with s3://, expected one relative to the manifest",
            ".": "it is a folder",
            "nul\0.png": "it cannot be read: embedded null byte",
        }

    def test_so_are_entries_that_are_no_files(self, tmp_path):
        traps = images.file_system_traps(tmp_path)
        (tmp_path / "ok.png").write_bytes(GOOD["rgb.png"][0])
        source = ImageSource(str(tmp_path))
        assert reasons(source) == traps
        assert source.digest() == ImageSource(str(tmp_path)).digest()

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_so_are_files_that_may_not_be_read(self, tmp_path):
        (tmp_path / "ok.png").write_bytes(GOOD["rgb.png"][0])
        (tmp_path / "shut.png").write_bytes(GOOD["rgb.png"][0])
        (tmp_path / "shut.png").chmod(0)
        assert reasons(ImageSource(str(tmp_path))) == {"shut.png": "permission to read it is denied"}

    def test_so_are_damaged_and_locked_members_of_an_archive(self, tmp_path):
        file = tmp_path / "z.zip"
        with zipfile.ZipFile(file, "w") as archive:
            for name in ("a.png", "b.png", "c.png"):
                archive.writestr(name, GOOD["rgb.png"][0])
        data = bytearray(file.read_bytes())
        data[data.index(b"b.png") + 60] ^= 1
        data[data.rindex(b"PK\1\2") + 8] |= 1  # the flag of an encrypted member, in the directory's last entry
        file.write_bytes(data)
        found = reasons(ImageSource(str(file)))
        assert set(found) == {"b.png", "c.png"}
        assert "Bad CRC-32" in found["b.png"]
        assert "encrypted" in found["c.png"]

    def test_so_are_huge_files(self, tmp_path):
        for name in ("ok.png", "huge.png"):
            (tmp_path / name).write_bytes(GOOD["rgb.png"][0])
        os.truncate(tmp_path / "huge.png", 2 << 30)
        assert reasons(ImageSource(str(tmp_path))) == {"huge.png": "it has more than 512 MiB"}

    def test_a_file_that_vanishes_is_listed_and_later_missed(self, tmp_path):
        images.class_folder(tmp_path, {"cat": 2})
        source = ImageSource(str(tmp_path))
        before, digest = source.index(), source.digest()
        (tmp_path / "cat" / "1.png").unlink()
        assert reasons(source) == {"cat/1.png": "there is no such file"}
        assert source.digest() != digest
        with pytest.raises(InputError, match=r"cat/1\.png has changed since it was read: there is no such file"):
            list(source.images(before.positions))

    def test_only_broken_files_are_one_message(self, tmp_path):
        images.write_all(tmp_path, BAD)
        assert f"none of {len(BAD)} images can be used; bomb.png: its header says 400,000,000" in problem(
            ImageSource(str(tmp_path))
        )

    def test_cost_neither_memory_nor_a_word(self, tmp_path):
        images.write_all(tmp_path / "bad", BAD)
        images.write_all(tmp_path / "good", GOOD)
        program = (
            "import re, sys; from pathlib import Path; from aitest_lib.data.images import ImageSource\n"
            "found = ImageSource(sys.argv[1]).index()\n"
            "status = Path('/proc/self/status').read_text()\n"  # its own peak: ru_maxrss starts with its parent's
            "print(len(found.unreadable), int(re.search(r'VmHWM:\\s+(\\d+)', status)[1]) >> 10)"
        )
        done = subprocess.run(
            [sys.executable, "-W", "always", "-c", program, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.stderr == ""
        broken, megabytes = map(int, done.stdout.split())
        assert broken == len(BAD)
        assert megabytes < 500  # the bombs would take 300 and 1,200 more

    def test_are_told_alike_in_many_threads(self):
        def told(name: str) -> str:
            try:
                return str(decode({**BAD, **GOOD}[name][0])[0].sum())
            except UnreadableImage as error:
                return str(error)

        names = [*BAD, *GOOD] * 5
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(told, names)) == list(map(told, names))


@pytest.mark.parametrize(
    "name", ["rgb.png", "palette.png", "inks.jpg", "still.gif", "packed.tiff", "rgb.webp", "rgb.jp2", "one.bmp", "deep.pgm"]
)
@given(st.data())
def test_any_damage_is_an_image_or_a_reason(name, data):
    whole = GOOD[name][0]
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for place in data.draw(st.lists(st.integers(0, max(len(damaged) - 1, 0)), max_size=4)):
        damaged[place : place + 1] = data.draw(st.binary(min_size=1, max_size=1))
    try:
        pixels, _ = decode(bytes(damaged))
    except UnreadableImage as error:
        assert str(error)
    else:
        assert pixels.dtype == np.uint8
        assert pixels.ndim == 3
        assert pixels.shape[2] in (1, 3, 4)


class TestWrongLayouts:
    def test_nothing_there(self, tmp_path):
        assert "there is no such file or folder; in a suite, paths are relative" in problem(ImageSource(str(tmp_path / "d")))
        assert "got an empty folder, expected one subfolder of images per class" in problem(ImageSource(str(tmp_path)))
        (tmp_path / "notes.txt").write_text("x")
        assert "got 1 other files (notes.txt, …)" in problem(ImageSource(str(tmp_path)))

    @pytest.mark.parametrize("name", ["a.png", "a.npy", "a.tar.gz", "a"])
    def test_another_file(self, tmp_path, name):
        (tmp_path / name).write_bytes(GOOD["rgb.png"][0])
        text = problem(ImageSource(str(tmp_path / name)))
        assert (
            f"got a file ending in {'.' + name.rpartition('.')[2] if '.' in name else 'nothing'}, expected images as a folder"
            in text
        )

    def test_images_beside_classes(self, tmp_path):
        images.class_folder(tmp_path, {"cat": 1})
        (tmp_path / "a.png").write_bytes(GOOD["rgb.png"][0])
        assert "got a.png beside folders of images" in problem(ImageSource(str(tmp_path)))

    def test_parts_of_a_data_set_are_no_classes(self, tmp_path):
        for part in ("Train", "test"):
            images.class_folder(tmp_path / part, {"cat": 1, "dog": 1})
        assert "got the folders Train, test, expected one subfolder of images per class" in problem(ImageSource(str(tmp_path)))
        assert ImageSource(str(tmp_path / "test")).rows == 2

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_folder_that_may_not_be_read(self, tmp_path):
        images.class_folder(tmp_path, {"cat": 1, "dog": 1})
        (tmp_path / "dog").chmod(0)
        try:
            assert f"Permission denied ({tmp_path / 'dog'})" in problem(ImageSource(str(tmp_path)))
        finally:
            (tmp_path / "dog").chmod(0o700)

    @pytest.mark.parametrize("name", ["m.csv", "m.parquet", "m.jsonl"])
    def test_a_table_without_paths(self, tmp_path, name):
        images.write_table(pd.DataFrame({"image": ["a.png"], "label": [1]}), tmp_path / name)
        assert "got the columns image, label, expected a text column `path`" in problem(ImageSource(str(tmp_path / name)))

    def test_a_table_of_other_paths(self, tmp_path):
        pd.DataFrame({"path": [1.5]}).to_csv(tmp_path / "m.csv", index=False)
        assert "expected a text column `path`" in problem(ImageSource(str(tmp_path / "m.csv")))
        pd.DataFrame({"path": ["a"], "file": ["b"]}).to_csv(tmp_path / "m.csv", index=False)
        assert "got both columns path and file" in problem(ImageSource(str(tmp_path / "m.csv")))

    def test_no_archive(self, tmp_path):
        for name in ("z.zip", "a.npz"):
            for data in (b"", b"PK\3\4 and then nothing", b"text" * 99):
                (tmp_path / name).write_bytes(data)
                assert "File is not a zip file" in problem(ImageSource(str(tmp_path / name)))

    @pytest.mark.parametrize("url", ["nope://bucket/images", "s3://bucket/images.npz", "memory://nowhere/at/all"])
    def test_no_place(self, url, monkeypatch):
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        with pytest.raises(UnavailableError if url.startswith("s3") else InputError) as caught:
            ImageSource(url).index()
        assert url in str(caught.value)


class Explosive:
    """What a pickle does when it is loaded."""

    def __reduce__(self):
        return os.abort, ()


class TestWrongArrays:
    @pytest.mark.parametrize(
        ("x", "message"),
        [
            (X / 127.5 - 1, "type float64 with values from -1 to 1, expected 0..1, or whole numbers 0..255"),
            (X / 2, "expected 0..1, or whole numbers 0..255"),
            (X * 2.0, "with values from 0 to 510, expected 0..1"),
            (X.astype(np.uint16) * 257, "with values from 0 to 65535, expected 0..255; scale it"),
            (X.astype(int) - 128, "with values from -128 to 127, expected 0..255"),
            (X.transpose(0, 3, 1, 2), "channels come last: x.transpose(0, 2, 3, 1)"),
            (X[..., :1].transpose(0, 3, 1, 2), "got x of shape (4, 1, 12, 8), expected x as N×height×width"),
            (X[..., :2], "got x of shape (4, 12, 8, 2), expected"),
            (X.reshape(4, -1), "x.reshape(len(x), height, width) makes images of flat rows"),
            (X[None], "got x of shape (1, 4, 12, 8, 3)"),
            (np.uint8(3), "got x of shape ()"),
            (X[:0], "at least one pixel"),
            (X[:, :0], "at least one pixel"),
            (X.astype(complex), "got x of type complex128"),
            (X.astype("U3"), "got x of type <U3"),
            (np.full(X.shape, np.nan), "none of 4 images can be used; x[0]: it holds NaN or infinite values"),
        ],
    )
    def test_pixels(self, tmp_path, x, message):
        with pytest.raises(InputError) as caught:
            image_memory_source(x).index()
        assert message in str(caught.value)
        np.savez(tmp_path / "a.npz", x=x)
        assert message in problem(ImageSource(str(tmp_path / "a.npz")))

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"x": X, "y": [1, 2, 3]}, "got y of shape (3,), expected (4,), a label for each image"),
            ({"x": X, "y": np.eye(4)}, "np.argmax(y, axis=1) makes labels of one-hot rows"),
            ({"x": X, "y": [1, 2, 3, 4], "label": [1, 2, 3, 4]}, "got both y and label"),
            ({"x": X, "y": np.ones(4, complex)}, "y of type complex128 is no column"),
            ({"x": X, "y": np.array([b"\xff"] * 4)}, "y of type |S1 is no column"),
            ({"x": X, "score": np.array([1, 2, 3, np.inf])}, "column 'score' holds an infinity"),
            ({"x_test": X, "y_test": [1, 2, 3, 4]}, "got the arrays x_test, y_test, but no x; expected an .npz as np.savez"),
            ({}, "got the arrays (none), but no x"),
        ],
    )
    def test_arrays(self, tmp_path, arrays, message):
        np.savez(tmp_path / "a.npz", **arrays)
        assert message in problem(ImageSource(str(tmp_path / "a.npz")))

    @pytest.mark.parametrize("name", ["x", "y", "site"])
    def test_pickles_are_never_loaded(self, tmp_path, name):
        arrays = {"x": X, "y": [1, 2, 3, 4], "site": [1, 2, 3, 4]} | {name: np.array([Explosive()] * 4, dtype=object)}
        np.savez(tmp_path / "a.npz", **arrays)
        assert f"{name} holds Python objects (pickles), which are never loaded" in problem(ImageSource(str(tmp_path / "a.npz")))
        (tmp_path / "b.npz").write_bytes(pickle.dumps(Explosive()))
        assert "cannot be read: File is not a zip file" in problem(ImageSource(str(tmp_path / "b.npz")))

    def test_a_member_that_is_no_array(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("x", "no .npy file")
        assert "got the arrays (none), but no x" in problem(ImageSource(str(tmp_path / "a.npz")))

    def test_ragged_and_object_arrays_in_memory(self):
        for x in ([X[0], X[0, :5]], np.array([X[0], X[0, :5]], dtype=object), "images", None):
            with pytest.raises(InputError, match=r"^data: "):
                image_memory_source(x)

    def test_an_archive_that_is_cut_or_altered(self, tmp_path):
        np.savez(tmp_path / "a.npz", x=X)
        whole = (tmp_path / "a.npz").read_bytes()
        (tmp_path / "a.npz").write_bytes(whole[:-100])
        assert "is the file whole?" in problem(ImageSource(str(tmp_path / "a.npz")))
        (tmp_path / "a.npz").write_bytes(whole[:500] + bytes([whole[500] ^ 1]) + whole[501:])
        assert "Bad CRC-32" in problem(ImageSource(str(tmp_path / "a.npz")))

    @pytest.mark.parametrize(
        ("shape", "message"),
        [
            ((10_000_000, 64, 64, 3), "got x of 114.4 GiB, expected at most 8"),
            ((1000, 64, 64, 3), "x has 128 of 12,288,000 bytes"),
        ],
    )
    def test_a_header_that_announces_more_than_there_is(self, tmp_path, shape, message):
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive, archive.open("x.npy", "w") as file:
            np.lib.format.write_array_header_1_0(file, {"shape": shape, "fortran_order": False, "descr": "|u1"})
        assert message in problem(ImageSource(str(tmp_path / "a.npz")))

    @settings(max_examples=300)
    @given(st.data())
    def test_any_damage_is_an_array_or_one_message(self, tmp_path_factory, data):
        file = tmp_path_factory.mktemp("a") / "a.npz"
        np.savez(file, x=X[:, :2, :2], y=[1, 2, 3, 4])
        damaged = bytearray(file.read_bytes())
        for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=4)):
            damaged[place] = data.draw(st.integers(0, 255))
        file.write_bytes(damaged)
        try:
            ImageSource(str(file)).index()
        except InputError as error:
            assert "\n" not in str(error)

"""Images from folders, archives, manifests and arrays: equal content is equal, whatever holds it and in whatever order."""

from __future__ import annotations

import shutil
import tracemalloc
import zipfile
from pathlib import Path

import fsspec
import images
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from aitest_lib.artifacts.codecs import put_table
from aitest_lib.artifacts.images import get_images, put_images
from aitest_lib.artifacts.store import Store
from aitest_lib.canonical import array_digest
from aitest_lib.config.inputs import Image
from aitest_lib.data.decoding import decode, fitted
from aitest_lib.data.images import ImageSource, image_memory_source
from aitest_lib.data.schema import build_profile
from aitest_lib.data.table import TableSource
from aitest_lib.errors import ArtifactMissing, InputError

GOOD = images.good_files()
X = images.pixels(12, 8, 3)[None].repeat(4, axis=0) - np.arange(4, dtype=np.uint8)[:, None, None, None]


def columns(source: ImageSource) -> dict[str, list]:
    return source.table.take(np.arange(source.rows), source.schema.names).to_pydict()


def pictures(source: ImageSource, image: Image | None = None) -> list[np.ndarray]:
    return list(source.images(source.index(image).positions, image))


def zipped(folder: Path, target: Path, below: str = "") -> str:
    with zipfile.ZipFile(target, "w") as archive:
        for file in sorted(folder.rglob("*"), reverse=True):
            archive.write(file, below + file.relative_to(folder).as_posix())
    return str(target)


def uploaded(folder: Path, url: str) -> str:
    fs, root = fsspec.core.url_to_fs(url)
    fs.put(str(folder), root, recursive=True)
    return url


class TestDecoding:
    @pytest.mark.parametrize("name", GOOD)
    def test_gives_the_pixels_and_names_what_it_converts(self, name):
        data, expected, notes = GOOD[name]
        found, told = decode(data)
        assert found.dtype == np.uint8
        assert found.shape == expected.shape
        assert np.abs(found.astype(int) - expected).max() <= (2 if name.endswith(".jpg") else 0)
        assert told == notes

    def test_16_bits_are_rounded(self):
        values = np.arange(1 << 16, dtype=np.uint16).reshape(256, 256)
        assert (decode(images.deep_png(values))[0][..., 0] == np.round(values / 257)).all()

    def test_a_photo_with_previews_is_the_photo(self):
        photo, preview = images.plain(images.pixels(40, 60)), images.plain(images.pixels(4, 6))
        data = images.encoded(photo, "MPO", save_all=True, append_images=[preview])
        assert decode(data)[0].shape == (40, 60, 3)

    def test_damaged_exif_data_does_no_harm(self):
        data = images.encoded(images.pixels(), "JPEG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff nothing of the kind")
        assert decode(data)[0].shape == (6, 9, 3)


class TestFitting:
    card = staticmethod(lambda **parts: Image.model_validate(parts))

    def test_what_fits_stays(self):
        rgb = images.pixels()
        for card in (None, self.card(), self.card(size=[6, 9]), self.card(size=[6, 9], channels=3)):
            found, notes = fitted(rgb, [], card)
            assert found is rgb
            assert notes == []

    def test_what_loses_nothing_is_converted(self):
        grey = images.pixels(channels=1)
        rgb = grey.repeat(3, axis=2)
        opaque = np.dstack([rgb, np.full((6, 9), 255, np.uint8)])
        for start, channels, expected, notes in (
            (grey, 3, rgb, ["grey to RGB"]),
            (rgb, 1, grey, ["RGB with equal channels to grey"]),
            (opaque, 3, rgb, ["opaque alpha dropped"]),
            (opaque, 1, grey, ["opaque alpha dropped", "RGB with equal channels to grey"]),
        ):
            found, told = fitted(start, ["first"], self.card(channels=channels))
            assert np.array_equal(found, expected)
            assert told == ["first", *notes]


class TestFolders:
    def test_the_subfolders_are_the_classes(self, tmp_path):
        source = ImageSource(str(images.class_folder(tmp_path / "d", {"dog": 2, "cat": 1})))
        assert source.rows == 3
        assert columns(source) == {"file": ["cat/0.png", "dog/0.png", "dog/1.png"], "label": ["cat", "dog", "dog"]}
        assert source.schema == pa.schema([("file", pa.string()), ("label", pa.string())])

    def test_the_images_are_those_of_the_files(self, tmp_path):
        folder = images.class_folder(tmp_path / "d", {"dog": 2, "cat": 1})
        source = ImageSource(str(folder))
        index = source.index()
        expected = [decode((folder / name).read_bytes())[0] for name in columns(source)["file"]]
        assert index.positions.tolist() == [0, 1, 2]
        assert index.shapes.tolist() == [[6, 9, 3]] * 3
        assert [digest.tobytes().hex() for digest in index.digests] == [array_digest(image) for image in expected]
        assert index.unreadable == []
        assert index.converted == {}
        assert all(
            np.array_equal(*pair)
            for pair in zip(source.images(np.array([2, 0, 0])), [expected[i] for i in (2, 0, 0)], strict=True)
        )

    @pytest.mark.parametrize(
        ("classes", "labels"),
        [
            (["0", "7", "10", "-1"], [-1, 0, 10, 7]),
            (["0", "07"], ["0", "07"]),
            (["1", "two"], ["1", "two"]),
            (["1", "²"], ["1", "²"]),
            (["1", "9" * 30], ["1", "9" * 30]),
        ],
    )
    def test_labels_are_integers_where_all_are_whole_numbers(self, tmp_path, classes, labels):
        assert columns(ImageSource(str(images.class_folder(tmp_path / "d", dict.fromkeys(classes, 1)))))["label"] == labels

    def test_a_flat_folder_has_no_labels(self, tmp_path):
        source = ImageSource(str(images.write_all(tmp_path / "d", GOOD)))
        assert columns(source) == {"file": sorted(GOOD)}
        index = source.index()
        assert len(index.positions) == len(GOOD)
        assert index.converted == {
            "1 bit to grey": 1,
            "16 bit to 8 bit": 6,
            "CMYK to RGB": 2,
            "EXIF orientation applied": 7,
            "grey with alpha to RGBA": 1,
            "palette to RGB": 2,
            "palette to RGBA": 1,
        }

    def test_folders_around_everything_do_not_count(self, tmp_path):
        images.class_folder(tmp_path / "d" / "set" / "images", {"dog": 1, "cat": 1})
        assert columns(ImageSource(str(tmp_path / "d")))["label"] == ["cat", "dog"]

    def test_folders_below_a_class_belong_to_it(self, tmp_path):
        images.class_folder(tmp_path / "d" / "dog" / "images", {"front": 1, "back": 1})
        images.class_folder(tmp_path / "d" / "cat", {"images": 1})
        assert columns(ImageSource(str(tmp_path / "d")))["label"] == ["cat", "dog", "dog"]

    def test_files_of_operating_systems_are_passed_over_and_data_is_listed(self, tmp_path):
        folder = images.class_folder(tmp_path / "d", {"dog": 1, "cat": 1})
        for name in ("Thumbs.db", ".DS_Store", "cat/.hidden.png", "cat/desktop.ini", "__MACOSX/cat/0.png", ".git/config"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(b"x")
        before = ImageSource(str(folder))
        assert before.rows == 2
        assert before.index().unreadable == []
        for name in ("labels.csv", "cat/0.txt", "cat/1.txt", "README"):
            (folder / name).write_bytes(b"x")
        after = ImageSource(str(folder))
        assert {one.place: one.reason for one in after.index().unreadable} == {
            "README": "it is no image: its name ends in nothing",
            "cat/0.txt": "it is no image: its name ends in .txt, as do 1 more",
            "labels.csv": "it is no image: its name ends in .csv",
        }
        assert after.digest() == before.digest()

    def test_links_to_folders_are_followed_once(self, tmp_path):
        far = images.class_folder(tmp_path / "far", {"cat": 1})
        folder = images.class_folder(tmp_path / "d", {"dog": 1})
        (folder / "cat").symlink_to(far / "cat")
        (folder / "dog" / "again").symlink_to(folder)
        (far / "cat" / "back").symlink_to(folder / "cat")
        source = ImageSource(str(folder))
        assert columns(source)["file"] == ["cat/0.png", "dog/0.png"]
        assert {one.place for one in source.index().unreadable} == {"cat/back", "dog/again"}

    def test_names_that_are_no_utf_8_are_read(self, tmp_path):
        (tmp_path / "caf\udce9").mkdir()
        (tmp_path / "caf\udce9" / "a.png").write_bytes(images.encoded(images.pixels()))
        images.class_folder(tmp_path, {"bar": 1})
        source = ImageSource(str(tmp_path))
        assert columns(source)["label"] == ["bar", "caf\ufffd"]
        assert len(pictures(source)) == 2


def test_files_are_read_one_at_a_time(tmp_path):
    (tmp_path / "0.png").write_bytes(images.encoded(np.zeros((1000, 1000, 3), np.uint8)))
    for number in range(1, 40):
        (tmp_path / f"{number}.png").symlink_to(tmp_path / "0.png")
    source = ImageSource(str(tmp_path))
    given_out = source.images(np.arange(40).repeat(1000))  # 120 GB
    next(given_out)
    tracemalloc.start()
    try:
        source.index()
        assert sum(image.size for _, image in zip(range(20), given_out, strict=False)) == 20 * 3_000_000
        assert tracemalloc.get_traced_memory()[1] < 30_000_000  # of 120 MB
    finally:
        tracemalloc.stop()


class TestTheSameImages:
    @pytest.fixture
    def folder(self, tmp_path) -> Path:
        return images.class_folder(tmp_path / "d", {"1": 2, "0": 3})

    @pytest.fixture
    def sources(self, tmp_path, folder) -> dict[str, ImageSource]:
        remote = f"memory://{tmp_path.name}"
        plain = ImageSource(str(folder))
        table = pd.DataFrame(columns(plain)).rename(columns={"file": "path"})
        arrays = {"x": np.stack(pictures(plain)), "y": table["label"].to_numpy()}
        for name in ("m.csv", "m.jsonl", "m.parquet"):
            images.write_table(table, folder / name)
        np.savez(folder.parent / "a.npz", **arrays)
        np.savez_compressed(folder.parent / "b.npz", **arrays)
        urls = {
            "folder": str(folder),
            "file URL": f"file://{folder}",
            "slash": f"{folder}/",
            "zip": zipped(folder, tmp_path / "z.zip"),
            "wrapped zip": zipped(folder, tmp_path / "w.zip", "w/"),
            "npz": str(folder.parent / "a.npz"),
            "packed npz": str(folder.parent / "b.npz"),
            **{name: str(folder / name) for name in ("m.csv", "m.jsonl", "m.parquet")},
            "remote folder": uploaded(folder, f"{remote}/d"),
        }
        for name in ("z.zip", "a.npz"):
            with fsspec.open(f"{remote}/{name}", "wb") as file:
                file.write((tmp_path / name).read_bytes())
            urls[f"remote {name}"] = f"{remote}/{name}"
        return {name: ImageSource(url) for name, url in urls.items()} | {
            "memory": image_memory_source(arrays["x"], table["label"])
        }

    def test_are_the_same_wherever_they_come_from(self, sources):
        expected = sources["folder"].index()
        for name, source in sources.items():
            index = source.index()
            assert index.digests.tobytes() == expected.digests.tobytes(), name
            assert index.shapes.tolist() == [[6, 9, 3]] * 5
            assert columns(source)["label"] == [0, 0, 0, 1, 1], name
            assert source.schema.field("label").type == pa.int64()
            assert source.rows == 5
            assert len(set(columns(source)["file"])) == 5
            assert source.in_memory == (name == "memory")

    def test_have_a_digest_that_holds(self, sources):
        for name, source in sources.items():
            assert ImageSource(source.url).digest() == source.digest(), name
        digests = {name: source.digest() for name, source in sources.items()}
        assert digests["folder"] == digests["remote folder"] == digests["zip"] == digests["slash"] == digests["file URL"]

    def test_have_a_profile(self, sources):
        for source in sources.values():
            profile = build_profile(source.table, None, {}, [], {"label"})
            assert [column.name for column in profile.columns] == ["file"]

    def test_are_given_out_as_they_are(self, sources, folder):
        expected = [(name, (folder / name).read_bytes()) for name in ("0/0.png", "0/1.png", "0/2.png", "1/0.png", "1/1.png")]
        single = {name for name, source in sources.items() if source.is_one_file}
        assert single == {"zip", "wrapped zip", "npz", "packed npz", "remote z.zip", "remote a.npz"}
        for name in sources.keys() - single - {"memory"}:
            assert list(sources[name].contents()) == expected, name
        (folder / "0" / "1.png").unlink()
        assert list(sources["folder"].contents())[1] == ("0/1.png", None)
        with pytest.raises(InputError, match="got arrays, expected image files"):
            list(sources["memory"].contents())


class TestDigests:
    def test_one_byte_of_one_file_counts(self, tmp_path):
        folder = images.class_folder(tmp_path / "d", {"dog": 2, "cat": 1})
        before = ImageSource(str(folder)).digest()
        file = folder / "dog" / "1.png"
        data = file.read_bytes()
        file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        changed = ImageSource(str(folder)).digest()
        file.write_bytes(data)
        assert ImageSource(str(folder)).digest() == before
        file.rename(folder / "dog" / "2.png")
        renamed = ImageSource(str(folder)).digest()
        (folder / "dog" / "2.png").unlink()
        assert len({before, changed, renamed, ImageSource(str(folder)).digest()}) == 4

    def test_a_byte_of_a_manifest_or_of_its_files_counts(self, tmp_path):
        folder = images.class_folder(tmp_path, {"cat": 2})
        manifest = folder / "m.csv"
        manifest.write_text("path,label\ncat/0.png,a\ncat/1.png,b\n")
        before = ImageSource(str(manifest)).digest()
        shutil.copy(folder / "cat" / "0.png", folder / "cat" / "1.png")
        changed = ImageSource(str(manifest)).digest()
        manifest.write_text("path,label\ncat/0.png,a\ncat/1.png,c\n")
        assert len({before, changed, ImageSource(str(manifest)).digest()}) == 3

    def test_arrays_are_known_by_their_content(self):
        y = list("abab")
        digests = {
            image_memory_source(x, y).digest()
            for x, y in ((X, None), (X, y), (X, y[::-1]), (X[::-1], y), (X, [1, 2, 1, 2]), (X.reshape(4, 8, 12, 3), y))
        }
        assert len(digests) == 6
        assert image_memory_source(X, y) == image_memory_source(list(X), pd.Series(y, index=[3, 1, 1, 0]))

    def test_later_changes_of_an_array_do_not_count(self):
        x = X.copy()
        source = image_memory_source(x)
        x[:] = 0
        assert np.array_equal(np.stack(pictures(source)), X)


class TestManifests:
    def test_further_columns_are_metadata(self, tmp_path):
        folder = images.class_folder(tmp_path, {"cat": 2})
        table = pd.DataFrame({"age": pd.array([3, None], "Int64"), "path": ["cat/1.png", "cat/0.png"], "label": ["a", "b"]})
        table.to_parquet(folder / "m.parquet")
        source = ImageSource(str(folder / "m.parquet"))
        assert source.schema == pa.schema([("file", pa.string()), ("label", pa.string()), ("age", pa.int64())])
        assert columns(source) == {"file": ["cat/1.png", "cat/0.png"], "label": ["a", "b"], "age": [3, None]}

    def test_paths_may_be_absolute_or_urls_of_the_same_file_system(self, tmp_path):
        file = images.class_folder(tmp_path / "far", {"cat": 1}) / "cat" / "0.png"
        (tmp_path / "near").mkdir()
        manifest = tmp_path / "near" / "m.csv"
        manifest.write_text(f"path\n{file}\nfile://{file}\n../far/cat/0.png\n")
        assert len(pictures(ImageSource(str(manifest)))) == 3


class TestArrays:
    def test_further_arrays_of_that_length_are_metadata(self, tmp_path):
        np.savez(tmp_path / "a.npz", x=X, y=[b"a", b"b", b"a", b"b"], site=np.array([1.5, 2, 3, 4], "f4"), names=["a", "b"])
        source = ImageSource(str(tmp_path / "a.npz"))
        assert columns(source) == {
            "file": ["x[0]", "x[1]", "x[2]", "x[3]"],
            "label": ["a", "b", "a", "b"],
            "site": [1.5, 2.0, 3.0, 4.0],
        }

    @pytest.mark.parametrize(
        ("y", "label"),
        [
            (np.array([[3], [1], [2], [0]], np.uint8), [3, 1, 2, 0]),
            (np.array([3.0, 1, 2, 0]), [3, 1, 2, 0]),
            (np.array([0.5, 1, 2, 0]), [0.5, 1, 2, 0]),
            ([True, False, True, True], [True, False, True, True]),
            (pd.Series(["a", None, "b", "b"], dtype=object), ["a", None, "b", "b"]),
            (pd.Categorical(list("abca")), list("abca")),
        ],
    )
    def test_labels_have_plain_types(self, y, label):
        assert columns(image_memory_source(X, y))["label"] == label

    @pytest.mark.parametrize(
        ("x", "note"),
        [
            (X, None),
            (X / 255, "floats 0..1 to 8 bit"),
            ((X / 255).astype(np.float16), "floats 0..1 to 8 bit"),
            (X.astype(np.float32), "floats 0..255 to 8 bit"),
            (X.astype(">i8"), ">i8 to 8 bit"),
            (X.astype(np.uint16), "uint16 to 8 bit"),
            (np.asfortranarray(X), None),
        ],
    )
    def test_numbers_become_8_bit(self, tmp_path, x, note):
        np.savez(tmp_path / "a.npz", x=x)
        source = ImageSource(str(tmp_path / "a.npz"))
        assert np.array_equal(np.stack(pictures(source)), X)
        assert source.index().converted == ({note: 4} if note else {})

    def test_grey_needs_no_channels(self):
        source = image_memory_source(X[..., 0] > 99)
        assert np.array_equal(np.stack(pictures(source)), np.where(X[..., :1] > 99, 255, 0))
        assert source.index().converted == {"true and false to 255 and 0": 4}

    def test_images_with_nan_are_listed(self):
        x = X / 255
        x[1, 2, 3, 0], x[3, 0, 0, 2] = np.nan, np.inf
        index = image_memory_source(x).index()
        assert index.positions.tolist() == [0, 2]
        assert [(one.place, one.reason) for one in index.unreadable] == [
            (place, "it holds NaN or infinite values") for place in ("x[1]", "x[3]")
        ]

    def test_an_image_given_out_cannot_change_the_data(self):
        [image, *_] = pictures(image_memory_source(X))
        with pytest.raises(ValueError, match="read-only"):
            image[:] = 0


class TestCardsThatWantAnotherShape:
    def test_index_lists_what_does_not_fit_and_converts_what_does(self, tmp_path):
        flat = images.pixels(6, 9, 1)
        kinds = {
            "a.png": flat,
            "b.png": flat.repeat(3, axis=2),
            "c.png": images.pixels(9, 6, 1),
            "d.png": images.pixels(6, 9, 3),
            "e.png": images.pixels(6, 9, 4),
        }
        for name, array in kinds.items():
            (tmp_path / name).write_bytes(images.encoded(array))
        card = Image(size=(6, 9), channels=1)
        source = ImageSource(str(tmp_path))
        index = source.index(card)
        assert index.positions.tolist() == [0, 1]
        assert index.digests[0] == index.digests[1]
        assert index.converted == {"RGB with equal channels to grey": 1}
        assert {one.place: one.reason for one in index.unreadable} == {
            "c.png": "it has 9×6 pixels (height×width), the card's inputs.image.size is 6×9",
            "d.png": "it has colours, the card's inputs.image.channels is 1; save it as grey",
            "e.png": "parts of it are transparent, the card's inputs.image.channels is 1; save it without transparency",
        }
        assert all(np.array_equal(image, flat) for image in pictures(source, card))
        assert source.index().shapes.tolist() == [[6, 9, 1], [6, 9, 3], [9, 6, 1], [6, 9, 3], [6, 9, 4]]


shapes = st.tuples(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3, 4]))
some_images = st.lists(shapes.flatmap(lambda shape: npst.arrays(np.uint8, shape)), max_size=6)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    return Store(str(tmp_path_factory.mktemp("store")))


class TestArtifacts:
    @settings(max_examples=60)
    @given(some_images, st.data())
    def test_what_is_stored_comes_back(self, store, batch, data):
        ref = put_images(store, batch)
        assert ref.rows == len(batch)
        assert put_images(store, [image.copy(order="F") for image in batch]) == ref
        rows = data.draw(st.lists(st.integers(0, len(batch) - 1), max_size=9)) if batch else []
        for wanted, found in ((range(len(batch)), get_images(store, ref)), (rows, get_images(store, ref, rows))):
            assert all(np.array_equal(batch[row], image) for row, image in zip(wanted, found, strict=True))
            assert all(image.flags.writeable for image in found)

    def test_large_images_come_from_many_row_groups(self, store):
        batch = [images.pixels(700, 900, 3, seed) for seed in range(12)]
        rows = [11, 0, 7, 7]
        found = get_images(store, put_images(store, batch), np.array(rows))
        assert all(np.array_equal(batch[row], image) for row, image in zip(rows, found, strict=True))

    @pytest.mark.parametrize(
        "wrong",
        [np.zeros((2, 2), np.uint8), np.zeros((2, 2, 2), np.uint8), np.zeros((2, 2, 3)), np.zeros((0, 2, 3), np.uint8)],
    )
    def test_what_is_no_image_is_not_stored(self, store, wrong):
        with pytest.raises(ValueError, match="expected uint8 height × width"):
            put_images(store, [images.pixels(), wrong])

    @pytest.mark.parametrize(
        "columns",
        [
            {"pixels": [b"12"]},
            {"pixels": ["12"], "height": [2], "width": [1], "channels": [1]},
            {"pixels": [b"123"], "height": [2], "width": [1], "channels": [1]},
            {"pixels": [b"12"], "height": [-2], "width": [-1], "channels": [1]},
            {"pixels": [b"12"], "height": [1], "width": [1], "channels": [2]},
            {"pixels": [None], "height": [2], "width": [1], "channels": [1]},
            {"pixels": [b"12"], "height": [None], "width": [1], "channels": [1]},
        ],
    )
    def test_a_foreign_table_is_missing(self, store, columns):
        kinds = {"pixels": pa.string() if columns["pixels"] == ["12"] else pa.binary()}
        table = pa.table({name: pa.array(values, kinds.get(name, pa.int32())) for name, values in columns.items()})
        with pytest.raises(ArtifactMissing):
            get_images(store, put_table(store, table))

    def test_rows_that_are_not_there_are_missing(self, store):
        ref = put_images(store, [images.pixels()])
        for rows in ([1], [-1], [0, 5]):
            with pytest.raises(ArtifactMissing, match="holds 1 images"):
                get_images(store, ref, rows)

    def test_damaged_bytes_are_missing(self, tmp_path):
        store = Store(str(tmp_path))
        ref = put_images(store, [images.pixels()])
        file = tmp_path / ref.uri
        file.chmod(0o600)
        data = file.read_bytes()
        file.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
        with pytest.raises(ArtifactMissing):
            get_images(store, ref)
        no_table = store.put(b"PAR1 but not really PAR1", "parquet", 1)
        with pytest.raises(ArtifactMissing):
            get_images(store, no_table)


def test_data_of_another_process_says_so():
    with pytest.raises(InputError, match="lived in the memory of another process"):
        ImageSource(f"memory:{'0' * 32}").index()
    assert not TableSource(image_memory_source(X).table.url).url.startswith("memory://")

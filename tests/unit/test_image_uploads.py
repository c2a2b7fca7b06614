"""Image folders and manifests in the store, as workers on other machines read them: the same images under the same names."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from aitest_flows.suite_documents import upload
from aitest_lib.artifacts.store import Store
from aitest_lib.data.images import ImageSource


@pytest.fixture
def photos(tmp_path):
    rng = np.random.default_rng(0)
    for place in range(6):
        folder = tmp_path / "photos" / ("cat", "dog")[place % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (9, 8, 3), np.uint8)).save(folder / f"{place}.png")
    (tmp_path / "photos" / "cat" / "empty.png").write_bytes(b"")
    return tmp_path / "photos"


def test_a_folder_stays_what_it_is(photos, tmp_path):
    here = ImageSource(str(photos))
    store = Store(str(tmp_path / "store"))
    there = ImageSource(upload(store, here))
    assert there.url != here.url
    assert there.digest() == here.digest()
    assert next(there.table.batches()).to_pylist() == next(here.table.batches()).to_pylist()
    assert there.index().digests.tobytes() == here.index().digests.tobytes()
    assert there.index().unreadable == here.index().unreadable
    assert upload(store, here) == there.url


def test_a_half_copied_folder_is_copied_to_its_end(photos, tmp_path):
    here, store = ImageSource(str(photos)), Store(str(tmp_path / "store"))
    there = upload(store, here)
    for path in (f"data/{here.digest()}/cat/0.png", f"data/{here.digest()}/.complete"):
        store.remove(path)
    assert upload(store, here) == there
    assert ImageSource(there).digest() == here.digest()


def test_what_a_manifest_names_comes_with_it(photos, tmp_path):
    (tmp_path / "list.csv").write_text("path,label,camera\nphotos/cat/0.png,cat,a\nphotos/dog/1.png,dog,b\n")
    here = ImageSource(str(tmp_path / "list.csv"))
    there = ImageSource(upload(Store(str(tmp_path / "store")), here))
    assert there.index().digests.tobytes() == here.index().digests.tobytes()
    rows = next(there.table.batches()).to_pylist()
    assert [(row["label"], row["camera"]) for row in rows] == [("cat", "a"), ("dog", "b")]

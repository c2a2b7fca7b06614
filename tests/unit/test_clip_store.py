"""Clips in the store: what is stored comes back exactly, and what is no clip is missing."""

from __future__ import annotations

import clips
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from aitest_lib.artifacts.clips import get_clips, put_clips
from aitest_lib.artifacts.codecs import put_table
from aitest_lib.artifacts.images import put_images
from aitest_lib.artifacts.store import Store
from aitest_lib.errors import ArtifactMissing
from aitest_lib.pcm import clip_digest, of_pcm16
from aitest_lib.types import Clip

samples = npst.arrays(np.int16, st.integers(1, 60), elements=st.integers(-(2**15), 2**15 - 1))
some_clips = st.lists(st.builds(of_pcm16, samples, st.integers(1, 400_000)), max_size=6)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    return Store(str(tmp_path_factory.mktemp("store")))


def same(first: Clip, second: Clip) -> bool:
    equal = np.array_equal(first.samples, second.samples) and first.samples.dtype == second.samples.dtype
    return equal and first.sample_rate == second.sample_rate and clip_digest(first) == clip_digest(second)


@settings(max_examples=60)
@given(some_clips, st.data())
def test_what_is_stored_comes_back(store, batch, data):
    ref = put_clips(store, batch)
    assert ref.rows == len(batch)
    assert put_clips(store, [Clip(clip.samples.copy(), clip.sample_rate) for clip in batch]) == ref
    rows = data.draw(st.lists(st.integers(0, len(batch) - 1), max_size=9)) if batch else []
    for wanted, found in ((range(len(batch)), get_clips(store, ref)), (rows, get_clips(store, ref, rows))):
        assert all(same(batch[row], clip) for row, clip in zip(wanted, found, strict=True))
        assert all(clip.samples.flags.writeable for clip in found)


def test_other_samples_or_rates_are_another_object(store):
    first = clips.clip()
    refs = {put_clips(store, [one]).digest for one in (first, clips.clip(seed=1), Clip(first.samples, 8000))}
    assert len(refs) == 3


def test_long_clips_come_from_many_row_groups(store):
    batch = [clips.clip(1_500_000 + 7 * seed, seed=seed) for seed in range(7)]
    rows = [6, 0, 5, 5]
    found = get_clips(store, put_clips(store, batch), np.array(rows))
    assert all(same(batch[row], clip) for row, clip in zip(rows, found, strict=True))


@pytest.mark.parametrize(
    ("wrong", "rate"),
    [
        (np.zeros(3), 16_000),
        (np.zeros((3, 2), np.float32), 16_000),
        (np.zeros(0, np.float32), 16_000),
        (np.zeros(3, np.int16), 16_000),
        (np.zeros(3, np.float32), 0),
    ],
)
def test_what_is_no_clip_is_not_stored(store, wrong, rate):
    with pytest.raises(ValueError, match=r"expected float32 \(samples,\)"):
        put_clips(store, [clips.clip(), Clip(wrong, rate)])


def test_samples_that_are_not_finite_are_not_stored(store):
    with pytest.raises(ValueError, match="not finite"):
        put_clips(store, [Clip(np.array([0, np.nan], np.float32), 16_000)])


@pytest.mark.parametrize(
    "columns",
    [
        {"samples": [b"12"]},
        {"samples": ["12"], "sample_rate": [16_000]},
        {"samples": [b"123"], "sample_rate": [16_000]},
        {"samples": [b""], "sample_rate": [16_000]},
        {"samples": [None], "sample_rate": [16_000]},
        {"samples": [b"12"], "sample_rate": [0]},
        {"samples": [b"12"], "sample_rate": [None]},
    ],
)
def test_a_foreign_table_is_missing(store, columns):
    kinds = {"samples": pa.string() if columns["samples"] == ["12"] else pa.binary()}
    table = pa.table({name: pa.array(cells, kinds.get(name, pa.int32())) for name, cells in columns.items()})
    with pytest.raises(ArtifactMissing):
        get_clips(store, put_table(store, table))


def test_images_are_no_clips(store):
    with pytest.raises(ArtifactMissing, match="it does not hold 1 clips"):
        get_clips(store, put_images(store, [np.zeros((2, 2, 1), np.uint8)]))


def test_rows_that_are_not_there_are_missing(store):
    ref = put_clips(store, [clips.clip()])
    for rows in ([1], [-1], [0, 5]):
        with pytest.raises(ArtifactMissing, match="holds 1 clips"):
            get_clips(store, ref, rows)


def test_damaged_bytes_are_missing(tmp_path):
    store = Store(str(tmp_path))
    ref = put_clips(store, [clips.clip()])
    file = tmp_path / ref.uri
    file.chmod(0o600)
    data = file.read_bytes()
    file.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    with pytest.raises(ArtifactMissing):
        get_clips(store, ref)
    with pytest.raises(ArtifactMissing, match="not a readable Parquet file"):
        get_clips(store, store.put(b"PAR1 but not really PAR1", "parquet", 1))

"""Seeds that are clips: looked at once, with the words that were spoken in each as its label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.artifacts.clips import put_clips
from aitest_lib.artifacts.store import Store
from aitest_lib.config.inputs import Speech
from aitest_lib.config.suite import DataConfig
from aitest_lib.data.audio import AudioSource
from aitest_lib.data.sampling import StratifiedSampler
from aitest_lib.errors import InputError
from aitest_tasks.file_seeds import Found, write_file_seeds
from aitest_tasks.seed_tables import SECONDS, SPEAKER, SPEAKER_CODE

TEXT = "text"
SAMPLE_BYTES = 8  # of a clip in work: it and what is made of it, both float32


def write_audio_seeds(
    store: Store, source: AudioSource, data: DataConfig, sampler: StratifiedSampler, random_seed: int, speech: Speech | None
) -> dict[str, Any]:
    """Clips in rank order (see `write_file_seeds`), with their seconds and, where the data say it, the number of their speaker;
    and `sample_rates`, those that there are, in samples per second."""
    index = source.index(speech)
    table = source.table.take(index.positions, source.schema.names)
    if data.label is not None:
        table = _as_text(table, data.label)
    found = Found(
        table=table,
        positions=index.positions,
        digests=index.digests,
        sizes=index.lengths * SAMPLE_BYTES,
        read=lambda positions: source.clips(positions, speech),
        put=lambda clips: put_clips(store, clips),
        labels=[],
        strata=None,
        unreadable=index.unreadable,
        converted=index.converted,
        more={SECONDS: index.lengths / index.sample_rates, **_speakers(table)},
    )
    written = write_file_seeds(store, found, data, sampler, random_seed)
    return written | {"sample_rates": np.unique(index.sample_rates).tolist()}


def _speakers(table: pa.Table) -> dict[str, NDArray[np.int64]]:
    """The speaker of each clip as a number, -1 where nobody knows: who it is may be private, who is the same may not."""
    if SPEAKER not in table.column_names:
        return {}
    codes = table.column(SPEAKER).combine_chunks().dictionary_encode().indices
    return {SPEAKER_CODE: np.asarray(codes.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)}


def transcript_label(source: AudioSource, data: DataConfig) -> str | None:
    """The column of the transcripts: the suite's, else `text` where the data have one."""
    if data.label is not None:
        return data.label
    return TEXT if TEXT in source.schema.names else None


def _as_text(table: pa.Table, label: str) -> pa.Table:
    """The table with its transcripts as text; where there is none, nothing was said."""
    column = table.column(label)
    if not pa.types.is_string(column.type) and not pa.types.is_null(column.type):
        raise InputError(f"data.label {label!r}: got {column.type} in it, expected what was said; write it as text")
    told = pa.chunked_array([[one or "" for one in column.to_pylist()]], pa.string())
    return table.set_column(table.column_names.index(label), label, told)

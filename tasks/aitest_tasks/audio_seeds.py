"""Seeds that are clips: looked at once, with the words that were spoken in each as its label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from aitest_lib.artifacts.clips import put_clips
from aitest_lib.artifacts.store import Store
from aitest_lib.config.inputs import Speech
from aitest_lib.config.suite import DataConfig
from aitest_lib.data.audio import AudioSource
from aitest_lib.data.sampling import StratifiedSampler
from aitest_lib.errors import InputError
from aitest_tasks.file_seeds import Found, write_file_seeds

TEXT = "text"
SAMPLE_BYTES = 8  # of a clip in work: it and what is made of it, both float32


def write_audio_seeds(
    store: Store, source: AudioSource, data: DataConfig, sampler: StratifiedSampler, random_seed: int, speech: Speech | None
) -> dict[str, Any]:
    """Clips in rank order (see `write_file_seeds`), and `sample_rates`, those that there are, in samples per second, and the
    `seconds` of audio in all seeds."""
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
    )
    written = write_file_seeds(store, found, data, sampler, random_seed)
    lasting = index.lengths / index.sample_rates
    return written | {"sample_rates": np.unique(index.sample_rates).tolist(), "seconds": float(lasting.sum())}


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

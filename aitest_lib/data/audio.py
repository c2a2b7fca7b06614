"""Clips as data: a manifest of audio files with their transcripts, a folder of them, or clips given in Python.

Every clip is mono PCM16, at the sample rate of the card where it has one. Clips may differ in length and, without a card, in
rate. One that cannot be used is skipped and listed, and never ends a run; clips are read one at a time.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.canonical import array_digest, digest
from aitest_lib.config.inputs import Speech
from aitest_lib.data.audio_decoding import Decoded, fitted, of_array
from aitest_lib.data.audio_files import TEXT, AudioFiles, audio_folder, audio_manifest
from aitest_lib.data.file_access import UnreadableFile
from aitest_lib.data.images import Unreadable
from aitest_lib.data.table import FORMATS, TableSource, hex_digests, memory_source, memory_table, row_digests
from aitest_lib.errors import InputError
from aitest_lib.pcm import clip_digest
from aitest_lib.types import Clip


@dataclass(frozen=True, eq=False)
class AudioIndex:
    """What one pass over all clips found, in the order of the source.

    `positions`: int64 (n,) of the clips that can be used. `digests`: void16 (n,), `pcm.clip_digest` of what
    `AudioSource.clips` gives for them. `lengths`: int64 (n,), samples; `sample_rates`: int32 (n,), Hz. `unreadable`: the
    others, and files that are no audio. `converted`: how many clips were changed in which way, or are odd in which way.
    """

    positions: NDArray[np.int64]
    digests: NDArray[np.void]
    lengths: NDArray[np.int64]
    sample_rates: NDArray[np.int32]
    unreadable: list[Unreadable]
    converted: dict[str, int]


@dataclass(frozen=True, eq=False)
class AudioArrays:
    """Clips given in Python, decoded or with the reason why they are not, with their metadata."""

    clips: list[Decoded | UnreadableFile]
    table: pa.Table
    strays: ClassVar[dict[str, str]] = {}

    @property
    def places(self) -> list[str]:
        """What to call each clip."""
        return _places(len(self.clips))

    def load(self, positions: Iterable[int]) -> Iterator[Decoded | UnreadableFile]:
        """The clips at `positions`, in their order."""
        return (self.clips[position] for position in positions)

    def digest(self) -> str:
        """BLAKE2b-128 of the samples, their rates and the metadata."""
        known = [str(one) if isinstance(one, UnreadableFile) else [array_digest(one[0]), *one[1:]] for one in self.clips]
        return digest([known, str(self.table.schema), hex_digests(row_digests(self.table))])


Clips = AudioFiles | AudioArrays

_memory: dict[str, AudioArrays] = {}
_memory_lock = threading.Lock()


@dataclass(frozen=True)
class AudioSource:
    """Where clips come from: a path or fsspec URL, or `memory:<digest>` for clips given in Python.

    A CSV, JSONL or Parquet file is a manifest with `path` and usually `text`, what is said in the clip; its other columns
    describe the clips. A folder holds clips without transcripts, in folders of any names.
    """

    url: str

    is_one_file: ClassVar[bool] = False

    @property
    def in_memory(self) -> bool:
        """Do the clips live in this process only."""
        return self.url.startswith("memory:") and not self.url.startswith("memory://")

    @property
    def has_manifest(self) -> bool:
        """Are the clips those that a table names."""
        return PurePosixPath(self.url).suffix.lower() in FORMATS

    def digest(self) -> str:
        """BLAKE2b-128 of the names and bytes of all files (of a manifest, too), or of the arrays."""
        return self._clips.digest()

    @property
    def schema(self) -> pa.Schema:
        """The metadata's columns and plain types: `file` (what to call the clip), `text` where there is one, others."""
        return self.table.schema

    @property
    def rows(self) -> int:
        """Number of clips, usable or not; at least one."""
        return len(self._clips.places)

    @cached_property
    def table(self) -> TableSource:
        """The metadata of all clips, in memory."""
        return memory_table(self._clips.table)

    def index(self, speech: Speech | None = None) -> AudioIndex:
        """Reads every clip once, as `clips` gives it for a card with this `inputs.speech`.

        Raises `InputError` where not a single clip can be used.
        """
        positions, digests, lengths, rates = [], bytearray(), [], []
        unreadable: list[Unreadable] = []
        converted: Counter[str] = Counter()
        places = self._clips.places
        for position, (place, found) in enumerate(zip(places, self._load(range(self.rows), speech), strict=True)):
            if isinstance(found, UnreadableFile):
                unreadable.append(Unreadable(place, str(found)))
                continue
            clip, notes = found
            positions.append(position)
            digests += bytes.fromhex(clip_digest(clip))
            lengths.append(len(clip.samples))
            rates.append(clip.sample_rate)
            converted.update(notes)
        if not positions:
            first = unreadable[0]
            raise InputError(f"data {self.url}: none of {self.rows} clips can be used; {first.place}: {first.reason}")
        return AudioIndex(
            positions=np.array(positions, np.int64),
            digests=np.frombuffer(bytes(digests), "V16"),
            lengths=np.array(lengths, np.int64),
            sample_rates=np.array(rates, np.int32),
            unreadable=unreadable + [Unreadable(place, reason) for place, reason in self._clips.strays.items()],
            converted=dict(sorted(converted.items())),
        )

    def clips(self, positions: NDArray[np.int64], speech: Speech | None = None) -> Iterator[Clip]:
        """The clips at `positions` (any order) one by one.

        Raises `InputError` for one that cannot be used, as it could when `index` read it.
        """
        wanted = positions.tolist()
        for position, found in zip(wanted, self._load(wanted, speech), strict=True):
            if isinstance(found, UnreadableFile):
                place = self._clips.places[position]
                raise InputError(f"data {self.url}: {place} has changed since it was read: {found}; run it again")
            yield found[0]

    def contents(self) -> Iterator[tuple[str, bytes | None]]:
        """The place and the bytes of every clip that is a file; None where it cannot be read."""
        files = self._clips
        if isinstance(files, AudioArrays):
            raise InputError(f"data {self.url}: got clips in memory, expected audio files; write them with soundfile")
        for place, content in zip(files.places, files.contents(range(self.rows)), strict=True):
            yield place, content if isinstance(content, bytes) else None

    def _load(self, positions: Iterable[int], speech: Speech | None) -> Iterator[tuple[Clip, tuple[str, ...]] | UnreadableFile]:
        for found in self._clips.load(positions):
            try:
                yield found if isinstance(found, UnreadableFile) else fitted(*found, speech)
            except UnreadableFile as error:
                yield error

    @cached_property
    def _clips(self) -> Clips:
        if not self.in_memory:
            return audio_manifest(self.url) if self.has_manifest else audio_folder(self.url)
        with _memory_lock:
            if self.url not in _memory:
                raise InputError("the data of this run lived in the memory of another process; run it again from there")
            return _memory[self.url]


def audio_memory_source(clips: Any, texts: Any = None, table: pd.DataFrame | None = None) -> AudioSource:
    """Clips as a source: a list of `Clip`, or of pairs of samples ((n,) or (n, channels); floats from -1 to 1, or integers)
    and sample rate. `texts`: what is said in each; `table`: further columns. They stay in this process, copied."""
    if not isinstance(clips, Sequence) or isinstance(clips, str) or not len(clips):
        raise InputError(f"data: got {_shown(clips)}, expected a list of pairs (samples, sample rate), at least one")
    decoded = [_decoded(position, clip) for position, clip in enumerate(clips)]
    columns = {"file": pa.array(_places(len(clips)), pa.string())}
    if texts is not None:
        columns[TEXT] = _texts(list(texts), len(clips))
    described = pa.table(columns)
    if table is not None:
        for field, column in _columns(table, len(clips), set(columns)):
            described = described.append_column(field, column)
    arrays = AudioArrays(decoded, described)
    url = f"memory:{arrays.digest()}"
    with _memory_lock:
        _memory[url] = arrays
    return AudioSource(url)


def _decoded(position: int, clip: Any) -> Decoded | UnreadableFile:
    pair = (clip.samples, clip.sample_rate) if isinstance(clip, Clip) else clip
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise InputError(f"data: clip {position} is {_shown(clip)}, expected a pair (samples, sample rate)")
    try:
        return of_array(*pair)
    except UnreadableFile as error:
        return error
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists, tensors on a GPU, a rate that is no number
        raise InputError(f"data: clip {position} is no array with a sample rate; expected (samples, sample rate)") from error


def _texts(texts: list[Any], rows: int) -> pa.Array:
    """Transcripts as text, empty where there is none (None, NaN)."""
    if len(texts) != rows:
        raise InputError(f"data: got {len(texts)} texts for {rows} clips, expected one for each")
    missing = [text is None or (isinstance(text, float) and np.isnan(text)) for text in texts]
    for text, none in zip(texts, missing, strict=True):
        if not none and not isinstance(text, str):
            raise InputError(f"data: got a text that is {_shown(text)}, expected what is said in the clip as str, or None")
    return pa.array(["" if none else text for text, none in zip(texts, missing, strict=True)], pa.string())


def _columns(frame: pd.DataFrame, rows: int, taken: set[str]) -> Iterator[tuple[pa.Field, pa.ChunkedArray]]:
    source = memory_source(frame)
    if len(frame) != rows or taken & set(source.schema.names):
        got = f"{len(frame)} rows with the columns {', '.join(source.schema.names)}"
        raise InputError(f"data: got a table of {got}, expected {rows} rows and no column {' or '.join(sorted(taken))}")
    found = pa.concat_tables(source.batches())
    return zip(found.schema, found.columns, strict=True)


def _shown(value: Any) -> str:
    return f"a {type(value).__name__}" + (f" of {len(value)}" if hasattr(value, "__len__") else "")


def _places(rows: int) -> list[str]:
    return [f"clip[{position}]" for position in range(rows)]

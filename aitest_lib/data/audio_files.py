"""Audio files: all of a folder, or those that a manifest names with what is said in them."""

from __future__ import annotations

from pathlib import PurePosixPath

import fsspec
import pyarrow as pa
import pyarrow.csv as pacsv

from aitest_lib.data.audio_decoding import Decoded, decode_audio
from aitest_lib.data.file_access import reaching
from aitest_lib.data.files import Files, manifest_table, named_files, open_folder
from aitest_lib.data.image_layout import ending, hidden, shown, strays
from aitest_lib.data.parsing import BLOCK_BYTES
from aitest_lib.data.table import TableSource
from aitest_lib.errors import InputError

AudioFiles = Files[Decoded]

READ = (".wav", ".wave", ".flac", ".ogg", ".oga", ".opus", ".mp3")
# Formats that are not read, but certainly audio: they are listed one by one.
ENDINGS = (*READ, ".m4a", ".mp4", ".aac", ".webm", ".amr", ".3gp", ".wma", ".aif", ".aiff", ".caf", ".au", ".sph")
TEXT = "text"  # the column of what is said
FOLDER = "clips as a folder, or as a manifest ending in .csv, .jsonl or .parquet"
MANIFEST = "a text column `path` (audio files, relative to this table) and usually `text` (what is said in them)"


def audio_folder(url: str) -> AudioFiles:
    """The clips of a folder and of the folders in it, without transcripts."""
    folder = open_folder(url, FOLDER)
    names = audio_names(url, folder.names)
    others = [name for name in _seen(folder.names) if ending(name) not in ENDINGS]
    places = [shown(name) for name in names]
    table = pa.table({"file": pa.array(places, pa.string())})
    left_out = strays(others, "audio file") | folder.links
    return AudioFiles(places, table, lambda at: folder.read(names[at]), decode_audio, folder.remote, left_out)


def audio_manifest(url: str) -> AudioFiles:
    """The clips that a table names. `text` is what is said, as it is written there; where nothing is, it is empty."""
    with reaching(url):
        table, salt = manifest_table(url, MANIFEST, [TEXT])
        if TEXT in table.column_names:
            place = table.column_names.index(TEXT)
            table = table.set_column(place, TEXT, _transcripts(url, table.column(TEXT)))
    return named_files(url, table, salt, decode_audio)


def audio_names(url: str, names: list[str]) -> list[str]:
    """The audio files among the files of a folder, sorted; `InputError` where there are none."""
    seen = _seen(names)
    found = [name for name in seen if ending(name) in ENDINGS]
    if not found:
        got = f"{len(seen)} other files ({shown(seen[0])}, …)" if seen else "an empty folder"
        raise InputError(f"data {url}: got {got}, expected audio files ({', '.join(READ)})")
    return found


def _seen(names: list[str]) -> list[str]:
    return sorted(name for name in names if not any(map(hidden, PurePosixPath(name).parts)))


def _transcripts(url: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column of transcripts as text. A CSV is read again for it: "007" is no number, and "null" and "NA" are words."""
    if TableSource(url).format == "csv":
        with fsspec.open(url, "rb").open() as file:
            table = pacsv.read_csv(
                file,
                read_options=pacsv.ReadOptions(block_size=BLOCK_BYTES),
                convert_options=pacsv.ConvertOptions(
                    include_columns=[TEXT], column_types={TEXT: pa.string()}, strings_can_be_null=False
                ),
            )
        return table.column(TEXT)
    if not (pa.types.is_string(column.type) or pa.types.is_integer(column.type)):
        raise InputError(f"data {url}: column {TEXT!r} has type {column.type}, expected what is said; store it as text")
    return column.cast(pa.string()).fill_null("")

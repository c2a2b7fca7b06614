"""Image files: a folder per class, a flat folder, a ZIP archive of either, or a manifest."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import PurePosixPath

import fsspec
import pyarrow as pa

from aitest_lib.data.decoding import Decoded, decode
from aitest_lib.data.file_access import FILE_BYTES, check_size, is_local, reaching, reading_one, unpacking
from aitest_lib.data.files import Files, manifest_table, named_files, open_folder
from aitest_lib.data.image_layout import Layout, layout, shown

ImageFiles = Files[Decoded]

FOLDER = "images as a folder, or a file ending in .npz, .zip, .csv, .jsonl or .parquet"
MANIFEST = (
    "a text column `path` (image files, relative to this table) and usually `label`; images that are no files come as a folder "
    "or an .npz"
)


def folder_files(url: str) -> ImageFiles:
    """The images of a folder: its subfolders are the classes."""
    folder = open_folder(url, FOLDER)
    found = layout(url, folder.names)
    return _laid_out(found, lambda position: folder.read(found.names[position]), folder.remote, folder.links)


def zip_files(url: str) -> ImageFiles:
    """The images of a ZIP archive, which is a folder in one file."""
    with reaching(url):
        fs, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
        file = path if is_local(fs) else fs.open(path, "rb")
        with unpacking(url, "expected a ZIP archive of images"):
            archive = zipfile.ZipFile(file)
    members = {info.filename: info for info in archive.infolist() if not info.is_dir()}
    found = layout(url, list(members), PurePosixPath(path).stem)

    def read(position: int) -> bytes:
        with reading_one(url, fs), archive.open(members[found.names[position]]) as member:
            data = member.read(FILE_BYTES + 1)  # never more, whatever the archive says of its size
        check_size(len(data))
        return data

    return _laid_out(found, read, False, {})


def manifest_files(url: str) -> ImageFiles:
    """The images that a table names."""
    with reaching(url):
        table, salt = manifest_table(url, MANIFEST, ["label"])
    return named_files(url, table, salt, decode)


def _laid_out(found: Layout, read: Callable[[int], bytes], remote: bool, links: dict[str, str]) -> ImageFiles:
    places = [shown(name) for name in found.names]
    columns = {"file": pa.array(places, pa.string())} | ({} if found.labels is None else {"label": found.labels})
    return ImageFiles(places, pa.table(columns), read, decode, remote, found.strays | links)

"""Image files: a folder per class, a flat folder, a ZIP archive of either, or a manifest; local, or on any fsspec file system.

What is found comes in the order of the names (of the rows, in a manifest), whatever order the file system has.
"""

from __future__ import annotations

import os
import posixpath
import zipfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec
import pyarrow as pa

from aitest_lib.canonical import DIGEST_BYTES, canonical_json, digest_bytes
from aitest_lib.data.decoding import Decoded, UnreadableImage, decode
from aitest_lib.data.image_access import FILE_BYTES, check_size, is_local, reaching, read_file, reading_one, unpacking
from aitest_lib.data.image_layout import Layout, ending, hidden, layout, shown
from aitest_lib.data.table import TableSource
from aitest_lib.errors import InputError

AT_ONCE = 16  # files that are fetched from a remote file system


@dataclass(frozen=True)
class ImageFiles:
    """Images of which each is a file.

    `places`: what to call each. `table`: the metadata of each. `read`: the bytes of the image at a position;
    `UnreadableImage` where there are none. `remote`: does reading mean waiting. `strays`: what else lies there, and why it
    is left out. `salt`: the digest of what describes them.
    """

    places: list[str]
    table: pa.Table
    read: Callable[[int], bytes]
    remote: bool
    strays: dict[str, str] = field(default_factory=dict)
    salt: str = ""

    def digest(self) -> str:
        """BLAKE2b-128 of the names and bytes of all files."""
        hasher = blake2b(self.salt.encode(), digest_size=DIGEST_BYTES)
        for place, content in zip(self.places, self.contents(range(len(self.places))), strict=True):
            known = digest_bytes(content) if isinstance(content, bytes) else None
            hasher.update(canonical_json([place, known]).encode())
        return hasher.hexdigest()

    def load(self, positions: Iterable[int]) -> Iterator[Decoded | UnreadableImage]:
        """The images at `positions`, in their order."""
        for content in self.contents(positions):
            try:
                yield decode(content) if isinstance(content, bytes) else content
            except UnreadableImage as error:
                yield error

    def contents(self, positions: Iterable[int]) -> Iterator[bytes | UnreadableImage]:
        """The bytes of the files at `positions`, in order; of a remote file system, the next ones are fetched meanwhile."""
        if not self.remote:
            yield from map(self._content, positions)
            return
        pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="aitest-images")
        try:
            waiting: deque[Future[bytes | UnreadableImage]] = deque()
            for position in positions:
                waiting.append(pool.submit(self._content, position))
                if len(waiting) > AT_ONCE:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _content(self, position: int) -> bytes | UnreadableImage:
        try:
            return self.read(position)
        except UnreadableImage as error:
            return error


def folder_files(url: str) -> ImageFiles:
    """The images of a folder: its subfolders are the classes."""
    with reaching(url):
        fs, root = fsspec.core.url_to_fs(url, use_listings_cache=False)
        if not fs.isdir(root):
            if not fs.exists(root):
                raise FileNotFoundError(root)
            known = "a folder, or a file ending in .npz, .zip, .csv, .jsonl or .parquet"
            raise InputError(f"data {url}: got a file ending in {ending(url) or 'nothing'}, expected images as {known}")
        if is_local(fs):
            names, links = _local_names(root)
        else:
            names, links = [posixpath.relpath(name, root) for name in fs.find(root)], {}
    found = layout(url, names)
    paths = [posixpath.join(root, name) for name in found.names]
    return _laid_out(found, lambda position: read_file(url, fs, paths[position]), not is_local(fs), links)


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
    """The images that a table names in its column `path`, relative to the table; its other columns are metadata."""
    with reaching(url):
        fs, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
        table, salt = _manifest(url)
    named = table.column("path").to_pylist()

    def read(position: int) -> bytes:
        if not named[position]:
            raise UnreadableImage("its row has no path")
        return read_file(url, fs, _resolved(named[position], fs, posixpath.dirname(path)))

    places = [name or f"row {row}" for row, name in enumerate(named)]
    described = table.drop_columns(["path"]).add_column(0, "file", pa.array(places, pa.string()))
    return ImageFiles(places, described, read, not is_local(fs), salt=salt)


def _laid_out(found: Layout, read: Callable[[int], bytes], remote: bool, links: dict[str, str]) -> ImageFiles:
    places = [shown(name) for name in found.names]
    columns = {"file": pa.array(places, pa.string())} | ({} if found.labels is None else {"label": found.labels})
    return ImageFiles(places, pa.table(columns), read, remote, found.strays | links)


def _manifest(url: str) -> tuple[pa.Table, str]:
    """The table of a manifest, `path` and `label` first, and its digest."""
    source = TableSource(url)
    columns = source.schema.names
    if "path" not in columns or not pa.types.is_string(source.schema.field("path").type):
        raise InputError(
            f"data {url}: got the columns {', '.join(columns)}, expected a text column `path` (image files, relative to this "
            "table) and usually `label`; images that are no files come as a folder or an .npz"
        )
    if "file" in columns:
        raise InputError(f"data {url}: got both columns path and file, but `file` is what aitest calls the path; rename it")
    order = sorted(columns, key=lambda name: (name != "path", name != "label"))
    return pa.concat_tables(source.batches(order)), source.digest()


def _resolved(path: str, fs: Any, home: str) -> str:
    """Where the file that a manifest names lies. Other file systems than the manifest's own are not asked."""
    scheme, found, _ = path.partition("://")
    if found and scheme not in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol):
        raise UnreadableImage(f"its path begins with {scheme}://, expected one relative to the manifest")
    return str(fs._strip_protocol(path)) if found else posixpath.join(home, path)


def _local_names(root: str) -> tuple[list[str], dict[str, str]]:
    """All files below a local folder, through links to folders, too; no folder is entered twice by links."""
    names, links, entered = [], {}, {os.path.realpath(root)}

    def refuse(error: OSError) -> None:
        raise error

    for folder, folders, files in os.walk(root, onerror=refuse, followlinks=True):
        inside = Path(folder).relative_to(root)
        kept = []
        for name in sorted(name for name in folders if not hidden(name)):
            path = Path(folder, name)
            target = os.path.realpath(path)
            if path.is_symlink() and target in entered:
                links[shown((inside / name).as_posix())] = "it is a link to a folder that is read already"
            else:
                entered.add(target)
                kept.append(name)
        folders[:] = kept
        names += [(inside / name).as_posix() for name in files]
    return names, links

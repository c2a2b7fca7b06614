"""Data of which each part is a file: all of a folder, or those that a manifest names; local, or on any fsspec file system.

What is found comes in the order of the names (of the rows, in a manifest), whatever order the file system has.
"""

from __future__ import annotations

import os
import posixpath
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Generic, TypeVar

import fsspec
import pyarrow as pa

from aitest_lib.canonical import DIGEST_BYTES, canonical_json, digest_bytes
from aitest_lib.data.file_access import UnreadableFile, is_local, reaching, read_file
from aitest_lib.data.image_layout import ending, hidden, shown
from aitest_lib.data.table import TableSource
from aitest_lib.errors import InputError

AT_ONCE = 16  # files that are fetched from a remote file system

D = TypeVar("D")  # what a file is decoded to


@dataclass(frozen=True)
class Files(Generic[D]):
    """Images or clips of which each is a file.

    `places`: what to call each. `table`: the metadata of each. `read`: the bytes of the one at a position;
    `UnreadableFile` where there are none. `decode`: what they hold; `UnreadableFile`, too. `remote`: does reading mean
    waiting. `strays`: what else lies there, and why it is left out. `salt`: the digest of what describes them.
    """

    places: list[str]
    table: pa.Table
    read: Callable[[int], bytes]
    decode: Callable[[bytes], D]
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

    def load(self, positions: Iterable[int]) -> Iterator[D | UnreadableFile]:
        """What the files at `positions` hold, in their order."""
        for content in self.contents(positions):
            try:
                yield self.decode(content) if isinstance(content, bytes) else content
            except UnreadableFile as error:
                yield error

    def contents(self, positions: Iterable[int]) -> Iterator[bytes | UnreadableFile]:
        """The bytes of the files at `positions`, in order; of a remote file system, the next ones are fetched meanwhile."""
        if not self.remote:
            yield from map(self._content, positions)
            return
        pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="aitest-files")
        try:
            waiting: deque[Future[bytes | UnreadableFile]] = deque()
            for position in positions:
                waiting.append(pool.submit(self._content, position))
                if len(waiting) > AT_ONCE:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _content(self, position: int) -> bytes | UnreadableFile:
        try:
            return self.read(position)
        except UnreadableFile as error:
            return error


@dataclass(frozen=True)
class Folder:
    """A folder on the file system `fs`: `names` of all files below `root`, relative and unsorted; `links` that are not
    followed, and why."""

    url: str
    fs: Any
    root: str
    names: list[str]
    links: dict[str, str]

    @property
    def remote(self) -> bool:
        """Does reading a file mean waiting."""
        return not is_local(self.fs)

    def read(self, name: str) -> bytes:
        """The bytes of one file; `UnreadableFile` where it alone is at fault."""
        return read_file(self.url, self.fs, posixpath.join(self.root, name))


def open_folder(url: str, expected: str) -> Folder:
    """The folder at a path or fsspec URL. `expected`: what the message for anything else says."""
    with reaching(url):
        fs, root = fsspec.core.url_to_fs(url, use_listings_cache=False)
        if not fs.isdir(root):
            if not fs.exists(root):
                raise FileNotFoundError(root)
            raise InputError(f"data {url}: got a file ending in {ending(url) or 'nothing'}, expected {expected}")
        if is_local(fs):
            return Folder(url, fs, root, *_local_names(root))
        return Folder(url, fs, root, [posixpath.relpath(name, root) for name in fs.find(root)], {})


def manifest_table(url: str, expected: str, first: Sequence[str]) -> tuple[pa.Table, str]:
    """The table of a manifest, with `path` and then `first` (where there are such columns) in front, and its digest.

    `expected`: what the message for a table without `path` says.
    """
    source = TableSource(url)
    columns = source.schema.names
    if "path" not in columns or not pa.types.is_string(source.schema.field("path").type):
        raise InputError(f"data {url}: got the columns {', '.join(columns)}, expected {expected}")
    if "file" in columns:
        raise InputError(f"data {url}: got both columns path and file, but `file` is what aitest calls the path; rename it")
    front = ["path", *first]
    order = sorted(columns, key=lambda name: front.index(name) if name in front else len(front))
    source.rows  # noqa: B018 -- says so where there are none
    return pa.concat_tables(source.batches(order)), source.digest()


def named_files(url: str, table: pa.Table, salt: str, decode: Callable[[bytes], D]) -> Files[D]:
    """The files that the manifest at `url` names in its column `path`, relative to it; its other columns are metadata."""
    with reaching(url):
        fs, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
    named = table.column("path").to_pylist()

    def read(position: int) -> bytes:
        if not named[position]:
            raise UnreadableFile("its row has no path")
        return read_file(url, fs, _resolved(named[position], fs, posixpath.dirname(path)))

    places = [name or f"row {row}" for row, name in enumerate(named)]
    described = table.drop_columns(["path"]).add_column(0, "file", pa.array(places, pa.string()))
    return Files(places, described, read, decode, not is_local(fs), salt=salt)


def _resolved(path: str, fs: Any, home: str) -> str:
    """Where the file that a manifest names lies. Other file systems than the manifest's own are not asked."""
    scheme, found, _ = path.partition("://")
    if found and scheme not in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol):
        raise UnreadableFile(f"its path begins with {scheme}://, expected one relative to the manifest")
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

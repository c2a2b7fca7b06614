"""The files of a store: a folder, or any file system that fsspec knows. Paths are relative to the store's root.

Methods raise `FileNotFoundError` for what is not there, and whatever the file system raises for the rest; the store turns
that into messages.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import uuid4

from aitest_lib.canonical import DIGEST_BYTES, digest_bytes
from aitest_lib.errors import StoreError

TEMPORARY = ".tmp-"
CHUNK = 1 << 20


class RemoteFiles:
    """Files of an fsspec file system whose writes are whole or not at all."""

    def __init__(self, fs: Any, root: str) -> None:
        self.fs = fs
        self.root = root.rstrip("/")

    def at(self, path: str) -> str:
        """The path as the file system knows it; one that leads out of the root is a `StoreError`."""
        if ".." in path.split("/") or "\0" in path:
            raise StoreError(f"path {path[:100]!r} leads out of the store {self.root}; remove the record that names it")
        return f"{self.root}/{path}"

    def write(self, path: str, data: bytes) -> None:
        """Writes a file whole: a reader sees the old bytes or the new ones."""
        self.fs.pipe_file(self.at(path), data)

    def create(self, path: str, data: bytes) -> bool:
        """Writes a file whole where there is none yet; False where there is one. Of several at once one succeeds."""
        try:
            self.fs.pipe_file(self.at(path), data, mode="create")
        except FileExistsError:
            return False
        return True

    def write_new(self, path: str, data: bytes) -> None:
        """Writes a file whose name is the digest of its bytes; undamaged ones that are there already may be left."""
        if self.digest(path) != digest_bytes(data):
            self.write(path, data)

    def upload(self, path: str, file: Path) -> None:
        """Moves a finished local file into the store, without holding it in memory."""
        self.fs.put_file(str(file), self.at(path))
        file.unlink()

    def read(self, path: str) -> bytes:
        """The bytes of a file."""
        return bytes(self.fs.cat_file(self.at(path)))

    def read_many(self, paths: list[str]) -> list[bytes | None]:
        """The bytes of several files in their order, None for one that is not there."""
        return [self._read_if_there(path) for path in paths]

    def digest(self, path: str) -> str | None:
        """BLAKE2b-128 of a file's bytes, read piece by piece; None where it is not there."""
        hasher = blake2b(digest_size=DIGEST_BYTES)
        try:
            with self.fs.open(self.at(path), "rb") as file:
                while chunk := file.read(CHUNK):
                    hasher.update(chunk)
        except FileNotFoundError:
            return None
        return hasher.hexdigest()

    def digests(self, paths: list[str]) -> list[str | None]:
        """`digest` of several files."""
        return [self.digest(path) for path in paths]

    def find(self, folder: str) -> list[str]:
        """Paths of all files under a folder, sorted."""
        start = len(self.root) + 1
        names = (str(name)[start:] for name in self._names(folder))
        return sorted(name for name in names if not name.endswith("/") and not PurePosixPath(name).name.startswith(TEMPORARY))

    def folders(self, folder: str) -> list[str]:
        """Names of the folders directly under a folder, sorted."""
        try:
            entries = self.fs.ls(self.at(folder), detail=True)
        except FileNotFoundError:
            return []
        return sorted(PurePosixPath(entry["name"]).name for entry in entries if entry["type"] == "directory")

    def exists(self, path: str) -> bool:
        """Is there a file."""
        return bool(self.fs.exists(self.at(path)))

    def remove(self, path: str) -> None:
        """Removes a file; fine if it is gone already."""
        try:
            self.fs.rm_file(self.at(path))
        except FileNotFoundError:
            return

    def remove_empty(self, folder: str) -> None:
        """Removes an empty folder, where folders are things of their own."""

    def scratch_folder(self) -> Path:
        """Where a large file is put together before `upload`."""
        return Path(tempfile.gettempdir())

    def is_away(self, error: Exception) -> bool:
        """Does the error say that the service may be back soon."""
        return isinstance(error, TimeoutError | ConnectionError)

    def problem(self, error: Exception) -> str | None:
        """What is wrong and how to mend it, where an error of this file system needs more than its own words."""
        return None

    def _read_if_there(self, path: str) -> bytes | None:
        try:
            return self.read(path)
        except FileNotFoundError:
            return None

    def _names(self, folder: str) -> list[Any]:
        try:
            return list(self.fs.find(self.at(folder).rstrip("/")))
        except FileNotFoundError:
            return []


class LocalFiles(RemoteFiles):
    """Files of a folder on a local disk."""

    def write(self, path: str, data: bytes) -> None:
        target = Path(self.at(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = fresh_file(target.parent)
        try:
            fresh.write_bytes(data)
            fresh.replace(target)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise

    def create(self, path: str, data: bytes) -> bool:
        target = Path(self.at(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = fresh_file(target.parent)
        try:
            fresh.write_bytes(data)
            _link(fresh, target)
        except FileExistsError:
            return False
        finally:
            fresh.unlink(missing_ok=True)
        return True

    def upload(self, path: str, file: Path) -> None:
        target = Path(self.at(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(file, target)

    def remove_empty(self, folder: str) -> None:
        with suppress(OSError):
            Path(self.at(folder)).rmdir()

    def scratch_folder(self) -> Path:
        return Path(self.root, "scratch")  # on the same disk, so that `upload` only renames

    def is_away(self, error: Exception) -> bool:
        return False


def fresh_file(folder: Path) -> Path:
    """A new empty file with the permissions that the user's other files get (mkstemp's would shut out other workers)."""
    file = folder / f"{TEMPORARY}{uuid4().hex}"
    file.touch(exist_ok=False)
    return file


def _link(file: Path, target: Path) -> None:
    """Gives a finished file a second name, unless that is taken. Disks without hard links get a copy."""
    try:
        os.link(file, target)
    except FileExistsError:
        raise
    except OSError:
        with target.open("xb") as handle:
            handle.write(file.read_bytes())

"""The artifact store: content-addressed objects and a few named records, on any fsspec file system.

    objects/<2 hex>/<30 hex>.<codec>     immutable, named by the BLAKE2b-128 of their bytes, verified when read
    runs/<id>/…, answers/…, looks/…      named records, written whole

Nothing but JSON and data formats is read back; no pickle anywhere.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar
from uuid import uuid4

import fsspec
from fsspec.implementations.local import LocalFileSystem

from aitest_lib.canonical import DIGEST_BYTES, canonical_json, digest_bytes
from aitest_lib.errors import ArtifactMissing, InputError, StoreError
from aitest_lib.types import ArtifactRef

R = TypeVar("R")


class Store:
    """Artifacts under one URL: a folder, or `s3://bucket/prefix` with the extra `s3`."""

    def __init__(self, url: str) -> None:
        try:
            # A cached listing would hide what another worker has written since.
            self.fs, root = fsspec.core.url_to_fs(url, use_listings_cache=False)
        except ImportError as error:
            raise InputError(
                f"store {url}: {error}; install the extra that brings it, e.g. pip install 'aitest[s3]'"
            ) from error
        except ValueError as error:
            raise InputError(f"store {url}: {error}; expected a folder, file:///… or s3://bucket/prefix") from error
        self.root = str(root).rstrip("/")
        self.local = isinstance(self.fs, LocalFileSystem)
        self.url = f"file://{self.root}" if self.local else url.rstrip("/")

    def url_of(self, path: str) -> str:
        """The full URL of a path inside the store."""
        return f"{self.url}/{path}"

    # -- named records ---------------------------------------------------------------------------------------------

    def write(self, path: str, data: bytes) -> None:
        """Writes a named record whole: a reader sees the old bytes or the new ones, never a part."""
        if not self.local:
            self._guard("write", path, lambda: self.fs.pipe_file(f"{self.root}/{path}", data))
            return

        def replace() -> None:
            target = Path(self.root, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            fresh = _fresh_file(target.parent)
            try:
                fresh.write_bytes(data)
                fresh.replace(target)
            except BaseException:
                fresh.unlink(missing_ok=True)
                raise

        self._guard("write", path, replace)

    def read(self, path: str) -> bytes:
        """The bytes of a named record; `ArtifactMissing` where there is none."""
        return bytes(self._guard("read", path, lambda: self.fs.cat_file(f"{self.root}/{path}")))

    def write_json(self, path: str, value: Any) -> None:
        """A named record as JSON."""
        self.write(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False).encode())

    def read_json(self, path: str) -> Any:
        """A named JSON record; a torn or foreign file is `ArtifactMissing`, too."""
        try:
            return json.loads(self.read(path))
        except ValueError as error:
            raise ArtifactMissing(self.url_of(path), "it is not JSON") from error

    def files(self, prefix: str) -> list[str]:
        """Paths of the files under a folder of the store, sorted; empty where there is none."""

        def find() -> list[str]:
            try:
                found = self.fs.find(f"{self.root}/{prefix}")
            except FileNotFoundError:
                return []
            start = len(self.root) + 1
            return sorted(str(name)[start:] for name in found if not PurePosixPath(name).name.startswith(".tmp-"))

        return self._guard("list", prefix, find)

    def folders(self, prefix: str) -> list[str]:
        """Names of the folders directly under a folder of the store, sorted."""

        def find() -> list[str]:
            try:
                entries = self.fs.ls(f"{self.root}/{prefix}", detail=True)
            except FileNotFoundError:
                return []
            return sorted(PurePosixPath(entry["name"]).name for entry in entries if entry["type"] == "directory")

        return self._guard("list", prefix, find)

    def exists(self, path: str) -> bool:
        """Is there a record or object at this path."""
        return bool(self._guard("look for", path, lambda: self.fs.exists(f"{self.root}/{path}")))

    def remove(self, path: str) -> None:
        """Removes a record or object; fine if it is gone already."""

        def delete() -> None:
            try:
                self.fs.rm_file(f"{self.root}/{path}")
            except FileNotFoundError:
                return

        self._guard("remove", path, delete)

    # -- content-addressed objects ---------------------------------------------------------------------------------

    def put(self, data: bytes, codec: str, rows: int) -> ArtifactRef:
        """Stores bytes under their digest. What is there already and undamaged is not written again."""
        name = digest_bytes(data)
        path = _object_path(name, codec)
        if not self.intact(ArtifactRef(uri=path, digest=name, codec=codec, rows=rows)):
            self.write(path, data)
        return ArtifactRef(uri=path, digest=name, codec=codec, rows=rows)

    def put_file(self, file: Path, codec: str, rows: int) -> ArtifactRef:
        """Stores a finished local file under its digest, without holding it in memory; the file is gone afterwards."""
        hasher = blake2b(digest_size=DIGEST_BYTES)
        with file.open("rb") as handle:
            while chunk := handle.read(1 << 20):
                hasher.update(chunk)
        name = hasher.hexdigest()
        path = _object_path(name, codec)

        def move() -> None:
            if not self.local:
                self.fs.put_file(str(file), f"{self.root}/{path}")
                file.unlink()
                return
            target = Path(self.root, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(file, target)

        self._guard("write", path, move)
        return ArtifactRef(uri=path, digest=name, codec=codec, rows=rows)

    def get(self, ref: ArtifactRef) -> bytes:
        """The bytes of an artifact, verified; damaged ones are removed and reported as `ArtifactMissing`."""
        data = self.read(ref.uri)
        if digest_bytes(data) != ref.digest:
            self.remove(ref.uri)
            raise ArtifactMissing(self.url_of(ref.uri), "its bytes do not match its digest")
        return data

    def intact(self, ref: ArtifactRef) -> bool:
        """Is the artifact there with the bytes of its digest; a damaged one is removed, so that it can be written anew."""

        def found() -> str | None:
            hasher = blake2b(digest_size=DIGEST_BYTES)
            try:
                with self.fs.open(f"{self.root}/{ref.uri}", "rb") as file:
                    while chunk := file.read(1 << 20):
                        hasher.update(chunk)
            except FileNotFoundError:
                return None
            return hasher.hexdigest()

        name = self._guard("read", ref.uri, found)
        if name is not None and name != ref.digest:
            self.remove(ref.uri)
        return name == ref.digest

    def put_json(self, value: Any) -> ArtifactRef:
        """Stores JSON data in canonical form."""
        return self.put(
            canonical_json(value).encode("utf-8", "surrogatepass"), "json", len(value) if hasattr(value, "__len__") else 1
        )

    def get_json(self, ref: ArtifactRef) -> Any:
        """Inverse of `put_json`."""
        return json.loads(self.get(ref).decode("utf-8", "surrogatepass"))

    def scratch(self) -> Path:
        """A new empty file to write a large artifact into, on the store's own disk where that is local."""

        def make() -> Path:
            folder = Path(self.root, "scratch") if self.local else Path(tempfile.gettempdir())
            folder.mkdir(parents=True, exist_ok=True)
            return _fresh_file(folder)

        return self._guard("write", "scratch", make)

    def check(self) -> None:
        """Raises `StoreError` unless the store can be written and read back."""
        self.write("check", b"aitest")
        if self.read("check") != b"aitest":
            raise StoreError(f"store {self.url} did not give back what was written; check that nothing rewrites its files")
        self.remove("check")

    def _guard(self, verb: str, path: str, action: Callable[[], R]) -> R:
        try:
            return action()
        except FileNotFoundError as error:
            raise ArtifactMissing(self.url_of(path)) from error
        except PermissionError as error:
            raise StoreError(
                f"cannot {verb} {self.url_of(path)}: permission denied; make {self.url} writable or set AITEST_STORE"
            ) from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise StoreError(
                f"cannot {verb} {self.url_of(path)}: {reason}; check the store {self.url} (AITEST_STORE)"
            ) from error
        except Exception as error:
            if self.local:
                raise
            # Clients of object stores have their own errors for a wrong address or missing credentials.
            raise StoreError(
                f"cannot {verb} {self.url_of(path)}: {error}; check the store {self.url} (AITEST_STORE) and its credentials"
            ) from error


def _fresh_file(folder: Path) -> Path:
    """A new empty file with the permissions that the user's other files get (mkstemp's would shut out other workers)."""
    file = folder / f".tmp-{uuid4().hex}"
    file.touch(exist_ok=False)
    return file


def _object_path(name: str, codec: str) -> str:
    return f"objects/{name[:2]}/{name[2:]}.{codec}"

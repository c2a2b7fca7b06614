"""The artifact store: content-addressed objects and a few named records, on any fsspec file system.

    objects/<2 hex>/<30 hex>.<codec>     immutable, named by the BLAKE2b-128 of their bytes, verified when read
    runs/<id>/…, answers/…, looks/…      named records, written whole

Nothing but JSON and data formats is read back; no pickle anywhere.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import fsspec
from fsspec.implementations.local import LocalFileSystem

from aitest_lib.artifacts.files import CHUNK, LocalFiles, RemoteFiles, fresh_file
from aitest_lib.artifacts.patience import Patience
from aitest_lib.artifacts.s3 import SCHEMES, open_s3
from aitest_lib.canonical import DIGEST_BYTES, canonical_json, digest_bytes
from aitest_lib.errors import AitestError, ArtifactMissing, InputError, StoreError
from aitest_lib.types import ArtifactRef, object_path

R = TypeVar("R")

FULL = {errno.ENOSPC, errno.EDQUOT}
READ_AT_ONCE = 256  # records in memory while many are read
READS = 2  # before bytes count as damaged: a proxy's page or a cut body may have come in place of the first


class Store:
    """Artifacts under one URL: a folder, or `s3://bucket/prefix` with the extra `s3`.

    `patience` says how long a store that is away is waited for; by default not at all.
    """

    def __init__(self, url: str, patience: Patience | None = None) -> None:
        url = lower_scheme(url)
        self._files = open_files(url)
        self._patience = patience or Patience()
        self.local = isinstance(self._files, LocalFiles)
        self.root = self._files.root
        self.url = f"file://{self.root}" if self.local else url.rstrip("/")

    def url_of(self, path: str) -> str:
        """The full URL of a path inside the store."""
        return f"{self.url}/{path}"

    # -- named records ---------------------------------------------------------------------------------------------

    def write(self, path: str, data: bytes) -> None:
        """Writes a named record whole: a reader sees the old bytes or the new ones, never a part."""
        self._guard("write", path, lambda: self._files.write(path, data))

    def create(self, path: str, data: bytes) -> bool:
        """Writes a named record whole where there is none yet; False where there is one. Of several writers at once one
        succeeds."""
        return self._guard("write", path, lambda: self._files.create(path, data))

    def read(self, path: str) -> bytes:
        """The bytes of a named record; `ArtifactMissing` where there is none."""
        return self._guard("read", path, lambda: self._files.read(path))

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """Path and bytes of named records, in their order; None for one that is not there. Remote ones many at once."""
        every = list(paths)
        for start in range(0, len(every), READ_AT_ONCE):
            part = every[start : start + READ_AT_ONCE]
            found = self._guard("read", part[0], lambda part=part: self._files.read_many(part))  # type: ignore[misc]
            yield from zip(part, found, strict=True)

    def write_json(self, path: str, value: Any) -> None:
        """A named record as JSON."""
        self.write(path, json_bytes(value))

    def read_json(self, path: str) -> Any:
        """A named JSON record; a torn or foreign file is `ArtifactMissing`, too."""
        for _ in range(READS):
            with suppress(ValueError, RecursionError):
                return json.loads(self.read(path))
        raise ArtifactMissing(self.url_of(path), "it is not JSON")

    def files(self, prefix: str) -> list[str]:
        """Paths of the files under a folder of the store, sorted; empty where there is none."""
        return self._guard("list", prefix, lambda: self._files.find(prefix))

    def folders(self, prefix: str) -> list[str]:
        """Names of the folders directly under a folder of the store, sorted."""
        return self._guard("list", prefix, lambda: self._files.folders(prefix))

    def exists(self, path: str) -> bool:
        """Is there a record or object at this path."""
        return self._guard("look for", path, lambda: self._files.exists(path))

    def remove(self, path: str) -> None:
        """Removes a record or object; fine if it is gone already."""
        self._guard("remove", path, lambda: self._files.remove(path))

    def remove_folder(self, prefix: str) -> None:
        """Removes everything under a folder of the store."""
        for path in self.files(prefix):
            self.remove(path)
        self._guard("remove", prefix, lambda: self._files.remove_empty(prefix))

    # -- content-addressed objects ---------------------------------------------------------------------------------

    def put(self, data: bytes, codec: str, rows: int) -> ArtifactRef:
        """Stores bytes under their digest. What is there already and undamaged is not written again."""
        name = digest_bytes(data)
        path = object_path(name, codec)
        self._guard("write", path, lambda: self._files.write_new(path, data))
        return ArtifactRef(uri=path, digest=name, codec=codec, rows=rows)

    def put_file(self, file: Path, codec: str, rows: int) -> ArtifactRef:
        """Stores a finished local file under its digest, without holding it in memory; the file is gone afterwards."""
        hasher = blake2b(digest_size=DIGEST_BYTES)
        with file.open("rb") as handle:
            while chunk := handle.read(CHUNK):
                hasher.update(chunk)
        name = hasher.hexdigest()
        path = object_path(name, codec)
        try:
            self._guard("write", path, lambda: self._files.upload(path, file))
        finally:
            file.unlink(missing_ok=True)
        return ArtifactRef(uri=path, digest=name, codec=codec, rows=rows)

    def get(self, ref: ArtifactRef) -> bytes:
        """The bytes of an artifact, verified; `ArtifactMissing` for damaged ones, which stay (see `intact`)."""
        for _ in range(READS):
            data = self.read(ref.uri)
            if digest_bytes(data) == ref.digest:
                return data
        raise ArtifactMissing(self.url_of(ref.uri), "its bytes do not match its digest")

    def intact(self, refs: list[ArtifactRef]) -> list[bool]:
        """For each artifact, is it there with the bytes of its digest. Damaged ones are removed, so that they can be
        written anew."""
        found = self._digests(refs)
        for _ in range(READS - 1):
            found |= self._digests([ref for ref in refs if found[ref.uri] not in (ref.digest, None)])
        for ref in refs:
            if found[ref.uri] not in (ref.digest, None):
                self.remove(ref.uri)
        return [found[ref.uri] == ref.digest for ref in refs]

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
            folder = self._files.scratch_folder()
            folder.mkdir(parents=True, exist_ok=True)
            return fresh_file(folder)

        return self._guard("write", "scratch", make)

    def check(self) -> None:
        """Raises `StoreError` unless a record can be written, read back, listed and removed."""
        path = f"checks/{uuid4().hex}"  # two processes may check at once
        self.write(path, b"aitest")
        if self.read(path) != b"aitest" or path not in self.files("checks"):
            raise StoreError(f"store {self.url} did not give back what was written; check that nothing rewrites its files")
        self.remove(path)

    def _digests(self, refs: list[ArtifactRef]) -> dict[str, str | None]:
        """Digests of the bytes that stand at the places of artifacts, None where there are none."""
        paths = [ref.uri for ref in refs]
        found = self._guard("read", paths[0], lambda: self._files.digests(paths)) if paths else []
        return dict(zip(paths, found, strict=True))

    def _guard(self, verb: str, path: str, action: Callable[[], R]) -> R:
        where = f"cannot {verb} {self.url_of(path)}"
        try:
            return self._patience.keep_trying(action, self._files.is_away)
        except AitestError:
            raise
        except Exception as error:
            problem = self._files.problem(error)
            if problem is not None:
                raise StoreError(f"{where}: {problem}") from error
            if isinstance(error, FileNotFoundError):
                raise ArtifactMissing(self.url_of(path)) from error
            if isinstance(error, PermissionError):
                raise StoreError(f"{where}: permission denied; make {self.url} writable or set AITEST_STORE") from error
            if isinstance(error, OSError):
                mend = "make room on its disk, then go on" if error.errno in FULL else "check the store"
                raise StoreError(f"{where}: {error.strerror or error}; {mend} ({self.url}, AITEST_STORE)") from error
            if self.local:
                raise
            # Clients of object stores have their own errors for a wrong address or missing credentials.
            raise StoreError(f"{where}: {error}; check the store {self.url} (AITEST_STORE) and its credentials") from error


def open_files(url: str) -> RemoteFiles:
    """The files under a store's URL; a URL that cannot be a store is an `InputError`."""
    scheme, found, rest = url.partition("://")
    if found and "@" in rest.partition("/")[0]:
        raise InputError(f"a store's URL ({scheme}://…) must not hold credentials; put them into the environment (AWS_…)")
    if not found and re.match(r"[a-z][a-z0-9+.-]+:/", url):
        kind, _, rest = url.partition(":")
        raise InputError(f"store {url}: got {kind}: and a path, expected a URL; did you mean {kind}://{rest.lstrip('/')}?")
    if scheme in ("http", "https") or (found and not rest.strip("/")) or (scheme == "file" and found and rest[:1] != "/"):
        raise InputError(f"store {url}: got no place to write to, expected a folder, file:///folder or s3://bucket/prefix")
    try:
        if found and scheme in SCHEMES:
            return open_s3(url)
        fs, root = fsspec.core.url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        raise InputError(f"store {url}: {error}; install the extra that brings it, e.g. pip install 'aitest[s3]'") from error
    except ValueError as error:
        raise InputError(f"store {url}: {error}; expected a folder, file:///… or s3://bucket/prefix") from error
    return LocalFiles(fs, str(root)) if isinstance(fs, LocalFileSystem) else RemoteFiles(fs, str(root))


def lower_scheme(url: str) -> str:
    """A URL with its scheme in lower case: `S3://` is `s3://` (RFC 3986, section 3.1)."""
    scheme, found, rest = url.partition("://")
    return f"{scheme.lower()}://{rest}" if found else url


def json_bytes(value: Any) -> bytes:
    """JSON as named records hold it."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False).encode()

"""Reading files from any fsspec file system: what goes wrong ends in one message, or in one file that is listed."""

from __future__ import annotations

import errno
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from aitest_lib.errors import AitestError, InputError, UnavailableError

FILE_BYTES = 512 << 20  # of one file; nothing that is decoded is larger
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError)  # of archives; a name with a NUL is the last


class UnreadableFile(Exception):
    """Why one file cannot be used, as a plain sentence. It is skipped and listed, and the run goes on."""


def read_file(url: str, fs: Any, path: str) -> bytes:
    """The bytes of one file of the data at `url`; `UnreadableFile` where the file alone is at fault."""
    with reading_one(url, fs):
        if is_local(fs):
            status = Path(path).stat()
            if not stat.S_ISREG(status.st_mode):  # to read from a pipe would never end
                raise UnreadableFile("it is a folder" if stat.S_ISDIR(status.st_mode) else "it is no regular file")
            check_size(status.st_size)
        data: bytes = fs.cat_file(path)  # of a remote one in one request; to open it would take two
        check_size(len(data))
        return data


def is_local(fs: Any) -> bool:
    """Are the files of a file system on this machine."""
    return isinstance(fs, LocalFileSystem)


@contextmanager
def reaching(url: str) -> Iterator[None]:
    """What a file system raises as one message: what the user can mend in the suite, or a place that is away."""
    try:
        yield
    except AitestError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"data {url}: there is no such file or folder; in a suite, paths are relative to it") from error
    except (PermissionError, IsADirectoryError) as error:
        where = f" ({error.filename})" if error.filename else ""
        raise InputError(f"data {url}: {error.strerror or error}{where}; expected readable files") from error
    except (ImportError, ValueError) as error:  # a protocol that fsspec does not know, or lacks the package for
        raise InputError(f"data {url}: {error}; expected a path or an fsspec URL (s3:// needs aitest[s3])") from error
    except Exception as error:  # the clients of object stores have errors of their own
        raise _away(url, error) from error


@contextmanager
def unpacking(url: str, expected: str) -> Iterator[None]:
    """A damaged archive is one message, too."""
    try:
        yield
    except (*DAMAGED, OSError) as error:
        if getattr(error, "errno", errno.EINVAL) != errno.EINVAL:  # EINVAL: its directory leads before the file's start
            raise
        raise InputError(f"data {url} cannot be read: {error}; {expected}, is the file whole?") from error


@contextmanager
def reading_one(url: str, fs: Any) -> Iterator[None]:
    """What is wrong with one file is an `UnreadableFile`; a file system that is away ends the run."""
    try:
        yield
    except UnreadableFile:
        raise
    except FileNotFoundError as error:
        raise UnreadableFile("there is no such file") from error
    except PermissionError as error:
        raise UnreadableFile("permission to read it is denied") from error
    except DAMAGED as error:
        raise UnreadableFile(f"it cannot be read: {error}") from error
    except Exception as error:
        if isinstance(error, OSError) and is_local(fs):
            raise UnreadableFile(f"it cannot be read: {error.strerror or error}") from error
        raise _away(url, error) from error


def _away(url: str, error: Exception) -> UnavailableError:
    return UnavailableError(f"data {url} cannot be read: {error}; check the address and its credentials")


def check_size(size: int) -> None:
    """Raises `UnreadableFile` for more bytes than what is tested has."""
    if size > FILE_BYTES:
        raise UnreadableFile(f"it has more than {FILE_BYTES >> 20} MiB")

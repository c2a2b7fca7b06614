"""What the names in a folder or an archive of images say: which files are images, in which order, of which class."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

import pyarrow as pa

from aitest_lib.errors import InputError

# HEIF is no format that is read, but certainly an image: it is listed one by one.
ENDINGS = (
    *(".png", ".apng", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".gif", ".bmp", ".dib", ".tif", ".tiff"),
    *(".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k", ".avif", ".heic", ".heif"),
)
SYSTEM = {"Thumbs.db", "desktop.ini", "__MACOSX", "@eaDir", "$RECYCLE.BIN"}  # beside what begins with a dot
PARTS = {"train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval"}
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
EXPECTED = "expected one subfolder of images per class, or images alone"


@dataclass(frozen=True)
class Layout:
    """`names` of the images, sorted; their `labels` (int64 or text), None where they are in one place; `strays`: why a file
    is left out, one line for each ending."""

    names: list[str]
    labels: pa.Array | None
    strays: dict[str, str]


def layout(url: str, names: list[str], archive: str | None = None) -> Layout:
    """The images among the files of a folder, by their relative names; `InputError` where there are none.

    The subfolders are the classes; folders around everything do not count. Hidden files and those of operating systems are
    passed over. `archive`: an archive's own name, which often stands once more as a folder around all that is in it.
    """
    seen = sorted(name for name in names if not any(map(hidden, PurePosixPath(name).parts)))
    images = [name for name in seen if ending(name) in ENDINGS]
    others = [name for name in seen if ending(name) not in ENDINGS]
    if not images:
        found = f"{len(others)} other files ({shown(others[0])}, …)" if others else "an empty folder"
        raise InputError(f"data {url}: got {found}, {EXPECTED}")
    return Layout(images, _labels(url, images, archive), strays(others, "image"))


def ending(name: str) -> str:
    """The ending of a file's name in lower case, with its dot."""
    return PurePosixPath(name).suffix.lower()


def hidden(part: str) -> bool:
    """Is a file or folder none of the user's data."""
    return part.startswith(".") or part in SYSTEM


def shown(name: str) -> str:
    """A file's name as text; bytes that are no UTF-8 are replaced."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def strays(names: list[str], kind: str) -> dict[str, str]:
    """Why the files `names` are not read as data: they are no `kind` by their names. One line for each ending."""
    by_ending: dict[str, list[str]] = {}
    for name in names:
        by_ending.setdefault(ending(name), []).append(name)
    reasons = {}
    for suffix, found in by_ending.items():
        more = f", as do {len(found) - 1} more" if len(found) > 1 else ""
        reasons[shown(found[0])] = f"it is no {kind}: its name ends in {suffix or 'nothing'}{more}"
    return reasons


def _labels(url: str, images: list[str], archive: str | None) -> pa.Array | None:
    parts = _without_wrappers([PurePosixPath(name).parts for name in images], archive)
    flat = [name for name, one in zip(images, parts, strict=True) if len(one) == 1]
    if len(flat) == len(images):
        return None
    if flat:
        raise InputError(f"data {url}: got {shown(flat[0])} beside folders of images, {EXPECTED}; move it into a class")
    labels = [shown(one[0]) for one in parts]
    classes = sorted(set(labels))
    if len(classes) > 1 and {name.lower() for name in classes} <= PARTS:
        raise InputError(f"data {url}: got the folders {', '.join(classes)}, {EXPECTED}; give one of these folders")
    if all(INTEGER.fullmatch(label) for label in classes):
        return pa.array([int(label) for label in labels], pa.int64())
    return pa.array(labels, pa.string())


def _without_wrappers(parts: list[tuple[str, ...]], archive: str | None) -> list[tuple[str, ...]]:
    """Names without the folders that stand around all of them, as long as the classes are left."""
    depth = min(map(len, parts))
    while len({one[0] for one in parts}) == 1 and depth > (1 if parts[0][0] == archive else 2):
        parts, depth, archive = [one[1:] for one in parts], depth - 1, None
    return parts

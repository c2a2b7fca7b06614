"""The files of the demonstrations: carried with aitest, copied to where the user can look at them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from aitest_lib.errors import InputError

DATA = Path(__file__).parent / "data"


def copied(names: Sequence[str], folder: Path) -> list[Path]:
    """Copies carried files into `folder` (made if need be); returns the copies.

    Files of the same names are overwritten: a second demonstration starts from the same state as the first.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Not with metadata: the carried files may be read-only, and then a second run could not overwrite them.
        return [Path(shutil.copyfile(DATA / name, folder / name)) for name in names]
    except OSError as error:
        raise InputError(
            f"the demonstration cannot be written to {folder}: {error.strerror}; give a folder that can be written to"
        ) from error

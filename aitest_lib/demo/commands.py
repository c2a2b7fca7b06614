"""The demonstration of speech to text: eight sentences by six synthetic voices, and PocketSphinx with a grammar."""

from __future__ import annotations

from pathlib import Path

from aitest_lib.demo.files import DATA, copied

FOLDER = "speech"
FILES = ("commands.yaml", "commands_suite.yaml")


def demo_files(folder: Path) -> list[Path]:
    """Copies card, suite and clips of the demonstration into `folder`."""
    clips = sorted(f"{FOLDER}/{file.name}" for file in (DATA / FOLDER).iterdir())
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    return copied([*FILES, *clips], folder)

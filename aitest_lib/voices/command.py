"""Any program as an engine of voices: a command with places for the voice, the text and the file to be written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from aitest_lib.config.secrets import resolve
from aitest_lib.voices.base import SAY_S
from aitest_lib.voices.running import said

PLACES = ("text", "voice", "out")
_PLACE = re.compile(r"\{(text|voice|out)\}")


@dataclass(frozen=True)
class Command:
    """`arguments`: the program and what it is given, no shell between them; `{text}`, `{voice}` and `{out}` are filled in.

    Without `{text}` the text comes through stdin. It runs in `folder`; a program with a slash in its name is looked up from
    there. `${NAME}` is a secret.
    """

    name: ClassVar[str] = "command"

    arguments: tuple[str, ...]
    folder: Path
    limit_s: float = SAY_S

    def check(self, voice: str) -> None:
        """What a program lacks shows when it speaks."""

    def say(self, voice: str, text: str) -> tuple[NDArray[np.float32], int]:
        """What the program wrote."""
        in_arguments = any("{text}" in one for one in self.arguments)
        stdin = "" if in_arguments else text

        def command(out: Path) -> Sequence[str]:
            first, *rest = (filled(resolve(one), text, voice, str(out)) for one in self.arguments)
            return [str(self.folder / first) if "/" in first else first, *rest]

        return said(command, stdin=stdin, folder=self.folder, limit_s=self.limit_s)

    def identity(self) -> dict[str, Any]:
        """The arguments as they were written: which version the program has is not known."""
        return {"command": list(self.arguments)}


def filled(argument: str, text: str, voice: str, out: str) -> str:
    """An argument with its places filled; a text that would look like an option gets a blank in front."""
    values = {"text": f" {text}" if argument.startswith("{text}") and text.startswith("-") else text}
    values |= {"voice": voice, "out": out}
    return _PLACE.sub(lambda match: values[match[1]], argument)

"""What a voice is, and what an engine that lends voices can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from aitest_lib.errors import AitestError

SAY_S = 120.0  # for one text


class CannotSay(AitestError):
    """A voice did not say one text. The message goes on after the name of the voice: "the voice en-us exited with status 1"."""


class Engine(Protocol):
    """A program, a service or code that turns text into audio. `name`: what a suite calls it."""

    name: ClassVar[str]

    def check(self, voice: str) -> None:
        """Raises `InputError` where the engine is not there, or is known not to have this voice."""

    def say(self, voice: str, text: str) -> tuple[NDArray[np.float32], int]:
        """Mono samples float32 (n,) and their rate in Hz; `CannotSay` where there are none."""

    def identity(self) -> Mapping[str, Any]:
        """What the audio depends on besides voice and text, as JSON data: a version, the parameters; no secret."""


@dataclass(frozen=True, eq=False)
class Voice:
    """One voice of an engine. `groups`: whom it stands for, e.g. {gender: female, accent: US}."""

    voice: str
    engine: Engine
    groups: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """`slt (flite)`."""
        return f"{self.voice} ({self.engine.name})"

    def identity(self) -> dict[str, Any]:
        """What the audio of a text depends on, as JSON data: to be digested."""
        return {"voice": self.voice, "engine": self.engine.name, **self.engine.identity()}

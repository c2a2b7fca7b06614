"""A Python function as an engine of voices, in a process of its own like a card's model."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.data.audio_decoding import of_array
from aitest_lib.errors import ModelAnswerError
from aitest_lib.models.base import StopSwitch, excerpt
from aitest_lib.models.processes.process import ModelProcess, ProcessDied, ProcessKilled
from aitest_lib.models.processes.programs import Program
from aitest_lib.models.processes.python_child import decode_array
from aitest_lib.voices import function_child
from aitest_lib.voices.base import SAY_S, CannotSay


@dataclass(frozen=True, eq=False)
class Function:
    """`callable` (package.module:name), found in the folders `path`: `(text, voice)` to `(samples, sample rate)`.

    The samples are floats from -1 to 1 or integers, (n,) or (n, channels). The process starts with the first text, and again
    after one that ended it; it ends with this one.
    """

    name: ClassVar[str] = "callable"

    callable: str
    path: tuple[str, ...]
    folder: Path
    sources: str  # a digest of its code
    _turn: Lock = field(default_factory=Lock, repr=False)

    def check(self, voice: str) -> None:
        """Starts the process; `InputError` where the function cannot be loaded."""
        with self._turn:
            _ = self._process

    def say(self, voice: str, text: str) -> tuple[NDArray[np.float32], int]:
        """What the function gave."""
        with self._turn:
            try:
                header, buffers = self._process.call(pd.DataFrame({"text": [text], "voice": [voice]}), SAY_S)
            except (ProcessDied, ProcessKilled) as error:
                self.close()
                raise CannotSay(f"lost its process: {str(error).replace('the model', 'the voice')}") from error
        if "error" in header:
            raise CannotSay(f"raised {excerpt(header['error'])}")
        rate = header["scores"]
        try:
            samples, rate, _ = of_array(decode_array(header["labels"], buffers), rate)
        except (TypeError, ValueError) as error:
            raise CannotSay(f"gave {type(rate).__name__} as sample rate, expected a whole number") from error
        return samples, rate

    def identity(self) -> dict[str, Any]:
        """The name and the code."""
        return {"callable": self.callable, "sources": self.sources}

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process."""
        if process := self.__dict__.pop("_process", None):
            with suppress(ModelAnswerError):
                process.end()

    @cached_property
    def _process(self) -> ModelProcess:
        path = [str((self.folder / entry).resolve()) for entry in self.path]
        program = Program(
            command=[sys.executable, "-P", "-u", str(Path(function_child.__file__).resolve())],
            folder=self.folder,
            start={"callable": self.callable, "path": path},
            what=f"the voice {self.callable}",
            hint=f"looked in {', '.join(path)}, with {sys.executable}",
        )
        return ModelProcess(program, StopSwitch(), "text")

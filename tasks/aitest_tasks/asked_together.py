"""What the chunks of a search know of the model together: what one of them asks is asked by no other of this process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition, Lock

import numpy as np
from numpy.typing import NDArray

from aitest_lib.types import Scalar
from aitest_tasks.runs import Run

Key = tuple[str, int]  # digest (hex) of an input, and which repeat
WAITS_S = 0.2


@dataclass(frozen=True)
class Answer:
    """What a model said to an input: its label and scores, or why there is none."""

    label: Scalar | None
    scores: NDArray[np.float64] | None
    error: str | None


@dataclass
class Shared:
    """Answers by input and repeat, and what is being asked just now."""

    answers: dict[Key, Answer] = field(default_factory=dict)
    _asking: set[Key] = field(default_factory=set)
    _changed: Condition = field(default_factory=Condition)

    def __contains__(self, key: Key) -> bool:
        return key in self.answers

    def __getitem__(self, key: Key) -> Answer:
        return self.answers[key]

    def put(self, found: Mapping[Key, Answer]) -> None:
        """Adds answers; what is known already stays."""
        with self._changed:
            for key, answer in found.items():
                self.answers.setdefault(key, answer)

    @contextmanager
    def claimed(self, keys: Collection[Key]) -> Iterator[list[Key]]:
        """Yields those of the keys that nobody knows or asks, which are this caller's to ask until the block ends."""
        with self._changed:
            mine = [key for key in keys if key not in self.answers and key not in self._asking]
            self._asking.update(mine)
        try:
            yield mine
        finally:
            with self._changed:
                self._asking.difference_update(mine)
                self._changed.notify_all()

    def wait_for(self, keys: Collection[Key], check: Callable[[], None]) -> None:
        """Waits until none of the keys is being asked; `check` may raise meanwhile. Nobody waits while others wait for him."""
        with self._changed:
            while any(key in self._asking for key in keys):
                self._changed.wait(WAITS_S)
                check()


_lock = Lock()
_shared: dict[str, tuple[str, Shared]] = {}  # by run: of the wave of chunks that is under way


def shared(run: Run, wave: str) -> Shared:
    """What this process's chunks of a wave know together; that of the run's earlier waves is let go."""
    with _lock:
        if _shared.get(run.run_id, ("",))[0] != wave:
            _shared[run.run_id] = (wave, Shared())
        return _shared[run.run_id][1]


def let_go(run: Run) -> None:
    """Forgets what the chunks of a run knew together."""
    with _lock:
        _shared.pop(run.run_id, None)

"""How long to wait for a model in a process, and when to give it up: from what it did so far."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_S = 600.0  # of the first calls: weights are read, code is compiled
FIRST_CALLS = 3
LEAST_S = 60.0
TIMES_SLOWEST = 20
TELLING_WORK = 16  # calls with less say little about the seconds that a row, or a second of audio, takes
DEATHS, DEATHS_AT_FIRST = 30, 5
HANGS = 3


@dataclass
class Patience:
    """Counts answers, and inputs that ended the process although they were sent alone.

    A batch that ends the process says nothing: it is halved, and one bad input in it may end the process many times. Only
    single inputs, one after the other with no answer in between, tell that the model itself is broken.
    """

    answers: int = 0
    slowest: float = 0.0  # seconds for one unit of work
    deaths: int = 0  # of single inputs in a row
    hangs: int = 0  # of single inputs in a row; before the first answer of any calls
    _telling: bool = False

    def limit_s(self, work: int) -> float:
        """Seconds after which a call counts as hanging. `work`: how many rows it carries, or seconds of audio."""
        return FIRST_S if self.answers < FIRST_CALLS else max(LEAST_S, TIMES_SLOWEST * self.slowest * work)

    def answered(self, work: int, seconds: float) -> None:
        """Notes a call that came back."""
        telling = work >= TELLING_WORK
        if telling and not self._telling:
            self._telling, self.slowest = True, 0.0
        if telling or not self._telling:
            self.slowest = max(self.slowest, seconds / work)
        self.answers += 1
        self.deaths = self.hangs = 0

    def lost(self, rows: int, *, hung: bool) -> bool:
        """Notes a call that ended the process (`hung`: it was killed for its silence). True: the model is to be given up."""
        alone = rows == 1
        self.deaths += alone and not hung
        self.hangs += hung and (alone or not self.answers)
        return self.hangs >= HANGS or self.deaths >= (DEATHS if self.answers else DEATHS_AT_FIRST)

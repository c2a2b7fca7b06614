"""Clips that are shown to people: played, seen, and what was heard in each beside what was said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.artifacts.clips import get_clips
from aitest_lib.artifacts.store import Store
from aitest_lib.metrics.transcripts import Unit
from aitest_lib.metrics.wer import align
from aitest_lib.reports.records import Sound, Word
from aitest_lib.reports.report import Picture
from aitest_lib.reports.sounds import sound
from aitest_lib.types import ArtifactRef, Clip
from aitest_tasks.cases import text_of

Place = tuple[ArtifactRef, int]  # an artifact of clips and a place in it


@dataclass(frozen=True, eq=False)
class Spoken:
    """One side of a comparison: where each clip is, what was heard in it (normalized) and its word error rate; all (n,)."""

    places: list[Place]
    heard: list[str]
    wer: NDArray[np.float64]


class AudioRows:
    """Seeds that are clips with what stands beside them, and the clips made of them. `before`: what the cases are compared
    with; None where the clips themselves are the cases (`after`)."""

    examples = False
    most = 60  # that are played on a page

    def __init__(
        self, store: Store, seeds: pa.Table, said: list[str], unit: Unit, before: Spoken | None, after: Spoken
    ) -> None:
        self._store, self._said, self._unit = store, said, unit
        self._before, self._after = before, after
        self._columns = {name: seeds.column(name) for name in seeds.column_names if not name.startswith("@")}

    def seed(self, row: int) -> dict[str, str]:
        return {name: text_of(column[row].as_py()) for name, column in self._columns.items()}

    def case(self, row: int) -> dict[str, str]:
        return self.seed(row)

    def changed(self, row: int) -> dict[str, Any]:
        return {}

    def label(self, row: int) -> str | None:
        return self._said[row]

    def pictures(self, rows: list[int]) -> list[list[Picture]]:
        return [[] for _ in rows]

    def sounds(self, rows: list[int]) -> list[list[Sound]]:
        if self._before is None:
            return [[one] for one in self._sounds("seed", "the clip", self._after, rows)]
        before = self._sounds("seed", "the original clip", self._before, rows)
        return [list(pair) for pair in zip(before, self._sounds("case", "the case", self._after, rows), strict=True)]

    def _sounds(self, title: Any, alt: str, side: Spoken, rows: list[int]) -> list[Sound]:
        clips = clips_at(self._store, [side.places[row] for row in rows])
        found = []
        for row, clip in zip(rows, clips, strict=True):
            words = [
                Word(said=one, heard=other, kind=kind)
                for one, other, kind in align(self._said[row], side.heard[row], self._unit)
            ]
            rate = float(side.wer[row])
            found.append(sound(clip, title, alt, words, None if np.isnan(rate) else rate))
        return found


def clips_at(store: Store, places: list[Place]) -> list[Clip]:
    """The clips at these places; each artifact is read once."""
    found: dict[Place, Clip] = {}
    for ref in dict.fromkeys(ref for ref, _ in places):
        at = sorted({place for other, place in places if other == ref})
        found |= {(ref, place): clip for place, clip in zip(at, get_clips(store, ref, np.array(at)), strict=True)}
    return [found[place] for place in places]

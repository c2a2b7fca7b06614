"""The cases that are shown to people, beside their seeds: cell by cell, or picture by picture."""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.artifacts.images import get_images
from aitest_lib.artifacts.store import Store
from aitest_lib.data.schema import Profile
from aitest_lib.reports.pictures import case_pictures
from aitest_lib.reports.records import Sound
from aitest_lib.reports.report import FailingCase, Picture, UnansweredCase
from aitest_lib.scorers.invariance import ERROR, FAILED, OUTCOME_NAMES, PASSED, SKIPPED
from aitest_lib.types import ArtifactRef
from aitest_tasks.cases import CaseBlock, text_of
from aitest_tasks.contents import content_of
from aitest_tasks.seed_tables import LABEL

SHOWN_FAILURES, SHOWN_UNANSWERED = 200, 20
EXAMPLES = 2  # of every other outcome of a component, where cases are pictures
Place = tuple[ArtifactRef, int]  # an artifact of images and a place in it


class Shown(Protocol):
    """Seeds and cases of a block, as people see them."""

    examples: bool  # are cases of other outcomes than `failed` worth a look, too
    most: int  # that are shown in all

    def seed(self, row: int) -> dict[str, str]:
        """The cells of a seed."""

    def case(self, row: int) -> dict[str, str]:
        """The cells of a case."""

    def changed(self, row: int) -> dict[str, Any]:
        """The cells in which they differ, with the new values."""

    def label(self, row: int) -> str | None:
        """The label of a seed, where it is shown."""

    def pictures(self, rows: list[int]) -> list[list[Picture]]:
        """Seed, case and difference of each row."""

    def sounds(self, rows: list[int]) -> list[list[Sound]]:
        """Seed and case of each row, to be played."""


class Rows:
    """Seeds and what was changed in them, cell by cell."""

    examples = False
    most = SHOWN_FAILURES

    def __init__(self, seeds: pa.Table, params: list[dict[str, Any]]) -> None:
        self._columns = {name: seeds.column(name) for name in seeds.column_names if not name.startswith("@")}
        self._params = params

    def seed(self, row: int) -> dict[str, str]:
        return {name: text_of(column[row].as_py()) for name, column in self._columns.items()}

    def changed(self, row: int) -> dict[str, Any]:
        return dict(self._params[row]["set"]) if self._params else {}

    def case(self, row: int) -> dict[str, str]:
        return self.seed(row) | {name: text_of(value) for name, value in self.changed(row).items()}

    def changes(self, row: int, profile: Profile) -> list[tuple[str, str, str, float | None]]:
        result = []
        for name, after in self.changed(row).items():
            before = self._columns[name][row].as_py()
            sd = profile[name].sd if profile[name].numeric else 0
            shift = (after - before) / sd if sd and after is not None and before is not None else None
            result.append((name, text_of(before), text_of(after), shift))
        return result

    def label(self, row: int) -> str | None:
        return None

    def pictures(self, rows: list[int]) -> list[list[Picture]]:
        return [[] for _ in rows]

    def sounds(self, rows: list[int]) -> list[list[Sound]]:
        return [[] for _ in rows]


class ImageRows:
    """Seeds that are images, with what stands beside them, and the images made of them."""

    examples = True
    most = SHOWN_FAILURES

    def __init__(self, store: Store, seeds: pa.Table, cases: list[Place] | None, gain: int | None = None) -> None:
        """`cases`: where the image of each case is; None where the seeds themselves are the cases; `gain`: how many times a
        difference is amplified (None: as much as it can be)."""
        self._store = store
        self._seeds = content_of(seeds)
        self._cases = cases
        self._gain = gain
        self._columns = {name: seeds.column(name) for name in seeds.column_names if not name.startswith("@")}
        self._labels = seeds.column(LABEL) if LABEL in seeds.column_names else None

    def seed(self, row: int) -> dict[str, str]:
        return {name: text_of(column[row].as_py()) for name, column in self._columns.items()}

    def case(self, row: int) -> dict[str, str]:
        return self.seed(row)

    def changed(self, row: int) -> dict[str, Any]:
        return {}

    def label(self, row: int) -> str | None:
        return None if self._labels is None else text_of(self._labels[row].as_py())

    def pictures(self, rows: list[int]) -> list[list[Picture]]:
        if not rows:
            return []
        seeds = get_images(self._store, self._seeds, np.array(rows))
        if self._cases is None:
            return [case_pictures(seed, None) for seed in seeds]
        made = self._made([self._cases[row] for row in rows])
        return [case_pictures(seed, case, self._gain) for seed, case in zip(seeds, made, strict=True)]

    def sounds(self, rows: list[int]) -> list[list[Sound]]:
        return [[] for _ in rows]

    def _made(self, places: list[Place]) -> list[NDArray[np.uint8]]:
        """The images at these places; each artifact is read once."""
        found: dict[Place, NDArray[np.uint8]] = {}
        for ref in dict.fromkeys(ref for ref, _ in places):
            at = [place for other, place in places if other == ref]
            found |= {(ref, place): image for place, image in zip(at, get_images(self._store, ref, np.array(at)), strict=True)}
        return [found[place] for place in places]


class FailureSample:
    """The failing cases that are shown: the first ones of every component, in rank order, 200 in all (60 clips); the first 20
    to which the model gave no usable answer. Of images, others of every component, and two examples of every other outcome."""

    def __init__(self, components: int) -> None:
        self._components = max(components, 1)
        self._taken: Counter[tuple[Any, int]] = Counter()
        self.cases: list[FailingCase] = []
        self.unanswered: list[UnansweredCase] = []

    def add(self, component: int, block: CaseBlock, rows: Shown) -> None:
        """Takes what is to be shown of a block."""
        share = max(rows.most // self._components, 1)
        wanted = {FAILED: share}
        if rows.examples and block.transform is not None:
            wanted |= dict.fromkeys((PASSED, SKIPPED, ERROR), EXAMPLES)
        for outcome, most in wanted.items():
            left = most - self._taken[component, outcome]
            found = np.flatnonzero(block.outcome == outcome)
            if rows.examples and len(found):  # so that not every component shows the same images
                found = np.roll(found, -component * share % len(found))
            found = np.sort(found[: max(left, 0)])
            self._taken[component, outcome] += len(found)
            self.cases += shown_cases(block, rows, found)
        errors = np.flatnonzero(block.outcome == ERROR)[: SHOWN_UNANSWERED - len(self.unanswered)]
        self.unanswered += unanswered_rows(block, rows, errors)


def shown_cases(block: CaseBlock, rows: Shown, shown: NDArray[np.int64]) -> list[FailingCase]:
    """The cases at these places of a block."""
    cases = []
    places = shown.tolist()
    for row, pictures, sounds in zip(places, rows.pictures(places), rows.sounds(places), strict=True):
        score = float(block.score[row])
        cases.append(
            FailingCase(
                case_id=block.case_id[row],
                seed_id=block.seed_id[row],
                transform=block.transform,
                strength=block.strength[row],
                expected=block.expected[row],
                observed=block.observed[row],
                score=None if np.isnan(score) else score,
                explanation=block.explanation[row] or "",
                seed=rows.seed(row),
                case=rows.case(row),
                changed=list(rows.changed(row)),
                outcome=OUTCOME_NAMES[block.outcome[row]],
                reason=None if block.reason[row] is None else str(block.reason[row]),
                pictures=pictures,
                sounds=sounds,
                seed_label=rows.label(row),
                query=block.found[row] if block.found else None,
            )
        )
    return cases


def unanswered_rows(block: CaseBlock, rows: Shown, shown: NDArray[np.int64]) -> list[UnansweredCase]:
    """The cases without a usable answer at these places of a block."""
    return [
        UnansweredCase(
            case_id=block.case_id[row],
            transform=block.transform,
            strength=block.strength[row],
            reason=str(block.reason[row]),
            case=rows.case(row),
        )
        for row in shown.tolist()
    ]

"""The smallest move of one numeric column that turns the answer: a grid from weak to strong, both directions.

Failure is not monotone in strength, so the result is the smallest flip *found*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.component import Component
from aitest_lib.data.schema import Profile
from aitest_lib.reports.report import FeatureFlip
from aitest_lib.transforms.tabular import loose_columns, moved_numbers


@dataclass(frozen=True)
class FlipGrid:
    """Rows (n, columns) in which one column moved: of which seed (place in the given frame), which column, by how many
    standard deviations in the end (after rounding and clipping)."""

    frame: pd.DataFrame
    seed: NDArray[np.int64]
    column: list[str]
    shift: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SmallestFlip(Component):
    """Moves each numeric column alone by each level (in standard deviations), up and down.

    On seeds taken in random order, to say how easily a column turns the answer, and on the seeds nearest to the decision
    boundary, for examples: there almost any change turns the answer.
    """

    name: ClassVar[str] = "smallest_flip"
    version: ClassVar[int] = 1
    random_seeds: int = 25
    borderline_seeds: int = 15
    levels: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0)

    def grid(self, frame: pd.DataFrame, profile: Profile, columns: Sequence[str]) -> FlipGrid:
        """All moved rows of all seeds; moves that change nothing, or the same as a weaker one, are left out."""
        parts, seeds, names, shifts = [], [], [], []
        for name in loose_columns(profile, columns):
            column = profile[name]
            if not column.numeric or column.sd == 0:
                continue
            before = frame[name].to_numpy(float, na_value=np.nan)
            seen = [before]
            for level in self.levels:
                for sign in (1, -1):
                    after = moved_numbers(before, np.full(len(before), sign * level * column.sd), column)
                    new = ~np.isnan(after) & np.logical_and.reduce([after != other for other in seen])
                    seen.append(after)
                    rows = np.flatnonzero(new)
                    moved = frame.iloc[rows].copy()
                    moved[name] = after[rows].astype(frame[name].to_numpy().dtype)
                    parts.append(moved)
                    seeds.append(rows)
                    names += [name] * len(rows)
                    shifts.append((after - before)[rows] / column.sd)
        if not parts:
            return FlipGrid(frame.iloc[:0], np.empty(0, np.int64), [], np.empty(0))
        return FlipGrid(pd.concat(parts, ignore_index=True), np.concatenate(seeds), names, np.concatenate(shifts))


def borderline(scores: NDArray[np.float64] | None, usable: NDArray[np.bool_], count: int) -> NDArray[np.int64]:
    """Ranks of the seeds to look at: smallest margin between the two best scores first, in rank order without scores.

    `scores` (seeds, classes) with NaN where there are none; `usable` (seeds,): answered, and right.
    """
    places = np.flatnonzero(usable)
    if scores is not None and scores.shape[1] > 1:
        best = np.sort(scores[places], axis=1)
        margin = best[:, -1] - best[:, -2]
        places = places[np.argsort(np.where(np.isnan(margin), np.inf, np.round(margin, 6)), kind="stable")]
    return places[:count]


def feature_flips(
    seed: NDArray[np.int64], column: Sequence[str], shift: NDArray[np.float64], flipped: NDArray[np.bool_], profile: Profile
) -> list[FeatureFlip]:
    """Per column, over the seeds it was moved in: how many turned the answer, the smallest and the median smallest move; the
    column that turns answers most easily first."""
    frame = pd.DataFrame({"seed": seed, "column": list(column), "size": np.abs(shift), "flipped": flipped})
    result = []
    for name, rows in frame.groupby("column", sort=True):
        smallest = rows[rows["flipped"]].groupby("seed")["size"].min()
        least = float(smallest.min()) if len(smallest) else None
        result.append(
            FeatureFlip(
                column=str(name),
                seeds=int(rows["seed"].nunique()),
                flipped=len(smallest),
                smallest=None if least is None else float(f"{least * profile[str(name)].sd:.6g}"),
                smallest_sd=None if least is None else float(f"{least:.6g}"),
                median_sd=float(f"{smallest.median():.6g}") if len(smallest) else None,
            )
        )
    # The easiest first: many seeds, small moves.
    return sorted(result, key=lambda item: (-(item.flipped / item.median_sd if item.median_sd else 0), item.column))

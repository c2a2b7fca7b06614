"""Segments of the data in which a protected group is served otherwise than the reference group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aitest_lib.data.groups import CROSS, Groups
from aitest_lib.reports.records_fairness import Attribute, Segment
from aitest_lib.reports.slices import FALSE_DISCOVERY_RATE, SliceColumn
from aitest_lib.stats.exact import fisher_two_sided
from aitest_lib.stats.intervals import newcombe
from aitest_lib.stats.multiple import benjamini_hochberg

MIN_ROWS = 30
MIN_EXPECTED = 5


def rank_segments(
    attributes: Sequence[tuple[Attribute, Groups]],
    favoured: NDArray[np.bool_],
    columns: Sequence[SliceColumn],
    confidence: float,
) -> list[Segment]:
    """Every group beside the reference group within every value of every other column, the widest flagged gaps first.

    `attributes`: each record that has a reference with the groups (n,) it was made of, before any were pooled or left out;
    `favoured` (n,): the answer is the favourable one, of rows with a usable answer. Looked at are segments with at least 30
    rows of both groups and at least 5 *expected* in every cell of their table, were both served alike: a rule on observed
    counts would hide a segment in which nobody of a group is selected. Fisher's exact test, two-sided; q-values by Benjamini
    and Hochberg (1995) over all that are looked at; differences (group minus reference) with Newcombe's interval.
    """
    looked_at = [
        table
        for attribute, groups in attributes
        for column in columns
        if column.name not in attribute.columns
        for table in _tables(attribute, groups, column, favoured)
    ]
    if not looked_at:
        return []
    counts = np.array([[table.hits, table.rows, table.reference_hits, table.reference_rows] for table in looked_at])
    q_values = benjamini_hochberg(fisher_two_sided(*counts.T)).tolist()
    segments = [table.segment(q_value, confidence) for table, q_value in zip(looked_at, q_values, strict=True)]
    return sorted(segments, key=_order)


def crossed_columns(protected: Mapping[str, Groups], columns: Sequence[SliceColumn]) -> list[SliceColumn]:
    """The groups of each protected column crossed with every other column ("sex × occupation", "Female × Sales"), of the same
    rows, for `rank_slices`, which leaves out slices of fewer than 30 rows."""
    found = []
    for name, groups in protected.items():
        for column in columns:
            if column.name == name:
                continue
            cells, codes = np.unique(groups.codes * len(column.names) + column.codes, return_inverse=True)
            places = [divmod(cell, len(column.names)) for cell in cells.tolist()]
            names = [f"{groups.names[group]}{CROSS}{column.names[value]}" for group, value in places]
            found.append(SliceColumn(f"{name}{CROSS}{column.name}", names, codes.astype(np.int32)))
    return found


@dataclass(frozen=True, kw_only=True)
class _Table:
    """How many rows of a group, and of the reference group, are selected in one segment."""

    attribute: str
    group: str
    reference: str
    column: str
    value: str
    hits: int
    rows: int
    reference_hits: int
    reference_rows: int

    def segment(self, q_value: float, confidence: float) -> Segment:
        difference = newcombe(self.hits, self.rows, self.reference_hits, self.reference_rows)
        low, high = difference.bounds(confidence) or (-1.0, 1.0)
        return Segment(
            attribute=self.attribute,
            group=self.group,
            reference=self.reference,
            column=self.column,
            value=self.value,
            rows=self.rows,
            reference_rows=self.reference_rows,
            rate=self.hits / self.rows,
            reference_rate=self.reference_hits / self.reference_rows,
            difference=difference.value or 0.0,
            low=low,
            high=high,
            q_value=q_value,
            flagged=q_value <= FALSE_DISCOVERY_RATE,
        )


def _tables(attribute: Attribute, groups: Groups, column: SliceColumn, favoured: NDArray[np.bool_]) -> list[_Table]:
    shown = {group.name for group in attribute.groups} - {attribute.reference}
    # A reference of several groups stands under a name of its own: its members are those that are not shown by themselves.
    pooled = [name not in shown and name not in attribute.excluded for name in groups.names]
    shape = len(groups.names), len(column.names)
    cells = groups.codes * shape[1] + column.codes
    rows = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)
    hits = np.bincount(cells[favoured], minlength=shape[0] * shape[1]).reshape(shape)
    base_rows, base_hits = rows[pooled].sum(axis=0), hits[pooled].sum(axis=0)
    fewer = np.minimum(rows, base_rows)
    both = (hits + base_hits) / np.maximum(rows + base_rows, 1)
    enough = (fewer >= MIN_ROWS) & (fewer * np.minimum(both, 1 - both) >= MIN_EXPECTED)
    enough[[name not in shown for name in groups.names]] = False
    return [
        _Table(
            attribute=attribute.name,
            group=groups.names[group],
            reference=attribute.reference or "",
            column=column.name,
            value=column.names[value],
            hits=int(hits[group, value]),
            rows=int(rows[group, value]),
            reference_hits=int(base_hits[value]),
            reference_rows=int(base_rows[value]),
        )
        for group, value in np.argwhere(enough).tolist()
    ]


def _order(segment: Segment) -> tuple[bool, float, str, str, str, str]:
    """Flagged ones first, then by the size of the gap."""
    names = segment.attribute, segment.group, segment.column, segment.value
    return (not segment.flagged, -abs(segment.difference), *names)

"""Further questions about pairs of rows: those that turned are asked again, and what the data would have in their place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.answers import AnswerBook
from aitest_lib.artifacts.codecs import get_table, put_table
from aitest_lib.data.counterparts import Counterparts
from aitest_lib.data.table import row_digests, to_table
from aitest_lib.data.ties import FoundTie, find_ties
from aitest_lib.stats.noise import flip_chance
from aitest_lib.types import ArtifactRef
from aitest_tasks.baseline import Baseline, Errors
from aitest_tasks.case_tables import CASE_ID, STATUS
from aitest_tasks.counterpart_cases import Part, own_baseline, parts
from aitest_tasks.counterparts import combinations, seed_frame
from aitest_tasks.growing_rows import public_columns
from aitest_tasks.inputs import input_digests
from aitest_tasks.preparing import SELF_FLIP_REPEATS
from aitest_tasks.querying import answer_book, run_errors
from aitest_tasks.runs import Run
from aitest_tasks.seed_tables import DIGEST, RANK

MOST_TIED = 100  # turned counterparts that contradict the data, of which a possible one is asked, too


@dataclass(frozen=True)
class Data:
    """The seeds as the model is sent them, private columns apart, and what goes together in them."""

    frame: pd.DataFrame
    ties: list[FoundTie]
    counterparts: Counterparts

    @classmethod
    def of(cls, run: Run) -> Data:
        """Of the seeds of a run."""
        frame = seed_frame(run, public_columns(run))
        ties = find_ties(frame, run.profile)
        groups = tuple(tie.columns for tie in ties)
        return cls(frame, ties, Counterparts(combinations(run).values, run.profile, frame, groups))


def majority(run: Run, base: Baseline, digests: NDArray[np.void], ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    """What the model says mostly: the answer that two of three calls agree in, else the first; the middle one of numbers. NaN
    where it was asked once only and so the first counts."""
    books = [answer_book(run, repeat) for repeat in range(1 + SELF_FLIP_REPEATS)]
    found = np.stack([base.values(book, book.find(digests), ranks) for book in books])
    again = np.stack([book.find(digests) >= 0 for book in books[1:]])
    if base.oracle.classifier:
        second = np.where(again[0] & again[1] & (found[1] == found[2]), found[1], found[0])
        return np.asarray(second)
    return np.where(again.all(axis=0), np.median(found, axis=0), found[0])


def unanimous(run: Run, base: Baseline, digests: NDArray[np.void], ranks: NDArray[np.int64]) -> NDArray[np.bool_]:
    """To which inputs (n,) every call gave the same answer; not to those that were asked once only."""
    first, *others = (answer_book(run, repeat) for repeat in range(1 + SELF_FLIP_REPEATS))
    own = base.values(first, first.find(digests), ranks)
    agreed = np.ones(len(digests), bool)
    for book in others:
        places = book.find(digests)
        agreed &= (places >= 0) & base.oracle.same(own, base.values(book, places, ranks))
    return agreed


def own_flips(run: Run, base: Baseline) -> float:
    """The chance that an answer of the model is not the one that it mostly gives, from the repeats of the untouched seeds."""
    if run.prepared["deterministic"]:
        return 0.0
    known = np.flatnonzero(base.answered.known)
    return flip_chance(float(1 - unanimous(run, base, base.digests[known], known).mean())) if len(known) else 0.0


def turned(run: Run, base: Baseline, part: Part) -> NDArray[np.bool_]:
    """Which cases of a part (cases,) are decided otherwise than their seeds, by the first answers."""
    same = base.oracle.same(base.answers[part.ranks], part.values)
    if base.oracle.classifier:
        same &= part.values >= 0  # a class that no label and no clean answer has is another one
    return np.asarray(part.asked & part.on_case.known & base.answered.known[part.ranks] & ~same)


def write_turned(run: Run, index: int, cases: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The turned cases of a model that does not always answer alike, to be asked again; None where there is none."""
    base, found = _read(run, index, cases)
    rows = [part.cases.filter(pa.array(turned(run, base, part))) for part in found]
    rows = [table.select([RANK, DIGEST, *public_columns(run)]) for table in rows if table.num_rows]
    return put_table(run.store, pa.concat_tables(rows)).to_dict() if rows else None


def write_tied(run: Run, index: int, cases: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Of turned cases that contradict what goes together in the data: the nearest rows that do not; None if there is none."""
    data = Data.of(run)
    base, found = _read(run, index, cases)
    rows, ids, ranks = list[pd.DataFrame](), list[str](), list[int]()
    for part in found:
        unlikely = np.flatnonzero(turned(run, base, part))
        if not len(unlikely) or len(ids) >= MOST_TIED:
            continue
        seeds, places = data.frame.take(part.ranks[unlikely]), np.full(len(unlikely), part.number)
        kept = np.flatnonzero(~data.counterparts.likely(seeds, places))[: MOST_TIED - len(ids)]
        if len(kept):
            rows.append(data.counterparts.tied(seeds.iloc[kept], places[kept]))
            ids += [part.cases.column(CASE_ID)[row].as_py() for row in unlikely[kept].tolist()]
            ranks += part.ranks[unlikely[kept]].tolist()
    if not rows:
        return None
    return written(run, pd.concat(rows), np.array(ranks), {CASE_ID: pa.array(ids)}).to_dict()


def tied_answers(run: Run, ref: ArtifactRef, book: AnswerBook) -> dict[str, tuple[dict[str, Any], Any]]:
    """By case id the possible row in its place, and what the model says of it; those without an answer are left out."""
    table = get_table(run.store, ref)
    labels = book.labels(book.find(input_digests(run, table)))
    rows = table.select(public_columns(run)).to_pylist()
    known = zip(table.column(CASE_ID).to_pylist(), rows, labels, strict=True)
    return {case_id: (row, label) for case_id, row, label in known if label is not None}


def _read(run: Run, index: int, cases: list[dict[str, Any]]) -> tuple[Baseline, list[Part]]:
    config, book, errors = run.suite.suite.properties[index], answer_book(run), Errors(run_errors(run), True)
    base = own_baseline(run, book, errors, config)
    return base, list(parts(run, index, cases, book, base, errors))


def written(run: Run, frame: pd.DataFrame, ranks: NDArray[np.int64], more: dict[str, Any]) -> ArtifactRef:
    """Rows as a shard to be asked; `ranks`: of the seeds that they descend from, whose private columns they have."""
    columns = public_columns(run)
    schema = get_table(run.store, run.seeds[0], columns).schema.remove_metadata()
    table = to_table(frame[columns].reset_index(drop=True), schema)
    own = {
        **more,
        RANK: pa.array(ranks.astype(np.int32)),
        STATUS: pa.nulls(len(ranks), pa.string()),
        DIGEST: pa.array([item.tobytes() for item in row_digests(table)], pa.binary(16)),
    }
    return put_table(run.store, pa.table({**own, **{name: table.column(name) for name in columns}}))

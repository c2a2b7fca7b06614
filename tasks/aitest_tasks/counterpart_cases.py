"""Cases of properties that compare a row with itself: each read with its seed and its answer, and written with its outcome."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.answers import AnswerBook
from aitest_lib.artifacts.codecs import get_table
from aitest_lib.config.suite import PropertyConfig
from aitest_lib.scorers.invariance import Answered, InvarianceScorer
from aitest_lib.transforms.values import PutValues
from aitest_lib.types import ArtifactRef
from aitest_tasks.baseline import Baseline, Errors, own_scores, read_baseline
from aitest_tasks.case_tables import CASE_ID, DISTANCE, PARAMS, STATUS
from aitest_tasks.cases import CaseBlock, texts
from aitest_tasks.components import components
from aitest_tasks.counterparts import rows_looked_at, shard_rows
from aitest_tasks.inputs import input_digests
from aitest_tasks.runs import Run
from aitest_tasks.seed_tables import RANK, SEED_ID
from aitest_tasks.shown import Rows


@dataclass(frozen=True)
class Part:
    """The cases of the component of this `number` on some seeds. Arrays are (cases,): `places` in the book (-1: no answer),
    `values` the answers as the baseline has them, `skip` why a case was never asked (None: it was)."""

    number: int
    component: PutValues
    ref: ArtifactRef
    cases: pa.Table
    seeds: pa.Table
    ranks: NDArray[np.int64]
    places: NDArray[np.int64]
    values: NDArray[np.float64]
    skip: NDArray[np.object_]
    on_case: Answered

    @property
    def asked(self) -> NDArray[np.bool_]:
        """Which cases were to be asked (cases,)."""
        return np.array([why is None for why in self.skip], bool)

    @property
    def params(self) -> list[dict[str, Any]]:
        """The parameters of each case."""
        return [json.loads(text) for text in self.cases.column(PARAMS).to_pylist()]

    @property
    def rows(self) -> Rows:
        """Seeds and cases as people see them."""
        return Rows(self.seeds, self.params)

    def outcomes(self, base: Baseline, same: NDArray[np.bool_]) -> tuple[NDArray[np.int8], NDArray[np.object_]]:
        """Outcome and reason of each case; `same` (cases,): does it keep what is asked of it."""
        seed = base.answered
        on_seed = Answered(seed.known[self.ranks], seed.unpaid[self.ranks], seed.error[self.ranks])
        return InvarianceScorer().outcomes(self.skip, on_seed, self.on_case, np.ones(len(same), bool), same)


def own_baseline(run: Run, book: AnswerBook, errors: Errors, config: PropertyConfig) -> Baseline:
    """The answers on the seeds, of which every one counts: labels play no part."""
    base = read_baseline(run, book, errors, config)
    return replace(base, labels=None, right=np.ones(len(base.places), bool))


def parts(
    run: Run, index: int, cases: Sequence[dict[str, Any]], book: AnswerBook, base: Baseline, errors: Errors
) -> Iterator[Part]:
    """The cases of a property in the order in which they were made."""
    made = [one for one in components(run, index) if isinstance(one, PutValues)]
    some = [(ref, rows) for ref, rows in zip(run.seeds, shard_rows(run, rows_looked_at(run, index)), strict=True) if len(rows)]
    for number, ref in enumerate(cases):
        component, shard = divmod(number, len(some))
        table = get_table(run.store, ArtifactRef.of(ref))
        seeds = get_table(run.store, some[shard][0]).take(pa.array(some[shard][1]))
        ranks = table.column(RANK).to_numpy().astype(np.int64)
        digests = input_digests(run, table)
        skip = np.array(table.column(STATUS).to_pylist(), dtype=object)
        asked = np.array([why is None for why in skip], bool)
        places = np.where(asked, book.find(digests), -1)
        on_case = errors.answered(digests, places)
        on_case.error[~asked] = None
        on_case.unpaid[~asked] = False
        values = base.values(book, places, ranks)
        yield Part(component, made[component], ArtifactRef.of(ref), table, seeds, ranks, places, values, skip, on_case)


def block(
    run: Run,
    part: Part,
    book: AnswerBook,
    expected: list[str | None],
    score: NDArray[np.float64] | None,
    ended: tuple[NDArray[np.int8], NDArray[np.object_]],
    explanation: list[str | None],
) -> CaseBlock:
    """The cases of a part, ready to be written. `score`: by default the model's own of its answer."""
    table = part.cases
    return CaseBlock(
        case_id=table.column(CASE_ID).to_pylist(),
        seed_id=table.column(SEED_ID).to_pylist(),
        transform=str(part.component.slice["transform"]),
        strength=[part.component.strength_value] * len(part.ranks),
        params=table.column(PARAMS).to_pylist(),
        expected=expected,
        observed=texts(book.labels(part.places)),
        score=own_scores(book, part.places, part.values) if score is None else score,
        outcome=ended[0],
        reason=ended[1],
        explanation=explanation,
        distance=table.column(DISTANCE).to_numpy(),
        input_uri=[f"{run.store.url_of(part.ref.uri)}#{row}" for row in range(len(part.ranks))],
        asked=part.asked,
        ranks=part.ranks,
    )

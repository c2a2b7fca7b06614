"""The search for further pairs of rows: batch after batch, each asked and kept like any other question.

What is asked hangs on the seeds and the answers alone, so that a resumed run asks the same again and finds it answered.
"""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.answers import AnswerBook
from aitest_lib.artifacts.codecs import get_table
from aitest_lib.config.suite import PropertyConfig
from aitest_lib.errors import InputError
from aitest_lib.scorers.oracle import Oracle
from aitest_lib.searches.pairs.search import Pairs, PairSearch
from aitest_lib.searches.pairs.state import Differs, Known, PairState
from aitest_lib.types import ArtifactRef
from aitest_tasks import live
from aitest_tasks.baseline import Errors
from aitest_tasks.counterpart_cases import own_baseline, parts
from aitest_tasks.inputs import input_digests
from aitest_tasks.pair_plans import Data, unanimous, written
from aitest_tasks.querying import answer_book, run_errors
from aitest_tasks.runs import Run
from aitest_tasks.seed_tables import RANK

SEARCH = "search"  # the stage of the progress bar
USUAL_QUERIES = 2_000
QUERY = "@query"
NOTHING = "no other column may change"


def search_of(config: PropertyConfig) -> PairSearch:
    """The search that a property asks for."""
    asked = config.search.queries if config.search else None
    return PairSearch(queries=asked or USUAL_QUERIES)


class PairHunt:
    """A search in the middle of a run: `ask` what is next, then `tell` when it is answered."""

    def __init__(self, run: Run, index: int, cases: list[dict[str, Any]]) -> None:
        """`cases`: those of the real rows, whose answers the search starts from."""
        self._run = run
        self._config = run.suite.suite.properties[index]
        self._search = search_of(self._config)
        self._labels_only = bool(self._config.search and self._config.search.labels_only)
        book, errors = answer_book(run), Errors(run_errors(run), True)
        self._base = own_baseline(run, book, errors, self._config)
        self._data = Data.of(run)
        self._state = self._started(index, cases)
        self._asked: ArtifactRef | None = None

    def ask(self) -> dict[str, Any] | None:
        """The shard of the next rows to ask; None where nothing is left to ask."""
        if self._state is None:
            return None
        frame, rows = self._search.ask(self._state)
        live.progress(self._config.property, SEARCH, min(self._state.queries, self._search.queries), self._search.queries)
        if not len(frame):
            return None
        self._asked = written(self._run, frame, rows, {})
        return self._asked.to_dict()

    def tell(self) -> None:
        """Takes the answers to what was asked last."""
        if self._asked is None or self._state is None:
            raise ValueError("nothing was asked")
        values, scores = self._answers(self._asked)
        self._state = self._search.tell(self._state, values, scores)

    def doubtful(self) -> dict[str, Any] | None:
        """The pairs of a model that does not always answer alike, to be asked again; None where there is none."""
        if self._state is None or self._run.prepared["deterministic"]:
            return None
        pairs = self._search.result(self._state)
        return self._kept(pairs).to_dict() if len(pairs.first) else None

    def found(self, stopped: str | None) -> dict[str, Any]:
        """What the search came to, as an artifact; `stopped`: why it ended before its end."""
        store = self._run.store
        if self._state is None:
            return store.put_json({"queries": 0, "guided": False, "pairs": None, "stopped": stopped or NOTHING}).to_dict()
        pairs = self._sure(self._search.result(self._state))
        return store.put_json(
            {
                "queries": self._state.queries,
                "guided": self._state.guided,
                "pairs": self._kept(pairs).to_dict() if len(pairs.first) else None,
                "stopped": stopped,
            }
        ).to_dict()

    def _started(self, index: int, cases: list[dict[str, Any]]) -> PairState | None:
        """The state before the first question; None where no row satisfies schema and rules."""
        run = self._run
        start = partial(
            self._search.start,
            self._data.frame,
            run.profile,
            self._data.counterparts,
            classes=len(self._base.classes.labels) if self._base.oracle.classifier else 0,
            ties=[tie.columns for tie in self._data.ties],
            random_seed=run.suite.suite.random_seed,
            differs=differs_of(self._base.oracle),
        )
        try:
            return start(known=self._known(index, cases))
        except InputError:
            return None

    def _known(self, index: int, cases: list[dict[str, Any]]) -> Known:
        """The answers to the seeds, and to those with other protected values."""
        book, errors = answer_book(self._run), Errors(run_errors(self._run), True)
        seeds = np.flatnonzero(self._base.answered.known)
        rows, places = [seeds], [np.full(len(seeds), -1, np.int64)]
        answers, at = [self._base.answers[seeds]], [self._base.places[seeds]]
        for part in parts(self._run, index, cases, book, self._base, errors):
            told = part.asked & part.on_case.known
            rows.append(part.ranks[told])
            places.append(np.full(int(told.sum()), part.number, np.int64))
            answers.append(part.values[told])
            at.append(part.places[told])
        values = self._usable(np.concatenate(answers))
        return Known(np.concatenate(rows), np.concatenate(places), values, self._scores(book, np.concatenate(at)))

    def _answers(self, ref: ArtifactRef) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        table = get_table(self._run.store, ref)
        book = answer_book(self._run)
        places = book.find(input_digests(self._run, table))
        values = self._base.values(book, places, table.column(RANK).to_numpy())
        return self._usable(values), self._scores(book, places)

    def _usable(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Answers as the search takes them: NaN where there is none, or none of the classes."""
        return np.where(values < 0, np.nan, values) if self._base.oracle.classifier else values

    def _scores(self, book: AnswerBook, places: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """The scores at places of the book, NaN where there are none; None where they are not to be used."""
        scores, classes = book.scores, len(self._base.classes.labels)
        if self._labels_only or scores is None or scores.shape[1] != classes:
            return None
        return np.where((places >= 0)[:, None], scores[places], np.nan)

    def _sure(self, pairs: Pairs) -> Pairs:
        """Those whose rows were answered alike each time: of a model that errs now and then, a search finds the errors."""
        if self._run.prepared["deterministic"] or not len(pairs.first):
            return pairs
        table = get_table(self._run.store, self._kept(pairs))
        agreed = unanimous(self._run, self._base, input_digests(self._run, table), table.column(RANK).to_numpy())
        sure = agreed.reshape(2, -1).all(axis=0)
        return Pairs(**{field.name: getattr(pairs, field.name)[sure] for field in fields(pairs)})

    def _kept(self, pairs: Pairs) -> ArtifactRef:
        """Both rows of every pair: first all first ones, then all second ones, in the order in which they were found."""
        rows = pd.concat([pairs.first, pairs.second])
        return written(self._run, rows, np.tile(pairs.row, 2), {QUERY: pa.array(np.tile(pairs.query, 2))})


def differs_of(oracle: Oracle) -> Differs:
    """When two answers are different decisions."""

    def differs(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.bool_]:
        return ~oracle.same(first, second)

    return differs

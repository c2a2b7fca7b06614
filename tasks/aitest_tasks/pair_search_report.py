"""What the search for pairs of rows found, as a report shows it: how many, how real, how spread, and some to look at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.artifacts.codecs import get_table
from aitest_lib.data.table import row_digests, to_frame
from aitest_lib.metrics.realism import looks_real
from aitest_lib.reports.explain_fairness import explain_pair_case
from aitest_lib.reports.records_fairness import PairReport, PairSearchReport, YieldPoint
from aitest_lib.reports.report import FailingCase
from aitest_lib.scorers.figures import Figure
from aitest_lib.stats.estimates import Estimate
from aitest_lib.surrogates.growing import fit, labelled
from aitest_lib.types import ArtifactRef
from aitest_tasks.baseline import Baseline
from aitest_tasks.case_tables import case_id
from aitest_tasks.cases import text_of
from aitest_tasks.counterparts import changed_columns
from aitest_tasks.growing_rows import public_columns, tree_columns
from aitest_tasks.inputs import input_digests
from aitest_tasks.pair_hunt import QUERY
from aitest_tasks.pair_plans import Data
from aitest_tasks.querying import answer_book
from aitest_tasks.runs import Run
from aitest_tasks.seed_tables import DIGEST, RANK, SEED_ID

SHOWN = 20  # pairs that are shown as examples, spread over the regions
REGIONS = 64  # leaves of the surrogate by which the space is parted
DEEP = 12
POINTS = 40  # of the curve of what was found
EXAMPLE = "pair_search"  # in the place of a transform: these are no cases
NO_INTERVAL = "what a search finds proves existence; it is no rate"


def with_search(
    run: Run, report: PairReport, data: Data, base: Baseline, ref: ArtifactRef
) -> tuple[PairReport, list[Figure], list[FailingCase]]:
    """The report with what the search found, its figures, and pairs to look at."""
    told = run.store.get_json(ref)
    queries, tree = int(told["queries"]), _regions(run, data.frame, base)
    found = PairSearchReport(
        queries=queries, found=0, guided=told["guided"], of_regions=tree[1], stopped=told["stopped"], curve=[]
    )
    examples: list[FailingCase] = []
    if told["pairs"] is not None:
        table = get_table(run.store, ArtifactRef.of(told["pairs"]))
        frame = to_frame(table.select(public_columns(run)), [one.name for one in run.profile.columns if one.missing])
        size = table.num_rows // 2
        leaves = tree[0].route(frame[:size])
        real = looks_real(data.frame, frame, run.profile, run.suite.suite.random_seed)
        numbers = table.column(QUERY).to_numpy()[:size]
        found = found.model_copy(
            update={
                "found": size,
                "real": float(np.mean(real[:size] & real[size:])),
                "regions": len(np.unique(leaves)),
                "curve": _curve(numbers, queries),
            }
        )
        examples = _examples(run, table, leaves, numbers)
    figures = [
        Figure(name="pairs_found", estimate=_known(found.found, queries), unit="pairs", higher_is_better=False),
        Figure(
            name="pairs_per_1000_queries",
            estimate=_known(1000 * found.found / max(queries, 1), queries),
            unit="pairs",
            higher_is_better=False,
        ),
    ]
    return report.model_copy(update={"search": found}), figures, examples


def _known(value: float, queries: int) -> Estimate:
    return Estimate(value=float(value), n=queries, reason=NO_INTERVAL)


def _regions(run: Run, frame: pd.DataFrame, base: Baseline) -> tuple[Any, int]:
    """A surrogate tree of the answers on the real rows, whose leaves part the space, and how many there are; None and 0 without
    an answer."""
    known = np.flatnonzero(base.answered.known & ((base.answers >= 0) | (not base.oracle.classifier)))
    classes = base.classes.names if base.oracle.classifier else []
    answers = base.answers[known].astype(np.int64) if classes else base.answers[known]
    if not len(known):
        return None, 0
    rows = labelled(frame.take(known), answers, run.profile, tree_columns(run), classes=classes)
    seed = run.suite.suite.random_seed
    tree = fit(rows, "gini" if classes else "squared_error", DEEP, REGIONS, 1, seed)
    return tree, len(tree.leaves)


def _curve(numbers: NDArray[np.int64], queries: int) -> list[YieldPoint]:
    """How many pairs were known after so many queries."""
    marks = np.unique(np.linspace(0, queries, POINTS).astype(int))
    return [YieldPoint(queries=int(mark), found=int((numbers <= mark).sum())) for mark in marks]


def _examples(run: Run, table: pa.Table, leaves: NDArray[np.int64], numbers: NDArray[np.int64]) -> list[FailingCase]:
    """Some pairs, one a region first, the one found first."""
    size = table.num_rows // 2
    turn = pd.Series(leaves).groupby(leaves).cumcount().to_numpy()
    chosen = np.sort(np.lexsort((numbers, turn))[:SHOWN])
    columns, protected = public_columns(run), changed_columns(run)
    plain = table.select(columns)
    cells = {name: plain.column(name).to_pylist() for name in columns}
    digests = [item.tobytes() for item in row_digests(plain)]
    asked = pa.table({RANK: table.column(RANK), DIGEST: pa.array(digests, pa.binary(16))})
    book = answer_book(run)
    labels = book.labels(book.find(input_digests(run, asked)))
    seed_ids = pa.concat_arrays(
        [get_table(run.store, ref, [SEED_ID]).column(SEED_ID).combine_chunks() for ref in run.seeds]
    ).to_pylist()
    cases = []
    for place in chosen.tolist():
        rows = [{name: text_of(cells[name][at]) for name in columns} for at in (place, place + size)]
        changed = {name: (rows[0][name], rows[1][name]) for name in columns if rows[0][name] != rows[1][name]}
        before, after = text_of(labels[place]), text_of(labels[place + size])
        seed_id = seed_ids[table.column(RANK)[place].as_py()]
        cases.append(
            FailingCase(
                case_id=case_id(seed_id, EXAMPLE, 1, {"first": rows[0], "second": rows[1]}),
                seed_id=seed_id,
                transform=EXAMPLE,
                strength=None,
                expected=before,
                observed=after,
                score=None,
                explanation=explain_pair_case(changed, before, after, None),
                seed=rows[0],
                case=rows[1],
                changed=sorted(changed, key=lambda name: (name not in protected, columns.index(name))),
                query=int(numbers[place]),
            )
        )
    return cases

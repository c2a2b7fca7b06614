"""Group properties: the answers on the seeds against their labels, over all and in every slice."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.answers import AnswerBook
from aitest_lib.artifacts.codecs import TableWriter, get_table
from aitest_lib.canonical import digest
from aitest_lib.config.suite import PropertyConfig
from aitest_lib.metrics.classification import classification_metrics, confusion
from aitest_lib.metrics.regression import regression_metrics
from aitest_lib.reports.explain import explain_case
from aitest_lib.reports.report import Confusion
from aitest_lib.reports.slices import rank_slices
from aitest_lib.scorers.figures import Figure
from aitest_lib.scorers.invariance import BUDGET, ERROR, FAILED, PASSED, SKIPPED
from aitest_lib.stats.clusters import rate_of_rows
from aitest_lib.stats.intervals import wilson
from aitest_lib.stats.sequences import rate_sequence
from aitest_lib.types import ArtifactRef
from aitest_tasks import live
from aitest_tasks.baseline import Baseline, Errors, own_scores, read_baseline
from aitest_tasks.cases import METADATA, CaseBlock, CaseLog, cases_schema, text_of, texts
from aitest_tasks.contents import content_of
from aitest_tasks.hearing import Hearing, clean_errors, group_wer, heard_seconds, speech_report
from aitest_tasks.property_report import finish, setting, slice_figures
from aitest_tasks.querying import answer_book, run_errors
from aitest_tasks.runs import Run
from aitest_tasks.seed_tables import RANK, SEED_ID
from aitest_tasks.shown import FailureSample, ImageRows, Rows, Shown


def score_group(run: Run, index: int, config: PropertyConfig, job: dict[str, Any]) -> dict[str, Any]:
    errors = Errors(run_errors(run), job["unpaid"] > 0)
    book = answer_book(run)
    base = read_baseline(run, book, errors, config)
    if base.labels is None:
        raise ValueError("a group property was scored without labels")
    known = base.answered.known
    outcome, log, writer, sample = log_seeds(run, config, book, base)
    confidence = float(setting(run.suite.suite, config, "confidence"))
    ranked = rank_slices(base.columns, known, outcome == FAILED, confidence)
    if base.transcripts is not None:
        found = clean_errors(base, book)
        report = speech_report(base, found, known, heard_seconds(base), confidence)
        figures = group_wer(base, found, known, outcome == ERROR)
        return finish(run, config, figures, base, log, writer, sample, ranked, speech=report)
    figures, table = _group_figures(
        run, book, base, int((outcome == ERROR).sum()), setting(run.suite.suite, config, "sequential")
    )
    figures += slice_figures(run, config, base, known, None)
    return finish(run, config, figures, base, log, writer, sample, ranked, table=table)


def log_seeds(
    run: Run, config: PropertyConfig, book: AnswerBook, base: Baseline, *, by_label: bool = True
) -> tuple[NDArray[np.int8], CaseLog, TableWriter, FailureSample]:
    """Write the seeds as the cases of a property; and the outcome (n_seeds, by rank) that each has.

    `by_label`: a seed that is answered wrongly fails; without it every seed that is answered passes.
    """
    outcome = np.where(base.right | (not by_label), PASSED, FAILED).astype(np.int8)
    reason = np.full(len(outcome), None, dtype=object)
    outcome[~base.answered.known] = ERROR
    reason[~base.answered.known] = base.answered.error[~base.answered.known]
    outcome[base.answered.unpaid] = SKIPPED
    reason[base.answered.unpaid] = BUDGET
    sample = FailureSample(1)
    with TableWriter(run.store, cases_schema(base.columns), METADATA) as writer:
        log = CaseLog(writer, config.property, base.columns)
        for number, ref in enumerate(run.seeds):
            block, rows = _block(run, config, book, base, ref, outcome, reason)
            sample.add(0, block, rows)
            log.add(block)
            live.progress(config.property, "score", number + 1, len(run.seeds))
    return outcome, log, writer, sample


def _block(
    run: Run,
    config: PropertyConfig,
    book: AnswerBook,
    base: Baseline,
    ref: ArtifactRef,
    outcome: NDArray[np.int8],
    reason: NDArray[np.object_],
) -> tuple[CaseBlock, Shown]:
    """The cases of a shard: the seeds themselves, with their outcomes by rank."""
    seeds = get_table(run.store, ref)
    ranks = seeds.column(RANK).to_numpy().astype(np.int64)
    seed_ids = seeds.column(SEED_ID).to_pylist()
    places = base.places[ranks]
    observed = book.labels(places)
    heard = None if base.transcripts is None else Hearing.of(base, book, ranks, places).alone
    expected: list[str | None]
    if heard is not None:
        expected, score = [*heard.said], heard.wer
    elif base.labels is None:
        expected, score = [None] * len(ranks), own_scores(book, places, base.answers[ranks])
    elif base.oracle.classifier:
        expected = [text_of(base.classes.labels[int(code)]) for code in base.labels[ranks]]
        score = own_scores(book, places, base.answers[ranks])
    else:
        expected = [text_of(float(value)) for value in base.labels[ranks]]
        score = own_scores(book, places, base.answers[ranks])
    explanation: list[str | None] = [None] * len(ranks)
    for row in np.flatnonzero(outcome[ranks] == FAILED).tolist():
        if heard is not None:
            explanation[row] = heard.explained(row, None, {})
            continue
        explanation[row] = explain_case(
            None,
            [],
            str(expected[row]),
            text_of(observed[row]),
            None if np.isnan(score[row]) else float(score[row]),
            seed_kind="label",
            tolerance=None if base.oracle.classifier else base.oracle.seed_tolerance,
        )
    inputs = ref if run.modality == "tabular" else content_of(seeds)
    rows: Shown
    if heard is not None:
        rows = heard.rows(run.store, seeds, [(inputs, row) for row in range(len(ranks))])
    else:
        rows = ImageRows(run.store, seeds, None) if run.modality == "image" else Rows(seeds, [])
    block = CaseBlock(
        case_id=[digest([seed_id, config.property]) for seed_id in seed_ids],
        seed_id=seed_ids,
        transform=None,
        strength=[None] * len(ranks),
        params=["{}"] * len(ranks),
        expected=expected,
        observed=texts(observed),
        score=score,
        outcome=outcome[ranks],
        reason=reason[ranks],
        explanation=explanation,
        distance=np.zeros(len(ranks)),
        input_uri=[f"{run.store.url_of(inputs.uri)}#{row}" for row in range(len(ranks))],
        asked=np.ones(len(ranks), bool),
        ranks=ranks,
    )
    return block, rows


def _group_figures(
    run: Run, book: AnswerBook, base: Baseline, errors: int, sequential: bool
) -> tuple[list[Figure], Confusion | None]:
    seed = run.suite.suite.random_seed
    known = base.answered.known
    labels = base.labels if base.labels is not None else np.empty(0)
    if not base.oracle.classifier:
        rows = regression_metrics(labels[known], base.answers[known])
        return [
            Figure(name=name, slice=where, estimate=item, higher_is_better=better, unit="1" if name == "r2" else "label units")
            for name, where, item, better in rows
        ], None
    used = known & (base.answers >= 0)
    codes, answers = labels[used].astype(np.int64), base.answers[used].astype(np.int64)
    counts = confusion(codes, answers, len(base.classes.labels))
    scores = None
    if book.scores is not None and book.scores.shape[1] == len(base.classes.labels):
        scores = book.scores[base.places[used]]
        if np.isnan(scores).any():
            scores = None
    figures = []
    for name, where, estimate, better in classification_metrics(
        counts, base.classes.names, codes if scores is not None else None, scores, seed
    ):
        worse = None
        if name == "accuracy":
            hits = int(counts.trace())
            worse = wilson(hits, int(counts.sum()) + errors) if errors else None
            if base.descent is not None:
                estimate = rate_of_rows(codes == answers, base.descent_of(used))
            elif sequential:
                estimate = rate_sequence(hits, int(counts.sum()))
        figures.append(Figure(name=name, slice=where, estimate=estimate, pessimistic=worse, higher_is_better=better))
    most = int(counts.sum(axis=1).max(initial=0))
    figures.append(Figure(name="majority_baseline", estimate=wilson(most, int(counts.sum())), higher_is_better=None))
    return figures, Confusion(classes=base.classes.names, counts=counts.tolist())

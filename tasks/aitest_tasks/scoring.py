"""Outcomes, figures and verdicts of a property, from stored cases and kept answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from prefect import task

from aitest_lib.answers import AnswerBook, book_digest
from aitest_lib.artifacts.codecs import TableWriter, get_table
from aitest_lib.canonical import digest
from aitest_lib.config.suite import PropertyConfig, Suite, transforms_of
from aitest_lib.metrics.classification import classification_metrics, confusion
from aitest_lib.metrics.regression import regression_metrics
from aitest_lib.properties.catalog import spec
from aitest_lib.reports.explain import explain_case, explain_property
from aitest_lib.reports.report import Confusion, FailingCase, PropertyReport
from aitest_lib.reports.slices import rank_slices
from aitest_lib.scorers.figures import Figure, judge_gates, status_of
from aitest_lib.scorers.invariance import ERROR, FAILED, PASSED, SKIPPED, InvarianceScorer, Tally
from aitest_lib.stats.clusters import clustered_rate
from aitest_lib.stats.intervals import mean, wilson
from aitest_lib.stats.sequences import rate_sequence
from aitest_lib.transforms.base import Transform
from aitest_lib.types import ArtifactRef
from aitest_tasks import live
from aitest_tasks.baseline import Baseline, Errors, answer_values, read_baseline
from aitest_tasks.caching import CACHED, job_key
from aitest_tasks.cases import METADATA, CaseBlock, CaseLog, FailureSample, cases_schema, text_of
from aitest_tasks.generation import CASE_ID, DISTANCE, PARAMS, STATUS
from aitest_tasks.inputs import input_digests
from aitest_tasks.preparing import SELF_FLIP_REPEATS
from aitest_tasks.querying import answer_book, needed, run_errors
from aitest_tasks.runs import Run, open_run
from aitest_tasks.sampling import RANK, SEED_ID

SCORING_VERSION = 1
MOST_SLICE_FIGURES = 40


def scoring_job(run: Run, index: int, cases: list[dict[str, Any]], unpaid: int) -> dict[str, Any]:
    """Everything that a property's report depends on; the answers stand in it by their digest."""
    config = run.suite.suite.properties[index]
    books = [answer_book(run, repeat) for repeat in range(1 if run.prepared["deterministic"] else 1 + SELF_FLIP_REPEATS)]
    refs = [*run.seeds, *(ArtifactRef.of(ref) for ref in cases)]
    ids = [needed(run, ref)[0] for ref in refs]
    return {
        "scoring": SCORING_VERSION,
        "scorer": InvarianceScorer().fingerprint(),
        "property": config.model_dump(mode="json"),
        "suite": run.suite.suite.model_dump(mode="json", by_alias=True, include={"confidence", "max_error_rate", "sequential", "decide"}),
        "components": [item.fingerprint() for item in components(run, index)],
        "cases": cases,
        "seeds": [ref.to_dict() for ref in run.seeds],
        "profile": run.prepared["profile"],
        "labels": run.prepared["labels"],
        "protected": sorted(run.suite.suite.data.protected),
        "type": run.info.type,
        "classes": list(run.info.classes) if run.info.classes is not None else None,
        "answers": [book_digest(book, book.find(part)) for book in books for part in ids],
        "errors": digest(run_errors(run)),
        "unpaid": unpaid,
        "self_flip_rate": run.prepared["self_flip_rate"],
    }


@task(name="score_property", cache_key_fn=job_key, **CACHED)
def score_property(job: dict[str, Any], run_uri: str, property_index: int) -> dict[str, Any]:
    """Scores one property; returns references to its report, its cases and the failing cases to show."""
    live.check_stopped()
    run = open_run(run_uri)
    config = run.suite.suite.properties[property_index]
    shape = spec(config.property).shape
    score = _score_perturbation if shape == "perturbation" else _score_group
    return score(run, property_index, config, job)


def components(run: Run, index: int) -> list[Transform]:
    """The components of a property; none for the group shape. Of the property's own choice, those without a column to
    work on are left out: nobody asked for them."""
    config = run.suite.suite.properties[index]
    if spec(config.property).shape != "perturbation":
        return []
    made = transforms_of(config, run.suite.document, ("properties", index))
    may_miss = any(column.missing and not column.fixed for column in run.profile.columns if column.name in run.record["columns"])
    return made if config.transforms is not None or may_miss else [item for item in made if item.name != "missing_value"]


def _score_perturbation(run: Run, index: int, config: PropertyConfig, job: dict[str, Any]) -> dict[str, Any]:
    errors = Errors(run_errors(run), job["unpaid"] > 0)
    book = answer_book(run)
    base = read_baseline(run, book, errors, config.tolerance, config.seed_tolerance)
    made = components(run, index)
    scorer = InvarianceScorer(sequential=_setting(run.suite.suite, config, "sequential"))
    tallies = [Tally.empty(item.slice, len(base.places)) for item in made]
    sample = FailureSample(len(made))
    shards = len(run.seeds)
    with TableWriter(run.store, cases_schema(base.columns), METADATA) as writer:
        log = CaseLog(writer, config.property, base.columns)
        for number, ref in enumerate(job["cases"]):
            component, shard = divmod(number, shards)
            block, rows = _score_shard(run, book, base, errors, scorer, made[component], tallies[component], ArtifactRef.of(ref), run.seeds[shard])
            shown = sample.wanted(component, block.outcome)
            sample.cases += _failing(block, rows, shown)
            log.add(block)
            live.progress(config.property, "score", number + 1, len(job["cases"]))
    figures = scorer.figures(tallies, _self_flips(run, base), base.labels is not None)
    failing = np.any([tally.failures for tally in tallies], axis=0)
    counted = np.any([tally.trials for tally in tallies], axis=0)
    figures += _slice_figures(run, config, base, counted, tallies)
    return _finish(run, config, job, figures, base, log, writer, sample, counted, failing)


def _score_shard(
    run: Run,
    book: AnswerBook,
    base: Baseline,
    errors: Errors,
    scorer: InvarianceScorer,
    component: Transform,
    tally: Tally,
    ref: ArtifactRef,
    seeds_ref: ArtifactRef,
) -> tuple[CaseBlock, _Rows]:
    cases = get_table(run.store, ref)
    seeds = get_table(run.store, seeds_ref)
    ranks = cases.column(RANK).to_numpy().astype(np.int64)
    digests = input_digests(run, cases)
    skip = np.array(cases.column(STATUS).to_pylist(), dtype=object)
    asked = np.array([text is None for text in skip], dtype=bool)
    places = np.where(asked, book.find(digests), -1)
    on_case = errors.answered(digests, places)
    on_case.error[~asked] = None
    on_case.unpaid[~asked] = False
    on_seed = base.answered
    seed_known = type(on_seed)(on_seed.known[ranks], on_seed.unpaid[ranks], on_seed.error[ranks])
    classes = base.classes if base.oracle.classifier else None
    values = answer_values(book, places, classes)
    same = base.oracle.same(base.answers[ranks], values)
    if base.oracle.classifier:
        # A class that no label and no clean answer has is still an answer, and another one.
        same &= values >= 0
    outcome, reason = scorer.outcomes(skip, seed_known, on_case, base.right[ranks], same)
    effective = asked & on_case.known & seed_known.known
    labels = None if base.labels is None else base.labels[ranks]
    tally.effective[ranks] = effective
    tally.right_seed[ranks] = base.right[ranks]
    tally.right_case[ranks] = effective & base.oracle.right(values, labels)
    tally.same[ranks] = same
    tally.error[ranks] = outcome == ERROR
    observed = book.labels(places)
    expected = book.labels(base.places[ranks])
    rows = _Rows(seeds, [json.loads(text) for text in cases.column(PARAMS).to_pylist()])
    score = _scores(book, places, values)
    explanation: list[str | None] = [None] * len(skip)
    for row in np.flatnonzero(outcome == FAILED):
        explanation[row] = explain_case(
            component.name,
            rows.changes(int(row), run),
            text_of(expected[row]),
            text_of(observed[row]),
            None if np.isnan(score[row]) else float(score[row]),
            tolerance=None if base.oracle.classifier else base.oracle.tolerance,
        )
    return (
        CaseBlock(
            case_id=cases.column(CASE_ID).to_pylist(),
            seed_id=cases.column(SEED_ID).to_pylist(),
            transform=component.name,
            strength=component.strength_value,
            params=cases.column(PARAMS).to_pylist(),
            expected=_texts(expected),
            observed=_texts(observed),
            score=score,
            outcome=outcome,
            reason=reason,
            explanation=explanation,
            distance=cases.column(DISTANCE).to_numpy(),
            input_uri=run.store.url_of(ref.uri),
            asked=asked,
            ranks=ranks,
        ),
        rows,
    )


class _Rows:
    """Seeds and what was changed in them, cell by cell, for the cases that are shown or explained."""

    def __init__(self, seeds: pa.Table, params: list[dict[str, Any]]) -> None:
        self._columns = {name: seeds.column(name) for name in seeds.column_names if not name.startswith("@")}
        self._params = params

    def seed(self, row: int) -> dict[str, str]:
        return {name: text_of(column[row].as_py()) for name, column in self._columns.items()}

    def changed(self, row: int) -> dict[str, Any]:
        return dict(self._params[row]["set"]) if self._params else {}

    def changes(self, row: int, run: Run) -> list[tuple[str, str, str, float | None]]:
        result = []
        for name, after in self.changed(row).items():
            before = self._columns[name][row].as_py()
            sd = run.profile[name].sd if run.profile[name].numeric else 0
            shift = (after - before) / sd if sd and after is not None and before is not None else None
            result.append((name, text_of(before), text_of(after), shift))
        return result


def _failing(block: CaseBlock, rows: _Rows, shown: NDArray[np.int64]) -> list[FailingCase]:
    cases = []
    for row in shown.tolist():
        seed, changed = rows.seed(row), rows.changed(row)
        score = float(block.score[row])
        cases.append(
            FailingCase(
                case_id=block.case_id[row],
                seed_id=block.seed_id[row],
                transform=block.transform,
                strength=block.strength,
                expected=block.expected[row],
                observed=block.observed[row],
                score=None if np.isnan(score) else score,
                explanation=block.explanation[row] or "",
                seed=seed,
                case=seed | {name: text_of(value) for name, value in changed.items()},
                changed=list(changed),
            )
        )
    return cases


def _score_group(run: Run, index: int, config: PropertyConfig, job: dict[str, Any]) -> dict[str, Any]:
    errors = Errors(run_errors(run), job["unpaid"] > 0)
    book = answer_book(run)
    base = read_baseline(run, book, errors, config.tolerance, config.seed_tolerance)
    if base.labels is None:
        raise ValueError("a group property was scored without labels")
    known = base.answered.known
    outcome = np.where(base.right, PASSED, FAILED).astype(np.int8)
    reason = np.full(len(outcome), None, dtype=object)
    outcome[~known] = ERROR
    reason[~known] = base.answered.error[~known]
    outcome[base.answered.unpaid] = SKIPPED
    reason[base.answered.unpaid] = "budget"
    sample = FailureSample(1)
    with TableWriter(run.store, cases_schema(base.columns), METADATA) as writer:
        log = CaseLog(writer, config.property, base.columns)
        for number, ref in enumerate(run.seeds):
            block, rows = _group_block(run, config, book, base, ref, outcome, reason)
            sample.cases += _failing(block, rows, sample.wanted(0, block.outcome))
            log.add(block)
            live.progress(config.property, "score", number + 1, len(run.seeds))
    figures, table = _group_figures(run, book, base, int((outcome == ERROR).sum()), _setting(run.suite.suite, config, "sequential"))
    failing = outcome == FAILED
    figures += _slice_figures(run, config, base, known, None)
    return _finish(run, config, job, figures, base, log, writer, sample, known, failing, table)


def _group_block(
    run: Run, config: PropertyConfig, book: AnswerBook, base: Baseline, ref: ArtifactRef, outcome: NDArray[np.int8], reason: NDArray[np.object_]
) -> tuple[CaseBlock, _Rows]:
    seeds = get_table(run.store, ref)
    ranks = seeds.column(RANK).to_numpy().astype(np.int64)
    seed_ids = seeds.column(SEED_ID).to_pylist()
    places = base.places[ranks]
    observed = book.labels(places)
    if base.labels is None:
        raise ValueError("a group property was scored without labels")
    if base.oracle.classifier:
        expected: list[str | None] = [text_of(base.classes.labels[int(code)]) for code in base.labels[ranks]]
    else:
        expected = [text_of(float(value)) for value in base.labels[ranks]]
    score = _scores(book, places, base.answers[ranks])
    explanation: list[str | None] = [None] * len(ranks)
    for row in np.flatnonzero(outcome[ranks] == FAILED):
        explanation[row] = explain_case(
            None,
            [],
            str(expected[row]),
            text_of(observed[row]),
            None if np.isnan(score[row]) else float(score[row]),
            seed_kind="label",
            tolerance=None if base.oracle.classifier else base.oracle.seed_tolerance,
        )
    rows = _Rows(seeds, [])
    block = CaseBlock(
        case_id=[digest([seed_id, config.property]) for seed_id in seed_ids],
        seed_id=seed_ids,
        transform=None,
        strength=None,
        params=["{}"] * len(ranks),
        expected=expected,
        observed=_texts(observed),
        score=score,
        outcome=outcome[ranks],
        reason=reason[ranks],
        explanation=explanation,
        distance=np.zeros(len(ranks)),
        input_uri=run.store.url_of(ref.uri),
        asked=np.ones(len(ranks), bool),
        ranks=ranks,
    )
    return block, rows


def _group_figures(run: Run, book: AnswerBook, base: Baseline, errors: int, sequential: bool) -> tuple[list[Figure], Confusion | None]:
    seed = run.suite.suite.random_seed
    known = base.answered.known
    labels = base.labels if base.labels is not None else np.empty(0)
    if not base.oracle.classifier:
        rows = regression_metrics(labels[known], base.answers[known], seed)
        return [Figure(name=name, slice=where, estimate=item, higher_is_better=better, unit="1" if name == "r2" else "label") for name, where, item, better in rows], None
    used = known & (base.answers >= 0)
    codes, answers = labels[used].astype(np.int64), base.answers[used].astype(np.int64)
    counts = confusion(codes, answers, len(base.classes.labels))
    scores = None
    if book.scores is not None and book.scores.shape[1] == len(base.classes.labels):
        scores = book.scores[base.places[used]]
        if np.isnan(scores).any():
            scores = None
    figures = []
    for name, where, estimate, better in classification_metrics(counts, base.classes.names, codes if scores is not None else None, scores, seed):
        worse = None
        if name == "accuracy":
            hits = int(counts.trace())
            worse = wilson(hits, int(counts.sum()) + errors) if errors else None
            estimate = rate_sequence(hits, int(counts.sum())) if sequential else estimate
        figures.append(Figure(name=name, slice=where, estimate=estimate, pessimistic=worse, higher_is_better=better))
    return figures, Confusion(classes=base.classes.names, counts=counts.tolist())


def _slice_figures(
    run: Run, config: PropertyConfig, base: Baseline, counted: NDArray[np.bool_], tallies: Sequence[Tally] | None
) -> list[Figure]:
    """The main figure in every slice of the protected columns, and of the columns that a gate names."""
    named = {key for given in config.gates.values() for gate in (given if isinstance(given, list) else [given]) for key in gate.slice or {}}
    wanted = set(run.suite.suite.data.protected) | named
    figures = []
    for column in base.columns:
        if column.name not in wanted or len(column.names) > MOST_SLICE_FIGURES:
            continue
        for code, name in sorted(enumerate(column.names), key=lambda item: item[1]):
            inside = (column.codes == code) & counted
            where = {column.name: name}
            if tallies is not None:
                trials = np.sum([tally.trials for tally in tallies], axis=0)[inside]
                kept = np.sum([tally.trials & tally.same for tally in tallies], axis=0)[inside]
                estimate = wilson(int(kept.sum()), int(trials.sum())) if len(tallies) == 1 else clustered_rate(kept, trials)
                figures.append(Figure(name="pass_rate", slice=where, estimate=estimate))
            elif base.oracle.classifier:
                figures.append(Figure(name="accuracy", slice=where, estimate=wilson(int(base.right[inside].sum()), int(inside.sum()))))
            elif base.labels is not None:
                errors = np.abs(base.answers - base.labels)[inside]
                figures.append(Figure(name="mae", slice=where, estimate=mean(errors), unit="label", higher_is_better=False))
    return figures


def _self_flips(run: Run, base: Baseline) -> NDArray[np.float64] | None:
    """How often the model changed its own answer on each seed, over the repeats; None for a deterministic model."""
    if run.prepared["deterministic"]:
        return None
    ids = np.concatenate([input_digests(run, get_table(run.store, ref)) for ref in run.seeds])
    flips, asked = np.zeros(len(ids)), np.zeros(len(ids))
    for repeat in range(1, SELF_FLIP_REPEATS + 1):
        book = answer_book(run, repeat)
        places = book.find(ids)
        again = answer_values(book, places, base.classes if base.oracle.classifier else None)
        known = places >= 0
        asked += known
        flips += known & ~base.oracle.same(base.answers, again)
    return np.asarray(flips / np.maximum(asked, 1))


def _finish(
    run: Run,
    config: PropertyConfig,
    job: dict[str, Any],
    figures: list[Figure],
    base: Baseline,
    log: CaseLog,
    writer: TableWriter,
    sample: FailureSample,
    counted: NDArray[np.bool_],
    failing: NDArray[np.bool_],
    table: Confusion | None = None,
) -> dict[str, Any]:
    suite = run.suite.suite
    confidence = float(_setting(suite, config, "confidence"))
    incomplete = f"budget: {log.skipped['budget']:,} cases were not asked" if log.skipped["budget"] else None
    gates = judge_gates(
        config.gates, figures, confidence=confidence, decide=_setting(suite, config, "decide"), incomplete=incomplete
    )
    judged = log.counts.passed + log.counts.failed + log.counts.error
    error_rate = log.counts.error / judged if judged else 0.0
    most = float(_setting(suite, config, "max_error_rate"))
    too_many = error_rate > most
    report = PropertyReport(
        property=config.property,
        status=status_of(gates, incomplete=incomplete, too_many_errors=too_many),
        cases=log.counts,
        skipped=dict(sorted(log.skipped.items())),
        metrics=[figure.metric(confidence) for figure in figures],
        gates=gates,
        slices=[item for item in rank_slices(base.columns, counted, failing, confidence)],
        confusion=table,
        errors=dict(log.errors.most_common(10)),
        reason=f"{error_rate:.1%} of the cases ended in an error, more than max_error_rate {most:g}" if too_many else incomplete,
    )
    report = report.model_copy(update={"explanation": explain_property(report, confidence)})
    if writer.ref is None:
        raise RuntimeError("the cases were not written")
    return {
        "report": run.store.put_json(report.model_dump(mode="json")).to_dict(),
        "cases": writer.ref.to_dict(),
        "failures": run.store.put_json([case.model_dump(mode="json") for case in sample.cases]).to_dict(),
    }


def _setting(suite: Suite, config: PropertyConfig, name: str) -> Any:
    """A setting of the property, else the suite's."""
    own = getattr(config, name)
    return getattr(suite, name) if own is None else own


def _scores(book: AnswerBook, places: NDArray[np.int64], codes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The model's score of its own answer, NaN where there is none."""
    result = np.full(len(places), np.nan)
    if book.scores is None:
        return result
    usable = (places >= 0) & (codes >= 0) & (codes < book.scores.shape[1])
    result[usable] = book.scores[places[usable], codes[usable].astype(int)]
    return result


def _texts(values: NDArray[np.object_]) -> list[str | None]:
    return [None if pd.isna(value) else text_of(value) for value in values]

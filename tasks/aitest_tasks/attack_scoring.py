"""An adversarial search: one case a seed, curves of success over queries beside the baselines', and the attacked accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.answers import AnswerBook
from aitest_lib.artifacts.codecs import TableWriter, get_table
from aitest_lib.canonical import canonical_json
from aitest_lib.config.suite import PropertyConfig
from aitest_lib.reports.attack_view import BUDGETS
from aitest_lib.reports.explain_attack import attack_gate_reason, explain_attack_case, explain_resisted
from aitest_lib.reports.pictures import NOISE_GAIN
from aitest_lib.reports.records import AdversarialReport, ClassAttack, CurvePoint, SearchCurve
from aitest_lib.reports.slices import rank_slices
from aitest_lib.scorers.figures import Figure
from aitest_lib.scorers.invariance import ERROR, FAILED, PASSED, SKIPPED, Answered, InvarianceScorer
from aitest_lib.searches.image.base import LEVELS, ImageSearch
from aitest_lib.stats.estimates import Estimate
from aitest_lib.stats.intervals import median, wilson
from aitest_lib.stats.sequences import rate_sequence
from aitest_lib.types import ArtifactRef
from aitest_tasks.attack_plans import attacked_ranks, methods, votes
from aitest_tasks.attacking import BROKE_OFF, END, FOUND, NORM, QUERIES, REASON, UNANSWERED
from aitest_tasks.baseline import Baseline, Errors, answer_values, own_scores, read_baseline
from aitest_tasks.case_tables import case_id
from aitest_tasks.cases import METADATA, CaseBlock, CaseLog, cases_schema, text_of, texts
from aitest_tasks.components import attacks
from aitest_tasks.contents import content_of
from aitest_tasks.property_report import finish, setting, slice_figures
from aitest_tasks.querying import answer_book, run_errors
from aitest_tasks.runs import Run
from aitest_tasks.seed_tables import DIGEST, RANK, SEED_ID
from aitest_tasks.shown import FailureSample, ImageRows

SILENT_SHARE = 0.1  # of its queries without a usable answer, from which on a search that found nothing has resisted nothing
NO_ANSWER = "the model gave no usable answer to {} of the {} images tried"


@dataclass(frozen=True)
class Found:
    """How the searches by one method ended; arrays are (seeds,), by rank. `end`: "" where there was none. `part` and `row`:
    where each stands in `tables`."""

    end: NDArray[np.object_]
    queries: NDArray[np.int64]
    unanswered: NDArray[np.int64]
    found: NDArray[np.int64]
    norm: NDArray[np.int64]
    reason: NDArray[np.object_]
    digests: NDArray[np.void]
    part: NDArray[np.int64]
    row: NDArray[np.int64]
    tables: list[pa.Table]

    @classmethod
    def read(cls, run: Run, parts: Sequence[dict[str, Any]], seeds: int) -> Found:
        """The last that was told of every seed."""
        tables = [get_table(run.store, ArtifactRef.of(ref)) for ref in parts]
        whole = [np.zeros(seeds, np.int64) for _ in range(6)]
        end, reason = np.full(seeds, "", dtype=object), np.full(seeds, None, dtype=object)
        digests = np.zeros(seeds, "V16")
        for number, table in enumerate(tables):
            ranks = table.column(RANK).to_numpy()
            end[ranks], reason[ranks] = table.column(END).to_pylist(), table.column(REASON).to_pylist()
            digests[ranks] = np.frombuffer(b"".join(table.column(DIGEST).to_pylist()), "V16")
            columns = [table.column(name).fill_null(0).to_numpy() for name in (QUERIES, UNANSWERED, FOUND, NORM)]
            for target, values in zip(whole, [*columns, np.full(len(ranks), number), np.arange(len(ranks))], strict=True):
                target[ranks] = values
        queries, unanswered, found, norm, part, row = whole
        return cls(end, queries, unanswered, found, norm, reason, digests, part, row, tables)

    @property
    def broken(self) -> NDArray[np.bool_]:
        """Adversarial images were found."""
        return np.asarray(self.end == "broken")

    @property
    def silent(self) -> NDArray[np.bool_]:
        """The model answered too little to say that it resisted."""
        mute = np.isin(self.end, ("unanswered", BROKE_OFF)) | (self.unanswered > SILENT_SHARE * self.queries)
        return np.asarray(mute & ~self.broken & (self.end != ""))

    @property
    def begun(self) -> NDArray[np.bool_]:
        """Something was tried and answered: what has not been broken by then is counted as not broken, so that searches which
        were cut off make no model look worse than it is."""
        return np.asarray((self.queries > 0) & ~self.silent)

    @property
    def ended(self) -> NDArray[np.bool_]:
        """The search came to its end: a success, or nothing left to try or to ask."""
        return np.asarray(np.isin(self.end, ("broken", "resisted", "exhausted")) & ~self.silent)


def score_attack(run: Run, index: int, config: PropertyConfig, job: dict[str, Any]) -> dict[str, Any]:
    errors = Errors(run_errors(run), job["unpaid"] > 0)
    book = answer_book(run)
    base = read_baseline(run, book, errors, config)
    listed = run.store.get_json(ArtifactRef.of(job["attacked"]))
    search, *others = methods(run, index, base)
    seeds = len(base.places)
    main, *baselines = [Found.read(run, one, seeds) for one in listed["parts"]]
    confidence = float(setting(run.suite.suite, config, "confidence"))
    scorer = InvarianceScorer(sequential=setting(run.suite.suite, config, "sequential"))
    outcome, reason = _outcomes(scorer, base, main)
    sample = FailureSample(1)
    with TableWriter(run.store, cases_schema(base.columns), METADATA) as writer:
        log = CaseLog(writer, config.property, base.columns)
        start = 0
        for ref in run.seeds:
            ranks = np.arange(start, start + ref.rows)
            block, rows = _block(run, index, base, book, main, outcome[ranks], reason[ranks], ranks, ref)
            log.add(block)
            sample.add(0, block, rows)
            start += ref.rows
    judged = (outcome == PASSED) | (outcome == FAILED)
    counted = judged | (main.begun & base.right & (outcome == SKIPPED))
    wrong = base.answered.known & ~base.right
    rate = rate_sequence if scorer.sequential else wilson
    budgets = _budgets(search, config)
    figures = _figures(main, outcome, counted, wrong, budgets, rate)
    if base.labels is not None:
        known = base.answered.known
        figures.append(Figure(name="clean_accuracy", estimate=rate(int((known & base.right).sum()), int(known.sum()))))
    figures += slice_figures(run, config, base, counted | wrong, None, ("attacked_accuracy", counted & (outcome != FAILED)))
    curves = [
        _curve(one, place > 0, found, counted if place == 0 else found.begun, budgets, confidence, len(attacked_ranks(base)))
        for place, (one, found) in enumerate(zip((search, *others), (main, *baselines), strict=True))
    ]
    broken = outcome == FAILED
    report = AdversarialReport(
        method=search.name,
        delta=search.delta,
        levels=search.radius,
        queries=search.queries,
        labels_only=search.labels_only,
        votes=votes(run),
        right=len(attacked_ranks(base)),
        wrong=int(wrong.sum()),
        curves=curves,
        classes=_classes(base, counted, broken),
        norms=np.bincount(main.norm[broken], minlength=search.radius + 1)[1:].tolist(),
        stopped=_stopped(main, job["unpaid"], search),
    )
    ranked = rank_slices(base.columns, counted, broken, confidence)
    late = int((main.end == "late").sum())
    return finish(
        run,
        config,
        figures,
        base,
        log,
        writer,
        sample,
        ranked,
        incomplete=f"time limit: {late:,} searches were not finished" if late else None,
        reason_of=partial(attack_gate_reason, report),
        adversarial=report,
    )


def _outcomes(scorer: InvarianceScorer, base: Baseline, main: Found) -> tuple[NDArray[np.int8], NDArray[np.object_]]:
    """Outcome and reason of the case of each seed: failed where an adversarial image was found, passed where the search has
    come to its end without one."""
    known = main.ended | ~base.right
    unpaid = ~known & ~main.silent
    why = np.full(len(known), None, dtype=object)
    for rank in np.flatnonzero(main.silent & base.right).tolist():
        said = NO_ANSWER.format(main.unanswered[rank], main.queries[rank])
        own = main.reason[rank]
        why[rank] = said if own is None else own if main.end[rank] == BROKE_OFF else f"{said}; the last time: {own}"
    skip = np.full(len(known), None, dtype=object)
    return scorer.outcomes(skip, base.answered, Answered(known, unpaid, why), base.right, ~main.broken)


def _block(
    run: Run,
    index: int,
    base: Baseline,
    book: AnswerBook,
    main: Found,
    ended: NDArray[np.int8],
    reason: NDArray[np.object_],
    ranks: NDArray[np.int64],
    seeds_ref: ArtifactRef,
) -> tuple[CaseBlock, ImageRows]:
    """The cases of a shard of seeds: the adversarial image, else the one that came nearest, else the seed."""
    search = attacks(run, index)[0]
    seeds: pa.Table = get_table(run.store, seeds_ref)
    seed_ids = seeds.column(SEED_ID).to_pylist()
    tried = main.found[ranks] > 0
    places = np.where(tried, book.find(main.digests[ranks]), base.places[ranks])
    values = answer_values(book, places, base.classes)
    score, observed, expected = own_scores(book, places, values), book.labels(places), book.labels(base.places[ranks])
    explanation: list[str | None] = [None] * len(ranks)
    for row in np.flatnonzero((ended == FAILED) | (ended == PASSED)).tolist():
        rank = ranks[row]
        own = None if np.isnan(score[row]) else float(score[row])
        if ended[row] == FAILED:
            before, after = text_of(expected[row]), text_of(observed[row])
            explanation[row] = explain_attack_case(int(main.norm[rank]), int(main.found[rank]), before, after, own)
        else:
            spent, exhausted = int(main.queries[rank]), main.end[rank] == "exhausted"
            explanation[row] = explain_resisted(spent, text_of(expected[row]), own, exhausted)
    configuration = {"search": search.key, **search.parameters()}
    own_pixels = content_of(seeds)
    images = [
        (content_of(main.tables[main.part[rank]]), int(main.row[rank])) if some else (own_pixels, row)
        for row, (rank, some) in enumerate(zip(ranks.tolist(), tried.tolist(), strict=True))
    ]
    params = [
        {
            "search": configuration,
            "queries": int(main.queries[rank]),
            "found": int(main.found[rank]),
            "norm": int(main.norm[rank]),
        }
        for rank in ranks
    ]
    block = CaseBlock(
        case_id=[case_id(seed, search.name, search.version, {"search": configuration}) for seed in seed_ids],
        seed_id=seed_ids,
        transform=search.name,
        strength=[search.delta] * len(ranks),
        params=[canonical_json(one) for one in params],
        expected=texts(expected),
        observed=texts(observed),
        score=score,
        outcome=ended,
        reason=reason,
        explanation=explanation,
        distance=main.norm[ranks] / LEVELS,
        input_uri=[f"{run.store.url_of(ref.uri)}#{row}" for ref, row in images],
        asked=main.queries[ranks],
        ranks=ranks,
        found=[int(main.found[rank]) or None for rank in ranks],
    )
    return block, ImageRows(run.store, seeds, images, NOISE_GAIN)


def _budgets(search: ImageSearch, config: PropertyConfig) -> list[int]:
    """At how many queries success is told: the usual numbers below a search's own, that one, and those that gates name."""
    given = [gate for gates in config.gates.values() for gate in (gates if isinstance(gates, list) else [gates])]
    named = [int(gate.slice["queries"]) for gate in given if gate.slice and "queries" in gate.slice]
    return sorted({*(one for one in BUDGETS if one < search.queries), search.queries, *named})


def _figures(
    main: Found,
    outcome: NDArray[np.int8],
    counted: NDArray[np.bool_],
    wrong: NDArray[np.bool_],
    budgets: Sequence[int],
    rate: Any,
) -> list[Figure]:
    """The figures of the search over all seeds, and at each number of queries."""
    attacked, errors = int(counted.sum()), int((outcome == ERROR).sum())
    seeds = attacked + int(wrong.sum())
    figures = []
    for budget in (None, *budgets):
        broken = int(((outcome == FAILED) & (main.queries <= (np.inf if budget is None else budget))).sum())
        where = {} if budget is None else {"queries": budget}

        def figure(name: str, hits: int, n: int, worst: int, *, good: bool, where: dict[str, Any] = where) -> Figure:
            pessimistic: Estimate | None = rate(worst, n + errors) if errors else None
            return Figure(name=name, slice=where, estimate=rate(hits, n), pessimistic=pessimistic, higher_is_better=good)

        figures.append(figure("attacked_accuracy", attacked - broken, seeds, attacked - broken, good=True))
        figures.append(figure("success_rate", broken, attacked, broken + errors, good=False))
    found = main.queries[outcome == FAILED].astype(float)
    figures.append(Figure(name="median_queries", estimate=median(found), unit="queries"))
    return figures


def _curve(
    search: ImageSearch,
    baseline: bool,
    found: Found,
    counted: NDArray[np.bool_],
    budgets: Sequence[int],
    confidence: float,
    right: int,
) -> SearchCurve:
    """What one method did to the seeds whose search has begun; the points are where something changes, and the budgets."""
    needed = found.queries[counted & found.broken]
    attacked = int(counted.sum())
    points = []
    for budget in sorted({1, *budgets, *needed.tolist()}):
        broken = int((needed <= budget).sum())
        bounds = wilson(broken, attacked).bounds(confidence)
        if bounds is not None:
            low, high = bounds
            points.append(CurvePoint(queries=budget, broken=broken, rate=broken / attacked, low=low, high=high))
    return SearchCurve(
        method=search.name,
        baseline=baseline,
        attacked=attacked,
        broken=len(needed),
        unfinished=right - int((counted & found.ended).sum()),
        points=points,
        median_queries=median(needed.astype(float)).value,
        queries=int(found.queries.sum()),
    )


def _classes(base: Baseline, counted: NDArray[np.bool_], broken: NDArray[np.bool_]) -> list[ClassAttack]:
    """Of each class, how many seeds were attacked and broken; those that fall most first."""
    codes = base.answers.astype(np.int64)
    classes = [
        ClassAttack(label=name, attacked=int((counted & (codes == code)).sum()), broken=int((broken & (codes == code)).sum()))
        for code, name in enumerate(base.classes.names)
    ]
    return sorted(
        (one for one in classes if one.attacked), key=lambda one: (-one.broken / one.attacked, -one.attacked, one.label)
    )


def _stopped(main: Found, unpaid: int, search: ImageSearch) -> str | None:
    """Why searches are unfinished; None where all came to their end."""
    late = int((main.end == "late").sum())
    if late:
        return "the time limit had passed"
    if unpaid:
        return "the budget of the run had ended"
    return "the model gave no usable answers" if main.silent.any() else None

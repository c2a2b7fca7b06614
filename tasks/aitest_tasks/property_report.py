"""From figures to a property's report: slices, gates, verdict, paragraph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.artifacts.codecs import TableWriter
from aitest_lib.config.suite import PropertyConfig, Suite
from aitest_lib.reports.explain import explain_property
from aitest_lib.reports.report import Confusion, GateResult, PropertyReport, SliceFinding
from aitest_lib.reports.slices import slice_order
from aitest_lib.scorers.figures import Figure, judge_gates, status_of
from aitest_lib.scorers.invariance import BUDGET, Tally
from aitest_lib.stats.clusters import clustered_rate, rate_of_rows
from aitest_lib.stats.intervals import mean, wilson
from aitest_tasks.baseline import Baseline
from aitest_tasks.cases import CaseLog
from aitest_tasks.runs import Run
from aitest_tasks.shown import FailureSample

MOST_SLICE_FIGURES = 40


def finish(
    run: Run,
    config: PropertyConfig,
    figures: list[Figure],
    base: Baseline,
    log: CaseLog,
    writer: TableWriter,
    sample: FailureSample,
    ranked: list[SliceFinding],
    table: Confusion | None = None,
    changes: list[SliceFinding] | None = None,
    incomplete: str | None = None,
    reason_of: Callable[[GateResult], str] | None = None,
    **found: Any,
) -> dict[str, Any]:
    """Stores the report of a property, its cases and those to show. `ranked`, `changes`: slices by how much they fail;
    `incomplete`: why not everything was asked, where that is not the budget; `reason_of`: the words for a gate's verdict;
    `found`: what else the report holds."""
    suite = run.suite.suite
    confidence = float(setting(suite, config, "confidence"))
    if log.skipped[BUDGET] and incomplete is None:
        incomplete = f"budget: {log.skipped[BUDGET]:,} cases were not asked"
    gates = judge_gates(
        config.gates, figures, confidence=confidence, decide=setting(suite, config, "decide"), incomplete=incomplete
    )
    if reason_of is not None:
        gates = [gate.model_copy(update={"reason": reason_of(gate)}) for gate in gates]
    judged = log.counts.passed + log.counts.failed + log.counts.error
    error_rate = log.counts.error / judged if judged else 0.0
    most = float(setting(suite, config, "max_error_rate"))
    too_many = error_rate > most
    report = PropertyReport(
        property=config.property,
        status=status_of(gates, incomplete=incomplete, too_many_errors=too_many),
        cases=log.counts,
        skipped=dict(sorted(log.skipped.items())),
        metrics=[figure.metric(confidence) for figure in figures],
        gates=gates,
        slices=sorted([*(changes or []), *ranked], key=slice_order),
        confusion=table,
        tolerance=None if base.oracle.classifier else base.oracle.tolerance,
        seed_tolerance=None if base.oracle.classifier or base.labels is None else base.oracle.seed_tolerance,
        errors=dict(log.errors.most_common(10)),
        unanswered=sample.unanswered,
        reason=f"{error_rate:.1%} of the cases ended in an error, more than max_error_rate {most:g}"
        if too_many
        else incomplete,
        **found,
    )
    unreadable = run.prepared.get("unreadable", {"count": 0})["count"]
    report = report.model_copy(update={"explanation": explain_property(report, confidence, unreadable)})
    if writer.ref is None:
        raise RuntimeError("the cases were not written")
    return {
        "report": run.store.put_json(report.model_dump(mode="json")).to_dict(),
        "cases": writer.ref.to_dict(),
        "failures": run.store.put_json([case.model_dump(mode="json") for case in sample.cases]).to_dict(),
    }


def setting(suite: Suite, config: PropertyConfig, name: str) -> Any:
    """A setting of the property, else the suite's."""
    own = getattr(config, name)
    return getattr(suite, name) if own is None else own


def slice_figures(
    run: Run,
    config: PropertyConfig,
    base: Baseline,
    counted: NDArray[np.bool_],
    tallies: Sequence[Tally] | None,
    share: tuple[str, NDArray[np.bool_]] | None = None,
    lost: NDArray[np.bool_] | None = None,
) -> list[Figure]:
    """The main figure in every slice of the protected columns, and of the columns that a gate names. `share`: the
    name of the figure where it is the share of a mask (seeds,); `lost` (seeds,): of what is bad, seeds that may be in it."""
    named = {
        key
        for given in config.gates.values()
        for gate in (given if isinstance(given, list) else [given])
        for key in gate.slice or {}
    }
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
                if base.descent is not None:
                    trials, kept = (np.bincount(base.descent[inside], part).astype(np.int64) for part in (trials, kept))
                alone = len(tallies) == 1 and base.descent is None
                estimate = wilson(int(kept.sum()), int(trials.sum())) if alone else clustered_rate(kept, trials)
                figures.append(Figure(name="pass_rate", slice=where, estimate=estimate))
            elif share is not None:
                estimate = rate_of_rows(share[1][inside], base.descent_of(inside))
                worst = None
                if lost is not None and (lost & (column.codes == code)).any():
                    maybe = (column.codes == code) & (counted | lost)
                    worst = rate_of_rows((share[1] | lost)[maybe], base.descent_of(maybe))
                better = lost is None
                figures.append(
                    Figure(name=share[0], slice=where, estimate=estimate, pessimistic=worst, higher_is_better=better)
                )
            elif base.oracle.classifier:
                estimate = rate_of_rows(base.right[inside], base.descent_of(inside))
                figures.append(Figure(name="accuracy", slice=where, estimate=estimate))
            elif base.labels is not None:
                errors = np.abs(base.answers - base.labels)[inside]
                figures.append(
                    Figure(name="mae", slice=where, estimate=mean(errors), unit="label units", higher_is_better=False)
                )
    return figures

"""`aitest compare`: what changed in the suite, then per property and per case, and whether it is more than chance.

A case fails where it failed, and also where the model gets its seed wrong (`misclassified_seed`): so both models are judged
on the same cases, and one that breaks its fragile seeds does not get away with it. The seed is the unit of every test;
p-values are adjusted over the properties (Holm 1979). Where errors are numbers (a regressor against its labels), their mean
is compared instead. Cases of group fairness cannot fail: there the gates' figures are compared, and beside the cases those
of pairs and directions (`compare_figures`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.errors import InputError
from aitest_lib.reports.compare_cases import (
    PASSED,
    SharedCases,
    case_changes,
    changed_cases,
    component_changes,
    join_cases,
    numbers,
    shared_seeds,
    slice_columns,
)
from aitest_lib.reports.compare_figures import figure_key, figures_verdict, gate_changes, joint_verdict
from aitest_lib.reports.compare_settings import changed_settings
from aitest_lib.reports.compare_text import headline, summary
from aitest_lib.reports.comparison import (
    CaseChanges,
    ChangeVerdict,
    ComparedRun,
    Comparison,
    MetricChange,
    PairedFigure,
    PropertyComparison,
)
from aitest_lib.reports.report import FailingCase, PropertyReport, RunReport
from aitest_lib.reports.slices import rank_slices
from aitest_lib.reports.tables import listed
from aitest_lib.stats.multiple import holm
from aitest_lib.stats.paired import PairedTest, paired_bootstrap, paired_rates

LEVEL = 0.05  # two-sided, over all properties together
BOUNDS = 1 - LEVEL / 2  # the one-sided confidence of each bound of the two-sided interval
FAILING, ERROR = "share of failing cases", "mean absolute error"
WORST_FIRST: tuple[ChangeVerdict, ...] = (
    "regression",
    "not_comparable",
    "not_shown",
    "no_evidence",
    "non_inferior",
    "improvement",
)


@dataclass(frozen=True)
class ComparableRun:
    """A run that has ended: its record (suite, digests, fingerprints) and report; `cases` reads the cases of a property,
    None where it has none; `failures`: the failing cases that are kept to be shown, by the property's shown name."""

    record: Mapping[str, Any]
    report: RunReport
    cases: Callable[[PropertyReport], pa.Table | None]
    failures: Mapping[str, list[FailingCase]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Tested:
    """The test of one property, before its p-value is adjusted over all of them."""

    test: PairedTest
    metric: str
    base: float
    candidate: float
    unit: str = "1"

    def figure(self, adjusted_p: float) -> PairedFigure:
        low, high = self.test.change.bounds(BOUNDS) or (None, None)
        return PairedFigure(
            metric=self.metric,
            unit=self.unit,
            base=self.base,
            candidate=self.candidate,
            change=self.candidate - self.base,
            low=low,
            high=high,
            p_value=self.test.p_value,
            adjusted_p_value=adjusted_p,
            method=self.test.method,
            seeds=self.test.change.n,
        )


def compare_runs(base: ComparableRun, candidate: ComparableRun, margin: float | None = None) -> Comparison:
    """The candidate's run against the base's.

    `margin`: how much worse is good enough, in points of the share of failing cases; where errors are numbers, in percent of
    the base's mean error. Of properties of one name, the first is compared with the first, the second with the second.
    Runs that cannot be compared at all are an `InputError`.
    """
    if margin is not None and not 0 < margin < math.inf:
        raise InputError(f"--margin: got {margin:g}, expected points above 0 and finite, 1 for: not worse by more than 1 point")
    before, after = base.report.named, candidate.report.named
    names = [name for name in before if name in after]
    _check(base.report, candidate.report, names)
    notices = _notices(base.report, candidate.report)
    drafts = [_compared(base, candidate, name, notices) for name in names]
    tested = [test for _, test in drafts if test is not None]
    adjusted = iter(holm([item.test.p_value for item in tested]).tolist())
    properties = [_judged(item, None if test is None else test.figure(next(adjusted)), margin) for item, test in drafts]
    if not tested and all(item.verdict == "not_comparable" for item in properties):
        notices.append("No case passed or failed in both runs: nothing could be tested, the figures stand side by side only.")
    return Comparison(
        verdict=min((item.verdict for item in properties), key=WORST_FIRST.index),
        headline=headline(properties, margin),
        base=_run(base.report),
        candidate=_run(candidate.report),
        margin=margin,
        notices=list(dict.fromkeys(notices)),
        changes=changed_settings((base.record, base.report), (candidate.record, candidate.report)),
        properties=properties,
        only_base=[name for name in before if name not in after],
        only_candidate=[name for name in after if name not in before],
    )


def _check(base: RunReport, candidate: RunReport, names: list[str]) -> None:
    if base.model.type != candidate.model.type:
        raise InputError(
            f"run {base.run_id[:8]} tested a {base.model.type} and run {candidate.run_id[:8]} a {candidate.model.type}; "
            "give two runs of models of one type"
        )
    if not names:
        first, second = (listed([*report.named]) or "none" for report in (base, candidate))
        raise InputError(
            f"the runs have no property in common: run {base.run_id[:8]} has {first}, run {candidate.run_id[:8]} has {second}; "
            "give two runs of the same suite"
        )


def _notices(base: RunReport, candidate: RunReport) -> list[str]:
    notices = []
    if base.suite != candidate.suite:
        notices.append(f"The runs are of different suites, {base.suite} and {candidate.suite}; what both have is compared.")
    if base.run_id == candidate.run_id:
        notices.append("Both are the same run.")
    if base.provenance.random_seed != candidate.provenance.random_seed:
        notices.append("The random seeds differ, so most changed inputs were drawn anew and are in one run only.")
    if candidate.model.changed:
        notices.append("The candidate's model changed behind its version (sentinels).")
    return notices


def _compared(
    base: ComparableRun, candidate: ComparableRun, name: str, notices: list[str]
) -> tuple[PropertyComparison, _Tested | None]:
    """One property, by its shown name, without its verdict; the tables are let go before the next one is read."""
    old, new = base.report.named[name], candidate.report.named[name]
    draft = PropertyComparison(
        property=name,
        verdict="not_comparable",
        summary="",
        base_status=old.status,
        candidate_status=new.status,
        shared_seeds=0,
        cases=CaseChanges(),
        test=None,
        metrics=_metrics(old, new),
        gates=gate_changes(old, new),
        components=[],
        slices=[],
        newly_failing=[],
    )
    first, second = base.cases(old), candidate.cases(new)
    if first is None or second is None:
        return draft, None
    before, after, both = shared_seeds(first, second)
    if both < max(before, after):
        notices.append(
            f"{both:,} seeds are in both runs (base {before:,}, candidate {after:,}); only their cases are compared."
        )
    groups = old.groups is not None or new.groups is not None
    # Transcripts are judged as they were, and cases of groups not at all.
    numeric = old.seed_tolerance is not None and old.speech is None and not groups
    against_labels = numeric and second["transform"].null_count == second.num_rows
    shared = join_cases(first, second, old.seed_tolerance if against_labels else None)
    counted = shared.per_seed(shared.compared & (shared.was == PASSED)) > 0
    failing = shared.per_seed(shared.newly_failing) > 0
    shown = {case.case_id: case for case in candidate.failures.get(name, [])}
    result = draft.model_copy(
        update={
            "shared_seeds": both,
            "cases": case_changes(shared),
            "components": component_changes(shared),
            "slices": rank_slices(slice_columns(shared), counted, failing, 1 - LEVEL),
            "newly_failing": changed_cases(shared, shown),
        }
    )
    if groups or not shared.compared.any():
        return result, None
    if against_labels:
        return result, _tested_errors(shared, candidate.report.provenance.random_seed, name)
    return result, _tested_rates(shared)


def _tested_rates(shared: SharedCases) -> _Tested:
    compared = shared.compared
    bad = [shared.per_seed(compared & (state != PASSED)) for state in (shared.was, shared.now)]
    cases = shared.per_seed(compared)
    seeds = cases > 0
    total = int(cases.sum())
    test = paired_rates(bad[0][seeds], bad[1][seeds], cases[seeds])
    return _Tested(test, FAILING, int(bad[0].sum()) / total, int(bad[1].sum()) / total)


def _tested_errors(shared: SharedCases, random_seed: int, name: str) -> _Tested:
    compared = shared.compared
    sums = [_error_sums(table, shared, compared) for table in (shared.base, shared.candidate)]
    cases = shared.per_seed(compared)
    seeds = cases > 0
    test = paired_bootstrap(sums[0][seeds], sums[1][seeds], cases[seeds], random_seed, f"the change of {name}")
    first, second = (float(part.sum() / cases.sum()) for part in sums)
    return _Tested(test, ERROR, first, second, unit="label units")


def _error_sums(table: pa.Table, shared: SharedCases, compared: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Absolute errors of the answers, summed per seed."""
    errors = np.abs(numbers(table["observed"]) - numbers(table["expected"]))[compared]
    return np.asarray(np.bincount(shared.seed[compared], errors, minlength=shared.seeds), np.float64)


def _judged(item: PropertyComparison, figure: PairedFigure | None, margin: float | None) -> PropertyComparison:
    result = item.model_copy(update={"test": figure, "verdict": _verdict(item, figure, margin)})
    return result.model_copy(update={"summary": summary(result, margin)})


def _verdict(item: PropertyComparison, figure: PairedFigure | None, margin: float | None) -> ChangeVerdict:
    if item.candidate_status == "error" and item.base_status != "error":
        return "regression"  # it can no longer be judged, whatever the cases that were answered say
    by_cases = None if figure is None else _verdict_by_cases(figure, margin)
    return joint_verdict(by_cases, figures_verdict(item.gates, margin))


def _verdict_by_cases(figure: PairedFigure, margin: float | None) -> ChangeVerdict:
    beyond_chance = figure.adjusted_p_value <= LEVEL
    if beyond_chance and figure.change < 0:
        return "improvement"
    if margin is not None and figure.high is not None:
        allowed = margin / 100 * (1.0 if figure.metric == FAILING else figure.base)
        if figure.high < allowed:
            return "non_inferior"
    if beyond_chance and figure.change > 0:
        return "regression"
    return "no_evidence" if margin is None else "not_shown"


def _metrics(old: PropertyReport, new: PropertyReport) -> list[MetricChange]:
    before, after = ({figure_key(m.name, m.slice): m for m in report.metrics} for report in (old, new))
    return [
        MetricChange(name=key[0], slice=(after.get(key) or before[key]).slice, base=before.get(key), candidate=after.get(key))
        for key in dict.fromkeys([*after, *before])
    ]


def _run(report: RunReport) -> ComparedRun:
    return ComparedRun(
        run_id=report.run_id,
        suite=report.suite,
        status=report.status,
        model=report.model,
        started=report.started,
        rows=report.provenance.rows,
        seeds=report.provenance.seeds,
    )

"""Mean corruption error: how much a model errs under the transforms, as a share of what a baseline run's model does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.artifacts.store import Store
from aitest_lib.canonical import canonical_json
from aitest_lib.config.suite import LoadedSuite, PropertyConfig
from aitest_lib.errors import ArtifactMissing, InputError
from aitest_lib.reports.report import RunReport
from aitest_lib.scorers.figures import Figure
from aitest_lib.scorers.invariance import Tally
from aitest_lib.stats.bootstrap import bootstrap
from aitest_lib.stats.estimates import Estimate, undefined
from aitest_tasks.runs import Run, find_run

METRIC = "mean_corruption_error"
Errors = dict[str, float]  # slice of a component (canonical JSON) -> share of wrong answers


def settled_baselines(store: Store, loaded: LoadedSuite) -> LoadedSuite:
    """The suite with whole run ids in place of what `baseline_run` gives; a run without these figures is an `InputError`."""
    properties = []
    for index, item in enumerate(loaded.suite.properties):
        if item.baseline_run is not None:
            try:
                run_id = find_run(store, item.baseline_run).run_id
                _errors_of(store, run_id, item.property)
            except InputError as error:
                raise loaded.document.error(("properties", index, "baseline_run"), str(error)) from error
            item = item.model_copy(update={"baseline_run": run_id})
        properties.append(item)
    return loaded.with_properties(properties)


def baseline_errors(run: Run, config: PropertyConfig) -> Errors | None:
    """The errors of the baseline run's model by component; None where the suite names no such run."""
    return None if config.baseline_run is None else _errors_of(run.store, config.baseline_run, config.property)


def corruption_figures(errors: Errors, tallies: Sequence[Tally], seed: int) -> list[Figure]:
    """Mean over the transforms of (errors summed over strengths) / (the baseline's), after Hendrycks and Dietterich (2019).

    Only what both runs have counts. The interval is that of a bootstrap over this run's seeds; the baseline's figures are
    taken as they are.
    """
    shared = [tally for tally in tallies if canonical_json(tally.slice) in errors]
    if not shared:
        return [_figure(undefined("the baseline run has none of these transforms and strengths"))]
    names = [str(tally.slice["transform"]) for tally in shared]
    base: dict[str, float] = {}
    for name, tally in zip(names, shared, strict=True):
        base[name] = base.get(name, 0.0) + errors[canonical_json(tally.slice)]
    if not all(base.values()):
        perfect = ", ".join(name for name, value in base.items() if not value)
        return [_figure(undefined(f"the baseline's model makes no error under {perfect}"))]

    def statistic(weights: NDArray[np.int64]) -> float:
        own = dict.fromkeys(base, 0.0)
        for name, tally in zip(names, shared, strict=True):
            counted = float((weights * tally.effective).sum())
            own[name] += 1 - float((weights * tally.right_case).sum()) / counted if counted else np.nan
        return float(np.mean([own[name] / base[name] for name in base]))

    return [_figure(bootstrap(statistic, len(shared[0].effective), seed, what=METRIC))]


def _figure(estimate: Estimate) -> Figure:
    return Figure(name=METRIC, estimate=estimate, higher_is_better=False)


def _errors_of(store: Store, run_id: str, property_name: str) -> Errors:
    try:
        report = RunReport.model_validate(Run(store, run_id, {}).read("report"))
    except ArtifactMissing as error:
        raise InputError(f"run {run_id[:8]} has not ended; finish it with: aitest resume {run_id[:12]}") from error
    found: dict[str, Any] = {
        canonical_json(metric.slice): 1 - metric.value
        for item in report.properties
        if item.property == property_name
        for metric in item.metrics
        if metric.name == "accuracy" and "transform" in metric.slice and metric.value is not None
    }
    if not found:
        raise InputError(f"run {run_id[:8]} has no accuracy under transforms in {property_name}; name one with labels")
    return found

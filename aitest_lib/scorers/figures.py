"""Figures: estimates with a name and a slice, ready to be reported and judged by gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from aitest_lib.config.gates import Gate
from aitest_lib.reports.report import GateResult, Metric
from aitest_lib.scorers.oracle import label_text
from aitest_lib.stats.estimates import Estimate, undefined
from aitest_lib.stats.intervals import finite_bounds
from aitest_lib.stats.verdicts import Decide, GateInput, judge
from aitest_lib.types import Status, worst


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One estimate. `pessimistic`: the same with every error case counted as a failure. `judged`: what a gate looks at
    where that is not the estimate itself (the excess over a model's own flips), with `note` saying so."""

    name: str
    estimate: Estimate
    slice: dict[str, Any] = field(default_factory=dict)
    pessimistic: Estimate | None = None
    judged: Estimate | None = None
    note: str | None = None
    unit: str = "1"
    higher_is_better: bool | None = True
    component: bool = False  # stands for one component (transform x strength)
    inapplicable: str | None = None  # why no seed has a case of the component: its gates are skipped
    unjudged: str | None = None  # why it cannot speak for the whole: its gates can fail, but not pass

    def metric(self, confidence: float) -> Metric:
        """The figure as it stands in the report; an open bound is None."""
        low, high = finite_bounds(self.estimate, confidence)
        return Metric(
            name=self.name,
            slice=self.slice,
            value=self.estimate.value,
            low=low,
            high=high,
            n=self.estimate.n,
            unit=self.unit,
            higher_is_better=self.higher_is_better,
            reason=self.inapplicable or self.estimate.reason,
        )


def judge_gates(
    gates: dict[str, Gate | list[Gate]],
    figures: Sequence[Figure],
    *,
    confidence: float,
    decide: Decide,
    incomplete: str | None,
) -> list[GateResult]:
    """The verdict of every gate, in the order of the suite; a gate without slice stands once for each component."""
    inputs: list[GateInput] = []
    judged: list[Figure] = []
    skipped: dict[int, GateResult] = {}
    for metric, given in gates.items():
        for gate in given if isinstance(given, list) else [given]:
            for figure in _judged_by(metric, gate, figures):
                if figure.inapplicable is not None:
                    skipped[len(judged) + len(skipped)] = GateResult(
                        metric=metric,
                        slice=figure.slice,
                        min=gate.min,
                        max=gate.max,
                        verdict="skipped",
                        reason=figure.inapplicable,
                    )
                    continue
                judged.append(figure)
                inputs.append(
                    GateInput(
                        metric=metric,
                        slice=figure.slice,
                        min=gate.min,
                        max=gate.max,
                        estimate=figure.judged or figure.estimate,
                        pessimistic=figure.pessimistic,
                        incomplete=incomplete,
                        unjudged=figure.unjudged,
                    )
                )
    results = [
        GateResult(**{**asdict(result), "reason": f"{result.reason} ({figure.note})" if figure.note else result.reason})
        for result, figure in zip(judge(inputs, confidence=confidence, decide=decide), judged, strict=True)
    ]
    for place, result in skipped.items():  # in the order of their places
        results.insert(place, result)
    return results


def status_of(gates: Sequence[GateResult], *, incomplete: str | None = None, too_many_errors: bool = False) -> Status:
    """The status of a property: the worst of its gates; without gates `unjudged`, never passed."""
    if too_many_errors:
        return "error"
    status = worst([gate.verdict for gate in gates]) if gates else "unjudged"
    return "inconclusive" if incomplete and status == "passed" else status


def _judged_by(metric: str, gate: Gate, figures: Sequence[Figure]) -> list[Figure]:
    named = [figure for figure in figures if figure.name == metric]
    if gate.slice is None:
        components = [figure for figure in named if figure.component]
        found = components or [figure for figure in named if not figure.slice] or named
    else:
        wanted = gate.slice
        within = [one for one in named if all(key in one.slice and is_same(one.slice[key], wanted[key]) for key in wanted)]
        exact = [figure for figure in within if len(figure.slice) == len(wanted)]
        found = exact or (within if wanted else [])
    if found:
        return found
    shown = "; ".join(_words(figure.slice) for figure in named[:4])
    known = f"{metric} stands for {shown}" if shown else f"this run has no {metric}"
    reason = f"there is no such figure in this run; {known}"
    return [Figure(name=metric, slice=gate.slice or {}, estimate=undefined(reason))]


def _words(slice: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in slice.items()) or "the whole"


def is_same(shown: Any, wanted: Any) -> bool:
    """Is it the value that the gate names: 1 and 1.0 are, and the number 1 is the category "1"."""
    return label_text(shown) == label_text(wanted) or (_is_number(shown) and _is_number(wanted) and shown == wanted)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

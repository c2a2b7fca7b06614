"""The gates of two runs side by side, and whether their figures moved beyond chance.

A paired test needs cases that can fail. Where the verdict lies in figures (of groups; of pairs and directions beside their
cases), these are compared: one moved beyond chance if its one-sided bounds in the two runs do not overlap. That is stricter
than a test of the difference at the same level (Schenker and Gentleman 2001, doi:10.1198/000313001317097960), and the more so
where both runs ask the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from aitest_lib.reports.comparison import ChangeVerdict, GateChange, Moved
from aitest_lib.reports.fairness_view import has_fairness
from aitest_lib.reports.report import Metric, PropertyReport

SHOWN: tuple[ChangeVerdict, ...] = ("regression", "not_comparable", "improvement")  # what figures can show beside the cases


def figure_key(name: str, where: Mapping[str, Any]) -> tuple[str, str]:
    """What makes a figure of two runs the same: its name and slice."""
    return name, repr(sorted((key, str(value)) for key, value in where.items()))


def gate_changes(old: PropertyReport, new: PropertyReport) -> list[GateChange]:
    """Gates by metric, slice and side, the candidate's order first, each with the figure that it judges in both runs."""
    before, after = (
        {(*figure_key(gate.metric, gate.slice), gate.min is None): gate for gate in report.gates} for report in (old, new)
    )
    figures = [{figure_key(m.name, m.slice): m for m in report.metrics} for report in (old, new)]
    compared = has_fairness(old) and has_fairness(new)
    found = []
    for key in dict.fromkeys([*after, *before]):
        was, now = (of_run.get(key[:2]) for of_run in figures)
        found.append(
            GateChange(
                metric=key[0],
                slice=(after.get(key) or before[key]).slice,
                base=before.get(key),
                candidate=after.get(key),
                base_figure=was,
                candidate_figure=now,
                moved=_moved(was, now) if compared else None,
            )
        )
    return found


def figures_verdict(gates: Sequence[GateChange], margin: float | None) -> ChangeVerdict | None:
    """What the figures of gates say together, None where none could be compared.

    `margin`: how much worse is good enough, in points, of a figure with a unit in percent of the base's. A figure is within it
    if the candidate's worst bound is by less than that worse than the base's best.
    """
    told = [gate for gate in gates if gate.moved is not None]
    if not told:
        return None
    found = {gate.moved for gate in told}
    if found <= {"better", "overlap"} and "better" in found:
        return "improvement"
    if margin is not None and "lost" not in found and all(_within(gate, margin) for gate in told):
        return "non_inferior"
    if "worse" in found:
        return "regression"
    if "lost" in found:
        return "not_comparable"
    return "no_evidence" if margin is None else "not_shown"


def joint_verdict(by_cases: ChangeVerdict | None, by_figures: ChangeVerdict | None) -> ChangeVerdict:
    """One verdict of both: a change that either shows is one, else the paired test of the cases, which sees more, decides."""
    found = next((verdict for verdict in SHOWN if verdict in (by_cases, by_figures)), None)
    return found or by_cases or by_figures or "not_comparable"


def _moved(was: Metric | None, now: Metric | None) -> Moved | None:
    if was is None or was.higher_is_better is None or (ends := _good_and_bad(was)) is None:
        return None
    after = None if now is None else _good_and_bad(now)
    if after is None:
        return "lost"
    if after[0] < ends[1]:
        return "worse"
    return "better" if after[1] > ends[0] else "overlap"


def _good_and_bad(figure: Metric) -> tuple[float, float] | None:
    """Its best and its worst bound, turned so that more is better; None where it has no bounds at all."""
    if figure.value is None or (figure.low is None and figure.high is None):
        return None
    low = -math.inf if figure.low is None else figure.low
    high = math.inf if figure.high is None else figure.high
    return (high, low) if figure.higher_is_better else (-low, -high)


def _within(gate: GateChange, margin: float) -> bool:
    was, now = gate.base_figure, gate.candidate_figure
    if was is None or now is None or (before := _good_and_bad(was)) is None or (after := _good_and_bad(now)) is None:
        return False
    return before[0] - after[1] < margin / 100 * (1.0 if was.unit == "1" else abs(was.value or 0.0))

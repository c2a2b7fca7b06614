"""What a robustness report says of each transform of images, weak to strong: the data behind its table and its curves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aitest_lib.reports.report import Metric, PropertyReport
from aitest_lib.reports.tables import clip, slice_label
from aitest_lib.types import SEVERITY, Status

FIGURES = ("clean_accuracy", "accuracy", "pass_rate")
# Parameters that change nothing at 1, and those that are weaker the larger they are; all others grow from 0.
_FROM_ONE = ("factor", "zoom")
_FALLING = ("quality", "photons")
_SAID = ("degrees", *_FROM_ONE, "with")  # parameters whose values speak for themselves; `with` names the links of a chain


@dataclass(frozen=True)
class AtStrength:
    """The figures of one transform at one strength, by name, and the worst verdict of the gates on this slice. `label` and
    the shorter `tick` name the strength; both are "" where there is none."""

    label: str
    tick: str
    figures: dict[str, Metric]
    verdict: Status | None

    def value(self, name: str) -> float | None:
        """A figure, None where it is missing or undefined."""
        metric = self.figures.get(name)
        return None if metric is None else metric.value

    @property
    def drop(self) -> float | None:
        """Clean accuracy less accuracy, over the same seeds."""
        clean, accuracy = self.value("clean_accuracy"), self.value("accuracy")
        return None if clean is None or accuracy is None else clean - accuracy


@dataclass(frozen=True)
class Sweep:
    """One transform at its strengths, weak to strong; `parameter` names what its ticks count, "" where they say it."""

    name: str
    parameter: str
    strengths: list[AtStrength]

    @property
    def untested(self) -> str | None:
        """Why the transform has no accuracy at any strength, None where it has one."""
        if any(s.value("accuracy") is not None for s in self.strengths):
            return None
        reasons = [m.reason for s in self.strengths if (m := s.figures.get("accuracy")) is not None and m.reason]
        return reasons[0] if reasons else "no case could be judged"

    @property
    def worst_drop(self) -> float:
        """The largest drop of accuracy; minus infinity where none is defined."""
        return max((s.drop for s in self.strengths if s.drop is not None), default=-math.inf)

    @property
    def lowest_pass_rate(self) -> Metric | None:
        """The lowest pass rate, None where none is defined."""
        known = [s.figures["pass_rate"] for s in self.strengths if s.value("pass_rate") is not None]
        return min(known, key=lambda m: m.value or 0.0, default=None)

    @property
    def clean(self) -> Metric | None:
        """The clean accuracy: that over most seeds, where strengths left out different ones."""
        known = [s.figures["clean_accuracy"] for s in self.strengths if s.value("clean_accuracy") is not None]
        return max(known, key=lambda m: m.n, default=None)

    @property
    def verdict(self) -> Status | None:
        """The worst verdict of the gates on its slices, None without any."""
        return min((s.verdict for s in self.strengths if s.verdict), key=SEVERITY.index, default=None)


def sweeps(report: PropertyReport) -> list[Sweep]:
    """The transforms of a report, those that cost most accuracy first."""
    slices = {slice_label(m.slice): m.slice for m in report.metrics if "transform" in m.slice and m.name in FIGURES}
    groups: dict[tuple[str, str | None], list[tuple[float, AtStrength]]] = {}
    for key, where in slices.items():
        name, parameter = strength_of(where)
        metrics = {m.name: m for m in report.metrics if m.name in FIGURES and slice_label(m.slice) == key}
        verdicts = [gate.verdict for gate in report.gates if slice_label(gate.slice) == key]
        worst = min(verdicts, key=SEVERITY.index, default=None)
        label, tick, amount = _strength(parameter, where)
        groups.setdefault((name, parameter), []).append((amount, AtStrength(label, tick, metrics, worst)))
    made = [
        Sweep(name, "" if parameter in _SAID else clip(parameter or "", 30), [one for _, one in sorted(group, key=_first)])
        for (name, parameter), group in groups.items()
    ]
    return sorted(made, key=lambda sweep: -sweep.worst_drop)


def strength_of(where: dict[str, Any]) -> tuple[str, str | None]:
    """The name of a transform with what tells it from others of its kind, and the parameter that is its strength.

    >>> strength_of({"transform": "rotate", "degrees": 15.0}), strength_of({"transform": "inverse"})
    (('rotate', 'degrees'), ('inverse', None))
    >>> strength_of({"transform": "glass_blur", "kind": "fine", "severity": 3})
    ('glass_blur, kind = fine', 'severity')
    """
    given = [key for key in where if key != "transform"]
    numbers = [key for key in given if isinstance(where[key], int | float)]
    parameter = "severity" if "severity" in numbers else next(iter(numbers if len(given) > 1 else given), None)
    return slice_label({key: value for key, value in where.items() if key != parameter}), parameter


def strength_label(parameter: str, value: float | str) -> str:
    """A strength as people read it.

    >>> strength_label("degrees", 15.0), strength_label("severity", 3), strength_label("factor", 0.8)
    ('15°', 'severity 3', '×0.8')
    """
    return tick_label(parameter, value) if parameter in _SAID else f"{clip(parameter, 30)} {tick_label(parameter, value)}"


def tick_label(parameter: str, value: float | str) -> str:
    """A strength without the name of its parameter.

    >>> tick_label("degrees", 15.0), tick_label("severity", 3)
    ('15°', '3')
    """
    if isinstance(value, str):
        return clip(value, 60)
    return f"{value:.3g}°" if parameter == "degrees" else f"×{value:.3g}" if parameter in _FROM_ONE else f"{value:.3g}"


def case_strengths(report: PropertyReport) -> Callable[[str | None, float], str]:
    """What labels the strength of a case, given its transform and the value: the parameter of the slice with this value, else
    that of the breaking points of the transform."""
    parameter = _case_parameters(report)
    return lambda transform, value: strength_label(parameter(transform, value), float(f"{value:.3g}"))


def case_amounts(report: PropertyReport) -> Callable[[str | None, float], float]:
    """What orders the strengths of the cases of a transform from weak to strong; see `case_strengths`."""
    parameter = _case_parameters(report)
    return lambda transform, value: _amount(parameter(transform, value), value)


def _case_parameters(report: PropertyReport) -> Callable[[str | None, float], str]:
    known = {points.transform: points.parameter for points in report.breaking_points}
    exact = {}
    for where in (m.slice for m in report.metrics if "transform" in m.slice):
        _, parameter = strength_of(where)
        if parameter and isinstance(where[parameter], int | float):
            exact[where["transform"], float(where[parameter])] = parameter
    return lambda transform, value: exact.get((transform, value)) or known.get(transform or "", "strength")


def _strength(parameter: str | None, where: dict[str, Any]) -> tuple[str, str, float]:
    """Label and tick of a strength, and what orders strengths from weak to strong."""
    if parameter is None:
        return "", "", 0.0
    value = where[parameter]
    return strength_label(parameter, value), tick_label(parameter, value), _amount(parameter, value)


def _amount(parameter: str, value: float | str) -> float:
    if isinstance(value, str):
        return 0.0
    if parameter in _FROM_ONE and value > 0:
        return abs(math.log(value))
    return -value if parameter in _FALLING else abs(value)


def _first(pair: tuple[float, AtStrength]) -> float:
    return pair[0]

"""A comparison on the terminal: what changed in the suite, then each property, then the newly failing cases."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from aitest_flows.render import print_table
from aitest_lib.reports.compare_text import (
    change_words,
    gate_changed,
    gate_words,
    margin_words,
    metric_values,
    overview_change,
    points,
    run_words,
    verdict_words,
)
from aitest_lib.reports.comparison import ChangedCase, ChangeVerdict, Comparison, PropertyComparison
from aitest_lib.reports.tables import clip, p_value, slice_label

WIDTH = 120  # of a table in a file
MAX_CASES, MAX_ROWS = 5, 25
_STYLES: dict[ChangeVerdict, str] = {
    "regression": "red",
    "not_comparable": "yellow",
    "not_shown": "yellow",
    "no_evidence": "cyan",
    "non_inferior": "green",
    "improvement": "green",
}


def print_comparison(found: Comparison, console: Console) -> None:
    """The comparison as tables and sentences."""
    # The sentence begins with the verdict: it is set off there, not said twice.
    verdict = verdict_words(found.verdict, found.margin)
    style = f"bold {_STYLES[found.verdict]}"
    console.print(Text.assemble((verdict.upper(), style), found.headline[len(verdict) :]))
    for name, words in run_words(found):
        console.print(Text(f"{name:<10}{words}", style="dim"))
    for notice in found.notices:
        console.print(Text(f"notice: {clip(notice, 600)}", style="yellow"))
    _print_changes(found, console)
    _print_overview(found, console)
    for item in found.properties:
        _print_property(item, found, console)
    _print_next(found, console)


def comparison_table(found: Comparison) -> str:
    """The same as plain text for a file."""
    file = io.StringIO()
    print_comparison(found, Console(file=file, width=WIDTH, color_system=None))
    return file.getvalue()


def _print_changes(found: Comparison, console: Console) -> None:
    console.print()
    if not found.changes:
        console.print(Text("Nothing changed in suite, data, model and versions.", style="bold"))
        return
    rows = [(c.area, c.name, c.base, c.candidate, "WEAKER" if c.weaker else "") for c in found.changes[:MAX_ROWS]]
    print_table("What changed", ["area", "what", "base", "candidate", ""], rows, console)
    if len(found.changes) > MAX_ROWS:
        console.print(Text(f"  and {len(found.changes) - MAX_ROWS} more; see --format json", style="dim"))
    weaker = sum(change.weaker for change in found.changes)
    if weaker:
        console.print(Text(f"  {weaker} of them let more pass than before (WEAKER)", style="yellow"))


def _print_overview(found: Comparison, console: Console) -> None:
    console.print()
    rows = []
    for item in found.properties:
        c, test = item.cases, item.test
        figures = (c.newly_failing, c.fixed, c.still_failing, c.new, c.gone)
        p = "–" if test is None else p_value(test.adjusted_p_value)
        rows.append((item.property, *(f"{value:,}" for value in figures), _change(item), p))
    columns = ["property", "newly\nfailing", "fixed", "still\nfailing", "new", "gone", "change", "p"]
    print_table("Cases", columns, rows, console)


def _change(item: PropertyComparison) -> str:
    if item.test is None:
        return overview_change(item)
    return points(item.test.change) if item.test.unit == "1" else change_words(item.test).partition(" [")[0]


def _print_property(item: PropertyComparison, found: Comparison, console: Console) -> None:
    style = f"bold {_STYLES[item.verdict]}"
    unit = "1" if item.test is None else item.test.unit
    words = verdict_words(item.verdict, found.margin, unit)
    summary = Text(clip(item.summary, 4000))
    said = summary.highlight_words([f"{words[:1].upper()}{words[1:]}: "], style)  # where something was tested
    console.print()
    console.print(Text.assemble((item.property, "bold"), ("" if said else f" {words}", style)))
    console.print(Padding(summary, (0, 0, 0, 2)))
    rows = [
        (f"{gate.metric}, {slice_label(gate.slice)}" if gate.slice else gate.metric, *gate_words(gate))
        for gate in filter(gate_changed, item.gates)
    ]
    if rows:
        _print_part(["gate", "base", "candidate", "change"], rows[:MAX_ROWS], console)
    whole = [(m.name, *metric_values(m)) for m in item.metrics if not m.slice]
    if whole:
        _print_part(["metric", "base", "candidate"], whole, console)
    parts = [c for c in item.components if c.transform is not None]
    if parts:
        changes = [
            (
                _component(c.transform, c.strength),
                f"{c.newly_failing:,}",
                f"{c.fixed:,}",
                f"{c.still_failing:,}",
                points(c.change),
            )
            for c in parts[:MAX_ROWS]
        ]
        _print_part(["transform", "newly failing", "fixed", "still failing", "change"], changes, console)
    for case in item.newly_failing[:MAX_CASES]:
        _print_case(case, console)
    more = item.cases.newly_failing - min(len(item.newly_failing), MAX_CASES)
    if more:
        console.print(Text(f"  and {more:,} more newly failing", style="dim"))


def _print_part(columns: list[str], rows: Sequence[Sequence[object]], console: Console) -> None:
    console.print()
    print_table("", columns, rows, console)


def _print_case(case: ChangedCase, console: Console) -> None:
    console.print()
    console.print(Padding(Text(clip(case.explanation, 600)), (0, 0, 0, 2)))
    origin = f"{_component(case.transform, case.strength)}, " if case.transform else ""
    answers = f"base {clip(case.base_observed, 40)}, candidate {clip(case.candidate_observed, 40)}"
    console.print(Padding(Text(f"{origin}{answers}, case {case.case_id}", style="dim"), (0, 0, 0, 2)))


def _component(transform: str | None, strength: float | None) -> str:
    return clip(transform, 60) + ("" if strength is None else f" at {strength:g}")


def _print_next(found: Comparison, console: Console) -> None:
    base, candidate = found.base.run_id[:12], found.candidate.run_id[:12]
    console.print()
    for name, missing in (("only in the base", found.only_base), ("only in the candidate", found.only_candidate)):
        if missing:
            console.print(Text(f"{name}: {', '.join(missing)}", style="yellow"))
    case = next((item.newly_failing[0] for item in found.properties if item.newly_failing), None)
    if case is not None:
        console.print(Text(f"one case again  aitest replay {candidate} {case.case_id[:12]}"), soft_wrap=True)
    console.print(Text(f"as a page       aitest compare {base} {candidate} -o compare.html"), soft_wrap=True)
    if found.margin is not None:
        limit = f"margin: {margin_words(found.margin)}; of an error, percent of the base's"
        console.print(Text(limit, style="dim"))

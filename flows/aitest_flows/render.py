"""The terminal: summaries, tables and progress in calm text, readable from 80 columns and without colours.

Text from data, cards or models is never read as rich markup. Verdicts are words, and are never cut.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from types import TracebackType
from typing import Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from aitest_lib.reports.attack_text import attack_lines
from aitest_lib.reports.explain import headline
from aitest_lib.reports.explain_synthesis import synthesis_sentences
from aitest_lib.reports.fairness_text import fairness_lines
from aitest_lib.reports.report import FailingCase, GateResult, PropertyReport, RunReport
from aitest_lib.reports.speech_text import speech_lines
from aitest_lib.reports.tables import bound, clip, count, duration, gate_metric, interval, number, printable, slice_label
from aitest_lib.reports.tree_text import tree_lines
from aitest_lib.types import SEVERITY

_STYLES = {
    "passed": "green",
    "failed": "red",
    "error": "red",
    "inconclusive": "yellow",
    "unjudged": "cyan",
    "skipped": "bright_black",
}
_MAX_GATES = 25
_MAX_UNANSWERED = 5
_MAX_UNREADABLE = 5
_MAX_METRICS = 12
_MAX_PARAGRAPH = 40_000  # the gates close it: a cut at the usual length would lose the verdicts


def print_report(
    report: RunReport,
    console: Console,
    failures: Mapping[str, list[FailingCase]] | None = None,
    properties: Sequence[str] | None = None,
) -> None:
    """The run in one line, then each property (only those named in `properties`, where given): its gates or, without any,
    its overall metrics, its paragraph (which names the flagged slices), the failing cases in `failures`; at the end where to
    look next."""
    model = report.model
    version = f" version {model.version}" if model.version else ""
    console.print(
        _verdict(report.status, bold=True),
        Text(f"{_line(report.suite)} on {_line(model.name)}{version}: {_line(headline(report), 600)}"),
    )
    q = report.queries
    facts = [
        f"run {report.run_id}",
        report.started,
        duration(report.seconds),
        f"{q.sent:,} queries sent",
        f"{q.cached:,} from the store",
        f"{q.sentinel:,} asked again",
        count(q.errors, "error"),
        f"{report.provenance.seeds:,} {'made of' if report.synthesis else 'of'} {count(report.provenance.rows, 'row')}",
    ]
    console.print(Text(", ".join(facts), style="dim"))
    for warning in report.warnings:
        console.print(Text(f"warning: {_line(warning, 600)}", style="yellow"))
    _print_unreadable(report, console)
    for sentence in synthesis_sentences(report.synthesis) if report.synthesis else []:
        console.print(Text(_line(sentence, 600), style="dim"))
    for name, prop in report.named.items():
        if properties is None or prop.property in properties:
            _print_property(name, prop, console)
            print_failures((failures or {}).get(name, []), console)
            if failures:
                _print_unanswered(prop, console)
    console.print()
    _print_next(report, console)


def print_failures(cases: Iterable[FailingCase], console: Console) -> None:
    """Failing cases: the sentence, then the changed cells as `seed -> case` and the others dimmed."""
    for case in (case for case in cases if case.outcome == "failed"):
        console.print()
        console.print(Text(_line(case.explanation, 600), style="bold"))
        strength = "" if case.strength is None else f" at {case.strength:g}"
        origin = f"{case.transform}{strength}, " if case.transform else ""
        console.print(Text(f"{origin}case {case.case_id}", style="dim"))
        cells = [
            Text.assemble(
                f"{_line(name, 40)}: ",
                (_cell(case.seed.get(name)), "strike dim"),
                " -> ",
                (_cell(case.case.get(name)), "bold yellow"),
            )
            for name in case.changed
        ]
        if cells:
            console.print(Padding(Text("changed  ").append(Text(", ").join(cells)), (0, 0, 0, 2)))
        rest = [f"{_line(name, 40)}: {_cell(value)}" for name, value in case.case.items() if name not in case.changed]
        if rest:
            console.print(Padding(Text(("same     " if cells else "") + ", ".join(rest), style="dim"), (0, 0, 0, 2)))


def _print_unreadable(report: RunReport, console: Console) -> None:
    """How many files could not be read, and the first ones with their reasons."""
    unreadable = report.provenance.unreadable
    if not unreadable:
        return
    files = f"{unreadable:,} of {count(report.provenance.rows + unreadable, 'file')} could not be read:"
    console.print(Text(files, style="yellow"))
    shown = report.unreadable[:_MAX_UNREADABLE]
    for file in shown:
        console.print(Text(f"  {_line(file.place)}: {_line(file.reason, 300)}", style="dim"))
    if unreadable > len(shown):
        console.print(Text(f"  and {unreadable - len(shown):,} more", style="dim"))


def _print_unanswered(prop: PropertyReport, console: Console) -> None:
    """The first cases without a usable answer: why, and what was sent."""
    for case in prop.unanswered[:_MAX_UNANSWERED]:
        console.print()
        console.print(Text(f"no usable answer: {_line(case.reason, 300)}", style="bold"))
        cells = ", ".join(f"{_line(name, 40)}: {_cell(value)}" for name, value in case.case.items())
        console.print(Text(f"case {case.case_id}", style="dim"))
        console.print(Padding(Text(cells, style="dim"), (0, 0, 0, 2)))
    more = prop.cases.error - min(len(prop.unanswered), _MAX_UNANSWERED)
    if more:
        console.print(Text(f"and {count(more, 'more case')} without a usable answer", style="dim"))


def print_status(status: Mapping[str, Any], console: Console) -> None:
    """A run that is going on or has ended. `status`: `run_id, suite, model, state, started` and `properties`, a list of
    `property, state, generated, passed, failed, skipped, errors, queries`; what is absent is shown as a dash."""
    run, started = status.get("run_id", "–"), status.get("started", "–")
    title = f"{_line(status.get('suite', '–'))} on {_line(status.get('model', '–'))}, run {run}, started {started}"
    console.print(_verdict(str(status.get("state", "unknown")), bold=True), Text(title))
    columns = {"generated": "cases"} | {key: key for key in ("passed", "failed", "skipped", "errors", "queries")}
    table = _table("property", "state", *columns.values())
    for row in status.get("properties", []):
        table.add_row(
            Text(_line(row.get("property", "–"))),
            _verdict(str(row.get("state", "–"))),
            *(_amount(row.get(key)) for key in columns),
        )
    console.print(table)


def print_dry_run(plan: Mapping[str, Any], console: Console) -> None:
    """What a run would do. `plan`: `suite, model, planned, cached, to_send, examples, seconds, cost, budget` (or None) and
    `properties`, a list of `property, seeds, cases, planned, gates`; a gate has `metric, slice, min, max, n, passes_from,
    fails_below`: with n seeds a `min` gate passes from and fails below these figures, a `max` gate up to and above them."""
    console.print(
        Text(f"Dry run of {_line(plan.get('suite', '–'))} on {_line(plan.get('model', '–'))}: nothing was sent.", style="bold")
    )
    facts = [
        f"{plan.get('planned', 0):,} queries planned",
        f"{plan.get('cached', 0):,} already answered",
        f"{plan.get('to_send', 0):,} to send",
    ]
    if plan.get("examples"):
        facts.append(f"up to {plan['examples']:,} more that depend on the answers")
    known = plan.get("seconds") is not None
    facts.append(f"about {duration(plan['seconds'])}" if known else "time unknown until the model was asked once")
    if plan.get("cost") is not None:
        facts.append(f"cost about {plan['cost']:,.2f}")
    if plan.get("budget") is not None:
        facts.append(f"budget {count(plan['budget'], 'query', 'queries')}")
    console.print(Text(", ".join(facts)))
    for prop in plan.get("properties", []):
        nouns = (("seeds", "seed", "seeds"), ("cases", "case", "cases"), ("planned", "query", "queries"))
        sizes = ", ".join(count(prop.get(key, 0), one, many) for key, one, many in nouns)
        console.print()
        console.print(Text(_line(prop["property"]), style="bold"), Text(sizes, style="dim"))
        if not prop.get("gates"):
            console.print(Text("  no gate is set: the property will be unjudged"))
            continue
        table = _table("gate", "slice", "asks for", "n", "passes", "fails")
        for gate in prop["gates"]:
            table.add_row(*_planned_gate(gate))
        console.print(table)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], console: Console) -> None:
    """A plain table; None is a dash."""
    table = _table(*columns)
    for row in rows:
        table.add_row(*(Text("–" if cell is None else printable(str(cell))) for cell in row))
    if title:
        console.print(Text(title, style="bold"))
    console.print(table)


class ProgressView:
    """Progress of a run: on a terminal one bar per property; elsewhere a line when a property is done, and in between one
    for each further tenth of a stage, at most every `every_s` seconds; nothing when `quiet`.

    `update` may be called from any thread.
    """

    def __init__(self, console: Console, quiet: bool = False, every_s: float = 5.0) -> None:
        self._console = console
        self._quiet = quiet
        self._lock = Lock()
        self._tasks: dict[str, tuple[TaskID, str]] = {}
        self._tenths: dict[tuple[str, str], int] = {}
        self._every_s = every_s
        self._printed = time.monotonic()
        self._progress = Progress(
            TextColumn("{task.fields[name]}", markup=False),
            TextColumn("{task.fields[stage]}", style="cyan", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[note]}", style="dim", markup=False),
            console=console,
            expand=True,
            disable=quiet or not console.is_terminal,
        )

    def __enter__(self) -> ProgressView:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """The bars stay as they are."""
        self._progress.stop()

    def update(self, property_name: str, stage: str, done: int, total: int, note: str = "") -> None:
        """`done` of `total` steps of `stage` (generate, query, score) of a property are finished."""
        if self._quiet:
            return
        with self._lock:
            if self._console.is_terminal:
                self._update_bar(property_name, stage, done, total, note)
            else:
                self._print_tenth(property_name, stage, done, total, note)

    def _update_bar(self, name: str, stage: str, done: int, total: int, note: str) -> None:
        task, current = self._tasks.get(name, (None, ""))
        fields: dict[str, Any] = {"name": _line(name, 40), "stage": stage, "note": _line(note, 30)}
        if stage == "done" and task is not None:  # the bar keeps the counts of its last stage
            [shown] = [one for one in self._progress.tasks if one.id == task]
            whole = max(shown.total or 0, 1)
            self._progress.update(task, total=whole, completed=whole, **fields)
            return
        if task is None:
            task = self._progress.add_task(name, total=total, completed=done, **fields)
        elif current != stage:
            self._progress.reset(task, total=total, completed=done, **fields)
        else:
            self._progress.update(task, total=total, completed=done, **fields)
        self._tasks[name] = (task, stage)

    def _print_tenth(self, name: str, stage: str, done: int, total: int, note: str) -> None:
        clock = time.strftime("%H:%M:%S")
        if stage == "done":
            self._console.print(Text(f"{clock} {_line(name)} done{f': {_line(note, 80)}' if note else ''}"), soft_wrap=True)
            return
        if total <= 0:
            if note and self._tenths.setdefault((name, stage), -1) < 0:
                self._tenths[name, stage] = 0
                self._console.print(Text(f"{clock} {_line(name)} {stage} {_line(note, 120)}"), soft_wrap=True)
            return
        tenth = 10 * done // total
        waited = time.monotonic() - self._printed
        if tenth <= self._tenths.get((name, stage), 0) or waited < self._every_s:
            return
        self._tenths[name, stage] = tenth
        self._printed = time.monotonic()
        more = f" ({_line(note, 80)})" if note else ""
        self._console.print(
            Text(f"{clock} {_line(name)} {stage}: {done:,} of {total:,}, {100 * done // total} %{more}"), soft_wrap=True
        )


class _Rate(ProgressColumn):
    """Steps per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if not speed else f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.1f}/s", style="dim")


def _print_property(name: str, prop: PropertyReport, console: Console) -> None:
    counts = ", ".join(
        f"{value:,} {'errors' if outcome == 'error' else outcome}"
        for outcome, value in prop.cases.model_dump().items()
        if outcome != "total"
    )
    console.print()
    console.print(Text(_line(name), style="bold"), _verdict(prop.status, bold=True), Text(counts, style="dim"))
    if prop.gates:
        _print_gates(prop, console)
    else:
        _print_metrics(prop, console)
    text = prop.explanation or prop.reason
    if text:
        console.print(Padding(Text(_line(text, _MAX_PARAGRAPH)), (0, 0, 0, 2)))
    trees = tree_lines(prop.tree, console.width - 2) if prop.tree else []
    attacks = attack_lines(prop.adversarial, console.width - 2) if prop.adversarial else []
    speech = speech_lines(prop.speech, console.width - 2) if prop.speech else []
    for line in [*trees, *attacks, *speech, *fairness_lines(prop, console.width - 2)]:
        console.print(Padding(Text(line, no_wrap=True), (0, 0, 0, 2)))


def _print_gates(prop: PropertyReport, console: Console) -> None:
    # Verdicts that need attention come first, so that the cut below never hides one behind passed gates.
    ranked = sorted(prop.gates, key=lambda gate: SEVERITY.index(gate.verdict))
    table = _table("gate", "figure", "bounds", "asks for", "verdict")
    for gate in ranked[:_MAX_GATES]:
        metric = gate_metric(prop, gate)
        where = f"{gate.metric}, {slice_label(gate.slice)}" if gate.slice else gate.metric
        figure = (number(metric.value, metric.unit), interval(metric.low, metric.high)) if metric else ("undefined", "")
        table.add_row(Text(where), *map(Text, figure), Text(bound(gate)), _gate_verdict(gate))
    console.print(table)
    if len(ranked) > _MAX_GATES:
        console.print(Text(f"  and {len(ranked) - _MAX_GATES} more gates", style="dim"))


def _print_metrics(prop: PropertyReport, console: Console) -> None:
    whole = [m for m in prop.metrics if not m.slice][:_MAX_METRICS]
    if not whole:
        return
    table = _table("metric", "figure", "bounds", "n")
    for m in whole:
        table.add_row(Text(m.name), Text(number(m.value, m.unit)), Text(interval(m.low, m.high)), _amount(m.n))
    console.print(table)
    for m in whole:
        if m.value is None:
            console.print(Padding(Text(f"{m.name} is undefined: {_line(m.reason or 'no reason given', 200)}"), (0, 0, 0, 2)))


def _print_next(report: RunReport, console: Console) -> None:
    run = report.run_id[:12]
    failing = sorted((p for p in report.properties if p.cases.failed), key=lambda p: SEVERITY.index(p.status))
    if failing:
        console.print(Text(f"failing cases   aitest show {run} --property {failing[0].property} --failures 10"), soft_wrap=True)
    console.print(Text(f"whole report    aitest report {run} -o report.html"), soft_wrap=True)


def _planned_gate(gate: Mapping[str, Any]) -> list[Text]:
    asked = bound(GateResult(metric=gate["metric"], min=gate.get("min"), max=gate.get("max"), verdict="unjudged", reason=""))
    upward = gate.get("max") is None
    edges = [
        (gate.get("passes_from"), "from" if upward else "up to"),
        (gate.get("fails_below"), "below" if upward else "above"),
    ]
    never = "cannot" if gate.get("rate", True) else "–"
    words = [Text(never if edge is None else f"{word} {number(edge)}") for edge, word in edges]
    return [
        Text(_line(gate["metric"])),
        Text(slice_label(gate.get("slice") or {})),
        Text(asked),
        _amount(gate.get("n")),
        *words,
    ]


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim", show_edge=False)
    numeric = {"n", "cases", "passed", "failed", "skipped", "errors", "queries"}
    for name in columns:
        whole = name in ("type", "verdict", "state", "figure", "bounds") or name in numeric
        table.add_column(Text(name), no_wrap=whole, overflow="fold", justify="right" if name in numeric else "left")
    return table


def _gate_verdict(gate: GateResult) -> Text:
    text = _verdict(gate.verdict)
    return text.append(", waived") if gate.waived else text


def _verdict(status: str, bold: bool = False) -> Text:
    style = _STYLES.get(status, "cyan")
    return Text(status.upper() if bold else status, style=f"bold {style}" if bold else style)


def _amount(value: int | None) -> Text:
    return Text("–" if value is None else f"{value:,}")


def _cell(value: str | None) -> str:
    return clip(value or "", 80) or "missing"


def _line(text: object, limit: int = 100) -> str:
    return clip(text, limit)

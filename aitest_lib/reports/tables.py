"""A report as text: figures in sensible digits, labels of slices, flat rows, and a Markdown page.

The pages, the plots, the explanations and the terminal all take their wording of figures from here, so that one number
reads the same everywhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aitest_lib.reports.report import FailingCase, GateResult, Metric, PropertyReport, RunReport

MAX_MARKDOWN_CASES = 50
# Everything XML 1.0 forbids: control characters, surrogates and the two non-characters of the basic plane.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SKIPS = {
    "no_op": "no-op, nothing changed",
    "misclassified_seed": "misclassified seed",
    "invalid": "invalid input",
    "not_applicable": "nothing that the change may touch",
    "budget": "beyond the budget",
}


def printable(text: str) -> str:
    """`text` without the characters that XML and UTF-8 cannot hold.

    >>> printable("a\\x00b")
    'ab'
    """
    return _UNPRINTABLE.sub("", text)


def clip(text: object, limit: int = 80) -> str:
    """`text` on one line and at most `limit` characters, the last one an ellipsis where something was cut.

    >>> clip("one\\ntwo three", 9)
    'one two …'
    """
    whole = str(text)
    line = " ".join(printable(whole[: 4 * limit]).split())  # a cell may hold megabytes
    return line if len(line) <= limit and len(whole) <= 4 * limit else line[: limit - 1] + "…"


def number(value: float | None, unit: str = "1") -> str:
    """A figure as text: rates with 3 decimals, others with 4 significant digits, whole ones as such; thousands separated.

    >>> number(0.93), number(12345.6, "s"), number(3.0, "decisions"), number(None), number(0.00012)
    ('0.930', '12,346 s', '3 decisions', 'undefined', '0.00012')
    """
    if value is None:
        return "undefined"
    if not math.isfinite(value):
        return "not finite"
    size = abs(value)
    if unit != "1" and float(value).is_integer():
        text = f"{value:,.0f}"
    elif 0 < size < 0.0005:
        text = f"{value:.2g}"
    elif unit == "1" and size <= 1:
        text = f"{value:.3f}"
    elif size >= 1000:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.{3 - math.floor(math.log10(size)) if size >= 1 else 3}f}"
    return text if unit == "1" else f"{text} {unit}"


def interval(low: float | None, high: float | None) -> str:
    """Bounds as text, empty where there are none, or none apart (the figure is known); an open side is a dash.

    >>> interval(0.9, 0.95), interval(None, 0.2), interval(None, None), interval(3, 3)
    ('[0.900, 0.950]', '[–, 0.200]', '', '')
    """
    if low == high:
        return ""
    return f"[{'–' if low is None else number(low)}, {'–' if high is None else number(high)}]"


def minus_signs(text: str) -> str:
    """Figures as text with typographic minus signs, as pages show them.

    >>> minus_signs("[-0.2, 1e-05]")
    '[−0.2, 1e-05]'
    """
    return re.sub(r"(?<!\w)-(?=\d)", "\N{MINUS SIGN}", text)


def p_value(value: float) -> str:
    """A p- or q-value as text, never "0".

    >>> p_value(0.0000012), p_value(0.0312)
    ('<0.001', '0.031')
    """
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def count(value: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun.

    >>> count(1, "seed"), count(1500, "query", "queries")
    ('1 seed', '1,500 queries')
    """
    return f"{value:,} {noun if value == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """A duration in words.

    >>> duration(41.24), duration(125), duration(3725)
    ('41.2 s', '2 min 5 s', '1 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"


def listed(items: Sequence[str]) -> str:
    """Items as prose.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 2 else items)


def slice_label(where: Mapping[str, Any], whole: str = "overall") -> str:
    """A slice as text: the transform by its name, then everything else as `column = value`, in one order of the columns.

    >>> slice_label({"transform": "numeric_noise", "epsilon": 0.1}), slice_label({})
    ('numeric_noise, epsilon = 0.1', 'overall')
    """
    named = [clip(where["transform"], 60)] if "transform" in where else []
    others = [f"{clip(key, 40)} = {_scalar(where[key])}" for key in sorted(where) if key != "transform"]
    return ", ".join(named + others) or whole


def bound(gate: GateResult) -> str:
    """What a gate asks for, as text: `at least 0.95`."""
    parts = [f"{words} {edge:g}" for words, edge in (("at least", gate.min), ("at most", gate.max)) if edge is not None]
    return " and ".join(parts) or "no bound"


def skip_reason(reason: str) -> str:
    """The reason of a skipped case in words."""
    return _SKIPS.get(reason, clip(reason.replace("_", " ")))


def gate_metric(report: PropertyReport, gate: GateResult) -> Metric | None:
    """The figure that a gate judges, or None where the property does not have it."""
    return next((m for m in report.metrics if m.name == gate.metric and m.slice == gate.slice), None)


def metric_groups(metrics: Iterable[Metric]) -> dict[tuple[str, ...], list[Metric]]:
    """Metrics by the columns that cut them: `()` is the whole, `("class",)` per class, `("transform",)` every component."""
    groups: dict[tuple[str, ...], list[Metric]] = {}
    for metric in metrics:
        key = ("transform",) if "transform" in metric.slice else tuple(metric.slice)
        groups.setdefault(key, []).append(metric)
    return dict(sorted(groups.items(), key=lambda item: len(item[0])))


def to_markdown(report: RunReport, failures: dict[str, list[FailingCase]] | None = None) -> str:
    """The report as GitHub-flavoured Markdown; text from data or model is escaped. At most 50 failing cases a property."""
    from aitest_lib.reports.explain import headline  # explain takes its wording of figures from this module

    q = report.queries
    lines = [
        f"# {report.status.upper()}: {markdown(report.suite)} on {markdown(report.model.name)}",
        "",
        markdown(headline(report)),
        "",
        *markdown_table(
            ["run", "model version", "revision", "started", "took", "queries planned", "sent", "cached", "errors"],
            [
                [
                    report.run_id,
                    report.model.version or "–",
                    report.model.revision or "–",
                    report.started,
                    duration(report.seconds),
                    *(f"{v:,}" for v in (q.planned, q.sent, q.cached, q.errors)),
                ]
            ],
        ),
        *(f"- Warning: {markdown(warning)}" for warning in report.warnings),
        *(f"- Could not be read: {markdown(file.place)}: {markdown(file.reason)}" for file in report.unreadable),
    ]
    for name, prop in report.named.items():
        lines += _md_property(name, prop, (failures or {}).get(name, []))
    return "\n".join(lines).rstrip() + "\n"


def _md_property(name: str, prop: PropertyReport, failing: list[FailingCase]) -> list[str]:
    counts = ", ".join(f"{value:,} {name}" for name, value in prop.cases.model_dump().items() if value or name == "total")
    failing = [case for case in failing if case.outcome == "failed"]
    lines = [
        "",
        f"## {markdown(name)}: {prop.status}",
        "",
        markdown(prop.explanation or prop.reason or ""),
        "",
        f"Cases: {counts}.",
        "",
    ]
    if prop.gates:
        lines += markdown_table(
            ["gate", "slice", "asks for", "figure", "bounds", "verdict", "why"], [_gate_row(prop, gate) for gate in prop.gates]
        )
    for key, metrics in metric_groups(prop.metrics).items():
        rows = [
            [m.name, slice_label(m.slice), number(m.value, m.unit), interval(m.low, m.high), f"{m.n:,}", m.reason or ""]
            for m in metrics
        ]
        lines += [
            f"### Metrics {group_title(key).lower()}",
            "",
            *markdown_table(["metric", "slice", "figure", "bounds", "n", "note"], rows),
        ]
    if prop.slices:
        of, counted = ("Slices by wrong answers", "answered otherwise than labelled") if prop.groups else ("Slices", "failing")
        lines += [f"### {of}, worst first", ""]
        lines += markdown_table(
            ["slice", counted, "rate", "rest", "difference", "q", "flagged"],
            [
                [
                    f"{s.name} = {s.value}",
                    f"{s.failing:,} of {s.seeds:,}" if s.share_of == "seeds" else f"{count(s.seeds, 'seed')}",
                    number(s.rate),
                    number(s.rest_rate),
                    f"{s.difference:+.3f} {interval(s.low, s.high)}",
                    p_value(s.q_value),
                    "yes" if s.flagged else "",
                ]
                for s in prop.slices
            ],
        )
    if failing:
        shown = failing[:MAX_MARKDOWN_CASES]
        lines += [f"### Failing cases: {len(shown)} of {max(prop.cases.failed, len(failing)):,}", ""]
        lines += [f"- {markdown(case.explanation)} ({markdown(case.case_id)})" for case in shown]
    if prop.unanswered:
        lines += ["", f"### Without a usable answer: {len(prop.unanswered)} of {prop.cases.error:,}", ""]
        lines += [f"- {markdown(case.reason)} ({markdown(case.case_id)})" for case in prop.unanswered]
    return lines


def group_title(key: tuple[str, ...]) -> str:
    """The heading of a group of `metric_groups`."""
    if not key:
        return "Overall"
    return "Per transform and strength" if key == ("transform",) else f"Per {' and '.join(clip(part, 40) for part in key)}"


def _gate_row(prop: PropertyReport, gate: GateResult) -> list[str]:
    metric = gate_metric(prop, gate)
    figure = [number(metric.value, metric.unit), interval(metric.low, metric.high)] if metric else ["undefined", ""]
    verdict = f"{gate.verdict} (waived)" if gate.waived else gate.verdict
    return [gate.metric, slice_label(gate.slice), bound(gate), *figure, verdict, gate.reason]


def _scalar(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else clip(value, 60)


def markdown(text: str) -> str:
    """Text that Markdown shows as it is: no markup, no links, no table cells of its own."""
    line = clip(text, 2000)
    line = re.sub(r"([\\`*|])", r"\\\1", line).replace("&", "&amp;").replace("<", "&lt;").replace("](", "]\\(")
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", line)


def markdown_table(head: list[str], rows: list[list[str]]) -> list[str]:
    """The lines of a table and an empty one after it; cells are escaped, the head is not."""
    body = [f"| {' | '.join(markdown(cell) for cell in row)} |" for row in rows]
    return [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *body, ""]

"""A comparison as GitHub-flavoured Markdown, for a pull request or a release note."""

from __future__ import annotations

from aitest_lib.reports.compare_text import gate_words, metric_values, overview_change, points, run_words, verdict_words
from aitest_lib.reports.comparison import ChangedCase, Comparison, PropertyComparison
from aitest_lib.reports.tables import markdown, markdown_table, p_value, slice_label

MAX_CASES = 50


def comparison_markdown(found: Comparison) -> str:
    """Text from data or models is escaped; at most 50 newly failing cases a property."""
    lines = [
        f"# {markdown(found.headline.removesuffix('.'))}",
        "",
        *markdown_table(["", "run"], [[name, words] for name, words in run_words(found)]),
        *(f"- Notice: {markdown(notice)}" for notice in found.notices),
        "",
        "## What changed",
        "",
    ]
    if found.changes:
        rows = [[c.area, c.name, c.base or "–", c.candidate or "–", "weaker" if c.weaker else ""] for c in found.changes]
        lines += markdown_table(["area", "what", "base", "candidate", ""], rows)
    else:
        lines += ["Nothing in suite, data, model and versions.", ""]
    lines += ["## Cases", ""]
    lines += markdown_table(
        [
            "property",
            "verdict",
            "newly failing",
            "fixed",
            "still failing",
            "new",
            "gone",
            "not comparable",
            "change",
            "p (Holm)",
        ],
        [_overview(item, found.margin) for item in found.properties],
    )
    for item in found.properties:
        lines += _property(item)
    for name, missing in (("base", found.only_base), ("candidate", found.only_candidate)):
        if missing:
            lines += ["", f"Only in the {name}: {markdown(', '.join(missing))}."]
    return "\n".join(lines).rstrip() + "\n"


def _overview(item: PropertyComparison, margin: float | None) -> list[str]:
    c, test = item.cases, item.test
    figures = (c.newly_failing, c.fixed, c.still_failing, c.new, c.gone, c.not_comparable)
    return [
        item.property,
        verdict_words(item.verdict, margin),
        *(f"{value:,}" for value in figures),
        overview_change(item),
        "–" if test is None else p_value(test.adjusted_p_value),
    ]


def _property(item: PropertyComparison) -> list[str]:
    lines = ["", f"## {item.property}", "", markdown(item.summary), ""]
    if item.gates:
        rows = [[g.metric, slice_label(g.slice), *gate_words(g)] for g in item.gates]
        lines += markdown_table(["gate", "slice", "base", "candidate", "change"], rows)
    lines += markdown_table(
        ["metric", "slice", "base", "candidate"],
        [[m.name, slice_label(m.slice), *metric_values(m)] for m in item.metrics],
    )
    parts = [c for c in item.components if c.transform is not None]
    if parts:
        rows = [
            [
                f"{c.transform}{'' if c.strength is None else f' at {c.strength:g}'}",
                f"{c.newly_failing:,}",
                f"{c.fixed:,}",
                f"{c.still_failing:,}",
                points(c.change),
            ]
            for c in parts
        ]
        lines += markdown_table(["transform", "newly failing", "fixed", "still failing", "change"], rows)
    if item.newly_failing:
        shown = item.newly_failing[:MAX_CASES]
        lines += [f"### Newly failing: {len(shown)} of {item.cases.newly_failing:,}", ""]
        lines += [f"- {markdown(_case(case))}" for case in shown]
    return lines


def _case(case: ChangedCase) -> str:
    answers = f"base {case.base_observed or '–'}, candidate {case.candidate_observed or '–'}"
    return f"{case.explanation} ({answers}; {case.case_id})"

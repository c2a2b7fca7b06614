"""A comparison in words, for the terminal and the pages: verdicts, points, one sentence a property, one for the whole."""

from __future__ import annotations

from collections.abc import Sequence

from aitest_lib.reports.compare_figures import SHOWN, figure_key, figures_verdict
from aitest_lib.reports.comparison import (
    ChangeVerdict,
    Comparison,
    GateChange,
    MetricChange,
    Moved,
    PairedFigure,
    PropertyComparison,
)
from aitest_lib.reports.report import GateResult, Metric
from aitest_lib.reports.tables import bound, clip, count, interval, listed, number, p_value, skip_reason, slice_label

MAX_REASONS = 3
MOVES: dict[Moved | None, str] = {"worse": "worse", "better": "better", "overlap": "bounds overlap", "lost": "undefined now"}


def verdict_words(verdict: ChangeVerdict, margin: float | None = None, unit: str = "1") -> str:
    """A verdict as text; `unit` is that of the tested figure.

    >>> verdict_words("no_evidence"), verdict_words("non_inferior", 1)
    ('no evidence of a change', 'not worse by more than 1 point')
    """
    words = {
        "regression": "regression",
        "improvement": "improvement",
        "no_evidence": "no evidence of a change",
        "not_comparable": "not comparable",
    }
    if verdict in words:
        return words[verdict]
    limit = f"worse by more than {margin_words(margin) if unit == '1' else f'{margin:g} %'}"
    return f"not {limit}" if verdict == "non_inferior" else f"may be {limit}"


def margin_words(margin: float | None) -> str:
    """A margin as text: `1 point`, `0.5 points`."""
    return "the margin" if margin is None else f"{margin:g} point{'' if margin == 1 else 's'}"


def points(share: float | None) -> str:
    """A change of a share, in points.

    >>> points(0.0213), points(-0.1), points(None)
    ('+2.13 points', '-10.00 points', '–')
    """
    return "–" if share is None else f"{100 * share:+.2f} points"


def change_words(figure: PairedFigure) -> str:
    """The change with its interval: `+2.13 points [+0.40, +3.90]`, or in the metric's unit."""
    if figure.unit == "1":
        between = "" if figure.low is None or figure.high is None else f" [{100 * figure.low:+.2f}, {100 * figure.high:+.2f}]"
        return f"{points(figure.change)}{between}"
    values = (figure.change, figure.low, figure.high)
    texts = ["–" if value is None else f"{'+' if value > 0 else ''}{number(value)}" for value in values]
    return f"{texts[0]} {figure.unit} [{texts[1]}, {texts[2]}]"


def gate_words(gate: GateChange) -> tuple[str, str, str]:
    """A gate in both runs: its figure, what it asks for and how it ended; and whether the figure moved."""
    told = [_gate(*one) for one in ((gate.base, gate.base_figure), (gate.candidate, gate.candidate_figure))]
    return told[0], told[1], MOVES.get(gate.moved, "")


def gate_changed(gate: GateChange) -> bool:
    """Whether a gate asks or ends otherwise, or its figure was compared."""
    return gate.moved is not None or _gate(gate.base, None) != _gate(gate.candidate, None)


def overview_change(item: PropertyComparison) -> str:
    """The change of a property in a table over all of them, by its cases or else by its figures."""
    if item.test is not None:
        return change_words(item.test)
    told = _compared(item.gates)
    moved = [f"{n} {word}" for word in ("worse", "better") if (n := sum(one.moved == word for one in told))]
    return f"{', '.join(moved) or '0 moved'} of {len(told)}" if told else "–"


def headline(properties: Sequence[PropertyComparison], margin: float | None) -> str:
    """The whole comparison in one sentence, which begins with the words of the worst verdict."""
    by_verdict: dict[ChangeVerdict, list[str]] = {}
    for item in properties:
        by_verdict.setdefault(item.verdict, []).append(item.property)
    if set(by_verdict) == {"no_evidence"}:
        told = [one for item in properties for one in _compared(item.gates)]
        changed = any(item.cases.newly_failing or item.cases.fixed for item in properties) or not all(map(_same, told))
        more = "" if changed else f"; every shared case ended as before{', and every figure is the same' if told else ''}"
        return f"No evidence of a change in {listed(by_verdict['no_evidence'])}{more}."
    # A name of a property never comes first: it must keep its small letter.
    order: tuple[tuple[ChangeVerdict, str], ...] = (
        ("regression", "regression in {}"),
        ("not_comparable", "not comparable: {}"),
        ("not_shown", f"may be worse by more than {margin_words(margin)} in {{}}"),
        ("no_evidence", "no evidence of a change in {}"),
        ("non_inferior", f"not worse by more than {margin_words(margin)} in {{}}"),
        ("improvement", "improvement in {}"),
    )
    parts = [words.format(listed(by_verdict[verdict])) for verdict, words in order if verdict in by_verdict]
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def summary(item: PropertyComparison, margin: float | None) -> str:
    """One property in a few sentences: the verdict, the figures behind it, what could not be compared."""
    cases, figure = item.cases, item.test
    sentences = []
    if item.candidate_status == "error" and item.base_status != "error":
        sentences.append("The candidate's run of this property ended in an error, the base's did not.")
    sentences += _findings(item, margin)
    if cases.compared and figure is not None:
        wrong = (
            f" ({cases.newly_misclassified:,} because their seed is answered wrongly now)" if cases.newly_misclassified else ""
        )
        sentences.append(
            f"Of {count(cases.compared, 'case')} of {count(item.shared_seeds, 'shared seed')}, {cases.newly_failing:,} newly "
            f"fail{wrong}, {cases.fixed:,} are fixed, {cases.still_failing:,} still fail."
        )
    elif not sentences:
        sentences.append("No case passed or failed in both runs, so nothing could be tested.")
    if cases.newly_unanswered:
        sentences.append(f"{count(cases.newly_unanswered, 'case')} that the base answered got no usable answer.")
    if cases.not_comparable:
        named = [f"{_reason(text)}: {n:,}" for text, n in list(cases.reasons.items())[:MAX_REASONS]]
        sentences.append(f"{cases.not_comparable:,} could not be compared ({'; '.join(named)}).")
    flagged = [found for found in item.slices if found.flagged][:MAX_REASONS]
    if flagged:
        where = [
            f"{clip(found.name, 40)} = {clip(found.value, 40)} ({found.failing:,} of {count(found.seeds, 'seed')})"
            for found in flagged
        ]
        sentences.append(f"New failures sit in {listed(where)} more than elsewhere.")
    return " ".join(sentences)


def metric_values(item: MetricChange) -> tuple[str, str]:
    """Both values as text, each with its bounds."""
    return _value(item.base), _value(item.candidate)


def run_words(comparison: Comparison) -> list[tuple[str, str]]:
    """Both runs, each in one line."""
    lines = []
    for name, run in (("base", comparison.base), ("candidate", comparison.candidate)):
        model = run.model
        version = "".join(
            f" {word} {clip(value, 60)}" for word, value in (("version", model.version), ("revision", model.revision)) if value
        )
        lines.append(
            (name, f"run {run.run_id[:12]}, {run.started[:16].replace('T', ' ')}, {clip(model.name)}{version}: {run.status}")
        )
    return lines


def _findings(item: PropertyComparison, margin: float | None) -> list[str]:
    """What cases and figures show, first, behind the words of the verdict, that of the two which shows it."""
    by_cases = "" if item.test is None else _by_cases(item.test)
    by_figures = _by_figures(item.gates)
    told_by_figures = item.verdict in SHOWN and figures_verdict(item.gates, margin) == item.verdict
    found = list(filter(None, [by_figures, by_cases] if told_by_figures else [by_cases, by_figures]))
    words = verdict_words(item.verdict, margin, "1" if item.test is None else item.test.unit)
    return [
        f"{words[:1].upper()}{words[1:]}: {text}" if place == 0 else f"{text[:1].upper()}{text[1:]}"
        for place, text in enumerate(found)
    ]


def _by_cases(figure: PairedFigure) -> str:
    alone, adjusted = p_value(figure.p_value), p_value(figure.adjusted_p_value)
    p = f"p = {alone}".replace("= <", "< ") + ("" if adjusted == alone else f", {adjusted} after Holm")
    return (
        f"the {figure.metric} went from {number(figure.base)} to {number(figure.candidate)}, "
        f"{change_words(figure)} ({p}; {figure.method}, {count(figure.seeds, 'seed')})."
    )


def _by_figures(gates: Sequence[GateChange]) -> str:
    """Which of the gates' figures moved, and by what that is told."""
    told = _compared(gates)
    if not told:
        return ""
    of = f"of {count(len(told), 'figure')} that gates judge, each over all rows of its run,"
    if all(map(_same, told)):
        return f"{of} every one is as before."
    groups: tuple[tuple[Moved, str], ...] = (
        ("worse", "worse beyond chance"),
        ("lost", "undefined now"),
        ("better", "better beyond chance"),
    )
    parts = []
    for moved, words in groups:
        found = [one for one in told if one.moved == moved]
        if found:
            more = [f"{len(found) - MAX_REASONS:,} more"] if len(found) > MAX_REASONS else []
            parts.append(f"{len(found):,} {words}: {listed([*map(_step, found[:MAX_REASONS]), *more])}")
    if not parts:
        return f"{of} none moved beyond chance, as far as their bounds tell."
    apart = any(one.moved in ("worse", "better") for one in told)
    how = " (their one-sided bounds in the two runs do not overlap, which is stricter than a test)" if apart else ""
    return f"{of} {'; '.join(parts)}{how}."


def _step(gate: GateChange) -> str:
    where = f" ({clip(slice_label(gate.slice), 80)})" if gate.slice else ""
    return f"{clip(gate.metric, 40)}{where} from {_value(gate.base_figure)} to {_value(gate.candidate_figure)}"


def _compared(gates: Sequence[GateChange]) -> list[GateChange]:
    """Gates whose figures were compared, one a figure."""
    return list({figure_key(gate.metric, gate.slice): gate for gate in gates if gate.moved is not None}.values())


def _same(gate: GateChange) -> bool:
    return gate.base_figure == gate.candidate_figure


def _gate(gate: GateResult | None, figure: Metric | None) -> str:
    asked = "no such gate" if gate is None else f"{bound(gate)}: {gate.verdict}{', waived' if gate.waived else ''}"
    return asked if figure is None else f"{_value(figure)}; {asked}"


def _value(figure: Metric | None) -> str:
    return "–" if figure is None else f"{number(figure.value, figure.unit)} {interval(figure.low, figure.high)}".strip()


def _reason(text: str) -> str:
    run, _, reason = text.partition(": ")
    return f"{run} {skip_reason(reason)}"

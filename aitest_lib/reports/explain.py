"""Plain sentences made from the data of a report: one per run, one per property, one per failing case. No language model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from aitest_lib.reports.explain_attack import attack_lead, attack_weak_spots, gate_caveat, unfinished_words
from aitest_lib.reports.explain_fairness import fairness_lead, fairness_left_out, fairness_weak_spots
from aitest_lib.reports.explain_gates import gate_words, inapplicable
from aitest_lib.reports.explain_image import (
    attribution_words,
    breaking_words,
    strength_word,
    transform_words,
    unreadable_words,
    what_was_done,
    with_unit,
)
from aitest_lib.reports.explain_tree import missed_words, tree_lead, tree_weak_spots
from aitest_lib.reports.explain_word_errors import speech_lead, speech_weak_spots
from aitest_lib.reports.fairness_view import has_fairness
from aitest_lib.reports.report import CaseCounts, Metric, PropertyReport, RunReport, SliceFinding
from aitest_lib.reports.tables import clip, count, interval, listed, number, skip_reason, slice_label

Change = tuple[str, str, str, float | None]

MAX_NAMED = 3  # changes or slices named in one sentence; the rest is counted
NOTABLE_SKIPS = 0.05  # share of skipped cases from which the paragraph speaks of them
CHANGED_BY = "changed by "  # prefix of the findings about changed columns
_DONE = {
    "tabular.generalization": "The model answered {seeds} and each answer was compared with its label.",
    "tabular.robustness": (
        "Small changes were made to {seeds} ({components}) and each answer was compared with the model's own answer on the "
        "untouched row."
    ),
    "image.generalization": "The model classified {seeds} and each answer was compared with its label.",
}


def headline(report: RunReport) -> str:
    """The verdict of a run in one sentence."""
    named = report.named
    found = [(name, gate) for name, prop in named.items() for gate in prop.gates]
    gates = [(name, gate) for name, gate in found if gate.verdict != "skipped"]
    total = count(len(gates), "gate")
    broken = [name for name, prop in named.items() if prop.status == "error"]
    if broken:
        reason = named[broken[0]].reason
        why = f": {reason}" if reason else ""
        return f"{listed(broken)} could not be judged{why}".rstrip(".") + "."
    if report.status == "error":
        return "The run ended with an error; what was answered is kept."
    failed = [name for name, gate in gates if gate.verdict == "failed" and not gate.waived]
    if failed:
        where = listed(list(dict.fromkeys(failed)))
        return f"{len(failed)} of {total} failed, in {where}."
    open_gates = [gate for _, gate in gates if gate.verdict == "inconclusive"]
    if report.status == "inconclusive" and not open_gates:
        names = listed([name for name, prop in named.items() if prop.status == "inconclusive"])
        return f"No gate failed, but {names} is inconclusive."
    if open_gates:
        return f"No gate failed, but {len(open_gates)} of {total} {'is' if len(open_gates) == 1 else 'are'} inconclusive."
    if report.status == "passed":
        waived = sum(gate.waived for _, gate in gates)
        whole = "The gate" if len(gates) == 1 else f"All {total}"
        unjudged = [name for name, prop in named.items() if prop.status == "unjudged"]
        more = inapplicable(len(found) - len(gates))
        more += f"; {listed(unjudged)} has no gate and is unjudged" if unjudged else ""
        return f"{whole} passed{f', {waived} by a waiver' if waived else ''}{more}." if gates else "Every property passed."
    if report.status == "unjudged":
        return "No gates were set, so nothing was judged."
    return "Every property was skipped." if report.status == "skipped" else f"The run is {report.status}."


def explain_property(report: PropertyReport, confidence: float, unreadable: int = 0) -> str:
    """One paragraph on a property: what was done and on how many seeds, what broke most, in which slices, what is open and why.

    `confidence` is the one-sided confidence of every bound in the report, in (0, 1); `unreadable` the number of files of the
    data that could not be read.
    """
    if report.tree is not None:
        lead = [_reason(report), *tree_lead(report, report.tree, confidence)]
    elif report.adversarial is not None:
        lead = [_reason(report), *attack_lead(report, report.adversarial, confidence)]
    elif report.speech is not None:
        lead = [_reason(report), *speech_lead(report, report.speech, confidence), _outcome(report, confidence)]
    elif has_fairness(report):
        lead = [_reason(report), *fairness_lead(report, confidence), _tolerances(report) if report.pairs is not None else ""]
    else:
        lead = [_done(report), _tolerances(report), _outcome(report, confidence), _baseline(report)]
    return " ".join(filter(None, [*lead, *chain.from_iterable(_details(report, unreadable).values())]))


def explanation_parts(report: PropertyReport, unreadable: int = 0) -> tuple[str, dict[str, list[str]]]:
    """The explanation of `report` as a page shows it: what was done and found, as one text, then the other sentences by
    what they are about.

    It is cut, not made again, so that a page says what report.json says: sentences that another version worded otherwise
    stay in the text. `unreadable`: see `explain_property`.
    """
    lead, parts = report.explanation, {}
    for title, sentences in reversed(_details(report, unreadable).items()):
        said = " ".join(sentences)
        if said and lead.endswith(said):
            lead, parts[title] = lead.removesuffix(said).rstrip(), sentences
    return lead, dict(reversed(parts.items()))


def explain_case(
    transform: str | None,
    changes: Sequence[Change],
    expected: str,
    observed: str,
    score: float | None,
    seed_kind: str = "answer",
    tolerance: float | None = None,
) -> str:
    """One sentence on a failing case.

    `changes`: column, value on the seed, value in the case, shift in standard deviations of the column or None.
    `score`: the model's score of `observed` in [0, 1]. `seed_kind`: `answer` when `expected` is the model's own answer on the
    seed, `label` when it is the label. `tolerance`: for regressors, the largest move that counts as the same answer, in
    units of the target.

    >>> explain_case("numeric_noise", [("hours", "40", "39", -0.08)], "<=50K", ">50K", 0.71)
    'hours 40 -> 39 (-0.08 sd) turned the answer from <=50K to >50K (score 0.71)'
    >>> explain_case(None, [], "<=50K", ">50K", 0.83, seed_kind="label")
    'answered >50K (0.83), the label is <=50K'
    """
    cause = _changes(changes) or transform or ""
    if seed_kind == "label":
        more = "" if tolerance is None else f", further away than the tolerance {tolerance:.2f}"
        answer = f"answered {observed}{'' if score is None else f' ({score:.2f})'}, the label is {expected}{more}"
        return f"{cause}: {answer}" if cause else answer
    if tolerance is not None:
        moved = f"the answer moved from {expected} to {observed}, more than the tolerance {tolerance:.2f}"
        return f"{cause}: {moved}" if cause else moved
    shown = "" if score is None else f" (score {score:.2f})"
    if cause:
        return f"{cause} turned the answer from {expected} to {observed}{shown}"
    return f"the answer went from {expected} to {observed}{shown}"


def explain_image_case(
    transform: str,
    params: dict[str, Any],
    unit: str | None,
    expected: str,
    observed: str,
    score: float | None,
    smallest: float | None,
) -> str:
    """One sentence on a case of an image.

    `params`: the drawn parameters of the case. `unit`: that of the transform's strength, None where it has none. `score`:
    the model's score of `observed` in [0, 1]. `smallest`: the smallest failing strength found, None where none was looked for.

    >>> explain_image_case("rotate", {"degrees": 15.0}, "degrees", "4", "9", 0.83, 11.0)
    'rotated by 15°, read as 9 instead of 4 (0.83); smallest failing angle found 11°'
    >>> explain_image_case("brightness", {"delta": -0.2}, None, "cat", "dog", None, None)
    'darkened by 0.2, read as dog instead of cat'
    """
    answer = (
        f"still read as {_short(observed)}"
        if observed == expected
        else f"read as {_short(observed)} instead of {_short(expected)}"
    )
    sentence = f"{transform_words(transform, params)}, {answer}{'' if score is None else f' ({score:.2f})'}"
    if smallest is None:
        return sentence
    return f"{sentence}; smallest failing {strength_word(transform)} found {with_unit(smallest, unit)}"


def _changes(changes: Sequence[Change]) -> str:
    if len(changes) > MAX_NAMED:
        ranked = sorted(changes, key=lambda change: -abs(change[3] or 0.0))
        return f"{', '.join(map(_change, ranked[:MAX_NAMED]))} and {len(changes) - MAX_NAMED} more changes"
    return ", ".join(map(_change, changes))


def _change(change: Change) -> str:
    column, before, after, shift = change
    moved = "" if shift is None else f" ({shift:+.2f} sd)"
    return f"{column} {_short(before)} -> {_short(after)}{moved}"


def _short(value: str) -> str:
    return value if 0 < len(value) <= 60 else clip(value, 60) or "missing"


def _details(report: PropertyReport, unreadable: int) -> dict[str, list[str]]:
    """The sentences after those on what was done and found, by what they are about."""
    slices = [item for item in report.slices if not item.name.startswith(CHANGED_BY)]
    tree, attack, speech = report.tree, report.adversarial, report.speech
    weak = [
        *(speech_weak_spots(speech) if speech else fairness_weak_spots(report) or [_worst_component(report.metrics)]),
        _causes(report.slices),
        _sub_slices(report, slices),
        *(tree_weak_spots(report, tree) if tree else []),
        *(attack_weak_spots(attack) if attack else []),
        _flips(report),
        breaking_words(report.breaking_points, "clip" if speech else "image"),
        attribution_words(report.attributions),
    ]
    unasked = unfinished_words(attack) if attack else fairness_left_out(report)
    left_out = [unasked, _skipped(report), _errors(report), unreadable_words(unreadable)]
    gates = [missed_words(tree) if tree else "", *gate_words(report), gate_caveat(attack, report.gates) if attack else ""]
    return {title: list(filter(None, said)) for title, said in (("Weak spots", weak), ("Gates", gates), ("Left out", left_out))}


def _done(report: PropertyReport) -> str:
    if report.reason:
        return _reason(report)
    template = _DONE.get(report.property)
    if report.property == "image.robustness" and report.cases.total:
        return what_was_done(report.metrics, _seeds(report))
    if template is None or not report.cases.total:
        return ""
    return template.format(seeds=_seeds(report), components=_components(report.metrics))


def _reason(report: PropertyReport) -> str:
    return f"The property is {report.status}: {report.reason.rstrip('.')}." if report.reason else ""


def _components(metrics: list[Metric]) -> str:
    """The transforms and their strengths: `numeric_noise at epsilon 0.05 and 0.1; missing_value`."""
    strengths: dict[str, dict[str, list[str]]] = {}
    for where in (m.slice for m in metrics if "transform" in m.slice):
        of_transform = strengths.setdefault(clip(where["transform"], 60), {})
        for key, value in where.items():
            text = f"{value:g}" if isinstance(value, float) else clip(value, 40)
            if key != "transform" and text not in of_transform.setdefault(clip(key, 40), []):
                of_transform[clip(key, 40)].append(text)
    parts = [
        f"{name} at {' and '.join(f'{key} {listed(values)}' for key, values in of_transform.items())}" if of_transform else name
        for name, of_transform in strengths.items()
    ]
    return "; ".join(parts) if len(parts) <= 6 else f"{len(parts)} kinds of change"


def _seeds(report: PropertyReport) -> str:
    # Accuracy counts every seed with an answer; a pass rate leaves out those the model gets wrong.
    sizes = [m.n for m in report.metrics if m.name in ("accuracy", "rmse", "mae")] or [m.n for m in report.metrics]
    return count(max(sizes, default=report.cases.total), "image" if report.property.startswith("image.") else "seed")


def _tolerances(report: PropertyReport) -> str:
    """Regressors: what counts as the same answer, and as a right one."""
    if report.tolerance is None:
        return ""
    right = "" if report.seed_tolerance is None else f", and as right within {number(report.seed_tolerance)} of its label"
    names = "`tolerance` and `seed_tolerance`" if right else "`tolerance`"
    return (
        f"An answer counts as the same if it moves by at most {number(report.tolerance)}{right} "
        f"(set {names} to what your use needs)."
    )


def _outcome(report: PropertyReport, confidence: float) -> str:
    cases, pooled = report.cases, {m.name: m for m in report.metrics if not m.slice}
    broken = sum(sum(item.counts) for item in report.breaking_points)  # told apart: the pass rate does not count them
    judged = cases.passed + cases.failed - broken - sum(item.unbroken for item in report.breaking_points)
    if not judged:
        return "No case could be judged." if cases.total and not report.breaking_points else ""
    key = next((name for name in ("pass_rate", "accuracy", "rmse") if name in pooled), None)
    figure = f": {_phrase(pooled[key])}" if key else ""
    bounds = f" (bounds one-sided at {confidence:.0%})" if key and interval(pooled[key].low, pooled[key].high) else ""
    text = f"Of {count(judged, 'judged case')} {cases.failed - broken:,} failed{figure}{bounds}."
    drop = pooled.get("robust_accuracy_drop")
    return f"{text} {_capital(_phrase(drop))}." if drop and drop.value is not None else text


def _baseline(report: PropertyReport) -> str:
    """What a model without any knowledge would reach."""
    found = next((item.value for item in report.metrics if item.name == "majority_baseline"), None)
    if found is None or report.confusion is None:
        return ""
    totals = [sum(row) for row in report.confusion.counts]
    most = report.confusion.classes[totals.index(max(totals))]
    return f"Always answering {clip(most, 40)} would reach {number(found)}."


def _worst_component(metrics: list[Metric]) -> str:
    named = [m for m in metrics if m.name == "pass_rate" and "transform" in m.slice and m.value is not None]
    if len(named) < 2:
        classes = [m for m in metrics if m.name in ("recall", "f1") and "class" in m.slice and m.value is not None]
        return _lowest("class", [m for m in classes if m.name == classes[0].name]) if classes else ""
    return _lowest("change", named)


def _lowest(noun: str, metrics: list[Metric]) -> str:
    if len(metrics) < 2:
        return ""
    ranked = sorted(metrics, key=lambda m: m.value or 0.0)
    worst, best = ranked[0], ranked[-1]
    if worst.value == best.value:
        return ""
    lead, least = (
        ("What broke most was", "what broke least was") if noun == "change" else ("The weakest class was", "the strongest was")
    )
    name = slice_label(worst.slice) if noun == "change" else clip(worst.slice["class"], 60)
    other = slice_label(best.slice) if noun == "change" else clip(best.slice["class"], 60)
    return f"{lead} {name}, {_phrase(worst)} over {worst.n:,}; {least} {other} with {number(best.value)}."


def _causes(slices: list[SliceFinding]) -> str:
    """The changed columns that go with failures."""
    found = [item for item in slices if item.flagged and item.name.startswith(CHANGED_BY)]
    if not found:
        return ""
    named = []
    for item in found[:MAX_NAMED]:
        where = f"{number(item.rate)} of {item.seeds:,} seeds where {clip(item.name.removeprefix(CHANGED_BY), 40)} changed it"
        named.append(f"{clip(item.value, 60)} ({where}, {number(item.rest_rate)} elsewhere)")
    return f"Failures go with changes of {listed(named)}."


def _sub_slices(report: PropertyReport, slices: list[SliceFinding]) -> str:
    of_tree, flagged = report.tree is not None, [s for s in slices if s.flagged]
    if not flagged:
        does = "is answered otherwise than labelled" if report.groups else "fails"
        return f"No slice {does} more than the rest beyond chance." if slices else ""
    named = [
        f"{clip(s.name, 40)} = {clip(s.value, 40)} ({number(s.rate)} of {_share_of(s, 'row' if of_tree else 'seed')} "
        f"against {number(s.rest_rate)} elsewhere, difference {number(s.difference)} {interval(s.low, s.high)})"
        for s in flagged[:MAX_NAMED]
    ]
    more = f" and {count(len(flagged) - MAX_NAMED, 'more slice')}" if len(flagged) > MAX_NAMED else ""
    what = "Tree and model differ" if of_tree else "Rows are answered otherwise than labelled" if report.groups else "It fails"
    return f"{what} more often in {'; '.join(named)}{more}."


def _share_of(s: SliceFinding, noun: str) -> str:
    return count(s.seeds, noun) if s.share_of == "seeds" else f"the cases of {count(s.seeds, noun)}"


def _flips(report: PropertyReport) -> str:
    turned = next(iter(report.flips), None)
    if turned is None or not turned.flipped:
        return ""
    smallest = (
        ""
        if turned.smallest_sd is None
        else f", the smallest such change found among them being {number(turned.smallest_sd)} sd"
    )
    share = f"{turned.flipped:,} of {count(turned.seeds, 'seed')}"
    return f"The column {clip(turned.column, 60)} alone turned the answer of {share} taken at random{smallest}."


def _skipped(report: PropertyReport) -> str:
    cases = report.cases
    if not cases.total or cases.skipped / cases.total < NOTABLE_SKIPS:
        return ""
    return f"{cases.skipped:,} of {count(cases.total, 'case')} were skipped{_reasons(report.skipped, cases)}."


def _errors(report: PropertyReport) -> str:
    if not report.cases.error:
        return ""
    worst = max(sorted(report.errors), key=report.errors.__getitem__, default=None)
    why = f", most often: {clip(worst, 160)}" if worst else ""
    return f"The model gave no usable answer on {count(report.cases.error, 'case')}{why}."


def _reasons(skipped: dict[str, int], cases: CaseCounts) -> str:
    parts = [f"{skip_reason(reason)}: {n:,}" for reason, n in sorted(skipped.items(), key=lambda item: -item[1]) if n]
    return f" ({'; '.join(parts)})" if parts and cases.skipped else ""


def _phrase(metric: Metric) -> str:
    if metric.value is None:
        return f"{metric.name.replace('_', ' ')} is undefined ({metric.reason or 'no reason given'})"
    return f"{metric.name.replace('_', ' ')} {number(metric.value, metric.unit)} {interval(metric.low, metric.high)}".rstrip()


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

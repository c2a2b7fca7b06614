"""Plain sentences about a surrogate tree: how it came about, what it can stand in for, and where it differs from the model."""

from __future__ import annotations

from collections.abc import Sequence

from aitest_lib.reports.report import Metric, PropertyReport, TreeReport
from aitest_lib.reports.tables import clip, count, interval, number
from aitest_lib.reports.tree_view import named, rule_words

_GENERATED = {"swap": " (cells swapped between rows)", "trepan": " (drawn at each node, TREPAN)"}


def tree_lead(report: PropertyReport, tree: TreeReport, confidence: float) -> list[str]:
    """What was done, and what was found. `confidence`: that of the bounds, in (0, 1)."""
    return [_done(tree), _found(report, tree, confidence)]


def tree_weak_spots(report: PropertyReport, tree: TreeReport) -> list[str]:
    """Classes that the tree copies worst, how stable it is, and what flatters its figures; "" for what does not apply."""
    return [_no_better(report.metrics), _classes(report.metrics), _stability(report.metrics), repeated_words(tree)]


def missed_words(tree: TreeReport) -> str:
    """That no tree satisfies every gate, and the nearest one; "" where one does."""
    return f"The gates are missed: {clip(tree.missed, 600).rstrip('.')}." if tree.missed else ""


def repeated_words(tree: TreeReport) -> str:
    """That held-out rows were seen before, which inflates the fidelity; "" where none was."""
    if not tree.repeated:
        return ""
    verb = "equals a row" if tree.repeated == 1 else "equal rows"
    return (
        f"{tree.repeated:,} of {count(tree.held_out, 'held-out row')} {verb} that the tree was grown or pruned on: on "
        "others its fidelity may be lower."
    )


def explain_tree_case(rule: Sequence[str], tree_answer: str, model_answer: str, score: float | None) -> str:
    """One sentence on a row on which tree and model differ.

    `rule`: the conditions from the root to the leaf that the row reaches; those that a later one implies are left out, and
    of many only the first are named. `score`: the model's score of its answer, in [0, 1].

    >>> explain_tree_case(["education-num > 9", "married is true", "education-num > 12"], ">50K", "<=50K", 0.61)
    'the tree says >50K because married is true and education-num > 12; the model says <=50K with 0.61'
    """
    why = f"because {rule_words(rule)}" if rule else "to every row"
    sure = "" if score is None else f" with {score:.2f}"
    return f"the tree says {named(tree_answer)} {why}; the model says {named(model_answer)}{sure}"


def _done(tree: TreeReport) -> str:
    generated = f" and {tree.generated:,} generated ones{_GENERATED.get(tree.generation, '')}" if tree.generated else ""
    pruned = f", pruned on {tree.pruned_on:,}" if tree.pruned_on else ""
    unasked = f" The budget left out {tree.unasked:,} more." if tree.unasked else ""
    return (
        f"A decision tree was grown on the model's answers to {count(tree.grown_on, 'row')}{generated}{pruned}, "
        f"and compared with the model on {count(tree.held_out, 'held-out row')}.{unasked}"
    )


def _found(report: PropertyReport, tree: TreeReport, confidence: float) -> str:
    whole = {m.name: m for m in report.metrics if not m.slice and m.value is not None}
    fidelity = whole.get("fidelity")
    if fidelity is None:
        return ""
    within = "" if report.tolerance is None else f" within {number(report.tolerance)}"
    figure = f"{number(fidelity.value)} {interval(fidelity.low, fidelity.high)}".rstrip()
    text = f"{_size(whole)} answers as the model does{within} on {figure} of them (bounds one-sided at {confidence:.0%})"
    more = []
    if "majority_fidelity" in whole:
        most = max(tree.root.counts, key=tree.root.counts.__getitem__, default=tree.root.answer)
        what = f"always answering {named(most, 40)}" if tree.classes else "one number for all"
        more.append(f"{what} would on {number(whole['majority_fidelity'].value)}")
    more += [f"{label} is {number(whole[name].value)}" for name, label in (("kappa", "kappa"), ("r2", "R²")) if name in whole]
    return "; ".join([text, *more]) + "."


def _no_better(metrics: Sequence[Metric]) -> str:
    """That the tree is worth no more than the model's most frequent answer."""
    whole = {m.name: m for m in metrics if not m.slice and m.value is not None}
    fidelity, majority = whole.get("fidelity"), whole.get("majority_fidelity")
    if fidelity is None or majority is None or (fidelity.low or 0) > (majority.value or 0):
        return ""
    return "That is no better than giving every row the model's most frequent answer."


def _size(whole: dict[str, Metric]) -> str:
    """`A tree of 41 leaves (longest path 9 decisions, …)`."""
    leaves = whole.get("leaves")
    if leaves is None:
        return "It"
    if leaves.value == 1:
        return "A tree of a single leaf, the same answer to every row,"
    paths = [
        f"{words} {whole[name].value:.3g}"
        for name, words in (("mpl", "longest path"), ("apl", "mean over leaves"), ("epl", "expected of a row"))
        if name in whole
    ]
    decisions = f" (decisions: {', '.join(paths)})" if paths else ""
    return f"A tree of {leaves.value:,.0f} leaves{decisions}"


def _classes(metrics: Sequence[Metric]) -> str:
    """The class that the tree copies worst, and the one it copies best."""
    ranked = sorted(
        (m for m in metrics if m.name == "class_fidelity" and m.value is not None), key=lambda m: (m.value, str(m.slice))
    )
    if len(ranked) < 2:
        return ""
    worst, best = ranked[0], ranked[-1]
    if worst.value == best.value:
        return ""
    return (
        f"The answer that it copies worst is {named(str(worst.slice.get('class', '')), 40)}, on {number(worst.value)} "
        f"{interval(worst.low, worst.high)}".rstrip()
        + f" of {count(worst.n, 'row')}; best {named(str(best.slice.get('class', '')), 40)}, on {number(best.value)}."
    )


def _stability(metrics: Sequence[Metric]) -> str:
    found = next((m for m in metrics if m.name == "stability" and not m.slice and m.value is not None), None)
    return (
        ""
        if found is None
        else f"Trees grown on bootstrap samples agree with one another on {number(found.value)} of the rows."
    )

"""Plain sentences about an adversarial search: what was tried, what it broke, and what resisting it means.

None of them calls a model robust: a search that finds nothing has resisted nothing but itself.
"""

from __future__ import annotations

from aitest_lib.reports.attack_view import budgets, method_name, ordinal, within
from aitest_lib.reports.records import AdversarialReport, ClassAttack, CurvePoint, SearchCurve
from aitest_lib.reports.report import GateResult, Metric, PropertyReport
from aitest_lib.reports.tables import clip, count, interval, listed, number

MAX_NAMED = 3  # classes named in one sentence
GATED = ("attacked_accuracy", "success_rate")  # whose gates say what resists
LEVELS = "of 255 grey levels in any pixel"


def explain_attack_case(levels: int, query: int, expected: str, observed: str, score: float | None) -> str:
    """One sentence on an adversarial image.

    `levels`: its largest change, in grey levels of 255; `query`: the number of the query that found it; `score`: the model's
    score of `observed`, in [0, 1].

    >>> explain_attack_case(8, 12, "4", "9", 0.834)
    'Noise of at most 8 of 255 grey levels in any pixel, found by the 12th query, makes the model read 9 instead of 4 (0.83).'
    """
    read = f"{_named(observed)} instead of {_named(expected)}{'' if score is None else f' ({score:.2f})'}"
    return f"Noise of at most {levels} {LEVELS}, found by the {ordinal(query)} query, makes the model read {read}."


def explain_resisted(queries: int, expected: str, score: float | None, exhausted: bool = False) -> str:
    """One sentence on an image that no attempt turned.

    `queries`: asked in all; `score`: the model's score of `expected` on the nearest attempt, in [0, 1], None where only labels
    are known; `exhausted`: the search had nothing left to try.

    >>> explain_resisted(250, "4", 0.614)
    'Resisted this attack at 250 queries; the nearest attempt left 0.61 for 4.'
    >>> explain_resisted(1, "4", None, exhausted=True)
    'Resisted this attack, which had nothing left to try after 1 query.'
    """
    asked = count(queries, "query", "queries")
    told = f", which had nothing left to try after {asked}" if exhausted else f" at {asked}"
    nearest = "" if score is None else f"; the nearest attempt left {score:.2f} for {_named(expected)}"
    return f"Resisted this attack{told}{nearest}."


def attack_lead(report: PropertyReport, attack: AdversarialReport, confidence: float) -> list[str]:
    """What was done, and what was found. `confidence`: that of the bounds, in (0, 1)."""
    if not attack.right:
        return [f"The model gets none of {count(attack.wrong, 'image')} right untouched, so there was nothing to attack."]
    main = attack.curves[0] if attack.curves else None
    if main is None or not main.attacked:
        return [_done(attack), "No search came to its end."]
    return [_done(attack), _broken(attack, main, confidence), _accuracy(report), _baselines(attack, main)]


def attack_weak_spots(attack: AdversarialReport) -> list[str]:
    """The classes that fall first; "" where none stands out."""
    return [_classes(attack.classes)]


def unfinished_words(attack: AdversarialReport) -> str:
    """What searches that did not end by themselves mean; "" where there is none."""
    unfinished = attack.curves[0].unfinished if attack.curves else 0
    if not unfinished:
        return ""
    why = f" ({clip(attack.stopped, 160).rstrip('.')})" if attack.stopped else ""
    verb = "search is" if unfinished == 1 else "searches are"
    return (
        f"{unfinished:,} {verb} unfinished{why}: what they would have broken is unknown. Those that the model had answered by "
        "then count as not broken, the others in no figure."
    )


def gate_caveat(attack: AdversarialReport, gates: list[GateResult]) -> str:
    """What a passed gate on a search means; "" where none has passed."""
    passed = [gate for gate in gates if gate.metric in GATED and gate.verdict == "passed"]
    if not passed:
        return ""
    budget = max(_budget(attack, gate) for gate in passed)
    return f"Passed means: resisted this attack at {count(budget, 'query', 'queries')}; a stronger attack may break more."


def attack_gate_reason(attack: AdversarialReport, gate: GateResult) -> str:
    """The reason of the verdict on a gate, told as that of an attack at a budget.

    >>> report = AdversarialReport(
    ...     method="auto", delta=0.03, levels=7, queries=250, labels_only=False, right=9, wrong=1, curves=[]
    ... )
    >>> gate = GateResult(metric="attacked_accuracy", min=0.5, verdict="passed", reason="0.62 [0.57, -] is above 0.5")
    >>> attack_gate_reason(report, gate)
    'resisted this attack at 250 queries: 0.62 [0.57, -] is above 0.5'
    """
    words = {"passed": "resisted this attack at", "failed": "did not resist this attack at"}.get(gate.verdict)
    if words is None or gate.metric not in GATED:
        return gate.reason
    return f"{words} {count(_budget(attack, gate), 'query', 'queries')}: {gate.reason}"


def _budget(attack: AdversarialReport, gate: GateResult) -> int:
    return int(gate.slice.get("queries", attack.queries))


def _done(attack: AdversarialReport) -> str:
    images = count(attack.right + attack.wrong, "image")
    images = f"{attack.right:,} of {images}" if attack.wrong else images
    knows = "labels alone" if attack.labels_only else "the model's scores"
    votes = (
        f" As the model answers by chance, a success needs the majority of {attack.votes:,} answers."
        if attack.votes > 1
        else ""
    )
    return (
        f"For each of the {images} that the model gets right, a search ({method_name(attack.method)}, guided by {knows}) "
        f"looked for noise of at most {attack.levels} {LEVELS} (delta {attack.delta:g}) that makes it answer wrongly, "
        f"with at most {count(attack.queries, 'query', 'queries')} an image.{votes}"
    )


def _broken(attack: AdversarialReport, main: SearchCurve, confidence: float) -> str:
    end = within(main, attack.queries)
    if end is None or not end.broken:
        upper = "" if end is None else f" (the share is at most {number(end.high)} at {confidence:.0%} confidence)"
        return f"It broke none of {count(main.attacked, 'image')}{upper}."
    asked = count(attack.queries, "query", "queries")
    text = f"Within {asked} it broke {end.broken:,} of {main.attacked:,}: {_rate(end)} (bounds one-sided at {confidence:.0%})"
    earlier = [(budget, point) for budget in budgets(attack)[:-1] if (point := within(main, budget))]
    shown = earlier[:: max(len(earlier) - 1, 1)]  # the first and the last of them
    if shown:
        text += f"; {listed([f'{number(point.rate)} within {budget:,}' for budget, point in shown])}"
    if main.median_queries is None:
        return f"{text}."
    median = f"{main.median_queries:,.4g} {'query' if main.median_queries == 1 else 'queries'}"
    return f"{text}; the median adversarial image took {median}."


def _rate(point: CurvePoint) -> str:
    return f"{number(point.rate)} {interval(point.low, point.high)}".rstrip()


def _accuracy(report: PropertyReport) -> str:
    whole = {m.name: m for m in report.metrics if not m.slice and m.value is not None}
    found = whole.get("attacked_accuracy")
    if found is None:
        return ""
    clean = f", against {number(whole['clean_accuracy'].value)} untouched" if "clean_accuracy" in whole else ""
    return (
        f"The attacked accuracy, the share of all images that are read rightly and resist, is {_figure(found)}{clean}; it is "
        "an upper bound: a stronger attack may break more."
    )


def _figure(metric: Metric) -> str:
    return f"{number(metric.value)} {interval(metric.low, metric.high)}".rstrip()


def _baselines(attack: AdversarialReport, main: SearchCurve) -> str:
    """What the cheap methods reach, and which of them is the stronger attack."""
    ends = [(curve, end) for curve in attack.curves[1:] if curve.attacked and (end := within(curve, attack.queries))]
    if not ends:
        return ""
    shares = [f"{_rate(end)} ({method_name(curve.method)})" for curve, end in ends]
    reached = within(main, attack.queries)
    best, its = max(ends, key=lambda item: item[1].rate)
    stronger = (
        f" {method_name(best.method)[:1].upper()}{method_name(best.method)[1:]} would have been the stronger attack: "
        f"`method: {clip(best.method, 40)}` bounds the accuracy more tightly."
        if reached is not None and its.rate > reached.rate
        else ""
    )
    return f"With the same queries the baselines broke {listed(shares)}.{stronger}"


def _classes(classes: list[ClassAttack]) -> str:
    known = [item for item in classes if item.attacked]
    if len(known) < 2 or _share(known[0]) == _share(known[-1]):
        return ""
    falling = [item for item in known[:MAX_NAMED] if _share(item) > _share(known[-1])]
    alike = sum(_share(item) == _share(known[0]) for item in known) - len(falling)
    more = [f"{alike:,} more as often"] if alike > 0 else []
    told = listed([*(f"{_named(item.label)} ({item.broken:,} of {item.attacked:,})" for item in falling), *more])
    last = known[-1]
    return f"Classes that break most: {told}; least: {_named(last.label)} ({last.broken:,} of {last.attacked:,})."


def _share(item: ClassAttack) -> float:
    return item.broken / item.attacked


def _named(answer: str) -> str:
    return clip(answer, 60) or "(empty)"

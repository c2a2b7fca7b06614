"""A realistic adversarial search on a digit reader, for the tests of what people look at: its figures agree."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import report_sample as sample
from numpy.typing import NDArray

from aitest_lib.demo.digits import DATA
from aitest_lib.reports.attack_view import budgets
from aitest_lib.reports.explain import explain_property
from aitest_lib.reports.explain_attack import attack_gate_reason, explain_attack_case, explain_resisted
from aitest_lib.reports.pictures import NOISE_GAIN, case_pictures
from aitest_lib.reports.records import AdversarialReport, ClassAttack, CurvePoint, SearchCurve
from aitest_lib.reports.report import CaseCounts, FailingCase, GateResult, Metric, PropertyQueries, PropertyReport, RunReport
from aitest_lib.rng import rng_for
from aitest_lib.stats.intervals import wilson

PROPERTY = "image.adversarial"
IMAGES, WRONG = 200, 4
CLASSES = tuple("0123456789")
# The median of the queries that each method takes, and the share of images that it never breaks.
METHODS = {"auto": (6.0, 0.02), "random": (9.0, 0.3), "square": (24.0, 0.12)}
NEVER = np.iinfo(np.int64).max


def property_report(levels: int = 76, queries: int = 250, **more: Any) -> PropertyReport:
    """What `image.adversarial` found with noise of so many grey levels and so many queries an image."""
    attack = attack_report(levels, queries)
    attacked, broken = attack.curves[0].attacked, attack.curves[0].broken
    metrics = _metrics(attack)
    accuracy = next(m for m in metrics if m.name == "attacked_accuracy" and not m.slice)
    verdict = "failed" if (accuracy.high or 0) < 0.5 else "passed"
    why = f"{accuracy.value:.3f} [{accuracy.low:.3f}, {accuracy.high:.3f}] is {'below' if verdict == 'failed' else 'above'} 0.5"
    gate = GateResult(metric="attacked_accuracy", min=0.5, verdict=verdict, reason=why)
    worst = attack.classes[0]
    rest = (broken - worst.broken) / (attacked - worst.attacked)
    here = worst.broken / worst.attacked
    prop = PropertyReport(
        property=PROPERTY,
        status=verdict,
        cases=CaseCounts(total=IMAGES, passed=attacked - broken, failed=broken, skipped=WRONG),
        skipped={"misclassified_seed": WRONG},
        metrics=metrics,
        gates=[gate.model_copy(update={"reason": attack_gate_reason(attack, gate)})],
        queries=PropertyQueries(planned=sum(curve.queries for curve in attack.curves), sent=4210),
        seconds=21.4,
        slices=[
            sample.finding(
                "label", worst.label, worst.attacked, worst.broken, here, rest, here - rest - 0.1, here - rest + 0.1, 0.3, False
            )
        ],
        adversarial=attack,
        artifacts={"cases": "s3://audits/digits/cases.parquet", "adversarial": "s3://audits/digits/adversarial.arrow"},
    ).model_copy(update=more)
    return prop.model_copy(update={"explanation": explain_property(prop, 0.95)})


def run_report(*properties: PropertyReport, **more: Any) -> RunReport:
    """A run of a digit reader with these properties."""
    fields = {"properties": list(properties or [property_report()]), "unreadable": [], "warnings": []}
    origin = sample.image_report().provenance.model_copy(update={"unreadable": 0, "rows": IMAGES, "seeds": IMAGES})
    return sample.image_report(**(fields | {"provenance": origin, "suite": "digits-adversarial"} | more))


def attack_report(levels: int = 76, queries: int = 250, **more: Any) -> AdversarialReport:
    """A search and its baselines; `levels`: the fewer, the more queries it takes."""
    curves = [curve(method, taken(method, levels), queries, place > 0) for place, method in enumerate(METHODS)]
    found, labels = taken("auto", levels), labels_of()
    classes = [
        ClassAttack(label=name, attacked=int((labels == name).sum()), broken=int((found[labels == name] <= queries).sum()))
        for name in CLASSES
    ]
    classes.sort(key=lambda item: (-item.broken / item.attacked, item.label))
    report = AdversarialReport(
        method="auto",
        delta=round(levels / 255, 3),
        levels=levels,
        queries=queries,
        labels_only=False,
        right=IMAGES - WRONG,
        wrong=WRONG,
        curves=curves,
        classes=classes,
        norms=[0] * (levels - 1) + [curves[0].broken],
    )
    return report.model_copy(update=more)


def curve(method: str, found: NDArray[np.int64], queries: int, baseline: bool) -> SearchCurve:
    """The curve of a method that broke each image with the query of this number: a point at every success and budget."""
    hits = np.sort(found[found <= queries])
    empty = AdversarialReport(
        method=method, delta=0.1, levels=1, queries=queries, labels_only=False, right=0, wrong=0, curves=[]
    )
    places = sorted({1, *hits.tolist(), *budgets(empty)})
    points = [point(place, int((hits <= place).sum()), len(found)) for place in places]
    return SearchCurve(
        method=method,
        baseline=baseline,
        attacked=len(found),
        broken=len(hits),
        unfinished=0,
        points=points,
        median_queries=float(np.median(hits)) if len(hits) else None,
        queries=int(np.minimum(found, queries).sum()),
    )


def point(queries: int, broken: int, attacked: int) -> CurvePoint:
    low, high = wilson(broken, attacked).bounds(0.95) or (0.0, 1.0)
    return CurvePoint(queries=queries, broken=broken, rate=broken / attacked, low=low, high=high)


def taken(method: str, levels: int) -> NDArray[np.int64]:
    """With which query each of the attacked images broke; `NEVER` where none would."""
    median, never = METHODS[method]
    rng = rng_for(7, method, "sample")
    ease = np.array([0.6 + 0.12 * CLASSES.index(name) for name in labels_of()])
    queries = np.ceil(median * (76 / levels) * ease * rng.lognormal(0, 1.1, IMAGES - WRONG)).astype(np.int64)
    return np.where(rng.random(IMAGES - WRONG) < never * 76 / levels, NEVER, queries)


def labels_of() -> NDArray[np.str_]:
    return np.array([CLASSES[place * 7 % 10] for place in range(IMAGES - WRONG)])


def cases(n: int = 12, levels: int = 76) -> list[FailingCase]:
    """n adversarial images, n that resisted with their nearest attempts, and two that were skipped."""
    digits, labels = _digits()
    result = []
    for place in range(2 * n + 2):
        seed, label = digits[place], str(labels[place])
        outcome = "failed" if place < n else "passed" if place < 2 * n else "skipped"
        rng = rng_for(3, "attack sample", str(place))
        query, other = int(rng.integers(1, 240)), str((int(label) + int(rng.integers(1, 10))) % 10)
        signs = np.kron(rng.choice([-1, 1], (7, 7)), np.ones((4, 4), int))[..., None]
        image = np.clip(seed.astype(int) + levels * signs, 0, 255).astype(np.uint8)
        said = {
            "failed": explain_attack_case(levels, query, label, other, 0.58),
            "passed": explain_resisted(250, label, 0.61),
            "skipped": "",
        }
        result.append(
            FailingCase(
                case_id=f"{place:032x}"[::-1],
                seed_id=f"{place:032x}",
                transform="auto",
                strength=round(levels / 255, 3),
                expected=other if outcome == "skipped" else label,
                observed={"failed": other, "passed": label}.get(outcome),
                score={"failed": 0.58, "passed": 0.61}.get(outcome),
                explanation=said[outcome],
                seed={"file": f"x[{place}]"},
                case={"file": f"x[{place}]"},
                changed=[],
                outcome=outcome,  # type: ignore[arg-type]
                reason="misclassified_seed" if outcome == "skipped" else None,
                pictures=case_pictures(seed, seed if outcome == "skipped" else image, NOISE_GAIN),
                seed_label=label,
                query=None if outcome == "skipped" else query,
            )
        )
    return result


def hostile(text: str) -> tuple[RunReport, list[FailingCase]]:
    """A run and its cases in which everything that data, cards and plug-ins name is `text`."""
    attack = attack_report()
    prop = property_report(
        adversarial=attack.model_copy(
            update={
                "method": text,
                "stopped": text,
                "curves": [c.model_copy(update={"method": f"{text}{i}", "unfinished": 3}) for i, c in enumerate(attack.curves)],
                "classes": [c.model_copy(update={"label": f"{text}{i}"}) for i, c in enumerate(attack.classes)],
            }
        ),
        skipped={text: WRONG},
        slices=[sample.finding(text, text, 20, 20, 1.0, 0.9, 0.01, 0.2, 0.01, True)],
    )
    named = dict.fromkeys(("case_id", "transform", "expected", "observed", "explanation", "seed_label", "reason"), text)
    return run_report(prop), [case.model_copy(update={**named, "case": {text: text}}) for case in cases(2)]


def _metrics(attack: AdversarialReport) -> list[Metric]:
    main = attack.curves[0]
    metrics = [_rate("clean_accuracy", {}, attack.right, IMAGES)]
    for where, broken in ({}, main.broken), *(({"queries": p.queries}, p.broken) for p in main.points):
        if not where or where["queries"] in budgets(attack):
            metrics.append(_rate("attacked_accuracy", where, attack.right - broken, IMAGES))
            metrics.append(_rate("success_rate", where, broken, main.attacked, higher_is_better=False))
    middle = main.median_queries
    metrics.append(
        Metric(name="median_queries", value=middle, low=middle, high=middle, n=main.broken, unit="queries")
        if middle
        else Metric(name="median_queries", value=None, n=0, unit="queries", reason="nothing broke")
    )
    for item in attack.classes:
        metrics.append(_rate("attacked_accuracy", {"label": item.label}, item.attacked - item.broken, item.attacked))
    return metrics


def _rate(name: str, where: dict[str, Any], hits: int, n: int, **more: Any) -> Metric:
    low, high = wilson(hits, n).bounds(0.95) or (0.0, 1.0)
    return Metric(name=name, slice=where, value=hits / n, low=low, high=high, n=n, **more)


@lru_cache
def _digits() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    with np.load(DATA / "digits_test.npz") as kept:
        images, labels = kept["x"], kept["y"]
    order = np.argsort(np.arange(len(images)) * 37 % len(images), kind="stable")  # they are sorted by digit
    return images[order].reshape(-1, 28, 28, 1), labels[order]

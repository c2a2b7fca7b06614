"""Cases of pairs and of moved columns, and a run in which every name is hostile, beside the reports of `fairness_sample`."""

from __future__ import annotations

import report_sample
from fairness_records import FAVORABLE, Counts, attribute, flip, segment, step
from fairness_sample import DIRECTIONS, PAIRS, directions, groups, pairs, run_report

from aitest_lib.reports.explain_fairness import explain_direction_case, explain_pair_case
from aitest_lib.reports.records_fairness import GroupReport, Proxy, Stretch
from aitest_lib.reports.report import FailingCase, RunReport


def cases(n: int = 6) -> dict[str, list[FailingCase]]:
    """n failing cases of pairs, and as many of directions."""
    return {PAIRS: [_pair(place) for place in range(n)], DIRECTIONS: [_moved(place) for place in range(n)]}


def hostile(text: str) -> tuple[RunReport, dict[str, list[FailingCase]]]:
    """A run and its cases in which everything that data, cards and suites name is `text`."""
    counts: dict[str, Counts] = {f"{text}{i}": (200, 80, 60 - 20 * i, 10) for i in range(3)}
    found = GroupReport(
        selection="decision",
        assumed=True,
        labelled=True,
        rows=600,
        attributes=[attribute(text, counts, favorable=text, excluded={text: 3}, cut=text, unjudged=text, columns=[text])],
        segments=[segment(text, text, text, text, (60, 10), (80, 40), 0.01, True, attribute_name=text)],
        proxies=[Proxy(attribute=text, column=text, association=0.6)],
        left_out=[text],
    )
    reason = {"value": None, "low": None, "high": None, "reason": text}
    named_figures = [
        group.model_copy(
            update={
                "figures": [*group.figures, group.figures[0].model_copy(update={"name": text} | reason)],
                "ratio_reason": text,
            }
        )
        for group in found.attributes[0].groups
    ]
    found.attributes[0] = found.attributes[0].model_copy(update={"groups": named_figures})
    pair = pairs().pairs
    assert pair is not None
    assert pair.search is not None
    pair = pair.model_copy(
        update={
            "columns": [text],
            "not_inputs": [text],
            "ties": [text, text],
            "flips": [flip({text: text, f"{text}b": text}, 100, 7)],
            "search": pair.search.model_copy(update={"stopped": text}),
            "proxies": [Proxy(attribute=text, column=text, association=0.6)],
        }
    )
    moved = [
        item.model_copy(
            update={
                "column": text,
                "favorable": text,
                "steps": [step(f"{text}{i}", 0.3 - 0.05 * i, against=5) for i in range(3)],
                "stretches": [Stretch(start=text, end=text, rows=9, against=3, mean=0.1, largest=0.2)],
            }
        )
        for item in directions().directions[:2]
    ]
    fields = dict.fromkeys(("case_id", "transform", "expected", "observed", "explanation", "reason"), text)
    shown = [
        case.model_copy(update={**fields, "seed": {text: text}, "case": {text: text}, "changed": [text]})
        for case in cases(2)[PAIRS]
    ]
    report = run_report(
        groups(groups=found, gates=[], metrics=[]),
        pairs(pairs=pair, gates=[], metrics=[]),
        directions(directions=moved, gates=[], metrics=[]),
    )
    return report, {PAIRS: shown, DIRECTIONS: shown}


def _pair(place: int) -> FailingCase:
    seed = dict(report_sample.ROW, age=str(31 + place), relationship="Husband", occupation="Exec-managerial")
    changed = {"sex": ("Male", "Female")} if place % 2 else {"sex": ("Male", "Female"), "race": ("White", "Black")}
    note = (
        "no row of the data has sex Female with relationship Husband; with relationship Wife it is >50K" if place % 3 else None
    )
    return FailingCase(
        case_id=f"{place + 1:032x}"[::-1],
        seed_id=f"{place:032x}",
        transform="protected_values" if place % 3 < 2 else "pair_search",
        strength=None,
        expected=">50K",
        observed="<=50K",
        score=0.44,
        explanation=explain_pair_case(changed, ">50K", "<=50K", 0.44, note),
        seed=seed,
        case=seed | {column: after for column, (_, after) in changed.items()},
        changed=list(changed),
    )


def _moved(place: int) -> FailingCase:
    seed = dict(report_sample.ROW, age=str(31 + place), **{"hours-per-week": "38"})
    said = explain_direction_case("hours-per-week", "38", "45", "increasing", "score", 0.61, 0.42, FAVORABLE)
    return FailingCase(
        case_id=f"{place + 1:032x}"[::-1],
        seed_id=f"{place:032x}",
        transform="move hours-per-week",
        strength=45.0,
        expected="0.61",
        observed="0.42",
        score=0.42,
        explanation=said,
        seed=seed,
        case=seed | {"hours-per-week": "45"},
        changed=["hours-per-week"],
    )

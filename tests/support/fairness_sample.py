"""What audits of tabular fairness found on census income, for the tests of what people look at: the figures agree."""

from __future__ import annotations

from typing import Any

import report_sample as sample
from fairness_records import (
    CONFIDENCE,
    FAVORABLE,
    Counts,
    attribute,
    bounds,
    estimate,
    flip,
    named,
    segment,
    step,
)

from aitest_lib.reports.explain import explain_property
from aitest_lib.reports.records_fairness import (
    Attribute,
    DirectionReport,
    Flip,
    GroupReport,
    PairReport,
    PairSearchReport,
    Proxy,
    Stretch,
    YieldPoint,
)
from aitest_lib.reports.report import (
    CaseCounts,
    GateResult,
    Metric,
    ModelReport,
    PropertyQueries,
    PropertyReport,
    RunReport,
)
from aitest_lib.stats.intervals import mean, wilson

GROUPS, PAIRS, DIRECTIONS = "tabular.group_fairness", "tabular.individual_fairness", "tabular.directional"
SEX: dict[str, Counts] = {"Male": (10380, 3166, 2101, 566), "Female": (4902, 557, 297, 73)}
RACE: dict[str, Counts] = {
    "Asian-Pac-Islander": (462, 128, 85, 27),
    "White": (13141, 3371, 2204, 577),
    "Black": (1496, 186, 89, 27),
    "Amer-Indian-Eskimo": (153, 19, 10, 3),
    "Other": (30, 0, 0, 1),
}
CROSSED: dict[str, Counts] = {
    "Male × Asian-Pac-Islander": (306, 106, 74, 21),
    "Male × White": (9159, 2891, 1930, 520),
    "Male × Black": (772, 139, 71, 17),
    "Male × Amer-Indian-Eskimo": (96, 15, 9, 2),
    "Female × Asian-Pac-Islander": (156, 22, 11, 6),
    "Female × White": (3982, 480, 274, 57),
    "Female × Black": (724, 47, 18, 10),
    "Female × Other": (7, 0, 0, 0),
}


def groups(**more: Any) -> PropertyReport:
    """What `tabular.group_fairness` found for a classifier with labels and scores."""
    found = GroupReport(
        selection="decision",
        labelled=True,
        rows=15282,
        attributes=[
            attribute("sex", SEX, declared=True),
            attribute("race", RACE, excluded={"Unknown": 3}),
            attribute(
                "sex × race", CROSSED, unjudged="Female × Other has 7 rows, and at least 10 are needed", columns=["sex", "race"]
            ),
        ],
        scores=[attribute("sex", {"Male": (10380, 3166, 2890, 3061), "Female": (4902, 557, 489, 1201)}, favorable=None)],
        segments=[
            segment("Female", "Male", "education", "Masters", (212, 71), (540, 402), 0.0000031, True),
            segment("Female", "Male", "occupation", "Exec-managerial", (601, 131), (1430, 793), 0.00002, True),
            segment("Female", "Male", "hours-per-week", "above 45", (388, 61), (2870, 1102), 0.012, True),
            segment("Female", "Male", "workclass", "Self-emp-inc", (63, 15), (410, 195), 0.081, False),
            segment("Female", "Male", "education", "HS-grad", (1620, 39), (3310, 291), 0.21, False),
        ],
        proxies=[
            Proxy(attribute="sex", column="relationship", association=0.649),
            Proxy(attribute="sex", column="marital-status", association=0.461),
            Proxy(attribute="sex", column="occupation", association=0.424),
            Proxy(attribute="race", column="native-country", association=0.388),
        ],
        left_out=["sex × age: 94 of its 118 groups have fewer than 10 rows"],
    )
    women, men = found.attributes[0].groups[1], found.attributes[0].groups[0]
    metrics = [
        Metric(name="impact_ratio", slice={"attribute": "sex"}, value=women.impact_ratio, low=women.ratio_low, n=women.rows),
        Metric(name="impact_ratio", slice={"attribute": "race"}, value=0.114, low=0.02, high=0.6, n=30),
        Metric(name="selection_rate", value=0.201, low=0.196, high=0.207, n=15282, higher_is_better=None),
        Metric(name="selection_rate", slice={"sex": "Male"}, value=men.figures[0].value, n=men.rows),
        Metric(name="selection_rate", slice={"sex": "Female"}, value=women.figures[0].value, n=women.rows),
    ]
    gates = [
        GateResult(
            metric="impact_ratio",
            slice={"attribute": "sex"},
            min=0.8,
            verdict="failed",
            reason=f"{women.impact_ratio:.3f} [{women.ratio_low:.3f}, {women.ratio_high:.3f}] is below 0.8",
        ),
        GateResult(
            metric="impact_ratio",
            slice={"attribute": "race"},
            min=0.8,
            verdict="failed",
            reason="0.137 [0.037, 0.515] is below 0.8",
        ),
    ]
    fields: dict[str, Any] = {
        "property": GROUPS,
        "status": "failed",
        "metrics": metrics,
        "gates": gates,
        "queries": PropertyQueries(planned=15282, cached=15282),
        "seconds": 2.4,
        "artifacts": {"bias_audit": "s3://audits/adult/7f3a/bias_audit.csv"},
        "groups": found,
    }
    return explained(PropertyReport(**(fields | more)))


def numbers(**more: Any) -> PropertyReport:
    """The same for a regressor of yearly hours: selected is who is above the median of all."""
    made = attribute("sex", {"Male": (10380, 0, 0, 5704), "Female": (4902, 0, 0, 1912)}, favorable=None, labelled=False)
    errors = [estimate("mean_absolute_error", mean([180.0, 190.0, 200.0, 230.0, 250.0])) for _ in made.groups]
    errors[1] = errors[1].model_copy(update={"value": 262.5, "gap": 52.5, "gap_low": 21.0, "gap_high": 84.0, "n": 4902})
    made = made.model_copy(
        update={
            "groups": [
                group.model_copy(update={"figures": [*group.figures, error]})
                for group, error in zip(made.groups, errors, strict=True)
            ]
        }
    )
    ages = attribute(
        "age",
        {"38 to 47": (3820, 0, 0, 2110), "17 to 27": (3901, 0, 0, 1204)},
        favorable=None,
        labelled=False,
        cut="age was cut into 2 groups of about equal size",
    )
    found = GroupReport(selection="number", threshold=2080.0, labelled=True, rows=15282, attributes=[made, ages])
    return groups(groups=found, metrics=[], gates=[], status="unjudged", **more)


def classes(**more: Any) -> PropertyReport:
    """The same for three classes, one against the rest, nobody having named the favourable one."""
    rates: dict[str, dict[str, Counts]] = {
        "approved": {"Male": (600, 0, 0, 290), "Female": (580, 0, 0, 198)},
        "referred": {"Female": (580, 0, 0, 141), "Male": (600, 0, 0, 139)},
        "refused": {"Female": (580, 0, 0, 241), "Male": (600, 0, 0, 171)},
    }
    found = [attribute("sex", counts, favorable=name, labelled=False) for name, counts in rates.items()]
    made = GroupReport(selection="decision", assumed=True, rows=1180, attributes=found)
    return groups(groups=made, metrics=[], gates=[], status="unjudged", **more)


def undefined(**more: Any) -> PropertyReport:
    """The same where nobody is selected and nothing can be said."""
    nobody = attribute("sex", {"Male": (40, 0, 0, 0), "Female": (3, 0, 0, 0)}, unjudged="nobody was selected in any group")
    lone = Attribute(
        name="race", columns=["race"], favorable=FAVORABLE, reference=None, groups=[], unjudged="there is one group"
    )
    made = GroupReport(selection="decision", labelled=True, rows=43, attributes=[nobody, lone])
    why = "nobody was selected in any group"
    gate = GateResult(metric="impact_ratio", slice={"attribute": "sex"}, min=0.8, verdict="inconclusive", reason=why)
    metric = Metric(name="impact_ratio", slice={"attribute": "sex"}, value=None, n=43, reason=why)
    return groups(groups=made, metrics=[metric], gates=[gate], status="inconclusive", **more)


def many(names: list[str], **more: Any) -> PropertyReport:
    """The same for as many groups of one attribute, and as many segments."""
    counts: dict[str, Counts] = {
        name: (400 + 10 * place, 0, 0, 200 - (place * 180) // len(names)) for place, name in enumerate(names)
    }
    made = [
        segment(name, names[0], "column", name, (60, 10), (80, 40), 0.01, True, attribute_name="country") for name in names[1:]
    ]
    found = GroupReport(
        selection="decision",
        rows=30000,
        attributes=[attribute("country", counts, labelled=False)],
        segments=made,
        proxies=[Proxy(attribute="country", column=name, association=0.5) for name in names],
    )
    return groups(groups=found, **more)


def pairs(**more: Any) -> PropertyReport:
    """What `tabular.individual_fairness` found, with a search."""
    rows, turned, likely, likely_turned = 2000, 183, 1240, 57
    seen, plausible = bounds(wilson(turned, rows)), bounds(wilson(likely_turned, likely))
    found = PairReport(
        columns=["sex", "race"],
        combinations=10,
        tried=10,
        rows=rows,
        turned=turned,
        prevalence=turned / rows,
        low=seen[0],
        high=seen[1],
        likely_rows=likely,
        likely_turned=likely_turned,
        likely_prevalence=likely_turned / likely,
        likely_low=plausible[0],
        likely_high=plausible[1],
        ties=["relationship = Husband goes with sex = Male", "relationship = Wife goes with sex = Female"],
        flips=[
            flip({"sex": "Female"}, 1358, 61),
            flip({"sex": "Male"}, 642, 21),
            flip({"race": "Black"}, 1806, 44),
            flip({"race": "Other"}, 1984, 39),
            flip({"sex": "Female", "race": "Black"}, 1902, 118),
            flip({"sex": "Female", "race": "Amer-Indian-Eskimo"}, 1992, 97),
            Flip(values={"sex": "Male", "race": "White"}, rows=0, turned=0, rate=None),
        ],
        search=PairSearchReport(
            queries=20000,
            found=1104,
            guided=True,
            real=0.994,
            regions=37,
            of_regions=64,
            curve=[YieldPoint(queries=1000 * i, found=round(1104 * (i / 20) ** 1.4)) for i in range(21)],
        ),
        proxies=[Proxy(attribute="sex", column="relationship", association=0.649)],
    )
    why = f"{turned / rows:.3f} [{seen[0]:.3f}, {seen[1]:.3f}] is above 0.01"
    fields: dict[str, Any] = {
        "property": PAIRS,
        "status": "failed",
        "cases": CaseCounts(total=rows, passed=rows - turned, failed=turned),
        "metrics": [
            Metric(name="prevalence", value=turned / rows, low=seen[0], high=seen[1], n=rows, higher_is_better=False),
        ],
        "gates": [GateResult(metric="prevalence", max=0.01, verdict="failed", reason=why)],
        "queries": PropertyQueries(planned=40000, sent=38000, cached=2000),
        "seconds": 21.7,
        "artifacts": {"cases": "s3://audits/adult/7f3a/cases.parquet"},
        "pairs": found,
    }
    return explained(PropertyReport(**(fields | more)))


def blind(**more: Any) -> PropertyReport:
    """What the same property says of a model that is not sent the protected columns."""
    found = PairReport(
        columns=[],
        not_inputs=["sex", "race"],
        combinations=0,
        tried=0,
        rows=0,
        turned=0,
        prevalence=None,
        proxies=[Proxy(attribute="sex", column="relationship", association=0.649)],
    )
    why = "sex and race are no inputs of the model"
    fields: dict[str, Any] = {"status": "skipped", "pairs": found, "metrics": [], "gates": [], "cases": CaseCounts()}
    return pairs(**(fields | {"reason": why} | more))


def directions(**more: Any) -> PropertyReport:
    """What `tabular.directional` found: hours with a dip, education as it should be, a group that must not be helped."""
    hours = [0.18, 0.21, 0.24, 0.27, 0.262, 0.23, 0.25, 0.29, 0.31, 0.312]
    found = [
        DirectionReport(
            column="hours-per-week",
            expected="increasing",
            on="score",
            favorable=FAVORABLE,
            rows=500,
            violating=212,
            rate=0.424,
            **named(wilson(212, 500)),
            largest=0.19,
            steps=[step(20.0 + 5 * i, value, against=(0, 0, 3, 1, 118, 166, 9, 0, 0, 14)[i]) for i, value in enumerate(hours)],
            stretches=[
                Stretch(start=40.0, end=45.0, rows=500, against=166, mean=0.061, largest=0.19),
                Stretch(start=35.0, end=40.0, rows=500, against=118, mean=0.014, largest=0.08),
            ],
        ),
        DirectionReport(
            column="education-num",
            expected="increasing",
            on="score",
            favorable=FAVORABLE,
            rows=500,
            violating=0,
            rate=0.0,
            **named(wilson(0, 500)),
            steps=[step(float(i), 0.05 + 0.028 * i) for i in range(1, 17)],
        ),
        DirectionReport(
            column="capital-loss",
            expected="never_helps",
            on="decision",
            favorable=FAVORABLE,
            rows=400,
            violating=31,
            rate=31 / 400,
            **named(wilson(31, 400)),
            largest=1.0,
            steps=[step(0.0, 0.21), step("500", 0.2), step("2000", 0.27, against=31), step("missing", None)],
            stretches=[Stretch(start="500", end="2000", rows=400, against=31, mean=1.0, largest=1.0)],
        ),
        DirectionReport(column="age", expected="never_hurts", on="score", favorable=FAVORABLE, rows=0, violating=0, rate=None),
    ]
    metrics = [
        Metric(
            name="violation_rate",
            slice={"column": item.column},
            value=item.rate,
            low=item.low,
            high=item.high,
            n=item.rows,
            higher_is_better=False,
            reason=None if item.rate is not None else "no row was answered",
        )
        for item in found
    ]
    gate = GateResult(
        metric="violation_rate",
        slice={"column": "hours-per-week"},
        max=0.05,
        verdict="failed",
        reason="0.424 [0.388, 0.461] is above 0.05",
    )
    fields: dict[str, Any] = {
        "property": DIRECTIONS,
        "status": "failed",
        "cases": CaseCounts(total=1400, passed=1157, failed=243),
        "metrics": metrics,
        "gates": [gate],
        "queries": PropertyQueries(planned=14600, sent=14600),
        "seconds": 9.1,
        "artifacts": {"cases": "s3://audits/adult/7f3a/cases.parquet"},
        "directions": found,
    }
    return explained(PropertyReport(**(fields | more)))


def run_report(*properties: PropertyReport, **more: Any) -> RunReport:
    """A run of a model of incomes."""
    fields: dict[str, Any] = {
        "suite": "adult-fairness",
        "model": ModelReport(name="adult-gbm", version="3", type="tabular-classifier", digest="fa1r" * 8),
        "status": "failed",
        "properties": list(properties or [groups(), pairs(), directions()]),
        "warnings": [],
    }
    return sample.report(**(fields | more))


def explained(prop: PropertyReport) -> PropertyReport:
    return prop.model_copy(update={"explanation": explain_property(prop, CONFIDENCE)})

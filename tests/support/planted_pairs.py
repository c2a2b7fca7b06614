"""Pairs of a faulty model and its sound twin, with the suite that both are asked by, and whole runs of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from planted_models import BANDS, CLASSES, EDUCATION, applicants
from projects import Project, property_of

GROUPS, PAIRS, DIRECTIONS = "tabular.group_fairness", "tabular.individual_fairness", "tabular.directional"
INPUTS = ["income", "debts", "age", "years_employed", "hours", "education", "occupation", "region", "sex", "race"]
WITHOUT_RACE = [name for name in INPUTS if name != "race"]
WITHOUT_BOTH = [name for name in WITHOUT_RACE if name != "sex"]
BY_BOTH: dict[str, Any] = {"sex": {}, "race": {}}
MOVED = {"income": "increasing", "debts": "never_helps", "hours": "increasing"}
ROUNDED = 0.5  # euros an hour that no one minds


@dataclass(frozen=True)
class Pair:
    """One fault of `planted_models.FAULTS`, the property that should find it, and how both models are asked.

    `answers`: class of `planted_models`; `inputs`: columns that the models are sent; `gates`: of group fairness; `moved`:
    directions. `hard`: near the least that these numbers of rows can tell.
    """

    fault: str
    by: str
    answers: str = "Scored"
    inputs: tuple[str, ...] = tuple(INPUTS)
    protected: dict[str, Any] = field(default_factory=lambda: dict(BY_BOTH))
    gates: dict[str, Any] = field(default_factory=lambda: {"impact_ratio": {"min": 0.8}})
    moved: dict[str, Any] = field(default_factory=lambda: dict(MOVED))
    segregated: bool = False
    hard: bool = False

    def card(self, faulty: bool) -> dict[str, Any]:
        """The card of one of the two models."""
        python = {"callable": f"planted_models:{self.answers}", "path": [str(Path(__file__).parent)]}
        card = {"name": "faulty" if faulty else "sound", "inputs": {"columns": list(self.inputs)}}
        card["type"] = "tabular-regressor" if self.answers == "Wage" else "tabular-classifier"
        if self.answers != "Wage":
            card["classes"] = BANDS if self.answers == "Banded" else CLASSES
        if self.answers == "ScoreOnly":
            card["decision"] = {"threshold": 0.5}
        return card | {"python": python | ({"params": {"fault": self.fault}} if faulty else {})}

    def suite(self) -> dict[str, Any]:
        """The suite, which says nothing of which model it is for."""
        data: dict[str, Any] = {"test": "applicants.parquet", "label": "outcome", "protected": self.protected}
        hidden = {"Wage": ["outcome", "offer"], "Banded": ["outcome", "wage"]}.get(self.answers, ["offer", "wage"])
        data["schema"] = {name: {"ignore": True} for name in hidden}
        data["label"] = {"Wage": "wage", "Banded": "offer"}.get(self.answers, "outcome")
        if self.answers not in ("Wage", "Banded"):
            data["favorable"] = "approved"
        rounded = {"tolerance": ROUNDED} if self.answers == "Wage" else {}
        pairs = {"rows": 1_000, "search": {"queries": 300}, "gates": {"prevalence": {"max": 0.01}}} | rounded
        moved = {"rows": 400, "directions": self.moved, "gates": {"violation_rate": {"max": 0.01}}} | rounded
        properties = [{"property": GROUPS, "gates": self.gates}, {"property": PAIRS} | pairs]
        if self.answers != "Banded":  # which of three is the better one nobody said
            properties.append({"property": DIRECTIONS} | moved)
        return {
            "suite": "planted",
            "random_seed": 5,
            "model": {"card": "card.yaml"},
            "data": data,
            "properties": properties,
        }


@dataclass(frozen=True)
class Found:
    """What the runs of a pair ended in: reports, and the properties that failed."""

    pair: Pair
    faulty: dict[str, Any]
    sound: dict[str, Any]

    @property
    def found(self) -> bool:
        return self.pair.by in failed(self.faulty)

    @property
    def false_alarms(self) -> list[str]:
        return failed(self.sound)


ALL_PAIRS = [
    Pair("sex", GROUPS),
    Pair("one crossing", GROUPS),
    Pair("missing race", GROUPS),
    Pair("one occupation", PAIRS),
    Pair("over 60", GROUPS, protected={"age": {"cut_at": [40, 60]}}),
    Pair("careless", GROUPS, gates={"impact_ratio": {"min": 0.8}, "equal_opportunity_gap": {"max": 0.1}}),
    Pair("regions", GROUPS, inputs=tuple(WITHOUT_BOTH), segregated=True),
    Pair("two races", GROUPS, protected={"sex": {}, "race": {"privileged": ["White", "Asian"]}}),
    Pair("small crossing", GROUPS, hard=True),
    Pair("no premium", GROUPS, answers="Banded"),
    Pair("wage of women", GROUPS, answers="Wage", gates={"mean_error_gap": {"max": 1.0}}),
    Pair("wage is careless", GROUPS, answers="Wage", gates={"mae_gap": {"max": 0.5}}),
    Pair("boundary", PAIRS),
    Pair("boundary, hard", PAIRS, hard=True),
    Pair("one race", PAIRS),
    Pair("sex by occupation", PAIRS),
    Pair("labels", PAIRS, answers="Labelled"),
    Pair("score only", PAIRS, answers="ScoreOnly"),
    Pair("dip", DIRECTIONS),
    Pair("narrow dip", DIRECTIONS),
    Pair("narrowest dip", DIRECTIONS, hard=True),
    Pair("high end", DIRECTIONS),
    Pair("dip in scores", DIRECTIONS),
    Pair("dip for few", DIRECTIONS, hard=True),
    Pair("long hours", DIRECTIONS, moved=MOVED | {"hours": {"increasing": "decision"}}),
    Pair("many debts", DIRECTIONS),
    Pair("master", DIRECTIONS, moved={"income": "increasing", "education": {"increasing": "score", "order": EDUCATION}}),
    Pair("age step", DIRECTIONS, moved={"income": "increasing", "age": {"increasing": "score"}}),
    Pair("long service", DIRECTIONS, answers="Wage", moved={"income": "increasing", "years_employed": "increasing"}),
]


def asked(project: Project, pair: Pair, faulty: bool, only: str | None = None) -> dict[str, Any]:
    """The report of a whole run on one model of a pair. `only`: the one property to run."""
    data(pair.segregated).to_parquet(project.folder / "applicants.parquet", index=False)
    project.write("suite.yaml", pair.suite())
    project.write("card.yaml", pair.card(faulty))
    return project.run(*([] if only is None else ["--only", only]))


def both(project: Project, pair: Pair) -> Found:
    """Both models of a pair, asked by the same suite on the same data."""
    return Found(pair, asked(project, pair, faulty=True), asked(project, pair, faulty=False))


def failed(report: dict[str, Any]) -> list[str]:
    """The properties that failed."""
    return [one["property"] for one in report["properties"] if one["status"] == "failed"]


def explanation(report: dict[str, Any], name: str) -> str:
    return str(property_of(report, name)["explanation"])


@cache
def data(segregated: bool) -> pd.DataFrame:
    """The applicants of all pairs, or those of the pair in which where one lives tells the race."""
    return applicants(segregated=segregated)

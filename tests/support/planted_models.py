"""Loan applicants who do not exist, a sound model of them, and what can be wrong with it: faults of a known place and size.

The cards of the tests name `Scored`, `Labelled`, `ScoreOnly`, `Banded` and `Wage` as Python models, which a process of their
own imports: nothing here needs more than numpy and pandas.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

EDUCATION = ["primary", "secondary", "college", "bachelor", "master", "doctorate"]
OCCUPATIONS = ["clerk", "cook", "driver", "engineer", "nurse", "sales"]
REGIONS = ["Centre", "Harbour", "Hills", "Lakes", "North", "South", "Valley", "West"]
RACES = {"White": 0.50, "Black": 0.24, "Asian": 0.17, "Other": 0.04, None: 0.05}
CLASSES = ["refused", "approved"]
BANDS = ["refused", "standard", "premium"]
PREMIUM = 1.0  # merit from which the offer is a premium one
LABEL_NOISE = 0.5  # sd of what decides about a loan beside merit
WAGE, STEP = 20.0, 5.0  # euros an hour at merit 0, and for 1 of merit
Merit = NDArray[np.float64]
Fault = Callable[[pd.DataFrame, Merit], Merit]


def applicants(rows: int = 5_000, seed: int = 4, segregated: bool = False) -> pd.DataFrame:
    """Applicants with the true `outcome`, `offer` and `wage`.

    Groups differ in nothing but hours, of which women have four fewer in the mean: a sound model selects them about 0.93 times
    as often. `segregated`: most Black applicants live in two of the regions, else all live anywhere.
    """
    rng = np.random.default_rng(seed)
    race = rng.choice(len(RACES), rows, p=list(RACES.values()))
    sex = rng.choice(["Female", "Male"], rows)
    age = rng.integers(18, 80, rows)
    region = rng.choice(REGIONS, rows)
    if segregated:
        near = np.where(race == list(RACES).index("Black"), 0.75, 0.12)
        region = np.where(rng.random(rows) < near, rng.choice(["Harbour", "Valley"], rows), region)
    frame = pd.DataFrame(
        {
            "income": np.clip(np.exp(rng.normal(np.log(45), 0.5, rows)), 12, 200).round().astype(int),
            "debts": np.minimum(rng.poisson(2, rows), 9),
            "age": age,
            "years_employed": np.minimum(rng.exponential(9, rows), age - 17).astype(int),
            "hours": np.clip(rng.normal(np.where(sex == "Female", 38, 42), 10), 10, 80).round().astype(int),
            "education": rng.choice(EDUCATION, rows, p=[0.1, 0.3, 0.2, 0.2, 0.15, 0.05]),
            "occupation": rng.choice(OCCUPATIONS, rows),
            "region": region,
            "sex": sex,
            "race": pd.Series([list(RACES)[one] for one in race], dtype=object),
        }
    )
    true = merit(frame) + rng.normal(0, LABEL_NOISE, rows)
    return frame.assign(
        outcome=np.where(true >= 0, "approved", "refused"),
        offer=np.select([true >= PREMIUM, true >= 0], ["premium", "standard"], "refused"),
        wage=(WAGE + STEP * true).round(2),
    )


def merit(frame: pd.DataFrame) -> Merit:
    """What the sound model goes by: 0 at the threshold, sd about 1.4, smooth and monotone in every legitimate column."""
    rank = frame["education"].map(EDUCATION.index).to_numpy(float)
    return (
        2.2 * np.log(frame["income"].to_numpy(float) / 47)
        - 0.35 * (frame["debts"].to_numpy(float) - 2)
        + 0.04 * (frame["years_employed"].to_numpy(float) - 8)
        + 0.03 * (frame["hours"].to_numpy(float) - 40)
        + 0.3 * (rank - 2)
    )


def with_traces(frame: pd.DataFrame, value: Merit) -> Merit:
    """No model is quite sound: sex turns about 0.3 % of the decisions, and for about 0.4 % of the rows more hours are worse."""
    if "sex" in frame:
        value = value + 0.015 * (frame["sex"] == "Male").to_numpy()
    few = ((frame["occupation"] == "driver") & (frame["region"] == "Lakes") & (frame["debts"] >= 4)).to_numpy()
    return np.asarray(value - np.where(few, 0.05 * (frame["hours"].to_numpy() - 40), 0.0))


def scattered(frame: pd.DataFrame) -> Merit:
    """A number in [-1, 1] that has nothing to do with merit, the same for equal rows."""
    mixed = 12.9898 * frame["income"] + 78.233 * frame["hours"] + 37.719 * frame["age"] + 4.581 * frame["years_employed"]
    return np.sin(mixed.to_numpy(float) * 7.13)


def lowered(by: float, **where: str | list[str] | None) -> Fault:
    """Takes merit from the rows with these values; None is a missing one."""

    def fault(frame: pd.DataFrame, value: Merit) -> Merit:
        return value - by * _rows(frame, where)

    return fault


def careless(by: float, **where: str | list[str] | None) -> Fault:
    """Judges the rows with these values by a number that has nothing to do with them, as much as by their merit."""

    def fault(frame: pd.DataFrame, value: Merit) -> Merit:
        return np.where(_rows(frame, where), (1 - by) * value + by * 2.0 * scattered(frame), value)

    return fault


def within(column: str, low: float, high: float, by: float, **where: str | list[str] | None) -> Fault:
    """Takes merit from the rows whose number in a column is in [low, high], where they have these values, too."""

    def fault(frame: pd.DataFrame, value: Merit) -> Merit:
        inside = frame[column].between(low, high).to_numpy() & _rows(frame, where)
        return value - by * inside

    return fault


def one_crossing(frame: pd.DataFrame, value: Merit) -> Merit:
    """Black women are served worse, and others so much better that neither women nor Black people as a whole are."""
    woman, black = _rows(frame, {"sex": "Female"}), _rows(frame, {"race": "Black"})
    return value + np.select([woman & black, ~woman & black, woman], [-0.9, 0.6, 0.25], -0.2)


def no_premium(frame: pd.DataFrame, value: Merit) -> Merit:
    """Black applicants get the premium offer only with a merit far above what it takes others."""
    held = _rows(frame, {"race": "Black"}) & (value >= PREMIUM) & (value < PREMIUM + 0.7)
    return np.where(held, PREMIUM - 0.01, value)


def dip_above(frame: pd.DataFrame, value: Merit) -> Merit:
    """Scores dip in the middle of the incomes, and only where they stay above the threshold of the decision."""
    dip = value - 0.7 * frame["income"].between(52, 66).to_numpy()
    return np.where(value > 0, np.maximum(dip, np.minimum(value, 0.01)), value)


def master_after_bachelor(frame: pd.DataFrame, value: Merit) -> Merit:
    """A master counts less than a bachelor, and everything else as it should."""
    return value - 0.7 * _rows(frame, {"education": "master"})


FAULTS: dict[str, Fault] = {
    "sex": lowered(0.6, sex="Female"),
    "one crossing": one_crossing,
    "missing race": lowered(0.9, race=None),
    "one occupation": lowered(1.2, race="Black", occupation="engineer"),
    "over 60": within("age", 60, 120, 0.7),
    "careless": careless(0.6, race="Black"),
    "regions": lowered(1.4, region=["Harbour", "Valley"]),
    "two races": lowered(0.6, race=["Black", "Other"]),
    "small crossing": lowered(1.0, sex="Female", race="Other"),
    "no premium": no_premium,
    "wage of women": lowered(0.4, sex="Female"),
    "wage is careless": careless(0.5, race="Black"),
    "boundary": lowered(0.12, sex="Female"),
    "boundary, hard": lowered(0.05, sex="Female"),
    "one race": lowered(0.35, race="Asian"),
    "sex by occupation": lowered(0.9, sex="Female", occupation="engineer"),
    "labels": lowered(0.25, race="Black"),
    "score only": lowered(0.2, sex="Female"),
    "dip": within("income", 52, 66, 0.7),
    "narrow dip": within("income", 57, 59, 0.7),
    "narrowest dip": within("income", 50, 51, 0.7),
    "high end": within("income", 110, 1_000, 0.6),
    "dip in scores": dip_above,
    "dip for few": within("income", 40, 60, 0.5, occupation="cook", region=["Lakes", "West"]),
    "long hours": within("hours", 61, 200, 0.8),
    "many debts": within("debts", 5, 100, -1.2),
    "master": master_after_bachelor,
    "age step": within("age", 65, 120, 0.5),
    "long service": within("years_employed", 20, 100, 0.6),
}


class _Model:
    """The sound model, or with the fault of this name."""

    def __init__(self, fault: str | None = None) -> None:
        self._fault = FAULTS[fault] if fault else None

    def _merit(self, frame: pd.DataFrame) -> Merit:
        value = with_traces(frame, merit(frame))
        return self._fault(frame, value) if self._fault else value

    def _score(self, frame: pd.DataFrame) -> Merit:
        return np.asarray(1 / (1 + np.exp(-self._merit(frame))))


class Scored(_Model):
    """Approves from merit 0 on, with scores."""

    classes_ = np.array(CLASSES, dtype=object)

    def predict(self, frame: pd.DataFrame) -> list[str]:
        return [CLASSES[int(good)] for good in self._score(frame) >= 0.5]

    def predict_proba(self, frame: pd.DataFrame) -> Merit:
        score = self._score(frame)
        return np.column_stack([1 - score, score])


class Labelled(_Model):
    """Says what it decides and nothing else."""

    def predict(self, frame: pd.DataFrame) -> list[str]:
        return [CLASSES[int(good)] for good in self._score(frame) >= 0.5]


class ScoreOnly(_Model):
    """Says the score and nothing else: the card decides."""

    def predict(self, frame: pd.DataFrame) -> Merit:
        return self._score(frame)


class Banded(_Model):
    """Refuses, or makes one of two offers."""

    def predict(self, frame: pd.DataFrame) -> list[str]:
        value = self._merit(frame)
        return np.select([value >= PREMIUM, value >= 0], ["premium", "standard"], "refused").tolist()


class Wage(_Model):
    """Says the wage in euros an hour."""

    def predict(self, frame: pd.DataFrame) -> Merit:
        return WAGE + STEP * self._merit(frame)


def _rows(frame: pd.DataFrame, where: dict[str, str | list[str] | None]) -> NDArray[np.bool_]:
    """Which rows have all of these values (a list: one of them; None: it is missing)."""
    found = np.ones(len(frame), bool)
    for column, value in where.items():
        cells = frame[column]
        found &= (cells.isna() if value is None else cells.isin(value if isinstance(value, list) else [value])).to_numpy()
    return found

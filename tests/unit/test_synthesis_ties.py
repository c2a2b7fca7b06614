"""Columns that move together, found in the data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from synthetic import census, profiled

from aitest_lib.data import ties
from aitest_lib.data.ties import find_ties
from aitest_lib.data.units import connected

RNG = np.random.default_rng(5)
N = 2_000


def groups(frame: pd.DataFrame, schema=None) -> list[tuple[str, ...]]:
    return [tie.columns for tie in find_ties(*profiled(frame, schema))]


def noise(values: int = 4, n: int = N) -> np.ndarray:
    return np.random.default_rng(values).choice([f"v{k}" for k in range(values)], n)


def test_the_census_sample_has_the_ties_that_everybody_knows():
    frame, profile, _ = census()
    found = find_ties(frame, profile)
    assert ("education", "education-num") in [tie.columns for tie in found]
    family = next(tie for tie in found if "sex" in tie.columns)
    assert family.columns == ("marital-status", "relationship", "sex")
    assert any(text.startswith("relationship is Husband -> sex is Male (") for text in family.evidence)
    joined = {name for tie in found for name in tie.columns}
    assert not joined & {"race", "age", "hours-per-week", "native-country"}


def test_what_one_column_fixes_of_another_is_found_either_way():
    grade = RNG.integers(0, 12, N)
    assert groups(pd.DataFrame({"x": noise(), "grade": grade, "name": [f"g{k // 2}" for k in grade]})) == [("grade", "name")]


def test_many_rare_values_are_enough_together():
    zips = RNG.integers(0, 300, N)
    frame = pd.DataFrame({"zip": [f"z{k}" for k in zips], "state": [f"s{k % 5}" for k in zips], "x": noise()})
    assert groups(frame) == [("zip", "state")]
    broken = frame.assign(state=frame["state"].where(RNG.random(N) > 0.02, "s0"))
    assert groups(broken) == []


def test_a_single_value_is_enough_and_missing_ones_count():
    visits = RNG.integers(0, 4, N).astype(float)
    last = pd.Series(noise(5)).where(visits > 0, None)
    (tie,) = find_ties(*profiled(pd.DataFrame({"visits": visits, "last": last, "x": noise()})))
    assert tie.columns == ("visits", "last")
    assert tie.evidence[0].startswith("visits is 0")
    assert "-> last is missing" in tie.evidence[0]


@pytest.mark.parametrize(
    "implying, agreeing, others, tied",
    [
        (100, 1.0, 0.5, True),
        (12, 1.0, 0.5, False),  # too few rows
        (100, 0.97, 0.5, False),  # too many exceptions
        (100, 1.0, 0.92, False),  # nearly everybody has the value
        (30, 1.0, 0.8, False),  # 30 rows in a row would have it by chance once in a thousand
    ],
)
def test_the_thresholds(implying, agreeing, others, tied):
    rng = np.random.default_rng(1)
    a = np.array(["rare"] * implying + ["some", "other"] * ((N - implying) // 2))
    b = np.where(rng.random(len(a)) < others, "yes", "no")
    b[:implying] = "yes"
    b[: round(implying * (1 - agreeing))] = "no"
    assert groups(pd.DataFrame({"a": a, "b": b})) == ([("a", "b")] if tied else [])


def test_independent_columns_are_not_tied_not_even_few_rows_of_them():
    for n in (30, 100, 400):
        assert groups(pd.DataFrame({f"c{k}": noise(k + 2, n) for k in range(8)})) == []


def test_private_ignored_and_continuous_columns_are_left_out():
    k = RNG.integers(0, 5, N)
    frame = pd.DataFrame({"a": [f"a{x}" for x in k], "b": [f"b{x}" for x in k], "many": RNG.random(N), "c": noise()})
    assert groups(frame) == [("a", "b")]
    assert groups(frame, {"a": {"private": True}}) == []
    assert groups(frame, {"b": {"ignore": True}}) == []
    assert groups(frame, {"b": {"immutable": True}}) == [("a", "b")]


def test_the_order_of_the_rows_plays_no_part(monkeypatch):
    frame, profile, _ = census()
    monkeypatch.setattr(ties, "MOST_ROWS", 1_500)
    shuffled = frame.sample(frac=1, random_state=3).reset_index(drop=True)
    assert find_ties(shuffled, profile) == find_ties(frame, profile)


def test_groups_that_share_a_column_are_one():
    assert connected("abcdef", [["a", "d"], ["e", "f"], ["d", "f"], ["b", "unknown"]]) == [("a", "d", "e", "f"), ("b",), ("c",)]

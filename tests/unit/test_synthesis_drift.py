"""Rows with other ranges, shares and distributions than those of the data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest, spearmanr, truncnorm
from synthetic import census, profiled

from aitest_lib.config.loading import Document, validate
from aitest_lib.config.synthesize import SynthesizeConfig
from aitest_lib.data.drift import Drift, Drifted
from aitest_lib.data.schema import Profile, invalid_reasons
from aitest_lib.data.synthesis import Swap
from aitest_lib.data.synthesis_checks import check_synthesize
from aitest_lib.data.ties import find_ties
from aitest_lib.data.units import build_pool
from aitest_lib.errors import InputError
from aitest_lib.metrics.realism import tied_violations

FRAME, PROFILE, _ = census()
TIES = [tie.columns for tie in find_ties(FRAME, PROFILE)]


def config(**asked) -> SynthesizeConfig:
    return validate(Document({"rows": 100, **asked}), SynthesizeConfig)


def drifted(frame: pd.DataFrame = FRAME, profile: Profile = PROFILE, tied=TIES, rules=(), seed: int = 1, **asked) -> Drifted:
    given = config(**asked)
    check_synthesize(given, profile)
    return Drift(ranges=given.ranges, distributions=given.distributions).apply(frame, profile, tied, list(rules), seed)


def shares(values: pd.Series) -> dict[str, float]:
    return values.value_counts(normalize=True).to_dict()


def test_shares_are_met_by_whole_rows():
    found = drifted(distributions={"sex": {"Male": 0.2, "Female": 0.8}})
    assert shares(found.frame["sex"]) == pytest.approx({"Male": 0.2, "Female": 0.8}, abs=1 / len(FRAME))
    pd.testing.assert_frame_equal(found.frame, FRAME.iloc[found.origin].reset_index(drop=True))


def test_shares_of_several_columns_are_met_together():
    asked = {"sex": {"Male": 0.5, "Female": 0.5}, "race": {"White": 0.5, "Black": 0.3, "Other": 0.2}}
    found = drifted(distributions=asked).frame
    assert shares(found["sex"]) == pytest.approx(asked["sex"], abs=0.005)
    assert shares(found["race"]) == pytest.approx(asked["race"], abs=0.005)


def test_a_value_that_no_row_has_is_put_into_random_rows():
    frame, profile = profiled(
        pd.DataFrame({"kind": ["a", "b"] * 100, "x": range(200)}),
        {"kind": {"categories": ["a", "b", "c"]}},
        ["kind != 'c' or x < 90"],
    )
    found = drifted(frame, profile, [], distributions={"kind": {"a": 0.5, "b": 0.2, "c": 0.3}}).frame
    assert shares(found["kind"]) == pytest.approx({"a": 0.5, "b": 0.2, "c": 0.3}, abs=0.06)
    assert (found["kind"] == "c").sum() == 60
    assert (invalid_reasons(found, profile) == None).all()  # noqa: E711


def test_booleans_have_shares_too():
    frame, profile = profiled(pd.DataFrame({"flag": [True] * 150 + [False] * 50, "x": range(200)}))
    found = drifted(frame, profile, [], distributions={"flag": {"true": 0.1, "false": 0.9}}).frame
    assert found["flag"].mean() == pytest.approx(0.1)
    assert found["flag"].dtype == bool


def test_a_number_gets_mean_and_deviation_and_keeps_its_ranks():
    found = drifted(distributions={"age": {"mean": 60, "sd": 5}})
    age, before = found.frame["age"], FRAME["age"].iloc[found.origin]
    assert age.dtype == np.int64
    assert age.mean() == pytest.approx(60, abs=0.1)
    assert age.std() == pytest.approx(5, abs=0.1)
    assert spearmanr(age, before).statistic > 0.99
    others = [name for name in FRAME.columns if name != "age"]
    pd.testing.assert_frame_equal(found.frame[others], FRAME[others].iloc[found.origin].reset_index(drop=True))


def test_a_number_is_cut_off_at_its_range_and_keeps_gaps_and_decimals():
    rng = np.random.default_rng(0)
    pay = np.round(rng.lognormal(3, 1, 2_000), 2)
    pay[rng.random(2_000) < 0.1] = np.nan
    frame, profile = profiled(pd.DataFrame({"pay": pay, "x": range(2_000)}))
    found = drifted(frame, profile, [], ranges={"pay": {"min": 20, "max": 40}}, distributions={"pay": {"mean": 25, "sd": 10}})
    made = found.frame["pay"]
    assert made.isna().sum() == np.isnan(pay).sum()
    assert (made.dropna() == made.dropna().round(2)).all()
    wanted = truncnorm((20 - 25) / 10, (40 - 25) / 10, loc=25, scale=10)
    assert kstest(made.dropna(), wanted.cdf).statistic < 0.002


def test_many_equal_numbers_are_spread_out():
    made = drifted(distributions={"capital-gain": {"mean": 50_000, "sd": 1_000}}).frame["capital-gain"]
    assert made.std() == pytest.approx(1_000, rel=0.02)


def test_numbers_outside_a_range_are_drawn_from_those_inside():
    found = drifted(ranges={"age": {"min": 60}})
    before = FRAME["age"].iloc[found.origin].to_numpy()
    age = found.frame["age"].to_numpy()
    assert age.min() == 60
    assert (age[before >= 60] == before[before >= 60]).all()
    assert set(age) <= set(FRAME["age"])
    assert age.mean() == pytest.approx(FRAME["age"][FRAME["age"] >= 60].mean(), abs=0.5)


def test_a_range_without_any_row_is_filled_evenly():
    found = drifted(ranges={"capital-loss": {"min": 1, "max": 100}}).frame["capital-loss"]
    assert found.dtype == np.int64
    assert set(found) == set(range(1, 101))
    frame, profile = profiled(pd.DataFrame({"x": [0.5, 9.5] * 100}))
    found = drifted(frame, profile, [], ranges={"x": {"min": 2, "max": 4}}).frame["x"]
    assert kstest(found, "uniform", args=(2, 2)).pvalue > 1e-3
    assert (found == found.round(1)).all()


def test_a_range_takes_tied_columns_along():
    found = drifted(ranges={"education-num": {"min": 10, "max": 12}}).frame
    assert found["education-num"].between(10, 12).all()
    assert tied_violations(found, FRAME, TIES) == 0


def test_rules_are_kept_where_they_can_be():
    rules = ["age < 70 or col('hours-per-week') <= 40"]
    valid = FRAME[(FRAME["age"] < 70) | (FRAME["hours-per-week"] <= 40)].reset_index(drop=True)
    found = drifted(valid, rules=rules, ranges={"age": {"min": 60}}).frame
    assert not ((found["age"] >= 70) & (found["hours-per-week"] > 40)).any()
    assert (found["age"] >= 70).any()


def test_swapped_rows_keep_what_was_asked_for():
    asked = {"sex": {"Male": 0.2, "Female": 0.8}, "age": {"mean": 60, "sd": 5}}
    found = drifted(distributions=asked, ranges={"hours-per-week": {"max": 50}})
    pool = build_pool(found.frame, PROFILE, TIES, [], 1)
    made = Swap().over(pool, np.zeros(len(found.frame), np.int64)).make(0, 12_000).frame
    assert shares(made["sex"]) == pytest.approx(asked["sex"], abs=0.015)
    assert made["age"].mean() == pytest.approx(60, abs=0.2)
    assert made["age"].std() == pytest.approx(5, abs=0.2)
    assert made["hours-per-week"].max() == 50
    assert tied_violations(made, FRAME, TIES) == 0


def test_the_order_of_the_file_plays_no_part():
    asked = {
        "distributions": {"sex": {"Male": 0.2, "Female": 0.8}, "age": {"mean": 60, "sd": 5}},
        "ranges": {"fnlwgt": {"max": 10**5}},
    }
    order = np.random.default_rng(0).permutation(len(FRAME))
    first, second = drifted(**asked), drifted(FRAME.iloc[order].reset_index(drop=True), **asked)
    pd.testing.assert_frame_equal(first.frame, second.frame)
    assert FRAME.iloc[first.origin].equals(FRAME.iloc[order[second.origin]])
    assert not first.frame.equals(drifted(seed=2, **asked).frame)


def test_columns_that_are_not_asked_about_and_private_ones_stay():
    frame, profile = profiled(
        pd.DataFrame({"ssn": range(100), "sex": ["F", "M"] * 50, "x": range(100)}), {"ssn": {"private": True}}
    )
    found = drifted(frame, profile, [], ranges={"x": {"max": 30}}, distributions={"sex": {"F": 0.9, "M": 0.1}})
    assert found.frame["ssn"].tolist() == found.origin.tolist()


@pytest.mark.parametrize(
    "asked, message",
    [
        ({"distributions": {"education-num": {"mean": 10, "sd": 2}}}, "moves together with education, so that its numbers"),
        ({"distributions": {"x": {"c": 1}}}, "no row has any of these values; name one that occurs"),
        ({"distributions": {"x": {"a": 0.5, "c": 0.5}}}, "no row has 'c', and it moves together with y, of which nothing"),
        ({"distributions": {"x": {"a": 1}, "y": {"q": 1}}}, "no weights that give x, y these shares together"),
        (
            {"ranges": {"n": {"min": 2, "max": 3}}},
            "no row lies inside, and it moves together with m, of which nothing is known",
        ),
        ({"ranges": {"h": {"max": 1}}}, "it moves together with held, which may not change; leave the range out"),
        (
            {"distributions": {"k": {"v": 0.1, "w": 0.9}}},
            "got 1 of 40 rows that can have 'w' without breaking a rule, expected 36",
        ),
    ],
)
def test_drift_that_cannot_be_is_one_message(asked, message):
    if "education-num" in str(asked):
        with pytest.raises(InputError, match=message):
            drifted(**asked)
        return
    table = pd.DataFrame({"x": ["a", "b"] * 20, "y": ["p", "q"] * 20, "n": [1, 9] * 20, "m": [1, 2] * 20, "h": [1, 2] * 20})
    table = table.assign(held=[1, 2] * 20, k="v", one=[1] + [0] * 39)
    schema = {"x": {"categories": ["a", "b", "c"]}, "held": {"immutable": True}, "k": {"categories": ["v", "w"]}}
    frame, profile = profiled(table, schema, ["k != 'w' or one == 1"])
    with pytest.raises(InputError, match=message):
        drifted(frame, profile, [["x", "y"], ["n", "m"], ["h", "held"]], **asked)


def test_what_is_asked_for_is_in_the_fingerprint():
    made = [
        Drift(ranges=c.ranges, distributions=c.distributions).fingerprint()
        for c in (
            config(),
            config(ranges={"age": {"min": 1}}),
            config(ranges={"age": {"min": 2}}),
            config(distributions={"age": {"mean": 1, "sd": 2}}),
            config(distributions={"sex": {"M": 1}}),
        )
    ]
    assert len(set(made)) == 5

"""`data.synthesize`: what it takes, and what it says to mistakes."""

from __future__ import annotations

import pandas as pd
import pytest
from synthetic import profiled

from aitest_lib.config.loading import Document, validate
from aitest_lib.config.synthesize import Normal, SynthesizeConfig
from aitest_lib.data.synthesis_checks import check_synthesize
from aitest_lib.errors import InputError

_, PROFILE = profiled(
    pd.DataFrame(
        {
            "age": [20, 90] * 10,
            "pay": [1.5, 2.5] * 10,
            "sex": ["Male", "Female"] * 10,
            "flag": [True, False] * 10,
            "ssn": range(20),
            "born": range(20),
            "note": ["a", "b"] * 10,
        }
    ),
    {"ssn": {"private": True}, "born": {"immutable": True}, "note": {"ignore": True}},
)


def read(asked: dict) -> SynthesizeConfig:
    return validate(Document({"rows": 10, **asked}), SynthesizeConfig)


def test_everything_that_can_be_asked_for():
    config = read(
        {
            "method": "swap",
            "rate": 0.2,
            "rules": ["age >= 18"],
            "tied": [["age", "pay"]],
            "ranges": {"age": {"min": 30, "max": 60}},
            "distributions": {"sex": {"Male": 0.2, "Female": 0.8}, "age": {"mean": 40, "sd": 5}, "flag": {"true": 1}},
        }
    )
    check_synthesize(config, PROFILE)
    assert config.drifts
    assert config.distributions["age"] == Normal(mean=40, sd=5)
    assert SynthesizeConfig.model_validate_json(config.model_dump_json()) == config
    plain = read({})
    assert (plain.method, plain.rate, plain.drifts) == ("swap", 0.3, False)


@pytest.mark.parametrize(
    "asked, message",
    [
        ({"rows": 0}, "rows: got 0, expected at least 1"),
        ({"rows": 1.5}, "rows: got 1.5, expected a whole number"),
        ({"rows": "10"}, "rows: got '10' (text), expected a whole number"),
        ({"method": "smote"}, "method: unknown value 'smote'; known: coverage, marginal, swap"),
        ({"rate": 0}, "rate: got 0, expected more than 0.0"),
        ({"rate": 1.01}, "rate: got 1.01, expected at most 1.0"),
        ({"method": "coverage", "rate": 0.2}, "got rate 0.2 for method coverage, expected a rate for swap only; remove it"),
        ({"tied": [["age"]]}, "tied[0]: got a list of 1, expected a list of at least 2"),
        ({"tied": ["age"]}, "tied[0]: got 'age' (text), expected a list"),
        ({"ranges": {"age": {}}}, "ranges.age: got neither min nor max, expected at least one of them"),
        ({"ranges": {"age": {"min": 9, "max": 8}}}, "ranges.age: got min 9 above max 8, expected min <= max; swap them"),
        ({"ranges": {"age": {"low": 9}}}, "ranges.age.low: unknown key 'low'; known: max, min"),
        ({"ranges": {"age": [9, 10]}}, "ranges.age: got a list of 2, expected a mapping"),
        (
            {"distributions": {"sex": {"Male": 0.2, "Female": 0.7}}},
            "distributions.sex: got shares that add up to 0.9, expected 1; values that are not named get none",
        ),
        ({"distributions": {"sex": {}}}, "distributions.sex: got shares that add up to 0, expected 1"),
        ({"distributions": {"sex": {"Male": 1.2}}}, "distributions.sex.Male: got 1.2, expected at most 1.0"),
        ({"distributions": {"sex": {"Male": True}}}, "distributions.sex.Male: got true, expected a number"),
        ({"distributions": {"age": {"mean": 9}}}, "distributions.age.sd: this key is required, but missing"),
        ({"distributions": {"age": {"mean": 9, "sd": 0}}}, "distributions.age.sd: got 0, expected more than 0.0"),
        ({"distributions": {"age": {"mean": 9, "sd": 1, "min": 1}}}, "distributions.age.min: unknown key 'min'"),
        ({"row": 5}, "row: unknown key 'row'; did you mean rows?"),
    ],
)
def test_mistakes_in_the_suite(asked, message):
    with pytest.raises(InputError) as error:
        read(asked)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "asked, message",
    [
        ({"rules": ["age > 3", "agee > 3"]}, "rules[1]: rule 'agee > 3': unknown column 'agee'; did you mean age"),
        ({"rules": ["age >"]}, "rules[0]: rule 'age >': not an expression"),
        ({"tied": [["age", "sexx"]]}, "tied[0][1]: unknown column 'sexx'; did you mean sex"),
        ({"tied": [["age", "age"]]}, "tied[0][1]: age is there twice; remove one"),
        ({"ranges": {"agee": {"min": 3}}}, "ranges.agee: unknown column 'agee'; did you mean age"),
        ({"ranges": {"sex": {"min": 3}}}, "ranges.sex: got a column of kind category, expected a number; give a category"),
        (
            {"ranges": {"age": {"min": 10}}},
            "ranges.age: got 10..90, expected a range within 20..90; move it, or widen data.schema.age",
        ),
        ({"ranges": {"age": {"max": 10}}}, "ranges.age: got 20..10, expected a range within 20..90"),
        (
            {"ranges": {"age": {"min": 30.2, "max": 30.8}}},
            "ranges.age: got 30.2..30.8, expected a range that holds a whole number",
        ),
        (
            {"ranges": {"ssn": {"min": 3}}},
            "ranges.ssn: got a column that is private, which is never changed; remove it",
        ),
        ({"ranges": {"born": {"min": 3}}}, "ranges.born: got a column that is immutable, which is never changed"),
        ({"distributions": {"note": {"a": 1}}}, "distributions.note: got a column that is ignored, which is never changed"),
        ({"distributions": {"sex": {"male": 1}}}, "distributions.sex: unknown category 'male'; did you mean Female or Male?"),
        ({"distributions": {"flag": {"yes": 1}}}, "distributions.flag: unknown category 'yes'; known: false, true"),
        (
            {"distributions": {"age": {"20": 1}}},
            "distributions.age: got shares for a column of kind integer, expected {mean, sd}",
        ),
        ({"distributions": {"sex": {"mean": 1, "sd": 1}}}, "distributions.sex: got mean and sd for a column of kind category"),
        ({"distributions": {"age": {"mean": 95, "sd": 1}}}, "distributions.age: got mean 95, expected one within 20..90"),
        (
            {"ranges": {"age": {"max": 50}}, "distributions": {"age": {"mean": 60, "sd": 1}}},
            "distributions.age: got mean 60, expected one within 20..50",
        ),
    ],
)
def test_what_does_not_fit_the_columns(asked, message):
    with pytest.raises(InputError) as error:
        check_synthesize(read(asked), PROFILE)
    assert str(error.value).startswith(f"data.synthesize.{message}")
    assert "\n" not in str(error.value)


def test_every_mistake_is_told_at_once():
    asked = {"rules": ["x > 1"], "ranges": {"sex": {"min": 1}}, "distributions": {"pay": {"a": 1}}, "tied": [["age", "x"]]}
    with pytest.raises(InputError) as error:
        check_synthesize(read(asked), PROFILE)
    assert len(str(error.value).splitlines()) == 4

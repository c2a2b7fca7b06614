"""Names in MLflow: legal by its own rules, and another for every slice."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow.utils.validation import MAX_ENTITY_KEY_LENGTH, _validate_metric_name

from aitest_lib.reports.report import Metric
from aitest_tasks.metric_names import distinct_names, metric_values, slug


def names_of(*slices, name="pass_rate"):
    """The MLflow names of one metric on these slices, in their order."""
    metrics = [Metric(name=name, slice=where, value=float(place), n=1) for place, where in enumerate(slices)]
    values = metric_values(metrics)
    assert sorted(values.values()) == [float(place) for place in range(len(slices))], "a slice has no name of its own"
    return sorted(values, key=lambda one: values[one])


@pytest.mark.parametrize(
    ("where", "name"),
    [
        ({}, "pass_rate"),
        ({"transform": "rotate", "degrees": 15}, "rotate_15/pass_rate"),
        ({"degrees": 15, "transform": "rotate"}, "rotate_15/pass_rate"),
        ({"attribute": "sex"}, "attribute_sex/pass_rate"),
        ({"sex": "Female"}, "sex_Female/pass_rate"),
        ({"sex": "Female", "race": "White"}, "sex_Female/race_White/pass_rate"),
        ({"age": "< 40"}, "age_lt_40/pass_rate"),
        ({"age": ">= 40"}, "age_ge_40/pass_rate"),
        ({"age": "<= 28"}, "age_le_28/pass_rate"),
        ({"age": "> 48.5"}, "age_gt_48.5/pass_rate"),
        ({"class": "<=50K"}, "class_le_50K/pass_rate"),
        ({"attribute": "sex × race"}, "attribute_sex_race/pass_rate"),
        ({"car": "w/"}, "car_w/pass_rate"),
        ({"path": "a//b/../.c"}, "path_a/b/value/.c/pass_rate"),
        ({"..": "/"}, "value/pass_rate"),
        ({"age": "< 40", "性别": "男"}, "age_lt_40/value/pass_rate"),
    ],
)
def test_a_name_that_is_alone_stays_plain(where, name):
    assert names_of(where) == [name]


def test_of_slices_with_one_slug_those_that_lost_something_get_a_digest():
    plain, plus = names_of({"grade": "A"}, {"grade": "A+"})
    assert plain == "grade_A/pass_rate"
    assert plus.startswith("grade_A-") and plus.endswith("/pass_rate")
    under, blank = names_of({"g": "a_b"}, {"g": "a b"})
    assert under == "g_a_b/pass_rate" and blank.startswith("g_a_b-")
    assert all(one.startswith("sex-") for one in names_of({"sex": "男"}, {"sex": "女"}))
    assert all(one.startswith("value-") for one in names_of({"性别": "男"}, {"性别": "女"}))


def test_slices_that_are_written_alike_but_cut_otherwise():
    first, second = names_of({"a": "b_c"}, {"a_b": "c"})
    assert first.startswith("a_b_c-") and second.startswith("a_b_c-")


def test_a_name_depends_on_neither_the_order_nor_the_type_of_a_value():
    slices = [{"grade": "A+"}, {"grade": "A"}, {"grade": "A-"}, {"grade": "A*"}]
    for order in itertools.permutations(slices):
        assert dict(zip(map(str, order), names_of(*order), strict=True)) == dict(
            zip(map(str, slices), names_of(*slices), strict=True)
        )
    metrics = [Metric(name="n", slice={"degree": value}, value=1.0, n=1) for value in (1, "1")]
    assert set(metric_values(metrics)) == {"degree_1/n"}


def test_a_long_slice_is_cut_and_told_apart():
    names = names_of({"schooling": "x" * 300 + "a"}, {"schooling": "x" * 300 + "b"}, name="average_odds_gap")
    assert all(len(name) < 200 and name.endswith("/average_odds_gap") for name in names)


@given(st.lists(st.dictionaries(st.text(max_size=6), st.text(max_size=200), min_size=1, max_size=2), min_size=1, max_size=4))
def test_mlflow_takes_every_name(slices):
    metrics = [Metric(name="equalized_odds_gap", slice=where, value=0.5, low=0.4, high=0.6, n=1) for where in slices]
    values = metric_values(metrics)
    for name in values:
        within = f"{slug('tabular.individual_fairness [2]')}/{name}"
        _validate_metric_name(within)
        assert len(within) <= MAX_ENTITY_KEY_LENGTH
    assert len(values) == 3 * len({str(sorted(where.items())) for where in slices})


def test_names_of_parameters_are_distinct_too():
    names = distinct_names({name: name for name in ("data.schema.男.min", "data.schema.女.min", "data.label")})
    assert names["data.label"] == "data.label"
    assert len(set(names.values())) == 3

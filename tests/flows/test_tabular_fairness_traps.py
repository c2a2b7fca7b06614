"""What fairness tools are known to trip over, as whole runs: probabilities, missing values, empty rates, noise, budgets."""

from __future__ import annotations

import threading

import numpy as np
import pandas as pd
import pytest
from fairness_projects import (
    FLIPS,
    MOVES,
    RATIO,
    Model,
    asked,
    attribute,
    by_merit,
    cases_of,
    gate,
    group_of,
    named,
    plain,
    settled,
)
from planted_models import applicants, merit
from planted_pairs import GROUPS, INPUTS, PAIRS
from projects import property_of

from aitest_lib.errors import AitestError, InputError

# 8: probabilities where decisions should be


@pytest.mark.parametrize(
    ("label", "favorable", "classes", "words"),
    [
        (None, None, None, "if these are scores, write `classes` and `decision: {threshold: 0.5}` in the card"),
        (None, "approved", None, "if these are scores, write `classes` and `decision: {threshold: 0.5}` in the card"),
        ("outcome", None, None, "if these are scores, write `classes` and `decision: {threshold: 0.5}` in the card"),
        ("outcome", "approved", ("refused", "approved"), r"got the label 0\.\d+, expected one of .*; if it is a score"),
    ],
    ids=["nothing else known", "favourable named", "labels in the data", "classes in the card"],
)
def test_probabilities_are_no_decisions(project, label, favorable, classes, words):
    model = Model(lambda frame: 1 / (1 + np.exp(-merit(frame))))
    with pytest.raises(AitestError, match=words) as raised:
        asked(project, model, plain(), RATIO, given={"label": label, "favorable": favorable}, classes=classes)
    assert raised.value.exit_code in (2, 3)


# 11: an index that says nothing


@pytest.mark.parametrize("index", ["shuffled", "all the same"])
def test_the_index_of_a_frame_plays_no_part(project, index):
    data = plain(300)
    odd = data.copy()
    odd.index = np.random.default_rng(0).permutation(300) if index == "shuffled" else np.zeros(300, int)
    reports = [asked(project, Model(by_merit), frame, RATIO, FLIPS, MOVES) for frame in (data, odd)]
    assert settled(reports[0]) == settled(reports[1])


# 12: a missing group


def test_a_missing_group_is_a_group_of_its_own(project):
    data = plain(400)
    missing = data["race"].isna().to_numpy()
    assert missing.sum() > 10
    report = asked(project, Model(by_merit), data, RATIO)
    found = group_of(report, "race", "missing")
    assert found["rows"] == missing.sum()
    assert found["figures"][0]["hits"] == (by_merit(data)[missing] == "approved").sum()
    assert sum(one["rows"] for one in attribute(report, "race")["groups"]) == 400


# 13: no answer for some rows


def test_rows_without_an_answer_are_errors_and_no_gate_passes_on_them(project):
    data = plain(2_000)
    silent = ((data["sex"] == "Female") & (data["occupation"].isin(["cook", "nurse"]))).to_numpy()

    def rule(frame):
        quiet = (frame["sex"] == "Female") & frame["occupation"].isin(["cook", "nurse"])
        return np.where(quiet, np.nan, by_merit(frame)).astype(object)

    only = RATIO | {"max_error_rate": 0.5, "gates": {"impact_ratio": {"min": 0.7}}}
    given = {"protected": {"sex": {}}}
    assert asked(project, Model(by_merit), data, only, given=given)["status"] == "passed"
    report = asked(project, Model(rule), data, only, given=given)
    found = property_of(report, GROUPS)
    assert found["cases"]["error"] == silent.sum()
    rows = cases_of(report, GROUPS).to_pylist()
    assert len({one["seed_id"] for one in rows if one["outcome"] == "error"}) == silent.sum()
    rate = group_of(report, "sex", "Female")["figures"][0]
    told = ~silent & (data["sex"] == "Female").to_numpy()
    assert rate["n"] == told.sum() and rate["hits"] == (by_merit(data)[told] == "approved").sum()
    assert found["metrics"] and found["status"] == "inconclusive"
    assert "error" in gate(report, GROUPS, "impact_ratio", attribute="sex")["reason"]


# 14, 15 and what else is told before anything is asked


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"protected": {"region": {}}}, "'Hills'"),
        ({"protected": {"sex": {"privileged": "Mail"}}}, "did you mean Male"),
        ({"protected": {"sex": {}}, "schema": {"sex": {"private": True}}}, "private"),
        ({"protected": {"gender": {}}}, "gender"),
    ],
    ids=["one group", "a reference that no row has", "private", "no such column"],
)
def test_what_cannot_be_compared_is_told_before_anything_is_asked(project, given, words):
    model = Model(by_merit)
    with pytest.raises(InputError, match=words) as raised:
        asked(project, model, plain(region="Hills"), RATIO, given=given)
    assert raised.value.exit_code == 2
    assert model.asked == 0


# 1, 2, 3: rates over nothing


def test_a_group_without_favourable_labels_has_no_equal_opportunity(project):
    data = plain(400)
    other = (data["race"] == "Other").to_numpy()
    data["outcome"] = np.where(other, "refused", data["outcome"])
    gates = {"equal_opportunity_gap": {"max": 0.9}}
    report = asked(project, Model(by_merit), data, RATIO | {"gates": gates}, given={"protected": {"race": {}}})
    found = gate(report, GROUPS, "equal_opportunity_gap", attribute="race")
    assert found["verdict"] == report["status"] == "inconclusive"
    assert f"Other: none of its {other.sum()} rows has the favourable label" in found["reason"]


def test_where_nobody_is_selected_nothing_passes(project):
    report = asked(project, Model(lambda frame: named(np.zeros(len(frame), bool))), plain(), RATIO)
    assert report["status"] == "inconclusive"
    for found in property_of(report, GROUPS)["gates"]:
        assert found["verdict"] == "inconclusive" and "nobody was selected" in found["reason"]
    ratios = [one for one in property_of(report, GROUPS)["metrics"] if one["name"] == "impact_ratio"]
    assert ratios and all(one["value"] is None and one["reason"] for one in ratios)


def test_a_reference_that_is_never_selected_gives_no_ratio(project):
    def rule(frame):
        return named((merit(frame) >= 0) & (frame["sex"] == "Female").to_numpy())

    report = asked(project, Model(rule), plain(), RATIO, given={"protected": {"sex": {"privileged": "Male"}}})
    found = gate(report, GROUPS, "impact_ratio", attribute="sex")
    assert found["verdict"] == "inconclusive" and "Male is 0" in found["reason"]
    women = group_of(report, "sex", "Female")
    assert women["impact_ratio"] is None and women["ratio_reason"]
    assert women["figures"][0]["gap"] > 0.3


# 6: a number as a group


def test_a_number_is_cut_at_its_quartiles_and_the_report_says_so(project):
    report = asked(project, Model(by_merit), plain(), RATIO, given={"protected": {"age": {}}})
    found = attribute(report, "age")
    assert len(found["groups"]) == 4
    assert "quartiles" in found["cut"]
    assert "Age is a number: its groups are its quartiles" in property_of(report, GROUPS)["explanation"]


# Groups that are named, small, or not sent


def test_a_declared_reference_stays_the_reference(project):
    def rule(frame):
        return named(merit(frame) >= np.where(frame["sex"] == "Female", 0.8, 0))

    given = {"protected": {"sex": {"privileged": "Female"}}}
    report = asked(project, Model(rule), plain(1_000), RATIO, given=given)
    found = attribute(report, "sex")
    assert (found["reference"], found["declared"]) == ("Female", True)
    data = plain(1_000)
    rates = pd.Series(rule(data) == "approved").groupby(data["sex"]).mean()
    assert group_of(report, "sex", "Male")["impact_ratio"] == pytest.approx(rates["Male"] / rates["Female"])
    assert rates["Male"] > 1.2 * rates["Female"]
    assert report["status"] == "passed"
    assert "Female, named in the suite" in property_of(report, GROUPS)["explanation"]


def test_small_groups_are_left_out_by_request_and_listed(project):
    data = plain(1_000)
    data["race"] = np.where(np.arange(1_000) < 12, "Other", "White")
    given = {"protected": {"race": {}, "sex": {}}}
    report = asked(project, Model(by_merit), data, RATIO | {"min_group_share": 0.02}, given=given)
    assert attribute(report, "race")["excluded"] == {"Other": 12}
    assert [one["name"] for one in attribute(report, "race")["groups"]] == ["White"]
    assert "Left out by request: Other (12 rows) of race" in property_of(report, GROUPS)["explanation"]
    found = gate(report, GROUPS, "impact_ratio", attribute="race")
    assert found["verdict"] == "inconclusive" and "no two groups" in found["reason"]


def test_a_protected_column_that_is_not_sent_is_no_pass(project):
    data = applicants(600, segregated=True).drop(columns=["offer", "wage"])
    inputs = [name for name in INPUTS if name != "race"]
    report = asked(project, Model(by_merit, inputs), data, FLIPS, given={"protected": {"race": {}}})
    found = property_of(report, PAIRS)
    assert found["status"] == report["status"] == "skipped"
    assert found["pairs"]["not_inputs"] == ["race"]
    assert [one["column"] for one in found["pairs"]["proxies"]][:1] == ["region"]
    assert "race" in found["reason"] and "region" in found["explanation"]


def test_without_labels_there_is_selection_and_no_equal_opportunity(project):
    gates = {"impact_ratio": {"min": 0.5}, "equal_opportunity_gap": {"max": 0.9}}
    data = plain(1_000).drop(columns="outcome")
    given = {"label": None, "protected": {"sex": {}}}
    report = asked(project, Model(by_merit), data, RATIO | {"gates": gates}, given=given)
    assert gate(report, GROUPS, "impact_ratio", attribute="sex")["verdict"] == "passed"
    [found] = [one for one in property_of(report, GROUPS)["gates"] if one["metric"] == "equal_opportunity_gap"]
    assert found["verdict"] == report["status"] == "inconclusive"
    assert "the data have no labels; name their column as data.label" in found["reason"]


# Budgets and noise


@pytest.mark.parametrize("queries", [150, 600, 1_000])
def test_a_budget_that_ends_in_the_middle_passes_nothing(project, queries):
    model = Model(by_merit)
    report = asked(project, model, plain(300), FLIPS, MOVES, RATIO, budget={"queries": queries})
    assert report["queries"]["sent"] <= queries
    unpaid = [one for one in report["properties"] if one["skipped"].get("budget")]
    assert unpaid and all(one["status"] == "inconclusive" for one in unpaid)
    assert report["status"] == "inconclusive"


def erring(by):
    """A rule that errs in one answer of twenty, and asks more of women."""
    rng, lock = np.random.default_rng(1), threading.Lock()

    def rule(frame):
        with lock:
            wrong = rng.random(len(frame)) < 0.05
        return named((merit(frame) >= by * (frame["sex"] == "Female").to_numpy()) ^ wrong)

    return rule


NOISY = FLIPS | {"rows": 2_000, "search": {"queries": 300}}


@pytest.mark.parametrize("protected", [["sex"], ["sex", "race"]])
def test_noise_is_no_bias(project, protected):
    given = {"protected": {name: {} for name in protected}}
    report = asked(project, Model(erring(by=0.0)), plain(2_000), NOISY, given=given)
    found = property_of(report, PAIRS)
    assert found["status"] == "inconclusive"
    assert "the model contradicted itself on them" in found["gates"][0]["reason"]
    assert found["pairs"]["prevalence"] < 0.005
    assert found["pairs"]["search"]["found"] <= 1


def test_bias_is_found_through_noise(project):
    data = plain(2_000)
    report = asked(project, Model(erring(by=0.5)), data, NOISY)
    found = property_of(report, PAIRS)["pairs"]
    assert report["status"] == "failed"
    turned = ((merit(data) >= 0) & (merit(data) < 0.5)).mean()
    assert 0.75 * turned < found["prevalence"] < turned  # some of them were answered wrongly
    assert found["search"]["found"] > 0

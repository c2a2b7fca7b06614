"""What cannot be compared is told before the model is asked; what can only be told later spares the rest."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fairness_projects import FLIPS, MOVES, RATIO, Model, asked, by_merit, gate, named, plain
from planted_models import merit
from planted_pairs import GROUPS, PAIRS
from projects import property_of

from aitest_lib.errors import InputError


def refused(project, said: str, *properties, data=None, model=None, **more):
    """The suite is an input error that says so, and the model was not asked."""
    model = model or Model(by_merit)
    with pytest.raises(InputError, match=said):
        asked(project, model, plain() if data is None else data, *properties, **more)
    assert model.asked == 0


def test_a_favourable_answer_that_is_no_class(project):
    given = {"label": None, "favorable": "Approved"}
    refused(
        project, "data.favorable: got 'Approved', expected one of the labels 'refused', 'approved'", RATIO, MOVES, given=given
    )


def test_a_favourable_answer_that_is_never_given_spares_the_other_properties(project):
    given = {"label": None, "favorable": "Approved"}
    report = asked(project, Model(by_merit), plain(), RATIO, FLIPS, given=given, classes=None)
    groups = property_of(report, GROUPS)
    assert groups["status"] == "error"
    assert "got 'Approved', which the model never answers" in groups["reason"]
    assert "Error" not in groups["explanation"]  # no name of a class of Python
    assert property_of(report, PAIRS)["status"] != "error"


def test_the_label_is_not_protected(project):
    refused(project, "data.protected.outcome: outcome is the label", RATIO, given={"protected": ["sex", "outcome"]})


@pytest.mark.parametrize(
    ("gates", "said"),
    [
        ({"impact_ratio": {"min": 0.8, "slice": {"sex": "female"}}}, "unknown group of sex 'female'; did you mean Female"),
        (
            {"equal_opportunity_gap": {"max": 0.1, "slice": {"sex": "Female"}}},
            "stands for attributes: write slice: .attribute: sex., or gate the difference",
        ),
        ({"impact_ratio": {"min": 0.8, "slice": {"attribute": "sexes"}}}, "unknown attribute 'sexes'; did you mean sex"),
        ({"impact_ratio": {"max": 0.8}}, "got 0.8, expected a min: the lower the ratio, the worse"),
        ({"impact_ratio": {"min": 80}}, "got 80, expected a min of at most 1"),
    ],
    ids=["group", "gap of a group", "attribute", "wrong side", "percent"],
)
def test_a_gate_that_nothing_can_answer(project, gates, said):
    refused(project, said, {"property": GROUPS, "gates": gates})


def test_a_ratio_may_have_an_upper_bound_above_one(project):
    gates = {"impact_ratio": [{"min": 0.5}, {"max": 1.25}]}
    report = asked(project, Model(by_merit), plain(), {"property": GROUPS, "gates": gates}, given={"protected": ["sex"]})
    assert len(property_of(report, GROUPS)["gates"]) == 2


def test_a_sample_without_the_privileged_group(project):
    data = plain(400)
    data["race"] = ["rare"] + ["common", "other"] * 199 + ["common"]
    given = {"protected": {"race": {"privileged": "rare"}}, "sample": 40}
    refused(
        project, "data.protected.race: unknown group 'rare'.*of the 40 rows that were chosen", RATIO, data=data, given=given
    )


def test_a_privileged_group_below_the_smallest_share(project):
    data = plain(400)
    data["race"] = np.where(np.arange(400) < 8, "rare", "common")
    given = {"protected": {"race": {"privileged": "rare"}}}
    refused(project, "got the reference rare with 8 of 400 rows", RATIO | {"min_group_share": 0.05}, data=data, given=given)


def test_three_classes_need_a_favourable_one_for_directions(project):
    refused(
        project,
        "data.favorable: got none for directions and the classes",
        MOVES,
        given={"favorable": None},
        classes=("refused", "approved", "later"),
    )


def test_without_any_answer_there_is_a_report(project):
    report = asked(project, Model(by_merit), plain(100), RATIO, FLIPS, MOVES, budget={"queries": 0})
    assert [item["status"] for item in report["properties"]] == ["inconclusive"] * 3
    assert report["queries"]["sent"] == 0


# numbers among the protected columns


def test_a_number_hides_no_other_column(project):
    """Who is turned by sex alone is turned, too, where age is protected beside it."""

    def old_women(frame: pd.DataFrame):
        return named((merit(frame) >= 0) & ~((frame["sex"] == "Female") & (frame["age"] > 60)).to_numpy())

    data = plain(800)
    alone, both = (
        property_of(asked(project, Model(old_women), data, FLIPS, given={"protected": protected}), PAIRS)
        for protected in ({"sex": {}}, {"sex": {}, "age": {"cut_at": [40, 60]}})
    )
    assert 0 < alone["pairs"]["turned"] <= both["pairs"]["turned"]
    by_sex = [one for one in both["metrics"] if one["name"] == "prevalence" and one["slice"] == {"attribute": "sex"}]
    assert [one["value"] for one in by_sex] == [alone["pairs"]["prevalence"]]
    ages = {flip["values"]["age"] for flip in both["pairs"]["flips"] if "age" in flip["values"]}
    assert len(ages) == 3 and sorted(int(age) // 20 for age in ages) == [1, 2, 3]  # one of each group, below 40, 60, and above


# errors and doubt


def test_no_share_of_pairs_passes_on_errors(project):
    def silent(frame: pd.DataFrame):
        answers = by_merit(frame)
        answers[(frame["sex"] == "Female").to_numpy() & (frame["age"] % 7 == 0).to_numpy()] = None
        return answers

    gates = {
        "prevalence": [{"max": 0.1}, {"max": 0.1, "slice": {"attribute": "sex"}}, {"max": 0.1, "slice": {"sex": "Female"}}],
        "likely_prevalence": {"max": 0.1},
    }
    report = asked(project, Model(silent), plain(), FLIPS | {"gates": gates, "max_error_rate": 0.5})
    assert {one["verdict"] for one in property_of(report, PAIRS)["gates"]} == {"inconclusive"}


def test_no_overall_rate_passes_on_errors(project):
    def of_those_who_get_it(frame: pd.DataFrame):
        return np.where(merit(frame) >= 0, "approved", None)

    item = {"property": GROUPS, "gates": {"selection_rate": {"min": 0.8, "slice": {}}}, "max_error_rate": 0.9}
    report = asked(project, Model(of_those_who_get_it), plain(), item, given={"protected": ["sex"]})
    assert gate(report, GROUPS, "selection_rate")["verdict"] == "inconclusive"

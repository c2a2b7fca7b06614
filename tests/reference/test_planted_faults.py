"""Planted faults of fairness are found and their sound twins are not: whole runs on pairs of models, with the same gates."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from planted_models import FAULTS, applicants, merit, with_traces
from planted_pairs import ALL_PAIRS, DIRECTIONS, GROUPS, PAIRS, Pair, asked, both, data, explanation, failed
from projects import new_project, property_of

FOUND, FALSE_ALARMS = 0.9, 0.05  # of the pairs
SHORT = {GROUPS: "groups", PAIRS: "pairs", DIRECTIONS: "directions"}


@pytest.fixture
def project(tmp_path: Path):
    return new_project(tmp_path / "project")


def test_every_fault_has_a_pair_and_changes_something():
    assert sorted(pair.fault for pair in ALL_PAIRS) == sorted(FAULTS)
    assert len(ALL_PAIRS) >= 20
    for pair in ALL_PAIRS:
        rows = data(pair.segregated)
        sound = with_traces(rows, merit(rows))
        touched = (FAULTS[pair.fault](rows, sound) != sound).mean()
        assert touched > 0, pair.fault


def test_the_sound_model_is_not_out_of_reach_of_a_false_alarm():
    """Its groups are served nearly alike, and small ones are far off by chance."""
    rows = applicants()
    rows = rows.assign(race=rows["race"].fillna("missing"), good=with_traces(rows, merit(rows)) >= 0)
    by_sex, crossed = (rows.groupby(columns)["good"].mean() for columns in (["sex"], ["sex", "race"]))
    assert 0.9 < by_sex.min() / by_sex.max() < 0.97
    assert crossed.min() / crossed.max() < 0.85
    assert rows.groupby(["sex", "race"]).size().min() < 120


def test_with_one_crossing_no_single_column_shows_the_fault():
    rows = applicants()
    rows = rows.assign(race=rows["race"].fillna("missing"))
    rows["good"] = FAULTS["one crossing"](rows, with_traces(rows, merit(rows))) >= 0
    for columns in (["sex"], ["race"]):
        rates = rows.groupby(columns)["good"].mean()
        assert rates.min() / rates.max() > 0.8
    rates = rows.groupby(["sex", "race"])["good"].mean()
    assert rates.idxmin() == ("Female", "Black") and rates.min() / rates.max() < 0.65


# Four telling ones, by the property that should find them alone.


def planted(name: str) -> Pair:
    [found] = [pair for pair in ALL_PAIRS if pair.fault == name]
    return found


def test_a_bias_against_one_crossing_is_found_and_named(project):
    report = asked(project, planted("one crossing"), faulty=True, only=GROUPS)
    assert failed(report) == [GROUPS]
    verdicts = {gate["slice"]["attribute"]: gate["verdict"] for gate in property_of(report, GROUPS)["gates"]}
    assert verdicts["sex × race"] == "failed" and verdicts["sex"] != "failed" != verdicts["race"]
    assert "of Female × Black" in explanation(report, GROUPS)


def test_a_group_whose_race_is_missing_is_found_and_named(project):
    report = asked(project, planted("missing race"), faulty=True, only=GROUPS)
    assert failed(report) == [GROUPS]
    assert "to missing 0." in explanation(report, GROUPS)  # the selection rates run from … to missing
    assert "of missing (" in explanation(report, GROUPS)


def test_a_proxy_is_found_where_the_protected_column_is_not_sent(project):
    report = asked(project, planted("regions"), faulty=True, only=GROUPS)
    assert failed(report) == [GROUPS]
    said = explanation(report, GROUPS)
    assert "race best by region" in said and "of Black (" in said


def test_a_dip_in_income_is_found_where_it_is(project):
    report = asked(project, planted("dip"), faulty=True, only=DIRECTIONS)
    assert failed(report) == [DIRECTIONS]
    [income] = [one for one in property_of(report, DIRECTIONS)["directions"] if one["column"] == "income"]
    worst = max(income["stretches"], key=lambda one: one["against"])
    assert worst["start"] < 52 <= worst["end"] <= 66  # where the dip begins
    assert f"most often from {worst['start']:g} to {worst['end']:g}" in explanation(report, DIRECTIONS)
    assert [one["violating"] for one in property_of(report, DIRECTIONS)["directions"] if one["column"] == "debts"] == [0]


@pytest.mark.slow
def test_nine_in_ten_faults_are_found_with_one_false_alarm_in_twenty(project):
    pairs = [both(project, pair) for pair in ALL_PAIRS]
    rows = [
        {
            "fault": one.pair.fault + (" (hard)" if one.pair.hard else ""),
            "should be found by": SHORT[one.pair.by],
            "found": "yes" if one.found else "NO",
            "failed": ", ".join(SHORT[name] for name in failed(one.faulty)),
            "sound twin": ", ".join(f"{SHORT[name]} FAILED" for name in one.false_alarms) or one.sound["status"],
        }
        for one in pairs
    ]
    table = pd.DataFrame(rows).to_string(index=False)
    print("\n" + table)
    assert sum(one.found for one in pairs) >= FOUND * len(pairs), table
    assert sum(bool(one.false_alarms) for one in pairs) <= FALSE_ALARMS * len(pairs), table

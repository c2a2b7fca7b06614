"""How real synthesized rows look: figures for rows that are known to be real, or known not to be."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp
from synthetic import census, profiled

from aitest_lib.errors import InputError
from aitest_lib.metrics.realism import column_shifts, rule_violations, tied_violations, two_sample_auc

FRAME, PROFILE, _ = census()
NOBODY = np.arange(3_000)


def test_real_rows_cannot_be_told_from_real_rows():
    real, others = FRAME[:3_000], FRAME[3_000:].reset_index(drop=True)
    found = two_sample_auc(real, others, NOBODY, PROFILE, 1)
    low, high = found.bounds(0.975)
    assert low < 0.5 < high
    assert found.n == 6_000


def test_copies_are_not_known_by_their_twins():
    found = two_sample_auc(FRAME[:2_000], FRAME[:2_000], NOBODY[:2_000], PROFILE, 1)
    assert found.value == pytest.approx(0.5, abs=0.03)


def test_rows_from_elsewhere_are_told_at_once():
    made = FRAME[:1_000].assign(age=FRAME["age"][:1_000] + 100)
    assert two_sample_auc(FRAME, made, NOBODY[:1_000], PROFILE, 1).value > 0.999


def test_private_and_unknown_columns_play_no_part():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.random(400), "kind": rng.choice(["a", "b"], 400), "ssn": range(400), "y": range(400)})
    frame, profile = profiled(table, {"ssn": {"private": True}}, label="y")
    made = frame[200:].assign(ssn=0, y=0).reset_index(drop=True)
    plain = two_sample_auc(frame[:200], frame[200:].reset_index(drop=True), NOBODY[:200], profile, 1)
    assert two_sample_auc(frame[:200], made, NOBODY[:200], profile, 1).value == plain.value


def test_the_order_of_the_real_rows_plays_no_part():
    order = np.random.default_rng(0).permutation(1_000)
    real, made = FRAME[:1_000], FRAME[1_000:2_000].reset_index(drop=True)
    where = np.empty(1_000, np.int64)
    where[order] = np.arange(1_000)
    first = two_sample_auc(real, made, NOBODY[:1_000], PROFILE, 1)
    second = two_sample_auc(real.iloc[order].reset_index(drop=True), made, where, PROFILE, 1)
    assert first.value == second.value


def test_few_rows_have_no_figure_and_bases_must_fit():
    found = two_sample_auc(FRAME, FRAME[:5], NOBODY[:5], PROFILE, 1)
    assert (found.value, found.reason) == (None, "fewer than 20 rows to compare")
    with pytest.raises(InputError, match="got 3 base rows, expected one for each of 5 synthesized rows"):
        two_sample_auc(FRAME, FRAME[:5], NOBODY[:3], PROFILE, 1)


def test_broken_rules_and_unseen_combinations_are_counted():
    real = pd.DataFrame({"a": ["x", "y", None], "b": [1.0, 2.0, np.nan], "c": [1, 2, 3]})
    made = pd.DataFrame({"a": ["x", "x", None, None], "b": [1.0, 2.0, np.nan, 1.0], "c": [9, 2, 3, 3]})
    assert rule_violations(made, ["c < 3"]) == 3
    assert rule_violations(made, ["c < 3", "b < 2"]) == 4  # a missing value breaks nothing
    assert rule_violations(made, []) == rule_violations(made, ["elsewhere > 3"]) == 0
    assert tied_violations(made, real, [["a", "b"]]) == 2
    assert tied_violations(made, real, [["a", "b"], ["c", "b"]]) == 3
    assert tied_violations(made, real, []) == tied_violations(made, real, [["a", "elsewhere"]]) == 0


def test_shifts_are_those_of_the_textbooks():
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"x": rng.normal(size=300).round(1), "kind": rng.choice(["a", "b", "c"], 300), "id": range(300)})
    real, profile = profiled(table, {"id": {"immutable": True}})
    made = pd.DataFrame({"x": rng.normal(0.5, size=200).round(1), "kind": ["a"] * 150 + ["d"] * 50, "id": range(200)})
    found = column_shifts(real, made, profile)
    assert found.keys() == {"x", "kind"}
    assert found["x"] == pytest.approx(ks_2samp(real["x"], made["x"]).statistic)
    known = real["kind"].value_counts(normalize=True)
    assert found["kind"] == pytest.approx((abs(0.75 - known["a"]) + known["b"] + known["c"] + 0.25) / 2)
    assert column_shifts(real, real, profile) == {"x": 0.0, "kind": 0.0}


def test_a_missing_value_counts_as_one():
    real, profile = profiled(pd.DataFrame({"x": [1.0, 2.0, np.nan, np.nan], "k": ["a", None, None, "a"]}))
    made = pd.DataFrame({"x": [1.0, 2.0, 1.0, 2.0], "k": ["a", "a", "a", None]})
    assert column_shifts(real, made, profile) == pytest.approx({"x": 0.5, "k": 0.25})

"""Rows made of real ones: what is swapped, with what, and what never is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from synthetic import census, profiled
from tables import SCHEMA, rows

from aitest_lib.canonical import digest_bytes
from aitest_lib.data.coverage import Coverage
from aitest_lib.data.schema import invalid_reasons
from aitest_lib.data.synthesis import BLOCK, Marginal, Swap
from aitest_lib.data.table import row_digests
from aitest_lib.data.ties import find_ties
from aitest_lib.data.units import build_pool
from aitest_lib.errors import InputError
from aitest_lib.metrics.realism import column_shifts, tied_violations, two_sample_auc
from aitest_lib.surrogates.tree import Test as Question

FIXED = ["born", "ssn", "note"]  # immutable, private, ignored


def test_a_swapped_cell_comes_from_a_row_of_its_leaf():
    leaf = np.repeat(np.arange(5), 40)
    frame, profile = profiled(pd.DataFrame({"a": leaf * 100 + np.arange(200) % 40, "b": leaf * 1000 + np.arange(200) % 40}))
    made = Swap(rate=0.5).over(build_pool(frame, profile, [], [], 3), leaf).make(0, 2_000)
    assert (made.frame["a"] // 100 == leaf[made.base]).all()
    assert (made.frame["b"] // 1000 == leaf[made.base]).all()


def test_each_column_is_swapped_as_often_as_the_rate_says():
    n, rate = 4_000, 0.3
    frame, profile = profiled(pd.DataFrame({name: np.arange(n) for name in "abcdefgh"}))
    made = Swap(rate=rate).over(build_pool(frame, profile, [], [], 3), np.zeros(n, np.int64)).make(0, n)
    changed = (made.frame != frame.iloc[made.base].reset_index(drop=True)).to_numpy()
    none = (1 - rate) ** 8  # rows in which none would change have one changed
    assert changed.mean(axis=0) == pytest.approx(np.full(8, rate + none / 8), abs=0.03)
    assert changed.any(axis=1).all()


def test_every_real_row_has_as_many_descendants_as_any_other():
    frame, profile = profiled(rows(), SCHEMA)
    made = Swap().over(build_pool(frame, profile, [], [], 1), np.zeros(200, np.int64)).make(0, 1_000)
    assert np.bincount(made.base, minlength=200).tolist() == [5] * 200


@pytest.mark.parametrize("method", ["swap", "marginal"])
def test_columns_of_every_kind_are_kept_within_the_schema(method):
    frame, profile = profiled(rows(), SCHEMA, rules=["age < 60 or col('level') != 4", "pay > 0"])
    pool = build_pool(frame, profile, [["job", "member"]], ["visits < 9 or age > 30"], 1)
    made = (Swap(rate=0.8).over(pool, np.arange(200) // 50) if method == "swap" else Marginal().over(pool)).make(0, 3_000)
    assert made.frame.dtypes.equals(frame.dtypes)
    assert (invalid_reasons(made.frame, pool.profile) == None).all()  # noqa: E711
    assert tied_violations(made.frame, frame, [["city", "state"], ["job", "member"], ["red", "green", "blue"]]) == 0
    before = frame.iloc[made.base].reset_index(drop=True)
    pd.testing.assert_frame_equal(made.frame[FIXED], before[FIXED])
    assert (made.frame["pay"] != before["pay"]).any()


def test_what_may_not_change_decides_who_can_give_to_its_group():
    n = 300
    kind = np.arange(n) % 3
    table = pd.DataFrame({"sex": np.array(["F", "M", "M"])[kind], "role": np.array(["wife", "husband", "son"])[kind]})
    frame, profile = profiled(table.assign(x=np.arange(n)), {"sex": {"immutable": True}})
    made = Swap(rate=1.0).over(build_pool(frame, profile, [["sex", "role"]], [], 1), np.zeros(n, np.int64)).make(0, 2_000)
    assert (made.frame["sex"].to_numpy() == frame["sex"].to_numpy()[made.base]).all()
    assert tied_violations(made.frame, frame, [["sex", "role"]]) == 0
    assert (made.frame["role"].to_numpy() != frame["role"].to_numpy()[made.base]).any()


def test_a_column_tied_to_one_that_is_kept_elsewhere_stays_with_its_row():
    table = pd.DataFrame({"zip": range(60), "city": [f"c{k % 7}" for k in range(60)], "x": range(60)})
    frame, profile = profiled(table, {"zip": {"private": True, "tied": "city"}}, ["zip + x < 1000"])
    made = Swap(rate=0.9).over(build_pool(frame.drop(columns="zip"), profile, [], [], 1), np.zeros(60, np.int64)).make(0, 300)
    assert (made.frame["city"].to_numpy() == frame["city"].to_numpy()[made.base]).all()
    assert (made.frame["x"].to_numpy() != made.base).mean() > 0.9


def test_a_label_comes_along_from_the_row_that_was_changed():
    frame, profile = profiled(pd.DataFrame({"x": np.arange(50), "z": np.arange(50) % 7, "y": np.arange(50)}), label="y")
    made = Swap().over(build_pool(frame, profile, [], [], 1), np.zeros(50, np.int64)).make(0, 200)
    assert made.frame["y"].tolist() == made.base.tolist()


def test_a_row_that_no_swap_leaves_valid_stays_what_it_is():
    frame, profile = profiled(pd.DataFrame({"low": range(30), "high": range(30)}), rules=["low == high"])
    made = Swap(rate=1e-9).over(build_pool(frame, profile, [], [], 1), np.zeros(30, np.int64)).make(0, 60)
    assert (made.frame["low"] == made.frame["high"]).all()
    assert made.frame["low"].tolist() == made.base.tolist()


def test_rows_that_break_the_rules_are_no_ancestors():
    frame, profile = profiled(pd.DataFrame({"age": range(100), "z": [0, 1] * 50}), rules=["age >= 18"])
    made = Swap(rate=1.0).over(build_pool(frame, profile, [], [], 1), np.zeros(100, np.int64)).make(0, 500)
    assert made.base.min() == 18
    assert made.frame["age"].min() == 18


def test_another_seed_makes_other_rows():
    frame, profile = profiled(rows(), SCHEMA)
    leaves = np.zeros(200, np.int64)
    first, again, other = (Swap().over(build_pool(frame, profile, [], [], seed), leaves).make(0, 200) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(first.frame, again.frame)
    assert not first.frame.equals(other.frame)


def test_chunks_are_the_rows_that_one_call_makes():
    frame, profile = profiled(rows(), SCHEMA)
    made = Swap().over(build_pool(frame, profile, [], [], 1), np.arange(200) % 4)
    total = BLOCK + 700
    whole, parts = made.make(0, total), list(made.chunks(total, 1_500))
    pd.testing.assert_frame_equal(pd.concat([part.frame for part in parts], ignore_index=True), whole.frame)
    assert np.concatenate([part.base for part in parts]).tolist() == whole.base.tolist()


def test_names_versions_and_parameters_are_in_the_fingerprint():
    assert Swap().fingerprint() == Swap(rate=0.3).fingerprint()
    assert len({Swap().fingerprint(), Swap(rate=0.2).fingerprint(), Marginal().fingerprint()}) == 3


@pytest.mark.parametrize(
    "schema, rules, message",
    [
        ({}, ["a > 5"], "of 3 rows none does, mostly because of: rule a > 5"),
        ({"a": {"min": 7}}, [], "of 3 rows none does, mostly because of: a is below 7"),
        ({"a": {"private": True}, "b": {"immutable": True}}, [], "got no column that may change, expected at least one"),
        ({}, ["c > 5"], "unknown column 'c'"),
    ],
)
def test_rows_that_cannot_be_made_are_one_message(schema, rules, message):
    frame, profile = profiled(pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]}), schema)
    with pytest.raises(InputError, match=message):
        build_pool(frame, profile, [], rules, 1)


def test_leaves_must_fit_the_rows():
    frame, profile = profiled(pd.DataFrame({"a": [1, 2, 3]}))
    with pytest.raises(InputError, match="expected one for each of 3 rows"):
        Swap().over(build_pool(frame, profile, [], [], 1), np.zeros(4, np.int64))


def test_census_rows_swapped_within_leaves_are_hard_to_tell_from_real_ones():
    frame, profile, leaves = census()
    ties = [tie.columns for tie in find_ties(frame, profile)]
    loose, tied = build_pool(frame, profile, [], [], 1), build_pool(frame, profile, ties, [], 1)
    made = {
        "anywhere": Swap().over(loose, np.zeros(len(frame), np.int64)).make(0, 5_000),
        "leaves": Swap().over(tied, leaves).make(0, 5_000),
        "marginal": Marginal().over(tied).make(0, 5_000),
    }
    found = {name: two_sample_auc(frame, one.frame, one.base, profile, 1) for name, one in made.items()}
    bounds = {name: one.bounds(0.95) for name, one in found.items()}
    assert bounds["leaves"][1] <= 0.70
    assert bounds["leaves"][1] < bounds["marginal"][0]
    assert bounds["leaves"][1] < bounds["anywhere"][0]
    assert tied_violations(made["leaves"].frame, frame, ties) == 0
    assert tied_violations(made["anywhere"].frame, frame, ties) > 1_000
    assert max(column_shifts(frame, made["leaves"].frame, profile).values()) < 0.03


@pytest.mark.parametrize(
    "component, pinned",
    [
        (Swap(), "a3bf907a824a016c578492efe228c9ef"),
        (Marginal(), "8e7f610a93359ed19cb59718ec6c2621"),
        (Coverage(), "7c516183e3695d3275681532d49acd44"),
    ],
    ids=lambda value: getattr(value, "key", ""),
)
def test_a_changed_output_needs_another_version(component, pinned):
    n = np.arange(90)
    table = pd.DataFrame({"a": n % 7, "b": np.array(["x", "y", "z"])[n % 3], "c": n / 8, "d": n % 2 == 0})
    frame, profile = profiled(table, rules=["a < 6 or b != 'x'"])
    pool = build_pool(frame, profile, [["a", "d"]], [], 1)
    if isinstance(component, Swap):
        made = component.over(pool, n // 30)
    elif isinstance(component, Marginal):
        made = component.over(pool)
    else:
        question = Question(column="c", at_most=5.0)
        made = component.over(pool, {1: [(question, True)], 2: [(question, False)]})
    found = made.make(0, 200)
    digests = row_digests(pa.Table.from_pandas(found.frame.assign(base=found.base)))
    assert digest_bytes(digests.tobytes()) == pinned

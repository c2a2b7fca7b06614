"""What holds of synthesized rows whatever the table, the rules and the leaves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import profiled

from aitest_lib.data.drift import _raked
from aitest_lib.data.synthesis import Marginal, Swap
from aitest_lib.data.units import build_pool, codes_of
from aitest_lib.errors import InputError

# Each with the same said in plain Python.
RULES = {
    "low <= high": lambda row: row["low"] <= row["high"],
    "kind != 'x' or low < 5": lambda row: row["kind"] != "x" or row["low"] < 5,
    "flag or high > 2": lambda row: row["flag"] or row["high"] > 2,
    "kind in ['x', 'y'] or group == 1": lambda row: row["kind"] in ("x", "y") or row["group"] == 1,
}


@st.composite
def tables(draw):
    """A small table with a private column, a tied pair, a one-hot pair and numbers; rules; leaves; a rate."""
    n, seed = draw(st.integers(2, 40)), draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "low": rng.integers(0, 8, n),
            "high": rng.integers(0, 8, n),
            "kind": rng.choice(["x", "y", "z"], n),
            "flag": rng.random(n) < 0.5,
            "group": rng.integers(0, 3, n),
            "ssn": rng.integers(0, 10**9, n),
            "left": rng.integers(0, 2, n),
        }
    ).assign(right=lambda f: 1 - f["left"], code=lambda f: f["group"] * 10 + f["flag"])
    schema = {"ssn": {"private": True}, "left": {"one_hot": "side"}, "right": {"one_hot": "side"}, "low": {"max": 6}}
    rules = draw(st.lists(st.sampled_from(sorted(RULES)), unique=True))
    leaves = rng.integers(0, draw(st.integers(1, 4)), n)
    return frame, schema, rules, leaves, draw(st.floats(0.01, 1))


def made(table, order=None, start=0, count=60, method="swap"):
    """The rows of a table whose rows stand in this order; None where there are none to start from."""
    frame, schema, rules, leaves, rate = table
    order = np.arange(len(frame)) if order is None else order
    rows, profile = profiled(frame.iloc[order].reset_index(drop=True), schema, rules)
    try:
        pool = build_pool(rows, profile, [["group", "code"]], [], 1)
    except InputError:
        return None
    source = Swap(rate=rate).over(pool, leaves[order]) if method == "swap" else Marginal().over(pool)
    return source.make(start, count)


@given(tables(), st.sampled_from(["swap", "marginal"]))
@settings(max_examples=60, deadline=None)
def test_no_row_breaks_a_rule_a_tie_or_the_schema(table, method):
    frame, _, rules, _, _ = table
    found = made(table, method=method)
    valid = [all(RULES[rule](row) for rule in rules) and row["low"] <= 6 for row in frame.to_dict("records")]
    if found is None:
        assert not any(valid)
        return
    pairs = set(zip(frame["group"], frame["code"], strict=True))
    for row in found.frame.to_dict("records"):
        assert all(RULES[rule](row) for rule in rules)
        assert row["low"] <= 6
        assert row["left"] + row["right"] == 1
        assert (row["group"], row["code"]) in pairs
    assert all(valid[base] for base in found.base)
    assert found.frame["ssn"].tolist() == frame["ssn"].iloc[found.base].tolist()
    for name in frame.columns:
        assert set(found.frame[name]) <= set(frame[name])


@given(tables(), st.integers(0, 9_000), st.integers(1, 50), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_row_k_hangs_on_the_seed_and_k_alone(table, start, count, random):
    first = made(table, start=0, count=start + count)
    if first is None:
        return
    order = np.arange(len(table[0]))
    random.shuffle(order)
    second = made(table, order=order, start=start, count=count)
    pd.testing.assert_frame_equal(second.frame, first.frame[start:].reset_index(drop=True))
    same = table[0].iloc[order[second.base]].reset_index(drop=True)
    pd.testing.assert_frame_equal(same, table[0].iloc[first.base[start:]].reset_index(drop=True))


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", None]), st.sampled_from([1.5, np.nan])), min_size=1))
def test_codes_are_equal_exactly_where_rows_are(rows):
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    codes = codes_of(frame)
    keys = [tuple(None if pd.isna(value) else value for value in row) for row in rows]
    assert [[x == y for y in codes] for x in codes] == [[x == y for y in keys] for x in keys]
    assert sorted(set(codes)) == list(range(len(set(keys))))


@given(st.integers(2, 4), st.integers(2, 4), st.integers(0, 1_000))
@settings(max_examples=40, deadline=None)
def test_raked_weights_have_the_shares_and_keep_the_odds(k, m, seed):
    """Iterative proportional fitting keeps every cross-product ratio of the table that it starts from."""
    rng = np.random.default_rng(seed)
    rows = np.concatenate([np.indices((k, m)).reshape(2, -1).T, rng.integers(0, [k, m], (100, 2))])
    members = [np.stack([rows[:, axis] == value for value in range(size)]) for axis, size in enumerate((k, m))]
    targets = [rng.dirichlet(np.full(size, 5.0)) for size in (k, m)]
    weights = _raked(members, targets, len(rows))
    for member, target in zip(members, targets, strict=True):
        assert member @ weights == pytest.approx(target, abs=1e-5)
    cells = np.array([[weights[(rows == (i, j)).all(axis=1)].sum() for j in (0, 1)] for i in (0, 1)])
    counts = np.array([[(rows == (i, j)).all(axis=1).sum() for j in (0, 1)] for i in (0, 1)])
    odds = [float(table[0, 0] * table[1, 1] / (table[0, 1] * table[1, 0])) for table in (cells, counts)]
    assert odds[0] == pytest.approx(odds[1])

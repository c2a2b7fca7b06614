"""Rows for every path of a tree: which are reached, which cannot be, and why."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from synthetic import census, profiled

from aitest_lib.data.coverage import Coverage
from aitest_lib.data.schema import invalid_reasons
from aitest_lib.data.ties import find_ties
from aitest_lib.data.units import build_pool
from aitest_lib.errors import InputError
from aitest_lib.metrics.realism import tied_violations
from aitest_lib.surrogates.tree import Test as Question


def at_most(column: str, bound: float, missing: bool = False) -> Question:
    return Question(column=column, at_most=bound, missing=missing)


def among(column: str, *values) -> Question:
    return Question(column=column, among=values)


def people(n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    town = rng.integers(0, 3, n)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 61, n),
            "hours": rng.integers(10, 41, n),
            "sex": rng.choice(["F", "M"], n),
            "town": np.array(["Rome", "Milan", "Paris"])[town],
            "state": np.array(["IT", "IT", "FR"])[town],
            "born": rng.choice(["here", "there"], n),
            "debt": np.where(rng.random(n) < 0.2, np.nan, np.round(rng.random(n), 2)),
        }
    )


SCHEMA = {"age": {"min": 17, "max": 90}, "born": {"immutable": True}, "state": {"tied": "town"}}
RULES = ["age >= 30 or hours <= 30", "sex != 'M' or debt <= 0.9"]


def covered(paths, schema=None, frame=None, rules=None):
    rows, profile = profiled(people() if frame is None else frame, SCHEMA if schema is None else schema, rules=rules or RULES)
    return Coverage().over(build_pool(rows, profile, [], [], 1), paths), rows, profile


def follows(frame: pd.DataFrame, path) -> np.ndarray:
    return np.logical_and.reduce([question.holds(frame) == answer for question, answer in path])


PATHS = {
    3: [(at_most("age", 40.5), True), (among("sex", "F"), True)],
    4: [(at_most("age", 70.5), False), (among("sex", "M"), True)],  # no such row, but the schema allows it
    6: [(at_most("age", 40.5), False), (at_most("age", 41.5), True), (at_most("hours", 20), False)],
    7: [(among("town", "Paris"), True), (among("state", "IT"), False)],
    9: [
        (among("born", "there"), True),
        (at_most("debt", 0.5, missing=True), True),
        (at_most("debt", 2.0, missing=False), False),
    ],
    11: [(at_most("age", 24.5), True), (among("sex", "F"), False), (at_most("hours", 29.5), False)],
}


def test_every_feasible_path_gets_the_same_number_of_valid_rows_that_take_it():
    rows, real, profile = covered(PATHS)
    assert [leaf.infeasible for leaf in rows.leaves] == [None] * len(PATHS)
    made = rows.make(0, 40 * len(PATHS))
    assert (invalid_reasons(made.frame, profile) == None).all()  # noqa: E711
    assert tied_violations(made.frame, real, [["town", "state"]]) == 0
    assert made.frame["born"].tolist() == real["born"].iloc[made.base].tolist()
    for place, path in enumerate(PATHS.values()):
        assert follows(made.frame.iloc[place :: len(PATHS)], path).all()
    assert made.frame.dtypes.equals(real.dtypes)


def test_real_rows_come_first_then_those_that_need_the_least_change():
    rows, real, profile = covered({3: PATHS[3]})
    (leaf,) = rows.leaves
    there = np.flatnonzero(follows(real, PATHS[3]) & (invalid_reasons(real, profile) == None))  # noqa: E711
    assert leaf.real == len(there)
    assert leaf.path == "age <= 40.5 and sex is F"
    made = rows.make(0, len(rows.pool.bases))
    first, others = made.frame[: leaf.real], made.frame[leaf.real :].reset_index(drop=True)
    assert sorted(made.base[: leaf.real]) == there.tolist()
    pd.testing.assert_frame_equal(first, real.iloc[made.base[: leaf.real]].reset_index(drop=True))
    changed = (others != real.iloc[made.base[leaf.real :]].reset_index(drop=True)) & others.notna()
    assert not changed[["hours", "town", "state", "born", "debt"]].any(axis=None)
    needed = changed.sum(axis=1).to_numpy()
    assert needed[0] == 1
    assert (np.diff(needed) >= 0).all()


@pytest.mark.parametrize(
    "path, why",
    [
        ([(at_most("age", 95, missing=True), False)], "no value that schema and rules allow has age > 95"),
        (
            [(at_most("age", 50.2, missing=True), False), (at_most("age", 50.8), True)],
            "no value that schema and rules allow has age > 50.2 and age <= 50.8",
        ),
        ([(among("sex", "F", "M"), False)], "no value that schema and rules allow has sex not in {F, M}"),
        (
            [(among("town", "Rome"), True), (at_most("age", 90), True), (among("state", "FR"), True)],
            "no observed combination of town, state, which move together, has town is Rome and state is FR",
        ),
        ([(among("born", "elsewhere"), True)], "no row has born is elsewhere, and what it is about may not change"),
        (
            [(at_most("age", 29.5), True), (at_most("hours", 30.5), False)],
            "no row was found that satisfies rule age >= 30 or hours <= 30",
        ),
    ],
)
def test_a_path_that_no_row_can_take_is_named_with_what_stands_against_it(path, why):
    rows, _, _ = covered({1: path, 2: [(at_most("age", 50), True)]})
    assert [leaf.infeasible for leaf in rows.leaves] == [why, None]
    assert rows.leaves[0].real == 0
    assert (rows.make(0, 30).frame["age"] <= 50).all()
    with pytest.raises(InputError, match="no path of the surrogate can be taken; the first: no "):
        covered({1: path})


def test_tied_columns_that_may_not_change_can_stand_against_a_path():
    table = pd.DataFrame(
        {"sex": ["M", "F", "F"] * 20, "role": ["husband", "wife", "child"] * 20, "rich": ["yes", "no", "no"] * 20}
    )
    schema = {"sex": {"immutable": True, "tied": "role"}, "rich": {"immutable": True}}
    path = [(among("rich", "yes"), True), (among("role", "wife"), True)]
    rows, _, _ = covered({1: path, 2: [(among("role", "child"), True)]}, schema, table, ["rich != ''"])
    assert [leaf.infeasible for leaf in rows.leaves] == ["no row was found whose columns that may not change go with it", None]
    assert set(rows.make(0, 100).frame["sex"]) == {"F"}


def test_a_rule_that_the_path_touches_by_one_column_is_met_by_another():
    rows, _, _ = covered({1: [(at_most("hours", 30.5), False)]}, frame=people().assign(age=lambda f: f["age"].clip(upper=31)))
    made = rows.make(0, 500).frame
    assert (made["hours"] > 30).all()
    assert (made["age"] >= 30).all()


def test_a_tree_of_one_leaf_gives_real_rows():
    rows, real, profile = covered({0: []})
    assert rows.leaves[0].path == "anything"
    valid = np.flatnonzero(invalid_reasons(real, profile) == None)  # noqa: E711
    assert sorted(rows.make(0, len(valid)).base) == valid.tolist()


def test_any_stretch_and_any_order_of_the_file_give_the_same_rows():
    rows, real, profile = covered(PATHS)
    whole = rows.make(0, 1_000)
    for start, stop in ((0, 7), (383, 385), (500, 1_000)):
        part = rows.make(start, stop - start)
        pd.testing.assert_frame_equal(part.frame, whole.frame[start:stop].reset_index(drop=True))
        assert part.base.tolist() == whole.base[start:stop].tolist()
    order = np.random.default_rng(0).permutation(len(real))
    shuffled = Coverage().over(build_pool(real.iloc[order].reset_index(drop=True), profile, [], [], 1), PATHS).make(0, 1_000)
    pd.testing.assert_frame_equal(shuffled.frame, whole.frame)
    assert order[shuffled.base].tolist() == whole.base.tolist()


def test_a_large_tree_is_covered_from_few_rows():
    from sklearn.tree import DecisionTreeClassifier

    frame, profile, _ = census()
    names = [column.name for column in profile.columns if column.numeric]
    tree = DecisionTreeClassifier(max_leaf_nodes=150, random_state=0).fit(frame[names], frame["income"])
    paths, found = {}, tree.tree_

    def walk(node: int, path: list[tuple[Question, bool]]) -> None:
        if found.children_left[node] < 0:
            paths[node] = path
            return
        question = at_most(names[found.feature[node]], float(found.threshold[node]))
        walk(found.children_left[node], [*path, (question, True)])
        walk(found.children_right[node], [*path, (question, False)])

    walk(0, [])
    few = frame.iloc[:300]
    rows = Coverage().over(build_pool(few, profile, [tie.columns for tie in find_ties(few, profile)], [], 1), paths)
    assert sum(leaf.real == 0 for leaf in rows.leaves) > 50
    assert all(leaf.infeasible is None for leaf in rows.leaves)
    assert tree.apply(rows.make(0, 150).frame[names]).tolist() == list(paths)

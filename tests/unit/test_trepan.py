"""TREPAN: asks for rows that belong to its nodes, stops where it should, and grows the same tree whatever the order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

from aitest_lib.data.schema import Column, Profile, Tied, invalid_reasons
from aitest_lib.errors import InputError
from aitest_lib.surrogates.tree import Test as Question
from aitest_lib.surrogates.tree import Tree
from aitest_lib.surrogates.trepan import Trepan, TrepanState
from aitest_lib.surrogates.trepan_rows import Real, from_marginals, reaches, swapped, units_of

Model = Callable[[pd.DataFrame], Any]

COLORS, CITIES = ("blue", "green", "red"), (("Bern", "CH"), ("Graz", "AT"), ("Wien", "AT"))
PROFILE = Profile(
    columns=(
        Column(name="age", kind="integer", min=18, max=80, missing=True),
        Column(name="color", kind="category", values=COLORS, counts=(1, 1, 1), allowed=COLORS),
        Column(name="income", kind="number", min=0.0, max=100.0),
        Column(
            name="city", kind="category", values=("Bern", "Graz", "Wien"), counts=(1, 1, 1), allowed=("Bern", "Graz", "Wien")
        ),
        Column(name="country", kind="category", values=("AT", "CH"), counts=(2, 1), allowed=("AT", "CH")),
        Column(name="member", kind="boolean", values=(False, True), counts=(1, 1), allowed=(False, True), immutable=True),
        Column(name="ssn", kind="text", private=True),
    ),
    tied=(Tied(columns=("city", "country"), values=CITIES, counts=(1, 1, 1)),),
    rules=("color != 'red' or income <= 90",),
)
COLUMNS = ["age", "color", "income", "city", "country", "member"]
SMALL = Trepan(smallest_sample=200, max_leaves=16, max_depth=6)


def people(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    color = rng.choice(np.array(COLORS, object), rows)
    income = rng.uniform(0, 100, rows).round(2)
    city, country = np.array(CITIES, object)[rng.integers(3, size=rows)].T
    return pd.DataFrame(
        {
            "age": np.where(rng.random(rows) < 0.1, np.nan, rng.integers(18, 81, rows)),
            "color": color,
            "income": np.where(color == "red", income * 0.9, income),
            "city": city,
            "country": country,
            "member": rng.random(rows) < 0.5,
            "ssn": [f"{number:06d}" for number in rng.permutation(rows)],
        }
    )


def lender(frame: pd.DataFrame) -> Any:
    """Class 2 for rich members, 1 for other rich or Austrian young ones, else 0."""
    rich, young = (frame["income"] > 60).to_numpy(), (frame["age"] <= 40).to_numpy()
    member, austrian = frame["member"].to_numpy(bool), (frame["country"] == "AT").to_numpy()
    return np.where(rich & member, 2, np.where(rich | (young & austrian), 1, 0)).astype(float)


def price(frame: pd.DataFrame) -> Any:
    return frame["income"].to_numpy() * np.where(frame["color"] == "red", 2, 1) + 30 * frame["member"].to_numpy(float)


def extracted(
    model: Model, frame: pd.DataFrame, trepan: Trepan = SMALL, classes: tuple[str, ...] = ("no", "maybe", "yes"), **given: Any
) -> tuple[Tree, TrepanState, list[pd.DataFrame], list[np.ndarray[Any, Any]]]:
    """The tree, the last state, and the rows of each round with their origins."""
    asked, origins = [], []
    state = trepan.start(frame, model(frame), PROFILE, COLUMNS, classes=classes, **given)
    while not state.done:
        rows, origin = trepan.ask(state)
        asked.append(rows)
        origins.append(origin)
        state = trepan.tell(state, model(rows))
    return trepan.tree(state), state, asked, origins


def test_a_small_tree_behind_the_model_is_found_again() -> None:
    tree, state, asked, _ = extracted(lender, people(150))
    new = people(2_000, seed=1)
    assert np.mean(tree.predict(new) == lender(new)) > 0.97
    assert tree.classes == ("no", "maybe", "yes")
    assert {test.column for test in tree.tests if test} <= {"income", "member", "age", "country", "city"}
    assert state.queries == sum(map(len, asked))


def test_rows_are_asked_in_rounds_of_many_nodes() -> None:
    tree, _, asked, _ = extracted(price, people(150), classes=())
    assert len(tree.leaves) > 10
    assert len(asked) < len(tree.leaves)


def test_asked_rows_are_valid_keep_ties_and_what_may_not_change() -> None:
    frame = people(120)
    _, _, asked, origins = extracted(price, frame, classes=(), ties=[["age", "color"]])
    rows, origin = pd.concat(asked, ignore_index=True), np.concatenate(origins)
    assert len(rows) > 1_000
    assert list(rows.columns) == list(frame.columns)
    assert (rows.dtypes == frame.dtypes).all()
    assert not any(invalid_reasons(rows, PROFILE))
    assert set(zip(rows["city"], rows["country"], strict=True)) <= set(CITIES)
    pairs = frame[["age", "color"]].fillna(-1)
    assert set(map(tuple, rows[["age", "color"]].fillna(-1).to_numpy())) <= set(map(tuple, pairs.to_numpy()))
    for fixed in ("member", "ssn"):
        assert (rows[fixed].to_numpy() == frame[fixed].to_numpy()[origin]).all()


def test_the_order_of_the_rows_plays_no_part() -> None:
    frame = people(150)
    shuffled = frame.sample(frac=1, random_state=3).reset_index(drop=True)
    (tree, _, asked, origins), (again, _, asked_again, origins_again) = (extracted(lender, one) for one in (frame, shuffled))
    assert tree.to_dict() == again.to_dict()
    for rows, same in zip(asked, asked_again, strict=True):
        pd.testing.assert_frame_equal(rows, same)
    for origin, same_origin in zip(origins, origins_again, strict=True):
        assert (frame["ssn"].to_numpy()[origin] == shuffled["ssn"].to_numpy()[same_origin]).all()


def test_another_seed_asks_other_rows() -> None:
    (_, _, asked, _), (_, _, other, _) = (extracted(lender, people(150), random_seed=seed) for seed in (0, 1))
    assert not asked[0].equals(other[0])


def test_more_leaves_only_refine_a_tree() -> None:
    """Best first: the tree with fewer leaves is a top of the one with more, though they ask in other rounds."""
    paths = []
    for leaves in (2, 5, 9, 16):
        tree, *_ = extracted(price, people(150), Trepan(smallest_sample=200, max_leaves=leaves, max_depth=6), classes=())
        assert len(tree.leaves) == leaves
        paths.append({tuple(tree.path(int(node))) for node in range(len(tree.tests))})
    assert all(fewer <= more for fewer, more in pairwise(paths))


def test_limits_hold() -> None:
    tree, *_ = extracted(price, people(150), Trepan(smallest_sample=100, max_leaves=64, max_depth=3), classes=())
    assert tree.mpl == 3
    lone, state, asked, _ = extracted(price, people(150), Trepan(max_leaves=1), classes=())
    assert len(lone.leaves) == 1
    assert not asked
    assert state.queries == 0


@pytest.mark.parametrize("budget", [0, 50, 199, 1_000])
def test_the_budget_holds(budget: int) -> None:
    _, state, asked, _ = extracted(lender, people(150), budget=budget)
    assert state.queries == sum(map(len, asked)) <= budget
    assert bool(asked) == (budget >= 50)  # what the root lacks


def test_enough_real_rows_ask_nothing() -> None:
    tree, _, asked, _ = extracted(lender, people(3_000), Trepan(smallest_sample=20, max_leaves=4, max_depth=2))
    assert len(tree.leaves) == 4 or tree.mpl == 2
    assert not asked


def test_a_node_of_one_class_stays_a_leaf_once_that_is_sure() -> None:
    def constant(frame: pd.DataFrame) -> Any:
        return np.ones(len(frame))

    tree, _, asked, _ = extracted(constant, people(20), Trepan(smallest_sample=500))
    assert tree.values.tolist() == [1]
    assert [len(rows) for rows in asked] == [480]
    _, _, asked, _ = extracted(constant, people(300), Trepan(smallest_sample=500))  # Wilson's lower bound of 300 / 300 is 0.991
    assert not asked


def test_a_regressor_without_spread_is_a_lone_root() -> None:
    tree, _, asked, _ = extracted(lambda frame: np.full(len(frame), 7.0), people(20), classes=())
    assert tree.values.tolist() == [7]
    assert not asked


def test_a_regressor_stops_where_little_variance_is_left() -> None:
    def step(frame: pd.DataFrame) -> Any:
        return np.where(frame["income"] > 50, 10.0, 0.0)

    tree, *_ = extracted(step, people(300), classes=())
    assert len(tree.leaves) <= 3
    assert tree.tests[0] is not None
    assert tree.tests[0].column == "income"


def test_rows_without_an_answer_are_left_out() -> None:
    def failing(frame: pd.DataFrame) -> Any:
        return np.where(frame["color"] == "green", np.nan, lender(frame))

    tree, state, *_ = extracted(failing, people(150))
    assert not np.isnan(state.answers).any()
    assert not (state.frame["color"] == "green").any()
    new = people(1_000, seed=1)
    assert np.mean(tree.predict(new) == lender(new)) > 0.95


def test_equal_leaves_are_merged() -> None:
    tree, *_ = extracted(lender, people(150))
    for node, test in enumerate(tree.tests):
        yes, no = tree.yes[node], tree.no[node]
        if test is not None and tree.yes[yes] < 0 and tree.yes[no] < 0:
            assert tree.values[yes] != tree.values[no]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (np.zeros(9), r"got answers of shape \(9,\), expected \(10,\)"),
        (np.zeros((10, 1)), r"got answers of shape \(10, 1\), expected \(10,\)"),
        (np.full(10, 3), "no class code, expected 0 to 2"),
        (np.full(10, 0.5), "no class code, expected 0 to 2"),
        (np.full(10, np.inf), "infinite answer"),
        (np.full(10, np.nan), "no usable answer to 10 rows"),
    ],
)
def test_bad_answers(answers: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        SMALL.start(people(10), answers, PROFILE, COLUMNS, classes=("no", "maybe", "yes"))


def test_told_answers_are_checked() -> None:
    frame = people(50)
    state = SMALL.start(frame, lender(frame), PROFILE, COLUMNS, classes=("no", "maybe", "yes"))
    with pytest.raises(InputError, match=r"got answers of shape \(2,\), expected \(150,\)"):
        SMALL.tell(state, [0.0, 1.0])


def real(frame: pd.DataFrame) -> Real:
    return Real(frame=frame, profile=PROFILE, units=units_of(PROFILE, list(frame.columns)))


PATHS = [
    ((Question(column="income", at_most=30.0), False), (Question(column="color", among=("green",)), True)),
    ((Question(column="age", at_most=40, missing=True), True), (Question(column="member", among=(True,)), True)),
    ((Question(column="city", among=("Wien",)), True), (Question(column="country", among=("CH",)), False)),
]


@pytest.mark.parametrize("path", PATHS)
def test_made_rows_reach_their_node(path: Any) -> None:
    given = real(people(300))
    here = np.flatnonzero(reaches(given.frame, path))
    for made, base in (
        swapped(given, here, path, 0.3, 400, np.random.default_rng(0)),
        from_marginals(given, np.arange(300), path, 400, np.random.default_rng(0)),
    ):
        assert len(made) == len(base) == 400
        assert reaches(made, path).all()
        assert set(made["ssn"]) <= set(given.frame["ssn"])


def test_a_swapped_row_differs_from_its_base_in_about_the_rate() -> None:
    given = real(people(2_000))
    made, base = swapped(given, np.arange(2_000), (), 0.3, 2_000, np.random.default_rng(0))
    before = given.frame.iloc[base].reset_index(drop=True)
    moved = made["income"] != before["income"]  # distinct values: every swap shows
    assert moved.mean() == pytest.approx(0.3 + 0.7**4 / 4, abs=0.07)  # and at least one of the four units that may
    assert ((made.fillna(-1) != before.fillna(-1)).any(axis=1)).all()


def test_a_path_that_no_row_can_take_makes_none() -> None:
    impossible = ((Question(column="city", among=("Wien",)), True), (Question(column="country", among=("CH",)), True))
    made, base = from_marginals(real(people(100)), np.arange(100), impossible, 50, np.random.default_rng(0))
    assert len(made) == len(base) == 0
    assert list(made.columns) == list(people(1).columns)


def test_numbers_come_from_a_kernel_density_and_keep_their_kind_and_range() -> None:
    frame = people(400)
    made, _ = from_marginals(real(frame), np.arange(400), (), 4_000, np.random.default_rng(0))
    assert not set(made["income"]) <= set(frame["income"])
    assert made["income"].between(0, 100).all()
    assert made["age"].dropna().between(18, 80).all()
    assert (made["age"].dropna() % 1 == 0).all()
    assert made["age"].isna().mean() == pytest.approx(frame["age"].isna().mean(), abs=0.03)
    # Drawn one by one: colour says nothing about income any more, but for the rule.
    assert made.loc[made["color"] == "red", "income"].max() <= 90


def test_the_kernel_has_silvermans_width() -> None:
    rng = np.random.default_rng(0)
    frame = people(500)
    frame["income"] = 50 + rng.standard_normal(500)  # far from the range's ends
    made, _ = from_marginals(real(frame), np.arange(500), (), 20_000, rng)
    spread, (low, high) = frame["income"].std(ddof=0), frame["income"].quantile([0.25, 0.75])
    width = 0.9 * min(spread, (high - low) / 1.34) * 500**-0.2
    assert made["income"].std() == pytest.approx(np.hypot(spread, width), rel=0.02)
    assert made["income"].nunique() > 10_000


def test_without_a_column_that_may_change_the_real_rows_must_do() -> None:
    held = Profile(columns=tuple(replace(column, immutable=True) for column in PROFILE.columns))
    frame = people(100)
    state = SMALL.start(frame, lender(frame), held, COLUMNS, classes=("no", "maybe", "yes"))
    assert state.done
    assert len(SMALL.tree(state).leaves) > 2


def test_what_is_tied_to_a_private_column_stays() -> None:
    tied = replace(PROFILE, tied=(Tied(columns=("color", "ssn"), values=(), counts=()),))
    public = people(10).drop(columns="ssn")
    assert units_of(tied, list(public.columns)) == (("age",), ("income",), ("city",), ("country",))

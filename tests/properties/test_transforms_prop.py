"""What holds of every transform of table rows, whatever the seeds."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from tables import PROTECTED, SCHEMA, Seeds, rows, seeds_of

from aitest_lib.artifacts.codecs import get_table
from aitest_lib.data.schema import invalid_reasons
from aitest_lib.registry import components
from aitest_lib.rng import rng_for
from aitest_lib.transforms.base import TabularTransform
from aitest_lib.transforms.tabular import CategorySwap, MissingValue, NumericNoise
from aitest_tasks.case_tables import STATUS
from aitest_tasks.generation import write_cases

SEEDS = seeds_of(rows(), SCHEMA, protected=PROTECTED)
COMPONENTS = [NumericNoise(epsilon=0.1), NumericNoise(epsilon=10), NumericNoise(epsilon=1e-6), CategorySwap(), MissingValue()]
COMPONENTS += [
    cls()
    for name, cls in components().items()
    if issubclass(cls, TabularTransform) and name not in {component.name for component in COMPONENTS}
]
LOCKED = ["born", "note", "sex"]  # immutable, ignored, protected
epsilons = st.floats(1e-6, 10)
component = st.sampled_from(COMPONENTS)


def changed(seeds: Seeds, transform: TabularTransform) -> pd.DataFrame:
    return transform.apply(seeds.batch.frame, seeds.draw(transform).params)


def differs(before: pd.DataFrame, after: pd.DataFrame, name: str) -> np.ndarray:
    return ~((before[name] == after[name]) | (before[name].isna() & after[name].isna())).fillna(False).to_numpy(bool)


def equal(first: pd.DataFrame, second: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(first, second, check_exact=True)


@given(component)
@settings(max_examples=len(COMPONENTS) * 2)
def test_the_seeds_stay_as_they_are(transform):
    before = SEEDS.batch.frame.copy(deep=True)
    params = SEEDS.draw(transform).params
    kept = [dict(row, set=dict(row["set"])) for row in params]
    after = transform.apply(SEEDS.batch.frame, params)
    equal(SEEDS.batch.frame, before)
    assert params == kept
    assert list(after.dtypes) == list(before.dtypes)
    assert after.index.equals(before.index)
    equal(transform.apply(SEEDS.batch.frame, params), after)


@given(component, st.lists(st.integers(0, 200), max_size=6))
@settings(max_examples=40)
def test_every_split_of_the_batch_gives_the_same_cases(transform, cuts):
    whole = SEEDS.draw(transform)
    edges = [0, *sorted(cuts), 200]
    parts = [slice(low, high) for low, high in pairwise(edges) if high > low]
    drawn = [SEEDS.draw(transform, part) for part in parts]
    assert [row for part in drawn for row in part.params] == whole.params
    assert [reason for part in drawn for reason in part.not_applicable] == whole.not_applicable
    np.testing.assert_array_equal(np.concatenate([part.distance for part in drawn]), whole.distance)
    frames = [transform.apply(SEEDS.batch.frame.iloc[part], piece.params) for part, piece in zip(parts, drawn, strict=True)]
    equal(pd.concat(frames), transform.apply(SEEDS.batch.frame, whole.params))


@pytest.mark.parametrize("transform", COMPONENTS, ids=lambda item: f"{item.name} {item.strength_value}")
def test_no_column_order_and_no_other_seed_plays_a_part(transform):
    reordered = seeds_of(rows()[sorted(rows().columns)].sample(frac=1, random_state=1), SCHEMA, protected=PROTECTED)
    assert reordered.seed_ids == SEEDS.seed_ids
    assert reordered.draw(transform).params == SEEDS.draw(transform).params


@pytest.mark.parametrize("transform", COMPONENTS, ids=lambda item: f"{item.name} {item.strength_value}")
def test_the_case_is_what_was_drawn_and_nothing_else(transform):
    draw = SEEDS.draw(transform)
    before, after = SEEDS.batch.frame, transform.apply(SEEDS.batch.frame, draw.params)
    moved = pd.DataFrame({name: differs(before, after, name) for name in before.columns})
    named = [set(moved.columns[row]) for row in moved.to_numpy()]
    assert named == [set(row["set"]) for row in draw.params]
    assert [bool(row) for row in named] == (draw.distance > 0).tolist()
    assert sum(map(len, named)) > 50


@given(component)
@settings(max_examples=len(COMPONENTS) * 2)
def test_what_may_not_change_stays(transform):
    before, after = SEEDS.batch.frame, changed(SEEDS, transform)
    assert "ssn" not in before
    locked = [*LOCKED, "since"]
    if isinstance(transform, NumericNoise):
        locked.remove("sex")
    for name in locked:
        assert not differs(before, after, name).any(), name


@given(component)
@settings(max_examples=len(COMPONENTS) * 2)
def test_cases_satisfy_the_schema(transform):
    after = changed(SEEDS, transform)
    assert invalid_reasons(SEEDS.batch.frame, SEEDS.profile).tolist() == [None] * 200
    assert invalid_reasons(after, SEEDS.profile).tolist() == [None] * 200


class TestNumericNoise:
    @given(epsilons)
    @settings(max_examples=30, deadline=None)
    def test_moves_stay_within_the_bound_the_range_and_the_kind(self, epsilon):
        transform = NumericNoise(epsilon=epsilon)
        before, after = SEEDS.batch.frame, changed(SEEDS, transform)
        for name in ("age", "pay", "rate", "visits", "account"):
            column = SEEDS.profile[name]
            old, new = before[name].to_numpy(float), after[name].to_numpy(float)
            assert (np.isnan(old) == np.isnan(new)).all(), name
            bound = epsilon * column.sd * (1 + 1e-5) + (0.5 if column.kind == "integer" else 1e-9 * np.nanmax(np.abs(old)))
            assert np.nanmax(np.abs(new - old)) <= bound, name
            assert np.nanmin(new) >= column.min, name
            assert np.nanmax(new) <= column.max, name
            if column.kind == "integer":
                assert (np.nan_to_num(new) % 1 == 0).all()

    @given(epsilons, epsilons)
    @settings(max_examples=30, deadline=None)
    def test_along_a_sweep_the_same_draw_is_scaled(self, one, other):
        frame = SEEDS.batch.frame
        free = {name: {"min": -1e9, "max": 1e9} for name in ("pay", "rate")}
        seeds = seeds_of(rows()[["pay", "rate"]], free)
        frame = seeds.batch.frame
        for name in ("pay", "rate"):
            small, large = (
                (changed(seeds, NumericNoise(epsilon=epsilon))[name] - frame[name]).to_numpy() / epsilon
                for epsilon in (one, other)
            )
            # To the fifth digit of each move, and to what a double holds of the value moved.
            grain = 4 * np.finfo(float).eps * np.abs(frame[name].to_numpy()) / min(one, other)
            assert np.nanmax(np.abs(small - large) / (1e-4 * np.abs(small) + grain)) <= 1, name

    def test_the_draw_is_uniform_within_the_bound(self):
        values = np.arange(2_000.0) + 0.5
        seeds = seeds_of(pd.DataFrame({"x": values}), {"x": {"min": -1e6, "max": 1e6}})
        sd = seeds.profile["x"].sd
        moves = (changed(seeds, NumericNoise(epsilon=0.5))["x"] - seeds.batch.frame["x"]) / (0.5 * sd)
        counts, _ = np.histogram(moves, bins=10, range=(-1, 1))
        assert counts.sum() == 2_000
        assert chisquare(counts).pvalue > 1e-4

    @given(st.lists(st.floats(-1e12, 1e12), min_size=2, max_size=30, unique=True), epsilons)
    @settings(max_examples=50, deadline=None)
    def test_any_numbers(self, values, epsilon):
        seeds = seeds_of(pd.DataFrame({"x": values}))
        column = seeds.profile["x"]
        old, new = seeds.batch.frame["x"].to_numpy(float), changed(seeds, NumericNoise(epsilon=epsilon))["x"].to_numpy(float)
        assert np.isfinite(new).all()
        assert ((new >= column.min) & (new <= column.max)).all()
        assert (np.abs(new - old) <= epsilon * column.sd * (1 + 1e-5) + 0.5 + 1e-3).all()

    def test_leaving_a_column_out_moves_no_other_draw(self):
        alone = SEEDS.draw(NumericNoise(epsilon=0.5, columns=["age"])).params
        together = SEEDS.draw(NumericNoise(epsilon=0.5)).params
        assert [row["set"].get("age") for row in alone] == [row["set"].get("age") for row in together]
        assert {name for row in alone for name in row["set"]} == {"age"}

    def test_a_seed_outside_its_range_is_not_pulled_in(self):
        seeds = seeds_of(pd.DataFrame({"x": [1.5, 2.5, 3.5, 90.5]}), {"x": {"min": 0, "max": 10}})
        moves = changed(seeds, NumericNoise(epsilon=0.01))["x"] - seeds.batch.frame["x"]
        assert moves.abs().max() <= 0.01 * seeds.profile["x"].sd * (1 + 1e-5)


class TestNoEffect:
    def test_digits_that_epsilon_cannot_change_have_no_effective_case(self):
        seeds = seeds_of(pd.DataFrame({"digit": list(range(10)) * 20}))
        assert 0.1 * seeds.profile["digit"].sd < 0.5
        cases = get_table(seeds.store, write_cases(seeds.store, seeds.job(NumericNoise(epsilon=0.1))))
        assert Counter(cases.column(STATUS).to_pylist()) == {"no_op": 200}
        larger = get_table(seeds.store, write_cases(seeds.store, seeds.job(NumericNoise(epsilon=1))))
        assert Counter(larger.column(STATUS).to_pylist())[None] > 100

    @pytest.mark.parametrize(
        ("transform", "schema", "reason"),
        [
            (NumericNoise(), {"x": {"type": "category"}}, "no numeric column may change"),
            (NumericNoise(), {"x": {"immutable": True}}, "no numeric column may change"),
            (CategorySwap(), {}, "no categorical column may change"),
            (MissingValue(), {}, "no column may be missing"),
        ],
    )
    def test_without_a_column_to_work_on_no_case_applies(self, transform, schema, reason):
        seeds = seeds_of(pd.DataFrame({"x": [1, 2, 3]}), schema)
        assert seeds.draw(transform).not_applicable == [reason] * 3
        cases = get_table(seeds.store, write_cases(seeds.store, seeds.job(transform)))
        assert cases.column(STATUS).to_pylist() == ["not_applicable"] * 3

    def test_a_constant_column_cannot_move(self):
        assert "same" not in {name for row in SEEDS.draw(NumericNoise(epsilon=10)).params for name in row["set"]}

    def test_one_missing_value_is_no_other(self):
        seeds = seeds_of(pd.DataFrame({"x": [1.5, None], "y": [1, 2]}), {"y": {"immutable": True}})
        sets = [row["set"] for row in seeds.draw(MissingValue()).params]
        missing = seeds.batch.frame["x"].isna().tolist()
        assert sets == [{} if gone else {"x": None} for gone in missing]


class TestCategorySwap:
    def test_one_unit_changes_to_an_observed_combination(self):
        before, draw = SEEDS.batch.frame, SEEDS.draw(CategorySwap())
        after = changed(SEEDS, CategorySwap())
        units = [{"job"}, {"member"}, {"level"}, {"red", "green", "blue"}, {"city", "state"}]
        seen = set()
        for row in draw.params:
            [unit] = [index for index, names in enumerate(units) if set(row["set"]) <= names]
            assert row["set"]
            seen.add(unit)
        assert seen == set(range(5))
        observed = set(before[["city", "state"]].itertuples(index=False))
        assert set(after[["city", "state"]].itertuples(index=False)) <= observed
        assert (after[["red", "green", "blue"]].sum(axis=1) == 1).all()

    def test_members_of_a_group_move_together_or_not_at_all(self):
        frame = pd.DataFrame({"city": ["Rome", "Paris"] * 5, "state": ["IT", "FR"] * 5, "n": range(10)})
        for lock in ({"immutable": True}, {"ignore": True}, {"private": True}):
            seeds = seeds_of(frame, {"city": {"tied": "state"}, "state": lock, "n": {"ignore": True}})
            assert seeds.draw(CategorySwap()).not_applicable == ["no categorical column may change"] * 10
        seeds = seeds_of(frame, {"city": {"tied": "state"}}, protected=("state",))
        assert all(row["set"] == {} for row in seeds.draw(CategorySwap()).params)

    def test_dates_and_missing_values_move_with_their_group(self):
        frame = pd.DataFrame(
            {
                "day": pd.to_datetime(["2020-01-01", None, "2021-05-05"] * 4),
                "plan": ["a", None, "b"] * 4,
                "fee": [1.5, None, 2] * 4,
            }
        )
        seeds = seeds_of(frame, {"day": {"tied": ["plan", "fee"]}})
        before, after = seeds.batch.frame, changed(seeds, CategorySwap())
        for name in frame.columns:
            assert differs(before, after, name).all(), name
        observed = {tuple(row) for row in before.astype(str).to_numpy().tolist()}
        assert {tuple(row) for row in after.astype(str).to_numpy().tolist()} <= observed
        cases = get_table(seeds.store, write_cases(seeds.store, seeds.job(CategorySwap())))
        assert set(cases.column(STATUS).to_pylist()) == {None}

    def test_frequencies_are_followed(self):
        shares = {"a": 600, "b": 250, "c": 100, "d": 50}
        frame = pd.DataFrame({"x": [name for name, count in shares.items() for _ in range(count)], "n": range(1_000)})
        seeds = seeds_of(frame, {"n": {"ignore": True}})
        before, after = seeds.batch.frame["x"], changed(seeds, CategorySwap())["x"]
        for name, count in shares.items():
            others = {other: n for other, n in shares.items() if other != name}
            drawn = Counter(after[before == name])
            assert name not in drawn
            expected = np.array(list(others.values())) / sum(others.values()) * count
            assert chisquare([drawn[other] for other in others], expected).pvalue > 1e-4, name

    def test_a_value_that_was_never_observed_is_swapped_by_frequency(self):
        swap = CategorySwap()
        frame = pd.DataFrame({"x": ["a"] * 300 + ["b"] * 100 + ["typo"] * 400, "n": range(800)})
        seeds = seeds_of(frame, {"x": {"categories": ["a", "b"]}, "n": {"ignore": True}})
        before, after = seeds.batch.frame["x"], changed(seeds, swap)["x"]
        drawn = Counter(after[before == "typo"])
        assert set(drawn) == {"a", "b"}
        assert chisquare([drawn["a"], drawn["b"]], [300, 100]).pvalue > 1e-4

    def test_columns_may_be_chosen(self):
        params = SEEDS.draw(CategorySwap(columns=["job"])).params
        assert {tuple(row["set"]) for row in params} == {("job",)}


class TestMissingValue:
    def test_only_where_the_schema_allows_it(self):
        before, after = SEEDS.batch.frame, changed(SEEDS, MissingValue())
        gone = {name for name in before.columns if differs(before, after, name).any()}
        assert gone == {"rate", "visits", "job"}
        assert after[list(gone)].isna().sum().sum() > before[list(gone)].isna().sum().sum()

    def test_large_ids_beside_a_gap_keep_their_digits(self):
        numbers = pd.array([2**53 + 1, 2**53 + 3, None, 2**53 + 5, 2**53 + 7], dtype="Int64")
        seeds = seeds_of(pd.DataFrame({"id": numbers, "x": [1.5, None, 2.5, 3.5, 4.5]}))
        before, after = seeds.batch.frame, changed(seeds, MissingValue())
        assert any(row["set"] == {"id": None} for row in seeds.draw(MissingValue()).params)
        kept = ~after["id"].isna()
        assert after["id"][kept].tolist() == before["id"][kept].tolist()


def test_each_case_has_a_generator_of_its_own():
    first, second = (rng_for(7, "numeric_noise@1", seed) for seed in ("a", "b"))
    assert first.random() != second.random()
    assert rng_for(7, "numeric_noise@1", "a").random() == rng_for(7, "numeric_noise@1", "a").random()
    others = [(8, "numeric_noise@1", "a"), (7, "numeric_noise@2", "a"), (7, "category_swap@1", "a")]
    assert len({rng_for(*key).random() for key in [*others, (7, "numeric_noise@1", "a")]}) == 4

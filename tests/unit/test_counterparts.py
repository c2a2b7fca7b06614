"""Rows with other values: what is tried, what moves along, what the data contradict."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aitest_lib.data.counterparts import Counterparts, combined_values, with_tied_values, with_values
from aitest_lib.data.schema import ColumnOverride, Profile, build_profile
from aitest_lib.data.table import memory_source, to_frame
from aitest_lib.errors import InputError

RNG = np.random.default_rng(0)
ROWS = 400


def people() -> pd.DataFrame:
    """Husbands are men and wives are women, but for one row; nobody else hangs on sex."""
    sex = RNG.choice(["F", "M"], ROWS)
    married = RNG.random(ROWS) < 0.5
    role = np.where(married, np.where(sex == "M", "husband", "wife"), RNG.choice(["single", "child"], ROWS))
    frame = pd.DataFrame(
        {"sex": sex, "role": role, "age": RNG.integers(18, 90, ROWS), "race": RNG.choice(["a", "b", "c"], ROWS)}
    )
    frame.loc[0, ["sex", "role"]] = ["F", "husband"]
    return frame


def profile_of(frame: pd.DataFrame, **overrides: ColumnOverride) -> Profile:
    return build_profile(memory_source(frame), None, dict(overrides), [], set())


def framed(frame: pd.DataFrame) -> pd.DataFrame:
    source = memory_source(frame)
    return to_frame(source.take(np.arange(len(frame)), source.schema.names))


class TestCombinations:
    def test_every_combination_of_categories(self):
        frame = people()
        found = combined_values(profile_of(frame), ["sex", "race"])
        assert found.every == 6
        assert sorted(map(tuple, found.values.to_numpy().tolist())) == [(s, r) for s in "FM" for r in "abc"]

    def test_numbers_are_those_given_and_the_rows_own(self):
        frame = pd.DataFrame({"code": [0, 1, 1, 3], "age": [20, 40, 60, 80], "sex": ["f", "m", "f", "m"]})
        profile = profile_of(frame)
        assert combined_values(profile, ["code"], {"code": [0, 1, 3]}).values["code"].tolist() == [0, 1, 3]  # all there are
        found = combined_values(profile, ["sex", "age"], {"age": [30, 70]})
        assert found.every == 6
        ages = found.values["age"].astype(object).where(found.values["age"].notna(), None)
        assert list(zip(found.values["sex"], ages, strict=True))[:3] == [("f", None), ("f", 30), ("f", 70)]
        alone = combined_values(profile, ["age"], {"age": [30, 70]}).values["age"].tolist()
        assert alone == [30, 70]  # a row's own value alone changes nothing

    def test_a_row_that_keeps_its_number(self):
        frame = framed(pd.DataFrame({"sex": ["f", "m"], "age": [20, 40]}))
        values = pd.DataFrame({"sex": ["f", "m", "m"], "age": pd.Series([None, None, 30], dtype=object)})
        counterparts = Counterparts(values, profile_of(frame), frame)
        assert counterparts.own(frame).tolist() == [0, 1]
        assert counterparts.apply(frame, np.array([1, 2]))[["sex", "age"]].to_numpy().tolist() == [["m", 20], ["m", 30]]

    def test_of_too_many_the_most_frequent_are_kept(self):
        frame = pd.DataFrame({"town": [f"t{n}" for n in range(30) for _ in range(n + 1)]})
        found = combined_values(profile_of(frame), ["town"], most=4)
        assert found.every == 30
        assert sorted(found.values["town"]) == ["t26", "t27", "t28", "t29"]

    def test_text_has_no_other_values(self):
        frame = pd.DataFrame({"name": [f"n{n}" for n in range(200)]})
        with pytest.raises(InputError, match="got name of kind text"):
            combined_values(profile_of(frame), ["name"])


class TestApplied:
    def test_nothing_else_changes_without_ties(self):
        frame = framed(people())
        profile = profile_of(people())
        counterparts = Counterparts(combined_values(profile, ["sex"]).values, profile, frame)
        changed = counterparts.apply(frame, np.ones(len(frame), np.int64))
        assert set(changed["sex"]) == {"M"}
        pd.testing.assert_frame_equal(changed.drop(columns="sex"), frame.drop(columns="sex"))

    def test_its_own_place_leaves_a_row_as_it_is(self):
        frame = framed(people())
        profile = profile_of(people())
        counterparts = Counterparts(combined_values(profile, ["sex", "race"]).values, profile, frame)
        pd.testing.assert_frame_equal(counterparts.apply(frame, counterparts.own(frame)), frame)

    def test_a_value_that_is_none_of_those_tried_has_no_place(self):
        frame = framed(people())
        profile = profile_of(people())
        values = combined_values(profile, ["race"]).values.iloc[:2]
        assert set(Counterparts(values, profile, frame).own(frame)[frame["race"] == "c"]) == {-1}

    def test_declared_ties_move_along_to_the_nearest_combination(self):
        frame = people()
        profile = profile_of(frame, role=ColumnOverride(tied="sex"))
        seeds = framed(frame)
        values = pd.DataFrame({"sex": pd.Series(["F"] * ROWS, dtype=object)})
        changed = with_tied_values(seeds, values, profile)
        husbands = (seeds["role"] == "husband") & (seeds["sex"] == "M")
        # A woman who is a husband occurs once, and so is the nearest: nothing else has to change.
        assert set(changed["role"][husbands]) == {"husband"}
        assert (changed["role"] == seeds["role"])[~husbands].all()

    def test_a_tie_without_the_combination_takes_the_most_frequent_nearest(self):
        frame = pd.DataFrame({"sex": ["M"] * 5 + ["F"] * 6, "role": ["husband"] * 5 + ["wife"] * 4 + ["widow"] * 2})
        profile = profile_of(frame, role=ColumnOverride(tied="sex"))
        changed = with_tied_values(framed(frame), pd.DataFrame({"sex": pd.Series(["F"] * 11, dtype=object)}), profile)
        assert changed["role"].tolist() == ["wife"] * 5 + ["wife"] * 4 + ["widow"] * 2

    @given(st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=30), st.integers(1, 29))
    @settings(max_examples=30, deadline=None)
    def test_every_split_of_the_rows_gives_the_same(self, rows, cut):
        frame = people()
        profile = profile_of(frame, role=ColumnOverride(tied="sex"))
        seeds = framed(frame).take(rows)
        values = pd.DataFrame({"sex": pd.Series(["F", "M"] * 15, dtype=object)})[: len(rows)]
        whole = with_tied_values(seeds, values, profile)
        parts = [with_tied_values(seeds[part], values[part], profile) for part in (slice(0, cut), slice(cut, None))]
        pd.testing.assert_frame_equal(pd.concat(parts), whole)

    def test_types_stay(self):
        frame = framed(pd.DataFrame({"age": [1, 2], "rate": [0.5, 1.5], "ok": [True, False]}))
        new = pd.DataFrame({"age": pd.Series([5, 6], dtype=object), "ok": pd.Series([False, False], dtype=object)})
        assert with_values(frame, new).dtypes.equals(frame.dtypes)


class TestContradictions:
    @pytest.fixture
    def counterparts(self) -> Counterparts:
        frame = people()
        frame = pd.concat([frame] * 10, ignore_index=True)
        odd = frame.index[(frame["sex"] == "F") & (frame["role"] == "husband")]
        frame = frame.drop(index=odd[1:])  # one of about a thousand husbands
        profile = profile_of(frame)
        return Counterparts(combined_values(profile, ["sex"]).values, profile, framed(frame), (("sex", "role"),))

    def test_what_hardly_occurs_is_unlikely(self, counterparts):
        frame = counterparts.observed
        likely = counterparts.likely(frame, np.zeros(len(frame), np.int64))  # everybody as a woman
        husbands = (frame["role"] == "husband").to_numpy()
        assert not likely[husbands].any() and likely[~husbands].all()

    def test_it_says_what_it_contradicts(self, counterparts):
        husband = counterparts.observed[counterparts.observed["role"] == "husband"].iloc[:1]
        changed = counterparts.apply(husband, np.zeros(1, np.int64))
        assert counterparts.contradictions(changed) == ["sex F with role husband"]
        assert counterparts.contradictions(counterparts.observed[counterparts.observed["role"] == "wife"].iloc[:1]) == []

    def test_the_nearest_possible_row_is_a_wife(self, counterparts):
        husbands = counterparts.observed[counterparts.observed["role"] == "husband"]
        moved = counterparts.tied(husbands, np.zeros(len(husbands), np.int64))
        assert set(moved["role"]) == {"wife"} and set(moved["sex"]) == {"F"}

    def test_what_breaks_a_rule_is_unlikely(self):
        frame = people()
        profile = build_profile(memory_source(frame), None, {}, ["role != 'husband' or sex == 'M' or age < 30"], set())
        counterparts = Counterparts(combined_values(profile, ["sex"]).values, profile, framed(frame))
        likely = counterparts.likely(framed(frame), np.zeros(ROWS, np.int64))
        against = ((frame["role"] == "husband") & (frame["age"] >= 30)).to_numpy()
        assert (likely == ~against).all()

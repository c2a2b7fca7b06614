"""What the columns of a table are taken for, and which rows break that."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from aitest_lib.canonical import canonical_json, digest
from aitest_lib.data.schema import ColumnOverride, Profile, build_profile, invalid_reasons, slice_labels, sliceable
from aitest_lib.data.table import memory_source
from aitest_lib.errors import InputError


def profile(frame, train=None, rules=(), skip=(), **overrides) -> Profile:
    given = {name: ColumnOverride(**override) for name, override in overrides.items()}
    other = None if train is None else memory_source(train)
    return build_profile(memory_source(frame), other, given, list(rules), set(skip))


def column(values, train=None, **override):
    frame = pd.DataFrame({"x": values})
    return profile(frame, None if train is None else pd.DataFrame({"x": train}), x=override)["x"]


MANY = [f"name {n}" for n in range(60)]


class TestInference:
    @pytest.mark.parametrize(
        ("values", "kind"),
        [
            ([1, 2, 3], "integer"),
            ([0, 1, 1], "integer"),
            (pd.array([1, None], dtype="Int64"), "integer"),
            ([1.0, 2.0, np.nan], "integer"),
            ([1.0, 2.5], "number"),
            ([np.nan, np.nan], "number"),
            ([True, False], "boolean"),
            (pd.array([True, None], dtype="boolean"), "boolean"),
            (["a", "b"], "category"),
            (pd.Categorical(["a", "b"], categories=["a", "b", "unused"]), "category"),
            ([None, None], "category"),
            (MANY, "text"),
            (MANY * 6, "category"),
            (MANY[:50], "category"),
            (pd.to_datetime(["2020-01-01"]), "datetime"),
        ],
    )
    def test_kinds(self, values, kind):
        assert column(values).kind == kind

    def test_numbers(self):
        x = column([3, 1, 2, 10])
        assert (x.min, x.max, x.missing) == (1, 10, False)
        assert x.sd == pytest.approx(np.std([1, 2, 3, 10]), rel=1e-11)
        assert x.quartiles == (1.75, 2.5, 4.75)
        assert column([1.5, None]).missing

    @pytest.mark.parametrize("values", [[0.1] * 3, [7] * 100, [np.nan, 0.3, 0.3, 0.3]])
    def test_a_constant_column_has_no_spread(self, values):
        assert column(values).sd == 0

    def test_a_column_that_ends_as_it_began_is_not_constant(self):
        assert column([1, 2, 1]).sd == pytest.approx(np.std([1, 2, 1]))

    def test_the_largest_doubles_have_a_spread(self):
        x = column([1.7976931348623157e308, -1.7976931348623157e308, 0.5])
        assert x.sd == pytest.approx(1.7976931348623157e308 * np.sqrt(2 / 3), rel=1e-9)

    def test_categories_are_counted(self):
        x = column(["b", "a", "b", None])
        assert (x.values, x.counts, x.allowed, x.missing) == (("a", "b"), (1, 2), ("a", "b"), True)
        x = column([True, False, True])
        assert (x.values, x.counts) == ((False, True), (1, 2))

    def test_ranges_and_categories_come_from_both_files_spread_and_frequencies_from_training(self):
        x = column([0, 9], train=[4, 6])
        assert (x.min, x.max, x.sd) == (0, 9, 1)
        x = column(["new", "a", None], train=["a", "a", "b"])
        assert (x.values, x.counts, x.allowed, x.missing) == (("a", "b"), (2, 1), ("a", "b", "new"), True)

    def test_a_training_file_may_lack_columns_and_hold_others(self):
        made = profile(pd.DataFrame({"x": [1, 2], "y": ["a", "b"]}), pd.DataFrame({"x": [1, 3], "z": [1, 2]}))
        assert [(item.name, item.max) for item in made.columns] == [("x", 3), ("y", None)]

    def test_fractions_in_the_test_data_make_a_number(self):
        assert column([0.5, 1.5], train=[1, 2]).kind == "number"

    def test_text_where_training_has_numbers(self):
        with pytest.raises(InputError, match=r"data.schema.x.type: got string in the data, expected numbers for type integer"):
            column(["1", "?"], train=[1, 2])

    def test_the_label_is_no_column(self):
        made = profile(pd.DataFrame({"x": [1, 2], "label": ["a", "b"]}), skip=["label"])
        assert list(made.by_name) == ["x"]


class TestOverrides:
    def test_range(self):
        x = column([20, 30], min=17, max=90)
        assert (x.min, x.max) == (17, 90)

    def test_type(self):
        x = column([1, 2, 2], type="category")
        assert (x.kind, x.values, x.counts, x.allowed) == ("category", (1, 2), (1, 2), (1, 2))
        assert column([1, 2], type="number").kind == "number"
        assert column(["a", "b"], type="text").allowed is None
        assert column([0, 1, 1], type="boolean").values == (0, 1)

    @pytest.mark.parametrize("values", [["a", "b"], [True, False], pd.to_datetime(["2020-01-01"])])
    def test_a_type_that_the_data_are_not(self, values):
        with pytest.raises(InputError, match=r"data.schema.x.type: got .* in the data, expected numbers for type integer"):
            column(values, type="integer")

    def test_categories(self):
        x = column(["a", "b", "typo"], categories=["a", "b", "c"])
        assert (x.values, x.counts, x.allowed) == (("a", "b"), (1, 1), ("a", "b", "c"))
        assert column(MANY, categories=["name 1"]).allowed == ("name 1",)

    def test_missing(self):
        assert column([1, 2], missing=True).missing
        assert not column([1, None], missing=False).missing

    @pytest.mark.parametrize(("override", "name"), [("immutable", "immutable"), ("private", "private"), ("ignore", "ignored")])
    def test_what_no_transform_may_change(self, override, name):
        x = column([1, 2], **{override: True})
        assert getattr(x, name)
        assert x.fixed
        assert not column([1, 2]).fixed

    def test_an_unknown_column(self):
        with pytest.raises(InputError, match=r"data.schema: unknown column 'agee'; did you mean age\?"):
            profile(pd.DataFrame({"age": [1]}), agee={"min": 1})

    def test_tied_columns_join_up(self):
        frame = pd.DataFrame({"a": [1, 2, 1], "b": ["x", "y", "x"], "c": [True, False, True], "d": [0, 1, 2]})
        for overrides in ({"a": {"tied": ["b", "c"]}}, {"c": {"tied": "a"}, "b": {"tied": "c"}}):
            [group] = profile(frame, **overrides).tied
            assert (group.columns, group.one_hot) == (("a", "b", "c"), False)
            assert (group.values, group.counts) == (((1, "x", True), (2, "y", False)), (2, 1))

    def test_combinations_are_sorted_not_ranked(self):
        [group] = profile(pd.DataFrame({"a": [2, 1, 2], "b": ["x", "y", "x"]}), a={"tied": "b"}).tied
        assert (group.values, group.counts) == (((1, "y"), (2, "x")), (1, 2))

    def test_dates_can_be_tied_and_be_categories(self):
        frame = pd.DataFrame({"day": pd.to_datetime(["2020-01-01", None]), "n": [1, 2]})
        made = profile(frame, day={"tied": "n"})
        assert set(made.tied[0].values) == {("2020-01-01", 1), (None, 2)}
        made = profile(frame, day={"type": "category"})
        assert made["day"].allowed == ("2020-01-01",)
        assert invalid_reasons(frame, made).tolist() == [None, None]
        canonical_json(made.to_dict())

    def test_an_unknown_tied_column(self):
        with pytest.raises(InputError, match=r"data.schema.a.tied: unknown column 'z'"):
            profile(pd.DataFrame({"a": [1]}), a={"tied": "z"})

    def test_one_hot_groups(self):
        frame = pd.DataFrame({"red": [1, 0, 0], "blue": [0, 1, 1]})
        [group] = profile(frame, red={"one_hot": "colour"}, blue={"one_hot": "colour"}).tied
        assert (group.columns, group.one_hot) == (("blue", "red"), True)
        assert dict(zip(group.values, group.counts, strict=True)) == {(0, 1): 1, (1, 0): 2}
        with pytest.raises(InputError, match="group 'colour' has one column, expected at least two"):
            profile(frame, red={"one_hot": "colour"})

    def test_a_one_hot_column_of_text(self):
        with pytest.raises(InputError, match=r"data.schema.a.one_hot: got a column of kind category, expected 0 and 1"):
            profile(pd.DataFrame({"a": ["y", "n"], "b": [0, 1]}), a={"one_hot": "g"}, b={"one_hot": "g"})

    def test_a_private_column_leaves_nothing_behind(self):
        frame = pd.DataFrame({"ssn": [123456789, 987654321], "name": ["Ann Secret", "Bob Secret"], "age": [30, 40]})
        made = profile(frame, ssn={"private": True}, name={"private": True, "tied": "age"})
        text = canonical_json(made.to_dict())
        for secret in ("123456789", "987654321", "Secret"):
            assert secret not in text
        assert made.private == ["ssn", "name"]
        assert not any(map(sliceable, (made["ssn"], made["name"])))

    def test_a_private_label_is_refused(self):
        with pytest.raises(InputError, match="the label stands in every report"):
            profile(pd.DataFrame({"x": [1], "y": [0]}), skip=["y"], y={"private": True})

    def test_rules_name_known_columns(self):
        with pytest.raises(InputError, match="unknown column 'aeg'"):
            profile(pd.DataFrame({"age": [1]}), rules=["aeg > 3"])


class TestSameness:
    OVERRIDES = {"job": {"tied": "rate"}, "s": {"ignore": True}}  # noqa: RUF012

    @staticmethod
    def frame(n: int = 500) -> pd.DataFrame:
        rng = np.random.default_rng(1)
        return pd.DataFrame(
            {
                "age": rng.integers(0, 90, n),
                "rate": rng.normal(0, 1e-3, n) * 10.0 ** rng.integers(-8, 8, n),
                "job": rng.choice(["a", "b", None], n),
                "s": rng.choice(MANY, n),
                "d": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 9, n), "D"),
            }
        )

    @pytest.mark.parametrize("seed", range(5))
    def test_shuffled_rows_give_the_same_profile_bit_for_bit(self, seed):
        frame = self.frame()
        expected = canonical_json(profile(frame, **self.OVERRIDES).to_dict())
        shuffled = frame.sample(frac=1, random_state=seed)
        assert canonical_json(profile(shuffled, **self.OVERRIDES).to_dict()) == expected

    def test_a_profile_survives_json(self):
        made = profile(self.frame(), rules=["age >= 0"], **self.OVERRIDES)
        again = Profile.of(json.loads(canonical_json(made.to_dict())))
        assert again == made
        assert digest(again.to_dict()) == digest(made.to_dict())


class TestInvalidReasons:
    FRAME = pd.DataFrame(
        {
            "age": [17.0, 16, 91, np.nan, 50],
            "job": pd.Series(["cook", "cook", "cook", "cook", "pilot"], dtype=object),
            "red": [1, 0, 1, 1, 1],
            "blue": [0, 1, 0, 0, 0],
        }
    )

    def reasons(self, frame, **more) -> list[str | None]:
        overrides = {"age": {"min": 17, "max": 90, "missing": False}, "job": {"categories": ["cook"]}, **more}
        return invalid_reasons(frame, profile(self.FRAME, rules=["age != 50 or job == 'pilot'"], **overrides)).tolist()

    def test_the_first_reason_of_each_row(self):
        assert self.reasons(self.FRAME) == [
            None,
            "age is below 17",
            "age is above 90",
            "age may not be missing",
            "job is no known category",
        ]

    def test_rules(self):
        frame = self.FRAME.assign(age=50.0, job="cook")
        assert self.reasons(frame) == ["rule age != 50 or job == 'pilot'"] * 5

    def test_one_hot_groups_add_up_to_one(self):
        groups = {"red": {"one_hot": "c"}, "blue": {"one_hot": "c"}}
        frame = self.FRAME.iloc[[0, 0, 0]].assign(red=[1, 1, 0], blue=[0, 1, 0])
        broken = "one-hot group blue, red does not add up to 1"
        assert self.reasons(frame, **groups) == [None, broken, broken]

    def test_missing_values_that_are_allowed(self):
        frame = pd.DataFrame({"n": [1.0, np.nan], "c": pd.Series(["a", None], dtype=object)})
        assert invalid_reasons(frame, profile(frame)).tolist() == [None, None]

    def test_columns_that_are_not_there_are_not_checked(self):
        assert invalid_reasons(self.FRAME[["red"]], profile(self.FRAME, rules=["age > 100"])).tolist() == [None] * 5


class TestSlices:
    def test_numbers_fall_into_quartiles(self):
        values = [0, 1, 2, 3, 4, 5, 6, 7, None]
        x = column(values)
        assert slice_labels(pa.chunked_array([pa.array(values)]), x) == [
            *["<= 1.75"] * 2,
            *["1.75 .. 3.5"] * 2,
            *["3.5 .. 5.25"] * 2,
            *["> 5.25"] * 2,
            "missing",
        ]

    def test_close_quartiles_stay_apart(self):
        values = [1_700_000_000 + n for n in range(4)]
        labels = slice_labels(pa.chunked_array([values]), column(values))
        assert len(set(labels)) == 4

    def test_categories_are_slices(self):
        values = ["a", None, "b"]
        assert slice_labels(pa.chunked_array([values]), column(values)) == ["a", "missing", "b"]

    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            ([1, 2, 3, 4], True),
            ([0, 0, 0, 1], False),
            (["a", "b"], True),
            (["a", "a"], False),
            ([True, False], True),
            (MANY * 6, False),
            (pd.to_datetime(["2020-01-01", "2020-01-02"]), False),
        ],
    )
    def test_what_can_be_cut_into_slices(self, values, expected):
        assert sliceable(column(values)) is expected
        assert not sliceable(column(values, ignore=True))

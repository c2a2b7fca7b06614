"""The groups that rows belong to: names, edges, missing values, crossings."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from aitest_lib.data.groups import Groups, crossed, group_codes
from aitest_lib.data.schema import Column, Kind, slice_labels
from aitest_lib.errors import InputError
from aitest_lib.scorers.group_choice import choose_groups


def grouped(values: list, kind: Kind, edges: list[float] | None = None, name: str = "c") -> tuple[list[str], str | None]:
    """The group of each row by name, and how numbers were cut."""
    chunks = [pa.array(values), pa.array(values)[:0]]
    found = group_codes(pa.chunked_array(chunks), Column(name=name, kind=kind), edges)
    assert sorted(set(found.codes.tolist())) == list(range(len(found.names)))
    assert found.parts == [(one,) for one in found.names]
    return [found.names[code] for code in found.codes], found.cut


def test_each_value_is_a_group_and_none_at_all_is_one():
    assert grouped(["b", None, "a"], "category") == (["b", "missing", "a"], None)
    assert grouped([True, None, False], "boolean") == (["true", "missing", "false"], None)
    assert grouped([None, None], "category") == (["missing", "missing"], None)
    assert grouped([3, 1, None], "category") == (["3", "1", "missing"], None)
    assert grouped([1.5, float("nan"), None], "category") == (["1.5", "missing", "missing"], None)


def test_a_value_that_is_called_missing_is_not_a_missing_value():
    assert grouped(["missing", None], "category")[0] == ["missing", "no value"]
    assert grouped(["no value", None, "missing"], "category")[0] == ["no value", "no value (2)", "missing"]


def test_dictionaries_of_several_chunks_are_one():
    chunks = [pa.array(["a", None, "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()]
    found = group_codes(pa.chunked_array(chunks), Column(name="c", kind="category"))
    assert [found.names[code] for code in found.codes] == ["a", "missing", "b", "c", "a"]


def test_few_numbers_are_groups_in_their_order():
    assert grouped([10, 2, 1, None], "integer") == (["10", "2", "1", "missing"], None)
    found = group_codes(pa.chunked_array([pa.array([10, 2, 1, None])]), Column(name="c", kind="integer"))
    assert found.names == ["1", "2", "10", "missing"]


def test_integers_are_told_apart_to_the_last_digit():
    near = [2**53, 2**53 + 1, 2**53 + 2, None]
    assert grouped(near, "integer")[0] == ["9007199254740992", "9007199254740993", "9007199254740994", "missing"]
    assert grouped([2_000_000, 1_000_000], "integer")[0] == ["2000000", "1000000"]
    unsigned = pa.chunked_array([pa.array([2**64 - 1, 2**64 - 2], pa.uint64())])
    assert group_codes(unsigned, Column(name="c", kind="integer")).names == ["18446744073709551614", "18446744073709551615"]


def test_ranges_have_their_lower_edge():
    assert grouped([39, 40, 64, 65, None], "integer", [40, 65]) == (["< 40", "40 .. 64", "40 .. 64", ">= 65", "missing"], None)
    assert grouped([39.9, 40, 64.9, 65], "number", [40, 65])[0] == ["< 40", "40 .. < 65", "40 .. < 65", ">= 65"]
    assert grouped([1, 2, 3], "integer", [2, 3])[0] == ["< 2", "2", ">= 3"]
    assert grouped([10, 20], "integer", [40, 65])[0] == ["< 40", "< 40"]


@pytest.mark.parametrize("edges", [[], [65, 40], [40, 40], [float("nan")]])
def test_edges_ascend(edges):
    with pytest.raises(InputError, match="expected at least one, in ascending order"):
        grouped([1, 2], "integer", edges)


def test_edges_belong_to_numbers():
    with pytest.raises(InputError, match="got edges for sex, a column of kind category, expected numbers"):
        grouped(["a"], "category", [1], name="sex")


def test_many_numbers_are_cut_at_their_quartiles_as_slices_are():
    values = pa.chunked_array([pa.array([*range(100), None])])
    column = Column(name="age", kind="integer", quartiles=(24.75, 49.5, 74.25), missing=True)
    found = group_codes(values, column)
    assert [found.names[code] for code in found.codes] == slice_labels(values, column)
    assert found.cut == "age is a number: its groups are its quartiles"


def test_quartiles_that_fall_together_are_one_edge():
    names, cut = grouped([0] * 90 + list(range(1, 21)), "integer", name="gain")
    assert set(names) == {"<= 0", "> 0"} and names.count("> 0") == 20
    assert cut == "gain is a number: its groups are its quartiles"


def test_dates_are_cut_at_their_quartiles():
    days = [dt.datetime(2020, 1, 1) + dt.timedelta(days=n) for n in range(40)]
    names, cut = grouped([*days, None], "datetime", name="joined")
    assert names[0] == "<= 2020-01-10" and names[-2] == "> 2020-01-30" and names[-1] == "missing"
    assert [names.count(name) for name in dict.fromkeys(names)] == [10, 10, 10, 10, 1]
    assert cut == "joined is a date: its groups are its quartiles"
    hours = [dt.datetime(2020, 1, 1, n) for n in range(24)]
    assert grouped(hours, "datetime")[0][0] == "<= 2020-01-01T05:00:00.000000"


def test_more_than_fifty_groups_are_an_error():
    with pytest.raises(InputError, match="got 51 groups in country, expected at most 50; merge values"):
        grouped([str(n) for n in range(51)], "category", name="country")
    names = [str(n) for n in range(8)]
    one = Groups(codes=np.repeat(np.arange(8), 8), names=names, parts=[(name,) for name in names])
    other = Groups(codes=np.tile(np.arange(8), 8), names=names, parts=[(name,) for name in names])
    with pytest.raises(InputError, match="got 64 groups in sex × race, expected at most 50"):
        crossed(one, other, "sex × race")


def test_a_crossing_has_the_combinations_that_occur():
    sex = group_codes(pa.chunked_array([pa.array(["F", "M", "F", "M"])]), Column(name="sex", kind="category"))
    age = group_codes(pa.chunked_array([pa.array([30, 50, 50, 50])]), Column(name="age", kind="integer"), [40])
    found = crossed(sex, age, "sex × age")
    assert found.names == ["F × < 40", "F × >= 40", "M × >= 40"]
    assert found.parts == [("F", "< 40"), ("F", ">= 40"), ("M", ">= 40")]
    assert found.codes.tolist() == [0, 2, 1, 2]


def values_of(values: list[str]) -> Groups:
    return group_codes(pa.chunked_array([pa.array(values)]), Column(name="c", kind="category"))


def test_two_combinations_of_one_name_are_two_groups():
    found = crossed(values_of(["a × b", "a", "z"]), values_of(["c", "b × c", "c"]), "x")
    assert found.names == ["a × b × c", "a × b × c (2)", "z × c"]
    assert found.parts == [("a", "b × c"), ("a × b", "c"), ("z", "c")]
    assert found.codes.tolist() == [1, 0, 2]


def test_a_pooled_reference_is_told_from_a_group_of_its_name():
    groups = values_of(["White", "Hispanic", "White, Hispanic", "Other"])
    chosen = choose_groups("race", groups, ["White", "Hispanic"], None)
    assert chosen.reference == "White, Hispanic (2)"
    assert chosen.groups.names == ["White, Hispanic (2)", "Other", "White, Hispanic"]
    assert chosen.groups.parts == [("White, Hispanic (2)",), ("Other",), ("White, Hispanic",)]
    assert chosen.groups.codes.tolist() == [0, 0, 2, 1]


def test_a_pooled_reference_of_a_crossing_has_values_of_its_own():
    groups = crossed(values_of(["A", "B", "A, B", "A"]), values_of(["x", "x", "x", "y"]), "both")
    chosen = choose_groups("both", groups, ["A × x", "B × x"], None)
    assert chosen.reference == "A × x, B × x"
    assert sorted(chosen.groups.parts) == [("A", "y"), ("A, B", "x"), ("A, B (2)", "x")]


def test_all_groups_as_privileged_leave_none_to_compare():
    with pytest.raises(InputError, match="got all groups of sex as privileged, expected at least one other; name those alone"):
        choose_groups("sex", values_of(["F", "M", "F"]), ["M", "F"], None)
    # One group alone is not compared, whoever names it.
    assert choose_groups("sex", values_of(["F", "F"]), ["F"], None).reference == "F"

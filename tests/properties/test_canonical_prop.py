"""What holds of canonical JSON and of digests, whatever the values."""

from __future__ import annotations

import json
import math
import struct

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from aitest_lib.canonical import array_digest, canonical_json, digest, es_number
from aitest_lib.data.sampling import StratifiedSampler
from aitest_lib.data.table import hex_digests, joined_digests, memory_source, row_digests

doubles = st.floats(allow_nan=False, allow_infinity=False)
integers = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = st.none() | st.booleans() | integers | doubles | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=20
)


@given(doubles)
def test_a_number_comes_back_to_its_last_bit(value):
    back = float(es_number(value))
    assert struct.pack("<d", back) == struct.pack("<d", value + 0.0)  # but for the sign of zero


@given(doubles)
def test_a_number_has_the_form_of_ecmascript(value):
    text = es_number(value).removeprefix("-")
    mantissa, _, exponent = text.partition("e")
    assert not (mantissa.startswith("0") and len(mantissa) > 1 and mantissa[1] != ".")
    assert "." not in mantissa or not mantissa.endswith("0")
    assert bool(exponent) == (value != 0 and not 1e-6 <= abs(value) < 1e21)
    if exponent:
        assert exponent[0] in "+-"
        assert exponent[1] != "0"


@given(values)
def test_it_is_json_and_a_fixed_point(value):
    text = canonical_json(value)
    assert canonical_json(json.loads(text)) == text
    assert json.loads(text, parse_int=float) == json.loads(json.dumps(value), parse_int=float)


@given(st.dictionaries(texts, scalars, max_size=6), st.randoms(use_true_random=False))
def test_keys_have_one_order(value, random):
    items = list(value.items())
    random.shuffle(items)
    assert digest(dict(items)) == digest(value)
    keys = list(json.loads(canonical_json(value)))
    assert keys == sorted(keys, key=lambda key: key.encode("utf-16-be"))


@given(scalars, scalars)
def test_digests_are_equal_where_values_are(one, other):
    same_kind = (
        isinstance(one, (int, float)) and isinstance(other, (int, float)) and isinstance(one, bool) == isinstance(other, bool)
    )
    equal = one == other and (type(one) is type(other) or (same_kind and max(abs(one), abs(other)) <= 2**53))
    if equal:
        assert digest(one) == digest(other)
    elif one != other or (isinstance(one, bool) != isinstance(other, bool)):
        assert digest(one) != digest(other)


@given(st.integers(-(2**53), 2**53))
def test_an_integer_is_its_double(value):
    assert digest(value) == digest(float(value))


columns = st.fixed_dictionaries(
    {
        "n": st.lists(st.none() | integers, min_size=1, max_size=12),
        "x": st.lists(st.none() | doubles, min_size=12, max_size=12),
        "t": st.lists(st.none() | texts, min_size=12, max_size=12),
        "b": st.lists(st.none() | st.booleans(), min_size=12, max_size=12),
    }
)


def table_of(columns: dict[str, list]) -> pa.Table:
    size = len(columns["n"])
    types = {"n": pa.int64(), "x": pa.float64(), "t": pa.string(), "b": pa.bool_()}
    return pa.table({name: pa.array(cells[:size], types[name]) for name, cells in columns.items()})


@given(columns, st.permutations(["n", "x", "t", "b"]), st.randoms(use_true_random=False))
def test_row_digests_are_those_of_the_rows(columns, names, random):
    table = table_of(columns)
    expected = [digest(row) for row in table.to_pylist()]
    assert hex_digests(row_digests(table.select(names))) == expected
    order = list(range(table.num_rows))
    random.shuffle(order)
    assert hex_digests(row_digests(table.take(order))) == [expected[place] for place in order]


@given(columns, st.randoms(use_true_random=False), st.integers(0, 2**70))
@settings(max_examples=50)
def test_seeds_have_no_order_of_rows(columns, random, random_seed):
    frame = table_of(columns).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}.get)
    order = list(range(len(frame)))
    random.shuffle(order)
    chosen = [
        StratifiedSampler().choose(memory_source(rows), list(frame.columns), [], None, random_seed).seed_ids
        for rows in (frame, frame.iloc[order])
    ]
    assert chosen[0] == chosen[1]
    assert len(set(chosen[0])) == len(frame)


@given(st.lists(integers, min_size=1, max_size=20))
def test_joined_digests_know_both_sides(numbers):
    first = row_digests(pa.table({"a": numbers}))
    second = row_digests(pa.table({"b": numbers}))
    joined = joined_digests(first, second)
    assert len(np.unique(joined)) == len(set(numbers))
    assert not (joined == joined_digests(second, first)).any()


@given(st.lists(st.integers(0, 255), min_size=1, max_size=12), st.integers(0, 11), st.integers(1, 255))
def test_any_changed_byte_changes_an_arrays_digest(values, place, shift):
    array = np.array(values, np.uint8)
    other = array.copy()
    other[place % len(array)] ^= np.uint8(shift)
    assert array_digest(array) != array_digest(other)
    assert array_digest(array) == array_digest(array.copy())
    assert math.prod(array.shape) == len(values)

"""Canonical JSON after RFC 8785, and the digests that everything is named by."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from aitest_lib.canonical import array_digest, canonical_json, digest, es_number
from aitest_lib.data.table import hex_digests, plain_table, row_digests


# RFC 8785, appendix B: IEEE 754 bits and their text.
@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("ffefffffffffffff", "-1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("c340000000000000", "-9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef4f", "999999999999999900000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("41b3de4355555554", "333333333.33333325"),
        ("41b3de4355555555", "333333333.3333333"),
        ("41b3de4355555556", "333333333.3333334"),
        ("41b3de4355555557", "333333333.33333343"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_numbers_as_in_rfc_8785(bits, text):
    value = np.frombuffer(bytes.fromhex(bits), dtype=">f8")[0]
    assert es_number(float(value)) == text
    assert canonical_json(value) == text


def test_the_examples_of_rfc_8785():
    # Section 3.2.2
    given = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"\u002f",
        "literals": [None, True, False],
    }
    assert canonical_json(given) == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    # Section 3.2.3: keys in the order of their UTF-16 code units, not of their code points
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    ordered = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    expected = "{" + ",".join(f"{canonical_json(key)}:0" for key in ordered) + "}"
    assert canonical_json(dict.fromkeys(keys, 0)) == expected


def test_escapes():
    assert canonical_json('\b\t\n\f\r"\\/\x1f\x7fé') == '"\\b\\t\\n\\f\\r\\"\\\\/\\u001f\x7fé"'


def test_equal_values_have_equal_digests():
    assert digest(1) == digest(1.0) == digest(np.int8(1)) == digest(np.float32(1))
    assert digest([0.0]) == digest([-0.0])
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest((1, 2)) == digest([1, 2]) == digest(np.array([1, 2]))
    assert digest(np.bool_(True)) == digest(True)


def test_unequal_values_have_unequal_digests():
    values = [1, "1", True, None, "", [], [1], {}, {"1": 1}, 2**53, 2**53 + 1, 2**24, 2**24 + 1, 0.1, np.nextafter(0.1, 1)]
    assert len({digest(value) for value in values}) == len(values)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 0, "1": 0}])
def test_what_has_no_canonical_form_is_a_value_error(value):
    with pytest.raises(ValueError, match="got"):
        canonical_json(value)


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", bytearray(b"x"), pd.Timestamp("2020-01-01")])
def test_what_is_no_json_is_a_type_error(value):
    with pytest.raises(TypeError, match=f"got a {type(value).__name__}, expected JSON data"):
        canonical_json(value)


def test_digests_are_pinned():
    assert digest({"b": [1, 2.5, "é", None], "a": True}) == "2e747ad8615dc6bd14b383f3074ebd04"
    assert array_digest(np.arange(6, dtype=np.uint8).reshape(2, 3)) == "5ac421abea8d9845109ddc2e287d65ff"
    table = pa.table({"age": [17, None], "job": ["cook", "nurse"], "rate": [0.1, -2.0]})
    assert hex_digests(row_digests(table)) == ["6339e68d45ca0bafbd7bdd09bb5d938b", "0507b489e8aab06e2d0ed2c03256cabc"]


def test_a_row_digest_is_that_of_its_json():
    table = pa.table({"rate": [0.5, None], "age": [17, 18], "job": ["cook", None], "in": [True, False]})
    rows = [{"age": 17, "in": True, "job": "cook", "rate": 0.5}, {"age": 18, "in": False, "job": None, "rate": None}]
    assert hex_digests(row_digests(table)) == [digest(row) for row in rows]


def test_row_digests_hang_neither_on_column_order_nor_row_order_nor_chunks():
    table = pa.table({"b": [1, 2, 3, 1], "a": ["x", "y", None, "x"]})
    expected = row_digests(table)
    assert (row_digests(table.select(["a", "b"])) == expected).all()
    assert (row_digests(table.take([3, 2, 1, 0])) == expected[::-1]).all()
    assert (row_digests(pa.concat_tables([table.slice(0, 1), table.slice(1)])) == expected).all()
    assert expected[0] == expected[3]
    assert len(np.unique(expected)) == 3


def test_an_integral_double_column_is_the_integer_column():
    whole, double = pa.table({"x": [1, -3, 2**53]}), pa.table({"x": [1.0, -3.0, float(2**53)]})
    assert (row_digests(whole) == row_digests(double)).all()


@pytest.mark.parametrize("base", [2**24, 2**53, 2**62])
def test_large_ids_do_not_collapse(base):
    table = pa.table({"id": [base, base + 1, base + 2, base + 3]})
    assert len(np.unique(row_digests(table))) == 4


def test_a_table_without_columns_still_has_rows():
    table = pa.table({"a": [1, 2, 3]}).select([])
    assert hex_digests(row_digests(table)) == [digest({})] * 3


def test_dates_are_iso_text():
    days = [pd.Timestamp("2020-02-29"), pd.Timestamp("2020-02-29 13:45:01.5"), None]
    table = plain_table(pa.table({"day": pa.array(days, pa.timestamp("ns"))}), "here")
    expected = [digest({"day": text}) for text in ("2020-02-29", "2020-02-29T13:45:01.500000", None)]
    assert hex_digests(row_digests(table)) == expected


class TestArrayDigest:
    def test_dtype_shape_and_values_count(self):
        arrays = [
            np.zeros(4, np.uint8),
            np.zeros(4, np.int8),
            np.zeros(2, np.int16),
            np.zeros((2, 2), np.uint8),
            np.zeros((4, 1), np.uint8),
            np.zeros((), np.uint8),
            np.zeros(1, np.uint8),
            np.ones(4, np.uint8),
        ]
        assert len({array_digest(array) for array in arrays}) == len(arrays)

    def test_memory_layout_does_not(self):
        array = np.arange(12, dtype=np.float64).reshape(3, 4)
        expected = array_digest(array)
        assert array_digest(np.asfortranarray(array)) == expected
        assert array_digest(array.astype(">f8")) == expected
        assert array_digest(np.repeat(array, 2, axis=1)[:, ::2]) == expected

    def test_objects_are_refused(self):
        with pytest.raises(TypeError, match="expected numbers"):
            array_digest(np.array(["a", None], dtype=object))

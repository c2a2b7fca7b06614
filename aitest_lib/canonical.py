"""Canonical JSON (RFC 8785) and the BLAKE2b-128 digests that name everything in aitest.

Integers beyond 2^53 are written exactly instead of as doubles (RFC 8785 would round them): two different ids in a table
must never share a digest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from hashlib import blake2b
from json.encoder import encode_basestring
from typing import Any

import numpy as np

DIGEST_BYTES = 16


def es_number(value: float) -> str:
    """A finite double as ECMAScript writes it, which is what RFC 8785 prescribes."""
    if not math.isfinite(value):
        raise ValueError(f"got {value!r}, expected a finite number; JSON has no NaN or infinity")
    if value == 0:
        return "0"
    text = repr(float(value))
    if "e" not in text:
        return text[:-2] if text.endswith(".0") else text
    sign, digit_tuple, exponent = Decimal(text).as_tuple()
    digits = "".join(map(str, digit_tuple)).rstrip("0")
    point = len(digit_tuple) + int(exponent)  # position of the decimal point, counted from the first digit
    if len(digits) <= point <= 21:
        body = digits + "0" * (point - len(digits))
    elif 0 < point <= 21:
        body = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        body = "0." + "0" * -point + digits
    else:
        mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
        body = f"{mantissa}e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return "-" + body if sign else body


def canonical_json(value: Any) -> str:
    """`value` as canonical JSON text. Numpy scalars count as numbers; NaN, infinities and other types raise."""
    kind = type(value)
    if kind is str:
        return encode_basestring(value)
    if kind is float:
        return es_number(value)
    if kind is dict and all(type(key) is str and key.isascii() for key in value):  # order by code unit is order by character
        return "{" + ",".join([f"{encode_basestring(key)}:{canonical_json(value[key])}" for key in sorted(value)]) + "}"
    if value is None:
        return "null"
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return es_number(float(value))
    if isinstance(value, str):
        return encode_basestring(str(value))
    if isinstance(value, Mapping):
        keys = sorted(map(str, value), key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        if len(set(keys)) != len(value):
            raise ValueError("got keys that are equal as text, expected distinct keys")
        by_text = {str(key): item for key, item in value.items()}
        return "{" + ",".join(f"{canonical_json(key)}:{canonical_json(by_text[key])}" for key in keys) + "}"
    if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (bytes, bytearray)):
        return "[" + ",".join([canonical_json(item) for item in value]) + "]"
    raise TypeError(f"got a {type(value).__name__}, expected JSON data (object, list, text, number, boolean or null)")


def digest_bytes(data: bytes) -> str:
    """BLAKE2b-128 of raw bytes, as 32 hex digits."""
    return blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def digest(value: Any) -> str:
    """BLAKE2b-128 of the canonical JSON of `value`, as 32 hex digits."""
    return digest_bytes(canonical_json(value).encode("utf-8", "surrogatepass"))


def array_digest(array: np.ndarray[Any, Any]) -> str:
    """BLAKE2b-128 over dtype (little-endian), shape and C-order bytes of a decoded array; object arrays have no bytes."""
    if array.dtype.hasobject:
        raise TypeError("got an array of Python objects, expected numbers, booleans or fixed-width text")
    plain = np.asarray(array, order="C")  # not ascontiguousarray, which makes a row of a single number
    little = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
    head = canonical_json([little.dtype.str, list(little.shape)]).encode()
    return digest_bytes(head + b"\n" + little.tobytes())

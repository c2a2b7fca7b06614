"""YAML with lines, and validation that says where and what."""

from __future__ import annotations

import datetime
from typing import Annotated, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from aitest_lib.config.loading import Document, StrictModel, load_yaml, path_text, plain, validate
from aitest_lib.errors import InputError


class Noise(StrictModel):
    name: Literal["noise"]
    severity: int = Field(ge=1, le=5)


class Rotate(StrictModel):
    name: Literal["rotate"]
    degrees: tuple[float, ...]


class Property(StrictModel):
    property: str
    transforms: tuple[Annotated[Noise | Rotate, Field(discriminator="name")], ...] = ()
    sample: int | Literal["all"] = "all"


class Suite(StrictModel):
    suite: str
    random_seed: int = 0
    properties: tuple[Property, ...] = ()
    table: dict[str, Property] = Field(default_factory=dict)
    until: datetime.date | None = None
    schema_: dict[str, float] = Field(default_factory=dict, alias="schema")


def written(tmp_path, text):
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    return path


def problem(tmp_path, text) -> str:
    with pytest.raises(InputError) as caught:
        validate(load_yaml(written(tmp_path, text)), Suite)
    return str(caught.value).replace(f"{tmp_path}/", "")


SUITE = """\
suite: s
until: 2027-01-31
properties:
  - property: p
    transforms:
      - {name: rotate, degrees: [5, 15]}
      - name: noise
        severity: %s
"""


def test_a_valid_suite(tmp_path):
    suite = validate(load_yaml(written(tmp_path, SUITE % 3)), Suite)
    assert suite.properties[0].transforms == (Rotate(name="rotate", degrees=(5, 15)), Noise(name="noise", severity=3))
    assert suite.until == datetime.date(2027, 1, 31)


@pytest.mark.parametrize(
    ("severity", "said"),
    [
        ("7", "got 7, expected at most 5"),
        ("'3'", "got '3' (text), expected a whole number"),
        ("true", "got true, expected a whole number"),
        ("2.5", "got 2.5, expected a whole number"),
        ("[1]", "got a list of 1, expected a whole number"),
        ("null", "got nothing (null), expected a whole number"),
        (".nan", "got nan, expected a finite number"),
        ("-.inf", "got -inf, expected a finite number"),
    ],
)
def test_the_line_the_path_and_the_value(tmp_path, severity, said):
    assert problem(tmp_path, SUITE % severity) == f"suite.yaml:8: properties[0].transforms[1].severity: {said}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("suit: s\nproperties: []\n", "suite.yaml:1: suit: unknown key 'suit'; did you mean suite?"),
        ("suite: s\nzzzqqq: 1\n", "suite.yaml:2: zzzqqq: unknown key 'zzzqqq'; known: properties, random_seed, schema"),
        (SUITE % "3\n        degres: 1", "transforms[1].degres: unknown key 'degres'; known: name, severity"),
        ("suite: s\nproperties:\n- property: p\n  transforms: [{name: nois}]", "unknown name 'nois'; did you mean noise?"),
        ("suite: s\nproperties:\n- property: p\n  transforms: [{}]", "properties[0].transforms[0]: missing key name"),
        ("suite: s\nproperties:\n- {}", "suite.yaml:3: properties[0].property: this key is required, but missing"),
        ("suite: s\nproperties:\n- property: p\n  sample: some", "sample: got 'some' (text), expected a whole number"),
        ("suite: 5", "suite: got 5, expected text; put it in quotes"),
        ("suite: s\nproperties: x", "suite.yaml:2: properties: got 'x' (text), expected a list"),
        ("suite: s\ntable: {a b: {property: 1}}", 'suite.yaml:2: table["a b"].property: got 1'),
        ("[1]", "suite.yaml:1: got a list of 1, expected a mapping"),
        ("suite: s\nuntil: soon", "suite.yaml:2: until: got 'soon' (text), expected a date"),
    ],
)
def test_messages(tmp_path, text, said):
    assert said in problem(tmp_path, text)


def test_everything_wrong_stands_in_one_error(tmp_path):
    text = "suite: 1\nrandom_seed: x\nproperties:\n  - propertty: p\n"
    assert problem(tmp_path, text).splitlines() == [
        "suite.yaml:1: suite: got 1, expected text; put it in quotes",
        "suite.yaml:2: random_seed: got 'x' (text), expected a whole number",
        "suite.yaml:4: properties[0].property: this key is required, but missing",
        "suite.yaml:4: properties[0].propertty: unknown key 'propertty'; did you mean property?",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("suite: s\nsuite: t\n", "suite.yaml:2: suite: given twice (first at line 1); keep one"),
        ("suite: s\nproperties:\n- a: 1\n  b: 2\n  a: 3\n", "suite.yaml:5: properties[0].a: given twice (first at line 3)"),
        ("suite: [1, 2\nx: 1\n", "suite.yaml:2: not valid YAML"),
        ("suite: s\n\tx: 1\n", "suite.yaml:2: not valid YAML"),
        ("", "suite.yaml: the file is empty"),
        ("# nothing\n", "suite.yaml: the file is empty"),
        ("yes: 1\n", "suite.yaml:1: got the key true, expected text; put the key in quotes"),
        ("suite: s\ntable: {1: x}\n", "suite.yaml:2: table: got the key 1"),
        (
            "suite: !!python/object/apply:os.system ['true']\n",
            "suite.yaml:1: not valid YAML: could not determine a constructor",
        ),
        ("a: 1\n---\nb: 2\n", "suite.yaml:2: not valid YAML"),
        ("suite: &x [*x]\n", "an alias refers to a value that contains it"),
        ("suite: 2027-13-45\n", "not valid YAML"),
        ("suite: !!set {a, b}\n", "suite.yaml:1: suite: got a set, expected text"),
    ],
)
def test_what_is_no_usable_yaml(tmp_path, text, said):
    assert said in problem(tmp_path, text)


def test_aliases_that_explode_are_refused(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert "expands to more than" in problem(tmp_path, "\n".join(lines))


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        load_yaml(tmp_path / "absent.yaml")
    with pytest.raises(InputError, match="cannot be read"):
        load_yaml(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"suite: \xff\xfe\xfa")
    with pytest.raises(InputError, match="not valid YAML"):
        load_yaml(tmp_path / "latin.yaml")


def test_merge_keys_keep_the_lines_of_both(tmp_path):
    document = load_yaml(written(tmp_path, "base: &b\n  x: 1\n  y: 2\nuse:\n  <<: *b\n  y: 3\n"))
    assert document.data["use"] == {"x": 1, "y": 3}
    assert (document.lines[("use", "x")], document.lines[("use", "y")]) == (2, 6)


def test_a_nearest_line_for_a_path_that_is_not_there(tmp_path):
    document = load_yaml(written(tmp_path, SUITE % 3))
    error = document.error(("properties", 0, "gates", "min"), "is missing")
    assert str(error).endswith("suite.yaml:4: properties[0].gates.min: is missing")


def test_without_a_file():
    with pytest.raises(InputError, match=r"^properties\[0\].property: got 1, expected text"):
        validate(Document({"suite": "s", "properties": [{"property": 1}]}), Suite)
    suite = validate(Document({"suite": "s", "random_seed": np.int64(3), "properties": ({"property": "p"},)}), Suite)
    assert suite.random_seed == 3
    with pytest.raises(InputError, match=r"^got a list of 0, expected a mapping"):
        validate(Document([]), Suite)


def test_aliased_fields_are_known_by_their_alias():
    assert validate(Document({"suite": "s", "schema": {"a": 1}}), Suite).schema_ == {"a": 1.0}


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
DATA = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10)


@given(DATA)
def test_plain_keeps_json_data_as_it_is(data):
    assert plain(Document(data)) == data


@given(st.lists(st.text() | st.integers(0, 9), max_size=4).map(tuple))
def test_every_path_has_a_text(path):
    assert bool(path_text(path)) == bool(path)

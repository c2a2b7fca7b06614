"""Files to start from: a card and a suite as YAML text, with every guess marked as one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import yaml

from aitest_lib.config.curl import CurlRequest, parse_curl
from aitest_lib.config.request_shape import Shape, request_shape, usual_shape
from aitest_lib.data.schema import Column, Profile
from aitest_lib.properties.base import PropertySpec
from aitest_lib.properties.tabular import GROUP_FAIRNESS
from aitest_lib.types import Scalar

__all__ = [
    "CurlRequest",
    "card_like",
    "guess_classes",
    "guess_protected",
    "guess_type",
    "parse_curl",
    "slug",
    "starting_card",
    "starting_suite",
    "waits",
]

MOST_CLASSES = 20  # whole numbers with more different values than this are a quantity, not classes
MOST_SHOWN = 8  # categories named in a comment
PROTECTED = {
    *("sex", "gender", "race", "ethnicity", "ethnic", "age", "nationality", "religion", "marital", "disability", "disabled"),
    *("birthdate", "dob", "pregnant", "pregnancy", "orientation", "citizenship", "accent"),
}


def guess_type(label: pd.Series) -> str:
    """`tabular-classifier` for text, truth values and whole numbers with at most 20 different values, else a regressor."""
    present = label.dropna()
    if pd.api.types.is_bool_dtype(present) or not pd.api.types.is_numeric_dtype(present):
        return "tabular-classifier"
    few_whole = bool((present % 1 == 0).all()) and present.nunique() <= MOST_CLASSES
    return "tabular-classifier" if few_whole else "tabular-regressor"


def guess_classes(label: pd.Series) -> list[Scalar]:
    """The classes seen in the label column, sorted; whole numbers as integers."""
    values = label.dropna().unique().tolist()
    return sorted((_class(value) for value in values), key=lambda value: (str(type(value)), value))


def guess_protected(columns: Iterable[str]) -> list[str]:
    """Columns whose name has a word such as sex, race, age or religion in it."""
    return [name for name in columns if PROTECTED & set(_name_words(name))]


def slug(text: str) -> str:
    """`text` as a name that cards and suites accept: letters, digits, `_`, `-` and `.`."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-._") or "model"


def starting_card(
    name: str, model_type: str, columns: Sequence[str], classes: Sequence[Scalar] | None, curl: CurlRequest | None
) -> str:
    """A card to start from: an endpoint with a JSON body, as the curl command asks it, or as many servers take it.

    `columns` are those of the data without the label. A body without rows in a known form is an `InputError`.
    """
    shape = request_shape(curl.body, set(columns)) if curl and curl.body is not None else usual_shape()
    sent, remark = _sent_columns(shape, columns)
    lines = [
        "# A card to start from: check every line marked as a guess.",
        f"name: {inline(slug(name))}",
        'revision: "1"  # change it whenever what is deployed changes: answers are reused while it stays the same',
        f"type: {model_type}  # a guess from the label column",
    ]
    if classes and model_type == "tabular-classifier":
        lines.append(f"classes: {flow_list(classes)}  # seen in the label column, sorted; scores follow this order")
    lines += ["inputs:", f"  columns: {flow_list(sent)}  # {remark}"]
    lines += endpoint_head(curl)
    lines += ["  body: json", f"  request: {_quoted(shape.request)}", "  response:", "    kind: json"]
    lines.append(f"    labels: {_quoted(shape.labels)}  # a guess (JMESPath): one answer for each row, in their order")
    if shape.scores and model_type == "tabular-classifier":
        lines.append(f"    # scores: {_quoted(shape.scores)}  # a guess: uncomment if the model answers probabilities")
    size = "1  # the request carries one row" if shape.single else "256  # rows in one request"
    lines.append(f"  batch_size: {size}")
    return "\n".join(lines) + "\n"


def card_like(
    ready: str,
    name: str,
    columns: Sequence[str] | None = None,
    model_type: str | None = None,
    classes: Sequence[Scalar] | None = None,
) -> str:
    """A copy of a ready card's text, comments kept, with what the data say in place of the card's own name, type, classes and
    columns; what is None stays.

    A regressor, or a classifier of more than two classes, answers no single score: where the card has one decided by a
    threshold, labels are read from its place, which is marked as a guess.
    """
    text, dropped = ready, ["classes", "decision"] if model_type == "tabular-regressor" else []
    if classes is not None and len(classes) != 2 and "\ndecision:" in ready:
        dropped = ["decision"]
    for key in dropped:
        text = re.sub(rf"(?m)^{key}: .*\n", "", text)
    if dropped:
        text = _labels_only(text)
    text = put(text, "name", inline(slug(name)))
    if model_type is not None:
        text = put(text, "type", f"{model_type}  # a guess from the label column")
    if classes is not None and model_type == "tabular-classifier":
        shown = f"{flow_list(classes)}  # a guess: those of the label column, sorted; scores must come in this order"
        text = text if "\nclasses:" in text else text.replace("\ntype:", "\nclasses: []\ntype:", 1)
        text = put(text, "classes", shown)
    if columns is not None:
        text = put(text, "inputs", f"{{columns: {flow_list(columns)}}}  # a guess: all columns of the data, in its order")
    return text


def starting_suite(
    name: str,
    card_file: str,
    data_file: str,
    label: str | None,
    profile: Profile,
    protected: Sequence[str],
    properties: Sequence[PropertySpec],
    classes: Sequence[Scalar] | None = None,
) -> str:
    """A suite to start from: the inferred schema, the guessed protected columns as a comment, the default gates."""
    lines = [
        "# A suite to start from: check every line marked as a guess.",
        f"suite: {inline(slug(name))}",
        "random_seed: 1",
        f"model: {{card: {inline(card_file)}}}",
        f"# model: {{name: {inline(slug(name))}, version: latest}}  # once registered; `deploy --on-new-version` needs it",
        "data:",
        f"  test: {inline(data_file)}",
        "  # train: train.parquet    # distributions are taken from it, if there is one",
    ]
    if label is not None:
        lines.append(f"  label: {inline(label)}")
    if classes:
        lines.append(f"  # favorable: {inline(classes[-1])}  # a guess: the answer that people want")
    if protected:
        lines += ["  # protected:  # a guess from the column names: uncomment what is protected in your case"]
        lines += [f"  #   {inline(column)}: {{}}{_cut_hint(profile[column])}" for column in protected]
    schema = [_schema_line(column) for column in profile.columns]
    empty = all(line.lstrip().startswith("#") for line in schema)
    lines += [f"  schema:{' {}' if empty else ''}  # inferred from the data; change what is wrong", *schema]
    lines.append("properties:")
    numbers = [column.name for column in profile.columns if column.numeric] or [profile.columns[0].name]
    for spec in properties:
        own = property_lines(spec)
        if spec.by_directions:
            own.append(f"    directions: {{{inline(numbers[0])}: increasing}}  # how columns may move the answer")
        lines += [f"  #{line.removeprefix(' ')}" for line in own] if waits(spec) else own
    return "\n".join(lines) + "\n"


def waits(spec: PropertySpec) -> bool:
    """Does a property stand in a suite to start from as a comment, since it needs what only the user knows."""
    return spec.by_directions or spec.by_protected


def endpoint_head(curl: CurlRequest | None) -> list[str]:
    """Address, method, auth and headers of an endpoint, as the curl command has them."""
    lines = ["endpoint:", *(f"  # {_comment(note)}" for note in (curl.notes if curl else ()))]
    if curl is None:
        return [*lines, "  url: http://127.0.0.1:8080/predict  # a guess: the address of your model", "  method: POST"]
    lines += [f"  url: {inline(curl.url)}", f"  method: {curl.method}"]
    if curl.auth:
        lines.append("  auth: {" + ", ".join(f"{key}: {inline(value)}" for key, value in curl.auth.items()) + "}")
    if curl.headers:
        lines += ["  headers:", *(f"    {inline(key)}: {inline(value)}" for key, value in curl.headers.items())]
    return lines


def put(text: str, key: str, value: str) -> str:
    """The card with another value at a key of its top level, which stands on one line; without that key, as it is."""
    return re.sub(rf"(?m)^{key}: .*$", lambda _: f"{key}: {value}", text, count=1)


def _labels_only(text: str) -> str:
    """The card without `scores` in its response, or with them as `labels` where it has none."""
    if re.search(r"(?m)^    labels:", text):
        return re.sub(r"(?m)^    scores: .*\n", "", text)
    return re.sub(r"(?m)^    scores: (.*)$", r"    labels: \1  # a guess: one answer for each row", text)


def property_lines(spec: PropertySpec) -> list[str]:
    """A property with its usual transforms and gates."""
    lines = [f"  - property: {spec.name}  # {spec.summary}"]
    if spec.default_transforms:
        lines.append("    transforms:")
        lines += [f"      - {_mapping(dict(item))}" for item in spec.default_transforms]
    if spec.shape == "search":
        lines += [
            "    # delta: largest change of a pixel, of 0 to 1; queries: of one image, by the method and by each baseline",
            "    search: {method: auto, delta: 0.0314, queries: 250, baselines: [random]}",
        ]
    if spec.default_gates:
        lines.append("    gates:  # the usual bounds, not yours: set what your use needs")
        lines += [f"      {metric}: {_gate(gate)}" for metric, gate in spec.default_gates.items()]
    if spec.name == GROUP_FAIRNESS.name:
        lines.append("    min_group_share: 0.02  # smaller groups are left out, and listed")
    return lines


def _gate(gate: Mapping[str, Any] | tuple[Mapping[str, Any], ...]) -> str:
    return _mapping(dict(gate)) if isinstance(gate, Mapping) else "[" + ", ".join(_mapping(dict(one)) for one in gate) + "]"


def _cut_hint(column: Column) -> str:
    """How the groups of a number come about, and how to have others; cut at its median, as an example."""
    if not column.numeric or not column.quartiles:
        return ""
    middle = column.quartiles[len(column.quartiles) // 2]
    return f"  # numbers are cut at their quartiles; {{cut_at: [{_number(middle)}]}} cuts elsewhere"


def _schema_line(column: Column) -> str:
    name = inline(column.name)
    if column.numeric and column.min is not None and column.max is not None:
        gaps = ", may be missing" if column.missing else ""
        return f"    {name}: {{min: {_number(column.min)}, max: {_number(column.max)}}}  # {column.kind}{gaps}"
    shown = ", ".join(inline(value) for value in column.values[:MOST_SHOWN])
    more = f", … ({len(column.values)} in all)" if len(column.values) > MOST_SHOWN else ""
    return f"    # {name}: {column.kind}{f' of {shown}{more}' if shown else ''}{', may be missing' if column.missing else ''}"


def _sent_columns(shape: Shape, columns: Sequence[str]) -> tuple[list[str], str]:
    if shape.columns is None:
        return list(columns), "a guess: all columns of the data, in its order"
    unknown = [name for name in shape.columns if name not in columns]
    if not unknown:
        return list(shape.columns), "as in the curl command"
    strange = ", ".join(inline(name) for name in unknown[:MOST_SHOWN])
    return list(columns), f"a guess: all columns of the data; the curl command names others, which it lacks: {strange}"


def _class(value: Any) -> Scalar:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def _name_words(name: str) -> list[str]:
    return re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower())


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def inline(value: Any) -> str:
    """A scalar as YAML on one line, safe inside `{…}` and `[…]`."""
    if isinstance(value, str) and not value.isprintable():
        return _quoted(value)
    return yaml.safe_dump([value], default_flow_style=True, width=float("inf"), allow_unicode=True).strip()[1:-1]


def _quoted(value: str) -> str:
    """Text in quotes on one line."""
    return yaml.safe_dump(
        value, default_style="'" if value.isprintable() else '"', width=float("inf"), allow_unicode=True
    ).strip()


def flow_list(values: Iterable[Any]) -> str:
    """Scalars as a YAML list on one line."""
    return "[" + ", ".join(inline(value) for value in values) + "]"


def _mapping(values: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {inline(value)}" for key, value in values.items()) + "}"


def _comment(text: str) -> str:
    """`text` on one line and without characters that YAML forbids even in a comment."""
    return "".join(letter if letter.isprintable() else " " for letter in text)

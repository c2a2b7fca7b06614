"""YAML → pydantic, with messages that name the file, the line and the path of what is wrong."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from aitest_lib.errors import InputError, nearest, unknown

Location = tuple[str | int, ...]
M = TypeVar("M", bound=BaseModel)

MAX_NODES = 200_000  # YAML aliases can make a small file expand without end
_SECRET_KEY = re.compile(r"^auth$|token|password|secret|api.?key|authorization|cookie", re.IGNORECASE)
_MERGE = "tag:yaml.org,2002:merge"
_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "date_type": "a date (YYYY-MM-DD)",
    "date_parsing": "a date (YYYY-MM-DD)",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
    "too_short": ("min_length", "a list of at least"),
    "too_long": ("max_length", "a list of at most"),
    "string_too_short": ("min_length", "text with a length of at least"),
    "string_too_long": ("max_length", "text with a length of at most"),
}


def located(path: str, base_dir: Path) -> str:
    """A path of a file's as an absolute one; URLs stay."""
    return path if "://" in path else str((base_dir / path).resolve())


class StrictModel(BaseModel):
    """Base of everything that is read from a user's file: unknown keys are errors, instances do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())


@dataclass(frozen=True)
class Document:
    """Data as read from a file (or handed over in Python: no file, no lines), with the line of every path."""

    data: Any
    file: str | None = None
    lines: Mapping[Location, int] = field(default_factory=dict)

    def where(self, path: Location) -> str:
        """`suite.yaml:9: properties[0].gates`; the line is that of the nearest parent that is in the file."""
        line = next((self.lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in self.lines), None)
        place = f"{self.file}:{line}" if line else self.file
        return ": ".join(part for part in (place, path_text(path)) if part)

    def message(self, path: Location, text: str) -> str:
        """`text` with the place in front."""
        where = self.where(path)
        return f"{where}: {text}" if where else text

    def error(self, path: Location, message: str) -> InputError:
        """The error to raise for what stands at `path`."""
        return InputError(self.message(path, message))


def load_yaml(path: str | Path) -> Document:
    """Reads one YAML document with safe_load semantics.

    A missing file, a syntax error, a key given twice, a key that is no text, or a file that expands to more than
    200,000 values is an `InputError` with file and line.
    """
    file = str(path)
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}; give the path of a YAML file") from error
    loader = None
    try:
        loader = yaml.SafeLoader(content)
        node = loader.get_single_node()
        if node is None:
            raise InputError(f"{file}: the file is empty, expected a mapping of keys to values")
        lines = _lines(node, loader, file)
        return Document(loader.construct_document(node), file, lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        mend = "; indent with blanks, not with tabs" if "'\\t'" in problem else ""
        raise InputError(f"{file}{line}: not valid YAML: {problem}{mend}") from error
    except RecursionError as error:
        raise InputError(f"{file}: nested too deeply to be read; write it flatter") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date or number that YAML's constructors refuse
        raise InputError(f"{file}: not valid YAML: {' '.join(str(error).split())}") from error
    finally:
        if loader is not None:
            loader.dispose()


def validate(document: Document, model: type[M]) -> M:
    """The document as an instance of `model`; everything that is wrong with it stands in one `InputError`, a line each."""
    text = json.dumps(plain(document))
    try:
        # JSON mode: strict about types (no "5" for 5, no true for 1), yet lists may become tuples and texts dates.
        return model.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise InputError("\n".join(_messages(document, model, error))) from error


def plain(document: Document) -> Any:
    """The data as JSON data: dates become ISO 8601 texts, tuples lists, numpy scalars numbers. Anything else is an error."""
    return _plain(document, document.data, ())


def path_text(path: Location) -> str:
    """A path as it is written in messages: `properties[0].transforms[1].severity`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif re.fullmatch(r"[\w-]+", part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part, ensure_ascii=False)}]"
    return text


def describe(value: Any) -> str:
    """What was got, for a message: short, and never the content of a list or mapping."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:57] + "...") + " (text)"
    if isinstance(value, Sequence):
        return f"a list of {len(value)}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _lines(root: yaml.Node, loader: yaml.SafeLoader, file: str) -> dict[Location, int]:
    """The line of every path; a mapping's value is at the line of its key."""
    lines: dict[Location, int] = {}
    stack: list[tuple[yaml.Node, Location, int, tuple[int, ...]]] = [(root, (), 1, ())]
    while stack:
        node, path, line, parents = stack.pop()
        if id(node) in parents:
            raise InputError(f"{file}:{line}: {path_text(path)}: an alias refers to a value that contains it; write it out")
        lines.setdefault(path, line)
        if len(lines) > MAX_NODES or len(parents) > 100:
            raise InputError(f"{file}: expands to more than {MAX_NODES} values or 100 levels; write it smaller")
        below = (*parents, id(node))
        if isinstance(node, yaml.SequenceNode):
            stack += [(item, (*path, n), item.start_mark.line + 1, below) for n, item in enumerate(node.value)]
        elif isinstance(node, yaml.MappingNode):
            # Merged mappings (<<) go to the bottom of the stack: the mapping's own keys set their lines first.
            for key, value, key_line in _entries(node, path, loader, file):
                entry = (value, path if key is None else (*path, key), key_line, below)
                stack.insert(0, entry) if key is None else stack.append(entry)
    return lines


def _entries(
    node: yaml.MappingNode, path: Location, loader: yaml.SafeLoader, file: str
) -> Iterator[tuple[str | None, yaml.Node, int]]:
    """Key, value and line of each entry of a mapping; None is the key of what a merge (<<) brings in."""
    seen: dict[str, int] = {}
    for key_node, value in node.value:
        line = key_node.start_mark.line + 1
        if key_node.tag == _MERGE:
            merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
            yield from ((None, item, line) for item in merged)
            continue
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            where = f"{file}:{line}: {path_text(path)}".rstrip(": ")
            raise InputError(f"{where}: got the key {describe(key)}, expected text; put the key in quotes")
        if key in seen:
            raise InputError(f"{file}:{line}: {path_text((*path, key))}: given twice (first at line {seen[key]}); keep one")
        seen[key] = line
        yield key, value, line


def _plain(document: Document, value: Any, path: Location) -> Any:
    if hasattr(value, "dtype") and hasattr(value, "item"):  # a numpy scalar, from Python
        value = value.item()
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise document.error(path, f"got the key {describe(key)}, expected text; put the key in quotes")
        return {key: _plain(document, item, (*path, key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(document, item, (*path, n)) for n, item in enumerate(value)]
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        raise document.error(path, f"got {value}, expected a finite number")
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise document.error(path, f"got a {type(value).__name__}, expected text, a number, true, false, a list or a mapping")


def _messages(document: Document, model: type[BaseModel], error: ValidationError) -> list[str]:
    """One line per wrong path; the branches of a union that were tried at the same path share a line."""
    by_path: dict[Location, list[str]] = {}
    expected: dict[Location, list[str]] = {}
    for item in error.errors(include_url=False):
        path = _document_path(document.data, item["loc"], item["type"])
        kind, context = item["type"], item.get("ctx", {})
        if kind in _EXPECTED:
            expected.setdefault(path, []).append(_EXPECTED[kind])
            wanted = " or ".join(dict.fromkeys(expected[path]))
            quotes = "; put it in quotes" if wanted == "text" and isinstance(item["input"], (int, float)) else ""
            got = "a value (not shown)" if _may_be_secret(path) else describe(item["input"])
            by_path[path] = [f"got {got}, expected {wanted}{quotes}"]
        elif kind == "extra_forbidden":
            by_path.setdefault(path, []).append(_unknown_key(model, item["loc"]))
        else:
            by_path.setdefault(path, []).append(_text(kind, context, item["input"], item["msg"]))
    return [document.message(path, "; ".join(dict.fromkeys(texts))) for path, texts in by_path.items()]


def _text(kind: str, context: Mapping[str, Any], value: Any, message: str) -> str:
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return f"got {describe(value)}, expected {words} {context[name]}"
    if kind in ("literal_error", "enum"):
        choices = re.findall(r"'([^']*)'", context["expected"])
        if isinstance(value, str) and choices:
            return unknown("value", value, choices)
        return f"got {describe(value)}, expected {context['expected']}"
    if kind == "union_tag_invalid":
        tags = re.findall(r"'([^']*)'", context["expected_tags"])
        return unknown(context["discriminator"].strip("'"), str(context["tag"]), tags)
    if kind == "union_tag_not_found":
        return f"missing key {context['discriminator'].strip(chr(39))}"
    if kind == "missing":
        return "this key is required, but missing"
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_pattern_mismatch":
        return f"got {describe(value)}, expected text like {context['pattern']}"
    return message[0].lower() + message[1:]


def _document_path(data: Any, loc: Location, kind: str) -> Location:
    """Pydantic's location without the names of the union branches it tried."""
    path: list[str | int] = []
    for part in loc:
        in_list = isinstance(data, (list, tuple)) and isinstance(part, int) and part < len(data)
        if in_list or (isinstance(data, Mapping) and part in data):
            data = data[part]
        elif not (kind == "missing" and part == loc[-1]):
            continue
        path.append(part)
    return tuple(path)


def _may_be_secret(path: Location) -> bool:
    return any(isinstance(part, str) and _SECRET_KEY.search(part) for part in path)


def _unknown_key(model: type[BaseModel], loc: Location) -> str:
    """What to say of a key that is not known where it stands, but perhaps at another place."""
    key, here = str(loc[-1]), _known_keys(model, loc)
    elsewhere = sorted(set(_places(model, key)), key=len)[:3]
    if elsewhere and not nearest(key, here):
        return f"unknown key {key!r} here; did you mean {' or '.join(elsewhere)}?"
    return unknown("key", key, here)


def _places(model: type[BaseModel], key: str, above: tuple[str, ...] = ()) -> Iterator[str]:
    """Where a key may stand below a model, as paths."""
    for name, info in model.model_fields.items():
        path = (*above, info.alias or name)
        if path[-1] == key and above:
            yield ".".join(path)
        for one in _models_in(info.annotation) if len(path) < 5 else ():
            yield from _places(one, key, path)


def _known_keys(model: type[BaseModel], loc: Location) -> list[str]:
    """The keys that are known where the unknown key `loc[-1]` stands."""
    here = {model}
    for part in loc[:-1]:
        fields = [info.annotation for one in here for key, info in one.model_fields.items() if part in (key, info.alias)]
        if fields:
            here = {found for annotation in fields for found in _models_in(annotation)}
        elif isinstance(part, str):  # the tag or the class name of a union's branch
            here = {one for one in here if one.__name__ == part or part in _literals(one)} or here
    return sorted({info.alias or key for one in here for key, info in one.model_fields.items()})


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _literals(model: type[BaseModel]) -> set[Any]:
    return {value for info in model.model_fields.values() for value in get_args(info.annotation) if isinstance(value, str)}

"""The templates of a card: which variables they may use, and what can be said of them before the first call.

The variables belong to the model type (contract, section 1); a template that uses another name is an error that lists them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError, meta, nodes

from aitest_lib.config.sandbox import Sandbox
from aitest_lib.config.secrets import REFERENCE
from aitest_lib.config.template_meter import TemplateLimitError

MAX_LENGTH = 64 * 1024  # characters
TRIAL_STEPS = 1_000_000  # more than two inputs can need
TRIAL_MADE = 64 * 2**20  # bytes
# What carries the input, for each modality; a call that uses none of it would ask nothing.
INPUTS: dict[str, tuple[str, ...]] = {
    "tabular": ("rows", "records", "flat"),
    "image": ("images", "images_b64", "image_b64"),
    "text": ("texts", "text"),
    "conversation": ("text", "turns"),
    "speech": ("audio_b64", "pcm_b64"),
}
ABOUT: dict[str, tuple[str, ...]] = {"tabular": ("fields",), "speech": ("sample_rate", "language")}
ONE_INPUT = ("image_b64", "text", "session")  # only where a call carries one input
MODEL = ("name", "version")

_WRITTEN_AS_IS = (
    *(nodes.Template, nodes.Output, nodes.If, nodes.For, nodes.With, nodes.List, nodes.Dict, nodes.Pair, nodes.Concat),
    nodes.CondExpr,
)

Names = Mapping[str, Sequence[str] | None]  # a variable's name → the keys that it has, None: any


class _Anything:
    """A cell of a trial: written without `tojson` it looks like a number, with it like a text that holds a quote."""

    def __str__(self) -> str:
        return "0"

    def tolist(self) -> str:
        """What JSON writes."""
        return 'a"b'


@dataclass(frozen=True)
class Place:
    """Where templates stand: what they are for, the names they may use, what a trial fills in for these, and the steps whose
    answers are not known there yet."""

    whose: str
    names: Names
    trials: Sequence[Mapping[str, Any]]
    later: Collection[str] = ()


def modality(model_type: str) -> str:
    """`tabular` of `tabular-classifier`, and so on."""
    return model_type.split("-")[0]


def input_names(model_type: str) -> dict[str, Sequence[str] | None]:
    """The variables that the inputs of a model type give."""
    kind = modality(model_type)
    return dict.fromkeys([*ABOUT.get(kind, ()), *INPUTS[kind], "n", "session"])


def is_template(source: str) -> bool:
    """Whether a text has anything to fill in."""
    return any(mark in source for mark in ("{{", "{%", "{#"))


def is_variable(name: str) -> bool:
    """Whether a template takes a name for a variable, rather than for a word of its own (`not`, `true`)."""
    try:
        return used_variables(f"{{{{ {name} }}}}") == {name}
    except TemplateError:
        return False


def used_variables(source: str) -> set[str]:
    """The names that a template needs from outside."""
    return meta.find_undeclared_variables(Sandbox().parse(source))


def used_paths(source: str) -> set[tuple[str, ...]]:
    """The variables of a template with the keys that follow them: `{{ session.token }}` → ("session", "token")."""
    return {path for path, _ in _paths(Sandbox().parse(source))}


def template_problem(source: str, place: Place, *, as_json: bool) -> str | None:
    """What is wrong with a template, or None. `as_json`: the text it makes must be JSON."""
    if len(source) > MAX_LENGTH:
        return f"got a template of {len(source)} characters, expected at most {MAX_LENGTH}"
    try:
        tree = Sandbox().parse(source)
        Sandbox().from_string(source)
    except TemplateLimitError as error:
        return str(error)
    except TemplateError as error:
        return f"not a valid template: {str(error) or type(error).__name__}"
    except (RecursionError, SyntaxError, MemoryError):  # Python's own compiler on what jinja2 made of it
        return "not a valid template: nested too deeply"
    if name := _changed_reference(tree):
        return (
            f"${{{name}}} stands where the template may change it; write it outside of {{{{ }}}} and of set, filter and macro"
        )
    return _unknown_names(tree, place) or _trial_problem(source, place, as_json=as_json)


def stand_ins(model_type: str, columns: Sequence[str] | None) -> list[dict[str, Any]]:
    """What fills the variables of a trial: small inputs, for tables once as numbers and once as cells of any kind."""
    text = 'a "quoted" \\text\n'
    about = {"n": 1, "session": "0", "model": {"name": "model", "version": "1"}}
    match modality(model_type):
        case "tabular":
            fields = list(columns or (f"column{n}" for n in range(100)))
            return [about | _table(fields, cell) for cell in (0, _Anything())]
        case "image":
            return [about | {"images": [[[0.0] * 2] * 2] * 2, "images_b64": ["AA=="] * 2, "image_b64": "AA=="}]
        case "text":
            return [about | {"texts": [text] * 2, "text": text}]
        case "conversation":
            return [about | {"text": text, "turns": [{"role": "user", "text": text}]}]
        case _:
            return [about | {"audio_b64": "AA==", "pcm_b64": "AA==", "sample_rate": 16000, "language": "en"}]


def _table(fields: list[str], cell: Any) -> dict[str, Any]:
    rows = [[cell] * len(fields) for _ in range(2)]
    records = [dict(zip(fields, row, strict=True)) for row in rows]
    return {"fields": fields, "rows": rows, "records": records, "flat": [cell] * 2 * len(fields), "n": 2}


def _unknown_names(tree: nodes.Template, place: Place) -> str | None:
    shown = [f"{name}.{key}" for name, keys in place.names.items() for key in keys or ()]
    allowed = ", ".join([*(name for name, keys in place.names.items() if keys is None), *shown])
    if late := sorted(meta.find_undeclared_variables(tree) & set(place.later)):
        return f"step {late[0]} comes later; its answer is not known here"
    if strange := sorted(meta.find_undeclared_variables(tree) - set(place.names)):
        return f"unknown template variable {', '.join(strange)}; allowed for {place.whose}: {allowed}"
    for path, is_call in _paths(tree):
        keys = place.names.get(path[0])
        if keys is not None and len(path) > 1 and path[1] not in keys and not is_call:
            return f"unknown template variable {path[0]}.{path[1]}; allowed for {place.whose}: {allowed}"
    return None


def _changed_reference(node: nodes.Node, unchanged: bool = True) -> str | None:
    """A reference to a secret that does not reach the text as it is written: its value is only put in afterwards."""
    if isinstance(node, nodes.TemplateData):
        found = REFERENCE.search(node.data)
    else:
        found = REFERENCE.search(node.value) if isinstance(node, nodes.Const) and isinstance(node.value, str) else None
    if found and not unchanged:
        return found.group(1)
    is_json = isinstance(node, nodes.Filter) and node.name == "tojson"
    for field, value in node.iter_fields():
        inside = (
            unchanged
            and (is_json or isinstance(node, _WRITTEN_AS_IS))
            and not (isinstance(node, nodes.For) and field == "iter")
        )
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, nodes.Node) and (name := _changed_reference(child, inside)):
                return name
    return None


def _paths(tree: nodes.Node) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Every chain of keys that starts with a name; True where it is called, as in `session.get("id")`."""
    called = {id(call.node) for call in tree.find_all(nodes.Call)}
    for node in tree.find_all((nodes.Getattr, nodes.Getitem, nodes.Name)):
        keys: list[str] = []
        at: nodes.Node = node
        while isinstance(at, (nodes.Getattr, nodes.Getitem)):
            key = at.attr if isinstance(at, nodes.Getattr) else getattr(at.arg, "value", None)
            keys.append(str(key) if isinstance(key, (str, int)) else "*")
            at = at.node
        if isinstance(at, nodes.Name) and "*" not in keys:
            yield (at.name, *reversed(keys)), id(node) in called


def _trial_problem(source: str, place: Place, *, as_json: bool) -> str | None:
    """The text of a trial must be JSON. A template that needs real data is not judged, unless it goes on for ever."""
    sandbox = Sandbox()
    for values in place.trials:
        try:
            text = sandbox.rendered(sandbox.from_string(source), values, TRIAL_STEPS, TRIAL_MADE)
        except TemplateLimitError as error:
            return str(error)
        except Exception:  # noqa: BLE001, S112 - the template runs arbitrary filters on stand-in data; the real call will tell
            continue
        try:
            if as_json:
                json.loads(REFERENCE.sub("0", text))
        except (ValueError, RecursionError) as error:
            return f"does not make valid JSON ({error}); write values as {{{{ name|tojson }}}}, without quotes around them"
    return None

"""The `transforms` of a property: sweeps spread out, chains put together, breaking points told apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from aitest_lib.component import Component
from aitest_lib.config.loading import Document, Location, validate
from aitest_lib.errors import InputError, unknown
from aitest_lib.parameters import parameter_model
from aitest_lib.properties.catalog import spec
from aitest_lib.registry import components
from aitest_lib.searches.strengths import StrengthSearch
from aitest_lib.transforms.base import Transform

BREAKING_POINT = "breaking_point"
COMPOSE = "compose"
Parts = tuple[list[Transform], list[StrengthSearch]]


def parts_of(property_name: str, given: Sequence[dict[str, Any]] | None, document: Document, at: Location) -> Parts:
    """The transforms of a property (the property's own choice where none are given), and those whose strength is searched."""
    wanted = spec(property_name)
    entries = given if given is not None else [dict(item) for item in wanted.default_transforms]
    known = {name: cls for name, cls in components().items() if issubclass(cls, Transform) and cls.modality == wanted.modality}
    fixed: list[Transform] = []
    searched: list[StrengthSearch] = []
    for place, entry in enumerate(entries):
        where: Location = (*at, "transforms", place)
        if "strength" in entry and (COMPOSE in entry or entry["strength"] != BREAKING_POINT):
            problem = (
                "a chain has no breaking point" if COMPOSE in entry else f"got {entry['strength']!r}, expected breaking_point"
            )
            raise document.error((*where, "strength"), problem)
        if "strength" in entry:
            searched.append(_search({key: value for key, value in entry.items() if key != "strength"}, known, document, where))
        elif COMPOSE in entry:
            fixed.append(_chain(entry, known, document, where))
        else:
            fixed += _sweep(entry, known, document, where)
    slices = [*(_shown(item.slice) for item in fixed), *(_shown(item.slice) for item in searched)]
    for place, one in enumerate(slices):
        if one in slices[:place]:
            raise document.error((*at, "transforms"), f"{one} is there twice; remove one")
    return fixed, searched


def _shown(slice: dict[str, Any]) -> str:
    return ", ".join(str(value) if key == "transform" else f"{key} {value}" for key, value in slice.items())


def _class(entry: dict[str, Any], known: dict[str, type[Transform]], document: Document, where: Location) -> type[Transform]:
    name = entry.get("name")
    if not isinstance(name, str):
        raise document.error(where, f"this transform has no name; write e.g. {{name: {next(iter(known), '…')}}}")
    if name == COMPOSE:
        raise document.error((*where, "name"), "write a chain as {compose: [{name: …}, {name: …}]}")
    if name not in known:
        raise document.error((*where, "name"), unknown("transform", name, [one for one in known if one != COMPOSE]))
    return known[name]


def _sweep(entry: dict[str, Any], known: dict[str, type[Transform]], document: Document, where: Location) -> list[Transform]:
    """A list in the strength, or in the severity, is one component each; two lists (noises and their levels), one a pair."""
    cls = _class(entry, known, document, where)
    given = {key: value for key, value in entry.items() if key != "name"}
    swept = [key for key in cls.sweepable() if isinstance(given.get(key), list)]
    for key in swept:
        if not given[key]:
            raise document.error((*where, key), "got an empty list, expected at least one value")
    values = product(*(given[key] for key in swept))
    return [_made(cls, given | dict(zip(swept, one, strict=True)), document, where) for one in values]


def _chain(entry: dict[str, Any], known: dict[str, type[Transform]], document: Document, where: Location) -> Transform:
    """`compose: [rotate, {name: brightness, delta: 0.2}]` as one component."""
    if COMPOSE not in known:
        raise document.error((*where, COMPOSE), "transforms of this kind cannot be chained; name them one by one")
    links = entry[COMPOSE]
    extra = sorted(set(entry) - {COMPOSE})
    if extra:
        raise document.error((*where, extra[0]), "belongs to a link of the chain; write it beside the name of its transform")
    if not isinstance(links, list) or len(links) < 2:
        raise document.error((*where, COMPOSE), "expected a list of at least two transforms, e.g. [rotate, brightness]")
    parts = []
    for place, link in enumerate(links):
        at: Location = (*where, COMPOSE, place)
        if not isinstance(link, str | dict):
            raise document.error(at, "expected a transform's name, or {name: …} with its parameters")
        if isinstance(link, dict) and (COMPOSE in link or "strength" in link):
            what = "a chain" if COMPOSE in link else "a breaking point"
            raise document.error(at, f"{what} cannot stand in a chain; write a transform with one strength")
        made = _sweep({"name": link} if isinstance(link, str) else link, known, document, at)
        if len(made) != 1:
            raise document.error(at, "got several strengths, expected one in a chain; write a chain for each")
        own = {key: value for key, value in made[0].parameters().items() if value is not None}
        parts.append({"name": made[0].name, **own})
    cls: Any = known[COMPOSE]
    return cls(parts=parts)  # type: ignore[no-any-return]


def _search(entry: dict[str, Any], known: dict[str, type[Transform]], document: Document, where: Location) -> StrengthSearch:
    """The value that stands beside `strength: breaking_point`, if any, is the strongest that is tried."""
    cls = _class(entry, known, document, where)
    identity, strongest = getattr(cls, "identity", None), getattr(cls, "strongest", None)
    if cls.strength is None or identity is None or strongest is None:
        searchable = [name for name, one in known.items() if getattr(one, "strongest", None) is not None]
        message = f"{cls.name} has no single strength to search; these have: {', '.join(searchable) or 'none'}"
        raise document.error((*where, "strength"), message)
    if "severity" in entry:
        raise document.error((*where, "severity"), f"a breaking point is searched in {cls.strength}; leave the severity out")
    given = {cls.strength: strongest} | {key: value for key, value in entry.items() if key != "name"}
    made = _made(cls, given, document, where)
    if made.strength_value == identity:
        raise document.error((*where, cls.strength), f"got {identity:g}, which changes nothing, expected the strongest to try")
    return StrengthSearch(made, float(identity))


def _made(cls: type[Component], given: dict[str, Any], document: Document, where: Location) -> Transform:
    try:
        parameters = validate(Document(given), parameter_model(cls))
    except InputError as error:
        lines = [line.partition(": ") for line in str(error).splitlines()]
        raise InputError(
            "\n".join(document.message((*where, *_steps(path)), f"{text} ({cls.name})") for path, _, text in lines)
        ) from error
    try:
        made = cls(**parameters.model_dump())
    except InputError as error:
        raise document.error(where, f"{error} ({cls.name})") from error
    if not isinstance(made, Transform):
        raise TypeError(f"{cls.name} is no transform")
    return made


def _steps(path: str) -> Location:
    """`columns[0]` as ("columns", 0)."""
    name, *places = path.replace("]", "").split("[")
    return (name, *(int(place) if place.isdigit() else place for place in places))

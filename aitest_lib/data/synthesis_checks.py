"""Does what a suite asks of synthesized rows fit the columns there are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from aitest_lib.config.synthesize import Normal, Range, SynthesizeConfig
from aitest_lib.data.drift import limits, value_texts
from aitest_lib.data.rules import parse_rule
from aitest_lib.data.schema import Column, Profile
from aitest_lib.errors import InputError, unknown

WHERE = "data.synthesize"


def check_synthesize(config: SynthesizeConfig, profile: Profile) -> None:
    """Raises one `InputError` with a line for everything in `data.synthesize` that does not fit the columns."""
    mistakes = [f"{WHERE}.{text}" for text in _mistakes(config, profile)]
    if mistakes:
        raise InputError("\n".join(mistakes))


def _mistakes(config: SynthesizeConfig, profile: Profile) -> Iterator[str]:
    for place, rule in enumerate(config.rules):
        try:
            parse_rule(rule, list(profile.by_name))
        except InputError as error:
            yield f"rules[{place}]: {error}"
            continue
        if hidden := sorted(set(profile.private) & parse_rule(rule, None).columns):
            yield f"rules[{place}]: it is about {', '.join(hidden)}, which is private and stays with its row; leave it out"
    for place, group in enumerate(config.tied):
        for number, name in enumerate(group):
            if name not in profile.by_name:
                yield f"tied[{place}][{number}]: {unknown('column', name, profile.by_name)}"
            elif name in group[:number]:
                yield f"tied[{place}][{number}]: {name} is there twice; remove one"
    for name, bounds in config.ranges.items():
        yield from (f"ranges.{name}: {text}" for text in _drifting(name, profile) or _range(profile[name], bounds))
    for name, item in config.distributions.items():
        found = _drifting(name, profile)
        if not found and isinstance(item, Normal):
            found = _normal(profile[name], item, config.ranges.get(name))
        elif not found and not isinstance(item, Normal):
            found = _shares(profile[name], item)
        yield from (f"distributions.{name}: {text}" for text in found)


def _drifting(name: str, profile: Profile) -> list[str]:
    """Why a column cannot drift at all."""
    if name not in profile.by_name:
        return [unknown("column", name, profile.by_name)]
    column = profile[name]
    if column.fixed:
        why = "private" if column.private else "immutable" if column.immutable else "ignored"
        return [f"got a column that is {why}, which is never changed; remove it"]
    return []


def _range(column: Column, bounds: Range) -> list[str]:
    if not column.numeric:
        return [f"got a column of kind {column.kind}, expected a number; give a category its shares in distributions"]
    if column.min is None or column.max is None:
        return ["got a column without any number, expected some; leave it out"]
    low, high = limits(column, bounds)
    if not column.min <= low <= high <= column.max:
        allowed = f"{column.min:g}..{column.max:g}"
        return [f"got {low:g}..{high:g}, expected a range within {allowed}; move it, or widen data.schema.{column.name}"]
    if column.kind == "integer" and math.ceil(low) > math.floor(high):
        return [f"got {low:g}..{high:g}, expected a range that holds a whole number; widen it"]
    return []


def _normal(column: Column, normal: Normal, bounds: Range | None) -> list[str]:
    if not column.numeric:
        return [f"got mean and sd for a column of kind {column.kind}, expected shares of its values, e.g. {{A: 0.2, B: 0.8}}"]
    low, high = limits(column, bounds or Range.model_construct())
    if not low <= normal.mean <= high:
        return [f"got mean {normal.mean:g}, expected one within {low:g}..{high:g}; move it, or widen the range or the schema"]
    return []


def _shares(column: Column, shares: Mapping[str, float]) -> list[str]:
    if column.kind not in ("category", "boolean"):
        return [f"got shares for a column of kind {column.kind}, expected {{mean, sd}} for numbers; shares are for categories"]
    known = value_texts(column)
    return [unknown("category", text, known) for text in shares if text not in known]

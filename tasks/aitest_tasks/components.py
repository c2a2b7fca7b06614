"""The components of a run's properties."""

from __future__ import annotations

from typing import Any

from aitest_lib.config.suite import attacks_of, searches_of, transforms_of
from aitest_lib.properties.catalog import spec
from aitest_lib.searches.image.base import ImageSearch
from aitest_lib.searches.strengths import StrengthSearch
from aitest_lib.transforms.base import Transform
from aitest_tasks.counterparts import put_values
from aitest_tasks.runs import Run


def searches(run: Run, index: int) -> list[StrengthSearch]:
    """The transforms of a property whose breaking point is looked for."""
    config = run.suite.suite.properties[index]
    if spec(config.property).shape != "perturbation":
        return []
    return searches_of(config, run.suite.document, ("properties", index))


def attacks(run: Run, index: int) -> list[ImageSearch]:
    """The adversarial search of a property and the baselines beside it; none for other shapes."""
    config = run.suite.suite.properties[index]
    if spec(config.property).shape != "search":
        return []
    return attacks_of(config, run.suite.document, ("properties", index))


def components(run: Run, index: int) -> list[Transform]:
    """The components of a property; none for the group shape. Of the property's own choice, those without a column to
    work on are left out: nobody asked for them."""
    config = run.suite.suite.properties[index]
    if spec(config.property).shape != "perturbation":
        return []
    if spec(config.property).own_answers:
        return [*put_values(run, index)]
    made = transforms_of(config, run.suite.document, ("properties", index))
    if config.transforms is not None or all(item.name != "missing_value" for item in made):
        return made
    may_miss = any(
        column.missing and not column.fixed for column in run.profile.columns if column.name in run.record["columns"]
    )
    return made if may_miss else [item for item in made if item.name != "missing_value"]


def check_components(run: Run, seeds: dict[str, Any]) -> None:
    """Raises `InputError`, before anything is asked, where what is to be put into rows does not fit their columns. `seeds`:
    what is known of them so far."""
    run.__dict__["prepared"] = seeds
    for index in run.properties:
        if spec(run.suite.suite.properties[index].property).own_answers:
            put_values(run, index)

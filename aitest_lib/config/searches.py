"""The `search` of a property: which method looks for failing inputs, how far it may go, and what it is compared with."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from aitest_lib.config.loading import Document, Location, StrictModel
from aitest_lib.errors import InputError, unknown
from aitest_lib.registry import components
from aitest_lib.searches.image.base import LEVELS, MOST_QUERIES, ImageSearch

BASELINES = ("random", "square")
FEWEST = "random"  # what labels alone can be compared with


class SearchConfig(StrictModel):
    """How failing inputs are searched. What is left out has the defaults of the search itself."""

    method: str = Field(default="auto", description="`aitest list searches` names them")
    delta: float | None = Field(default=None, gt=0, description="largest change of a pixel, of the range 0 to 1")
    queries: int | None = Field(default=None, ge=1, le=MOST_QUERIES, description="queries that one seed may cost at most")
    labels_only: bool = Field(default=False, description="use the model's labels alone, also where it gives scores")
    baselines: list[str] | None = Field(default=None, description="methods to compare with, at as many queries each")
    time_limit_s: float | None = Field(default=None, gt=0, description="seconds after which searches are left unfinished")


def image_searches() -> dict[str, type[ImageSearch]]:
    """The methods that search images, by name."""
    return {name: cls for name, cls in components().items() if issubclass(cls, ImageSearch)}


def searches_of(given: SearchConfig | None, document: Document, at: Location) -> list[ImageSearch]:
    """The search of a property and its baselines, in this order. Each mistake is an `InputError` with its place."""
    config = given or SearchConfig()
    parameters: dict[str, Any] = {"labels_only": config.labels_only}
    parameters |= {key: value for key in ("delta", "queries") if (value := getattr(config, key)) is not None}
    if config.delta is not None and config.delta > 1:
        levels = f"; {config.delta:g} of {LEVELS} grey levels are {config.delta / LEVELS:.4f}" if config.delta <= LEVELS else ""
        raise document.error((*at, "search", "delta"), f"got {config.delta:g}, expected at most 1{levels}")
    main = _made(config.method, parameters, document, (*at, "search", "method"))
    names = config.baselines
    if names is None:
        names = [name for name in ([FEWEST] if config.labels_only else BASELINES) if name != config.method]
    found = [main]
    for place, name in enumerate(names):
        where: Location = (*at, "search", "baselines", place)
        if name in (one.name for one in found):
            raise document.error(where, f"{name} is there twice; remove one")
        found.append(_made(name, parameters, document, where))
    return found


def _made(name: str, parameters: dict[str, Any], document: Document, where: Location) -> ImageSearch:
    known = image_searches()
    if name not in known:
        raise document.error(where, unknown("search", name, known))
    if known[name].needs_scores and parameters["labels_only"]:
        free = ", ".join(one for one, cls in known.items() if not cls.needs_scores)
        raise document.error(where, f"{name} is guided by scores, and `labels_only` forbids them; these need none: {free}")
    try:
        return known[name](**parameters)
    except InputError as error:
        raise document.error((*where[:-1], "delta") if where[-1] == "method" else where, str(error)) from error

"""A chain of transforms of images as one transform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
from pydantic import ValidationError

from aitest_lib.errors import InputError
from aitest_lib.parameters import parameter, parameter_model
from aitest_lib.registry import component_class, register
from aitest_lib.rng import rng_for as generator_for
from aitest_lib.transforms.base import RngFor
from aitest_lib.transforms.image.base import ImageDraw, ImageTransform, Pixels, Shape
from aitest_lib.transforms.image.geometry import AffineTransform, Matrix, warped
from aitest_lib.transforms.image.tensors import by_params


@register
@dataclass(frozen=True, kw_only=True)
class Compose(ImageTransform):
    """Transforms one after the other; neighbouring maps (scale, rotate, shear, translate) are resampled once.

    Every link draws from a generator of its own, which its place in the chain gives it: leaving out another changes nothing.
    """

    name: ClassVar[str] = "compose"
    parts: list[dict[str, Any]] = parameter(help="the links in order: each the name of a transform and its parameters")
    left_out: int | None = parameter(None, help="place of a link that is left out, from 0: for telling which one matters", ge=0)

    def __post_init__(self) -> None:
        if self.severity is not None:
            raise InputError("got a severity of a whole chain, expected one of a link; write it beside the link's name")
        if not self.links:
            raise InputError("got a chain without transforms, expected at least one, e.g. {name: rotate, degrees: 15}")

    @property
    def strength_value(self) -> float | None:
        return None

    @property
    def slice(self) -> dict[str, Any]:
        """The names of the links, and what each was given."""
        given = [{key: value for key, value in link.slice.items() if key != "transform"} for link in self.links.values()]
        words = [", ".join(f"{key} {value}" for key, value in own.items()) or "-" for own in given]
        return {"transform": " + ".join(link.name for link in self.links.values()), "with": " + ".join(words)}

    @cached_property
    def links(self) -> dict[int, ImageTransform]:
        """The links that are not left out, by their place in the chain."""
        return {place: _link(place, part) for place, part in enumerate(self.parts) if place != self.left_out}

    def without(self, place: int) -> Compose:
        """The chain with one link left out; the others draw what they draw in the whole chain."""
        return replace(self, left_out=place)

    def draw(self, seed_ids: Sequence[str], shape: Shape, rng_for: RngFor) -> ImageDraw:
        """Draws of every link; an image has no case where one of its links has none, for the reason of the first."""
        draws = [link.draw(seed_ids, shape, partial(_own, rng_for, place, link.key)) for place, link in self.links.items()]
        versions = [{"name": link.name, "version": link.version} for link in self.links.values()]
        params: list[dict[str, Any]] = []
        reasons: list[str | None] = []
        for row in range(len(seed_ids)):
            drawn = [{**version, "params": draw.params[row]} for version, draw in zip(versions, draws, strict=True)]
            params.append({"parts": drawn})
            reasons.append(next((draw.not_applicable[row] for draw in draws if draw.not_applicable[row]), None))
        return ImageDraw(params, reasons)

    def draw_one(self, shape: Shape, rng: np.random.Generator) -> dict[str, Any]:
        return self.draw([""], shape, lambda _: rng).params[0]

    def apply(self, images: Pixels, params: Sequence[dict[str, Any]]) -> Pixels:
        links = list(self.links.values())
        drawn = [[part["params"] for part in one["parts"]] for one in params]
        affine = {at: link for at, link in enumerate(links) if isinstance(link, AffineTransform)}
        for together, run in groupby(range(len(links)), key=affine.__contains__):
            places = list(run)
            if together:
                moves = [{"links": [row[at] for at in places]} for row in drawn]
                images = by_params(images, moves, partial(_moved, [affine[at] for at in places]))
            else:
                for at in places:
                    images = links[at].apply(images, [row[at] for row in drawn])
        return images


def _link(place: int, part: dict[str, Any]) -> ImageTransform:
    """The transform that a link names, with its parameters checked."""
    name = str(part.get("name"))
    cls = component_class(name, "transform")
    try:
        made = cls(**parameter_model(cls)(**{key: value for key, value in part.items() if key != "name"}).model_dump())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in ("parts", place, *first["loc"]))
        raise InputError(f"{where}: {first['msg']} ({name})") from error
    if not isinstance(made, ImageTransform):
        raise InputError(f"parts.{place}: got {name}, expected a transform of images; `aitest list transforms` has them")
    return made


def _own(rng_for: RngFor, place: int, key: str, seed_id: str) -> np.random.Generator:
    """The generator of a link for one image: another for each place in the chain, the same whichever links are left out."""
    return generator_for(int(rng_for(seed_id).integers(2**63)), key, str(place))


def _moved(links: list[AffineTransform], images: Pixels, params: dict[str, Any]) -> Pixels:
    height, width, channels = images.shape[1:]
    matrix: Matrix = np.eye(3)
    for link, one in zip(links, params["links"], strict=True):
        matrix = link.matrix(one, (height, width, channels)) @ matrix
    return warped(images, matrix)

"""`data.synthesize` of a suite: how many rows are made of the real ones, how, and with which drift."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from aitest_lib.config.loading import StrictModel

RATE = 0.3
SHARE_TOLERANCE = 1e-6


class Range(StrictModel):
    """The values a number may take: from `min` to `max`, both allowed; one may be left out."""

    min: float | None = None
    max: float | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if self.min is None and self.max is None:
            raise ValueError("got neither min nor max, expected at least one of them")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"got min {self.min:g} above max {self.max:g}, expected min <= max; swap them")
        return self


class Normal(StrictModel):
    """A normal distribution of a number, cut off at its range."""

    mean: float
    sd: float = Field(gt=0)


def _whole(shares: dict[str, float]) -> dict[str, float]:
    total = math.fsum(shares.values())
    if abs(total - 1) > SHARE_TOLERANCE:
        raise ValueError(f"got shares that add up to {total:.6g}, expected 1; values that are not named get none")
    return shares


def _kind(value: Any) -> str:
    """Told apart before they are validated, so that a mistake in one is not answered with what the other expects."""
    return "normal" if isinstance(value, Normal) or (isinstance(value, dict) and {"mean", "sd"} & set(value)) else "shares"


Share = Annotated[float, Field(ge=0, le=1)]
Shares = Annotated[dict[str, Share], AfterValidator(_whole)]
Distribution = Annotated[Annotated[Normal, Tag("normal")] | Annotated[Shares, Tag("shares")], Discriminator(_kind)]
Group = Annotated[list[str], Field(min_length=2)]


class SynthesizeConfig(StrictModel):
    """Synthesized seeds in place of the real ones."""

    rows: int = Field(ge=1)
    method: Literal["swap", "marginal", "coverage"] = Field(
        default="swap",
        description="swap: cells of rows of the same leaf of a surrogate; marginal: every column by itself; "
        "coverage: rows for every path of the surrogate",
    )
    rate: float = Field(default=RATE, gt=0, le=1, description="swap: probability with which each column is replaced")
    rules: list[str] = Field(default_factory=list, description="synthesized rows must satisfy these, and data.rules")
    tied: list[Group] = Field(default_factory=list, description="groups of columns that move together, beside those found")
    ranges: dict[str, Range] = Field(default_factory=dict, description="drift: numbers are redrawn to lie inside")
    distributions: dict[str, Distribution] = Field(
        default_factory=dict, description="drift: shares of categories, or mean and sd of a number"
    )

    @model_validator(mode="after")
    def _fitting(self) -> SynthesizeConfig:
        if self.method != "swap" and self.rate != RATE:
            raise ValueError(f"got rate {self.rate:g} for method {self.method}, expected a rate for swap only; remove it")
        return self

    @property
    def labelled(self) -> bool:
        """Do the rows keep labels: not where numbers are moved, which may change what the right one is."""
        moved = self.ranges or any(isinstance(item, Normal) for item in self.distributions.values())
        return self.method == "swap" and not moved

    @property
    def drifts(self) -> bool:
        """Are the rows to differ from the real ones in what they hold."""
        return bool(self.ranges or self.distributions)

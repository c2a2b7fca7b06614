"""What a suite says of fairness of tables: protected columns, and the directions in which columns may move an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from aitest_lib.config.gates import SliceValue
from aitest_lib.config.loading import StrictModel

Expected = Literal["increasing", "decreasing", "never_helps", "never_hurts"]
Watched = Literal["score", "decision"]
EXPECTED: tuple[Expected, ...] = ("increasing", "decreasing", "never_helps", "never_hurts")
UPWARDS = ("increasing", "never_hurts")  # more of it may not make the answer less favourable; of the others, not more


class Protected(StrictModel):
    """A protected column."""

    privileged: SliceValue | list[SliceValue] | None = Field(
        default=None, description="the reference group, or several as one; by default the most favoured group"
    )
    cut_at: list[float] | None = Field(
        default=None, min_length=1, description="numbers: where the groups are cut, e.g. [40, 65]; by default at the quartiles"
    )

    @field_validator("cut_at")
    @classmethod
    def _ascending(cls, value: list[float] | None) -> list[float] | None:
        if value is not None and sorted(set(value)) != value:
            raise ValueError(f"got {value}, expected ascending numbers, each once, e.g. [40, 65]")
        return value

    @property
    def reference(self) -> list[SliceValue]:
        """The privileged groups; empty where none is named."""
        if self.privileged is None:
            return []
        return self.privileged if isinstance(self.privileged, list) else [self.privileged]


class Direction(StrictModel):
    """How an answer may move when a column alone does, and what of it is watched: exactly one of the four."""

    increasing: Watched | None = Field(default=None, description="more of it may never lower the score, or hurt the decision")
    decreasing: Watched | None = Field(default=None, description="more of it may never raise the score, or help the decision")
    never_helps: Watched | None = Field(default=None, description="as decreasing")
    never_hurts: Watched | None = Field(default=None, description="as increasing")
    order: list[SliceValue] | None = Field(default=None, min_length=2, description="categories from the least to the most")

    @model_validator(mode="after")
    def _one(self) -> Direction:
        named = [name for name in EXPECTED if getattr(self, name) is not None]
        if len(named) != 1:
            shown = ", ".join(EXPECTED)
            raise ValueError(f"got {len(named)} directions, expected one of {shown}, e.g. {{increasing: score}}")
        return self


# Told apart before they are validated, so that a mistake in one is not answered with what the other expects.
Directed = Annotated[
    Annotated[Expected, Tag("word")] | Annotated[Direction, Tag("direction")],
    Discriminator(lambda value: "word" if isinstance(value, str) else "direction"),
]


@dataclass(frozen=True)
class Expectation:
    """A direction as it is tested. `on`: None where the suite does not say what is watched."""

    expected: Expected
    on: Watched | None = None
    order: list[SliceValue] | None = None

    @classmethod
    def of(cls, given: Directed) -> Expectation:
        """From what stands in a suite."""
        if isinstance(given, str):
            return cls(given)
        [name] = [name for name in EXPECTED if getattr(given, name) is not None]
        return cls(name, getattr(given, name), given.order)

    @property
    def upwards(self) -> bool:
        """Is more of it expected to make the answer more favourable, if anything."""
        return self.expected in UPWARDS


def expectations(directions: Mapping[str, Directed] | None) -> dict[str, Expectation]:
    """The directions of a property by column."""
    return {name: Expectation.of(given) for name, given in (directions or {}).items()}

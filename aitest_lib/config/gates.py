"""Gates: the bounds a suite sets on metrics. Scorers judge by them and need nothing else of a suite."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag, model_validator

from aitest_lib.config.loading import StrictModel

SliceValue = str | bool | int | float


class Gate(StrictModel):
    """A bound on a metric. Without `slice` it applies to each component; `slice: {}` is the pooled figure."""

    min: float | None = None
    max: float | None = None
    slice: dict[str, SliceValue] | None = None

    @model_validator(mode="after")
    def _one_bound(self) -> Gate:
        if (self.min is None) == (self.max is None):
            raise ValueError(
                "got " + ("no bound" if self.min is None else "both bounds") + ", expected exactly one of min, max"
            )
        return self


# Told apart before they are validated, so that a mistake in a gate is not answered with "expected a list".
Gates = Annotated[
    Annotated[Gate, Tag("gate")] | Annotated[list[Gate], Field(min_length=1), Tag("gates")],
    Discriminator(lambda value: "gates" if isinstance(value, list) else "gate"),
]

"""What a suite says of fairness of tables: protected columns, and the directions in which columns may move an answer."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from aitest_lib.config.gates import SliceValue
from aitest_lib.config.loading import StrictModel

Expected = Literal["increasing", "decreasing", "never_helps", "never_hurts"]
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


class Expectation(StrictModel):
    """How an answer may move when a column alone does. Written `increasing`, or `{decreasing: score}` to say what is watched,
    or with the `order` of categories: `{increasing: decision, order: [low, middle, high]}`.

    `increasing`: more of it may never lower the score (`decreasing`: raise it); `never_helps`: more of it may never make the
    decision favourable (`never_hurts`: unfavourable). `on`: by default the score for the first two, where the model gives one,
    and the decision for the others.
    """

    expected: Expected
    on: Literal["score", "decision"] | None = None
    order: list[SliceValue] | None = Field(default=None, min_length=2, description="categories from the least to the most")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"expected": value}
        if isinstance(value, dict) and "expected" not in value:
            named = [name for name in EXPECTED if name in value]
            if len(named) != 1:
                shown = ", ".join(EXPECTED)
                raise ValueError(f"got {len(named)} directions, expected one of {shown}, e.g. {{increasing: score}}")
            rest = {key: item for key, item in value.items() if key != named[0]}
            return {"expected": named[0], "on": value[named[0]], **rest}
        return value

    @property
    def upwards(self) -> bool:
        """Is more of it expected to make the answer more favourable, if anything."""
        return self.expected in UPWARDS

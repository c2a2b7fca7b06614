"""A transform whose strength is searched: one component of a property, with one case a seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aitest_lib.canonical import digest
from aitest_lib.searches.breaking_point import BreakingPoint
from aitest_lib.transforms.base import Transform


@dataclass(frozen=True)
class StrengthSearch:
    """The smallest strength of `transform` that breaks an answer; `transform` itself is the strongest that is tried."""

    transform: Transform
    identity: float
    search: BreakingPoint = field(default_factory=BreakingPoint)

    @property
    def name(self) -> str:
        """The transform's name."""
        return self.transform.name

    @property
    def parameter(self) -> str:
        """The parameter that is searched."""
        return str(self.transform.strength)

    @property
    def slice(self) -> dict[str, Any]:
        """The slice of a report this component stands for."""
        rest = {key: value for key, value in self.transform.slice.items() if key not in ("transform", self.parameter)}
        return {"transform": self.name, "strength": self.search.name, **rest}

    def strength_of(self, level: int) -> float:
        """The strength of a level of the ladder."""
        strongest = float(self.transform.strength_value or 0)
        return float(self.search.strengths(self.identity, strongest)[level])

    def fingerprint(self) -> str:
        """Digest of the transform, the strongest strength tried and the search."""
        return digest([self.transform.fingerprint(), self.search.fingerprint()])

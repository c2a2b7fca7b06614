"""The base of transforms, scorers and samplers: named, versioned, with plain data as parameters."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

from aitest_lib.canonical import digest


@dataclass(frozen=True, kw_only=True)
class Component:
    """A named, versioned piece of a test. Its fingerprint is the cache key of what it makes.

    Raise `version` whenever the output changes: caching trusts it, and the golden tests hold it to that.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1

    @property
    def key(self) -> str:
        """Name and version, the part of a component that seeds its randomness."""
        return f"{self.name}@{self.version}"

    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON data."""
        return dataclasses.asdict(self)

    def fingerprint(self) -> str:
        """Digest of name, version and canonical parameters."""
        return digest({"name": self.name, "version": self.version, "parameters": self.parameters()})

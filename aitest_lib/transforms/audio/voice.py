"""The texts of the clips, said by another voice: what fairness by voices compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from aitest_lib.transforms.base import Transform

PROVIDERS = ("command", "http", "callable")  # in the place of an engine
USUAL_ENGINE = "espeak-ng"


@dataclass(frozen=True, kw_only=True)
class VoiceOver(Transform):
    """What is said in each clip, spoken by one voice of a suite (`config`: its entry there)."""

    name: ClassVar[str] = "voice"
    modality: ClassVar[str] = "speech"
    config: dict[str, Any]

    @property
    def label(self) -> str:
        """`slt (flite)`."""
        engine = next((name for name in PROVIDERS if name in self.config), self.config.get("engine") or USUAL_ENGINE)
        return f"{self.config['voice']} ({engine})"

    @property
    def groups(self) -> dict[str, str]:
        """Whom the voice stands for."""
        return dict(self.config.get("groups", {}))

    @property
    def slice(self) -> dict[str, Any]:
        return {"transform": self.name, "voice": self.label}

    def drawn(self) -> dict[str, Any]:
        """The parameters of a case; the groups are no part of what is heard."""
        return {key: value for key, value in self.config.items() if key != "groups"}

"""What every transform of speech is: parameters drawn first, then applied to one clip at a time.

A clip goes in as it was read (mono, PCM16 as float32) and comes out as PCM16 again. Nothing is made louder, quieter or
clipped without a word: what was done and what came out stand in `Changed.measured`, and on each case.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from aitest_lib.data.recordings import NoiseSource, Recordings
from aitest_lib.transforms.base import RngFor, Transform
from aitest_lib.types import Clip


@dataclass(frozen=True)
class AudioDraw:
    """What was drawn for n seeds: parameters (JSON, all that `apply` needs), and why a seed has no case (None: it has)."""

    params: list[dict[str, Any]]
    not_applicable: list[str | None]


@dataclass(frozen=True, eq=False)
class Changed:
    """A transformed clip: PCM16 as float32, and figures that were measured on it (JSON), e.g. `snr_db`, `peak_dbfs`."""

    clip: Clip
    measured: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class AudioTransform(Transform):
    """A transform of clips.

    `identity`: the value of the strength that changes nothing (or as good as nothing); `strongest`: where a search for the
    breaking point ends unless it is told; None where there is no single strength. `swept`: the parameters in which a list is
    a sweep, the strength where none are named. `noise_source`: the noise that must be handed to `draw` and `apply`.
    """

    modality: ClassVar[str] = "speech"
    identity: ClassVar[float | None] = None
    strongest: ClassVar[float | None] = None
    swept: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def sweepable(cls) -> list[str]:
        return list(cls.swept) or super().sweepable()

    @property
    def slice(self) -> dict[str, Any]:
        """What tells this component from others: its swept parameters, and what is not as usual."""
        usual = {item.name: item.default for item in dataclasses.fields(self) if item.name not in self.sweepable()}
        return {"transform": self.name} | {
            name: value for name, value in self.parameters().items() if value is not None and value != usual.get(name)
        }

    @property
    def noise_source(self) -> NoiseSource | None:
        """The noise that `draw` and `apply` get, None where they need none."""
        return None

    def draw(
        self, seed_ids: Sequence[str], clips: Sequence[Clip], rng_for: RngFor, noise: Recordings | None = None
    ) -> AudioDraw:
        """Draws for each clip from its own generator. The strength plays no part in what is random, so that along a sweep the
        same draw is scaled."""
        reasons = [self.misfit(clip, noise) for clip in clips]
        params = [
            self.draw_one(clip, rng_for(seed_id), noise) if reason is None else {}
            for seed_id, clip, reason in zip(seed_ids, clips, reasons, strict=True)
        ]
        return AudioDraw(params, reasons)

    def misfit(self, clip: Clip, noise: Recordings | None) -> str | None:
        """Why a clip has no case (`the clip is silent`), None where it has."""
        return None

    @abstractmethod
    def draw_one(self, clip: Clip, rng: np.random.Generator, noise: Recordings | None) -> dict[str, Any]:
        """The parameters of one clip: its strength and what is random, as JSON data."""

    @abstractmethod
    def apply(self, clip: Clip, params: dict[str, Any], noise: Recordings | None = None) -> Changed:
        """The transformed clip. Pure."""

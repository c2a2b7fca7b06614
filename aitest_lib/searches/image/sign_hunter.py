"""SignHunter: the sign of every pixel's channel, found by halving."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

import numpy as np

from aitest_lib.registry import register
from aitest_lib.searches.image.base import ImageSearch, Moves, Seed, Try
from aitest_lib.searches.image.tiles import as_noise, nested_blocks


@register
@dataclass(frozen=True, kw_only=True)
class SignHunter(ImageSearch):
    """All of the noise goes up at first; then all of it, halves, quarters, ... change their sign, which is kept where the
    margin falls.

    Al-Dujaili & O'Reilly, Sign bits are all you need for black-box attacks, ICLR 2020, algorithm 1. Where the blocks have come
    down to single values and some have changed, it starts over with those signs.
    """

    name: ClassVar[str] = "sign_hunter"
    version: ClassVar[int] = 1
    needs_scores: ClassVar[bool] = True

    def moves(self, seed: Seed, rng: np.random.Generator) -> Moves:
        """Block after block; nothing is left to chance."""
        signs = np.ones(seed.image.size, np.int16)
        margin, changed = np.inf, True
        while changed:
            changed = False
            for block in chain([slice(0)], nested_blocks(signs.size)):  # the first tries the signs as they are
                signs[block] *= -1
                reply = yield Try(as_noise(signs * np.int16(seed.radius), seed.image.shape))
                if reply.margin < margin:
                    margin, changed = reply.margin, True
                else:
                    signs[block] *= -1

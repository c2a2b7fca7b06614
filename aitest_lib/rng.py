"""Randomness that belongs to one case, whatever the batch, the order or the worker."""

from __future__ import annotations

import numpy as np

from aitest_lib.canonical import digest


def rng_for(random_seed: int, component: str, seed_id: str) -> np.random.Generator:
    """The generator of one (run seed, component, test seed).

    `component` is name and version ("numeric_noise@1"), never the strength: along a sweep the same draw is scaled
    (common random numbers). Philox is counter-based, so that the key alone fixes the stream.
    """
    key = int(digest([random_seed, component, seed_id]), 16)
    return np.random.Generator(np.random.Philox(key=key))


def rank_key(random_seed: int, seed_id: str) -> str:
    """Sort key of a seed: seeds are taken in this order, so that a budget cuts the same ones whatever the file's order."""
    return digest([random_seed, seed_id])

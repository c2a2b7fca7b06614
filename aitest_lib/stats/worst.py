"""The worst of several contrasts as one figure that a gate can judge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from aitest_lib.stats.estimates import Estimate, undefined


def largest(contrasts: Sequence[Estimate], comparisons: int | None = None) -> Estimate:
    """The largest of several contrasts; those that are undefined do not count.

    Its upper bound is the largest upper bound: all contrasts lie below a threshold if each does, and to say so of all takes no
    correction (intersection-union test; Berger 1982). Its lower bound is the largest lower bound, each at
    1 - (1 - confidence) / `comparisons` (Bonferroni), since one of many may lie high by chance. `comparisons`: how many
    contrasts were looked at (those given). `n` and `rows` are those of the largest.
    """
    defined = [one for one in contrasts if one.value is not None]
    if not defined:
        return contrasts[0] if contrasts else undefined("there is nothing to compare")
    found = max(defined, key=lambda one: one.value or 0.0)
    bounded = any(one.interval is not None for one in defined)
    interval = partial(_largest_interval, defined, comparisons or len(contrasts)) if bounded else None
    return replace(found, interval=interval, effective_n=None)


def smallest(contrasts: Sequence[Estimate], comparisons: int | None = None) -> Estimate:
    """The smallest of several contrasts; `largest` mirrored: its lower bound takes no correction, its upper one does."""
    return turned(largest([turned(one) for one in contrasts], comparisons))


def turned(contrast: Estimate) -> Estimate:
    """The contrast the other way round: minus itself."""
    if contrast.value is None:
        return contrast
    interval = None if contrast.interval is None else partial(_turned_interval, contrast)
    return replace(contrast, value=-contrast.value, interval=interval)


def at_once(contrast: Estimate, comparisons: int) -> Estimate:
    """The contrast with bounds that hold for `comparisons` such contrasts at once (Bonferroni)."""
    if contrast.interval is None or comparisons == 1:
        return contrast
    return replace(contrast, interval=partial(_corrected_interval, contrast, comparisons))


def _largest_interval(contrasts: Sequence[Estimate], comparisons: int, confidence: float) -> tuple[float, float]:
    corrected = 1 - (1 - confidence) / comparisons
    return max(_bounds(one, corrected)[0] for one in contrasts), max(_bounds(one, confidence)[1] for one in contrasts)


def _turned_interval(contrast: Estimate, confidence: float) -> tuple[float, float]:
    low, high = _bounds(contrast, confidence)
    return -high, -low


def _corrected_interval(contrast: Estimate, comparisons: int, confidence: float) -> tuple[float, float]:
    return _bounds(contrast, 1 - (1 - confidence) / comparisons)


def _bounds(contrast: Estimate, confidence: float) -> tuple[float, float]:
    # Beyond what a float can say of a confidence nothing is known.
    known = contrast.bounds(confidence) if confidence < 1 else None
    return known or (-math.inf, math.inf)

"""Groups of speakers side by side: who is served worse than whom, and how sure that is (see `permutation`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from aitest_lib.errors import InputError, unknown
from aitest_lib.stats.estimates import Estimate, undefined
from aitest_lib.stats.multiple import holm
from aitest_lib.stats.permutation import NO_ERROR, Speakers, gap_permutation, ratio_permutation
from aitest_lib.stats.worst import largest, turned

TOO_FEW = 5  # with fewer speakers in a group nothing is said of the group
NO_TWO_GROUPS = "there are no two groups to compare"


@dataclass(frozen=True, kw_only=True)
class GroupGap:
    """A group of `speakers` with its pooled `rate`, beside the reference group (which has None of the rest): `gap` and `ratio`,
    without interval where either has too few speakers. The lower bounds of the gaps hold for all groups at once, the upper
    ones for each by itself. `p_value`: of "there is no gap", two-sided, Holm-corrected."""

    name: str
    speakers: int
    rate: float
    reference: bool = False
    gap: Estimate | None = None
    ratio: Estimate | None = None
    p_value: float | None = None


@dataclass(frozen=True, kw_only=True)
class GroupGaps:
    """The groups of one attribute, best served first. `worst`: the largest gap of the groups with enough speakers, for a gate.
    `unjudged`: which groups have too few (None: none has); then a gate may fail, but not pass."""

    groups: list[GroupGap]
    worst: Estimate
    unjudged: str | None


def disparity(
    errors: ArrayLike,
    words: ArrayLike,
    speakers: Sequence[str],
    groups: Sequence[str],
    random_seed: int,
    reference: str | None = None,
) -> GroupGaps:
    """How much worse each group of speakers is served than the reference group: the one named, else the best served one.

    `errors`, `words`: counts of n clips, (n,); `speakers`, `groups`: who speaks in each, and in which group that speaker is.
    Clips without words are left out. The lower bound of `worst` is above the largest true gap in at most 1 - confidence of
    all cases: against a reference that was named beforehand each other group is one comparison (Bonferroni); where the data
    choose best and worst, each ordered pair of groups is one, so that two groups are compared two-sided.
    """
    members = _by_group(errors, words, speakers, groups)
    if reference is not None and reference not in members:
        raise InputError(unknown("reference group", reference, members))
    if len(members) < 2:
        groups_alone = [_described(members, name, name) for name in members]
        return GroupGaps(groups=groups_alone, worst=undefined(NO_TWO_GROUPS, len(members)), unjudged=NO_TWO_GROUPS)
    enough = [name for name, own in members.items() if len(own.words) >= TOO_FEW]
    base = reference or next(iter(enough if len(enough) > 1 else members))
    few = _too_few(members)
    described = [_described(members, name, base, few) for name in members]
    judged = [name for name in enough if name != base] if base in enough else []
    if not judged:
        gaps = [group.gap for group in described if group.gap is not None]
        return GroupGaps(groups=described, worst=largest(gaps), unjudged=few)
    pairs = [(name, base) for name in judged] + (list(combinations(judged, 2)) if reference is None else [])
    contrasts = {(one, other): gap_permutation(members[one], members[other], random_seed) for one, other in pairs}
    corrected = dict(zip(pairs, holm([found.p_value or 0.0 for found in contrasts.values()]).tolist(), strict=True))
    compared = [found.estimate for found in contrasts.values()]
    if reference is None:
        compared += [turned(gap) for gap in compared]
    for place, group in enumerate(described):
        if group.name in judged:
            gap = largest([contrasts[group.name, base].estimate], len(compared))
            ratio = ratio_permutation(members[group.name], members[base], random_seed).estimate
            described[place] = replace(group, gap=gap, ratio=ratio, p_value=corrected[group.name, base])
    return GroupGaps(groups=described, worst=largest(compared), unjudged=few)


def _by_group(errors: ArrayLike, words: ArrayLike, speakers: Sequence[str], groups: Sequence[str]) -> dict[str, Speakers]:
    """The counts of the speakers of each group, of clips with words; the group that is served best first."""
    clips = pd.DataFrame({"errors": errors, "words": words, "speaker": speakers, "group": groups, "clips": 1.0})
    clips = clips[clips["words"] > 0]
    if clips.groupby("speaker")["group"].nunique().gt(1).any():
        raise InputError("got a speaker in two groups of one attribute, expected one group each; check the columns of the data")
    sums = clips.groupby(["group", "speaker"])[["errors", "words", "clips"]].sum()
    members = [
        (str(name), Speakers(**{str(column): own[column].to_numpy(np.float64) for column in own}))
        for name, own in sums.groupby(level="group")
    ]
    return dict(sorted(members, key=lambda member: (member[1].rate, member[0])))


def _too_few(members: dict[str, Speakers]) -> str | None:
    small = [f"{name} ({len(own.words)})" for name, own in members.items() if len(own.words) < TOO_FEW]
    return f"these voices differ, not the groups: fewer than {TOO_FEW} speakers in {', '.join(small)}" if small else None


def _described(members: dict[str, Speakers], name: str, base: str, few: str | None = None) -> GroupGap:
    """A group with its gap and its ratio as they are, without intervals."""
    own, other = members[name], members[base]
    group = GroupGap(name=name, speakers=len(own.words), rate=own.rate, reference=name == base)
    if name == base:
        return group
    n = min(len(own.words), len(other.words))
    gap = Estimate(value=own.rate - other.rate, n=n, reason=few)
    ratio = Estimate(value=own.rate / other.rate, n=n, reason=few) if other.rate else undefined(NO_ERROR, n)
    return replace(group, gap=gap, ratio=ratio)

"""Figures of what was misheard: pooled and mean word error rate and what they are made of, with intervals by speaker or clip.

Error cases count against the recogniser: in the pessimistic figure nothing was heard of them.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.metrics.wer import WordErrors, pooled_rate, pooled_rise
from aitest_lib.reports.records import Errors
from aitest_lib.scorers.figures import Figure
from aitest_lib.stats.clusters import rate_of_rows
from aitest_lib.stats.estimates import Estimate

Units = NDArray[np.int64]  # (n,): which speaker a clip is of, or its own number


def wer_figures(
    found: WordErrors, units: Units, slice: dict[str, Any], *, lost: WordErrors | None = None, component: bool = False
) -> list[Figure]:
    """WER (pooled and the mean over clips), CER, the rates of substituted, deleted and inserted words, and the shares of clips
    without a word heard and with any error. `lost`: clips to which the model gave no usable answer (see `unheard`)."""
    spoken = ~found.silent
    some, of = found.take(spoken), units[spoken]

    def figure(name: str, estimate: Estimate, pessimistic: Estimate | None = None) -> Figure:
        return Figure(
            name=name,
            slice=slice,
            estimate=estimate,
            pessimistic=pessimistic,
            higher_is_better=False,
            component=component,
        )

    worst = None
    if lost is not None and len(lost):
        both = joined(some, lost)
        worst = pooled_rate(both.errors, both.words, np.append(of, units.max(initial=0) + 1 + np.arange(len(lost))))
    return [
        figure("wer", pooled_rate(some.errors, some.words, of), worst),
        figure("mean_wer", pooled_rate(some.wer, np.ones(len(some)), of)),
        figure("cer", pooled_rate(some.character_errors, some.characters, of)),
        figure("substitution_rate", pooled_rate(some.substitutions, some.words, of)),
        figure("deletion_rate", pooled_rate(some.deletions, some.words, of)),
        figure("insertion_rate", pooled_rate(some.insertions, some.words, of)),
        figure("empty_rate", rate_of_rows(some.empty, of)),
        figure("sentence_error_rate", rate_of_rows(some.errors > 0, of)),
    ]


def rise_figures(
    case: WordErrors, clean: WordErrors, units: Units, slice: dict[str, Any], *, lost: WordErrors | None = None
) -> list[Figure]:
    """`clean_wer`, of the same clips untouched, and `wer_rise`, the pooled WER of the cases minus that; pairs (n,)."""
    spoken = ~clean.silent
    now, before, of = case.take(spoken), clean.take(spoken), units[spoken]
    worst = None
    if lost is not None and len(lost):
        both, base = joined(now, lost), joined(before, replace(lost, deletions=lost.deletions * 0, hits=lost.words))
        names = np.append(of, units.max(initial=0) + 1 + np.arange(len(lost)))
        worst = pooled_rise(both.errors, base.errors, both.words, names)
    clean_wer = Figure(
        name="clean_wer",
        slice=slice,
        estimate=pooled_rate(before.errors, before.words, of),
        higher_is_better=False,
        component=True,
    )
    rise = Figure(
        name="wer_rise",
        slice=slice,
        estimate=pooled_rise(now.errors, before.errors, now.words, of),
        pessimistic=worst,
        higher_is_better=False,
        component=True,
    )
    return [clean_wer, rise]


def unheard(found: WordErrors) -> WordErrors:
    """The same references, of which not a word was heard."""
    none = np.zeros(len(found), np.int64)
    return replace(
        found,
        hits=none,
        substitutions=none,
        deletions=found.words,
        insertions=none,
        character_errors=found.characters,
    )


def joined(first: WordErrors, second: WordErrors) -> WordErrors:
    """The pairs of both, one after the other."""
    parts = {item.name: np.append(getattr(first, item.name), getattr(second, item.name)) for item in fields(WordErrors)}
    return WordErrors(**parts)


def told(found: WordErrors, units: Units, confidence: float) -> Errors:
    """The errors of all clips as they stand in a report, with the bounds of the pooled rate."""
    spoken = ~found.silent
    bounds = pooled_rate(found.errors[spoken], found.words[spoken], units[spoken]).bounds(confidence) or (None, None)
    return found.pooled().model_copy(update={"low": bounds[0], "high": bounds[1]})

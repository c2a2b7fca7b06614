"""Robustness: does the answer stay when the input changes a little. The seed is the unit.

Both oracles: metamorphic (`pass_rate`: the answer on the case is the answer on the seed, over seeds that the model gets
right) and reference (`robust_accuracy`: right on the seed and on the case, over all seeds with a case). A model that
breaks its fragile seeds raises the first and lowers the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from aitest_lib.component import Component
from aitest_lib.scorers.figures import Figure
from aitest_lib.stats.clusters import clustered_rate
from aitest_lib.stats.estimates import Estimate
from aitest_lib.stats.intervals import paired_mean, wilson
from aitest_lib.stats.sequences import mean_sequence, rate_sequence

PASSED, FAILED, SKIPPED, ERROR = range(4)
OUTCOME_NAMES = ("passed", "failed", "skipped", "error")
MISCLASSIFIED = "misclassified_seed"
BUDGET = "budget"


@dataclass(frozen=True)
class Answered:
    """What is known of n inputs (n,): is there an answer, was it left out by the budget, else the error's reason."""

    known: NDArray[np.bool_]
    unpaid: NDArray[np.bool_]
    error: NDArray[np.object_]


@dataclass
class Tally:
    """One component over all seeds, by rank; every array is (seeds,) of bool.

    `effective`: the case and its seed are answered; `right_seed`, `right_case`: agreement with the label;
    `same`: the answer stayed; `error`: the model gave no usable answer to the case.
    """

    slice: dict[str, Any]
    effective: NDArray[np.bool_]
    right_seed: NDArray[np.bool_]
    right_case: NDArray[np.bool_]
    same: NDArray[np.bool_]
    error: NDArray[np.bool_]

    @classmethod
    def empty(cls, component_slice: dict[str, Any], seeds: int) -> Tally:
        """A tally in which nothing is counted yet."""
        return cls(component_slice, *(np.zeros(seeds, bool) for _ in range(5)))

    @property
    def trials(self) -> NDArray[np.bool_]:
        """Cases that pass or fail."""
        return self.effective & self.right_seed

    @property
    def failures(self) -> NDArray[np.bool_]:
        """Cases that fail."""
        return self.trials & ~self.same


@dataclass(frozen=True, kw_only=True)
class InvarianceScorer(Component):
    """Outcomes of cases, and the figures of robustness."""

    name: ClassVar[str] = "invariance"
    version: ClassVar[int] = 2
    sequential: bool = False

    def outcomes(
        self,
        skip: NDArray[np.object_],
        on_seed: Answered,
        on_case: Answered,
        right_seed: NDArray[np.bool_],
        same: NDArray[np.bool_],
    ) -> tuple[NDArray[np.int8], NDArray[np.object_]]:
        """Outcome code and reason of each case. `skip` holds why a case was never asked (None: it was).

        The first that applies: not asked, no usable answer on seed or case, budget, misclassified seed, passed or failed.
        """
        outcome = np.where(same, PASSED, FAILED).astype(np.int8)
        reason = np.full(len(skip), None, dtype=object)

        def put(where: NDArray[np.bool_], code: int, text: object) -> None:
            outcome[where] = code
            reason[where] = text if isinstance(text, str) else np.asarray(text, dtype=object)[where]

        put(~right_seed, SKIPPED, MISCLASSIFIED)
        put(~on_case.known, ERROR, on_case.error)
        put(on_case.unpaid, SKIPPED, BUDGET)
        put(~on_seed.known, ERROR, [why and f"on the untouched seed: {why}" for why in on_seed.error])
        put(on_seed.unpaid, SKIPPED, BUDGET)
        not_asked = np.array([text is not None for text in skip], dtype=bool)
        put(not_asked, SKIPPED, skip)
        return outcome, reason

    def figures(
        self,
        tallies: Sequence[Tally],
        self_flips: NDArray[np.float64] | None,
        labelled: bool,
        descent: NDArray[np.int64] | None = None,
    ) -> list[Figure]:
        """Per component and pooled (`slice` empty). `self_flips` (seeds,): the share of repeats in which the model
        changed its own answer on the untouched seed; None for a deterministic model. `descent` (seeds,): numbers of the real
        rows that synthesized seeds descend from; these are the units then."""
        if self_flips is not None and descent is not None:
            self_flips = np.bincount(descent, self_flips) / np.bincount(descent)
        figures = [figure for tally in tallies for figure in self._over([tally], tally.slice, self_flips, labelled, descent)]
        if not tallies:
            return []
        if len(tallies) > 1:
            return figures + self._over(tallies, {}, self_flips, labelled, descent)
        return figures + [replace(figure, slice={}, component=False) for figure in figures]

    def _over(
        self,
        tallies: Sequence[Tally],
        slice: dict[str, Any],
        self_flips: NDArray[np.float64] | None,
        labelled: bool,
        descent: NDArray[np.int64] | None,
    ) -> list[Figure]:
        """The figures of one component, or of several pooled; counts are per seed, or per row that seeds descend from."""
        count = partial(_count, descent=descent)
        trials, effective = count([tally.trials for tally in tallies]), count([tally.effective for tally in tallies])
        errors = count([tally.error for tally in tallies])
        kept = count([tally.trials & tally.same for tally in tallies])
        own = None if self_flips is None else _OwnFlips(self_flips, trials > 0)
        figures = [self._figure("pass_rate", kept, trials, errors, own)]
        if labelled:
            right = count([tally.effective & tally.right_case for tally in tallies])
            clean = count([tally.effective & tally.right_seed for tally in tallies])
            robust = count([tally.effective & tally.right_case & tally.right_seed for tally in tallies])
            lost = count([tally.effective & ~tally.right_case & tally.right_seed for tally in tallies])
            if own is not None:  # only a right answer can be lost
                own = replace(own, flips=own.flips * (count([tally.right_seed for tally in tallies]) > 0))
            figures += [
                self._figure("clean_accuracy", clean, effective, np.zeros_like(errors), None),
                self._figure("accuracy", right, effective, errors, None),
                self._figure("robust_accuracy", robust, effective, errors, None),
                self._figure("robust_accuracy_drop", lost, effective, errors, own, higher_is_better=False),
            ]
        return [replace(figure, slice=slice, component=len(tallies) == 1) for figure in figures]

    def _figure(
        self,
        name: str,
        hits: NDArray[np.int64],
        n: NDArray[np.int64],
        errors: NDArray[np.int64],
        own: _OwnFlips | None,
        *,
        higher_is_better: bool = True,
    ) -> Figure:
        """hits / n over all seeds; `own`: the gate looks at what is left of it when the model's own flips are taken off."""
        # An error counts as a failure: no hit of what is good, a hit of what is bad.
        worst_hits, worst_n = (hits if higher_is_better else hits + errors), n + errors
        judged = None
        pessimistic = self._rate(worst_hits, worst_n) if errors.any() else None
        if own is not None:
            sign, lower = (1, 0) if higher_is_better else (-1, -1)
            judged = self._mean(_share(hits, n, sign * own.flips), lower)
            pessimistic = self._mean(_share(worst_hits, worst_n, sign * own.flips), lower) if errors.any() else None
        return Figure(
            name=name,
            estimate=self._rate(hits, n),
            pessimistic=pessimistic,
            judged=judged,
            note=None if own is None else own.note,
            higher_is_better=higher_is_better,
        )

    def _rate(self, hits: NDArray[np.int64], n: NDArray[np.int64]) -> Estimate:
        """A rate over seeds: each at most once, or clustered."""
        if n.max(initial=0) <= 1:
            return (rate_sequence if self.sequential else wilson)(int(hits.sum()), int(n.sum()))
        return mean_sequence(_share(hits, n, np.zeros(len(n)))) if self.sequential else clustered_rate(hits, n)

    def _mean(self, values: NDArray[np.float64], lower: float) -> Estimate:
        """A mean of values in [lower, lower + 2], one a seed."""
        return mean_sequence(values, lower, lower + 2) if self.sequential else paired_mean(values)


@dataclass(frozen=True)
class _OwnFlips:
    """How often the model changed its own answer on each untouched seed (seeds,), and which seeds count."""

    flips: NDArray[np.float64]
    used: NDArray[np.bool_]

    @property
    def note(self) -> str:
        rate = self.flips[self.used].mean() if self.used.any() else 0
        return f"the model's own flip rate of {rate:.3f} is taken off"


def _count(masks: Sequence[NDArray[np.bool_]], descent: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """In how many of the masks (seeds,) each seed stands; by the row that seeds descend from, where `descent` says it."""
    counts = np.asarray(np.sum(masks, axis=0, dtype=np.int64))
    return counts if descent is None else np.bincount(descent, counts).astype(np.int64)


def _share(part: NDArray[np.int64], whole: NDArray[np.int64], plus: NDArray[np.float64]) -> NDArray[np.float64]:
    """part / whole + plus of each seed that has any."""
    used = whole > 0
    return np.asarray(part[used] / whole[used] + plus[used])

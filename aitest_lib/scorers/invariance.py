"""Robustness: does the answer stay when the input changes a little. The seed is the unit.

Both oracles: metamorphic (`pass_rate`: the answer on the case is the answer on the seed, over seeds that the model gets
right) and reference (`robust_accuracy`: right on the seed and on the case, over all seeds with a case). A model that
breaks its fragile seeds raises the first and lowers the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    version: ClassVar[int] = 1
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
        put(~on_seed.known, ERROR, on_seed.error)
        put(on_seed.unpaid, SKIPPED, BUDGET)
        not_asked = np.array([text is not None for text in skip], dtype=bool)
        put(not_asked, SKIPPED, skip)
        return outcome, reason

    def figures(self, tallies: Sequence[Tally], self_flips: NDArray[np.float64] | None, labelled: bool) -> list[Figure]:
        """Per component and pooled (`slice` empty). `self_flips` (seeds,): the share of repeats in which the model
        changed its own answer on the untouched seed; None for a deterministic model."""
        figures: list[Figure] = []
        for tally in tallies:
            figures += self._component(tally, self_flips, labelled)
        if len(tallies) > 1:
            figures += self._pooled(tallies, labelled)
        elif tallies:
            figures += [Figure(name=one.name, estimate=one.estimate, higher_is_better=one.higher_is_better) for one in figures]
        return figures

    def _component(self, tally: Tally, self_flips: NDArray[np.float64] | None, labelled: bool) -> list[Figure]:
        trials, effective = tally.trials, tally.effective
        kept = tally.same[trials]
        worse = int(tally.error.sum())
        judged = note = None
        if self_flips is not None:
            excess = (~kept).astype(float) - self_flips[trials]
            judged = self._one_minus(excess)
            note = f"the model's own flip rate of {self_flips[trials].mean() if trials.any() else 0:.3f} is taken off"
        figures = [
            Figure(
                name="pass_rate",
                slice=tally.slice,
                estimate=self._rate(int(kept.sum()), len(kept)),
                pessimistic=wilson(int(kept.sum()), len(kept) + worse) if worse else None,
                judged=judged,
                note=note,
                component=True,
            )
        ]
        if not labelled:
            return figures
        right, robust = tally.right_case[effective], (tally.right_seed & tally.right_case)[effective]
        lost = (tally.right_seed & ~tally.right_case)[effective]
        n = len(right)
        drop = self._rate(int(lost.sum()), n)
        for name, hits, better in (("accuracy", right, True), ("robust_accuracy", robust, True)):
            figures.append(
                Figure(
                    name=name,
                    slice=tally.slice,
                    estimate=self._rate(int(hits.sum()), n),
                    pessimistic=wilson(int(hits.sum()), n + worse) if worse else None,
                    higher_is_better=better,
                    component=True,
                )
            )
        figures.append(
            Figure(
                name="robust_accuracy_drop",
                slice=tally.slice,
                estimate=drop,
                pessimistic=wilson(int(lost.sum()) + worse, n + worse) if worse else None,
                judged=None
                if self_flips is None
                else self._excess(lost.astype(float) - (self_flips * tally.right_seed)[effective]),
                note=note,
                higher_is_better=False,
                component=True,
            )
        )
        return figures

    def _pooled(self, tallies: Sequence[Tally], labelled: bool) -> list[Figure]:
        trials = np.sum([tally.trials for tally in tallies], axis=0)
        kept = np.sum([tally.trials & tally.same for tally in tallies], axis=0)
        figures = [Figure(name="pass_rate", estimate=self._clustered(kept, trials))]
        if labelled:
            effective = np.sum([tally.effective for tally in tallies], axis=0)
            right = np.sum([tally.effective & tally.right_case for tally in tallies], axis=0)
            robust = np.sum([tally.effective & tally.right_seed & tally.right_case for tally in tallies], axis=0)
            lost = np.sum([tally.effective & tally.right_seed & ~tally.right_case for tally in tallies], axis=0)
            figures += [
                Figure(name="accuracy", estimate=self._clustered(right, effective)),
                Figure(name="robust_accuracy", estimate=self._clustered(robust, effective)),
                Figure(name="robust_accuracy_drop", estimate=self._clustered(lost, effective), higher_is_better=False),
            ]
        return figures

    def _rate(self, hits: int, n: int) -> Estimate:
        return rate_sequence(hits, n) if self.sequential else wilson(hits, n)

    def _clustered(self, hits: NDArray[np.int64], trials: NDArray[np.int64]) -> Estimate:
        if not self.sequential:
            return clustered_rate(hits, trials)
        used = trials > 0
        return mean_sequence(hits[used] / trials[used])

    def _excess(self, values: NDArray[np.float64]) -> Estimate:
        return mean_sequence(values, lower=-1) if self.sequential else paired_mean(values)

    def _one_minus(self, excess: NDArray[np.float64]) -> Estimate:
        return mean_sequence(1 - excess, lower=0, upper=2) if self.sequential else paired_mean(1 - excess)

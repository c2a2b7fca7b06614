"""Slices that fail more than the rest: one test a slice on seeds, Benjamini-Hochberg over all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from aitest_lib.reports.explain import CHANGED_BY
from aitest_lib.reports.report import SliceFinding
from aitest_lib.stats.clusters import clustered_rate
from aitest_lib.stats.estimates import Estimate
from aitest_lib.stats.intervals import newcombe, rate_difference
from aitest_lib.stats.multiple import benjamini_hochberg

MIN_SEEDS = 30
FALSE_DISCOVERY_RATE = 0.05


@dataclass
class SliceColumn:
    """One column cut into slices: `codes` (seeds,) index `names`."""

    name: str
    names: list[str]
    codes: NDArray[np.int32]


def rank_slices(
    columns: list[SliceColumn], counted: NDArray[np.bool_], failing: NDArray[np.bool_], confidence: float
) -> list[SliceFinding]:
    """Every slice with at least 30 counted seeds, those that fail more than the rest first.

    `counted` (seeds,): the seed has a case that passed or failed; `failing`: at least one of them failed. Fisher's exact
    test, one-sided (Fisher 1922, scipy's hypergeometric), q-values by Benjamini and Hochberg (1995); differences with
    Newcombe's interval.
    """
    from scipy.stats import hypergeom

    total, total_failing = int(counted.sum()), int((failing & counted).sum())
    rows = []
    for column in columns:
        seeds = np.bincount(column.codes[counted], minlength=len(column.names))
        bad = np.bincount(column.codes[counted & failing], minlength=len(column.names))
        for name, n, k in zip(column.names, seeds.tolist(), bad.tolist(), strict=True):
            if n >= MIN_SEEDS and total - n >= MIN_SEEDS:
                # A sum of probabilities, which rounding can push past 1.
                p = min(float(hypergeom.sf(k - 1, total, total_failing, n)), 1.0)
                rows.append((column.name, name, n, k, p))
    findings = []
    for (column_name, name, n, k, _), q in zip(rows, _q_values(rows), strict=True):
        rest, rest_bad = total - n, total_failing - k
        estimate = newcombe(k, n, rest_bad, rest)
        findings.append(_finding((column_name, name, n, k), (k / n, rest_bad / rest), estimate, q, confidence, "seeds"))
    return sorted(findings, key=slice_order)


def rank_case_slices(
    columns: list[SliceColumn], cases: NDArray[np.int64], failing: NDArray[np.int64], confidence: float
) -> list[SliceFinding]:
    """The same by the share of failing cases, for so many cases a seed that nearly every seed fails in one of them.

    `cases`, `failing` (seeds,): cases of a seed that passed or failed, and those that failed. Differences of pooled rates
    with the hybrid score interval of Newcombe (1998) on effective numbers of trials, clustered by seed; the one-sided
    p-value inverts that interval.
    """
    counted = cases > 0
    rows, found = [], []
    for column in columns:
        for code, name in enumerate(column.names):
            inside, outside = counted & (column.codes == code), counted & (column.codes != code)
            if min(inside.sum(), outside.sum()) < MIN_SEEDS:
                continue
            here, rest = (clustered_rate(failing[part], cases[part]) for part in (inside, outside))
            more = rate_difference(here, rest)
            rows.append((column.name, name, int(inside.sum()), int((failing[inside] > 0).sum()), more.p_above(0.0)))
            found.append((float(here.value or 0), float(rest.value or 0), more))
    findings = []
    for (column_name, name, n, k, _), (here_rate, rest_rate, more), q in zip(rows, found, _q_values(rows), strict=True):
        findings.append(_finding((column_name, name, n, k), (here_rate, rest_rate), more, q, confidence, "cases"))
    return sorted(findings, key=slice_order)


def _q_values(rows: list[tuple[str, str, int, int, float]]) -> list[float]:
    return [float(q) for q in benjamini_hochberg(np.array([row[4] for row in rows]))] if rows else []


def _finding(
    cut: tuple[str, str, int, int],
    rates: tuple[float, float],
    estimate: Estimate,
    q: float,
    confidence: float,
    share_of: Literal["seeds", "cases"],
) -> SliceFinding:
    name, value, seeds, failing = cut
    low, high = estimate.bounds(confidence) or (0.0, 0.0)
    return SliceFinding(
        name=name,
        value=value,
        seeds=seeds,
        failing=failing,
        rate=rates[0],
        rest_rate=rates[1],
        difference=rates[0] - rates[1],
        low=low,
        high=high,
        q_value=q,
        flagged=q <= FALSE_DISCOVERY_RATE and rates[0] > rates[1],
        share_of=share_of,
    )


def slice_order(finding: SliceFinding) -> tuple[bool, float, str, str]:
    """Sort key: flagged slices first, then by how much more they fail."""
    return (not finding.flagged, -finding.difference, finding.name, finding.value)


def rank_changes(
    name: str, changed: dict[str, NDArray[np.bool_]], counted: NDArray[np.bool_], failing: NDArray[np.bool_], confidence: float
) -> list[SliceFinding]:
    """Which changed column goes with failures, within one component: the seeds in whose case the transform changed it
    against those in which it did not. `changed`: column -> (seeds,)."""
    columns = [SliceColumn(column, ["no", "yes"], mask.astype(np.int32)) for column, mask in sorted(changed.items())]
    found = [item for item in rank_slices(columns, counted, failing, confidence) if item.value == "yes" and item.flagged]
    return [item.model_copy(update={"name": f"{CHANGED_BY}{name}", "value": item.name}) for item in found]

"""How real synthesized rows look: can a classifier tell them from real ones, what do they break, how do columns differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.data.rules import parse_rule
from aitest_lib.data.schema import Profile
from aitest_lib.data.units import canonical_order, taken
from aitest_lib.errors import InputError
from aitest_lib.metrics.scores import roc_auc
from aitest_lib.rng import rng_for
from aitest_lib.stats.estimates import Estimate, undefined

MOST_ROWS = 5_000  # of either kind, looked at by the classifier
FOLDS = 5
LEAST_ROWS = 20  # of either kind
STRANGE = 0.01  # share of the real rows that count as outliers


def two_sample_auc(
    real: pd.DataFrame, synthesized: pd.DataFrame, base: NDArray[np.int64], profile: Profile, random_seed: int
) -> Estimate:
    """Area under the ROC curve with which boosted trees tell synthesized rows from real ones: 0.5 not at all, 1 always.

    Classifier two-sample test (Lopez-Paz & Oquab 2017) with up to 5,000 rows of each, scores from 5-fold cross-validation; a
    real row and those that descend from it (`base`: its position in `real`) are in one fold, so that nobody is known by
    his twin. Private and ignored columns and those that the profile does not know are left out. Interval: see `roc_auc`.
    Undefined below 20 rows of either kind.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import StratifiedGroupKFold
    from threadpoolctl import threadpool_limits

    if len(synthesized) != len(base):
        raise InputError(f"got {len(base)} base rows, expected one for each of {len(synthesized)} synthesized rows")
    names = [column.name for column in profile.columns if column.name in real and not column.private and not column.ignored]
    if min(len(real), len(synthesized)) < LEAST_ROWS:
        return undefined(f"fewer than {LEAST_ROWS} rows to compare", min(len(real), len(synthesized)))
    order = canonical_order(real, profile)
    kept = order[_some(len(real), random_seed, "real")]
    made = _some(len(synthesized), random_seed, "synthesized")
    both = pd.concat([taken(real[names], kept), taken(synthesized[names], made)], ignore_index=True)
    features = pd.DataFrame({name: _numbers(both[name], profile[name].numeric) for name in names})
    labels = np.repeat([0, 1], [len(kept), len(made)])
    place = np.empty(len(real), np.int64)
    place[order] = np.arange(len(real))  # groups by place in the canonical order: the folds must not hang on the file's
    groups = place[np.concatenate([kept, base[made]])]
    scores = np.zeros(len(labels))
    folds = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=0)
    with threadpool_limits(1):  # on so few rows more threads cost more than they bring
        for train, test in folds.split(features, labels, groups):
            model = HistGradientBoostingClassifier(max_iter=60, early_stopping=False, random_state=0)
            model.fit(features.iloc[train], labels[train])
            scores[test] = model.predict_proba(features.iloc[test])[:, 1]
    return roc_auc(labels, np.column_stack([1 - scores, scores]), ["real", "synthesized"])


def looks_real(real: pd.DataFrame, rows: pd.DataFrame, profile: Profile, random_seed: int) -> NDArray[np.bool_]:
    """Which of `rows` (m,) are no more outlying than all but 1 % of the real rows are.

    By an isolation forest (Liu, Ting & Zhou 2008, Isolation Forest) of up to 5,000 real rows, at least one, the same ones
    whatever their order. A category counts as how frequent it is, so that rare values lie at an end; a missing number as one
    below all others. Private and ignored columns and those that the profile does not know are left out. A row that passes
    may still be one that cannot be: a husband who is a woman differs from real rows in one value.
    """
    from sklearn.ensemble import IsolationForest

    names = [column.name for column in profile.columns if column.name in real and not column.private and not column.ignored]
    if not len(rows) or not names:
        return np.ones(len(rows), bool)
    kept = canonical_order(real, profile)[_some(len(real), random_seed, "outliers")]
    sample = taken(real[names], kept)
    known, asked = (
        np.column_stack([_frequencies(sample[name], frame[name], profile[name].numeric) for name in names])
        for frame in (sample, rows)
    )
    seed = int(rng_for(random_seed, "realism@1", "forest").integers(2**31))
    forest = IsolationForest(random_state=seed).fit(known)
    least = np.quantile(forest.score_samples(known), STRANGE)
    return np.asarray(forest.score_samples(asked) >= least)


def rule_violations(frame: pd.DataFrame, rules: Iterable[str]) -> int:
    """Number of rows that break at least one rule; rules about columns that `frame` lacks are not counted."""
    broken = np.zeros(len(frame), bool)
    for text in rules:
        rule = parse_rule(text, columns=None)
        if rule.columns <= set(frame.columns):
            broken |= ~rule.holds(frame)
    return int(broken.sum())


def tied_violations(frame: pd.DataFrame, real: pd.DataFrame, groups: Iterable[Sequence[str]]) -> int:
    """Number of rows in which some group of tied columns has a combination that no real row has; groups with a column that
    `frame` lacks are not counted."""
    broken = np.zeros(len(frame), bool)
    for group in groups:
        names = list(group)
        if set(names) <= set(frame.columns):
            found = frame[names].merge(real[names].drop_duplicates(), how="left", indicator=True)
            broken |= found["_merge"].eq("left_only").to_numpy()
    return int(broken.sum())


def column_shifts(real: pd.DataFrame, synthesized: pd.DataFrame, profile: Profile) -> dict[str, float]:
    """How far each column is from the real one, from 0 to 1: the Kolmogorov-Smirnov statistic of numbers and times (missing
    values count as one value, the largest), the total variation distance of everything else. Fixed columns are left out."""
    names = [column.name for column in profile.columns if column.name in real and not column.fixed]
    return {
        name: _shift(real[name], synthesized[name], profile[name].numeric or profile[name].kind == "datetime") for name in names
    }


def _shift(real: pd.Series[Any], synthesized: pd.Series[Any], ordered: bool) -> float:
    codes = pd.factorize(pd.concat([real, synthesized], ignore_index=True), sort=ordered, use_na_sentinel=True)[0]
    codes = np.where(codes < 0, codes.max() + 1, codes)
    counts = [np.bincount(part, minlength=codes.max() + 1) for part in (codes[: len(real)], codes[len(real) :])]
    gap = counts[0] / len(real) - counts[1] / len(synthesized)
    return float(np.abs(np.cumsum(gap)).max() if ordered else np.abs(gap).sum() / 2)


def _frequencies(real: pd.Series[Any], values: pd.Series[Any], numeric: bool) -> NDArray[np.float64]:
    """Numbers as they are, missing ones below the least; of everything else the share of real rows with that value."""
    if numeric:
        known, found = (part.to_numpy(float, na_value=np.nan) for part in (real, values))
        least = np.nanmin(known) if not np.isnan(known).all() else 0.0
        return np.where(np.isnan(found), least - max(1.0, float(np.nanstd(known))), found)
    shares = real.value_counts(normalize=True, dropna=False)
    places = shares.index.get_indexer(pd.Index(values))
    return np.where(places >= 0, shares.to_numpy()[places], 0.0)


def _some(rows: int, random_seed: int, which: str) -> NDArray[np.int64]:
    """Positions of at most 5,000 rows."""
    return rng_for(random_seed, "realism@1", which).permutation(rows)[:MOST_ROWS]


def _numbers(values: pd.Series[Any], numeric: bool) -> NDArray[np.float64]:
    """Numbers as they are; everything else by its place among the sorted values, missing values as NaN."""
    if numeric:
        return values.to_numpy(float, na_value=np.nan)
    codes = pd.factorize(values, sort=True)[0].astype(float)
    codes[codes < 0] = np.nan
    return codes

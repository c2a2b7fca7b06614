"""Group fairness: every figure is that of fairlearn and of AIF360, where those are defined."""

from __future__ import annotations

import logging
import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from aitest_lib.data.groups import Groups, crossed, group_codes
from aitest_lib.data.schema import Column
from aitest_lib.scorers.figures import Figure
from aitest_lib.scorers.group_fairness import attribute_figures

SHARED = Path(os.environ.get("AITEST_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
RATES = ("selection_rate", "true_positive_rate", "false_positive_rate", "precision", "accuracy")
EXACT = {"rel": 1e-12, "abs": 1e-12}


def made_up(draw: int) -> tuple[Groups, np.ndarray, np.ndarray]:
    """Two to eight uneven groups with uneven rates; every group has rows of every kind."""
    rng = np.random.default_rng(draw)
    k = int(rng.integers(2, 9))
    names = [f"group {place}" for place in range(k)]
    codes = np.concatenate([np.repeat(np.arange(k), 4), rng.choice(k, 400 + 40 * k, p=rng.dirichlet(np.full(k, 2.0)))])
    labels = np.concatenate([np.tile([True, True, False, False], k), rng.random(400 + 40 * k) < 0.4])
    chance = rng.uniform(0.1, 0.9, k)[codes] * np.where(labels, 1.0, 0.5)
    answers = rng.random(len(codes)) < chance
    answers[: 4 * k] = np.tile([True, False, True, False], k)
    return Groups(codes=codes, names=names, parts=[(name,) for name in names]), answers, labels


def adult() -> tuple[dict[str, Groups], np.ndarray, np.ndarray]:
    """Census income with answers that err more often in some groups than in others."""
    frame = pd.read_parquet(SHARED / "adult.parquet")
    groups = {
        name: group_codes(pa.chunked_array([pa.array(frame[name])]), Column(name=name, kind="category"))
        for name in ("sex", "race")
    }
    both = crossed(groups["sex"], groups["race"], "sex × race")
    groups["sex × race"] = replace(both, parts=[(name,) for name in both.names])  # as if it were one column
    labels = frame["income"].astype(str).str.contains(">50K").to_numpy()
    rng = np.random.default_rng(0)
    wrong = rng.random(len(frame)) < np.array([0.05, 0.2])[groups["sex"].codes]
    return groups, labels ^ wrong, labels


def component(figures: list[Figure], name: str) -> float:
    [found] = [one for one in figures if one.name == name and one.component]
    assert found.estimate.value is not None
    return found.estimate.value


def by_group(figures: list[Figure], name: str, attribute: str) -> dict[str, float | None]:
    return {one.slice[attribute]: one.estimate.value for one in figures if one.name == name and not one.component}


def check_fairlearn(groups: Groups, answers: np.ndarray, labels: np.ndarray) -> None:
    from fairlearn import metrics as peer
    from sklearn.metrics import accuracy_score, precision_score

    _, figures = attribute_figures("a", ["a"], groups, answers, labels, confidence=0.95)
    sensitive = np.array(groups.names)[groups.codes]
    frame = peer.MetricFrame(
        metrics={
            "selection_rate": peer.selection_rate,
            "true_positive_rate": peer.true_positive_rate,
            "false_positive_rate": peer.false_positive_rate,
            "precision": precision_score,
            "accuracy": accuracy_score,
        },
        y_true=labels,
        y_pred=answers,
        sensitive_features=sensitive,
    )
    for rate in RATES:
        assert by_group(figures, rate, "a") == pytest.approx(frame.by_group[rate].to_dict(), **EXACT)
    given = {"y_true": labels, "y_pred": answers, "sensitive_features": sensitive}
    wanted = {
        "impact_ratio": peer.demographic_parity_ratio(**given),
        "statistical_parity_gap": peer.demographic_parity_difference(**given),
        "equal_opportunity_gap": peer.equal_opportunity_difference(**given),
        "equalized_odds_gap": peer.equalized_odds_difference(**given),
        "predictive_parity_gap": frame.difference()["precision"],
    }
    assert {name: component(figures, name) for name in wanted} == pytest.approx(wanted, **EXACT)


def check_aif360(groups: Groups, answers: np.ndarray, labels: np.ndarray) -> None:
    logging.disable(logging.WARNING)  # it warns of extras that are not installed
    try:
        from aif360.datasets import BinaryLabelDataset
        from aif360.metrics import ClassificationMetric
    finally:
        logging.disable(logging.NOTSET)

    attribute, figures = attribute_figures("a", ["a"], groups, answers, labels, confidence=0.95)
    frame = pd.DataFrame({"a": groups.codes.astype(float), "label": labels.astype(float)})
    truth = BinaryLabelDataset(df=frame, label_names=["label"], protected_attribute_names=["a"])
    given = truth.copy()
    given.labels = answers.astype(float).reshape(-1, 1)
    base = groups.names.index(attribute.reference or "")
    for group, name in enumerate(groups.names):
        if group == base:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer = ClassificationMetric(truth, given, unprivileged_groups=[{"a": group}], privileged_groups=[{"a": base}])
            wanted = {
                "impact_ratio": peer.disparate_impact(),
                "statistical_parity_difference": peer.statistical_parity_difference(),
                "equal_opportunity_difference": peer.equal_opportunity_difference(),
                "average_odds_difference": peer.average_odds_difference(),
                "predictive_parity_difference": peer.difference(peer.positive_predictive_value),
            }
        found = {figure: by_group(figures, figure, "a")[name] for figure in wanted}
        assert found == pytest.approx(wanted, **EXACT)
        [record] = [one for one in attribute.groups if one.name == name]
        assert record.impact_ratio == found["impact_ratio"] and record.average_odds == found["average_odds_difference"]
        gaps = {one.name: one.gap for one in record.figures}
        assert gaps["selection_rate"] == found["statistical_parity_difference"]
        assert gaps["true_positive_rate"] == found["equal_opportunity_difference"]
        assert gaps["false_positive_rate"] == pytest.approx(peer.false_positive_rate_difference(), **EXACT)
        assert gaps["precision"] == found["predictive_parity_difference"]
        assert gaps["accuracy"] == pytest.approx(peer.accuracy(False) - peer.accuracy(True), **EXACT)


@pytest.mark.parametrize("draw", range(30))
def test_figures_are_those_of_fairlearn(draw):
    check_fairlearn(*made_up(draw))


@pytest.mark.parametrize("draw", range(30))
def test_figures_are_those_of_aif360(draw):
    check_aif360(*made_up(draw))


@pytest.mark.parametrize("draw", range(10))
def test_a_pooled_reference_is_a_privileged_set_of_aif360(draw):
    logging.disable(logging.WARNING)
    try:
        from aif360.datasets import BinaryLabelDataset
        from aif360.metrics import ClassificationMetric
    finally:
        logging.disable(logging.NOTSET)

    groups, answers, labels = made_up(draw)
    pooled = groups.names[:2] if len(groups.names) > 2 else groups.names[:1]
    attribute, figures = attribute_figures("a", ["a"], groups, answers, labels, confidence=0.95, reference=pooled)
    assert attribute.reference == ", ".join(pooled) and attribute.declared
    frame = pd.DataFrame({"a": groups.codes.astype(float), "label": labels.astype(float)})
    truth = BinaryLabelDataset(df=frame, label_names=["label"], protected_attribute_names=["a"])
    given = truth.copy()
    given.labels = answers.astype(float).reshape(-1, 1)
    last = len(groups.names) - 1
    privileged = [{"a": groups.names.index(name)} for name in pooled]
    peer = ClassificationMetric(truth, given, unprivileged_groups=[{"a": last}], privileged_groups=privileged)
    wanted = {
        "impact_ratio": peer.disparate_impact(),
        "average_odds_difference": peer.average_odds_difference(),
        "equal_opportunity_difference": peer.equal_opportunity_difference(),
    }
    assert {name: by_group(figures, name, "a")[groups.names[last]] for name in wanted} == pytest.approx(wanted, **EXACT)


@pytest.mark.parametrize("draw", range(10))
def test_the_average_odds_gap_is_the_spread_of_the_groups(draw):
    groups, answers, labels = made_up(draw)
    _, figures = attribute_figures("a", ["a"], groups, answers, labels, confidence=0.95)
    rates = [by_group(figures, rate, "a") for rate in ("true_positive_rate", "false_positive_rate")]
    means = [((rates[0][name] or 0.0) + (rates[1][name] or 0.0)) / 2 for name in groups.names]
    assert component(figures, "average_odds_gap") == pytest.approx(max(means) - min(means), **EXACT)


@pytest.mark.shared
@pytest.mark.skipif(not (SHARED / "adult.parquet").exists(), reason=f"{SHARED / 'adult.parquet'} is not there")
@pytest.mark.parametrize("name", ["sex", "race", "sex × race"])
def test_figures_of_census_income_are_those_of_both(name):
    groups, answers, labels = adult()
    check_fairlearn(groups[name], answers, labels)
    check_aif360(groups[name], answers, labels)

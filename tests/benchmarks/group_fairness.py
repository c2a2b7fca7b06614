"""What group fairness costs: aitest with intervals, tests and pairs, beside fairlearn and AIF360, on census income."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa
from trees_models import SHARED

from aitest_lib.data.groups import Groups, crossed, group_codes
from aitest_lib.data.schema import Column
from aitest_lib.reports.segments import rank_segments
from aitest_lib.reports.slices import SliceColumn
from aitest_lib.rng import rng_for
from aitest_lib.scorers.group_fairness import attribute_figures

ROWS = 45_000
RESAMPLES = 100
ROUNDS = 3
SEX, RACE = "sex", "race"


def group_fairness() -> None:
    """The table: CPU seconds, the best of three rounds (of one where resamples are drawn)."""
    frame, answers, labels = _census()
    ours = _least(lambda: _ours(frame, answers, labels))
    timed = [
        ("aitest: figures, intervals, pairs", ours),
        ("aitest: segments", _segments(frame, answers, labels)),
        ("fairlearn: rates alone", _least(lambda: _fairlearn(frame, answers, labels, None))),
        (f"fairlearn: {RESAMPLES} resamples", _least(lambda: _fairlearn(frame, answers, labels, RESAMPLES), 1)),
        ("AIF360: the same contrasts alone", _least(lambda: _aif360(frame, answers, labels))),
    ]
    print(f"{f'{len(frame):,} rows, sex, race, both':<36}{'CPU s':>10}{'x aitest':>10}")
    for name, seconds in timed:
        print(f"{name:<36}{seconds:>10.3f}{seconds / ours:>10.2f}", flush=True)
    print()


def _census() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Columns as categories, answers that err in a tenth of the rows, and labels; made up where there is no data."""
    rng = rng_for(0, "group_fairness@1", "answers")
    if (SHARED / "adult.parquet").exists():
        frame = pd.read_parquet(SHARED / "adult.parquet").iloc[:ROWS]
        labels = frame.pop("income").astype(str).str.contains(">50K").to_numpy()
    else:
        shares = {SEX: [0.33, 0.67], RACE: [0.86, 0.09, 0.03, 0.01, 0.01], **{f"column {n}": [0.1] * 10 for n in range(10)}}
        frame = pd.DataFrame(
            {name: rng.choice([f"{name} {n}" for n in range(len(p))], ROWS, p=p) for name, p in shares.items()}
        )
        labels = rng.random(ROWS) < 0.25
    few = {name: pd.qcut(values, 4, duplicates="drop") if values.nunique() > 50 else values for name, values in frame.items()}
    return pd.DataFrame(few).astype(str), labels ^ (rng.random(len(frame)) < 0.1), labels


def _least(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def _groups(frame: pd.DataFrame) -> dict[str, tuple[list[str], Groups]]:
    sex, race = (
        group_codes(pa.chunked_array([pa.array(frame[name])]), Column(name=name, kind="category")) for name in (SEX, RACE)
    )
    both = "sex × race"
    return {SEX: ([SEX], sex), RACE: ([RACE], race), both: ([SEX, RACE], crossed(sex, race, both))}


def _ours(frame: pd.DataFrame, answers: np.ndarray, labels: np.ndarray) -> None:
    for name, (columns, groups) in _groups(frame).items():
        _, figures = attribute_figures(name, columns, groups, answers, labels, confidence=0.95)
        for figure in figures:
            figure.metric(0.95)


def _segments(frame: pd.DataFrame, answers: np.ndarray, labels: np.ndarray) -> float:
    columns = []
    for name in frame:
        names, codes = np.unique(frame[name], return_inverse=True)
        columns.append(SliceColumn(str(name), names.tolist(), codes.astype(np.int32)))
    cuts = []
    for name, (own, groups) in _groups(frame).items():
        if len(own) == 1:
            cuts.append((attribute_figures(name, own, groups, answers, labels, confidence=0.95)[0], groups))
    return _least(lambda: rank_segments(cuts, answers, columns, 0.95))


def _fairlearn(frame: pd.DataFrame, answers: np.ndarray, labels: np.ndarray, resamples: int | None) -> None:
    from fairlearn import metrics as peer
    from sklearn.metrics import accuracy_score, precision_score

    more = {} if resamples is None else {"n_boot": resamples, "ci_quantiles": [0.05, 0.95], "random_state": 0}
    for columns in ([SEX], [RACE], [SEX, RACE]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of groups without a favourable answer
            found = peer.MetricFrame(
                metrics={
                    "selection_rate": peer.selection_rate,
                    "true_positive_rate": peer.true_positive_rate,
                    "false_positive_rate": peer.false_positive_rate,
                    "precision": precision_score,
                    "accuracy": accuracy_score,
                },
                y_true=labels,
                y_pred=answers,
                sensitive_features=frame[columns],
                **more,
            )
            _ = found.by_group, found.difference(), found.ratio()


def _aif360(frame: pd.DataFrame, answers: np.ndarray, labels: np.ndarray) -> None:
    logging.disable(logging.WARNING)  # it warns of extras that are not installed
    from aif360.datasets import BinaryLabelDataset
    from aif360.metrics import ClassificationMetric

    logging.disable(logging.NOTSET)
    for groups in (groups for _, groups in _groups(frame).values()):
        numbers = pd.DataFrame({"group": groups.codes.astype(float), "label": labels.astype(float)})
        truth = BinaryLabelDataset(df=numbers, label_names=["label"], protected_attribute_names=["group"])
        given = truth.copy()
        given.labels = answers.astype(float).reshape(-1, 1)
        rates = [answers[groups.codes == place].mean() for place in range(len(groups.names))]
        base = int(np.argmax(rates))
        for place in range(len(groups.names)):
            if place != base:
                sides = {"unprivileged_groups": [{"group": place}], "privileged_groups": [{"group": base}]}
                found = ClassificationMetric(truth, given, **sides)
                found.disparate_impact()
                found.statistical_parity_difference()
                found.equal_opportunity_difference()
                found.average_odds_difference()
                found.difference(found.positive_predictive_value)
                found.difference(found.accuracy)

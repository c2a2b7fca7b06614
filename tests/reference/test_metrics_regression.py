"""Regression metrics against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as reference

from aitest_lib.errors import InputError
from aitest_lib.metrics.regression import r_squared, regression_metrics, rmse


def test_everything_is_scikit_learns() -> None:
    rng = np.random.default_rng(1)
    truth = rng.gamma(2, 30_000, 400) + 1e6
    answers = truth + rng.normal(0, 20_000, 400)
    rows = regression_metrics(truth, answers)
    found = {name: figure for name, _, figure, _ in rows}
    assert found["rmse"].value == pytest.approx(reference.root_mean_squared_error(truth, answers))
    assert found["mae"].value == pytest.approx(reference.mean_absolute_error(truth, answers))
    assert found["r2"].value == pytest.approx(reference.r2_score(truth, answers))
    assert {name: higher for name, _, _, higher in rows} == {"rmse": False, "mae": False, "r2": True}
    for figure in found.values():
        limits = figure.bounds(0.95)
        assert limits is not None and figure.value is not None
        assert limits[0] < figure.value < limits[1]


@pytest.mark.parametrize("n", [30, 200])
def test_coverage_for_normal_errors(n: int) -> None:
    rng = np.random.default_rng(2)
    held = []
    for _ in range(1000):
        low, high = rmse(rng.normal(0, 2, n)).bounds(0.975) or (0.0, 0.0)
        held.append(low <= 2 <= high)
    assert 0.92 <= np.mean(held) <= 0.98


@pytest.mark.parametrize("n", [30, 200])
def test_coverage_of_r_squared(n: int) -> None:
    rng = np.random.default_rng(3)
    held = []
    for _ in range(1000):
        signal = rng.normal(size=n)
        low, high = r_squared(signal + rng.normal(0, 0.5, n), signal).bounds(0.975) or (0.0, 0.0)
        held.append(low <= 0.8 <= high)
    assert np.mean(held) >= 0.91


def test_undefined_stays_undefined() -> None:
    constant = {name: figure for name, _, figure, _ in regression_metrics(np.full(5, 3.0), np.arange(5.0))}
    assert constant["r2"].reason == "all labels are equal"
    assert constant["rmse"].value is not None
    assert all(figure.value is None and figure.reason for _, _, figure, _ in regression_metrics(np.empty(0), np.empty(0)))
    single = {name: figure for name, _, figure, _ in regression_metrics(np.ones(1), np.zeros(1))}
    assert single["rmse"].value == 1.0 and single["rmse"].bounds(0.95) is None
    assert single["r2"].value is None


def test_exact_answers() -> None:
    values = np.arange(10.0)
    found = {name: figure for name, _, figure, _ in regression_metrics(values, values)}
    assert found["rmse"].bounds(0.95) == (0.0, 0.0)
    assert found["r2"].value == 1.0
    assert rmse(np.array([0.0, 5.0])).p_below(1e9) < 0.5  # two values, a t of one degree of freedom: no overflow


def test_bad_input_is_one_clear_message() -> None:
    with pytest.raises(InputError, match="expected"):
        regression_metrics(np.ones(2), np.ones(3))
    with pytest.raises(InputError, match="finite"):
        regression_metrics(np.array([1.0, np.inf]), np.ones(2))

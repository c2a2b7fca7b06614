"""Classification metrics against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import metrics as reference

from aitest_lib.errors import InputError
from aitest_lib.metrics.classification import classification_metrics, confusion
from aitest_lib.metrics.scores import calibration_error, log_loss, roc_auc
from aitest_lib.stats.estimates import Estimate


def sample(n: int, k: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], list[str]]:
    """Labels, answers, scores (with ties) and class names."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(k, n, p=rng.dirichlet(np.full(k, 5.0)))
    raw = rng.normal(size=(n, k)) + 1.5 * np.eye(k)[labels]
    scores = np.round(np.exp(raw) / np.exp(raw).sum(1, keepdims=True), 2) + 0.01
    scores /= scores.sum(1, keepdims=True)
    return labels, scores.argmax(1), scores, [f"class {c}" for c in range(k)]


def by_name(rows: list[tuple[str, dict[str, str], Estimate, bool | None]]) -> dict[tuple[str, str | None], Estimate]:
    return {(name, part.get("class")): figure for name, part, figure, _ in rows}


@pytest.mark.parametrize(("n", "k"), [(200, 2), (1000, 2), (300, 3), (2000, 7)])
def test_everything_is_scikit_learns(n: int, k: int) -> None:
    labels, answers, scores, classes = sample(n, k, seed=n + k)
    counts = confusion(labels, answers, k)
    assert (counts == reference.confusion_matrix(labels, answers, labels=range(k))).all()
    found = by_name(classification_metrics(counts, classes, labels, scores, seed=1))
    precision, recall, f1, _ = reference.precision_recall_fscore_support(labels, answers, labels=range(k))
    expected = {
        ("accuracy", None): reference.accuracy_score(labels, answers),
        ("balanced_accuracy", None): reference.balanced_accuracy_score(labels, answers),
        ("macro_precision", None): precision.mean(),
        ("macro_recall", None): recall.mean(),
        ("macro_f1", None): reference.f1_score(labels, answers, average="macro"),
        ("log_loss", None): reference.log_loss(labels, scores),
        ("roc_auc", None): (
            reference.roc_auc_score(labels, scores[:, 1])
            if k == 2
            else reference.roc_auc_score(labels, scores, multi_class="ovr", average="macro")
        ),
        **{
            (name, classes[c]): values[c]
            for c in range(k)
            for name, values in (("precision", precision), ("recall", recall), ("f1", f1))
        },
    }
    for key, value in expected.items():
        assert found[key].value == pytest.approx(value, abs=1e-12), key
    assert set(found) == {*expected, ("calibration_error", None)}
    for key, figure in found.items():
        limits = figure.bounds(0.95)
        assert limits is not None and figure.value is not None
        assert limits[0] < figure.value < limits[1], key


def test_directions() -> None:
    labels, answers, scores, classes = sample(100, 2, seed=3)
    rows = classification_metrics(confusion(labels, answers, 2), classes, labels, scores)
    assert {name for name, _, _, higher in rows if not higher} == {"log_loss", "calibration_error"}


def test_calibration_error_by_hand() -> None:
    """Two bins in use: 0.6 (2 of 4 right) and 0.9 (2 of 2 right): 4/6 * 0.1 + 2/6 * 0.1."""
    scores = np.array([[0.6, 0.4]] * 4 + [[0.1, 0.9]] * 2)
    labels = np.array([0, 0, 1, 1, 1, 1])
    assert calibration_error(labels, scores).value == pytest.approx(0.1)


def test_calibration_error_against_binning_by_loops() -> None:
    labels, _, scores, _ = sample(500, 3, seed=4)
    top, right = scores.max(1), scores.argmax(1) == labels
    expected = 0.0
    for b in range(15):
        inside = (top > b / 15) & (top <= (b + 1) / 15)
        if inside.any():
            expected += inside.mean() * abs(right[inside].mean() - top[inside].mean())
    assert calibration_error(labels, scores).value == pytest.approx(expected)


def test_a_few_sure_and_right_answers_do_not_prove_calibration() -> None:
    for n in (10, 1000):
        low, high = calibration_error(np.zeros(n, dtype=np.int64), np.tile([1.0, 0.0], (n, 1))).bounds(0.95) or (1.0, 0.0)
        assert low == 0.0
        assert high == pytest.approx(1.6448536 / n)


def test_delong_variance_by_brute_force() -> None:
    labels, _, scores, classes = sample(150, 2, seed=5)
    score = scores[:, 1]
    wins = np.sign(score[labels == 1][:, None] - score[labels == 0][None, :]) / 2 + 0.5
    variance = wins.mean(1).var(ddof=1) / wins.shape[0] + wins.mean(0).var(ddof=1) / wins.shape[1]
    area = wins.mean()
    half = 1.6448536 * np.sqrt(variance) / (area * (1 - area))
    expected = 1 / (1 + np.exp(-(np.log(area / (1 - area)) + np.array([-half, half]))))
    assert roc_auc(labels, scores, classes).bounds(0.95) == pytest.approx(tuple(expected), rel=1e-6)


def test_a_perfect_classifier_keeps_its_doubt() -> None:
    labels = np.repeat([0, 1, 2], 10)
    rows = classification_metrics(confusion(labels, labels, 3), ["a", "b", "c"], labels, np.eye(3)[labels] * 0.7 + 0.1)
    for name, _, figure, higher in rows:
        limits = figure.bounds(0.95)
        assert limits is not None
        if higher:
            assert figure.value == 1.0 and limits[1] == 1.0, name
            assert 0.7 < limits[0] < 0.96, name


def test_undefined_stays_undefined_and_names_the_class() -> None:
    labels, answers = np.array([0, 0, 1, 1, 0]), np.array([0, 1, 1, 1, 0])
    found = by_name(classification_metrics(confusion(labels, answers, 3), ["a", "b", "never"]))
    for name in ("precision", "recall", "f1"):
        assert found[name, "never"].value is None
    for name in ("macro_precision", "macro_recall", "macro_f1", "balanced_accuracy"):
        assert found[name, None].value is None
        assert "'never'" in str(found[name, None].reason)
    assert found["accuracy", None].value == 0.8
    found = by_name(classification_metrics(confusion(np.array([0, 1]), np.array([0, 0]), 2), ["a", "b"]))
    assert found["precision", "b"].reason == "the model never answers 'b'"
    assert found["recall", "b"].value == 0.0
    assert found["f1", "b"].value == 0.0  # 2 TP / (2 TP + FP + FN) is defined


def test_no_cases_at_all() -> None:
    empty = np.array([], dtype=np.int64)
    rows = classification_metrics(confusion(empty, empty, 2), ["a", "b"], empty, np.empty((0, 2)))
    assert all(figure.value is None and figure.reason for _, _, figure, _ in rows)


def test_scores_that_are_no_probabilities_still_rank() -> None:
    labels, _, scores, classes = sample(100, 2, seed=6)
    margins = np.log(scores)
    assert roc_auc(labels, margins, classes).value == roc_auc(labels, scores, classes).value
    assert log_loss(labels, margins).value is None
    assert "not probabilities" in str(calibration_error(labels, margins).reason)


def test_one_class_alone_has_no_area() -> None:
    scores = np.tile([0.5, 0.5], (4, 1))
    assert roc_auc(np.zeros(4, dtype=np.int64), scores, ["a", "b"]).reason == "every case has the label 'a'"


@pytest.mark.parametrize(
    "call",
    [
        lambda: confusion(np.array([0, 2]), np.array([0, 1]), 2),
        lambda: confusion(np.array([0, 1]), np.array([0, -1]), 2),
        lambda: confusion(np.array([0, 1]), np.array([0]), 2),
        lambda: classification_metrics(np.eye(2, dtype=np.int64), ["a", "b", "c"]),
        lambda: log_loss(np.array([0]), np.array([[np.nan, 1.0]])),
        lambda: log_loss(np.array([0, 1]), np.array([[0.5, 0.5]])),
        lambda: log_loss(np.array([2]), np.array([[0.5, 0.5]])),
    ],
)
def test_bad_input_is_one_clear_message(call: object) -> None:
    with pytest.raises(InputError, match="expected"):
        call()  # type: ignore[operator]

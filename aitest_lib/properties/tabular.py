"""The properties of tabular models."""

from __future__ import annotations

from aitest_lib.properties.base import TABULAR, PropertySpec

CLASSIFICATION = (
    "accuracy",
    "balanced_accuracy",
    "precision",
    "recall",
    "f1",
    "macro_precision",
    "macro_recall",
    "macro_f1",
    "roc_auc",
    "log_loss",
    "calibration_error",
)
REGRESSION = ("rmse", "mae", "r2")
ROBUSTNESS = ("pass_rate", "clean_accuracy", "accuracy", "robust_accuracy", "robust_accuracy_drop")
TREE = ("fidelity", "apl", "epl", "mpl", "leaves", "majority_fidelity", "stability")

GENERALIZATION = PropertySpec(
    name="tabular.generalization",
    types=TABULAR,
    shape="group",
    summary="how well the answers agree with the labels, over all rows and in every slice",
    metrics={"tabular-classifier": CLASSIFICATION, "tabular-regressor": REGRESSION},
    needs_labels=True,
)

ROBUSTNESS_SPEC = PropertySpec(
    name="tabular.robustness",
    types=TABULAR,
    shape="perturbation",
    summary="whether the answer stays the same when a row changes a little",
    metrics=dict.fromkeys(TABULAR, ROBUSTNESS),
    new_queries=True,
    smallest_flips=True,
    default_transforms=({"name": "numeric_noise", "epsilon": 0.1}, {"name": "category_swap"}, {"name": "missing_value"}),
    default_gates={"pass_rate": {"min": 0.95}, "robust_accuracy_drop": {"max": 0.05}},
)

TREE_SIMULATABILITY = PropertySpec(
    name="tabular.tree_simulatability",
    types=TABULAR,
    shape="surrogate",
    summary="whether a small decision tree can stand in for the model",
    metrics={"tabular-classifier": (*TREE, "kappa", "class_fidelity"), "tabular-regressor": (*TREE, "r2")},
    default_gates={"mpl": {"max": 12}, "fidelity": {"min": 0.9}},
)

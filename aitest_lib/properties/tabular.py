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
OF_GROUPS = (  # of every group beside the reference group
    "impact_ratio",
    "statistical_parity_difference",
    "equal_opportunity_difference",
    "average_odds_difference",
    "predictive_parity_difference",
)
GAPS = (  # the largest between groups, whatever its sign
    "statistical_parity_gap",
    "equal_opportunity_gap",
    "average_odds_gap",
    "equalized_odds_gap",
    "predictive_parity_gap",
)
OF_SCORES = ("scoring_rate", "scoring_rate_difference", "scoring_rate_gap")
MEAN_GAPS = ("mean_answer_gap", "mean_error_gap", "mae_gap")
GROUP_RATES = ("selection_rate", "true_positive_rate", "false_positive_rate", "precision", "accuracy")
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

GROUP_FAIRNESS = PropertySpec(
    name="tabular.group_fairness",
    types=TABULAR,
    shape="group",
    summary="whether the groups of the protected columns, and their crossings, are served alike",
    metrics={
        "tabular-classifier": (*OF_GROUPS, *GAPS, *GROUP_RATES, *OF_SCORES, "scoring_ratio"),
        "tabular-regressor": ("impact_ratio", *OF_SCORES, *MEAN_GAPS, "mean_answer", "mean_error", "mae"),
    },
    default_gates={"impact_ratio": {"min": 0.8}},
    by_protected=True,
)

INDIVIDUAL_FAIRNESS = PropertySpec(
    name="tabular.individual_fairness",
    types=TABULAR,
    shape="perturbation",
    summary="whether a row is decided otherwise when nothing but its protected values changes",
    metrics=dict.fromkeys(TABULAR, ("prevalence", "likely_prevalence", "pairs_found", "pairs_per_1000_queries")),
    new_queries=True,
    default_gates={"prevalence": {"max": 0.01}},
    by_protected=True,
    own_answers=True,
)

DIRECTIONAL = PropertySpec(
    name="tabular.directional",
    types=TABULAR,
    shape="perturbation",
    summary="whether the answer moves in the expected direction, or not at all, when one column does",
    metrics=dict.fromkeys(TABULAR, ("violation_rate", "pass_rate", "largest_violation")),
    new_queries=True,
    by_directions=True,
    own_answers=True,
)

FAULTS = frozenset(
    (*GAPS, *MEAN_GAPS, "scoring_rate_gap", "prevalence", "likely_prevalence", "violation_rate", "largest_violation")
)

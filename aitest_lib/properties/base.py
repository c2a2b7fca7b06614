"""What a property is: data, no control flow. The flow of its shape does the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

DefaultGates = Mapping[str, Mapping[str, Any] | tuple[Mapping[str, Any], ...]]
Shape = Literal["perturbation", "group", "search", "surrogate"]
TABULAR = ("tabular-classifier", "tabular-regressor")
IMAGE = ("image-classifier",)
SPEECH = ("speech-to-text",)
# Metrics that are shares of cases or rows, from 0 to 1.
RATES = frozenset(
    {
        "pass_rate",
        "clean_accuracy",
        "accuracy",
        "robust_accuracy",
        "robust_accuracy_drop",
        "unbroken_rate",
        "balanced_accuracy",
        "precision",
        "recall",
        "fidelity",
        "class_fidelity",
        "majority_fidelity",
        "stability",
        "attacked_accuracy",
        "success_rate",
        "prevalence",
        "likely_prevalence",
        "violation_rate",
        "selection_rate",
        "scoring_rate",
        "true_positive_rate",
        "false_positive_rate",
    }
)


@dataclass(frozen=True, kw_only=True)
class PropertySpec:
    """A property: which model types it fits, what it measures, and what it does where the suite does not say.

    `metrics` are the names a gate may use, by model type; `default_gates` are what `aitest audit` judges by.
    """

    name: str
    types: tuple[str, ...]
    shape: Shape
    summary: str
    metrics: Mapping[str, tuple[str, ...]]
    needs_labels: bool = False
    new_queries: bool = False  # asks inputs that are in no data file, so that computed answers cannot serve it
    smallest_flips: bool = False  # looks for the smallest single change that turns the answer, as examples
    modality: str = "tabular"
    default_transforms: tuple[Mapping[str, Any], ...] = ()
    default_gates: DefaultGates = field(default_factory=dict)
    by_voices: bool = False  # compares voices or speakers: takes `voices`
    by_protected: bool = False  # compares what differs in the protected columns of the data
    by_directions: bool = False  # moves the columns that the suite names as `directions`
    own_answers: bool = False  # labels play no part: every seed counts, right or wrong

    @property
    def takes_transforms(self) -> bool:
        """Does the suite choose the transforms."""
        return self.shape == "perturbation" and not (self.by_voices or self.by_protected or self.by_directions)

    @property
    def flow(self) -> str:
        """Dotted module path of its flow."""
        name = self.name.replace(".", "_")
        return f"aitest_flows.{name}.{name}"

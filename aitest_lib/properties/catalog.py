"""All properties by name."""

from __future__ import annotations

from aitest_lib.errors import InputError, unknown
from aitest_lib.properties.base import PropertySpec
from aitest_lib.properties.image import IMAGE_ADVERSARIAL, IMAGE_GENERALIZATION, IMAGE_ROBUSTNESS
from aitest_lib.properties.speech import FAULTS as SPEECH_FAULTS
from aitest_lib.properties.speech import SPEECH_FAIRNESS, SPEECH_GENERALIZATION, SPEECH_ROBUSTNESS
from aitest_lib.properties.tabular import (
    DIRECTIONAL,
    GENERALIZATION,
    GROUP_FAIRNESS,
    INDIVIDUAL_FAIRNESS,
    ROBUSTNESS_SPEC,
    TREE_SIMULATABILITY,
)
from aitest_lib.properties.tabular import (
    FAULTS as TABULAR_FAULTS,
)

SPECS: dict[str, PropertySpec] = {
    spec.name: spec
    for spec in (
        GENERALIZATION,
        ROBUSTNESS_SPEC,
        TREE_SIMULATABILITY,
        GROUP_FAIRNESS,
        INDIVIDUAL_FAIRNESS,
        DIRECTIONAL,
        IMAGE_GENERALIZATION,
        IMAGE_ROBUSTNESS,
        IMAGE_ADVERSARIAL,
        SPEECH_GENERALIZATION,
        SPEECH_ROBUSTNESS,
        SPEECH_FAIRNESS,
    )
}

FAULTS = SPEECH_FAULTS | TABULAR_FAULTS  # figures of which less is better, so that a gate on them is a max


def spec(name: str) -> PropertySpec:
    """The property of this name; an unknown one is an `InputError` with the nearest names."""
    if name not in SPECS:
        raise InputError(unknown("property", name, SPECS))
    return SPECS[name]


def specs_for(model_type: str) -> list[PropertySpec]:
    """The properties that fit a model type."""
    return [item for item in SPECS.values() if model_type in item.types]

"""The properties of image classifiers."""

from __future__ import annotations

from aitest_lib.properties.base import IMAGE, PropertySpec
from aitest_lib.properties.tabular import CLASSIFICATION, ROBUSTNESS

SEVERITIES = [1, 3, 5]
ELEVEN = (  # the transforms of the AITEST papers, in their order
    "inverse",
    "scale",
    "rotate",
    "shear",
    "saturation",
    "brightness",
    "contrast",
    "fog",
    "gaussian_blur",
    "zoom_blur",
    "gaussian_noise",
)

IMAGE_GENERALIZATION = PropertySpec(
    name="image.generalization",
    modality="image",
    types=IMAGE,
    shape="group",
    summary="how well the answers agree with the labels, over all images and in every slice",
    metrics=dict.fromkeys(IMAGE, CLASSIFICATION),
    needs_labels=True,
)

IMAGE_ROBUSTNESS = PropertySpec(
    name="image.robustness",
    modality="image",
    types=IMAGE,
    shape="perturbation",
    summary="whether the answer stays the same when an image is turned, blurred, darkened, noisy",
    metrics=dict.fromkeys(IMAGE, (*ROBUSTNESS, "median_breaking_point", "unbroken_rate", "mean_corruption_error")),
    new_queries=True,
    default_transforms=tuple(
        {"name": name} if name == "inverse" else {"name": name, "severity": SEVERITIES} for name in ELEVEN
    ),
    default_gates={"pass_rate": {"min": 0.95}, "robust_accuracy_drop": {"max": 0.05}},
)

IMAGE_ADVERSARIAL = PropertySpec(
    name="image.adversarial",
    modality="image",
    types=IMAGE,
    shape="search",
    summary="how many images noise too small to matter, found by asking alone, makes the model misread",
    metrics=dict.fromkeys(IMAGE, ("attacked_accuracy", "clean_accuracy", "success_rate", "median_queries")),
    new_queries=True,
    default_gates={"attacked_accuracy": {"min": 0.5}},
)

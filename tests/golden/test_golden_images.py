"""What every transform of images makes of fixed images, pinned by name and version: other pixels need another version.

The drawn parameters are pinned exactly (they make the ids of cases), the pixels within one grey level. Where an output was
meant to change, raise the component's `version` and write the new pixels:

    python tests/golden/test_golden_images.py
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import pytest
from image_samples import photo

from aitest_lib.registry import components
from aitest_lib.rng import rng_for
from aitest_lib.transforms.image.base import ImageTransform
from aitest_lib.transforms.image.compose import Compose

PIXELS = Path(__file__).with_name("golden_images.npz")
RANDOM_SEED = 7
CHAIN = [{"name": "rotate", "degrees": 15}, {"name": "scale", "factor": 0.8}, {"name": "brightness", "severity": 2}]
# The constants of CIFAR-10-C and, from 96 pixels on, those of ImageNet-C; every number of channels; not square.
IMAGES = {
    "rgb": photo(2, (24, 32, 3)),
    "grey": photo(1, (28, 28, 1)),
    "alpha": photo(1, (9, 13, 4)),
    "large": photo(1, (96, 97, 1)),
}
TRANSFORMS = {f"{cls.name}@{cls.version}": cls for cls in components().values() if issubclass(cls, ImageTransform)}


def made(cls: type[ImageTransform]) -> dict[str, np.ndarray]:
    """Pixels, and parameters as JSON text, by "name@version/strength/images"."""
    found: dict[str, np.ndarray] = {}
    for strength, transform in variants(cls).items():
        for name, images in IMAGES.items():
            draw = transform.draw(
                [f"seed {row}" for row in range(len(images))], images.shape[1:], partial(rng_for, RANDOM_SEED, transform.key)
            )
            if draw.not_applicable[0] is None:
                key = f"{transform.key}/{strength}/{name}"
                found[key] = transform.apply(images, draw.params)
                found[f"{key}/params"] = np.array(json.dumps(draw.params, sort_keys=True))
    return found


def variants(cls: type[ImageTransform]) -> dict[str, ImageTransform]:
    if cls is Compose:
        return {"chain": Compose(parts=CHAIN), "without": Compose(parts=CHAIN).without(1)}
    if cls().severity is None:
        return {"plain": cls()}
    return {f"severity {severity}": cls(severity=severity) for severity in (2, 5)}


def complaints(found: dict[str, np.ndarray], pinned: dict[str, Any]) -> list[str]:
    """What differs from what is pinned, one line each."""
    lines = [f"{key}: not pinned" for key in sorted(set(found) - set(pinned))]
    for key in sorted(set(found) & set(pinned)):
        if key.endswith("/params"):
            if found[key].item() != pinned[key].item():
                lines.append(f"{key}: {found[key].item()} instead of {pinned[key].item()}")
        elif found[key].shape != pinned[key].shape:
            lines.append(f"{key}: {found[key].shape} instead of {pinned[key].shape}")
        else:
            off = int(np.abs(found[key].astype(int) - pinned[key].astype(int)).max())
            if off > 1:
                lines.append(f"{key}: {off} grey levels away")
    return lines


@pytest.fixture(scope="module")
def pinned() -> dict[str, np.ndarray]:
    with np.load(PIXELS) as file:
        return dict(file)


@pytest.mark.parametrize("key", TRANSFORMS)
def test_the_pixels_are_the_pinned_ones(key, pinned):
    found = made(TRANSFORMS[key])
    assert found
    assert complaints(found, pinned) == [], __doc__


def test_nothing_is_pinned_that_is_no_more(pinned):
    assert {key.split("/")[0] for key in pinned} == set(TRANSFORMS)


@pytest.mark.parametrize("key", TRANSFORMS)
def test_a_gpu_makes_the_same_pixels(key, pinned, monkeypatch):
    import torch

    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU here")
    monkeypatch.setenv("AITEST_DEVICE", "cuda")
    assert complaints(made(TRANSFORMS[key]), pinned) == []


def test_a_changed_output_is_noticed(pinned, monkeypatch):
    """The guard itself: two grey levels in one pixel, or another parameter, are told."""
    cls = TRANSFORMS["rotate@1"]
    apply = cls.apply

    def other(self, images, params):
        changed = apply(self, images, params)
        changed[0, 5, 5, 0] ^= 2
        return changed

    monkeypatch.setattr(cls, "apply", other)
    assert len(complaints(made(cls), pinned)) == len(variants(cls)) * len(IMAGES)
    monkeypatch.setattr(cls, "apply", apply)
    monkeypatch.setattr(cls, "severities", (1, 2, 3, 4, 5))
    assert any("instead of" in line for line in complaints(made(cls), pinned))


if __name__ == "__main__":
    np.savez_compressed(PIXELS, **{key: array for cls in TRANSFORMS.values() for key, array in made(cls).items()})

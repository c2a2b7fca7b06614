"""What people use instead of aitest's transforms of images, called as their documentation does, at ImageNet-C's severity 3.

Where a peer's transform of the same name is another algorithm (albumentations' fog and snow), it still stands in the table:
it is what one would reach for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Function = Callable[[Any], Any]
SEVERITY = 3


@dataclass(frozen=True)
class Peer:
    """`make(transform, side)`: a function of a batch (`batches`) or of one image, None where the peer has no such transform."""

    name: str
    module: str
    batches: bool
    make: Callable[[str, int], Function | None]


def of_kornia(name: str, side: int) -> Function | None:
    """Plain use: the batch as float in 0..1, channels first, the functional op, clamp, back to uint8."""
    import kornia
    import torch

    def blur(x: torch.Tensor, sigma: float) -> torch.Tensor:
        size = 2 * round(4 * sigma) + 1  # as far as scikit-image's, which is ImageNet-C's
        return kornia.filters.gaussian_blur2d(x, (size, size), (sigma, sigma))

    def elastic(x: torch.Tensor) -> torch.Tensor:
        field = torch.rand(len(x), 2, side, side) * 2 - 1
        return kornia.geometry.transform.elastic_transform2d(x, field, (15, 15), (2.44, 2.44), (0.1, 0.1))

    moved = kornia.geometry.transform
    ops: dict[str, Function] = {
        "inverse": kornia.enhance.invert,
        "scale": lambda x: moved.scale(x, torch.tensor([0.7])),
        "rotate": lambda x: moved.rotate(x, torch.tensor([15.0])),
        "shear": lambda x: moved.shear(x, torch.tensor([[0.3, 0.0]])),
        "translate": lambda x: moved.translate(x, torch.tensor([[0.15 * side, 0.15 * side]])),
        "saturation": lambda x: kornia.enhance.adjust_saturation(x, 2.0),
        "brightness": lambda x: kornia.enhance.adjust_brightness(x, 0.3),
        "contrast": lambda x: kornia.enhance.adjust_contrast_with_mean_subtraction(x, 0.2),
        "gaussian_blur": lambda x: blur(x, 3.0),
        "motion_blur": lambda x: kornia.filters.motion_blur(x, 31, 30.0, 0.0),
        "gaussian_noise": kornia.augmentation.RandomGaussianNoise(std=0.18, p=1.0),
        "impulse_noise": kornia.augmentation.RandomSaltAndPepperNoise(amount=0.09, p=1.0),
        "elastic": elastic,
        "jpeg": lambda x: kornia.enhance.jpeg_codec_differentiable(x, torch.tensor([18.0])),
    }
    if (op := ops.get(name)) is None:
        return None

    def plain(pixels: np.ndarray[Any, Any]) -> Any:
        with torch.inference_mode():
            floats = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
            changed = op(floats).clamp(0, 1)
            return (changed * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()

    return plain


def of_imagecorruptions(name: str, side: int) -> Function | None:
    """`corrupt` of one image, at least 32 pixels a side."""
    from imagecorruptions import corrupt, get_corruption_names

    theirs = {"saturation": "saturate", "elastic": "elastic_transform", "jpeg": "jpeg_compression"}.get(name, name)
    if theirs not in get_corruption_names("all"):
        return None
    return lambda image: corrupt(image, corruption_name=theirs, severity=SEVERITY)


def of_albumentations(name: str, side: int) -> Function | None:
    """One image, always changed (`p=1`), every range a single value."""
    import albumentations as a

    made: dict[str, Callable[[], Any]] = {
        "inverse": lambda: a.InvertImg(p=1),
        "scale": lambda: a.Affine(scale=(0.7, 0.7), p=1),
        "rotate": lambda: a.Affine(rotate=(15, 15), p=1),
        "shear": lambda: a.Affine(shear={"x": (17, 17), "y": (0, 0)}, p=1),
        "translate": lambda: a.Affine(translate_percent=(0.15, 0.15), p=1),
        "saturation": lambda: a.ColorJitter((1, 1), (1, 1), (2, 2), (0, 0), p=1),
        "brightness": lambda: a.ColorJitter((1.3, 1.3), (1, 1), (1, 1), (0, 0), p=1),
        "contrast": lambda: a.ColorJitter((1, 1), (0.2, 0.2), (1, 1), (0, 0), p=1),
        "fog": lambda: a.RandomFog(fog_coef_range=(0.5, 0.5), p=1),
        "snow": lambda: a.RandomSnow(p=1),
        "spatter": lambda: a.Spatter(mode="rain", p=1),
        "gaussian_blur": lambda: a.GaussianBlur(blur_limit=0, sigma_limit=(3, 3), p=1),
        "defocus_blur": lambda: a.Defocus(radius=(6, 6), alias_blur=(0.5, 0.5), p=1),
        "motion_blur": lambda: a.MotionBlur(blur_limit=(31, 31), p=1),
        "zoom_blur": lambda: a.ZoomBlur(max_factor=(1.2, 1.2), step_factor=(0.02, 0.02), p=1),
        "glass_blur": lambda: a.GlassBlur(sigma=1, max_delta=2, iterations=3, p=1),
        "gaussian_noise": lambda: a.GaussNoise(std_range=(0.18, 0.18), p=1),
        "shot_noise": lambda: a.ShotNoise(scale_range=(0.1, 0.1), p=1),
        "speckle_noise": lambda: a.MultiplicativeNoise((0.65, 1.35), per_channel=True, elementwise=True, p=1),
        "impulse_noise": lambda: a.SaltAndPepper(amount=(0.09, 0.09), p=1),
        "elastic": lambda: a.ElasticTransform(alpha=12, sigma=2.44, p=1),
        "pixelate": lambda: a.Downscale(scale_range=(0.4, 0.4), p=1),
        "jpeg": lambda: a.ImageCompression(quality_range=(18, 18), p=1),
    }
    if name not in made:
        return None
    transform = made[name]()
    return lambda image: transform(image=image)["image"]


PEERS = (
    Peer("kornia", "kornia", True, of_kornia),
    Peer("imagecorruptions", "imagecorruptions", False, of_imagecorruptions),
    Peer("albumentations", "albumentations", False, of_albumentations),
)

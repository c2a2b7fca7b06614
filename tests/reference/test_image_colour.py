"""Inverse, saturation, brightness and contrast against their definitions in float64, with HSV as the standard library has it.

Tolerance: the output is the unrounded reference rounded, give or take 0.01 grey levels, which is what float32 costs.
"""

from __future__ import annotations

import colorsys
from collections.abc import Callable

import numpy as np
import pytest
from image_samples import grey_noise, photo

from aitest_lib.errors import InputError
from aitest_lib.transforms.image.base import ImageTransform
from aitest_lib.transforms.image.colour import Brightness, Contrast, Inverse, Saturation
from aitest_lib.transforms.image.compose import Compose

TOLERANCE = 0.5 + 0.01
Hsv = Callable[[float, float, float], tuple[float, float, float]]


def made(transform: ImageTransform, images: np.ndarray) -> np.ndarray:
    params = transform.draw(["a"] * len(images), images.shape[1:], None).params
    return transform.apply(images, params)


def drawn(transform: ImageTransform, shape: tuple[int, int, int]) -> dict[str, float]:
    return transform.draw(["a"], shape, None).params[0]


def in_hsv(images: np.ndarray, change: Hsv) -> np.ndarray:
    """Grey levels (unrounded) of images whose every pixel is changed in hue, saturation and value."""
    pixels = images.reshape(-1, 3) / 255
    changed = [colorsys.hsv_to_rgb(*np.clip(change(*colorsys.rgb_to_hsv(*pixel)), 0, 1)) for pixel in pixels]
    return np.array(changed).reshape(images.shape) * 255


def colours_of_all_kinds(shape: tuple[int, int, int] = (16, 20, 3)) -> np.ndarray:
    """Noise, with grey, black, white and pure pixels among it."""
    images = grey_noise(2, shape)
    images[0, 0, :8] = [
        [0, 0, 0],
        [255, 255, 255],
        [128, 128, 128],
        [255, 0, 0],
        [0, 255, 0],
        [1, 0, 0],
        [254, 255, 255],
        [9, 9, 8],
    ]
    return images


class TestInverse:
    @pytest.mark.parametrize("channels", [1, 3, 4])
    def test_colours_become_their_negative_and_alpha_stays(self, channels):
        images = grey_noise(3, (9, 7, channels))
        found = made(Inverse(), images)
        assert (found[..., :3] == 255 - images[..., :3]).all()
        assert (found[..., 3:] == images[..., 3:]).all()

    def test_it_has_no_strength_and_no_severity(self):
        assert Inverse().slice == {"transform": "inverse"}
        assert Inverse().strength_value is None
        assert drawn(Inverse(), (8, 8, 1)) == {}
        with pytest.raises(InputError, match="got severity 2, expected none"):
            Inverse(severity=2)


class TestSaturation:
    @pytest.mark.parametrize("factor", [0, 0.3, 1, 1.7, 20])
    def test_the_saturation_of_hsv_is_multiplied(self, factor):
        images = colours_of_all_kinds()
        wanted = in_hsv(images, lambda h, s, v: (h, s * factor, v))
        assert np.abs(made(Saturation(factor=factor), images) - wanted).max() <= TOLERANCE

    @pytest.mark.parametrize(
        ("shape", "table"),
        [
            ((16, 20, 3), [(0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)]),
            ((96, 97, 3), [(0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)]),
        ],
        ids=["CIFAR-10-C", "ImageNet-C"],
    )
    def test_severities_have_the_published_constants(self, shape, table):
        images = colours_of_all_kinds(shape)[:, :16]
        for severity, (factor, offset) in enumerate(table, start=1):
            transform = Saturation(severity=severity)
            assert drawn(transform, shape) == {"factor": factor, "offset": offset}
            # A pixel without a hue stays; ImageNet-C's arithmetic takes its hue for red.
            wanted = in_hsv(images, lambda h, s, v, a=factor, b=offset: (h, s * a + b if s else 0, v))
            found = transform.apply(images, [{"factor": factor, "offset": offset}] * 2)
            assert np.abs(found - wanted).max() <= TOLERANCE

    @pytest.mark.parametrize("transform", [Saturation(severity=5), Saturation(factor=0), Saturation(factor=100)])
    def test_grey_colours_stay_exactly(self, transform):
        images = np.repeat(grey_noise(2, (100, 96, 1)), 3, axis=-1)
        assert (made(transform, images) == images).all()

    def test_a_grey_image_has_none(self):
        draw = Saturation().draw(["a", "b"], (28, 28, 1), None)
        assert draw.not_applicable == ["a grey image has no saturation"] * 2
        assert Saturation().draw(["a"], (28, 28, 4), None).not_applicable == [None]
        images = photo(2, (28, 28, 1))
        assert (Saturation().apply(images, draw.params) == images).all()

    def test_kornia_agrees(self):
        import torch
        from kornia.enhance import adjust_saturation

        images = colours_of_all_kinds()
        theirs = adjust_saturation(torch.from_numpy(images).permute(0, 3, 1, 2) / 255, 1.7).permute(0, 2, 3, 1).numpy() * 255
        assert np.abs(made(Saturation(factor=1.7), images) - theirs).max() <= 1


class TestBrightness:
    @pytest.mark.parametrize("delta", [-1, -0.3, -0.001, 0, 0.004, 0.25, 1])
    def test_the_value_of_hsv_rises(self, delta):
        images = colours_of_all_kinds()
        wanted = in_hsv(images, lambda h, s, v: (h, s, v + delta))
        assert np.abs(made(Brightness(delta=delta), images) - wanted).max() <= TOLERANCE

    @pytest.mark.parametrize("delta", [-0.4, 0.1, 1])
    def test_grey_images_rise_as_a_whole(self, delta):
        images = grey_noise(2, (12, 13, 1))
        wanted = np.clip(images / 255 + delta, 0, 1) * 255
        assert np.abs(made(Brightness(delta=delta), images) - wanted).max() <= TOLERANCE


class TestContrast:
    @pytest.mark.parametrize("channels", [1, 3])
    @pytest.mark.parametrize("factor", [0, 0.05, 0.75, 1, 2, 20])
    def test_the_distance_from_the_mean_of_each_channel_is_multiplied(self, factor, channels):
        images = photo(3, (21, 34, channels))
        x = images / 255
        mean = x.mean(axis=(1, 2), keepdims=True)
        wanted = np.clip((x - mean) * factor + mean, 0, 1) * 255
        assert np.abs(made(Contrast(factor=factor), images) - wanted).max() <= TOLERANCE

    def test_the_mean_of_an_image_does_not_depend_on_the_batch(self):
        images = grey_noise(40, (61, 67, 3))
        whole = made(Contrast(factor=0.333), images)
        assert (np.concatenate([made(Contrast(factor=0.333), image[None]) for image in images]) == whole).all()


@pytest.mark.parametrize(
    ("cls", "name", "small", "large"),
    [
        (Brightness, "delta", [0.05, 0.1, 0.15, 0.2, 0.3], [0.1, 0.2, 0.3, 0.4, 0.5]),
        (Contrast, "factor", [0.75, 0.5, 0.4, 0.3, 0.15], [0.4, 0.3, 0.2, 0.1, 0.05]),
    ],
)
def test_severities_are_those_of_cifar_10_c_below_96_pixels_and_of_imagenet_c_above(cls, name, small, large):
    for shape, values in (((95, 400, 3), small), ((96, 96, 1), large)):
        assert [drawn(cls(severity=severity), shape) for severity in range(1, 6)] == [{name: value} for value in values]
        assert [drawn(cls(**{name: value}), shape) for value in values] == [{name: value} for value in values]


@pytest.mark.parametrize("transform", [Saturation(factor=0), Brightness(delta=0.5), Contrast(factor=0.1)])
def test_alpha_stays_and_plays_no_part(transform):
    images = grey_noise(2, (10, 11, 4))
    found = made(transform, images)
    assert (found[..., 3] == images[..., 3]).all()
    assert (found[..., :3] == made(transform, images[..., :3])).all()


class TestCompose:
    CHAIN = ({"name": "rotate", "degrees": 15}, {"name": "contrast", "factor": 0.5}, {"name": "inverse"})

    def test_links_follow_one_another(self):
        images = photo(2, (20, 20, 3))
        by_hand = images
        chain = Compose(parts=list(self.CHAIN))
        for link in chain.links.values():
            by_hand = made(link, by_hand)
        assert (made(chain, images) == by_hand).all()

    def test_it_says_what_it_is_made_of(self):
        chain = Compose(parts=[*self.CHAIN, {"name": "brightness", "severity": 2}])
        assert chain.slice == {
            "transform": "rotate + contrast + inverse + brightness",
            "with": "degrees 15.0 + factor 0.5 + - + severity 2",
        }
        assert chain.strength_value is None
        assert drawn(chain, (8, 8, 1))["parts"][3] == {"name": "brightness", "version": 1, "params": {"delta": 0.1}}

    def test_a_link_that_does_not_fit_leaves_no_case(self):
        chain = Compose(parts=[{"name": "rotate"}, {"name": "saturation"}])
        assert chain.draw(["a"], (8, 8, 1), None).not_applicable == ["a grey image has no saturation"]
        assert chain.without(1).draw(["a"], (8, 8, 1), None).not_applicable == [None]

    def test_without_a_link_the_others_are_as_they_were(self):
        chain = Compose(parts=list(self.CHAIN))
        rest = chain.without(1)
        assert [link.name for link in rest.links.values()] == ["rotate", "inverse"]
        assert Compose(**rest.parameters()) == rest
        assert rest.fingerprint() != chain.fingerprint()
        images = photo(2, (20, 20, 3))
        assert (made(rest, images) == made(Inverse(), made(chain.links[0], images))).all()

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"parts": []}, "got a chain without transforms"),
            ({"parts": [{"name": "rotate"}], "left_out": 0}, "got a chain without transforms"),
            ({"parts": [{"name": "rotate"}], "severity": 1}, "got a severity of a whole chain"),
            ({"parts": [{"name": "rotat"}]}, "did you mean rotate"),
            ({"parts": [{"degrees": 3}]}, "transform"),
            ({"parts": [{"name": "rotate", "degrees": 900}]}, r"parts\.0\.degrees: .*180.*\(rotate\)"),
            (
                {"parts": [{"name": "rotate"}, {"name": "numeric_noise"}]},
                r"parts\.1: got numeric_noise, expected a transform of images",
            ),
        ],
    )
    def test_what_is_no_chain_is_told(self, given, message):
        with pytest.raises(InputError, match=message):
            Compose(**given)

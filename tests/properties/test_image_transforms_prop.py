"""What holds of every transform of images, whatever the images: all that are registered, and chains of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from image_samples import grey_noise, photo

from aitest_lib.registry import components
from aitest_lib.rng import rng_for
from aitest_lib.transforms.image.base import ImageTransform
from aitest_lib.transforms.image.compose import Compose

TRANSFORMS = [cls for cls in components().values() if issubclass(cls, ImageTransform)]
CHAINS = [
    Compose(parts=[{"name": "rotate", "degrees": 10}, {"name": "scale", "factor": 0.8}, {"name": "brightness"}]),
    Compose(parts=[{"name": "contrast"}, {"name": "inverse"}, {"name": "translate", "severity": 5}]),
    Compose(parts=[{"name": "gaussian_noise"}, {"name": "shear"}, {"name": "gaussian_noise"}]),
]
SIZES = [(1, 1), (1, 7), (3, 3), (28, 28), (32, 32), (40, 57), (96, 96)]
CHANNELS = [1, 3, 4]
SLACK = 0.02  # of the largest distance: what aliasing and rounding may take back as a strength grows

every_transform = pytest.mark.parametrize("cls", TRANSFORMS, ids=lambda cls: cls.name)
every_strength = pytest.mark.parametrize(
    "cls", [cls for cls in TRANSFORMS if cls.identity is not None], ids=lambda cls: cls.name
)


def with_strength(cls: type[ImageTransform], value: float) -> ImageTransform:
    return cls(**{str(cls.strength): value})


def variants(cls: type[ImageTransform]) -> list[ImageTransform]:
    """A transform weak, strong, and as strong as a search goes."""
    if cls is Compose:
        return CHAINS
    if cls().severity is None:
        return [cls()]
    made = [cls(severity=1), cls(severity=5)]
    return made if cls.strongest is None else [*made, with_strength(cls, cls.strongest)]


def drawn(transform: ImageTransform, seed_ids: Sequence[str], shape: tuple[int, ...]) -> list[dict[str, Any]]:
    return transform.draw(seed_ids, shape, partial(rng_for, 7, transform.key)).params


def seeds(count: int) -> list[str]:
    return [f"seed {number}" for number in range(count)]


@every_transform
@pytest.mark.parametrize("channels", CHANNELS)
def test_images_of_any_size_keep_their_shape_and_the_seeds_stay_as_they_are(cls, channels):
    for size in SIZES:
        shape = (*size, channels)
        images = grey_noise(2, shape)
        for transform in variants(cls):
            before = images.copy()
            params = drawn(transform, seeds(2), shape)
            kept = json.loads(json.dumps(params, allow_nan=False))
            made = transform.apply(images, params)
            assert (made.dtype, made.shape) == (np.uint8, images.shape), shape
            assert not np.shares_memory(made, images)
            assert (images == before).all()
            assert params == kept
            assert (transform.apply(images, kept) == made).all(), shape


@every_transform
@given(data=st.data())
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_case_depends_on_its_seed_alone(cls, data):
    """Every split and every order of a batch gives the same cases, and so does each image by itself."""
    shape = data.draw(st.tuples(st.integers(1, 34), st.integers(1, 34), st.sampled_from(CHANNELS)), "shape")
    transform = data.draw(st.sampled_from(variants(cls)), "transform")
    count = data.draw(st.integers(1, 6), "images")
    images = grey_noise(count, shape, seed=data.draw(st.integers(0, 99), "images of"))
    params = drawn(transform, seeds(count), shape)
    whole = transform.apply(images, params)
    edges = [0, *sorted(data.draw(st.lists(st.integers(0, count), max_size=3), "cuts")), count]
    parts = [slice(start, end) for start, end in pairwise(edges)]
    assert [one for part in parts for one in drawn(transform, seeds(count)[part], shape)] == params
    assert (np.concatenate([transform.apply(images[part], params[part]) for part in parts]) == whole).all()
    order = data.draw(st.permutations(range(count)), "order")
    assert drawn(transform, [seeds(count)[place] for place in order], shape) == [params[place] for place in order]
    assert (transform.apply(images[order], [params[place] for place in order]) == whole[order]).all()
    alone = [transform.apply(image[None], [one])[0] for image, one in zip(images, params, strict=True)]
    assert (np.stack(alone) == whole).all()


@every_transform
def test_no_place_in_a_large_batch_is_special(cls):
    """More images than are worked on at once, with weak and strong parameters side by side."""
    shape, count = (31, 33, 3), 700
    images = grey_noise(count, shape)
    transforms = variants(cls)[:1] if cls is Compose else variants(cls)
    each = [drawn(transform, seeds(count), shape) for transform in transforms]
    params = [each[place % len(each)][place] for place in range(count)]
    whole = transforms[0].apply(images, params)
    for place in (0, 1, 2, 350, 682, 683, 699):
        assert (transforms[0].apply(images[place : place + 1], params[place : place + 1])[0] == whole[place]).all(), place


@every_transform
def test_no_images_make_no_cases(cls):
    for transform in variants(cls):
        draw = transform.draw([], (9, 8, 3), partial(rng_for, 7, transform.key))
        assert (draw.params, draw.not_applicable) == ([], [])
        assert transform.apply(np.empty((0, 9, 8, 3), np.uint8), []).shape == (0, 9, 8, 3)


@every_strength
@pytest.mark.parametrize("channels", CHANNELS)
def test_at_its_identity_nothing_changes(cls, channels):
    transform = with_strength(cls, cls.identity)
    for size in SIZES:
        shape = (*size, channels)
        images = grey_noise(2, shape)
        assert (transform.apply(images, drawn(transform, seeds(2), shape)) == images).all(), shape


@every_strength
@pytest.mark.parametrize("shape", [(32, 32, 3), (97, 96, 3)], ids=str)
def test_the_distance_grows_with_the_strength(cls, shape):
    """From the identity to the strongest that a search tries, with the same draw scaled."""
    images = photo(12, shape)
    transforms = [with_strength(cls, value) for value in np.linspace(cls.identity, cls.strongest, 7).tolist()]
    distances = []
    for transform in transforms:
        made = transform.apply(images, drawn(transform, seeds(12), shape)).astype(float)
        distances.append(np.sqrt(np.square(made - images).mean(axis=(1, 2, 3))).mean())
    assert distances[-1] > 5
    assert all(after >= before - SLACK * max(distances) for before, after in pairwise(distances)), distances


@every_strength
def test_the_strength_plays_no_part_in_what_is_random(cls):
    """What differs from image to image is the same for every strength."""
    weak, strong = (
        drawn(with_strength(cls, value), seeds(5), (40, 40, 3))
        for value in np.linspace(cls.identity, cls.strongest, 4).tolist()[1:3]
    )
    random = [key for key in weak[0] if any(one[key] != weak[0][key] for one in weak)]
    assert cls.strength not in random
    for one, other in zip(weak, strong, strict=True):
        assert one.keys() == other.keys()
        assert [one[key] for key in random] == [other[key] for key in random]
        assert one[cls.strength] != other[cls.strength]


@every_transform
def test_something_changes(cls):
    images = photo(3, (40, 40, 3))
    for transform in variants(cls):
        made = transform.apply(images, drawn(transform, seeds(3), (40, 40, 3)))
        assert ((made != images).mean(axis=(1, 2, 3)) > 0.001).all(), transform


@pytest.mark.slow
@every_transform
@pytest.mark.parametrize("shape", [(2048, 2048, 3), (2048, 1, 4), (1, 2048, 1)], ids=str)
def test_large_images(cls, shape):
    images = grey_noise(1, shape)
    for transform in variants(cls):
        assert transform.apply(images, drawn(transform, seeds(1), shape)).shape == images.shape


def test_links_of_one_kind_draw_differently_and_keep_their_draw_when_another_is_left_out():
    chain = Compose(parts=[{"name": "gaussian_noise"}, {"name": "rotate"}, {"name": "gaussian_noise"}])
    whole = drawn(chain, seeds(4), (8, 8, 3))
    first, second = ([one["parts"][place]["params"] for one in whole] for place in (0, 2))
    assert all(one != other for one, other in zip(first, second, strict=True))
    assert [one["parts"][0]["params"] for one in drawn(chain.without(2), seeds(4), (8, 8, 3))] == first
    for place in (0, 1):
        assert [one["parts"][1]["params"] for one in drawn(chain.without(place), seeds(4), (8, 8, 3))] == second

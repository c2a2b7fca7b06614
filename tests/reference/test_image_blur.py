"""Blurs against their definitions in float64 (SciPy's filters with `nearest` borders, loops where it has none).

Tolerance, in grey levels beside the half that rounding takes: 0.01 for single sums, 0.5 for the Gaussian (12-bit weights).
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from corrupting import corrupted, distances, drawn
from image_samples import grey_noise, photo
from scipy import ndimage

from aitest_lib.transforms.image.blur import DefocusBlur, GaussianBlur, GlassBlur, MotionBlur, ZoomBlur, swapped_places
from aitest_lib.transforms.image.smoothing import gaussian_band, gaussian_smooth, whole_weights

SINGLE = 0.5 + 0.01
GAUSSIAN = 0.5 + 0.5
BLURS = [GaussianBlur, DefocusBlur, MotionBlur, ZoomBlur]
SHAPES = [(19, 31, 3), (70, 100, 1), (5, 3, 4), (1, 1, 3)]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def convolved(image: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    return np.stack([ndimage.convolve(channel, kernel, mode="nearest") for channel in np.moveaxis(image / 1.0, -1, 0)], -1)


@every_shape
@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.0, 11.0])
def test_gaussian_blur_is_scipys(shape, sigma):
    for images in (grey_noise(2, shape), photo(2, shape)):
        exact = ndimage.gaussian_filter(images.astype(float), (0, sigma, sigma, 0), mode="nearest", truncate=4)
        assert np.abs(corrupted(GaussianBlur(sigma=sigma), images) - exact).max() <= GAUSSIAN


@pytest.mark.parametrize(("radius", "alias"), [(0.3, 0.4), (1.0, 0.2), (1.5, 0.1), (3.0, 0.1), (6.0, 0.5), (10.0, 0.5)])
@every_shape
def test_defocus_blur_is_a_softened_disk(shape, radius, alias):
    image = grey_noise(1, shape)
    places = np.arange(-13, 14)
    disk = (places[:, None] ** 2 + places**2 <= radius**2) / 1.0
    soft = np.arange(-1, 2) if radius <= 8 else np.arange(-2, 3)
    edge = np.exp(-(soft**2) / (2 * alias**2))
    kernel = ndimage.convolve(disk, np.outer(edge, edge), mode="constant")
    exact = convolved(image[0], kernel / kernel.sum())
    assert np.abs(corrupted(DefocusBlur(radius=radius, alias_blur=alias), image)[0] - exact).max() <= SINGLE


@every_shape
@pytest.mark.parametrize(("length", "spread"), [(12, 1 / 6), (30, 8 / 30), (40, 3)])
def test_motion_blur_is_a_mean_along_a_line(shape, length, spread):
    images = grey_noise(4, shape)
    transform = MotionBlur(length=length, spread=spread)
    angles = [one["angle"] for one in drawn(transform, images)]
    assert len(set(angles)) > 1
    assert all(-45 <= angle <= 45 for angle in angles)
    rows, columns = np.indices(shape[:2])
    for image, angle, found in zip(images, angles, corrupted(transform, images), strict=True):
        total, weights = np.zeros(shape), 0.0
        for step in range(length + 1):
            down, right = (round(step * part(math.radians(angle))) for part in (math.sin, math.cos))
            weight = math.exp(-((step / (spread * length)) ** 2) / 2)
            there = (rows + down).clip(0, shape[0] - 1), (columns + right).clip(0, shape[1] - 1)
            total, weights = total + weight * image[there], weights + weight
        assert np.abs(found - total / weights).max() <= SINGLE + 0.1  # 16-bit weights along steep edges


@every_shape
@pytest.mark.parametrize(("zoom", "step", "count"), [(1.1, 0.01, 10), (1.3, 0.03, 10), (1.07, 0.02, 4), (2.0, 0.25, 4)])
def test_zoom_blur_is_a_mean_of_magnified_images(shape, zoom, step, count):
    image = photo(1, shape)
    total = 2.0 * image[0]
    for place in range(1, count + 1):
        factor = 1 + (zoom - 1) * place / count
        inner = [math.ceil(round(size / factor, 6)) for size in shape[:2]]
        outer = [max(size, round(part * factor)) for size, part in zip(shape[:2], inner, strict=True)]
        top, left = ((size - part) // 2 for size, part in zip(shape[:2], inner, strict=True))
        down, right = ((part - size) // 2 for size, part in zip(shape[:2], outer, strict=True))
        middle = image[0, top : top + inner[0], left : left + inner[1]]
        there = [np.linspace(0, few - 1, many) if many > 1 else np.zeros(1) for few, many in zip(inner, outer, strict=True)]
        grid = np.meshgrid(there[0][down : down + shape[0]], there[1][right : right + shape[1]], indexing="ij")
        channels = [ndimage.map_coordinates(one / 1.0, grid, order=1, mode="nearest") for one in np.moveaxis(middle, -1, 0)]
        total += np.stack(channels, -1)
    found = corrupted(ZoomBlur(zoom=zoom, step=step), image)[0]
    assert np.abs(found - total / (count + 2)).max() <= SINGLE


def test_glass_swaps_pixels_with_near_ones():
    places = swapped_places([3, 4], 30, 41, 2, 1)
    assert (np.sort(places, axis=1) == np.arange(30 * 41)).all()  # swapped, so that none is lost
    rows, columns = np.divmod(places, 41)
    away = np.abs(rows - np.arange(30 * 41) // 41), np.abs(columns - np.arange(30 * 41) % 41)
    moved = (places != np.arange(30 * 41)).mean()
    assert 0.5 < moved < 1
    for distance in away:
        assert 0 < distance.mean() < 3
    assert (places[0] != places[1]).any()
    assert (swapped_places([4], 30, 41, 2, 1)[0] == places[1]).all()


def test_glass_moves_pixels_less_far_the_smaller_the_reach_and_the_fewer_the_rounds():
    def mean_move(max_delta: int, iterations: int) -> float:
        places = swapped_places(range(5), 40, 40, max_delta, iterations)
        return float(np.abs(places // 40 - np.arange(1600) // 40).mean())

    assert mean_move(1, 1) < mean_move(2, 1) < mean_move(4, 1)
    assert mean_move(2, 1) < mean_move(2, 3)


def test_glass_is_a_blur_of_swapped_pixels_of_a_blur():
    images = photo(2, (33, 35, 3))
    transform = GlassBlur(severity=5)
    params = drawn(transform, images)[0]
    smooth = corrupted(GaussianBlur(sigma=params["sigma"]), images[:1])
    places = swapped_places([params["noise_seed"]], 33, 35, params["max_delta"], params["iterations"])[0]
    swapped = smooth.reshape(-1, 3)[places].reshape(smooth.shape)
    assert (corrupted(transform, images)[0] == corrupted(GaussianBlur(sigma=params["sigma"]), swapped)[0]).all()


def test_an_image_smaller_than_the_swaps_is_blurred_alone():
    assert (swapped_places([1], 3, 2, 4, 2) == np.arange(6)).all()


@pytest.mark.parametrize("cls", BLURS, ids=lambda cls: cls.name)
@pytest.mark.parametrize("side", [32, 128])
def test_a_higher_severity_is_more_blur(cls, side):
    assert all(after >= before for before, after in pairwise(distances(cls, photo(3, (side, side, 3)))))


def test_higher_severities_of_glass_are_stronger_where_the_published_ones_are():
    """Below 96 pixels CIFAR-10-C's severity 2 is its 1 (a blur of 0.25 pixels is none), and 3 blurs before it swaps."""
    assert distances(GlassBlur, photo(3, (128, 128, 3))) == sorted(distances(GlassBlur, photo(3, (128, 128, 3))))


@pytest.mark.parametrize("cls", [*BLURS, GlassBlur], ids=lambda cls: cls.name)
def test_one_colour_stays_as_it_is_and_alpha_is_blurred_like_the_colours(cls):
    flat = np.full((1, 40, 30, 4), (0, 255, 77, 128), np.uint8)
    assert (corrupted(cls(severity=5), flat) == flat).all()
    images = np.repeat(photo(1, (40, 30, 1)), 4, axis=-1)
    found = corrupted(cls(severity=5), images)
    assert (found == found[..., :1]).all()
    assert (found != images).any()


@pytest.mark.parametrize("sigma", [0.2, 1.0, 6.0, 60.0, 250.0])
def test_weights_are_exact_in_float32(sigma):
    """Every row of the matrix sums to 1 in multiples of 2^-12, so that the order of a sum plays no part."""
    band = gaussian_band(300, sigma).astype(float) * 4096
    assert (band == np.rint(band)).all()
    assert (band.sum(1) == 4096).all()
    assert (band >= 0).all()
    smooth = gaussian_smooth(grey_noise(1, (40, 50, 1)), sigma).astype(float) * (1 << 16)
    assert (smooth == np.rint(smooth)).all()


def test_rounded_weights_have_the_sum_of_the_exact_ones():
    kernel = np.exp(-np.arange(200) / 90)
    weights = whole_weights(kernel, 4096)
    assert weights.sum() == 1
    assert np.abs(np.cumsum(weights) - np.cumsum(kernel / kernel.sum())).max() <= 0.5 / 4096 + 1e-12


def test_the_published_strength_is_the_same_case_as_its_severity():
    images = photo(3, (100, 100, 3))
    published = [(GaussianBlur, 3), (DefocusBlur, 6), (MotionBlur, 30), (ZoomBlur, 1.2)]
    for cls, given in published:
        assert drawn(cls(severity=3), images) == drawn(cls(**{cls.strength: given}), images)

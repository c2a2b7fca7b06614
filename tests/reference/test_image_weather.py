"""Weather against its written definition, computed in float64 from the same noise.

Tolerance, in grey levels: 0.5 for rounding and 0.05 for float32; fog one level, for its finest clouds are interpolated.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from corrupting import corrupted, distances, drawn
from image_samples import grey_noise, photo
from scipy import ndimage

from aitest_lib.transforms.image.fields import bits, coarse_plasma, diamond_square, normal, plasma, uniform
from aitest_lib.transforms.image.smoothing import smeared
from aitest_lib.transforms.image.weather import Fog, Frost, Snow, Spatter, snow_layer

WEATHERS = [Fog, Snow, Frost, Spatter]
TOLERANCE = 0.5 + 0.05
LUMA = np.array([0.299, 0.587, 0.114])


def seeds(transform, images) -> list[int]:
    return [one["noise_seed"] for one in drawn(transform, images)]


def plasma_by_the_book(noise: np.ndarray, levels: int, decay: float) -> np.ndarray:
    """Diamond-square one point at a time: squares, then diamonds, then half the step and a weaker noise."""
    size = 1 << levels
    points = np.zeros((size, size))
    step, strength = size, 1.0
    while step > 1:
        half, count = step // 2, size // step
        fresh = noise[count * count : 4 * count * count].reshape(3, count, count) * strength

        def mean(row: int, column: int, *around: tuple[int, int]) -> float:
            return sum(points[(row + down) % size, (column + right) % size] for down, right in around) / 4

        corners = [(sign * half, other * half) for sign in (-1, 1) for other in (-1, 1)]
        sides = [(-half, 0), (half, 0), (0, -half), (0, half)]
        cells = [(row, column) for row in range(count) for column in range(count)]
        for row, column in cells:
            at = row * step + half, column * step + half
            points[at] = mean(*at, *corners) + fresh[0, row, column]
        for row, column in cells:
            at = row * step, column * step + half
            points[at] = mean(*at, *sides) + fresh[1, row, column]
            at = row * step + half, column * step
            points[at] = mean(*at, *sides) + fresh[2, row, column]
        step, strength = half, strength / decay**2
    return points


@pytest.mark.parametrize("decay", [1.0, 1.4, 3.0])
def test_diamond_square_is_the_algorithm(decay):
    noise = uniform(bits([5, 6], (32 * 32,))).astype(float)
    for found, own in zip(diamond_square([5, 6], 5, decay), noise, strict=True):
        assert np.abs(found - plasma_by_the_book(own, 5, decay)).max() < 1e-5


@pytest.mark.parametrize("decay", [1.4, 1.7, 2.5])
def test_clouds_that_are_interpolated_are_those_of_the_full_algorithm(decay):
    """The levels that are left out are noise below half a grey level of the thickest fog, 3/4 of the range."""
    coarse, step = coarse_plasma([1, 2, 3], 100, 60, decay)
    full = diamond_square([1, 2, 3], 7, decay)
    kept = full[:, ::step, ::step]
    low, high = (edge(axis=(1, 2), keepdims=True) for edge in (kept.min, kept.max))
    assert np.abs(coarse - (kept - low) / (high - low)).max() < 1e-5
    clouds = plasma([1, 2, 3], 100, 60, decay)
    missed = 255 * 0.75 * np.abs(clouds - ((full - low) / (high - low))[:, :100, :60])
    assert missed.mean() < 2
    assert (missed[:, ::step, ::step] < 0.01).all()


@pytest.mark.parametrize("shape", [(37, 50, 3), (128, 100, 1), (1, 1, 3), (2, 9, 4)], ids=str)
@pytest.mark.parametrize(("amount", "decay"), [(0.75, 2.5), (2.5, 1.7), (3.0, 1.4)])
def test_fog_is_what_it_says(shape, amount, decay):
    images = grey_noise(3, shape)
    images[1] //= 2
    transform = Fog(amount=amount, decay=decay)
    clouds = plasma(seeds(transform, images), *shape[:2], decay).astype(float)[..., None]
    colours = images[..., :3] / 255
    brightest = colours.max((1, 2, 3), keepdims=True)
    exact = 255 * (colours + amount * clouds) * brightest / (brightest + amount)
    assert np.abs(corrupted(transform, images)[..., :3] - exact).max() <= TOLERANCE


def test_clouds_fill_their_range():
    clouds = plasma(range(20), 64, 64, 1.7)
    assert clouds.min() == 0
    assert clouds.max() == pytest.approx(1)
    assert 0.3 < clouds.mean() < 0.7
    assert (clouds[0] != clouds[1]).any()


def test_fog_never_exceeds_the_brightest_and_leaves_black_black():
    images = np.concatenate([np.zeros((1, 40, 40, 3), np.uint8), np.minimum(photo(2, (40, 40, 3)), 90)])
    found = corrupted(Fog(amount=3.0), images)
    assert (found[0] == 0).all()
    assert found[1:].max() <= 90


def test_more_fog_is_the_same_fog_thicker():
    images = photo(2, (50, 50, 3))
    weak, strong = (drawn(Fog(amount=amount), images) for amount in (0.5, 2.0))
    assert [one | {"amount": 2.0} for one in weak] == strong


@pytest.mark.parametrize("shape", [(45, 61, 3), (45, 61, 1)], ids=str)
def test_snow_is_what_it_says(shape):
    images = photo(2, shape)
    transform = Snow(severity=4)
    params = drawn(transform, images)
    values = {name: params[0][name] for name in Snow.values}
    layer = snow_layer([one["noise_seed"] for one in params], shape[:2], values)
    flakes = smeared(layer, [one["angle"] for one in params], values["length"], values["sigma"]) / 255
    x = images / 255
    grey = x if shape[2] == 1 else (x @ LUMA)[..., None]
    exact = values["keep"] * x + (1 - values["keep"]) * np.maximum(x, 1.5 * grey + 0.5) + flakes + flakes[:, ::-1, ::-1]
    assert np.abs(corrupted(transform, images) - 255 * exact.clip(0, 1)).max() <= TOLERANCE
    assert all(-135 <= one["angle"] <= -45 for one in params)


def test_flakes_are_magnified_noise_above_a_threshold():
    values = {"mean": 0.3, "sd": 0.3, "zoom": 1.0, "threshold": 0.65}
    exact = 0.3 + 0.3 * normal(bits([1, 2], (40, 50))).astype(float)
    exact = np.where(exact < 0.65, 0, exact).clip(0, 1)
    assert np.abs(snow_layer([1, 2], (40, 50), values)[..., 0] - 255 * exact).max() <= TOLERANCE
    lumps = [
        ndimage.label(snow_layer([1], (120, 120), values | {"zoom": zoom})[0, ..., 0])[0].max() for zoom in (1.0, 2.0, 4.0)
    ]
    assert lumps[0] > 2 * lumps[1] > 4 * lumps[2] > 0


def test_frost_lays_ice_over_the_image():
    images = np.concatenate([np.zeros((1, 64, 64, 3), np.uint8), np.full((1, 64, 64, 3), 100, np.uint8)])
    params = drawn(Frost(severity=3), images[:1])[0]
    ice = Frost().apply(images[:1], [params | {"keep": 1.0, "ice": 1.0}])[0].astype(float)
    assert 60 < ice.mean() < 160
    assert ice.std() > 20
    assert (ice[..., 2] >= ice[..., 0]).all()  # bluish
    found = Frost().apply(images[1:], [params])[0]
    assert np.abs(found - (params["keep"] * 100 + params["ice"] * ice).clip(0, 255)).max() <= 1


@pytest.mark.parametrize("side", [32, 128])
def test_water_brightens_and_mud_darkens_where_drops_are(side):
    images = np.full((3, side, side, 3), 100, np.uint8)
    for severity in (2, 3, 4, 5):
        found = corrupted(Spatter(severity=severity), images).astype(int)
        changed = (found != 100).any(-1)
        assert 0.005 < changed.mean() < 0.5, severity
        assert (found >= 100).all() if severity <= 3 else (found <= 100).all()
    assert (found[changed][:, 0] >= found[changed][:, 2]).all()  # brown
    lumps = ndimage.label(changed[0])[1]
    assert lumps < changed[0].sum() / 2  # drops, not single pixels


def test_spatter_without_a_drop_changes_nothing():
    images = photo(2, (30, 30, 3))
    params = [one | {"threshold": 9.0} for one in drawn(Spatter(severity=1), images)]
    assert (Spatter().apply(images, params) == images).all()
    assert (Spatter().apply(images, [one | {"mud": 1} for one in params]) == images).all()


@pytest.mark.parametrize("cls", WEATHERS, ids=lambda cls: cls.name)
@pytest.mark.parametrize("side", [32, 128])
def test_a_higher_severity_is_more_weather(cls, side):
    """Mud shows on light images, the rest on dark ones: on light ones ice and fog take as much light as they bring."""
    images = photo(8, (side, side, 3)) // 3
    images = 255 - images if cls is Spatter else images
    slack = 0.1 if cls in (Fog, Frost) else 0  # the constants trade amount for texture: fog from 3 to 4, frost wherever it dims
    assert all(after >= before * (1 - slack) for before, after in pairwise(distances(cls, images)))


@pytest.mark.parametrize("cls", WEATHERS, ids=lambda cls: cls.name)
def test_weather_leaves_alpha_alone_and_grey_grey(cls):
    images = photo(2, (64, 64, 4))
    assert (corrupted(cls(severity=5), images)[..., 3] == images[..., 3]).all()
    assert corrupted(cls(severity=5), images[..., :1]).shape == (2, 64, 64, 1)
    one, other = corrupted(cls(severity=3), np.repeat(images[:1], 2, axis=0))
    assert (one != other).any()  # each image has its own weather


def test_the_published_strength_is_the_same_case_as_its_severity():
    images = photo(3, (100, 100, 3))
    assert drawn(Fog(severity=3), images) == drawn(Fog(amount=2.5), images)

"""Elastic deformation, pixelation and JPEG against SciPy and Pillow. Tolerance, in grey levels: stated where it is not 0."""

from __future__ import annotations

import io
from itertools import pairwise

import numpy as np
import pytest
from corrupting import corrupted, distances, drawn
from image_samples import grey_noise, photo
from PIL import Image
from scipy import ndimage

from aitest_lib.errors import InputError
from aitest_lib.transforms.image.digital import Elastic, Jpeg, Pixelate, displaced, smoothed
from aitest_lib.transforms.image.fields import bits, uniform


@pytest.mark.parametrize("sigma", [1.0, 2.0, 9.0, 200.0])
def test_displacements_are_smoothed_like_scipys(sigma):
    fields = np.random.default_rng(0).uniform(-1, 1, (2, 40, 57))
    exact = ndimage.gaussian_filter(fields, (0, sigma, sigma), mode="reflect", truncate=6)
    assert np.abs(smoothed(fields, sigma) - exact).max() < 0.02 / sigma  # SciPy's weights are samples of a Gaussian


def test_pixels_come_from_where_the_affine_map_and_the_noise_say():
    height, width, alpha, sigma, affine = 30, 44, 0.1, 0.05, 0.08
    random = uniform(bits([7], (6 + 2 * height * width,)))[0].astype(float)
    points = np.array([[10.0, 10.0], [10.0, -10.0], [-10.0, -10.0]])
    moved = points + random[:6].reshape(3, 2) * affine * 30
    noise = random[6:].reshape(2, height, width)
    right, down = (ndimage.gaussian_filter(one, sigma * 30, mode="reflect", truncate=6) * alpha * 30 for one in noise)
    # The affine map by least squares from the moved points to the points, one coordinate at a time.
    rows = np.hstack([moved, np.ones((3, 1))])
    to_x, to_y = (np.linalg.lstsq(rows, points[:, axis], rcond=None)[0] for axis in (0, 1))
    y, x = np.mgrid[:height, :width]
    here = np.stack([x - 21.5 + right, y - 14.5 + down, np.ones((height, width))], -1)
    found = displaced([7], (height, width), alpha, sigma, affine)[0]
    assert np.abs(found - np.stack([here @ to_x + 21.5, here @ to_y + 14.5], -1)).max() < 0.01


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("size", [(33, 47), (100, 120)], ids=str)
def test_elastic_is_one_bilinear_sampling_with_mirrored_borders(severity, size, channels):
    images = photo(2, (*size, channels))
    params = drawn(Elastic(severity=severity), images)
    values = [params[0][name] for name in Elastic.values]
    places = displaced([one["noise_seed"] for one in params], size, *values)
    for image, there, found in zip(images, places, corrupted(Elastic(severity=severity), images), strict=True):
        grid = [there[..., 1], there[..., 0]]
        exact = [ndimage.map_coordinates(one / 1.0, grid, order=1, mode="reflect") for one in np.moveaxis(image, -1, 0)]
        assert np.abs(found - np.stack(exact, -1)).max() <= 0.5 + 0.1  # coordinates in float32


def test_elastic_moves_by_as_much_as_it_says():
    def moves(alpha: float, sigma: float, affine: float) -> float:
        y, x = np.mgrid[:60, :60]
        return float(np.abs(displaced(range(5), (60, 60), alpha, sigma, affine) - np.stack([x, y], -1)).mean())

    assert moves(0, 0.1, 0) < 1e-9
    assert moves(0.1, 0.02, 0) == pytest.approx(2 * moves(0.05, 0.02, 0))
    assert moves(0.1, 0.1, 0) < moves(0.1, 0.02, 0)
    assert 0.3 < moves(0, 0.1, 0.02) < moves(0, 0.1, 0.1) < 6


@pytest.mark.parametrize("shape", [(224, 160, 3), (32, 32, 1), (17, 5, 3), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("factor", [0.95, 0.6, 0.3, 0.01])
def test_pixelate_is_pillows_box_filter_down_and_up(shape, factor):
    image = grey_noise(1, shape)
    size = max(1, int(round(shape[1] * factor, 6))), max(1, int(round(shape[0] * factor, 6)))
    picture = Image.fromarray(image[0].squeeze(-1) if shape[2] == 1 else image[0])
    exact = picture.resize(size, Image.Resampling.BOX).resize((shape[1], shape[0]), Image.Resampling.BOX)
    found = corrupted(Pixelate(block=1 / factor), image)[0]
    assert (found == np.asarray(exact).reshape(shape)).all()


def test_blocks_have_the_mean_of_their_pixels():
    image = grey_noise(1, (12, 20, 4))
    means = image[0].reshape(3, 4, 5, 4, 4).mean((1, 3))
    found = corrupted(Pixelate(block=4), image)[0].reshape(3, 4, 5, 4, 4)
    assert (found == found[:, :1, :, :1]).all()
    assert np.abs(found[:, 0, :, 0] - means).max() < 1  # Pillow rounds after each direction


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("quality", [7, 80])
def test_jpeg_is_pillows(channels, quality):
    image = photo(1, (45, 38, channels))
    colours = image[0, ..., :3].squeeze(-1) if channels == 1 else image[0, ..., :3]
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(colours)).save(file, "JPEG", quality=quality)
    found = corrupted(Jpeg(quality=quality), image)[0]
    assert (found[..., :3].squeeze() == np.asarray(Image.open(file))).all()
    if channels == 4:
        assert (found[..., 3] == image[0, ..., 3]).all()


@pytest.mark.parametrize("cls", [Pixelate, Jpeg], ids=lambda cls: cls.name)
@pytest.mark.parametrize("side", [32, 128])
def test_a_higher_severity_is_more_damage(cls, side):
    images = grey_noise(4, (side, side, 3))  # blocks of 1.1 and 1.2 pixels may miss what edges a picture has
    assert all(after > before for before, after in pairwise(distances(cls, images)))


def test_the_last_three_severities_of_elastic_grow():
    """The published constants: 1 and 2 move the whole image; below 96 pixels the affine map weakens as the rest grows."""
    found = distances(Elastic, photo(4, (128, 128, 3)))
    assert found[2] < found[3] < found[4]


def test_the_published_strength_is_the_same_case_as_its_severity():
    images = photo(2, (100, 100, 3))
    assert drawn(Jpeg(severity=3), images) == drawn(Jpeg(quality=15), images)
    assert drawn(Pixelate(severity=2), images) == drawn(Pixelate(block=2), images)
    elastic = dict(zip(Elastic.values, (0.05, 0.01, 0.02), strict=True))
    assert drawn(Elastic(severity=3), images) == drawn(Elastic(**elastic), images)


def test_severity_and_strength_together_are_refused():
    with pytest.raises(InputError, match="quality"):
        Jpeg(severity=2, quality=30)

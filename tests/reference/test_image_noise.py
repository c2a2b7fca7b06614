"""Noise against its definition, computed in float64 from the same random bits, and its statistics.

Tolerance: the output is the unrounded reference rounded, give or take 0.01 grey levels, which is what float32 costs.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from corrupting import corrupted, distances, drawn
from image_samples import grey_noise, photo
from scipy import stats

from aitest_lib.transforms.image.fields import bits, normal, uniform
from aitest_lib.transforms.image.noise import GaussianNoise, ImpulseNoise, ShotNoise, SpeckleNoise

TOLERANCE = 0.5 + 0.01
NOISES = [GaussianNoise, SpeckleNoise, ShotNoise, ImpulseNoise]
every_noise = pytest.mark.parametrize("cls", NOISES, ids=lambda cls: cls.name)


def quantiles_of(cls, images: np.ndarray, parts: int = 1 << 16) -> np.ndarray:
    """Where the random bits of each pixel lie between 0 and 1: the middle of one of so many parts."""
    made = bits([one["noise_seed"] for one in drawn(cls(), images)], images.shape[1:]).astype(np.int64)
    return (made * parts // (1 << 16) + 0.5) / parts


def level(value: int, size: int = 200) -> np.ndarray:
    return np.full((1, size, size, 3), value, np.uint8)


@pytest.mark.parametrize("sigma", [0.04, 0.38, 3.0])
def test_gaussian_noise_is_what_it_says(sigma):
    images = grey_noise(3, (17, 23, 3))
    exact = images / 255 + sigma * stats.norm.ppf(quantiles_of(GaussianNoise, images))
    assert np.abs(corrupted(GaussianNoise(sigma=sigma), images) - 255 * exact.clip(0, 1)).max() <= TOLERANCE


@pytest.mark.parametrize("sigma", [0.06, 0.6])
def test_speckle_noise_is_what_it_says(sigma):
    images = grey_noise(3, (17, 23, 3))
    exact = images / 255 * (1 + sigma * stats.norm.ppf(quantiles_of(SpeckleNoise, images)))
    assert np.abs(corrupted(SpeckleNoise(sigma=sigma), images) - 255 * exact.clip(0, 1)).max() <= TOLERANCE


@pytest.mark.parametrize("photons", [3, 60, 500, 20_000])
def test_shot_noise_counts_photons(photons):
    images = grey_noise(2, (31, 33, 1))
    counted = stats.poisson.ppf(quantiles_of(ShotNoise, images, 4096), images / 255 * photons)
    exact = (counted / photons).clip(0, 1)
    assert np.abs(corrupted(ShotNoise(sigma=photons**-0.5), images) - 255 * exact).max() <= TOLERANCE


def test_impulse_noise_replaces_the_share_that_it_says():
    images = level(100)
    found = corrupted(ImpulseNoise(amount=0.27), images)
    assert set(np.unique(found)) == {0, 100, 255}
    for extreme in (0, 255):
        assert stats.binomtest(int((found == extreme).sum()), found.size, 0.135).pvalue > 1e-3
    assert set(np.unique(corrupted(ImpulseNoise(amount=1.0), images))) == {0, 255}


@pytest.mark.parametrize("sigma", [0.05, 0.1])
def test_gaussian_noise_has_the_mean_and_the_deviation_that_it_says(sigma):
    noise = corrupted(GaussianNoise(sigma=sigma), level(128)).astype(float) - 128
    rounding = 1 / 12  # of a grey level squared
    assert abs(noise.mean()) < 4 * 255 * sigma / np.sqrt(noise.size)
    assert noise.std() == pytest.approx(np.sqrt((255 * sigma) ** 2 + rounding), rel=0.01)
    assert stats.kstest(noise.ravel()[::7] + np.linspace(-0.5, 0.5, noise.size)[::7], "norm", (0, 255 * sigma)).pvalue > 1e-3


def test_shot_noise_has_the_mean_and_the_deviation_of_counted_photons():
    for value in (20, 128, 180):
        noise = corrupted(ShotNoise(sigma=0.05), level(value)).astype(float)
        sd = np.sqrt(value * 255 * 0.05**2)
        assert abs(noise.mean() - value) < 4 * sd / np.sqrt(noise.size) + 0.02
        assert noise.std() == pytest.approx(sd, rel=0.02)


def test_speckle_noise_grows_with_the_light():
    sds = [corrupted(SpeckleNoise(sigma=0.1), level(value)).astype(float).std() for value in (0, 50, 100)]
    assert sds[0] == 0
    assert sds[1:] == pytest.approx([5, 10], rel=0.02)


def test_the_random_bits_are_even_and_independent():
    first, second = bits([1, 2], (400, 400)).astype(np.int64)
    for field in (first, second):
        counts = np.bincount((field >> 8).ravel(), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-3
        assert stats.chisquare(np.bincount((field & 255).ravel(), minlength=256)).pvalue > 1e-3
    limit = 4 / np.sqrt(first.size)
    for one, other in ((first, second), (first[1:], first[:-1]), (first[:, 1:], first[:, :-1]), (first[:, 4:], first[:, :-4])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < limit


def test_neighbouring_seeds_have_nothing_in_common():
    fields = bits([7, 8, 7 + (1 << 32), (1 << 63) - 1, 0], (100, 100)).reshape(5, -1)
    correlations = np.corrcoef(fields.astype(float))[np.triu_indices(5, 1)]
    assert np.abs(correlations).max() < 4 / 100


def test_the_first_bits_of_neighbouring_seeds_are_even():
    """What images of a single pixel get."""
    first = bits(range(20_000), (1,)).ravel()
    for part in (first >> 8, first & 255):
        assert stats.chisquare(np.bincount(part, minlength=256)).pvalue > 1e-3
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 4 / np.sqrt(len(first))


def test_numbers_made_of_bits_cover_their_range():
    every = np.arange(1 << 16, dtype=np.uint16)
    assert uniform(every).min() == -uniform(every).max() == pytest.approx(-1, abs=1e-4)
    assert normal(every).mean() == pytest.approx(0, abs=1e-6)
    assert normal(every).std() == pytest.approx(1, abs=1e-4)


@every_noise
@pytest.mark.parametrize("side", [32, 96])
def test_a_higher_severity_is_more_noise(cls, side):
    assert all(after > before for before, after in pairwise(distances(cls, photo(3, (side, side, 3)))))


@every_noise
def test_noise_leaves_alpha_alone_and_gives_each_colour_its_own(cls):
    images = np.concatenate([np.full((2, 20, 20, 3), 128, np.uint8), grey_noise(2, (20, 20, 1))], axis=-1)
    found = corrupted(cls(severity=5), images)
    assert (found[..., 3] == images[..., 3]).all()
    assert (found[..., 0] != found[..., 1]).any()
    assert (found[0] != found[1]).any()


def test_the_published_strength_is_the_same_case_as_its_severity():
    images = photo(2, (40, 40, 3))
    for cls, given in ((GaussianNoise, 0.08), (SpeckleNoise, 0.12), (ShotNoise, 100**-0.5), (ImpulseNoise, 0.03)):
        assert drawn(cls(severity=3), images) == drawn(cls(**{cls.strength: given}), images)

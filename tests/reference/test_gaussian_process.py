"""The posterior against GPyTorch's exact one, and expected improvement against its closed form."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from aitest_lib.searches.image.gaussian_process import GRID, GaussianProcess, Hyperparameters, fitted, likeliest

torch = pytest.importorskip("torch")
MIXED = Hyperparameters(linear=0.5, length=1.0, noise=1e-3)


def evidence(count: int = 24, size: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points of about unit length, rewards that are neither linear nor constant, and points to ask about."""
    rng = np.random.default_rng(seed)
    points = rng.choice([-1.0, 1.0], (count + 40, size)) / np.sqrt(size)
    rewards = 5 * np.sin(3 * points[:count] @ rng.normal(size=size)) + points[:count, 0] - 7
    return points[:count], rewards, points[count:]


def by_gpytorch(
    process: GaussianProcess, points: np.ndarray, rewards: np.ndarray, asked: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What BoTorch's SingleTaskGP makes of it, with the same hyperparameters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from botorch.models import SingleTaskGP
        from gpytorch.kernels import LinearKernel, MaternKernel, ScaleKernel
        from gpytorch.means import ZeroMean

        hyper, scale = process.hyper, process.variance
        matern, linear = ScaleKernel(MaternKernel(nu=2.5)), LinearKernel()
        matern.outputscale, matern.base_kernel.lengthscale = (1 - hyper.linear) * scale, hyper.length
        linear.variance = hyper.linear * scale
        diagonal = hyper.linear * np.square(points).sum(axis=1) + 1 - hyper.linear
        noise = np.full((len(points), 1), (hyper.noise * diagonal.mean() + 1e-6) * scale)
        standard = (rewards - rewards.mean()) / rewards.std()
        model = SingleTaskGP(
            *(torch.from_numpy(part) for part in (points, standard[:, None], noise)),
            covar_module=matern + linear,
            mean_module=ZeroMean(),
            outcome_transform=None,
        ).eval()
        with torch.no_grad():
            posterior = model.posterior(torch.from_numpy(asked).unsqueeze(-2))
            mean, variance = (part.reshape(-1).numpy() for part in (posterior.mean, posterior.variance))
    return rewards.mean() + rewards.std() * mean, rewards.var() * variance


@pytest.mark.parametrize(
    "hyper", [MIXED, Hyperparameters(linear=0.9, length=4.0, noise=3e-2), Hyperparameters(linear=0.0, length=0.5, noise=3e-4)]
)
def test_the_posterior_is_that_of_single_task_gp(hyper):
    points, rewards, asked = evidence()
    process = fitted(points, rewards, hyper)
    mean, variance = process.predict(asked)
    expected = by_gpytorch(process, points, rewards, asked)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-5)
    np.testing.assert_allclose(variance, expected[1], rtol=1e-5)
    assert np.ptp(mean) > 1  # the rewards have taught it something


def test_single_precision_is_near_enough():
    points, rewards, asked = evidence()
    mean, variance = fitted(points, rewards, MIXED).predict(asked)
    rough = fitted(points.astype(np.float32), rewards, MIXED).predict(asked.astype(np.float32))
    np.testing.assert_allclose(rough[0], mean, atol=1e-3 * rewards.std())
    np.testing.assert_allclose(rough[1], variance, atol=1e-3 * rewards.var())


def test_the_likeliest_hyperparameters_are_those_under_which_the_rewards_are_densest():
    points, rewards, _ = evidence()
    standard = (rewards - rewards.mean()) / rewards.std()

    def density(hyper: Hyperparameters) -> float:
        away = np.sqrt(5) * np.linalg.norm(points[:, None] - points, axis=2) / hyper.length
        kernel = hyper.linear * points @ points.T + (1 - hyper.linear) * (1 + away + away**2 / 3) * np.exp(-away)
        kernel += np.eye(len(points)) * (hyper.noise * kernel.diagonal().mean() + 1e-6)
        scale = standard @ np.linalg.solve(kernel, standard) / len(points)  # the likeliest
        return float(multivariate_normal(cov=kernel * scale).logpdf(standard))

    found, hyper = likeliest(points, rewards)
    densities = [density(one) for one in GRID]
    assert hyper == GRID[int(np.argmax(densities))]
    constant = len(points) / 2 * (1 + np.log(2 * np.pi))
    assert found == pytest.approx(max(densities) + constant, abs=1e-4)


def test_the_gradient_is_the_slope_of_the_mean():
    points, rewards, asked = evidence()
    process = fitted(points, rewards, Hyperparameters(linear=0.5, length=0.8, noise=1e-3))
    step = 1e-5
    slopes = [
        (process.predict((asked[0] + side)[None])[0][0] - process.predict((asked[0] - side)[None])[0][0]) / (2 * step)
        for side in np.eye(points.shape[1]) * step
    ]
    np.testing.assert_allclose(process.gradient(asked[0]) * rewards.std(), slopes, atol=1e-6)


def test_expected_improvement_of_a_batch_is_that_of_each_process():
    from aitest_lib.searches.image.botorch_model import log_expected_improvement

    made = [evidence(count, seed=count) for count in (5, 11, 24)]
    processes = [fitted(points, rewards, MIXED) for points, rewards, _ in made]
    found = log_expected_improvement(processes, [asked for *_, asked in made])
    for process, (_, rewards, asked), values in zip(processes, made, found, strict=True):
        mean, variance = process.predict(asked)
        spread = np.sqrt(variance)
        gain = (mean - rewards.max()) / spread
        np.testing.assert_allclose(np.exp(values), spread * (gain * norm.cdf(gain) + norm.pdf(gain)), rtol=1e-6, atol=1e-12)

"""Exact Gaussian processes of one image each, with hyperparameters from a grid, and what they expect of candidates.

Kernel: linear + Matern 5/2 on features of noise (`canvas.py`). A linear part alone is gradient estimation; the Matern part
knows that a network is no plane. NumPy and LAPACK, image by image, so that no result depends on which others are computed
with it; the acquisition is BoTorch's (`botorch_model.py`).
Rasmussen & Williams, Gaussian Processes for Machine Learning, 2006, algorithm 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
JITTER = 1e-6
FLOOR = 1e-3  # smallest variance of standardized rewards: where all are alike, what is unknown is still worth something


@dataclass(frozen=True)
class Hyperparameters:
    """`linear`: share of the linear kernel, the rest is Matern's; `length`: its length scale; `noise`: variance of the noise,
    of the prior variance of the rewards."""

    linear: float
    length: float
    noise: float


GRID = tuple(Hyperparameters(*one) for one in product((0.0, 0.5, 0.9), (1.0, 2.0, 4.0), (3e-4, 1e-2)))


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """A posterior given n rewards at `points` (n, d).

    `weights` (n,) so that the mean is kernel @ weights; `root` (n, n) so that root.T @ root inverts the kernel matrix;
    `variance`: what kernel values are multiplied with; `mean`, `deviation`, `goal`: mean, standard deviation and largest of
    the rewards.
    """

    hyper: Hyperparameters
    points: Floats
    weights: Doubles
    root: Doubles
    variance: float
    mean: float
    deviation: float
    goal: float

    def predict(self, points: Floats) -> tuple[Doubles, Doubles]:
        """Mean and variance of the reward at m points (m, d): (m,), (m,), without noise."""
        squares = _squares(points)
        kernel = _kernel(points @ self.points.T, squares, _squares(self.points), self.hyper)
        prior = self.hyper.linear * squares + 1 - self.hyper.linear
        explained = np.square(kernel @ self.root.T).sum(axis=1)
        variance = np.maximum(prior - explained, JITTER) * self.variance * self.deviation**2
        return self.mean + self.deviation * (kernel @ self.weights), variance

    def gradient(self, point: Floats) -> Floats:
        """Of the mean of standardized rewards, with respect to the features: (d,)."""
        gaps = self.points - point
        away = np.sqrt(5 * _squares(gaps)) / self.hyper.length
        pull = 5 / 3 * (1 + away) * np.exp(-away) / self.hyper.length**2
        linear = self.hyper.linear
        return np.asarray(linear * (self.weights @ self.points) + (1 - linear) * ((self.weights * pull) @ gaps))


def fitted(points: Floats, rewards: Doubles, hyper: Hyperparameters) -> GaussianProcess:
    """The posterior given rewards (n,) at points (n, d); their mean and the variance of the kernel are estimated."""
    from scipy.linalg import lapack

    mean, deviation = float(rewards.mean()), float(rewards.std()) or 1.0
    standard = (rewards - mean) / deviation
    squares = _squares(points)
    kernel = _kernel(points @ points.T, squares, squares, hyper)
    _add_noise(kernel, hyper.noise)
    root, _ = lapack.dtrtri(np.linalg.cholesky(kernel), lower=1)
    halfway = root @ standard
    variance = max(float(halfway @ halfway) / len(rewards), FLOOR)
    return GaussianProcess(hyper, points, root.T @ halfway, root, variance, mean, deviation, float(rewards.max()))


def likeliest(points: Floats, rewards: Doubles) -> tuple[float, Hyperparameters]:
    """The log marginal likelihood (up to a constant) and the hyperparameters of the grid that give most of it."""
    standard = (rewards - rewards.mean()) / (rewards.std() or 1.0)
    squares = _squares(points)
    inner = points @ points.T
    kernels = np.stack([_kernel(inner, squares, squares, one) for one in GRID])
    for kernel, one in zip(kernels, GRID, strict=True):
        _add_noise(kernel, one.noise)
    lower = np.linalg.cholesky(kernels)
    halfway = np.linalg.solve(lower, np.broadcast_to(standard[:, None], (len(lower), len(standard), 1)))[..., 0]
    spread = np.maximum(np.square(halfway).mean(axis=1), FLOOR)
    logs = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
    likelihood = np.round(-len(standard) / 2 * np.log(spread) - logs, 6)
    best = int(likelihood.argmax())
    return float(likelihood[best]), GRID[best]


def _squares(points: Floats) -> Doubles:
    squares: Doubles = np.einsum("nd,nd->n", points, points).astype(np.float64)
    return squares


def _kernel(inner: Floats, squares: Doubles, others: Doubles, hyper: Hyperparameters) -> Doubles:
    """Kernel values from inner products (m, n) and squared lengths (m,), (n,)."""
    inner = inner.astype(np.float64)
    away = np.sqrt(np.maximum(squares[:, None] + others - 2 * inner, 0) * (5 / hyper.length**2))
    matern = (1 + away + away * away / 3) * np.exp(-away)
    kernel: Doubles = hyper.linear * inner + (1 - hyper.linear) * matern
    return kernel


def _add_noise(kernel: Doubles, noise: float) -> None:
    kernel[np.diag_indices(len(kernel))] += noise * kernel.diagonal().mean() + JITTER

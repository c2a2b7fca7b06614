"""Gaussian processes of many images as one batched model of BoTorch, and BoTorch's expected improvement on it.

Imported by the function that uses it: BoTorch is heavy.
Ament et al., Unexpected improvements to expected improvement for Bayesian optimization, NeurIPS 2023 (its logarithm).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from aitest_lib.searches.image.gaussian_process import Doubles, Floats, GaussianProcess

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from botorch.acquisition.analytic import LogExpectedImprovement
    from botorch.models.model import Model
    from botorch.posteriors.gpytorch import GPyTorchPosterior
    from gpytorch.distributions import MultivariateNormal  # type: ignore[import-untyped]
    from linear_operator.operators import DiagLinearOperator  # type: ignore[import-untyped]


class BatchedProcesses(Model):
    """B independent processes with a marginal posterior (q = 1): no covariance between points is ever computed."""

    def __init__(self, processes: Sequence[GaussianProcess]) -> None:
        super().__init__()
        self.processes = processes

    @property
    def num_outputs(self) -> int:
        """One: the reward."""
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        """(B, 1): every process has points of its own, one at a time."""
        return torch.Size([len(self.processes), 1])

    def posterior(self, X: torch.Tensor, *_: Any, **__: Any) -> GPyTorchPosterior:  # noqa: N803 (BoTorch's name)
        """Of the rewards at points (B, m, 1, d)."""
        found = [one.predict(points) for one, points in zip(self.processes, X.squeeze(-2).numpy(), strict=True)]
        means, variances = (torch.from_numpy(np.stack(part)).unsqueeze(-1) for part in zip(*found, strict=True))
        return GPyTorchPosterior(MultivariateNormal(means, DiagLinearOperator(variances)))


def log_expected_improvement(processes: Sequence[GaussianProcess], points: Sequence[Floats]) -> Doubles:
    """Of B processes, the logarithm of the expected improvement on their goals at m points each (B of (m, d)): (B, m)."""
    stacked = torch.from_numpy(np.stack(points)).unsqueeze(-2)
    goals = torch.tensor([one.goal for one in processes], dtype=torch.float64)[:, None, None]
    with torch.no_grad():
        values = LogExpectedImprovement(BatchedProcesses(processes), best_f=goals)(stacked)
    return np.asarray(values.reshape(len(processes), -1).numpy(), np.float64)

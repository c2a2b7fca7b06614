"""A small real classifier of images for tests: the nearest of ten mean digits, on the 8×8 scans that scikit-learn carries."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

TRAIN = 1200


@cache
def _pixels() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    found = load_digits()
    return np.round(found.images * 255 / 16).astype(np.uint8), found.target


def digits(n: int = 60) -> NDArray[np.uint8]:
    """Digits that the classifier has not seen, n×8×8×1."""
    return _pixels()[0][TRAIN : TRAIN + n, :, :, np.newaxis]


@cache
def centroids() -> NDArray[np.float64]:
    """The mean digits, 10×64, in 0..255."""
    images, labels = _pixels()
    flat = images.reshape(-1, 64).astype(float)[:TRAIN]
    return np.array([flat[labels[:TRAIN] == digit].mean(axis=0) for digit in range(10)])


def logits(pixels: NDArray[np.float64]) -> NDArray[np.float64]:
    """For pixels (n×8×8, in 0..255) the negative distances to the mean digits, up to a constant of the row: n×10."""
    flat = pixels.reshape(len(pixels), 64)
    means = centroids()
    return (2 * flat @ means.T - (means**2).sum(axis=1)) / 255**2


def classify(pixels: NDArray[np.float64]) -> list[int]:
    """The digits that pixels (n×8×8, in 0..255) show."""
    return logits(pixels).argmax(axis=1).tolist()


class DoubleModel:
    """The same classifier as a PyTorch module in double precision, which takes and gives float64."""

    def __init__(self) -> None:
        import torch

        self.classes_ = list(range(10))
        self._network = torch.nn.Linear(64, 10, dtype=torch.float64)
        means = torch.from_numpy(centroids())
        with torch.no_grad():
            self._network.weight.copy_(2 * means / 255**2)
            self._network.bias.copy_(-means.square().sum(dim=1) / 255**2)

    def predict(self, images: NDArray[np.uint8]) -> NDArray[np.int64]:
        """The digits on images n×8×8×1, uint8: (n,)."""
        return self.predict_proba(images).argmax(axis=1)

    def predict_proba(self, images: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Probabilities (n, 10) of images n×8×8×1, uint8."""
        import torch

        with torch.inference_mode():
            found = self._network(torch.from_numpy(images.reshape(len(images), 64).astype(np.float64)))
        return found.softmax(dim=1).numpy()

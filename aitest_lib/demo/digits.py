"""The image demonstration: handwritten digits and LeNet-5, trained where it is first used.

Data: LeCun, Y., Cortes, C. & Burges, C. The MNIST database of handwritten digits; see `data/README.md`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.demo.files import DATA, copied
from aitest_lib.errors import InputError

if TYPE_CHECKING:
    from torch import nn

CLASSES = tuple(range(10))
FILES = ("digits.yaml", "digits_suite.yaml", "digits_test.npz")
SIDE = 28
EPOCHS, BATCH, RATE, DECAY = 12, 64, 5e-3, 1e-4
CHUNK = 256  # images asked at once: what a forward pass needs stays in the caches

Images = NDArray[np.uint8]


class DigitsModel:
    """LeNet-5 (LeCun, Bottou, Bengio, Haffner 1998) with rectifiers and max pooling, trained on `digits_train.npz`.

    `weights`: an .npz file; where it is missing the model is trained (seconds, one thread, always the same) and it is
    written, so that the next process need not train. Without it the model is trained and nothing is written.
    """

    def __init__(self, weights: str | None = None) -> None:
        self.classes_ = list(CLASSES)
        path = None if weights is None else Path(weights)
        if path is not None and path.exists():
            self._network = _restored(path)
            return
        with np.load(DATA / "digits_train.npz") as train:
            self._network = trained(train["x"], train["y"])
        if path is not None:
            _keep(self._network, path)

    def predict(self, images: Images) -> NDArray[np.int64]:
        """The digit on each of n images (n, 28, 28, 1), uint8: (n,)."""
        digits: NDArray[np.int64] = np.argmax(self.predict_proba(images), axis=1)
        return digits

    def predict_proba(self, images: Images) -> NDArray[np.float64]:
        """Probabilities (n, 10) in the order of `classes_`."""
        import torch

        if images.dtype != np.uint8 or images.shape[1:] != (SIDE, SIDE, 1):
            raise InputError(
                f"got images of shape {images.shape} and type {images.dtype}, expected (n, {SIDE}, {SIDE}, 1) and uint8"
            )
        with _one_thread(), torch.inference_mode():
            parts = [self._network(_scaled(images[at : at + CHUNK])) for at in range(0, max(len(images), 1), CHUNK)]
            scores = torch.cat(parts).double().softmax(dim=1)
        return np.asarray(scores.numpy())


def lenet() -> nn.Sequential:
    """The untrained network: float32 (n, 1, 28, 28) in 0..1 to logits (n, 10); 61,706 parameters."""
    from torch import nn

    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )


def trained(x: Images, y: NDArray[np.int64], seed: int = 0) -> nn.Sequential:
    """The network trained on images (n, 28, 28) or (n, 28, 28, 1) with digits (n,): Adam, one cycle of the learning rate."""
    import torch

    with _one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network, inputs, targets = lenet(), _scaled(x.reshape(-1, SIDE, SIDE, 1)), torch.from_numpy(y)
        optimizer = torch.optim.Adam(network.parameters(), lr=RATE, weight_decay=DECAY)
        steps = EPOCHS * -(-len(y) // BATCH)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=RATE, total_steps=steps)
        for _ in range(EPOCHS):
            order = torch.randperm(len(y))
            for at in range(0, len(y), BATCH):
                rows = order[at : at + BATCH]
                loss = torch.nn.functional.cross_entropy(network(inputs[rows]), targets[rows])
                optimizer.zero_grad()
                torch.autograd.backward(loss)
                optimizer.step()
                schedule.step()
    return network.eval()


def demo_files(folder: Path) -> list[Path]:
    """Copies card, suite and data of the demonstration into `folder`; the model keeps its weights beside them."""
    return copied(FILES, folder)


def _scaled(images: Images) -> Any:
    """uint8 (n, height, width, 1) as a tensor (n, 1, height, width) in 0..1."""
    import torch

    return torch.from_numpy(np.moveaxis(images, 3, 1).astype(np.float32)).div_(255)


def _restored(path: Path) -> nn.Sequential:
    import torch

    network = lenet()
    with np.load(path) as kept:
        network.load_state_dict({name: torch.from_numpy(kept[name]) for name in kept})
    return network.eval()


def _keep(network: nn.Sequential, path: Path) -> None:
    """Writes the weights whole or not at all: another process may look for them at the same time."""
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".npz", delete=False) as file:
        np.savez(file, **{name: value.numpy() for name, value in network.state_dict().items()})
    Path(file.name).replace(path)


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread: always the same sums, and on so small a network more threads cost more than they bring."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

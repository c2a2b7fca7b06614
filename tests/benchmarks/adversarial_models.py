"""The images and the models of the benchmark `adversarial`: LeNet-5, the same trained adversarially, ResNet-20; and PGD."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from trees_models import SHARED

from aitest_lib.demo.digits import lenet, trained
from aitest_lib.demo.files import DATA

if TYPE_CHECKING:
    import torch

Images = NDArray[np.uint8]  # (n, height, width, channels)
Floats = NDArray[np.floating[Any]]
Labels = NDArray[np.int64]

FILES = {"mnist": "mnist_t10k.npz", "cifar": "cifar10_test1000.npz"}
RESNET = "cifar10_resnet20.onnx"
CHUNK = 64
ROBUST_DELTA = 0.3
EPOCHS, BATCH, RATE = 16, 64, 3e-3
RAMP = 0.5  # of the training: the ball grows up to there, else so small a network learns to answer one digit alone
TRAINING_STEPS = 5
STEPS, RESTARTS = 100, 8


class Model(Protocol):
    """Gives logits (n, classes) to floats in 0..1, (n, channels, height, width) float32."""

    def logits(self, x: Floats) -> Floats:
        """Those of a batch."""


@dataclass(frozen=True)
class Victims:
    """A model with images that it reads right: `labels` (n,); `places`: where in the file each is."""

    model: Model
    images: Images
    labels: Labels
    places: NDArray[np.int64]

    def first(self, count: int) -> Victims:
        """The first of them."""
        return Victims(self.model, self.images[:count], self.labels[:count], self.places[:count])


class Network:
    """A network of torch."""

    def __init__(self, network: torch.nn.Module) -> None:
        self.network = network.eval()

    def logits(self, x: Floats) -> Floats:
        """Those of a batch."""
        import torch

        with torch.inference_mode():
            return np.asarray(self.network(torch.from_numpy(np.ascontiguousarray(x, np.float32))).numpy())


class Onnx:
    """A network of onnxruntime, in one thread."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._input = self._session.get_inputs()[0].name

    def logits(self, x: Floats) -> Floats:
        """Those of a batch."""
        return np.asarray(self._session.run(None, {self._input: np.ascontiguousarray(x, np.float32)})[0])


def victims(kind: str, count: int, weights: Path | None) -> Victims | None:
    """The first images that the model of a kind (mnist, robust, cifar) reads right; None where the data is missing."""
    images = SHARED / FILES["cifar" if kind == "cifar" else "mnist"]
    needed = [images, SHARED / RESNET] if kind == "cifar" else [images]
    if missing := [path for path in needed if not path.exists()]:
        print(f"{kind} is left out: no {missing[0].name}; set AITEST_SHARED_DATA")
        return None
    with np.load(images) as data:
        x, y = data["x"], data["y"].astype(np.int64)
    x = x.reshape(*x.shape[:3], -1)
    model: Model = Onnx(SHARED / RESNET) if kind == "cifar" else Network(_network(kind, weights))
    found: list[int] = []
    for at in range(0, len(x), CHUNK):
        right = model.logits(floats(x[at : at + CHUNK])).argmax(axis=1) == y[at : at + CHUNK]
        found += (at + np.flatnonzero(right)).tolist()
        if len(found) >= count:
            break
    places = np.array(found[:count])
    return Victims(model, x[places], y[places], places)


def floats(images: Images) -> Floats:
    """uint8 (n, height, width, channels) as float32 (n, channels, height, width) in 0..1."""
    return np.moveaxis(images, 3, 1).astype(np.float32) / np.float32(255)


def encoded(x: Floats) -> Images:
    """Floats in 0..1 (n, channels, height, width) as they are stored: uint8 (n, height, width, channels)."""
    return np.moveaxis(np.clip(np.rint(x * 255), 0, 255).astype(np.uint8), 1, 3)


def scores(logits: Floats) -> NDArray[np.float64]:
    """Softmax of (n, classes)."""
    powers = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    shares: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _network(kind: str, weights: Path | None) -> torch.nn.Module:
    """Trained on the 5,000 digits of the demonstration; kept in the folder `weights` where there is one."""
    import torch

    kept = None if weights is None else weights / f"{kind}.pt"
    if kept is not None and kept.exists():
        network = lenet()
        network.load_state_dict(torch.load(kept))
        return network
    parts = [np.load(DATA / f"digits_{name}.npz") for name in ("train", "test")]
    x, y = (np.concatenate([part[name] for part in parts]) for name in ("x", "y"))
    network = trained(x, y) if kind == "mnist" else adversarially_trained(x[..., None], y, ROBUST_DELTA)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        torch.save(network.state_dict(), kept)
    return network


def adversarially_trained(x: Images, y: Labels, delta: float, seed: int = 0) -> torch.nn.Sequential:
    """LeNet-5 trained on PGD's images alone (Madry et al. 2018), in a ball that grows to `delta`."""
    import torch

    torch.manual_seed(seed)
    network, inputs, targets = lenet(), torch.from_numpy(floats(x)), torch.from_numpy(y)
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    total = EPOCHS * -(-len(y) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=RATE, total_steps=total, pct_start=0.3)
    done = 0
    for _ in range(EPOCHS):
        order = torch.randperm(len(y))
        for at in range(0, len(y), BATCH):
            rows = order[at : at + BATCH]
            radius = delta * min(1.0, done / (RAMP * total))
            worst = ascent(network, inputs[rows], targets[rows], radius, TRAINING_STEPS, 2.5 * radius / TRAINING_STEPS)
            optimizer.zero_grad()
            torch.autograd.backward(torch.nn.functional.cross_entropy(network(worst), targets[rows]))
            optimizer.step()
            schedule.step()
            done += 1
    return network.eval()


def ascent(
    network: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, radius: float, steps: int, size: float, carlini: bool = False
) -> torch.Tensor:
    """Projected gradient ascent from a random point of the ball, on the cross-entropy or on Carlini and Wagner's margin."""
    import torch

    low, high = (x - radius).clamp(min=0), (x + radius).clamp(max=1)
    at = low + torch.rand_like(x) * (high - low)
    for _ in range(steps):
        at.requires_grad_(True)
        logits = network(at)
        if carlini:
            own = logits.gather(1, y[:, None])[:, 0]
            others = logits.scatter(1, y[:, None], -torch.inf).amax(dim=1)
            loss = (others - own).sum()
        else:
            loss = torch.nn.functional.cross_entropy(logits, y, reduction="sum")
        (slope,) = torch.autograd.grad(loss, at)
        at = torch.minimum(torch.maximum(at.detach() + size * slope.sign(), low), high)
    return at


def pgd_broken(network: torch.nn.Module, images: Images, labels: Labels, radius: int) -> NDArray[np.bool_]:
    """Which images (n,) white-box PGD breaks within `radius` grey levels, as they are stored: after rounding to uint8."""
    import torch

    torch.manual_seed(0)
    x, y = torch.from_numpy(floats(images)), torch.from_numpy(labels)
    broken = np.zeros(len(labels), bool)
    for restart in range(RESTARTS):
        size = (0.01, 0.04)[restart // 2 % 2]
        left = np.flatnonzero(~broken)
        if not len(left):
            break
        worst = encoded(ascent(network, x[left], y[left], radius / 255, STEPS, size, carlini=restart % 2 == 1).numpy())
        if np.abs(worst.astype(np.int16) - images[left]).max(initial=0) > radius:
            raise RuntimeError("PGD left the ball")
        broken[left] = Network(network).logits(floats(worst)).argmax(axis=1) != labels[left]
    return broken

"""What people use instead of aitest's searches on images: ART's Square and HopSkipJump, Foolbox's HopSkipJump.

Each attacks one image at a time, with its defaults, on floats in 0..1, until the model has been asked as often as the budget
has it or has been fooled by any image within the ball, also by one that the attack itself does not take for its result.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from adversarial_models import Floats, Model, Victims, encoded, floats, scores
from numpy.typing import NDArray

INSTALL = (
    "pip install --no-deps --target FOLDER adversarial-robustness-toolbox==1.20.1 foolbox==3.3.4 eagerpy GitPython gitdb "
    "smmap tqdm six, then AITEST_PEERS=FOLDER"
)
SMALLEST = 1e-12


class Done(Exception):
    """The image is broken, or its budget spent."""


class Counted:
    """A model that counts the images it is asked about, and sees which is the first to fool it within the ball.

    The peers send floats and get the answers to them; whether an image counts is seen from the answer to what would be stored
    of it, uint8, for which they are not charged. Nor are they for the first look at the untouched image.
    """

    def __init__(self, model: Model, image: NDArray[np.uint8], label: int, radius: int, queries: int) -> None:
        self._model, self._image, self._label, self._radius, self._queries = model, image, label, radius, queries
        self._seen = False
        self.asked, self.seconds, self.found = 0, 0.0, np.inf

    def __call__(self, x: Any) -> Floats:
        """ln of the scores, (n, classes) float32, of (n, channels, height, width) floats."""
        x = np.asarray(x, np.float32)
        logs = np.log(np.maximum(scores(self._model.logits(x)), SMALLEST))
        started = time.process_time()
        for place in range(len(x)):
            self._look(x[place : place + 1], int(logs[place].argmax()))
        self.seconds += time.process_time() - started
        if self.found < np.inf or self.asked >= self._queries:
            raise Done
        return np.asarray(logs, np.float32)

    def _look(self, x: Floats, answer: int) -> None:
        stored = encoded(x)
        far = int(np.abs(stored.astype(np.int16) - self._image).max(initial=0))
        if far == 0 and not self._seen:
            self._seen = True
            return
        self.asked += 1
        if far <= self._radius and self.asked <= self._queries and self.found == np.inf:
            other = answer if np.array_equal(x, floats(stored)) else int(self._model.logits(floats(stored)).argmax())
            if other != self._label:
                self.found = self.asked


Peer = Callable[[Counted, Floats, int, float, int], None]


def of_art(attack: Callable[[Any, float, int], Any]) -> Peer:
    """An attack of ART on a model that it can only ask."""

    def run(model: Counted, x: Floats, label: int, delta: float, queries: int) -> None:
        from art.estimators.classification import BlackBoxClassifierNeuralNetwork

        classifier = BlackBoxClassifierNeuralNetwork(model, x.shape[1:], 10, clip_values=(0.0, 1.0))
        attack(classifier, delta, queries).generate(x, np.array([label]))

    return run


def art_square(classifier: Any, delta: float, queries: int) -> Any:
    """It asks three times for every step."""
    from art.attacks.evasion import SquareAttack

    return SquareAttack(classifier, norm=np.inf, eps=delta, max_iter=max(1, queries // 3), verbose=False)


def art_hop_skip_jump(classifier: Any, delta: float, queries: int) -> Any:
    """It looks for the nearest image, whatever the ball."""
    from art.attacks.evasion import HopSkipJump

    return HopSkipJump(classifier, norm=np.inf, verbose=False)


def foolbox_hop_skip_jump(model: Counted, x: Floats, label: int, delta: float, queries: int) -> None:
    """It looks for the nearest image, whatever the ball."""
    import torch
    from foolbox import PyTorchModel
    from foolbox.attacks import HopSkipJumpAttack

    class Asking(torch.nn.Module):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            return torch.from_numpy(model(batch.numpy()))

    wrapped = PyTorchModel(Asking().eval(), bounds=(0, 1), device="cpu")
    HopSkipJumpAttack(constraint="linf").run(wrapped, torch.from_numpy(x), torch.tensor([label]))


PEERS: dict[str, tuple[str, Peer]] = {
    "ART Square": ("art", of_art(art_square)),
    "ART HopSkipJump": ("art", of_art(art_hop_skip_jump)),
    "Foolbox HopSkipJump": ("foolbox", foolbox_hop_skip_jump),
}


def run_peer(name: str, victims: Victims, radius: int, queries: int) -> tuple[NDArray[np.float64], float]:
    """At which query each image was broken, (n,), inf where it was not; and CPU seconds per image, the model included."""
    import torch

    found, seconds = np.full(len(victims.images), np.inf), 0.0
    for place, image in enumerate(victims.images):
        np.random.seed(place)  # they draw from the global generators
        torch.manual_seed(place)
        label = int(victims.labels[place])
        model = Counted(victims.model, image, label, radius, queries)
        started = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                PEERS[name][1](model, floats(image[None]), label, radius / 255, queries)
        except Done:
            pass
        except ValueError as error:
            if "init_attack failed" not in str(error):  # Foolbox: no starting point
                raise
        seconds += time.process_time() - started - model.seconds
        found[place] = model.found
    return found, seconds / len(found)


def peers_there() -> list[str]:
    """Those that can be imported. Packages of the folder in AITEST_PEERS come after the project's own."""
    from importlib import import_module

    folder = os.environ.get("AITEST_PEERS")
    if folder and folder not in sys.path:
        sys.path.append(folder)
    there = []
    for name, (module, _) in PEERS.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                import_module(module)
            there.append(name)
        except ImportError as error:
            print(f"{name} is left out ({error}): {INSTALL}")
    return there

"""What the transforms of images cost beside what people would use instead: one thread, uint8 in and uint8 out on all sides."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from image_peers import PEERS, Peer

from aitest_lib.registry import components
from aitest_lib.rng import rng_for
from aitest_lib.transforms.image import base

SIZES = ((32, 256, 64), (224, 64, 4))  # pixels a side; images in a batch; images where a peer takes them one by one
ROUNDS = 3  # in turn, the best of them
LEAST_S = 0.1  # of CPU time, in one measurement
PACKAGES = "imagecorruptions albumentations 'setuptools<81'"  # the first still imports pkg_resources
INSTALL = f"pip install --target FOLDER {PACKAGES}, then AITEST_PEERS=FOLDER"


def images() -> None:
    """One table a size: images per CPU second, and how many times those of each peer."""
    os.environ["AITEST_DEVICE"] = "cpu"
    base.LARGE = 1  # the constants of ImageNet-C at both sizes, since the peers know no others
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peers = [peer for peer in PEERS if _is_there(peer)]
        with _one_thread():
            for side, batch, few in SIZES:
                _table(side, batch, few, peers)


def _table(side: int, batch: int, few: int, peers: list[Peer]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (batch, side, side, 3), np.uint8)
    peer_heads = "".join(f"{peer.name:>18}{'x':>7}" for peer in peers)
    print(f"{f'{side} px, {batch} images':<20}{'aitest':>11}{'with draw':>11}{peer_heads}   images per CPU s", flush=True)
    print(f"{'copy of the pixels':<20}{best({'copy': (pixels.copy, batch)})['copy']:>11,.0f}", flush=True)
    for name, cls in components().items():
        if not issubclass(cls, base.ImageTransform) or name == "compose":
            continue
        transform = cls()
        contenders: dict[str, tuple[Callable[[], Any], int]] = {
            "aitest": (partial(transform.apply, pixels, _drawn(transform, pixels)), batch),
            "with draw": (lambda made=transform: made.apply(pixels, _drawn(made, pixels)), batch),
        }
        for peer in peers:
            if (made := peer.make(name, side)) is not None:
                given = pixels if peer.batches else pixels[:few]
                contenders[peer.name] = (partial(_all_of, made, given, peer.batches), len(given))
        found = best(contenders)
        own = found["aitest"]
        cells = f"{_figure(own, 11)}{_figure(found['with draw'], 11)}"
        for peer in peers:
            theirs = found.get(peer.name)
            ratio = f"{own / theirs:.3g}" if isinstance(own, float) and isinstance(theirs, float) else ""
            cells += f"{_figure(theirs, 18)}{ratio:>7}"
        print(f"{name:<20}{cells}", flush=True)
    print()


def best(contenders: Mapping[str, tuple[Callable[[], Any], int]]) -> dict[str, float | str]:
    """Images per CPU second of each, the best of several rounds in turn; the kind of error where it fails."""
    found: dict[str, float | str] = {}
    for _ in range(ROUNDS):
        for name, (call, count) in contenders.items():
            so_far = found.get(name, 0.0)
            if isinstance(so_far, float):
                found[name] = _tried(call, count, so_far)
    return found


def _tried(call: Callable[[], Any], count: int, so_far: float) -> float | str:
    try:
        if not so_far:
            call()  # what is made once, at the first call
        return max(so_far, count / _cpu_seconds(call))
    except Exception as error:
        return f"fails: {type(error).__name__}"


def _cpu_seconds(call: Callable[[], Any]) -> float:
    calls, started = 0, time.process_time()
    while (spent := time.process_time() - started) < LEAST_S:
        call()
        calls += 1
    return spent / calls


def _drawn(transform: base.ImageTransform, pixels: base.Pixels) -> list[dict[str, Any]]:
    seeds = [str(number) for number in range(len(pixels))]
    return transform.draw(seeds, pixels.shape[1:], partial(rng_for, 0, transform.key)).params


def _all_of(function: Callable[[Any], Any], pixels: base.Pixels, batches: bool) -> None:
    if batches:
        function(pixels)
    else:
        for image in pixels:
            function(image)


def _figure(value: float | str | None, width: int) -> str:
    if isinstance(value, float):
        return f"{value:>{width},.0f}"
    return f"{value or '-':>{width}}"


def _is_there(peer: Peer) -> bool:
    """Packages of the folder in AITEST_PEERS come after the project's own, so that both sides share numpy and torch."""
    folder = os.environ.get("AITEST_PEERS")
    if folder and folder not in sys.path:
        sys.path.append(folder)
    try:
        import_module(peer.module)
    except ImportError as error:
        print(f"{peer.name} is left out ({error}): {INSTALL}")
        return False
    return True


def _one_thread() -> Any:
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(1)
    if (cv2 := sys.modules.get("cv2")) is not None:
        cv2.setNumThreads(0)
    return threadpool_limits(1)

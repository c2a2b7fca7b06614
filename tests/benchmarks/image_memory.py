"""Does memory grow with the number of cases of images: more seeds, and more transforms, at two sizes of images."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from accounting import cpu_of
from growth import prefect_server, settled_task_runs
from PIL import Image
from project import Measured, measured_run

from aitest_flows.services.processes import members

SEEDS, STRENGTHS, MORE = 400, 5, 10  # 2 transforms x 5 strengths x 400 seeds are 4,000 cases; 10 times as many are 40,000
ROWS = (("4,000", 1, 1), ("40,000 of more seeds", MORE, 1), ("40,000 of more transforms", 1, MORE))
COARSE = 8  # pixels a side from which an image is scaled up: smooth, so that its PNG has the size of a photograph's
Pixels = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class Form:
    """How the images of a table of figures look, and how they are stored: one `.npz`, or a folder of PNG files per class."""

    side: int
    channels: int
    npz: bool

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.side}×{self.side} {'grey' if self.channels == 1 else 'RGB'}, {'.npz' if self.npz else 'PNG files'}"


FORMS = (Form(28, 1, True), Form(224, 3, False))


@dataclass(frozen=True)
class Spent:
    """What a run has cost: with the CPU seconds of the Prefect server, store in megabytes."""

    measured: Measured
    cpu: float
    store: float
    task_runs: int


def image_memory() -> None:
    """One table for each form of images; the peak of a row is also told as times that of 4,000 cases."""
    head = ("wall s", "CPU s", "peak MB", "x", "with child", "store MB", "task runs", "cases")
    for form in FORMS:
        print(f"{form.name:<28}" + "".join(f"{name:>11}" for name in head), flush=True)
        first = None
        for name, more_seeds, more_strengths in ROWS:
            found = _spent(form, SEEDS * more_seeds, STRENGTHS * more_strengths)
            run, first = found.measured, first or found.measured.peak
            print(
                f"{name:<28}{run.wall:>11.1f}{found.cpu:>11.1f}{run.peak:>11,.0f}{run.peak / first:>11.2f}"
                f"{run.peak_with_children:>11,.0f}{found.store:>11,.0f}{found.task_runs:>11,}"
                f"{run.report['properties'][0]['cases']['total']:>11,}",
                flush=True,
            )
        print()


def bright(images: Pixels) -> np.ndarray[Any, np.dtype[np.str_]]:
    """A model that answers at once: is each image (n, height, width, channels) a bright one, by a few pixels."""
    return np.where(images[:, ::7, ::7].mean(axis=(1, 2, 3)) > 127, "bright", "dark")


def _spent(form: Form, seeds: int, strengths: int) -> Spent:
    """A run of `image.robustness` in a new project, on a Prefect server that is up."""
    with tempfile.TemporaryDirectory() as root, prefect_server(Path(root, "prefect")) as server:
        suite_file = _project(Path(root, "project"), form, seeds, strengths)
        cpu = cpu_of(members(server))
        measured = measured_run(suite_file, environment={"PREFECT_API_URL": server.url})
        task_runs = settled_task_runs(server)
        files = Path(root, "project", ".aitest", "store").rglob("*")
        store = sum(file.stat().st_size for file in files if file.is_file()) / 1e6
        return Spent(measured, measured.cpu + cpu_of(members(server)) - cpu, store, task_runs)


def _project(folder: Path, form: Form, seeds: int, strengths: int) -> Path:
    """A project folder: images with labels, a card, a suite with so many strengths of two transforms."""
    folder.mkdir(parents=True)
    data = folder / ("images.npz" if form.npz else "images")
    write_images(data, form, seeds)
    card = {
        "name": "bench",
        "revision": "1",
        "type": "image-classifier",
        "classes": ["bright", "dark"],
        "python": {"callable": f"{Path(__file__).stem}:bright", "path": [str(Path(__file__).parent)]},
    }
    levels = np.arange(1, strengths + 1) / strengths
    transforms = [
        {"name": "gaussian_noise", "sigma": (0.4 * levels).round(4).tolist()},
        {"name": "rotate", "degrees": (45 * levels).round(4).tolist()},
    ]
    suite = {
        "suite": "bench",
        "model": {"card": "card.yaml"},
        "data": {"test": data.name, "sample": "all"},
        "properties": [{"property": "image.robustness", "transforms": transforms, "gates": {"pass_rate": {"min": 0.9}}}],
    }
    (folder / "card.yaml").write_text(json.dumps(card))
    (folder / "suite.yaml").write_text(json.dumps(suite))
    return folder / "suite.yaml"


def write_images(data: Path, form: Form, count: int) -> None:
    """Smooth images with the label that `bright` gives them."""
    rng = np.random.default_rng(0)
    made = []
    for number in range(count):
        coarse = rng.integers(0, 256, (COARSE, COARSE, form.channels), np.uint8)
        image = Image.fromarray(coarse.squeeze()).resize((form.side, form.side), Image.Resampling.BICUBIC)
        pixels = np.asarray(image).reshape(1, form.side, form.side, form.channels)
        [label] = bright(pixels)
        if form.npz:
            made.append((pixels[0], label))
        else:
            (data / label).mkdir(parents=True, exist_ok=True)
            image.save(data / label / f"{number:05d}.png")
    if form.npz:
        np.savez(data, x=np.stack([pixels for pixels, _ in made]), y=np.array([label for _, label in made]))

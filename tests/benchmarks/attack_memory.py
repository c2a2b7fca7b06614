"""Does memory grow with the number of images that are searched: ten times as many, each at as many queries."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from growth import prefect_server
from image_memory import Form, write_images
from project import Measured, measured_run

SEEDS, MORE, QUERIES = 400, 10, 50
FORMS = (Form(28, 1, npz=True), Form(96, 3, npz=False))


def attack_memory() -> None:
    """One row for each form of images and number of them; the peak of a row also as times that of the first."""
    print(f"{'':<28}" + "".join(f"{name:>11}" for name in ("images", "queries", "wall s", "CPU s", "peak MB", "x")), flush=True)
    for form in FORMS:
        first = None
        for seeds in (SEEDS, SEEDS * MORE):
            found = _spent(form, seeds)
            first = first or found.peak
            print(
                f"{form.name:<28}{seeds:>11,}{found.report['queries']['sent']:>11,}{found.wall:>11.1f}{found.cpu:>11.1f}"
                f"{found.peak:>11,.0f}{found.peak / first:>11.2f}",
                flush=True,
            )


def _spent(form: Form, seeds: int) -> Measured:
    """A run of `image.adversarial` in a new project, on a Prefect server that is up."""
    with tempfile.TemporaryDirectory() as root, prefect_server(Path(root, "prefect")) as server:
        folder = Path(root, "project")
        folder.mkdir()
        data = folder / ("images.npz" if form.npz else "images")
        write_images(data, form, seeds)
        card = {
            "name": "bench",
            "revision": "1",
            "type": "image-classifier",
            "classes": ["bright", "dark"],
            "python": {"callable": "image_memory:bright", "path": [str(Path(__file__).parent)]},
        }
        search = {"method": "random", "delta": 0.01, "queries": QUERIES, "baselines": []}
        suite = {
            "suite": "bench",
            "model": {"card": "card.yaml"},
            "data": {"test": data.name, "sample": "all"},
            "properties": [{"property": "image.adversarial", "search": search}],
        }
        (folder / "card.yaml").write_text(json.dumps(card))
        (folder / "suite.yaml").write_text(json.dumps(suite))
        return measured_run(folder / "suite.yaml", environment={"PREFECT_API_URL": server.url})

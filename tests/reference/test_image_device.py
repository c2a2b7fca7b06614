"""Images on a GPU against images on the CPU: the same cases, the same parameters, pixels within one grey level."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from image_samples import grey_noise, photo

from aitest_lib.artifacts.codecs import get_table, put_table
from aitest_lib.artifacts.images import get_images, put_images
from aitest_lib.artifacts.store import Store
from aitest_lib.registry import components
from aitest_lib.transforms.image.base import ImageTransform
from aitest_lib.transforms.image.colour import Inverse
from aitest_lib.transforms.image.compose import Compose
from aitest_lib.transforms.image.geometry import Rotate
from aitest_lib.types import ArtifactRef
from aitest_tasks.case_tables import CASE_ID, PARAMS
from aitest_tasks.contents import with_content
from aitest_tasks.image_cases import image_digests, write_image_cases
from aitest_tasks.seed_tables import DIGEST, RANK, SEED_ID

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")

CHAIN = [{"name": "rotate", "degrees": 15.0}, {"name": "scale", "factor": 0.9}, {"name": "gaussian_blur", "severity": 2}]
REGISTERED = [cls for cls in components().values() if issubclass(cls, ImageTransform)]
TRANSFORMS = [
    *(cls(severity=severity) for cls in REGISTERED if cls not in (Inverse, Compose) for severity in (1, 3, 5)),
    Inverse(),
    Compose(parts=CHAIN),
]
SHAPES = [(28, 28, 1), (33, 40, 3), (40, 33, 4), (224, 200, 3)]


def cases_on(device: str, folder: Path, transform: ImageTransform, images: np.ndarray, monkeypatch: Any) -> tuple[Any, Any]:
    """Case ids and parameters of the cases that a run makes of these seeds, and their images."""
    monkeypatch.setenv("AITEST_DEVICE", device)
    store = Store(str(folder))
    names = [f"{number:032x}" for number in range(len(images))]
    seeds = pa.table(
        {
            SEED_ID: pa.array(names),
            RANK: pa.array(np.arange(len(images), dtype=np.int32)),
            DIGEST: pa.array([one.tobytes() for one in image_digests(list(images))], pa.binary(16)),
        }
    )
    shard = put_table(store, with_content(seeds, put_images(store, list(images))))
    made = write_image_cases(
        store,
        {
            "component": transform.name,
            "parameters": transform.parameters(),
            "shard": shard.to_dict(),
            "random_seed": 7,
        },
    )
    table = get_table(store, ArtifactRef.of(made["cases"]), [CASE_ID, PARAMS])
    return table.to_pylist(), np.stack(get_images(store, ArtifactRef.of(made["content"])))


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda one: f"{one.name}-{one.severity}")
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_a_gpu_makes_the_same_cases(transform, shape, tmp_path, monkeypatch):
    images = np.concatenate([photo(3, shape), grey_noise(3, shape)])
    ids_on_cpu, on_cpu = cases_on("cpu", tmp_path / "cpu", transform, images, monkeypatch)
    ids_on_gpu, on_gpu = cases_on("cuda", tmp_path / "cuda", transform, images, monkeypatch)
    assert ids_on_gpu == ids_on_cpu
    difference = np.abs(on_gpu.astype(np.int16) - on_cpu)
    assert difference.max() <= 1, f"{np.mean(difference > 1):.2%} of the values differ by up to {difference.max()} levels"


@pytest.mark.parametrize(("device", "works"), [("cuda", True), ("auto", True), ("cpu", False)])
def test_the_work_is_done_where_the_setting_says(device, works, monkeypatch):
    monkeypatch.setenv("AITEST_DEVICE", device)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    Rotate(degrees=15.0).apply(photo(3, (64, 64, 3)), [{"degrees": 15.0}] * 3)
    assert (torch.cuda.max_memory_allocated() > before) is works

"""Where tensors are worked on: the GPU where there is one, unless `AITEST_DEVICE` says otherwise."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from aitest_lib.errors import InputError

if TYPE_CHECKING:
    import torch

CHOICES = ("auto", "cpu", "cuda")


def device() -> torch.device:
    """The device that `AITEST_DEVICE` (auto, cpu, cuda) names; auto is a GPU where torch sees one."""
    import torch

    wanted = os.environ.get("AITEST_DEVICE", "auto").strip().lower() or "auto"
    if wanted not in CHOICES:
        raise InputError(f"AITEST_DEVICE: got {wanted!r}, expected one of {', '.join(CHOICES)}")
    found = torch.cuda.is_available()
    if wanted == "cuda" and not found:
        raise InputError("AITEST_DEVICE: got cuda, but torch sees no GPU here; set it to auto or cpu")
    return torch.device("cuda" if found and wanted != "cpu" else "cpu")

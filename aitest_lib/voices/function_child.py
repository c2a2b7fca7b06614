"""The child process of a Python voice: calls the function, one text at a time (see `python_child.serve`)."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from aitest_lib.models.processes.python_child import Ask, load, serve


def main() -> None:
    """Serves the function that the start frame names."""
    serve(_loaded)


def _loaded(start: dict[str, Any]) -> tuple[None, Ask]:
    sys.path[:0] = start["path"]
    speak = load(start["callable"], {})
    return None, lambda table: _said(speak(table["text"][0], table["voice"][0]))


def _said(given: Any) -> tuple[Any, Any]:
    """The samples as an array, and their rate."""
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise TypeError(f"got {type(given).__name__}, expected (samples, sample rate)")
    samples, rate = given
    array = np.asarray(samples.tolist() if hasattr(samples, "tolist") and not isinstance(samples, np.ndarray) else samples)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"got samples of {array.dtype}, expected floats from -1 to 1 or integers")
    return array, rate


if __name__ == "__main__":
    main()

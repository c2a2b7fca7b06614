"""What JSON records and results in the store must hold to be used: keys and types, as small tables.

A store is shared, and its files may be damaged or somebody else's. What does not fit is told or made again, not met later
as a defect.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import UnionType
from typing import Any

from aitest_lib.types import ArtifactRef

# A type or a union of types; a string: the reference of an artifact with this codec; [shape]: a list of such; a dictionary:
# an object with at least these keys, or with "*" an object all of whose values are such.
Shape = type | UnionType | str | list[Any] | dict[str, Any]

NUMBER = int | float
MOST = 2**63  # no number in a record is larger
MODEL: dict[str, Shape] = {
    "name": str,
    "type": str,
    "digest": str,
    "version": str | None,
    "revision": str | None,
    "classes": list | None,
    "reusable": bool,
}
SEEDS: dict[str, Shape] = {
    "profile": "json",
    "shards": ["parquet"],
    "positions": "parquet",
    "rows": int,
    "seeds": int,
    "labels": list,
}
LEASE: dict[str, Shape] = {"host": str, "boot": str, "pid": int, "birth": str | None, "until": NUMBER, "token": str}
# By the names of a run's files.
RECORDS: dict[str, Shape] = {
    "run": {
        "suite": dict,
        "base_dir": str,
        "card": dict | None,
        "card_dir": str | None,
        "model": MODEL,
        "registered": dict | None,
        "test": str,
        "train": str | None,
        "test_digest": str,
        "train_digest": str | None,
        "columns": [str],
        "options": {"properties": [int], "fresh": bool, "budget": int | None, "workers": int},
        "fingerprints": {"*": str},
        "started": str,
        "started_by": str,
        "home": str,
    },
    "prepared": {
        **SEEDS,
        "private": [str],
        "previous_looks": int,
        "batch_size": int,
        "seconds_per_row": NUMBER,
        "epoch": str,
        "epoch_number": int,
        "changed": bool,
        "deterministic": bool,
        "self_flip_rate": NUMBER | None,
        "probed": int,
        "sentinel": int,
    },
    "lease": LEASE,
    "report": {"suite": str, "run_id": str, "status": str, "properties": [dict]},
    "result": {"report": dict, "scored": dict},
    "progress": {"time": NUMBER, "properties": {"*": {"*": {"done": int, "total": int, "note": str}}}},
}
# By the names of the cached tasks.
RESULTS: dict[str, Shape] = {
    "sample_seeds": SEEDS,
    "synthesize_seeds": {"shards": ["parquet"], "positions": "parquet", "report": "json"},
    "generate_cases": {"cases": "parquet"},
    "make_noise": {"clips": "parquet", "names": [str]},
    "ask_second": {"answers": "json"},
    "generate_flips": "parquet",
    "sample_growing": {"shards": ["parquet"], "positions": "parquet"},
    "generate_growing": {"made": "parquet"},
    "fit_surrogate": {"fitted": "json"},
    "score_property": {"report": "json", "cases": "parquet", "failures": "json"},
}


def misfit(value: Any, shape: Shape, at: str = "") -> str | None:
    """The first difference of a JSON value from a shape, None where it fits."""
    what = f"{at} is" if at else "it is"
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return f"{what} no object"
        parts: dict[str, Any] = dict.fromkeys(value, shape["*"]) if "*" in shape else shape
        absent = sorted(set(parts) - set(value))
        if absent:
            return f"got no {', '.join(absent)}" + (f" in {at}" if at else "")
        return _first(misfit(value[name], part, f"{at}.{name}".lstrip(".")) for name, part in parts.items())
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{what} no list"
        return _first(misfit(item, shape[0], f"{at}[{place}]") for place, item in enumerate(value))
    if isinstance(shape, str):
        return None if _is_reference(value, shape) else f"{what} no reference of a {shape} artifact"
    fits = isinstance(value, shape) and isinstance(value, bool) == (shape is bool)
    if fits and isinstance(value, int | float):
        fits = abs(value) < MOST  # false for NaN, too
    return None if fits else f"{what} no {getattr(shape, '__name__', shape)}"


def _first(found: Iterable[str | None]) -> str | None:
    return next((text for text in found if text is not None), None)


def _is_reference(value: Any, codec: str) -> bool:
    try:
        return ArtifactRef.of(value).codec == codec
    except ValueError:
        return False

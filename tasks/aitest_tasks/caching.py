"""One cache key for every cached task: the digest of its `job`, and nothing else.

A job is plain JSON: fingerprints, artifact digests, parameters. What a task needs beyond that (where the run's record
is) goes into other arguments, which never enter the key. Prefect's default policy would include the run id, and its
hashing of objects differs between processes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from prefect.context import TaskRunContext
from prefect.serializers import JSONSerializer

from aitest_lib.artifacts.store import Store
from aitest_lib.canonical import digest
from aitest_lib.errors import ArtifactMissing
from aitest_lib.types import ArtifactRef
from aitest_tasks.records import RESULTS, misfit

T = TypeVar("T")

# Options of every cached task. JSON, because Prefect's default serializer is pickle.
CACHED: dict[str, Any] = {"persist_result": True, "result_serializer": "json"}


def job_key(context: TaskRunContext, parameters: dict[str, Any]) -> str:
    """The cache key of a task: its name and the digest of its `job`."""
    return f"{context.task.name}-{digest(parameters['job'])}"


def is_ours(key: str, result: bytes) -> bool:
    """Is what is stored under a key exactly what we write: a result of that cached task, of its shape.

    Prefect takes the serializer, pickle among them, from the stored bytes themselves. What somebody else put into the
    store must not choose how it is read.
    """
    try:
        stored = json.loads(result)
        plain = stored["metadata"]["serializer"] == JSONSerializer().model_dump(mode="json")
        at_home = stored["metadata"]["storage_key"] == key
        result = json.loads(stored["result"])
        task = key.rpartition("-")[0]  # see `job_key`
        return plain and at_home and _is_plain(result) and misfit(result, RESULTS[task]) is None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _is_plain(value: Any) -> bool:
    """Is it JSON data without the keys by which Prefect's decoder makes objects."""
    if isinstance(value, dict):
        return not any(key.startswith("__") for key in value) and all(_is_plain(item) for item in value.values())
    return all(_is_plain(item) for item in value) if isinstance(value, list) else True


def refs_in(result: Any) -> list[ArtifactRef]:
    """All artifact references inside a task's result; `ValueError` where one of them is none."""
    if isinstance(result, dict):
        if set(result) == {"uri", "digest", "codec", "rows"}:
            return [ArtifactRef.of(result)]
        return [ref for value in result.values() for ref in refs_in(value)]
    if isinstance(result, list):
        return [ref for value in result for ref in refs_in(value)]
    return []


def made_again(store: Store, results: list[T], remake: Callable[[int], T]) -> list[T]:
    """Cached results whose artifacts are gone from the store, or damaged in it, are made again, once; so are results that
    are none: every cached task returns references, and they lead to artifacts."""
    refs = [_usable_refs(result) for result in results]
    found = iter(store.intact([ref for part in refs for ref in part]))
    whole = [bool(part) and all([next(found) for _ in part]) for part in refs]  # noqa: C419 -- a list: every one is taken
    return [
        result if intact else _checked(store, remake(place))
        for place, (result, intact) in enumerate(zip(results, whole, strict=True))
    ]


def _usable_refs(result: Any) -> list[ArtifactRef]:
    try:
        return refs_in(result)
    except ValueError:
        return []


def _checked(store: Store, again: T) -> T:
    refs = refs_in(again)
    for ref, intact in zip(refs, store.intact(refs), strict=True):
        if not intact:
            raise ArtifactMissing(store.url_of(ref.uri), "it was made again and is still not there")
    return again

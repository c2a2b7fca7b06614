"""One cache key for every cached task: the digest of its `job`, and nothing else.

A job is plain JSON: fingerprints, artifact digests, parameters. What a task needs beyond that (where the run's record
is) goes into other arguments, which never enter the key. Prefect's default policy would include the run id, and its
hashing of objects differs between processes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from prefect.context import TaskRunContext

from aitest_lib.artifacts.store import Store
from aitest_lib.canonical import digest
from aitest_lib.errors import ArtifactMissing
from aitest_lib.types import ArtifactRef

T = TypeVar("T")

# Options of every cached task. JSON, because Prefect's default serializer is pickle.
CACHED: dict[str, Any] = {"persist_result": True, "result_serializer": "json"}


def job_key(context: TaskRunContext, parameters: dict[str, Any]) -> str:
    """The cache key of a task: its name and the digest of its `job`."""
    return f"{context.task.name}-{digest(parameters['job'])}"


def refs_in(result: Any) -> list[ArtifactRef]:
    """All artifact references inside a task's result."""
    if isinstance(result, dict):
        if set(result) == {"uri", "digest", "codec", "rows"}:
            return [ArtifactRef.of(result)]
        return [ref for value in result.values() for ref in refs_in(value)]
    if isinstance(result, list):
        return [ref for value in result for ref in refs_in(value)]
    return []


def made_again(store: Store, results: list[T], remake: Callable[[int], T]) -> list[T]:
    """Cached results whose artifacts are gone from the store, or damaged in it, are made again, once."""
    checked = []
    for place, result in enumerate(results):
        # Every one is looked at: a damaged one that stayed would not be written anew.
        if all([store.intact(ref) for ref in refs_in(result)]):  # noqa: C419
            checked.append(result)
            continue
        again = remake(place)
        for ref in refs_in(again):
            if not store.intact(ref):
                raise ArtifactMissing(store.url_of(ref.uri), "it was made again and is still not there")
        checked.append(again)
    return checked

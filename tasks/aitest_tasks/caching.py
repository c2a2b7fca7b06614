"""One cache key for every cached task: the digest of its `job`, and nothing else.

A job is plain JSON: fingerprints, artifact digests, parameters. What a task needs beyond that (where the run's record
is) goes into other arguments, which never enter the key. Prefect's default policy would include the run id, and its
hashing of objects differs between processes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from prefect.context import TaskRunContext
from prefect.serializers import JSONSerializer
from prefect.settings import get_current_settings

from aitest_lib.artifacts.store import Store
from aitest_lib.canonical import digest
from aitest_lib.errors import ArtifactMissing
from aitest_lib.types import ArtifactRef

T = TypeVar("T")

# Options of every cached task. JSON, because Prefect's default serializer is pickle.
CACHED: dict[str, Any] = {"persist_result": True, "result_serializer": "json"}


def job_key(context: TaskRunContext, parameters: dict[str, Any]) -> str:
    """The cache key of a task: its name and the digest of its `job`."""
    key = f"{context.task.name}-{digest(parameters['job'])}"
    storage = get_current_settings().results.local_storage_path
    if storage is not None:
        drop_foreign(Path(storage) / key)
    return key


def drop_foreign(result: Path) -> None:
    """Removes a stored result that is not exactly what we write.

    Prefect takes the serializer, pickle among them, from the stored file itself. A file that somebody else put into the
    store must not choose how it is read: the task runs again instead.
    """
    if not result.exists():
        return
    try:
        stored = json.loads(result.read_text(encoding="utf-8"))
        ours = stored["metadata"]["serializer"] == JSONSerializer().model_dump(mode="json") and _is_plain(
            json.loads(stored["result"])
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        ours = False
    if not ours:
        result.unlink(missing_ok=True)


def _is_plain(value: Any) -> bool:
    """Is it JSON data without the keys by which Prefect's decoder makes objects."""
    if isinstance(value, dict):
        return not any(key.startswith("__") for key in value) and all(_is_plain(item) for item in value.values())
    return all(_is_plain(item) for item in value) if isinstance(value, list) else True


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

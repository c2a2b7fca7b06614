"""Where Prefect keeps the results of cached tasks: in the store itself, under `results/`."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, TypeVar

from prefect.exceptions import ObjectAlreadyExists
from prefect.filesystems import WritableFileSystem
from prefect.settings import get_current_settings

from aitest_lib.artifacts.store import Store
from aitest_lib.canonical import digest
from aitest_lib.errors import ArtifactMissing
from aitest_tasks import live
from aitest_tasks.caching import is_ours, made_again
from aitest_tasks.runs import Run

T = TypeVar("T")


class StoreResults(WritableFileSystem):
    """Results beside the artifacts they refer to, in the store at `url`.

    Reads and writes go through our store: it writes whole files, waits for a server that is away for a while, and takes its
    credentials from the environment, so that none are in Prefect's database. What somebody else has put there is not handed
    to Prefect, which would unpickle it.
    """

    _block_type_name = "aitest store"

    url: str

    @cached_property
    def store(self) -> Store:
        """The store, opened."""
        return Store(self.url, live.store_patience)

    # Prefect says with `_sync` whether it expects a coroutine; ours are plain functions, and it takes those, too.
    def read_path(self, path: str, _sync: bool = True) -> bytes:  # type: ignore[override]
        """The bytes of a result; one that is not exactly what we write is removed and counts as missing."""
        data = self.store.read(f"results/{path}")
        if not is_ours(path, data):
            self.store.remove(f"results/{path}")
            raise ArtifactMissing(self.store.url_of(f"results/{path}"), "it is no result of aitest")
        return data

    def write_path(self, path: str, content: bytes, _sync: bool = True) -> None:  # type: ignore[override]
        """Writes a result whole. The exception of a failed flow, which Prefect would keep as a pickle, is left out."""
        if is_ours(path, content):
            self.store.write(f"results/{path}", content)


def stored(task: T, run: Run) -> T:
    """A cached task that keeps its results in the run's store, whatever flow calls it on whatever worker."""
    with_options: Any = getattr(task, "with_options")  # noqa: B009 -- of Prefect's `Task`, whose type would be lost
    return with_options(result_storage=_saved(get_current_settings().api.url, run.store.url))  # type: ignore[no-any-return]


def cached(task: Any, run: Run, job: dict[str, Any]) -> Any:
    """The result of a cached task on a job, made again where its artifacts are gone."""
    kept = stored(task, run)
    [result] = made_again(run.store, [kept(job, run.uri)], lambda _: kept.with_options(refresh_cache=True)(job, run.uri))
    return result


@lru_cache(maxsize=8)
def _saved(server: str | None, store_url: str) -> StoreResults:
    """The block of a store, saved once on a Prefect server (which Prefect wants of every result storage)."""
    block = StoreResults(url=store_url)
    name = f"store-{digest(store_url)}"
    try:
        block.save(name, overwrite=True)
    except ObjectAlreadyExists:  # another run was saving it at the same moment
        block.save(name, overwrite=True)
    return block

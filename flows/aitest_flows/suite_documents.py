"""A deployed suite: a document in the store with all that its audits need, wherever they run.

suites/<suite>.json      the suite, where its relative paths start, its card, the work pool
data/<digest>/<file>     local data, so that workers on other machines can read them
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq

from aitest_flows.runner import Request
from aitest_lib.artifacts.store import Store
from aitest_lib.config.card import LoadedCard, load_card, load_card_data
from aitest_lib.config.loading import Document, located
from aitest_lib.config.suite import LoadedSuite, ModelRef, suite_of
from aitest_lib.data.audio import AudioSource
from aitest_lib.data.images import ImageSource
from aitest_lib.data.sources import Source
from aitest_lib.data.table import TableSource
from aitest_lib.errors import ArtifactMissing, InputError
from aitest_tasks import live

FOLDER = "suites"
COMPLETE = ".complete"  # hidden, so that it is no image


@dataclass(frozen=True)
class SuiteDocument:
    """A suite as it was deployed. `card`: that of a card file; a registered version brings its own."""

    suite: LoadedSuite
    card: LoadedCard | None
    pool: str

    @property
    def name(self) -> str:
        """The name of the suite."""
        return self.suite.suite.suite

    @property
    def model(self) -> ModelRef:
        """The model that the suite tests."""
        return self.suite.suite.model

    def on_version(self, version: str) -> LoadedSuite:
        """The suite on one version of its registered model."""
        model = ModelRef(name=self.model.name, version=version)
        return replace(self.suite, suite=self.suite.suite.model_copy(update={"model": model}))


def store_suite(store: Store, request: Request, pool: str) -> tuple[str, list[str]]:
    """Writes the document of a checked suite, and its data; returns the document's URL and what to know about it."""
    loaded, notes = request.suite, []
    suite = loaded.suite.model_dump(mode="json", by_alias=True, exclude_none=True)
    private = sorted(name for name, column in loaded.suite.data.columns.items() if column.private)
    for key, source in (("test", request.test), ("train", request.train)):
        if source is None:
            continue
        if private and _is_local(source.url):
            suite["data"][key] = source.url
            notes.append(
                f"{source.url} stays where it is, for {', '.join(private)} is private: workers need it under the same path"
            )
        else:
            suite["data"][key] = upload(store, source)
    reference = loaded.suite.model.card
    # The file's own text: in the request's card the version of an MLflow model is settled, which each audit does anew.
    own_card = load_card(Path(located(reference, loaded.base_dir))) if reference is not None else None
    path = f"{FOLDER}/{loaded.suite.suite}.json"
    store.write_json(
        path,
        {
            "suite": suite,
            "base_dir": str(loaded.base_dir),
            "card": own_card.raw if own_card else None,
            "card_dir": str(own_card.base_dir) if own_card else None,
            "pool": pool,
        },
    )
    return store.url_of(path), notes


def upload(store: Store, source: Source) -> str:
    """The URL of data that every worker can read: what is local is copied into the store, once."""
    if not _is_local(source.url):
        return source.url
    if not isinstance(source, TableSource) and not source.is_one_file:
        return _upload_files(store, source)
    file = Path(source.url.removeprefix("file://"))
    path = f"data/{source.digest()}/{file.name}"
    if not store.exists(path):
        store.create(path, file.read_bytes())
    return store.url_of(path)


def _upload_files(store: Store, source: ImageSource | AudioSource) -> str:
    """A folder of images or clips as it is, its mark last: with it they are complete. What a manifest names is put beside
    another one, which is written last."""
    folder = f"data/{source.digest()}"
    if not source.has_manifest:
        if not store.exists(f"{folder}/{COMPLETE}"):
            for place, content in source.contents():
                if content is not None:
                    store.write(f"{folder}/{place}", content)
            store.write(f"{folder}/{COMPLETE}", b"")
        return store.url_of(folder)
    manifest = f"{folder}/files.parquet"
    if not store.exists(manifest):
        paths = []
        for number, (place, content) in enumerate(source.contents()):
            paths.append(f"{number:07d}/{PurePosixPath(place).name}")
            if content is not None:
                store.write(f"{folder}/{paths[-1]}", content)
        table = pa.concat_tables(source.table.batches()).drop_columns(["file"])
        buffer = pa.BufferOutputStream()
        pq.write_table(table.append_column("path", pa.array(paths)), buffer)
        store.write(manifest, buffer.getvalue().to_pybytes())
    return store.url_of(manifest)


def open_suite(store: Store, url: str) -> SuiteDocument:
    """The deployed suite at a URL of this worker's store."""
    root, _, name = url.rpartition(f"/{FOLDER}/")
    if root != store.url:
        raise InputError(
            f"the suite was deployed with the store {root}, and this worker has {store.url}; "
            "start it with the same AITEST_STORE, or deploy the suite again"
        )
    try:
        with live.running():
            data = store.read_json(f"{FOLDER}/{name}")
    except ArtifactMissing as error:
        raise InputError(f"the deployed suite {url} is not there, or damaged; deploy it again with `aitest deploy`") from error
    suite = suite_of(Document(data["suite"]), Path(data["base_dir"]))
    card = load_card_data(data["card"], data["card_dir"]) if data["card"] else None
    return SuiteDocument(suite, card, data["pool"])


def _is_local(url: str) -> bool:
    return "://" not in url or url.startswith("file://")

"""Seeds: which rows, in which order, in shards that every later step reads one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from prefect import task

from aitest_lib.artifacts.codecs import put_table
from aitest_lib.artifacts.store import Store
from aitest_lib.config.card import LoadedCard
from aitest_lib.config.inputs import Image, Speech
from aitest_lib.config.loading import Location
from aitest_lib.config.suite import DataConfig, LoadedSuite, searches_of, transforms_of
from aitest_lib.config.templates import modality
from aitest_lib.data.audio import AudioSource
from aitest_lib.data.images import ImageSource
from aitest_lib.data.rules import parse_rule
from aitest_lib.data.sampling import StratifiedSampler
from aitest_lib.data.schema import Profile, build_profile
from aitest_lib.data.sources import Source
from aitest_lib.data.table import TableSource, row_digests
from aitest_lib.errors import InputError, nearest, unknown
from aitest_lib.properties.catalog import spec
from aitest_lib.scorers.figures import is_same
from aitest_tasks.audio_seeds import write_audio_seeds
from aitest_tasks.caching import CACHED, job_key
from aitest_tasks.image_seeds import write_image_seeds
from aitest_tasks.runs import Run, open_run
from aitest_tasks.seed_tables import DIGEST, LABEL, RANK, SEED_ID, seen_labels

SHARD_ROWS = 4_096
MOST_NAMED = 10  # columns in one message


def sampler_of(data: DataConfig) -> StratifiedSampler:
    """The sampler that the suite asks for."""
    return StratifiedSampler(rows=None if data.sample == "all" else data.sample)


def sent_columns(card: LoadedCard, data: DataConfig, names: list[str]) -> list[str]:
    """The columns that go to the model, in its order: the card's, else all but the label and the ignored ones. Of images,
    none: what stands beside them is not sent."""
    if modality(card.card.type) != "tabular":
        return []
    if card.card.inputs.columns is not None:
        _check_columns(card.card.inputs.columns, names, data.label)
        if data.label in card.card.inputs.columns:
            raise InputError(
                f"data.label: {data.label!r} is also in the card's inputs.columns, and the model must not be told its label; "
                "name another column"
            )
        return list(card.card.inputs.columns)
    ignored = {name for name, override in data.columns.items() if override.ignore}
    return [name for name in names if name != data.label and name not in ignored]


def _check_columns(wanted: Sequence[str], names: list[str], label: str | None) -> None:
    """Raises `InputError` where the data lack columns of the card, with all that differs between the two."""
    others = [name for name in names if name not in wanted and name != label]
    lacking = [
        repr(name) + "".join(f" (did you mean {near}?)" for near in nearest(name, others, 1))
        for name in wanted
        if name not in names
    ]
    if lacking:
        besides = f"; they have besides: {_named(others)}" if others else ""
        raise InputError(
            f"the card's inputs.columns: the data have no column {_named(lacking)}{besides}; "
            "write the card's columns as the data have them, or name other data"
        )


def check_data(loaded: LoadedSuite, source: Source) -> None:
    """Raises `InputError`, with its place in the suite, where that names a column or a label the data do not have."""
    names, data = source.schema.names, loaded.suite.data
    if not isinstance(source, TableSource):
        what = "images" if isinstance(source, ImageSource) else "clips"
        for key, given in (("train", data.train), ("rules", data.rules), ("synthesize", data.synthesize)):
            if given:
                raise loaded.document.error(("data", key), f"is for tables, and this model takes {what}; leave it out")
    named: list[tuple[Location, str]] = [(("data", "protected", name), name) for name in data.protected]
    named += [(("data", "schema", name), name) for name in data.columns]
    named += [(("data", "label"), data.label)] if data.label else []
    for path, name in named:
        if name not in names:
            raise loaded.document.error(path, f"{unknown('column', name, names)} (of {source.url})")
    _check_slices(loaded, names)
    for place, rule in enumerate(data.rules):
        try:
            parse_rule(rule, names)
        except InputError as error:
            raise loaded.document.error(("data", "rules", place), str(error)) from error
    strange = [name for name in names if name.startswith("@")]
    if strange:
        raise InputError(f"data {source.url}: column {strange[0]!r} starts with @, which aitest keeps for itself; rename it")


def _check_slices(loaded: LoadedSuite, names: list[str]) -> None:
    """A gate on a slice that no column and no transform can make would be inconclusive only after everything was paid for."""
    for index, item in enumerate(loaded.suite.properties):
        at: Location = ("properties", index)
        made: list[Any] = []
        if spec(item.property).shape == "perturbation":
            made = [*transforms_of(item, loaded.document, at), *searches_of(item, loaded.document, at)]
        own = {"queries"} if spec(item.property).shape == "search" else set[str]()
        own |= {"attribute", "voice"} if spec(item.property).by_voices else set()
        own |= {"attribute"} if spec(item.property).by_protected else set()
        own |= {"column"} if spec(item.property).by_directions else set()
        own |= set() if spec(item.property).modality == "speech" else {"class", "label", "size"}
        parts = {key for part in made for key in part.slice}
        known = {*names, *own, *parts}
        for metric, given in item.gates.items():
            for gate in given if isinstance(given, list) else [given]:
                for key in gate.slice or {}:
                    if key not in known:
                        raise loaded.document.error((*at, "gates", metric), f"slice: {unknown('slice', key, known)}")
                wanted = gate.slice or {}
                if wanted and set(wanted) <= parts and not any(_fits(part.slice, wanted) for part in made):
                    named = ", ".join(f"{key} {value}" for key, value in wanted.items())
                    problem = f"slice: no transform of the property has {named}; write its values as in `transforms`"
                    raise loaded.document.error((*at, "gates", metric), problem)


def _fits(slice: dict[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(key in slice and is_same(slice[key], value) for key, value in wanted.items())


def check_rows(*sources: Source | None) -> None:
    """Raises `InputError` where data have no rows."""
    for source in sources:
        if source is not None:
            source.rows  # noqa: B018 -- counting is what raises


def sampling_job(run: Run) -> dict[str, Any]:
    """Everything that the seeds depend on."""
    data = run.suite.suite.data
    job = {
        "sampler": sampler_of(data).fingerprint(),
        "data": run.record["test_digest"],
        "train": run.record["train_digest"],
        "label": data.label,
        "schema": {name: column.model_dump(mode="json") for name, column in data.columns.items()},
        "rules": data.rules,
        "columns": run.record["columns"],
        "random_seed": run.suite.suite.random_seed,
        "shard_rows": SHARD_ROWS,
        "classifier": run.info.type.endswith("-classifier"),
    }
    if run.modality == "image":
        image = run.card.card.inputs.image if run.record["card"] else None
        job |= {
            "image": None if image is None else image.model_dump(mode="json"),
            "classes": None if run.info.classes is None else list(run.info.classes),
        }
    if run.modality == "speech":
        speech = run.card.card.inputs.speech if run.record["card"] else None
        job["speech"] = None if speech is None else speech.model_dump(mode="json")
    return job


@task(name="sample_seeds", cache_key_fn=job_key, **CACHED)
def sample_seeds(job: dict[str, Any], run_uri: str) -> dict[str, Any]:
    """Infers the schema, chooses the seeds and stores them in rank order, private columns left out.

    Returns references to the profile, the shards and the rows' positions in the file, the numbers of rows and seeds, and
    the labels seen.
    """
    return sample(open_run(run_uri), job)


def sample(run: Run, job: dict[str, Any]) -> dict[str, Any]:
    """The work of `sample_seeds`, without Prefect."""
    data, test = run.suite.suite.data, run.test
    if isinstance(test, ImageSource):
        image = None if job["image"] is None else Image.model_validate(job["image"])
        return write_image_seeds(run.store, test, data, sampler_of(data), job["random_seed"], image, job["classes"])
    if isinstance(test, AudioSource):
        speech = None if job["speech"] is None else Speech.model_validate(job["speech"])
        return write_audio_seeds(run.store, test, data, sampler_of(data), job["random_seed"], speech)
    return write_seeds(run.store, test, run.train, data, job["columns"], job["random_seed"], job["classifier"])


def write_seeds(
    store: Store,
    test: TableSource,
    train: TableSource | None,
    data: DataConfig,
    columns: list[str],
    random_seed: int,
    classifier: bool,
) -> dict[str, Any]:
    """The work of `sample_seeds`, without Prefect."""
    profile = build_profile(test, train, data.columns, data.rules, {data.label} if data.label else set())
    private = set(profile.private)
    public = [name for name in test.schema.names if name not in private]
    strata = data.label if classifier else None
    chosen = sampler_of(data).choose(test, public, profile.private, strata, random_seed)
    labels = seen_labels(test, data.label, classifier)
    table = test.take(chosen.positions, public)
    sent = [name for name in columns if name not in private]
    shards = []
    for start in range(0, len(chosen.seed_ids), SHARD_ROWS):
        part = table.slice(start, SHARD_ROWS)
        extra = {
            SEED_ID: pa.array(chosen.seed_ids[start : start + SHARD_ROWS]),
            RANK: pa.array(np.arange(start, start + part.num_rows, dtype=np.int32)),
            DIGEST: pa.array([item.tobytes() for item in row_digests(part.select(sent))], pa.binary(16)),
        }
        if data.label:
            extra[LABEL] = part.column(data.label)
            part = part.drop_columns([data.label])
        shards.append(put_table(store, pa.table({**extra, **{name: part.column(name) for name in part.column_names}})))
    return {
        "profile": store.put_json(profile.to_dict()).to_dict(),
        "shards": [shard.to_dict() for shard in shards],
        "positions": put_table(store, pa.table({"row": chosen.positions})).to_dict(),
        "rows": test.rows,
        "seeds": len(chosen.seed_ids),
        "labels": labels,
        "notes": missing_notes(table.select(sent)),
    }


def missing_notes(sent: pa.Table) -> list[str]:
    """One sentence on the missing values in the columns that go to the model, none where nothing is missing."""
    gaps = {name: column.null_count for name, column in zip(sent.column_names, sent.columns, strict=True) if column.null_count}
    if not gaps:
        return []
    return [
        "missing values went to the model as they are (NaN, in JSON null), and many a model answers such rows without a word; "
        f"rows without a value, of {sent.num_rows:,}: {_named([f'{name} {count:,}' for name, count in gaps.items()])}"
    ]


def _named(items: Sequence[str]) -> str:
    """The first ten of them."""
    return ", ".join([*items[:MOST_NAMED], *["…"][: len(items) > MOST_NAMED]])


def changeable(profile: Profile, columns: list[str]) -> list[str]:
    """The sent columns that a transform may change."""
    return [name for name in columns if not profile[name].fixed]

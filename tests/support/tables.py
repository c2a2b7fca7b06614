"""Tables of seeds for tests of transforms: made by the same steps as those of a run, without Prefect or a model."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from aitest_lib.artifacts.codecs import get_table
from aitest_lib.artifacts.store import Store
from aitest_lib.config.suite import DataConfig
from aitest_lib.data.schema import Profile
from aitest_lib.data.table import memory_source, to_frame
from aitest_lib.rng import rng_for
from aitest_lib.transforms.base import TableBatch, TableDraw, TabularTransform
from aitest_lib.types import ArtifactRef

RANDOM_SEED = 7
_home = tempfile.TemporaryDirectory(prefix="aitest-seeds-")  # gone when the tests end

# One column of each kind that a transform must know how to treat.
SCHEMA: dict[str, dict[str, Any]] = {
    "red": {"one_hot": "colour"},
    "green": {"one_hot": "colour"},
    "blue": {"one_hot": "colour"},
    "state": {"tied": "city"},
    "born": {"immutable": True},
    "ssn": {"private": True},
    "note": {"ignore": True},
    "level": {"type": "category"},
}
PROTECTED = ("sex",)


def rows(n: int = 200, seed: int = 0) -> pd.DataFrame:
    """Rows with columns of every kind, some values missing."""
    rng = np.random.default_rng(seed)
    colour = rng.integers(0, 3, n)
    town = rng.choice(4, n, p=[0.6, 0.2, 0.15, 0.05])

    def gaps(values: Any) -> pd.Series:
        return pd.Series(values).astype(object).where(rng.random(n) > 0.1, None)

    return pd.DataFrame(
        {
            "age": rng.integers(17, 91, n),
            "pay": np.round(rng.lognormal(7, 1, n), 2),
            "rate": gaps(rng.normal(0, 1e-4, n)).astype(float),
            "visits": gaps(rng.integers(0, 10, n)).astype("Int64"),
            "account": 2**53 + rng.integers(0, 10**6, n),
            "job": gaps(rng.choice(["cook", "nurse", "clerk", "pilot"], n, p=[0.5, 0.3, 0.15, 0.05])),
            "member": rng.random(n) < 0.3,
            "level": rng.integers(1, 5, n),
            "sex": rng.choice(["F", "M"], n),
            "red": (colour == 0).astype(int),
            "green": (colour == 1).astype(int),
            "blue": (colour == 2).astype(int),
            "city": np.array(["Rome", "Milan", "Paris", "Lyon"])[town],
            "state": np.array(["IT", "IT", "FR", "FR"])[town],
            "born": rng.integers(1930, 2005, n),
            "ssn": rng.integers(10**8, 10**9, n),
            "note": rng.choice(["a", "b"], n),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, n), "D"),
            "same": np.full(n, 3.5),
        }
    )


@dataclass(frozen=True)
class Seeds:
    """Seeds as the generation of cases reads them: what is stored of them, and that as a batch."""

    store: Store
    made: dict[str, Any]
    columns: list[str]
    profile: Profile
    batch: TableBatch
    seed_ids: list[str]

    def job(self, component: TabularTransform, shard: int = 0) -> dict[str, Any]:
        """The job of generating cases, as `generation_job` makes it of a run."""
        return {
            "fingerprint": component.fingerprint(),
            "component": component.name,
            "parameters": component.parameters(),
            "shard": self.made["shards"][shard],
            "profile": self.made["profile"],
            "columns": self.columns,
            "protected": list(self.batch.protected),
            "random_seed": RANDOM_SEED,
        }

    def draw(self, component: TabularTransform, part: slice = slice(None)) -> TableDraw:
        """The draw for some of the seeds."""
        batch = TableBatch(self.batch.frame.iloc[part], self.profile, self.batch.changeable, self.batch.protected)
        return component.draw(self.seed_ids[part], batch, partial(rng_for, RANDOM_SEED, component.key))


def seeds_of(
    frame: pd.DataFrame,
    schema: dict[str, dict[str, Any]] | None = None,
    *,
    protected: tuple[str, ...] = (),
    columns: list[str] | None = None,
    **data: Any,
) -> Seeds:
    """The seeds of a frame; `columns` are sent to the model, all by default."""
    from aitest_tasks.sampling import changeable, write_seeds
    from aitest_tasks.seed_tables import SEED_ID

    store = Store(tempfile.mkdtemp(dir=_home.name))
    config = DataConfig.model_validate(
        {"test": "memory", "schema": schema or {}, "protected": dict.fromkeys(protected), **data}, by_alias=True
    )
    names = list(frame.columns) if columns is None else columns
    made = write_seeds(store, memory_source(frame), None, config, names, RANDOM_SEED, classifier=False)
    profile = Profile.of(store.get_json(ArtifactRef.of(made["profile"])))
    table = get_table(store, ArtifactRef.of(made["shards"][0]))
    features = [name for name in table.column_names if not name.startswith("@")]
    shown = to_frame(table.select(features), [column.name for column in profile.columns if column.missing])
    sent = [name for name in names if name in features]
    batch = TableBatch(shown, profile, tuple(changeable(profile, sent)), protected)
    return Seeds(store, made, names, profile, batch, table.column(SEED_ID).to_pylist())

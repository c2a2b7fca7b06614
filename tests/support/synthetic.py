"""Tables for tests of data synthesis, with their profiles, and the census sample with the leaves of a tree on its label."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.tree import DecisionTreeClassifier

from aitest_lib.data.schema import ColumnOverride, Profile, build_profile
from aitest_lib.data.table import memory_source, to_frame
from aitest_lib.demo.files import DATA


def profiled(
    frame: pd.DataFrame, schema: dict[str, dict[str, Any]] | None = None, rules: list[str] | None = None, label: str = ""
) -> tuple[pd.DataFrame, Profile]:
    """The frame as a run reads it, and its profile."""
    source = memory_source(frame)
    overrides = {name: ColumnOverride(**given) for name, given in (schema or {}).items()}
    profile = build_profile(source, None, overrides, rules or [], {label} - {""})
    return to_frame(pa.concat_tables(source.batches())), profile


@cache
def census() -> tuple[pd.DataFrame, Profile, np.ndarray]:
    """The rows of the census sample, their profile, and the leaf of each in a tree of 64 leaves."""
    frame, profile = profiled(pd.read_parquet(DATA / "census_train.parquet"), label="income")
    features = frame.drop(columns="income")
    numbers = features.apply(lambda column: pd.factorize(column, sort=True)[0] if column.dtype == object else column)
    tree = DecisionTreeClassifier(max_leaf_nodes=64, random_state=0).fit(numbers, frame["income"])
    return frame, profile, tree.apply(numbers).astype(np.int64)

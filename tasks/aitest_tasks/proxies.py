"""Which columns that the model is sent tell the protected ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aitest_lib.data.schema import slice_labels, sliceable
from aitest_lib.metrics.association import cramers_v
from aitest_lib.reports.records_fairness import Proxy
from aitest_tasks.growing_rows import public_columns
from aitest_tasks.protected import protected_groups, seed_column
from aitest_tasks.runs import Run

STRONGEST = 3  # named of each protected column
LEAST = 0.1  # association below which a column tells next to nothing


def proxies(run: Run, names: Sequence[str]) -> list[Proxy]:
    """The strongest proxies of each of these protected columns, the strongest first; numbers count by their quartiles."""
    groups = {name: protected_groups(run, name).codes for name in names}
    sent = [name for name in public_columns(run) if name not in groups and sliceable(run.profile[name])]
    codes = {name: _codes(run, name) for name in sent}
    found = []
    for attribute, own in groups.items():
        known = [(cramers_v(own, other) or 0.0, column) for column, other in codes.items()]
        strongest = sorted(((value, column) for value, column in known if value >= LEAST), key=lambda one: (-one[0], one[1]))
        found += [Proxy(attribute=attribute, column=column, association=value) for value, column in strongest[:STRONGEST]]
    return found


def _codes(run: Run, name: str) -> NDArray[np.int64]:
    labels = slice_labels(seed_column(run, name), run.profile[name])
    return np.asarray(np.unique(np.array(labels, dtype=object).astype(str), return_inverse=True)[1], np.int64)

"""The protected columns of a run: the groups of its seeds, and the values that stand for them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from aitest_lib.artifacts.codecs import get_table
from aitest_lib.data.groups import Groups, group_codes
from aitest_tasks.runs import Run


def seed_column(run: Run, name: str) -> pa.ChunkedArray:
    """A public column of the seeds, in rank order."""
    return pa.chunked_array([chunk for ref in run.seeds for chunk in get_table(run.store, ref, [name]).column(name).chunks])


def protected_groups(run: Run, name: str) -> Groups:
    """The groups of the seeds, in rank order, by a protected column."""
    given = run.suite.suite.data.protected.get(name)
    return group_codes(seed_column(run, name), run.profile[name], given.cut_at if given else None)


def group_medians(run: Run, name: str) -> list[float]:
    """Of a protected column of numbers the median of each of its groups, a value that occurs."""
    numbers = seed_column(run, name).cast(pa.float64(), safe=False).to_numpy()
    codes, known = protected_groups(run, name).codes, ~np.isnan(numbers)
    found = [numbers[known & (codes == code)] for code in np.unique(codes[known])]
    return sorted(float(np.quantile(part, 0.5, method="nearest")) for part in found)

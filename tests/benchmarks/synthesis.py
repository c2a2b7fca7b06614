"""Rows made of the census sample: what a million cost, how real they look, and what each part of the method is good for."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from aitest_lib.data.coverage import Coverage
from aitest_lib.data.schema import Profile, build_profile
from aitest_lib.data.synthesis import Marginal, Rows, Swap
from aitest_lib.data.table import TableSource, to_frame, to_table
from aitest_lib.data.ties import find_ties
from aitest_lib.data.units import build_pool
from aitest_lib.demo.files import DATA
from aitest_lib.metrics.realism import rule_violations, tied_violations, two_sample_auc
from aitest_lib.surrogates.tree import Test

LABEL = "income"
LEAVES = 64
SEEN = 20_000  # rows of each method whose violations are counted
# What everybody knows of these columns; ties that were found are no yardstick for themselves.
SPOUSES = "(relationship != 'Husband' or sex == 'Male') and (relationship != 'Wife' or sex == 'Female')"
Leaves = tuple["np.ndarray", dict[int, list[tuple[Test, bool]]]]


def synthesis() -> None:
    """The two tables."""
    print(f"{'synthesis':<26}{'rows':>10}{'CPU s':>10}{'rows/CPU s':>12}{'peak MB':>10}")
    for method in ("swap", "marginal", "coverage"):
        for rows in (100_000, 1_000_000):
            done = subprocess.run(
                [sys.executable, __file__, method, str(rows)],
                capture_output=True,
                text=True,
                check=True,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )
            cpu, peak = json.loads(done.stdout)
            print(f"{method:<26}{rows:>10,}{cpu:>10.1f}{rows / cpu:>12,.0f}{peak:>10,.0f}", flush=True)
    _realism()
    print()


def _realism() -> None:
    _, frame, profile, (leaves, paths) = _census()
    ties, anywhere = [tie.columns for tie in find_ties(frame, profile)], np.zeros(len(frame), np.int64)
    loose, tied = build_pool(frame, profile, [], [], 1), build_pool(frame, profile, ties, [], 1)
    ruled = build_pool(frame, profile, [], [SPOUSES], 1)
    methods: dict[str, Callable[[], Rows]] = {
        "swap": lambda: Swap().over(loose, anywhere),
        "swap, rate 0.1": lambda: Swap(rate=0.1).over(loose, anywhere),
        "swap, rule": lambda: Swap().over(ruled, anywhere),
        "swap, ties": lambda: Swap().over(tied, anywhere),
        "swap, leaves": lambda: Swap().over(loose, leaves),
        "swap, leaves, ties": lambda: Swap().over(tied, leaves),
        "marginal": lambda: Marginal().over(loose),
        "marginal, ties": lambda: Marginal().over(tied),
        "coverage, ties": lambda: Coverage().over(tied, paths),
    }
    print(f"{'realism':<26}{'AUC':>10}{'95 % bounds':>16}{'tied':>10}{'spouses':>10}")
    for name, rows in methods.items():
        made = rows().make(0, SEEN)
        auc = two_sample_auc(frame, made.frame, made.base, profile, 1)
        low, high = auc.bounds(0.975) or (np.nan, np.nan)
        broken = tied_violations(made.frame, frame, ties) / SEEN, rule_violations(made.frame, [SPOUSES]) / SEEN
        print(f"{name:<26}{auc.value:>10.3f}{f'{low:.3f}..{high:.3f}':>16}{broken[0]:>10.1%}{broken[1]:>10.2%}", flush=True)


def _census() -> tuple[TableSource, pd.DataFrame, Profile, Leaves]:
    """The sample, its profile, and the leaves and paths of a tree on its numbers and two-valued columns."""
    from sklearn.tree import DecisionTreeClassifier

    source = TableSource(str(DATA / "census_train.parquet"))
    profile = build_profile(source, None, {}, [], {LABEL})
    frame = to_frame(pa.concat_tables(list(source.batches())))
    questions = [Test(column=column.name, among=(value,)) for column in profile.columns for value in column.values]
    numbers = [column.name for column in profile.columns if column.numeric]
    features = np.column_stack([frame[numbers], *(question.holds(frame) for question in questions)])
    grown = DecisionTreeClassifier(max_leaf_nodes=LEAVES, random_state=0).fit(features, frame[LABEL])
    tree, paths = grown.tree_, {}

    def walk(node: int, path: list[tuple[Test, bool]]) -> None:
        if tree.children_left[node] < 0:
            paths[node] = path
            return
        place = tree.feature[node]
        if place < len(numbers):
            test, left = Test(column=numbers[place], at_most=float(tree.threshold[node])), True
        else:
            test, left = questions[place - len(numbers)], False
        walk(tree.children_left[node], [*path, (test, left)])
        walk(tree.children_right[node], [*path, (test, not left)])

    walk(0, [])
    return source, frame, profile, (grown.apply(features).astype(np.int64), paths)


def _written(method: str, count: int) -> None:
    """Writes so many rows to a Parquet file, piece by piece; prints CPU seconds and peak megabytes."""
    source, frame, profile, (leaves, paths) = _census()
    started = time.process_time()
    pool = build_pool(frame, profile, [tie.columns for tie in find_ties(frame, profile)], [SPOUSES], 1)
    makers: dict[str, Callable[[], Rows]] = {
        "swap": lambda: Swap().over(pool, leaves),
        "marginal": lambda: Marginal().over(pool),
        "coverage": lambda: Coverage().over(pool, paths),
    }
    with tempfile.TemporaryDirectory() as folder, pq.ParquetWriter(Path(folder, "rows.parquet"), source.schema) as writer:
        for chunk in makers[method]().chunks(count):
            writer.write_table(to_table(chunk.frame, source.schema))
    print(json.dumps([time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3]))


if __name__ == "__main__":
    _written(sys.argv[1], int(sys.argv[2]))

"""How many inputs a shard of queries has: what is under way together is about five seconds of work."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from aitest_tasks.querying import LARGEST_SHARD, shard_size


def run_of(seconds_per_row: float, workers: int, batch: int, concurrency: int | None) -> SimpleNamespace:
    endpoint = None if concurrency is None else SimpleNamespace(concurrency=concurrency)
    return SimpleNamespace(
        options={"workers": workers},
        prepared={"batch_size": batch, "seconds_per_row": seconds_per_row},
        record={"card": {"name": "m"}},
        card=SimpleNamespace(card=SimpleNamespace(endpoint=endpoint)),
    )


@pytest.mark.parametrize(
    ("seconds_per_row", "workers", "batch", "concurrency", "size"),
    [
        (0.01, 4, 1, 4, 125),  # 5 s / 10 ms, a quarter for each worker
        (0.01, 4, 64, 4, 64),  # whole batches
        (1.0, 4, 1, 4, 1),  # a slow model loses one answer a worker
        (1.0, 8, 1, 32, 4),  # every call that the model takes at once is made
        (1.0, 8, 256, 8, 256),
        (0.0, 1, 1, None, LARGEST_SHARD),
        (0.0, 1, 256, 1, 3840),
        (0.001, 4, 1, None, 1250),
    ],
)
def test_size(seconds_per_row, workers, batch, concurrency, size):
    assert shard_size(run_of(seconds_per_row, workers, batch, concurrency)) == size

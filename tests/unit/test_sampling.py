"""Seeds: the same ones in the same order, whatever the order of the file."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from aitest_lib.data.sampling import StratifiedSampler
from aitest_lib.data.table import hex_digests, memory_source, row_digests
from aitest_lib.errors import InputError
from aitest_lib.rng import rank_key


def rows(n: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(17, 30, n),
            "job": rng.choice(["cook", "nurse"], n),
            "ssn": rng.integers(0, 10**9, n),
            "label": rng.choice(["no", "yes", "rare"], n, p=[0.7, 0.28, 0.02]),
        }
    )


PUBLIC = ["age", "job", "label"]


def chosen(frame, *, rows=None, public=PUBLIC, private=(), strata="label", random_seed=7):
    return StratifiedSampler(rows=rows).choose(memory_source(frame), list(public), list(private), strata, random_seed)


@pytest.mark.parametrize("count", [None, 50, 1])
@pytest.mark.parametrize("private", [(), ("ssn",)])
def test_a_shuffled_file_gives_the_same_seeds_in_the_same_order(count, private):
    frame = rows()
    shuffled = frame.sample(frac=1, random_state=3)
    first, second = chosen(frame, rows=count, private=private), chosen(shuffled, rows=count, private=private)
    assert first.seed_ids == second.seed_ids
    columns = [*PUBLIC, *private]
    here = frame.iloc[first.positions][columns].to_numpy().tolist()
    assert here == shuffled.iloc[second.positions][columns].to_numpy().tolist()


def test_the_order_is_that_of_the_ranks():
    seeds = chosen(rows())
    ranks = [rank_key(7, seed_id) for seed_id in seeds.seed_ids]
    assert ranks == sorted(ranks)
    assert chosen(rows(), random_seed=8).seed_ids != seeds.seed_ids
    assert sorted(chosen(rows(), random_seed=8).seed_ids) == sorted(seeds.seed_ids)


def test_an_id_is_the_digest_of_the_public_columns_and_equal_rows_are_numbered():
    frame = pd.DataFrame({"a": [1, 2, 1, 1], "secret": [5, 6, 7, 8]})
    one, two = hex_digests(row_digests(pa.table({"a": [1, 2]})))
    for private in ([], ["secret"]):
        seeds = chosen(frame, public=["a"], private=private, strata=None)
        assert sorted(seeds.seed_ids) == sorted([one, f"{one}-2", f"{one}-3", two])
    changed = chosen(frame.assign(secret=[9, 9, 9, 1]), public=["a"], private=["secret"], strata=None)
    assert sorted(changed.seed_ids) == sorted([one, f"{one}-2", f"{one}-3", two])


def test_private_columns_order_equal_rows():
    frame = pd.DataFrame({"a": [1, 1, 1], "secret": ["x", "y", "z"]})
    reordered = frame.iloc[[2, 0, 1]]

    def secrets(data):
        seeds = chosen(data, public=["a"], private=["secret"], strata=None)
        return dict(zip(seeds.seed_ids, data.iloc[seeds.positions]["secret"], strict=True))

    assert secrets(frame) == secrets(reordered)


def test_classes_keep_their_shares_by_largest_remainder():
    labels = ["a"] * 60 + ["b"] * 30 + ["c"] * 10
    frame = pd.DataFrame({"n": range(100), "label": labels})
    for count, expected in ((10, {"a": 6, "b": 3, "c": 1}), (5, {"a": 3, "b": 2}), (99, {"a": 59, "b": 30, "c": 10})):
        seeds = chosen(frame, rows=count, public=["n", "label"])
        assert frame.iloc[seeds.positions]["label"].value_counts().to_dict() == expected, count


def test_a_smaller_sample_is_part_of_a_larger_one_within_each_class():
    frame = pd.DataFrame({"n": range(200), "label": ["a", "b"] * 100})
    small, large = (chosen(frame, rows=count, public=["n", "label"]).seed_ids for count in (20, 80))
    assert set(small) < set(large)
    assert [seed for seed in large if seed in set(small)] == small


@pytest.mark.parametrize("count", [300, 301, 10_000])
def test_a_sample_of_all_rows_or_more_is_all_rows(count):
    assert chosen(rows(), rows=count).seed_ids == chosen(rows()).seed_ids


def test_without_classes_the_lowest_ranks_are_taken():
    assert chosen(rows(), rows=10, strata=None).seed_ids == chosen(rows()).seed_ids[:10]


def test_one_row():
    seeds = chosen(rows(1))
    assert (seeds.positions.tolist(), len(seeds.seed_ids)) == ([0], 1)


def test_no_rows_is_an_error():
    with pytest.raises(InputError, match="got no rows, expected at least one"):
        chosen(rows().iloc[:0])

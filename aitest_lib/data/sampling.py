"""Which rows are the seeds, what each is called, and in which order they come."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from aitest_lib.component import Component
from aitest_lib.data.table import TableSource, hex_digests, row_digests
from aitest_lib.errors import InputError
from aitest_lib.rng import rank_key


@dataclass(frozen=True)
class Chosen:
    """The seeds in rank order: position of each in the file, and its id."""

    positions: NDArray[np.int64]
    seed_ids: list[str]


@dataclass(frozen=True, kw_only=True)
class StratifiedSampler(Component):
    """All rows, or `rows` of them in the proportions of the label's classes, chosen by hash.

    Which rows are taken depends on their content and the random seed only, never on their order in the file.
    """

    name: ClassVar[str] = "stratified"
    rows: int | None = None

    def choose(
        self, source: TableSource, public: list[str], private: list[str], strata: str | None, random_seed: int
    ) -> Chosen:
        """Reads the table once and keeps 16 bytes a row.

        A seed's id is the digest of its public columns (label included); equal seeds get a running number. Private
        columns only order equal seeds, so that an id says nothing about them.
        """
        return self.choose_digests(*_scan(source, public, private, strata), random_seed)

    def choose_digests(
        self,
        digests: NDArray[np.void],
        ties: NDArray[np.void] | None,
        labels: NDArray[np.int64] | None,
        random_seed: int,
    ) -> Chosen:
        """The same from the digest of every seed (n,), what orders equal ones, and the codes of their labels."""
        seed_ids = _numbered(digests, ties)
        ranks = np.frombuffer(b"".join(bytes.fromhex(rank_key(random_seed, seed_id)) for seed_id in seed_ids), dtype="V16")
        order = np.argsort(ranks, kind="stable")
        if self.rows is not None and self.rows < len(order):
            order = order[_stratified(labels[order], self.rows)] if labels is not None else order[: self.rows]
        return Chosen(order.astype(np.int64), [seed_ids[position] for position in order])


def _scan(
    source: TableSource, public: list[str], private: list[str], strata: str | None
) -> tuple[NDArray[np.void], NDArray[np.void] | None, NDArray[np.int64] | None]:
    digests, ties, labels = [], [], []
    codes: dict[Any, int] = {}
    columns = list(dict.fromkeys([*public, *private]))
    for batch in source.batches(columns):
        digests.append(row_digests(batch.select(public)))
        if private:
            ties.append(row_digests(batch.select(private)))
        if strata is not None:
            labels.append(
                np.array([codes.setdefault(value, len(codes)) for value in batch.column(strata).to_pylist()], np.int64)
            )
    if not digests:
        raise InputError(f"data {source.url}: got no rows, expected at least one")
    return (
        np.concatenate(digests),
        np.concatenate(ties) if private else None,
        np.concatenate(labels) if strata is not None else None,
    )


def _numbered(digests: NDArray[np.void], ties: NDArray[np.void] | None) -> list[str]:
    names = hex_digests(digests)
    order = np.lexsort((np.arange(len(digests)), *([_as_rank(ties)] if ties is not None else []), _as_rank(digests)))
    number = 1
    for before, position in pairwise(order):
        number = number + 1 if digests[before] == digests[position] else 1
        if number > 1:
            names[position] = f"{names[position]}-{number}"
    return names


def _as_rank(digests: NDArray[np.void]) -> NDArray[np.int64]:
    """Place of each digest among the distinct ones: lexsort takes numbers, not bytes."""
    return np.asarray(np.unique(digests, return_inverse=True)[1], np.int64)


def _stratified(labels: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    """Places (in rank order) of `rows` rows, each class in its share (largest remainder), lowest ranks first."""
    classes, counts = np.unique(labels, return_counts=True)
    exact = counts * rows / len(labels)
    take = np.floor(exact).astype(int)
    # Ties of the remainder go to the larger class, then to the one met first in rank order: never to the file's order.
    first = np.array([np.flatnonzero(labels == value)[0] for value in classes])
    for place in np.lexsort((first, -counts, -(exact - take)))[: rows - int(take.sum())]:
        take[place] += 1
    kept = [np.flatnonzero(labels == value)[:count] for value, count in zip(classes, take, strict=True)]
    return np.sort(np.concatenate(kept))

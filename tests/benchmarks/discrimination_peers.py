"""Other searches for discriminatory rows: at random, among real rows, Aequitas and symbolic generation, as far as they fit.

All are written anew, batched, for the benchmark `discrimination`, and step in the ordered lists of the values that a column has
in the data. A row that is looked at is asked with every combination of the protected columns; every query counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any

import numpy as np
import pandas as pd

Array = np.ndarray[Any, Any]
Ask = Callable[[pd.DataFrame], Array]
TURNS = 100  # rows that Aequitas changes side by side
SEED_ROWS = 1_000  # of which symbolic generation takes the first rows, spread by clusters
CLUSTERS = 4
LOCAL_DEPTH = 5  # of the tree that stands in for the model around a row
TARGET = 0.3  # confidence of a path's test from which symbolic generation negates it
ANEW = 0.05  # of its walks that begin again at a row of the first stage, at each step
STEP = 0.01  # by which Aequitas moves the chance of a column or a direction
GLOBAL = 0.3  # share of Aequitas' queries that look for rows to start from


@dataclass
class Grid:
    """A table as numbers: of each column the sorted values, of each row their places. The budget is kept here."""

    frame: pd.DataFrame
    protected: list[str]
    ask: Ask
    budget: int
    values: dict[str, Array] = field(init=False)
    asked: int = 0
    looked: int = 0
    found: dict[bytes, tuple[Array, Array]] = field(default_factory=dict)  # places of the values, and the answers

    def __post_init__(self) -> None:
        self.values = {name: np.array(sorted(self.frame[name].unique()), dtype=object) for name in self.frame}
        self.free = [name for name in self.frame if name not in self.protected]
        self.sizes = np.array([len(self.values[name]) for name in self.free])
        sizes = [len(self.values[name]) for name in self.protected]
        self.combinations = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1)
        self._seen: set[bytes] = set()

    @property
    def full(self) -> int:
        """Rows that can still be asked with every combination."""
        return (self.budget - self.asked) // len(self.combinations)

    def codes(self, frame: pd.DataFrame) -> Array:
        """The places (n, free columns) of the values of rows."""
        return np.stack([np.searchsorted(self.values[name], frame[name].to_numpy(object)) for name in self.free], axis=1)

    def answers(self, codes: Array, combinations: Array) -> Array:
        """Class codes of rows, each with one combination; they count."""
        self.asked += len(codes)
        return self.ask(self.rows(codes, combinations))

    def rows(self, codes: Array, combinations: Array) -> pd.DataFrame:
        """The rows as a frame in the types of the data."""
        cells = {name: self.values[name][codes[:, place]] for place, name in enumerate(self.free)}
        for place, name in enumerate(self.protected):
            cells[name] = self.values[name][self.combinations[combinations, place]]
        return pd.DataFrame({name: pd.Series(cells[name]).astype(self.frame[name].dtype) for name in self.frame})

    def look(self, codes: Array) -> Array:
        """Which rows (m, free columns) are discriminatory, asked with every combination; a row that was looked at is not asked
        again. Where the budget ends, the others are not."""
        result = np.zeros(len(codes), bool)
        keys = [row.tobytes() for row in codes]
        fresh = list({key: place for place, key in enumerate(keys) if key not in self._seen}.values())[: max(self.full, 0)]
        if fresh:
            many = len(self.combinations)
            told = self.answers(np.repeat(codes[fresh], many, axis=0), np.tile(np.arange(many), len(fresh))).reshape(-1, many)
            self.looked += len(fresh)
            self._seen.update(keys[place] for place in fresh)
            for place, row in zip(fresh, told, strict=True):
                if (row != row[0]).any():
                    self.found[keys[place]] = codes[place], row
        for place, key in enumerate(keys):
            result[place] = key in self.found
        return result


def random_rows(grid: Grid, rng: np.random.Generator) -> None:
    """Themis (Galhotra, Brun & Meliou 2017): every value of every column is as likely."""
    while grid.full > 0:
        grid.look(rng.integers(0, grid.sizes, size=(min(500, grid.full), len(grid.sizes))))


def real_rows(grid: Grid, rng: np.random.Generator) -> None:
    """Real rows in random order."""
    codes = grid.codes(grid.frame)[rng.permutation(len(grid.frame))]
    for at in range(0, len(codes), 500):
        if grid.full <= 0:
            return
        grid.look(codes[at : at + 500])


def aequitas(grid: Grid, rng: np.random.Generator) -> None:
    """Aequitas, fully directed (Udeshi, Arora & Chattopadhyay 2018): rows at random, then single steps from those found, in
    columns and directions that are drawn the more the more they have led to found rows.

    Steps are taken from many rows at once, and are one to the next value of a column; a step that finds nothing is taken back.
    """
    width = len(grid.sizes)
    while grid.asked < GLOBAL * grid.budget:
        grid.look(rng.integers(0, grid.sizes, size=(100, width)))
    starts = np.array([codes for codes, _ in grid.found.values()])
    if not len(starts):
        return random_rows(grid, rng)
    present = starts[rng.integers(len(starts), size=TURNS)]
    column, up = np.full(width, 1 / width), np.full(width, 0.5)
    for _ in range(grid.budget):
        if grid.full <= 0:
            break
        moved = present.copy()
        which = rng.choice(width, TURNS, p=column / column.sum())
        rising = rng.random(TURNS) < up[which]
        rows = np.arange(TURNS)
        moved[rows, which] = np.clip(moved[rows, which] + np.where(rising, 1, -1), 0, grid.sizes[which] - 1)
        hit = grid.look(moved)
        for place, direction, good in zip(which, rising, hit, strict=True):
            up[place] = np.clip(up[place] + (STEP if good == direction else -STEP), 0.05, 0.95)
            column[place] = max(column[place] + (STEP if good else 0), 1e-3)
        present = np.where(hit[:, None], moved, present)
        again = rng.random(TURNS) < ANEW
        present[again] = starts[rng.integers(len(starts), size=again.sum())]
    return None


def symbolic(grid: Grid, rng: np.random.Generator, local: int) -> None:
    """Symbolic generation (Aggarwal et al. 2019, Black box fairness testing of machine learning models): around a row `local`
    rows are asked, a decision tree is fitted to them, and rows are made that take another branch somewhere on the path.

    Rows come from clusters of the data in turn; rows found go first, then those whose negated test was the surest.
    """
    queue: list[tuple[float, int, Array]] = []
    order = count()
    for codes in _clustered(grid, rng):
        heappush(queue, (1.0, next(order), codes))
    while queue and grid.full > 0:
        _, _, codes = heappop(queue)
        found = grid.look(codes[None])[0]
        if grid.budget - grid.asked < local:
            return
        for rank, made in _branches(grid, codes, local, rng):
            heappush(queue, (-1.0 if found else 1.0 - rank, next(order), made))


def _clustered(grid: Grid, rng: np.random.Generator) -> Iterator[Array]:
    """Real rows, of every cluster in turn."""
    from sklearn.cluster import KMeans

    codes = grid.codes(grid.frame)[rng.permutation(len(grid.frame))[:SEED_ROWS]]
    label = KMeans(CLUSTERS, n_init=1, random_state=int(rng.integers(2**31))).fit_predict(codes / grid.sizes)
    members = [iter(codes[label == cluster]) for cluster in range(CLUSTERS)]
    while members:
        for one in list(members):
            row = next(one, None)
            if row is None:
                members.remove(one)
            else:
                yield row


def _branches(grid: Grid, codes: Array, local: int, rng: np.random.Generator) -> Iterator[tuple[float, Array]]:
    """Rows that differ from one in a test on its path through a tree fitted around it, with the test's confidence."""
    from sklearn.tree import DecisionTreeClassifier

    around = np.repeat(codes[None], local, axis=0)
    drawn = rng.random(around.shape) < 0.5
    others = grid.codes(grid.frame.take(rng.integers(len(grid.frame), size=local)))
    around[drawn] = others[drawn]
    answers = grid.answers(around, np.zeros(local, np.int64))
    tree = DecisionTreeClassifier(max_depth=LOCAL_DEPTH, random_state=0).fit(around, answers).tree_
    node = 0
    while tree.children_left[node] >= 0:
        place, edge = tree.feature[node], tree.threshold[node]
        left = codes[place] <= edge
        other = tree.children_right[node] if left else tree.children_left[node]
        sure = float(tree.value[other].max() / tree.value[other].sum())
        if sure > TARGET:
            made = codes.copy()
            low, high = (int(edge) + 1, grid.sizes[place]) if left else (0, int(edge) + 1)
            made[place] = rng.integers(low, high)
            yield sure, made
        node = tree.children_left[node] if left else tree.children_right[node]

"""How many rows that protected columns alone decide does a search find in 20,000 queries, and are they rows that could be."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from discrimination_peers import Array, Grid, aequitas, random_rows, real_rows, symbolic
from threadpoolctl import threadpool_limits
from trees_models import Model, Split, split, train

from aitest_lib.data.counterparts import Counterparts, combined_values
from aitest_lib.data.schema import build_profile
from aitest_lib.data.table import TableSource, to_frame
from aitest_lib.data.ties import find_ties
from aitest_lib.demo.files import DATA
from aitest_lib.metrics.realism import looks_real
from aitest_lib.searches.pairs.search import PairSearch
from aitest_lib.stats.intervals import wilson

PROTECTED = ["sex", "race"]
KINDS = {"gb": "gradient boosting", "mlp": "network"}
LEAVES = 64
PREVALENCE_ROWS = 2_000
HEAD = f"{'method':<28}{'per 1,000':>10}{'success':>9}{'real':>8}{'ties':>8}{'regions':>9}{'rows':>8}{'CPU s':>8}{'model s':>9}"
Peer = Callable[[Grid, np.random.Generator], None]
PEERS: dict[str, Peer] = {
    "random (Themis)": random_rows,
    "real rows": real_rows,
    "Aequitas": aequitas,
    "symbolic, 500 local rows": lambda grid, rng: symbolic(grid, rng, 500),
    "symbolic, 50 local rows": lambda grid, rng: symbolic(grid, rng, 50),
}


@dataclass(frozen=True)
class Case:
    """A model, and the held-out rows that searches start from."""

    data: Split
    model: Model
    counterparts: Counterparts
    seed: int

    @property
    def rows(self) -> pd.DataFrame:
        """The real rows."""
        return self.data.test


@dataclass(frozen=True)
class Result:
    """What a search found in `queries`: both rows of each pair and the combinations of protected values in them; `looked`: rows
    that were asked with two combinations at least; CPU seconds beyond the model's, and the model's."""

    first: pd.DataFrame
    second: pd.DataFrame
    places: tuple[Array, Array]
    queries: int
    looked: int
    seconds: float
    model: float


def case(kind: str, seed: int) -> Case:
    """Adult, or the census sample of the demonstration, and a model trained on one part of it."""
    data = split("adult", seed) or _sample()
    ties = tuple(tie.columns for tie in find_ties(data.test, data.profile))
    values = combined_values(data.profile, PROTECTED).values
    return Case(data, train(kind, data, seed), Counterparts(values, data.profile, data.test, ties), seed)


def _sample() -> Split:
    label = "income"
    sources = [TableSource(str(DATA / f"census_{part}.parquet")) for part in ("train", "test")]
    profile = build_profile(sources[1], sources[0], {}, [], {label})
    train_rows, test_rows = (to_frame(source.take(np.arange(source.rows), source.schema.names)) for source in sources)
    return Split(profile, train_rows.drop(columns=label), test_rows.drop(columns=label), train_rows[label], test_rows[label])


def own(given: Case, queries: int, *, scored: bool) -> Result:
    """aitest's search, with the model's scores or without."""
    started, waited = time.process_time(), given.model.seconds
    search = PairSearch(queries=queries)
    state = search.start(
        given.rows, given.data.profile, given.counterparts, classes=2, ties=given.counterparts.ties, random_seed=given.seed
    )
    while not state.done:
        rows, _ = search.ask(state)
        scores = given.model.scores(rows)
        state = search.tell(state, scores.argmax(axis=1).astype(float), scores if scored else None)
    pairs = search.result(state)
    asking = given.model.seconds - waited
    spent = time.process_time() - started - asking
    looked = int((state.looked.tries > 0).sum())
    places = pairs.first_place, pairs.second_place
    return Result(pairs.first, pairs.second, places, state.queries, looked, spent, asking)


def peer(given: Case, queries: int, method: Peer) -> Result:
    """A peer, which does not know what goes together. Of the differently decided combinations of a row the two count that look
    best."""
    started, waited = time.process_time(), given.model.seconds
    grid = Grid(given.rows, PROTECTED, given.model, queries)
    method(grid, np.random.default_rng(given.seed))
    asking = given.model.seconds - waited
    spent = time.process_time() - started - asking
    codes, told = (np.array(part) for part in zip(*grid.found.values(), strict=True)) if grid.found else _nothing(grid)
    many = len(grid.combinations)
    rows = grid.rows(np.repeat(codes, many, axis=0), np.tile(np.arange(many), len(codes)))
    own_place = given.counterparts.own(rows)
    good = given.counterparts.likely(rows, own_place).reshape(-1, many) if len(rows) else np.ones((0, many), bool)
    first = np.argsort(~good, axis=1, kind="stable")[:, 0]
    other = told != told[np.arange(len(told)), first][:, None]
    second = np.where(other, 1 + good, 0).argmax(axis=1)
    frames = [grid.rows(codes, place) for place in (first, second)]
    places = (given.counterparts.own(frames[0]), given.counterparts.own(frames[1]))
    return Result(*frames, places, grid.asked, grid.looked, spent, asking)


def _nothing(grid: Grid) -> tuple[Array, Array]:
    return np.zeros((0, len(grid.free)), np.int64), np.zeros((0, len(grid.combinations)), np.int64)


@dataclass(frozen=True)
class Figures:
    """Found rows per 1,000 queries; `success`: share of the rows looked at that were found; shares of the pairs of which both
    rows are no outliers (`real`), and contradict nothing that goes together (`ties`); leaves of a surrogate tree that they
    reach."""

    per_thousand: float
    success: float
    real: float
    ties: float
    regions: int


def figures(given: Case, result: Result, leaves: Callable[[pd.DataFrame], Array]) -> Figures:
    """The figures of what was found."""
    both = list(zip((result.first, result.second), result.places, strict=True))
    count = len(result.first)
    if not count:
        return Figures(0.0, 0.0, np.nan, np.nan, 0)
    real = np.logical_and.reduce([looks_real(given.rows, rows, given.data.profile, 0) for rows, _ in both])
    ties = np.logical_and.reduce([given.counterparts.likely(rows, place) for rows, place in both])
    regions = len(set(leaves(result.first)))
    return Figures(1000 * count / result.queries, count / result.looked, float(real.mean()), float(ties.mean()), regions)


def surrogate(given: Case) -> Callable[[pd.DataFrame], Array]:
    """Says for rows which of the 64 leaves of a tree fitted to the model's decisions they reach."""
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder
    from sklearn.tree import DecisionTreeClassifier

    texts = [name for name in given.rows if not given.data.profile[name].numeric]
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), texts), remainder="passthrough", sparse_threshold=0
    )
    matrix = encode.fit_transform(given.rows)
    tree = DecisionTreeClassifier(max_leaf_nodes=LEAVES, random_state=0).fit(matrix, given.model(given.rows))
    return lambda rows: np.asarray(tree.apply(encode.transform(rows)))


def prevalence(given: Case) -> Iterator[tuple[str, int, int]]:
    """Of 2,000 real rows, how many are decided otherwise with other protected values: with any, and with likely ones."""
    rows = given.rows.head(PREVALENCE_ROWS)
    answers = given.model(rows)
    turned = {"any combination": np.zeros(len(rows), bool), "likely combinations": np.zeros(len(rows), bool)}
    for place in range(len(given.counterparts.values)):
        places = np.full(len(rows), place)
        other = given.model(given.counterparts.apply(rows, places)) != answers
        turned["any combination"] |= other
        turned["likely combinations"] |= other & given.counterparts.likely(rows, places)
    for name, hit in turned.items():
        yield name, int(hit.sum()), len(rows)


def discrimination(queries: int = 20_000, seeds: int = 2, kinds: Sequence[str] = tuple(KINDS)) -> None:
    """The table of each model."""
    with threadpool_limits(1):
        for kind in kinds:
            cases = [case(kind, seed) for seed in range(seeds)]
            print(f"\ndiscrimination, {KINDS[kind]}, {queries:,} queries, {seeds} seeds")
            for given in cases:
                for name, turned, rows in prevalence(given):
                    low, high = wilson(turned, rows).bounds(0.975) or (np.nan, np.nan)
                    print(f"prevalence, seed {given.seed}, {name}: {turned / rows:.1%} ({low:.1%}..{high:.1%}) of {rows:,}")
            print(HEAD)
            leaves = [surrogate(given) for given in cases]
            for name, method in _methods(queries).items():
                results = [method(given) for given in cases]
                found = [figures(*one) for one in zip(cases, results, leaves, strict=True)]
                _print(name, results, found)


def _methods(queries: int) -> dict[str, Callable[[Case], Result]]:
    def of(method: Peer) -> Callable[[Case], Result]:
        return lambda given: peer(given, queries, method)

    return {
        "aitest": lambda given: own(given, queries, scored=True),
        "aitest, labels": lambda given: own(given, queries, scored=False),
        **{name: of(method) for name, method in PEERS.items()},
    }


def _print(name: str, results: Sequence[Result], found: Sequence[Figures]) -> None:
    def mean(values: Iterator[Any]) -> float:
        return float(np.mean(list(values)))

    print(
        f"{name:<28}{mean(one.per_thousand for one in found):>10.1f}{mean(one.success for one in found):>9.1%}"
        f"{mean(one.real for one in found):>8.1%}{mean(one.ties for one in found):>8.1%}"
        f"{mean(one.regions for one in found):>9.1f}{mean(len(one.first) for one in results):>8,.0f}"
        f"{mean(one.seconds for one in results):>8.2f}{mean(one.model for one in results):>9.2f}",
        flush=True,
    )

"""How faithful and how small are surrogate trees, for how many queries and CPU seconds, beside what one would use instead."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits
from trees_models import DATA, MODELS, SHARED, Model, Split, split, train
from trees_peers import Array, Encoded, Shape, carts, trustee, trustee_is_there, tuned

from aitest_lib.data.ties import find_ties
from aitest_lib.stats.paired import mcnemar_midp
from aitest_lib.surrogates.pruning import Limits
from aitest_lib.surrogates.simulating import Answered, Task, made_rows, stand_in
from aitest_lib.surrogates.tree import Tree
from aitest_lib.surrogates.trepan import Trepan

DEPTH = 12
USUAL = "apl<=8"
GATES: dict[str, dict[str, float]] = {
    USUAL: {"apl": 8},
    "apl<=4": {"apl": 4},
    "apl<=6": {"apl": 6},
    "epl<=4": {"epl": 4},
    "epl<=6": {"epl": 6},
    "leaves<=40": {"apl": 8, "leaves": 40},
}
PRUNES = 0.25  # of the rows that are not held out
FEW, MADE = 200, 10_000
RATE = 0.5  # of swapped cells
TRUSTEE = {"Trustee": {}, "Trustee, half x 10": {"samples_size": 0.5, "num_iter": 10}}
TRUSTEE_ROWS = 3_000  # with its defaults it draws 2,000 of 70 % of the rows, and fails where there are fewer
HEAD = (
    f"{'method':<36}{'seeds':>6}{'fidelity, %':>24}{'apl':>7}{'epl':>7}{'mpl':>5}{'leaves':>8}{'queries':>9}{'CPU s':>8}"
    f"{'model s':>9}"
)


@dataclass(frozen=True)
class Result:
    """A tree of one seed: `queries` that grew and pruned it, CPU seconds without those of the model, and its
    for made rows."""

    shape: Shape
    queries: int
    seconds: float
    model: float = 0.0


def trees(data: Sequence[str] = (), models: Sequence[str] = (), seeds: int = 5, trustee_seeds: int = 2) -> None:
    """The table of each data set and model, then what is better and by how much."""
    peer = trustee_is_there()
    for name in data or DATA:
        for kind in models or MODELS:
            found: dict[str, list[Result]] = defaultdict(list)
            with threadpool_limits(1):
                for seed in range(seeds):
                    if (rows := split(name, seed)) is None:
                        print(f"{name} is left out: no {SHARED / DATA[name][0]}; set AITEST_SHARED_DATA")
                        break
                    for method, result in _results(rows, kind, seed, peer and seed < trustee_seeds):
                        found[method].append(result)
            if found:
                _print(f"{name}, {kind}", found)


def _results(data: Split, kind: str, seed: int, peer: bool) -> Iterator[tuple[str, Result]]:
    model = train(kind, data, seed)
    answers, held_out = model(data.train), model(data.test)
    encoded = Encoded.of(data.train, data.test)
    yield "majority", _majority(answers, held_out)
    own, peers = _own(data, model, data.train, answers, held_out, seed), _tuned(encoded, answers, held_out)
    for gate in GATES:
        yield f"aitest, {gate}", own[gate]
        yield f"CART tuned, {gate}", peers[gate]
    yield "node-wise TREPAN, 64 leaves", _trepan(data, model, data.train, answers, held_out)
    if peer:
        for name, settings in TRUSTEE.items():
            if not settings and len(data.train) < TRUSTEE_ROWS:
                continue
            started = time.process_time()
            whole, top, asked = trustee(encoded, answers, held_out, seed, **settings)
            spent = time.process_time() - started
            yield name, Result(whole, asked, spent)
            yield f"{name}, top 10", Result(top, asked, spent)
    yield from _few(data, model, held_out, seed)


def _few(data: Split, model: Model, held_out: Array, seed: int) -> Iterator[tuple[str, Result]]:
    """The first FEW rows alone."""
    rows = data.train.iloc[:FEW]
    answers = model(rows)
    grid = _tuned(Encoded.of(rows, data.test), answers, held_out)
    yield f"{FEW} rows: CART tuned, {USUAL}", grid[USUAL]
    yield f"{FEW} rows: aitest, {USUAL}", _own(data, model, rows, answers, held_out, seed)[USUAL]
    for budget in (MADE, None):
        told = "" if budget is None else f" + {budget:,}"
        yield f"{FEW} rows: TREPAN{told}, 64 leaves", _trepan(data, model, rows, answers, held_out, budget)


def _own(data: Split, model: Model, rows: pd.DataFrame, answers: Array, held_out: Array, seed: int) -> dict[str, Result]:
    """aitest's tree for each gate, all of it done anew. Where rows are few, others are made and asked, as in a run."""
    found = {}
    for gate, limits in GATES.items():
        waited, started = model.seconds, time.process_time()
        task = Task(data.profile, data.columns, model.classes, seed)
        every, prunes = Answered(rows, answers.astype(float)), _prunes(len(rows), seed)
        if len(rows) < MADE:
            made = made_rows(task, every, MADE)
            every += Answered(made.frame, model(made.frame).astype(float))
            prunes = np.concatenate([prunes, prunes[made.base]])
        choice, _ = stand_in(task, _part(every, ~prunes), _part(every, prunes), Limits(mpl=DEPTH, **limits))
        asking = model.seconds - waited
        spent = time.process_time() - started - asking
        found[gate] = Result(_shape(choice.best.tree, data.test, held_out), len(every.answers), spent, asking)
    return found


def _part(rows: Answered, mask: Array) -> Answered:
    return Answered(rows.frame[mask].reset_index(drop=True), rows.answers[mask])


def _tuned(data: Encoded, answers: Array, held_out: Array) -> dict[str, Result]:
    started = time.process_time()
    grid = carts(data, answers, held_out)
    spent = time.process_time() - started
    return {gate: Result(tuned(grid, {"mpl": DEPTH, **limits}), len(answers), spent) for gate, limits in GATES.items()}


def _trepan(
    data: Split, model: Model, rows: pd.DataFrame, answers: Array, held_out: Array, budget: int | None = None
) -> Result:
    """As published: on all rows, not pruned; its own limit on the leaves keeps it small."""
    waited, started = model.seconds, time.process_time()
    search = Trepan(max_depth=DEPTH)
    ties = [tie.columns for tie in find_ties(rows, data.profile)]
    state = search.start(rows, answers, data.profile, data.columns, classes=model.classes, ties=ties, budget=budget)
    while not state.done:
        asked, _ = search.ask(state)
        state = search.tell(state, model(asked))
    asking = model.seconds - waited
    spent = time.process_time() - started - asking
    return Result(_shape(search.tree(state), data.test, held_out), len(rows) + state.queries, spent, asking)


def _shape(tree: Tree, rows: pd.DataFrame, held_out: Array) -> Shape:
    path = tree.path_lengths(rows)
    return Shape(tree.predict(rows) == held_out, tree.apl, float(path.mean()), tree.mpl, len(tree.leaves))


def _majority(answers: Array, held_out: Array) -> Result:
    return Result(Shape(held_out == np.bincount(answers).argmax(), 0, 0, 0, 1), len(answers), 0.0)


def _prunes(rows: int, seed: int) -> Array:
    return np.random.default_rng(seed).permutation(rows) < PRUNES * rows


def _print(title: str, found: dict[str, list[Result]]) -> None:
    print(f"\n{title}\n{HEAD}")
    for method, results in found.items():
        rates = [100 * result.shape.right.mean() for result in results]
        spread = f"{np.mean(rates):.2f} ({min(rates):.2f}-{max(rates):.2f})"
        sizes = [np.mean([getattr(result.shape, name) for result in results]) for name in ("apl", "epl", "mpl", "leaves")]
        costs = [np.mean([getattr(result, name) for result in results]) for name in ("queries", "seconds", "model")]
        print(
            f"{method:<36}{len(results):>6}{spread:>24}{sizes[0]:>7.2f}{sizes[1]:>7.2f}{sizes[2]:>5.1f}{sizes[3]:>8.1f}"
            f"{costs[0]:>9,.0f}{costs[1]:>8.2f}{costs[2]:>9.2f}"
        )
    for first, second in _pairs(found):
        _print_difference(first, second, found[first], found[second])


def _pairs(found: dict[str, list[Result]]) -> Iterator[tuple[str, str]]:
    own = f"aitest, {USUAL}"
    for gate in GATES:
        yield f"aitest, {gate}", f"CART tuned, {gate}"
    for name in found:
        if "TREPAN" in name or "Trustee" in name:
            yield (f"{FEW} rows: aitest, {USUAL}" if name.startswith(str(FEW)) else own), name
    yield f"{FEW} rows: aitest, {USUAL}", f"{FEW} rows: CART tuned, {USUAL}"


def _print_difference(first: str, second: str, own: list[Result], peer: list[Result]) -> None:
    """Points between two methods on the seeds that both have, McNemar's mid-p over all their held-out rows, and costs."""
    pairs = list(zip(own, peer, strict=False))
    right, other = (np.concatenate([pair[place].shape.right for pair in pairs]) for place in range(2))
    p = mcnemar_midp(int((right & ~other).sum()), int((other & ~right).sum()))
    queries, seconds = (
        sum(getattr(pair[1], what) for pair in pairs) / max(sum(getattr(pair[0], what) for pair in pairs), 1e-9)
        for what in ("queries", "seconds")
    )
    print(
        f"  {first} against {second}: {100 * (right.mean() - other.mean()):+.2f} points (p = {p:.2g}, {len(pairs)} seeds); "
        f"it asks x {queries:.2f}, takes x {seconds:.1f} CPU"
    )

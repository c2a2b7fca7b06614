"""The surrogate tree: grown on the model's answers, pruned, and chosen for the gates."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
from prefect import task

from aitest_lib.config.suite import PropertyConfig
from aitest_lib.properties.tabular import TREE_SIMULATABILITY
from aitest_lib.stats.estimates import bisect, normal_quantile
from aitest_lib.surrogates.growing import TreeSurrogate
from aitest_lib.surrogates.pruning import Limits
from aitest_lib.surrogates.search import Candidate, choose, front
from aitest_lib.surrogates.simulating import DEEPEST, Answered, Task, stand_in
from aitest_lib.surrogates.stability import bootstrap_trees
from aitest_lib.surrogates.tree import Tree
from aitest_lib.surrogates.trepan import Trepan
from aitest_tasks import live
from aitest_tasks.baseline import Errors, read_baseline
from aitest_tasks.caching import CACHED, job_key
from aitest_tasks.growing_more import (
    DEEPER,
    ENOUGH_REAL,
    LIKELY,
    STRUCTURE,
    answers_of,
    enough_fidelity,
    grown_on,
    limits_of,
    method_of,
    read_rows,
    searcher,
    task_of,
    trepan,
)
from aitest_tasks.growing_rows import Growing, class_names, held_out
from aitest_tasks.property_report import setting
from aitest_tasks.querying import answer_book, run_errors
from aitest_tasks.runs import Run, open_run


def fit_job(run: Run, index: int, rows: list[dict[str, Any]], made: list[dict[str, Any]]) -> dict[str, Any]:
    """Everything that a surrogate tree depends on; the model's answers stand in it by their digest."""
    config = run.suite.suite.properties[index]
    return {
        "surrogate": TreeSurrogate().fingerprint(),
        "trepan": Trepan().fingerprint(),
        "method": method_of(run, config, sum(ref["rows"] for ref in rows)) if made else "none",
        "limits": asdict(limits_of(config)),
        "fidelity": enough_fidelity(config),
        "tolerance": config.tolerance,
        "confidence": setting(run.suite.suite, config, "confidence"),
        "held_out": held_out(run),
        "rows": config.generated,
        "depth": limits_of(config).mpl or DEEPEST,
        "seeds": [answers_of(run, ref.to_dict()) for ref in run.seeds],  # the tolerance of a regressor comes from them
        **grown_on(run, [*rows, *made], rows),
    }


@task(name="fit_surrogate", cache_key_fn=job_key, **CACHED)
def fit_surrogate(job: dict[str, Any], run_uri: str) -> dict[str, Any]:
    """Grows a tree on the answers, prunes it and chooses one for the gates; returns the reference of all that (JSON)."""
    live.check_stopped()
    run = open_run(run_uri)
    return {"fitted": run.store.put_json(_fitted(run, job)).to_dict()}


def _fitted(run: Run, job: dict[str, Any]) -> dict[str, Any]:
    real, rounds = read_rows(run, job)
    task = task_of(run, job, 0.0 if class_names(run) else _tolerance(run, job))
    parts = [part.of(~np.isnan(part.answers)) for part in (real, *rounds)]
    published = job["method"] == "trepan"
    found = _without_pruning(run, task, job, parts) if published else _pruned(task, job, parts)
    pruned_on = 0 if published else int(parts[0].prunes.sum())
    made = np.unique(np.concatenate([part.digests for part in parts[1:]] or [real.digests[:0]]))
    digests = np.unique(np.concatenate([part.digests for part in parts]))
    return found | {
        "generation": job["method"],
        "grown_on": len(parts[0].answers) - pruned_on,
        "generated": len(made),
        "pruned_on": pruned_on,
        "digests": run.store.put(digests.tobytes(), "digests", len(digests)).to_dict(),
    }


def _pruned(task: Task, job: dict[str, Any], parts: list[Growing]) -> dict[str, Any]:
    """A tree grown on three quarters of the rows, and chosen on the others: to be most faithful on all of these, to be faithful
    enough on the real ones, where those can tell, for rows that are made are not like those that will judge."""
    grows, prunes = (_joined([part.of(part.prunes == role) for part in parts]) for role in (False, True))
    real = _joined([parts[0].of(parts[0].prunes)])
    limits = _with_room(Limits(**job["limits"]), len(real.answers), job)
    if job["fidelity"] is not None:
        prunes = real if len(real.answers) >= ENOUGH_REAL else prunes
        limits = replace(limits, fidelity=needed_share(job["fidelity"], len(real.answers), job["held_out"], job["confidence"]))
    started = time.process_time()
    choice, grown = stand_in(task, grows, prunes, limits)
    seconds = round(time.process_time() - started, 3)
    enough = None
    if not choice.satisfied:
        deeper = [task.counted(tree, prunes) for tree in task.grown(grows, DEEPER)]
        enough = choose(deeper, Limits(fidelity=limits.fidelity))
    return {
        "tree": choice.best.tree.to_dict(),
        "front": [one.tree.to_dict() for one in front(grown, choice.best)],
        "bootstrap": [one.to_dict() for one in _bootstrap(task, grows, choice.best)],
        "satisfied": choice.satisfied,
        "needed": {name: getattr(enough.best, name) for name in STRUCTURE} if enough and enough.satisfied else None,
        "seconds": seconds,
    }


def _without_pruning(run: Run, task: Task, job: dict[str, Any], parts: list[Growing]) -> dict[str, Any]:
    """TREPAN's tree, grown on all rows, as published, and cut to the limits alone: no row is left to tell when it is enough."""
    every = _joined(parts)
    started = time.process_time()
    rounds = read_rows(run, job)[1]
    grown = [task.counted(searcher(job).tree(trepan(run, parts[0], rounds, job)), every)]
    choice = choose(grown, Limits(**job["limits"]))
    return {
        "tree": choice.best.tree.to_dict(),
        "front": [one.tree.to_dict() for one in front(grown, choice.best)],
        "bootstrap": [one.to_dict() for one in _bootstrap(task, every, choice.best)],
        "satisfied": True,
        "needed": None,
        "seconds": round(time.process_time() - started, 3),
    }


def _joined(parts: list[Growing]) -> Answered:
    return Answered(
        pd.concat([part.frame for part in parts], ignore_index=True), np.concatenate([part.answers for part in parts])
    )


def _tolerance(run: Run, job: dict[str, Any]) -> float:
    """How far a regressor's answer may be off and still be the same."""
    errors = Errors(run_errors(run), True)
    config = PropertyConfig(property=TREE_SIMULATABILITY.name, tolerance=job["tolerance"])
    return read_baseline(run, answer_book(run), errors, config).oracle.tolerance


def _with_room(limits: Limits, pruned_on: int, job: dict[str, Any]) -> Limits:
    """The limits, that on the expected path length a little sharper: it is judged by its bound on other rows. The lengths of
    paths are taken to spread by half their mean."""
    if limits.epl is None:
        return limits
    doubt = normal_quantile(job["confidence"]) * math.sqrt(1 / max(pruned_on, 1) + 1 / max(job["held_out"], 1))
    return replace(limits, epl=max(limits.epl * (1 - doubt / 2), 0.0))


def needed_share(wanted: float, pruned_on: int, held_out: int, confidence: float) -> float:
    """The share of the pruning rows to which a tree must answer as the model does, so that most likely its fidelity on
    the held-out ones clears the gate.

    The bound that clears it lies below what is found there by as much as these rows leave open; and what is found there
    differs from what is found here by the doubt of both samples. `pruned_on`: the real rows; made ones descend from them.
    """
    quantile, likely = normal_quantile(confidence), normal_quantile(LIKELY)
    both = math.sqrt(1 / max(pruned_on, 1) + 1 / max(held_out, 1))

    def clears(rate: float) -> bool:
        spread = math.sqrt(rate * (1 - rate))
        return rate - spread * (quantile / math.sqrt(max(held_out, 1)) + likely * both) >= wanted

    return bisect(clears, 1.0, wanted)


def _bootstrap(task: Task, rows: Answered, chosen: Candidate) -> list[Tree]:
    """Trees of the chosen one's size, grown on bootstrap samples of the rows."""
    return bootstrap_trees(
        rows.frame,
        rows.answers.astype(np.int64) if task.classes else rows.answers,
        task.profile,
        task.columns,
        classes=task.classes,
        max_depth=max(chosen.mpl, 1),
        leaves=chosen.leaves,
        random_seed=task.random_seed,
    )

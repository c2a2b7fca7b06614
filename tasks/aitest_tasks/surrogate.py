"""The surrogate tree: grown on the model's answers, pruned, and chosen for the gates."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
from prefect import task

from aitest_lib.stats.estimates import bisect, normal_quantile
from aitest_lib.stats.intervals import wilson_bounds
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
    STRUCTURE,
    answers_of,
    grown_on,
    limits_of,
    method_of,
    read_rows,
    searcher,
    task_of,
    trepan,
    wanted_fidelity,
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
        "fidelity": wanted_fidelity(config),
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
    grows, prunes = (_joined([part.of(part.prunes == role) for part in parts]) for role in (False, True))
    pruned = job["method"] != "trepan"  # as published, it takes all rows to grow, and is only cut to the limits
    if not pruned:
        grows = prunes = _joined(parts)
    judged_by = int(parts[0].prunes.sum()) if pruned else len(parts[0].answers)
    limits = replace(Limits(**job["limits"]), fidelity=_needed(job["fidelity"], judged_by, job))
    started = time.process_time()
    if not pruned:
        grown = [task.counted(searcher(job).tree(trepan(run, parts[0], rounds, job)), prunes)]
        choice = choose(grown, limits)
    else:
        choice, grown = stand_in(task, grows, prunes, limits)
    seconds = round(time.process_time() - started, 3)
    enough = None
    if not choice.satisfied:
        deeper = [task.counted(tree, prunes) for tree in task.grown(grows, DEEPER)]
        enough = choose(deeper, Limits(fidelity=job["fidelity"]))
    digests = np.unique(np.concatenate([part.digests for part in parts]))
    return {
        "tree": choice.best.tree.to_dict(),
        "front": [one.tree.to_dict() for one in front(grown, choice.best)],
        "bootstrap": [one.to_dict() for one in _bootstrap(task, grows, choice.best)],
        "satisfied": choice.satisfied,
        "needed": {name: getattr(enough.best, name) for name in STRUCTURE} if enough and enough.satisfied else None,
        "generation": job["method"],
        "grown_on": len(parts[0].answers) - (judged_by if pruned else 0),
        "generated": sum(len(part.answers) for part in parts[1:]),
        "pruned_on": len(prunes.answers) if pruned else 0,
        "digests": run.store.put(digests.tobytes(), "digests", len(digests)).to_dict(),
        "seconds": seconds,
    }


def _joined(parts: list[Growing]) -> Answered:
    return Answered(
        pd.concat([part.frame for part in parts], ignore_index=True), np.concatenate([part.answers for part in parts])
    )


def _tolerance(run: Run, job: dict[str, Any]) -> float:
    """How far a regressor's answer may be off and still be the same."""
    errors = Errors(run_errors(run), True)
    return read_baseline(run, answer_book(run), errors, job["tolerance"], None).oracle.tolerance


def _needed(wanted: float | None, pruned_on: int, job: dict[str, Any]) -> float | None:
    """The share of the pruning rows to which a tree must answer as the model does, so that its fidelity on the held-out ones
    will probably clear the gate: both are samples, and their doubts add up. `pruned_on`: the real ones; the others descend
    from them."""
    if wanted is None:
        return None
    n = 1 / (1 / max(pruned_on, 1) + 1 / max(job["held_out"], 1))
    quantile = normal_quantile(job["confidence"])
    return bisect(lambda rate: wilson_bounds(rate, n, quantile)[0] >= wanted, 1.0, 0.0)


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

"""`--dry-run`: what a run would ask, what that takes, and what its gates could decide. Asks the model nothing."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

from aitest_flows.runner import Request, record_of
from aitest_lib.answers import folder, read_book
from aitest_lib.config.gates import Gate
from aitest_lib.properties.base import RATES
from aitest_lib.properties.catalog import spec
from aitest_lib.properties.tabular import GAPS, MEAN_GAPS
from aitest_lib.properties.tabular import OF_GROUPS as GROUPS
from aitest_lib.searches.rows import SmallestFlip
from aitest_lib.stats.planning import decidable
from aitest_lib.transforms.tabular import loose_columns
from aitest_lib.types import ArtifactRef
from aitest_tasks.components import attacks, components, searches
from aitest_tasks.counterparts import changed_columns, rows_looked_at
from aitest_tasks.generation import case_jobs, write
from aitest_tasks.growing_more import most_generated
from aitest_tasks.growing_rows import from_training, growing_job, held_out, write_growing
from aitest_tasks.noises import kept, noise_jobs, write_noise
from aitest_tasks.pair_hunt import search_of
from aitest_tasks.preparing import check_labels, known_epoch
from aitest_tasks.querying import make_plan, needed
from aitest_tasks.runs import DRY, Run, create_run, open_run
from aitest_tasks.sampling import changeable, sample, sampling_job
from aitest_tasks.settings import Settings
from aitest_tasks.synthesizing import needs_answers, synthesis_job, synthesis_of, write_synthesized

OF_BREAKING_POINTS = ("median_breaking_point", "unbroken_rate")
OF_GROUPS = (
    "wer_gap",
    "wer_ratio",
    "scoring_ratio",
    "scoring_rate_gap",
    *GROUPS,
    *GAPS,
    *MEAN_GAPS,
)  # of every attribute, whose groups only the answers set apart


def dry_run(settings: Settings, request: Request) -> dict[str, Any]:
    """The plan of a run as data (see `render.print_dry_run`). Generates the cases, which the run then finds stored."""
    settings.store.check()
    run_id = f"{DRY}{os.getpid()}"
    run = create_run(settings.store, run_id, record_of(settings, request, datetime.now(UTC)))
    try:
        return _plan(open_run(run.uri))
    finally:
        settings.store.remove_folder(f"runs/{run_id}")


def _plan(run: Run) -> dict[str, Any]:
    config = run.suite.suite
    job = sampling_job(run)
    seeds = sample(run, job)
    check_labels(run, seeds["labels"])
    known = known_epoch(run) if run.info.reusable and not run.options["fresh"] else None
    classes = None if run.info.classes is None else len(run.info.classes)
    book = read_book(run.store, [folder(run.info.digest, str(known["epoch"]))] if known else [], classes=classes)
    facts: dict[str, Any] = {"seconds_per_row": known["seconds_per_row"] if known else 0.001, "batch_size": 1, "private": []}
    jobs = noise_jobs(run, seeds.get("sample_rates", []))
    facts["noises"] = kept(jobs, [write_noise(run.store, job) for job in jobs])
    run.write("prepared", {**seeds, **facts})
    every = [ref.to_dict() for ref in run.seeds]
    synthesize = synthesis_of(run)
    if synthesize is not None:
        made = write_synthesized(run, synthesis_job(run, synthesize, answered=False), answered=False)
        seeds |= {"shards": made["shards"], "positions": made["positions"], "seeds": synthesize.rows}
        run.write("prepared", {**seeds, **facts})
        run.__dict__.pop("prepared", None)
        every = (every if needs_answers(synthesize) else []) + seeds["shards"]
    rows = []
    spoken = 0  # texts by voices, of which some may sound alike
    grown: dict[int, list[dict[str, Any]]] = {}  # shards of the rows that a surrogate is grown on
    for index in run.properties:
        item = config.properties[index]
        parts_made = components(run, index)
        if spec(item.property).by_voices:  # voices say nothing now: a service would have to be paid
            spoken += len(parts_made) * int(seeds["seeds"])
            parts_made = []
        jobs = case_jobs(run, index) if parts_made else []
        cases = [write(run, job)["cases"] for job in jobs]
        grows = spec(item.property).shape == "surrogate"
        if grows:
            grown[index] = [ref.to_dict() for ref in run.seeds]
            if from_training(run):
                grown[index] = write_growing(run, growing_job(run, index))["shards"]
                cases += grown[index]
        refs = [ArtifactRef.of(ref) for ref in [*(ref.to_dict() for ref in run.seeds), *cases]]
        plan = make_plan(run, refs, book, 0, None)
        shards = len(jobs) // max(len(parts_made), 1)
        effective = [
            sum(int(needed(run, ArtifactRef.of(ref))[2].sum()) for ref in cases[at : at + shards])
            for at in range(0, len(jobs), max(shards, 1))
        ]
        own = spec(item.property).own_answers  # judged by the rows that get counterparts, and not by each of these
        judged = held_out(run) if grows else rows_looked_at(run, index) if own else seeds["seeds"]
        parts = [(part.slice, count) for part, count in zip(parts_made, effective, strict=True)]
        parts = [({}, judged)] if own or not parts else parts
        searched = [(one.slice, seeds["seeds"]) for one in searches(run, index)]
        gates = [
            _gate(metric, gate, where, count, config.confidence)
            for metric, given in item.gates.items()
            for gate in (given if isinstance(given, list) else [given])
            for where, count in _judged(metric, gate, parts, searched, judged)
        ]
        every += cases
        rows.append(
            {
                "property": item.property,
                "seeds": seeds["seeds"],
                "cases": sum(effective) or judged,
                "planned": plan["planned"],
                "gates": gates,
            }
        )
    examples = spoken + sum(
        _most_flips(run) for index in run.properties if spec(config.properties[index].property).smallest_flips
    )
    examples += sum(item.search.queries * seeds["seeds"] for index in run.properties for item in searches(run, index))
    examples += sum(
        search_of(item).queries
        for item in (config.properties[index] for index in run.properties)
        if spec(item.property).by_protected and spec(item.property).own_answers and changed_columns(run)
    )
    examples += sum(most_generated(run, index, sum(ref["rows"] for ref in growing)) for index, growing in grown.items())
    examples += sum(search.queries * seeds["seeds"] for index in run.properties for search in attacks(run, index))
    if run.record["card"] and run.record["card"].get("predictions"):
        examples = 0
    total = make_plan(run, [ArtifactRef.of(ref) for ref in every], book, 0, run.budget)
    speed = known["seconds_per_row"] if known else None
    cost = config.budget.cost_per_query
    left = None if run.budget is None else max(run.budget - total["to_send"], 0)
    examples = examples if left is None else min(examples, left)
    most = total["to_send"] + examples
    return {
        "suite": config.suite,
        "model": run.info.name,
        "planned": total["planned"],
        "cached": total["cached"],
        "to_send": total["to_send"],
        "examples": examples,
        "seconds": None if speed is None else most * speed / run.options["workers"],
        "cost": None if cost is None else most * cost,
        "budget": run.budget,
        "properties": rows,
    }


def _judged(metric: str, gate: Gate, parts: list[Any], searched: list[Any], judged: int) -> list[Any]:
    """The slices that a gate judges, and how many seeds each has."""
    if gate.slice is not None:
        return [(gate.slice, judged)]
    if metric in OF_BREAKING_POINTS:
        return searched
    return [({}, judged)] if metric in OF_GROUPS else parts


def _most_flips(run: Run) -> int:
    """Most inputs that the search for smallest flips asks; it chooses its rows by the answers, so only a bound is known."""
    search = SmallestFlip()
    names = [name for name in changeable(run.profile, run.record["columns"]) if name not in run.suite.suite.data.protected]
    numeric = [name for name in loose_columns(run.profile, names) if run.profile[name].numeric]
    seeds = min(search.random_seeds + search.borderline_seeds, int(run.prepared["seeds"]))
    return seeds * len(numeric) * len(search.levels) * 2


def _gate(metric: str, gate: Gate, where: dict[str, Any] | None, n: int, confidence: float) -> dict[str, Any]:
    """What n seeds can decide. Seeds that the model gets wrong will leave fewer."""
    threshold = gate.min if gate.min is not None else gate.max
    edges: tuple[float | None, float | None] = (None, None)
    if metric in RATES and threshold is not None and n:
        if gate.min is not None:
            edges = decidable(n, threshold, confidence)
        else:
            mirrored = decidable(n, 1 - threshold, confidence)
            edges = (None if mirrored[0] is None else 1 - mirrored[0], None if mirrored[1] is None else 1 - mirrored[1])
    return {
        "metric": metric,
        "slice": where or {},
        "min": gate.min,
        "max": gate.max,
        "n": n,
        "rate": metric in RATES,
        "passes_from": edges[0],
        "fails_below": edges[1],
    }

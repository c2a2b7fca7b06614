"""The shapes of properties: plain functions that put tasks in order. Each property's flow calls one of them."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
from prefect.task_runners import ThreadPoolTaskRunner

from aitest_flows.asking import Done, ask_more, query, results_of, spread, sum_of
from aitest_flows.pairs import ask_again, find_pairs, nothing_to_change
from aitest_flows.recording import log_report
from aitest_flows.turns import once, turn
from aitest_lib.properties.base import PropertySpec
from aitest_lib.reports.explain import explain_property
from aitest_lib.reports.records_fairness import PairReport
from aitest_lib.reports.report import PropertyQueries, PropertyReport
from aitest_lib.transforms.image.compose import Compose
from aitest_lib.types import ArtifactRef
from aitest_tasks import live
from aitest_tasks.asked_together import let_go
from aitest_tasks.attack_plans import Wave, attacked_ranks, chunks, methods, misfit, time_limit
from aitest_tasks.attacking import SEARCH
from aitest_tasks.attribution import attribution_jobs
from aitest_tasks.baseline import Baseline
from aitest_tasks.breaking import baseline_of, first_jobs, next_jobs
from aitest_tasks.caching import made_again
from aitest_tasks.components import components, searches
from aitest_tasks.direction_curves import write_against
from aitest_tasks.flips import flips_job, generate_flips
from aitest_tasks.generation import case_jobs, generate_cases
from aitest_tasks.growing_more import generate_growing, generation_round, too_few
from aitest_tasks.growing_rows import from_training, growing_job, sample_growing
from aitest_tasks.preparing import check_predictions_backend
from aitest_tasks.querying import answer_book
from aitest_tasks.results import cached, stored
from aitest_tasks.runs import Run
from aitest_tasks.scoring import score_property, scoring_job
from aitest_tasks.second_opinion import ask_second, second_job
from aitest_tasks.surrogate import fit_job, fit_surrogate
from aitest_tasks.voice_scoring import misheard_voices

MEAN_QUERIES = 50  # that a search costs, as a guess of how long it will take


def perturbation(spec: PropertySpec, run_uri: str, property_index: int) -> dict[str, Any]:
    """sample -> generate (per transform x shard) -> query (per shard) -> score -> log."""
    return once(run_uri, property_index, lambda run, started: _perturbation(spec, run, property_index, started))


def group(spec: PropertySpec, run_uri: str, property_index: int) -> dict[str, Any]:
    """sample -> query -> disaggregate and score -> log."""
    return once(run_uri, property_index, lambda run, started: _group(spec, run, property_index, started))


def search(spec: PropertySpec, run_uri: str, property_index: int) -> dict[str, Any]:
    """sample -> query -> per chunk of seeds (ask <-> query <-> tell) -> score -> log."""
    return once(run_uri, property_index, lambda run, started: _search(spec, run, property_index, started))


def surrogate(spec: PropertySpec, run_uri: str, property_index: int) -> dict[str, Any]:
    """sample -> query -> (generate -> query) -> fit -> score -> log."""
    return once(run_uri, property_index, lambda run, started: _surrogate(spec, run, property_index, started))


def _perturbation(spec: PropertySpec, run: Run, index: int, started: float) -> dict[str, Any]:
    reason = check_predictions_backend(run, spec.name, spec.new_queries)
    if reason is not None:
        return _skipped(spec, run, index, started, reason)
    if spec.by_protected and (nothing := nothing_to_change(run)) is not None:
        return _skipped(spec, run, index, started, *nothing)
    cases = generate_all(run, spec.name, index)
    with turn(run, index):
        asked = query(run, spec.name, [*(ref.to_dict() for ref in run.seeds), *cases])
        if spec.by_directions and not run.prepared["deterministic"]:
            ask_again(run, spec.name, write_against(run, index, cases), asked)
        more = {
            "flips": find_flips(run, spec.name, index, asked) if spec.smallest_flips else None,
            "searched": find_breaking_points(run, spec.name, index, asked),
            "attributed": attribute(run, spec.name, index, cases, asked),
            "second": second_opinion(run, index, cases) if spec.by_voices else None,
            **(find_pairs(run, spec.name, index, cases, asked) if spec.by_protected else {}),
        }
    return _score(run, spec.name, index, cases, asked, started, more)


def _skipped(
    spec: PropertySpec, run: Run, index: int, started: float, reason: str, pairs: PairReport | None = None
) -> dict[str, Any]:
    report = PropertyReport(property=spec.name, status="skipped", reason=reason, skipped={"not_applicable": 0}, pairs=pairs)
    said = f"{reason}." if pairs is None else explain_property(report, run.suite.suite.confidence)
    report = report.model_copy(update={"explanation": said})
    return log_report(run, index, report, {}, started)


def _search(spec: PropertySpec, run: Run, index: int, started: float) -> dict[str, Any]:
    reason = check_predictions_backend(run, spec.name, spec.new_queries)
    if reason is not None:
        return _skipped(spec, run, index, started, reason)
    with turn(run, index):
        asked = query(run, spec.name, [ref.to_dict() for ref in run.seeds])
        base = baseline_of(run, index)
        reason = misfit(run, index, base)
        found = attack(run, spec.name, index, base, asked) if reason is None else None
    if reason is not None:
        return {**_skipped(spec, run, index, started, reason), "needed": asked["needed"]}
    return _score(run, spec.name, index, [], asked, started, {"attacked": found})


def _group(spec: PropertySpec, run: Run, index: int, started: float) -> dict[str, Any]:
    with turn(run, index):
        asked = query(run, spec.name, [ref.to_dict() for ref in run.seeds])
    return _score(run, spec.name, index, [], asked, started, {})


def _surrogate(spec: PropertySpec, run: Run, index: int, started: float) -> dict[str, Any]:
    rows = growing_shards(run, index)
    with turn(run, index):
        asked = query(run, spec.name, [*(ref.to_dict() for ref in run.seeds), *(rows if from_training(run) else [])])
        reason = too_few(run, rows, asked["unpaid"])
        made = generate_growing_rows(run, spec.name, index, rows, asked) if reason is None else []
    if reason is not None:
        counts = PropertyQueries(planned=asked["planned"], sent=asked["sent"], cached=asked["cached"])
        report = PropertyReport(
            property=spec.name, status="inconclusive", reason=reason, explanation=f"There is no tree: {reason}.", queries=counts
        )
        return {**log_report(run, index, report, {}, started), "needed": asked["needed"]}
    fitted = cached(fit_surrogate, run, fit_job(run, index, rows, made))
    return _score(run, spec.name, index, [], asked, started, {"surrogate": fitted})


def growing_shards(run: Run, index: int) -> list[dict[str, Any]]:
    """The shards of the rows that a surrogate is grown on: of the training data, else the seeds."""
    if not from_training(run):
        return [ref.to_dict() for ref in run.seeds]
    return list(cached(sample_growing, run, growing_job(run, index))["shards"])


def generate_growing_rows(
    run: Run, name: str, index: int, rows: list[dict[str, Any]], asked: dict[str, Any]
) -> list[dict[str, Any]]:
    """Makes and asks further rows to grow on, round after round where each depends on the answers before; their shards."""
    made: list[dict[str, Any]] = []
    while (job := generation_round(run, index, rows, made)) is not None:
        live.progress(name, "generate", 0, 1)
        round = cached(generate_growing, run, job)["made"]
        if not round["rows"]:
            break
        made.append(round)
        if ask_more(run, name, [round], asked):
            break  # the budget has ended
    return made


def generate_all(run: Run, name: str, index: int) -> list[dict[str, Any]]:
    """The cases of all components and shards, in their order; cached ones come back at once."""
    return generate(run, name, case_jobs(run, index))


def generate(run: Run, name: str, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cases of these jobs, in their order."""
    if not jobs:
        return []
    live.progress(name, "generate", 0, len(jobs))
    make = stored(generate_cases, run)
    threads: ThreadPoolTaskRunner[Any] = ThreadPoolTaskRunner(max_workers=run.options["workers"])
    with threads as runner:
        futures: list[Any] = [runner.submit(make, {"job": job, "run_uri": run.uri}) for job in jobs]
        results = results_of(futures, lambda done: live.progress(name, "generate", done, len(jobs)))
    again = make.with_options(refresh_cache=True)
    made = made_again(run.store, results, lambda place: again(jobs[place], run.uri))
    for place, one in enumerate(made):
        if one.get("unsaid") and one["made_by"] != run.run_id:  # what a voice failed to say in another run is tried once more
            made[place] = again(jobs[place], run.uri)
    return [one["cases"] for one in made]


def attack(run: Run, name: str, index: int, base: Baseline, asked: dict[str, Any]) -> dict[str, Any]:
    """Searches on the seeds that the model gets right, by the property's method and then by its baselines; adds the counts to
    `asked`. Returns the artifact that lists the tables of how the searches ended."""
    limit = time_limit(run, index)
    deadline = None if limit is None else time.time() + limit
    waves = [Wave(search, keep=place == 0) for place, search in enumerate(methods(run, index, base))]
    for place, wave in enumerate(waves):
        stage = SEARCH if place == 0 else wave.search.name
        while shards := chunks(run, base, wave, stage, deadline):
            seeds = len(attacked_ranks(base)) - len(wave.ended)
            live.begin(name, stage, seeds * wave.search.queries)
            tell = partial(_tell_searches, name, stage, seeds) if run.pool else _tell_nothing
            done, lost = spread(run, name, "attack", shards, seeds * MEAN_QUERIES, tell)
            if not wave.add(run, done.values()) and not lost:
                break  # nothing is left to pay with
    let_go(run)
    needed = [asked["needed"], *(ref for wave in waves for ref in wave.digests)]
    union = np.unique(np.concatenate([np.frombuffer(run.store.get(ArtifactRef.of(ref)), "V16") for ref in needed]))
    asked |= {
        "needed": run.store.put(union.tobytes(), "digests", len(union)).to_dict(),
        "planned": len(union),
        "sent": asked["sent"] + sum(wave.sent for wave in waves),
        "errors": asked["errors"] + sum(wave.errors for wave in waves),
        "unasked": len(attacked_ranks(base)) - len(waves[0].ended),
        "again": sum(wave.again for wave in waves),
    }
    asked["cached"] = max(len(union) - asked["sent"] - asked["unpaid"], 0)
    return run.store.put_json({"parts": [wave.parts for wave in waves]}).to_dict()


def _tell_searches(name: str, stage: str, seeds: int, done: Done) -> None:
    live.progress(name, stage, min(sum_of(done, "ended"), seeds), seeds)


def _tell_nothing(done: Done) -> None:
    """The chunks of this process tell themselves how far they are, search by search."""


def find_flips(run: Run, name: str, index: int, asked: dict[str, Any]) -> dict[str, Any]:
    """Asks the grid of single changes on borderline seeds, with what the budget leaves; adds its counts to `asked`."""
    job = flips_job(run, index)
    ref = cached(generate_flips, run, job)
    ask_more(run, name, [ref], asked)
    return {"job": job, "ref": ref}


def find_breaking_points(run: Run, name: str, index: int, asked: dict[str, Any]) -> dict[str, Any] | None:
    """Asks level after level where a breaking point is looked for, all searches at once; what was asked, as an artifact."""
    found = searches(run, index)
    if not found:
        return None
    base = baseline_of(run, index)
    jobs, made = first_jobs(run, found, base), list[dict[str, Any]]()
    while jobs:
        refs = generate(run, name, [job for _, job in jobs])
        made += [{"search": place, "job": job, "ref": ref} for (place, job), ref in zip(jobs, refs, strict=True)]
        if ask_more(run, name, refs, asked):
            break  # the budget has ended
        jobs = next_jobs(run, found, base, answer_book(run), made)
    return run.store.put_json(made).to_dict()


def attribute(run: Run, name: str, index: int, cases: list[dict[str, Any]], asked: dict[str, Any]) -> dict[str, Any] | None:
    """Asks the failing cases of chains again without each link; what was asked, as an artifact."""
    made = components(run, index)
    if not any(isinstance(item, Compose) for item in made):
        return None
    jobs = attribution_jobs(run, made, cases, baseline_of(run, index), answer_book(run))
    if not jobs:
        return None
    refs = generate(run, name, [job for _, _, job in jobs])
    ask_more(run, name, refs, asked)
    parts = zip(jobs, refs, strict=True)
    return run.store.put_json([{"component": place, "link": link, "ref": ref} for (place, link, _), ref in parts]).to_dict()


def second_opinion(run: Run, index: int, cases: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What a second recogniser hears of the voices that the model does not understand; None where there is neither."""
    if run.suite.suite.properties[index].reference_model is None:
        return None
    misheard = misheard_voices(run, index, answer_book(run), cases)
    return dict(cached(ask_second, run, second_job(run, index, misheard))) if misheard else None


def _score(
    run: Run,
    name: str,
    index: int,
    cases: list[dict[str, Any]],
    asked: dict[str, Any],
    started: float,
    more: dict[str, Any],
) -> dict[str, Any]:
    live.progress(name, "score", 0, max(len(cases), len(run.seeds)))
    job = scoring_job(run, index, cases, asked["unpaid"] + asked.get("unasked", 0), more)
    score = stored(score_property, run)
    [scored] = made_again(
        run.store,
        [score(job, run.uri, index)],
        lambda _: score.with_options(refresh_cache=True)(job, run.uri, index),
    )
    report = PropertyReport.model_validate(run.store.get_json(ArtifactRef.of(scored["report"])))
    queries = PropertyQueries(planned=asked["planned"], sent=asked["sent"], cached=asked["cached"])
    artifacts = {name: run.store.url_of(scored[name]["uri"]) for name in ("cases", "failures")}
    if more.get("pairs") and (found := run.store.get_json(ArtifactRef.of(more["pairs"]))["pairs"]):
        artifacts["pairs"] = run.store.url_of(found["uri"])
    artifacts["report"] = f"runs:/{run.run_id}/report.html"  # as MLflow names its artifacts
    report = report.model_copy(update={"queries": queries, "artifacts": artifacts})
    return {**log_report(run, index, report, scored, started), "needed": asked["needed"], "again": asked.get("again", 0)}

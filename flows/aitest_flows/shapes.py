"""The shapes of properties: plain functions that put tasks in order. Each property's flow calls one of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from prefect.futures import PrefectFuture

from aitest_lib.errors import AitestError
from aitest_lib.properties.base import PropertySpec
from aitest_lib.reports.report import PropertyQueries, PropertyReport
from aitest_lib.transforms.base import TabularTransform
from aitest_lib.types import ArtifactRef
from aitest_tasks import live
from aitest_tasks.caching import made_again
from aitest_tasks.components import components
from aitest_tasks.flips import flips_job, generate_flips
from aitest_tasks.generation import generate_cases, generation_job
from aitest_tasks.preparing import check_predictions_backend
from aitest_tasks.querying import plan_queries, query_model, shard_lost
from aitest_tasks.runs import Run, open_run
from aitest_tasks.scoring import score_property, scoring_job
from aitest_tasks.tracking import log_property


def perturbation(spec: PropertySpec, run_uri: str, property_index: int) -> dict[str, Any]:
    """sample -> generate (per transform x shard) -> query (per shard) -> score -> log."""
    run = open_run(run_uri)
    started = time.monotonic()
    reason = check_predictions_backend(run, spec.name, spec.new_queries)
    if reason is not None:
        report = PropertyReport(
            property=spec.name, status="skipped", reason=reason, explanation=f"{reason}.", skipped={"not_applicable": 0}
        )
        return log_report(run, property_index, report, {}, started)
    cases = generate(run, spec.name, property_index)
    asked = query(run, spec.name, [*(ref.to_dict() for ref in run.seeds), *cases])
    flips = find_flips(run, spec.name, property_index, asked) if spec.smallest_flips else None
    return _score(run, spec.name, property_index, cases, asked, started, flips)


def group(spec: PropertySpec, run_uri: str, property_index: int) -> dict[str, Any]:
    """sample -> query -> disaggregate and score -> log."""
    run = open_run(run_uri)
    started = time.monotonic()
    asked = query(run, spec.name, [ref.to_dict() for ref in run.seeds])
    return _score(run, spec.name, property_index, [], asked, started, None)


def generate(run: Run, name: str, index: int) -> list[dict[str, Any]]:
    """The cases of all components and shards, in their order; cached ones come back at once."""
    jobs = [
        generation_job(run, component, shard)
        for component in components(run, index)
        if isinstance(component, TabularTransform)
        for shard in run.seeds
    ]
    live.progress(name, "generate", 0, len(jobs))
    futures = [generate_cases.submit(job, run.uri) for job in jobs]
    results = results_of(futures, lambda done: live.progress(name, "generate", done, len(jobs)))
    return made_again(run.store, results, lambda place: generate_cases.with_options(refresh_cache=True)(jobs[place], run.uri))


def find_flips(run: Run, name: str, index: int, asked: dict[str, Any]) -> dict[str, Any]:
    """Asks the grid of single changes on borderline seeds, with what the budget leaves; adds its counts to `asked`."""
    job = flips_job(run, index)
    [ref] = made_again(
        run.store,
        [generate_flips(job, run.uri)],
        lambda _: generate_flips.with_options(refresh_cache=True)(job, run.uri),
    )
    more = query(run, name, [ref])
    union = np.unique(
        np.concatenate([np.frombuffer(run.store.get(ArtifactRef.of(part["needed"])), "V16") for part in (asked, more)])
    )
    asked |= {
        "needed": run.store.put(union.tobytes(), "digests", len(union)).to_dict(),
        "planned": len(union),
        "sent": asked["sent"] + more["sent"],
        "errors": asked["errors"] + more["errors"],
    }
    asked["cached"] = max(len(union) - asked["sent"] - asked["unpaid"] - more["unpaid"], 0)
    return {"job": job, "ref": ref}


def query(run: Run, name: str, refs: list[dict[str, Any]], repeat: int = 0) -> dict[str, Any]:
    """Asks what is needed and not yet answered. A failed shard makes errors of its own inputs and spares its siblings.

    Returns the plan's counts and what was sent.
    """
    allowance = None if run.budget is None or repeat else max(run.budget - spent(run), 0)
    plan = plan_queries(run.uri, refs, repeat, allowance)
    total, sent, errors = plan["to_send"], 0, 0
    live.progress(name, "query", 0, total)
    futures = [query_model.submit(run.uri, shard, name) for shard in plan["shards"]]
    try:
        for future, shard in zip(futures, plan["shards"], strict=True):
            result = _outcome(future)
            if isinstance(result, AitestError):
                raise result  # the model, the store or the user's stop: the run ends here and can be resumed
            if isinstance(result, BaseException):
                result = shard_lost(run, shard, f"the query broke ({type(result).__name__})")
            sent += result["sent"]
            errors += result["errors"]
            live.progress(name, "query", sent, total, f"{errors:,} errors" if errors else "")
    except BaseException:
        live.stop()
        raise
    if not repeat:
        add_spent(run, sent)
    return {**{key: plan[key] for key in ("needed", "planned", "cached", "unpaid")}, "sent": sent, "errors": errors}


def results_of(futures: Sequence[PrefectFuture[Any]], tell: Any) -> list[Any]:
    """The results of tasks that must all succeed, in their order."""
    results = []
    for number, future in enumerate(futures, start=1):
        result = _outcome(future)
        if isinstance(result, BaseException):
            live.stop()
            raise result
        results.append(result)
        tell(number)
    return results


_spent: dict[str, int] = {}


def spent(run: Run) -> int:
    """Unique queries this run has sent so far, those before an interruption included."""
    return _spent.get(run.run_id, 0)


def add_spent(run: Run, count: int) -> None:
    """Counts queries against the run's budget."""
    _spent[run.run_id] = spent(run) + count


def _outcome(future: PrefectFuture[Any]) -> Any:
    """The result of a task or the exception it ended with, never raised here."""
    future.wait()
    return future.result(raise_on_failure=False)


def _score(
    run: Run,
    name: str,
    index: int,
    cases: list[dict[str, Any]],
    asked: dict[str, Any],
    started: float,
    flips: dict[str, Any] | None,
) -> dict[str, Any]:
    live.progress(name, "score", 0, max(len(cases), len(run.seeds)))
    job = scoring_job(run, index, cases, asked["unpaid"], flips)
    [scored] = made_again(
        run.store,
        [score_property(job, run.uri, index)],
        lambda _: score_property.with_options(refresh_cache=True)(job, run.uri, index),
    )
    report = PropertyReport.model_validate(run.store.get_json(ArtifactRef.of(scored["report"])))
    queries = PropertyQueries(planned=asked["planned"], sent=asked["sent"], cached=asked["cached"])
    artifacts = {name: run.store.url_of(scored[name]["uri"]) for name in ("cases", "failures")}
    artifacts["report"] = f"runs:/{run.run_id}/report.html"  # as MLflow names its artifacts
    report = report.model_copy(update={"queries": queries, "artifacts": artifacts})
    return {**log_report(run, index, report, scored, started), "needed": asked["needed"]}


def log_report(run: Run, index: int, report: PropertyReport, scored: dict[str, Any], started: float) -> dict[str, Any]:
    """Writes a property's report to MLflow; `started` is on the monotonic clock."""
    report = report.model_copy(update={"seconds": round(time.monotonic() - started, 3)})
    data = report.model_dump(mode="json")
    log_property(run.uri, index, data, scored, run.record["home"])
    live.progress(report.property, "done", 1, 1, report.status)
    return {"report": data, "scored": scored}

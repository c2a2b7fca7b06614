"""The suite as a flow: seeds, baselines, then the properties in their order, then the report."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from prefect import flow, tags

from aitest_flows.asking import query
from aitest_flows.names import flow_run_name
from aitest_flows.spreading import run_tag, tidied
from aitest_flows.turns import results
from aitest_flows.working import leading, retries
from aitest_lib import __version__
from aitest_lib.models.probe import class_order_problems
from aitest_lib.reports.report import (
    FailingCase,
    ModelReport,
    PropertyReport,
    Provenance,
    Queries,
    RunReport,
    UnreadableFile,
    shown_names,
)
from aitest_lib.types import ArtifactRef, Predictions, worst
from aitest_tasks import live
from aitest_tasks.caching import made_again
from aitest_tasks.components import check_components
from aitest_tasks.fairness_checks import check_seeds
from aitest_tasks.limits import slots
from aitest_tasks.model_registry import tag_version
from aitest_tasks.noises import kept, make_noise, noise_jobs
from aitest_tasks.preparing import SELF_FLIP_REPEATS, check_answers, check_labels, prepare_model
from aitest_tasks.querying import answer_book, run_errors, spent
from aitest_tasks.results import cached, stored
from aitest_tasks.runs import Run, open_run
from aitest_tasks.sampling import sample_seeds, sampling_job
from aitest_tasks.settings import current
from aitest_tasks.synthesizing import needs_answers, synthesis_job, synthesis_of, synthesize_seeds
from aitest_tasks.tracking import Tracking, log_run

BASELINE = "seeds"
ENOUGH_ANSWERS = 2_000  # to see whether scores stand in the order of the classes
PACKAGES = ("prefect", "mlflow", "pandas", "pyarrow", "numpy", "scikit-learn")
OF_MODALITY = {"image": ("torch", "kornia", "pillow"), "speech": ("torch", "torchaudio", "soundfile", "jiwer")}


@flow(name="suite", flow_run_name=flow_run_name, persist_result=False, retries=0)
def suite(run_uri: str) -> dict[str, Any]:
    """Runs every property of a suite run and writes its report; returns the report as JSON data."""
    run = open_run(run_uri)
    with leading(run), tags(run_tag(run)), tidied(run):
        prepare(run)
        baseline = ask_baselines(run)
        return finish(run, baseline, results(run)).model_dump(mode="json")


def prepare(run: Run) -> None:
    """Samples the seeds and settles the epoch; a resumed run has both already."""
    job = sampling_job(run)
    sample = stored(sample_seeds, run)
    sample_again = sample.with_options(refresh_cache=True)
    if run.has("prepared"):
        names = ("profile", "shards", "contents", "positions")
        known = run.prepared | run.prepared.get("real", {})
        whole: dict[str, Any] = {key: known[key] for key in names if key in known}
        made_again(run.store, [whole], lambda _: sample_again(job, run.uri))
        noises(run, run.prepared)
        synthesize(run)
        return
    live.progress(BASELINE, "sample", 0, 1)
    [seeds] = made_again(run.store, [sample(job, run.uri)], lambda _: sample_again(job, run.uri))
    check_labels(run, seeds["labels"])
    check_components(run, seeds)
    check_seeds(run)
    live.progress(BASELINE, "sample", 1, 1)
    private = [name for name, column in run.suite.suite.data.columns.items() if column.private]
    facts = {"private": private, "previous_looks": looks(run), "noises": noises(run, seeds)}
    with slots(run):
        prepare_model(run.uri, {**seeds, **facts})
    check_answers(run, seeds["labels"])
    synthesize(run)


def noises(run: Run, seeds: dict[str, Any]) -> dict[str, Any]:
    """The noises that transforms of speech need, made or read once; none for other models."""
    jobs, made = noise_jobs(run, seeds.get("sample_rates", [])), []
    for number, job in enumerate(jobs):
        live.progress(BASELINE, "noise", number, len(jobs), job["noise"] or "recordings")
        made.append(cached(make_noise, run, job))
    return kept(jobs, made)


def synthesize(run: Run) -> None:
    """Puts synthesized seeds in the place of the real ones, where the suite asks for that; a resumed run may have them."""
    config = synthesis_of(run)
    if config is None:
        return
    real = run.prepared.get("real") or {key: run.prepared[key] for key in ("shards", "positions", "seeds")}
    run.__dict__["prepared"] = {**run.prepared, **real}
    asked = query(run, BASELINE, real["shards"]) if needs_answers(config) else {"sent": 0, "needed": None}
    made = cached(synthesize_seeds, run, synthesis_job(run, config))
    state = {"shards": made["shards"], "positions": made["positions"], "seeds": config.rows, "synthesis": made["report"]}
    before = run.prepared.get("real", {"sent": 0})["sent"]
    prepared = {**run.prepared, **state, "real": {**real, "needed": asked["needed"], "sent": before + asked["sent"]}}
    run.write("prepared", prepared)
    run.__dict__["prepared"] = prepared


def ask_baselines(run: Run) -> dict[str, Any]:
    """The answers on the untouched seeds, and the repeats that a nondeterministic model needs."""
    refs = [ref.to_dict() for ref in run.seeds]
    asked = query(run, BASELINE, refs)
    again = 0
    if not run.prepared["deterministic"]:
        again = sum(query(run, BASELINE, refs, repeat)["sent"] for repeat in range(1, SELF_FLIP_REPEATS + 1))
    live.progress(BASELINE, "done", 1, 1)
    return {**asked, "again": again}


def finish(run: Run, baseline: dict[str, Any], done: list[dict[str, Any]]) -> RunReport:
    """Puts the report together, writes it to the store and to MLflow, and marks the model version."""
    reports = [PropertyReport.model_validate(item["report"]) for item in done]
    failures = {
        name: [FailingCase.model_validate(case) for case in run.store.get_json(ArtifactRef.of(item["scored"]["failures"]))]
        for name, item in zip(shown_names(report.property for report in reports), done, strict=True)
        if item["scored"]
    }
    report = assemble(run, baseline, done, reports)
    run.write("report", report.model_dump(mode="json"))
    run.store.write_json(f"{looks_folder(run)}/{run.run_id}.json", {"status": report.status})
    publish(run, report, failures)
    return report


def publish(run: Run, report: RunReport, failures: dict[str, list[FailingCase]]) -> None:
    """Writes a finished run to MLflow and marks the model version; `resume` does it where MLflow was away."""
    tracking = Tracking(current())
    log_run(tracking, run, report, failures)
    if run.record["registered"]:
        tag_version(tracking, run.record["registered"], run.suite.suite.suite, report.status, run.run_id)
    run.write("logged", {"status": report.status})


def assemble(run: Run, baseline: dict[str, Any], done: list[dict[str, Any]], reports: list[PropertyReport]) -> RunReport:
    """The report of a run from those of its properties."""
    real = run.prepared.get("real", {"needed": None, "sent": 0})  # rows that the seeds were synthesized from
    needed = [baseline["needed"], real["needed"], *(item.get("needed") for item in done)]
    inputs = np.unique(np.concatenate([np.frombuffer(run.store.get(ArtifactRef.of(ref)), "V16") for ref in needed if ref]))
    book = answer_book(run)
    errors, sent = len(run_errors(run)), spent(run, book)
    answered = int((book.find(inputs) >= 0).sum())
    # The seeds' answers were asked for before the properties; they are counted where they are first needed.
    if reports and done[0]["scored"]:
        first = reports[0].queries
        seeds_sent = baseline["sent"] + run.prepared["probed"] + real["sent"]
        counted = first.model_copy(update={"sent": first.sent + seeds_sent, "cached": max(first.cached - seeds_sent, 0)})
        reports[0] = reports[0].model_copy(update={"queries": counted})
    started = datetime.fromisoformat(run.record["started"])
    suite_config = run.suite.suite
    state = run.prepared
    warnings = []
    if state["changed"]:
        warnings.append("model_changed: the model answers differently behind an unchanged revision; everything was asked anew")
    warnings += state.get("notes", [])
    some = np.arange(min(len(book.digests), ENOUGH_ANSWERS))
    answers = Predictions(book.labels(some), None if book.scores is None else book.scores[some], np.full(len(some), None))
    warnings += class_order_problems(answers, run.info.classes)
    unreadable = state.get("unreadable", {"count": 0, "first": []})
    return RunReport(
        suite=suite_config.suite,
        run_id=run.run_id,
        status=worst([report.status for report in reports]),
        model=ModelReport(
            name=run.info.name,
            version=run.info.version,
            revision=run.info.revision,
            type=run.info.type,
            digest=run.info.digest,
            epoch=state["epoch_number"],
            changed=state["changed"],
            deterministic=state["deterministic"],
            self_flip_rate=state["self_flip_rate"],
        ),
        provenance=Provenance(
            aitest=__version__,
            packages=package_versions(run.modality),
            suite_digest=run.suite.digest,
            data_digest=run.record["test_digest"],
            random_seed=suite_config.random_seed,
            confidence=suite_config.confidence,
            started_by=run.record["started_by"],
            previous_looks=state["previous_looks"],
            rows=state["rows"],
            seeds=state["seeds"],
            unreadable=unreadable["count"],
            converted=state.get("converted", {}),
        ),
        started=run.record["started"],
        seconds=round((datetime.now(UTC) - started).total_seconds(), 3),
        queries=Queries(
            planned=len(inputs),
            sent=sent,
            cached=max(answered - (sent - errors), 0),
            sentinel=state["sentinel"] + baseline["again"] + sum(item.get("again", 0) for item in done),
            retries=retries(run),
            errors=errors,
        ),
        properties=reports,
        info=dict(run.card.card.info) if run.record["card"] else {},
        warnings=warnings,
        unreadable=[UnreadableFile(**one) for one in unreadable["first"]],
        synthesis=run.store.get_json(ArtifactRef.of(state["synthesis"])) if "synthesis" in state else None,
    )


def looks_folder(run: Run) -> str:
    """Where the store counts how often a suite was run on a model."""
    return f"looks/{run.suite.suite.suite}/{run.info.digest}"


def looks(run: Run) -> int:
    """How many runs of this suite on this model ended before."""
    return len(run.store.files(looks_folder(run)))


def package_versions(modality: str) -> dict[str, str]:
    """Versions of the packages that results depend on."""
    found = {}
    for name in (*PACKAGES, *OF_MODALITY.get(modality, ())):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found

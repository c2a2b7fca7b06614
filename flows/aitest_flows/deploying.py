"""`aitest deploy`: a suite audited by the workers of a pool, on a schedule, for new model versions, with alerts.

Everything is created or updated; what an earlier deployment had and this one has not is removed.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from aitest_flows.pools import apply, ensure_pool, prefect_client
from aitest_flows.prefect_server import given_url
from aitest_flows.schedules import Schedule, schedule_of
from aitest_lib.config.suite import LoadedSuite, load_suite
from aitest_lib.errors import InputError, UnavailableError
from aitest_lib.properties.catalog import SPECS
from aitest_tasks.settings import Settings

if TYPE_CHECKING:
    from aitest_flows.runner import Request

NO_MESSAGES = (
    "alerts stand in Prefect's event feed only; for messages save a notification block of the name aitest-alerts "
    "(Slack, mail, …) on the Prefect server and deploy again"
)


@dataclass(frozen=True)
class Deployed:
    """What `deploy` did. `rows`: what, its name, what to know of it; `notes`: what is left to do."""

    rows: list[tuple[str, str, str]]
    notes: list[str]


def deploy_suite(
    settings: Settings,
    path: str | Path,
    *,
    pool: str,
    cron: str | None = None,
    timezone: str | None = None,
    on_new_version: str | None = None,
) -> Deployed:
    """Deploys the audit of a suite to a work pool. Suite, card and data are checked, and asked for, before anything is made.

    `cron`, `timezone`: when it runs (five fields, an IANA name; UTC without one). `on_new_version`: the registered model
    whose new versions it audits at once. Raises `InputError`, and `UnavailableError` where there is no Prefect server.
    """
    from aitest_flows import runner
    from aitest_flows.alerts import BLOCK, action_on, automations
    from aitest_flows.spreading import online_workers
    from aitest_flows.suite_documents import store_suite
    from aitest_tasks.limits import ensure_limit

    if not pool.strip():
        raise InputError(f"--pool: got {pool!r}, expected the name of a work pool")
    schedule = schedule_of(cron, timezone)
    loaded = load_suite(path)
    check_trigger(loaded, on_new_version)
    request = runner.request_run(settings, loaded, runner.Options(pool=pool))
    suite = request.suite.suite.suite
    with prefect_client() as client:
        deploy_flows(pool)
        trigger, notes = _webhook(settings, on_new_version, schedule is not None) if on_new_version else ([], [])
        settings.store.check()
        uri, stored = store_suite(settings.store, request, pool)
        limit = ensure_limit(request.card.card) if request.card is not None else None
        deployment = deploy_audit(suite, request.info.name, uri, pool, schedule, on_new_version)
        action = action_on(client)
        alerts = automations(suite, deployment, schedule.longest_gap if schedule else None, action)
        for alert in alerts:  # the deployment's earlier ones went when it was applied
            client.create_automation(alert)
        workers = online_workers(pool)
    told = action.type == "send-notification"
    kinds = ", ".join(alert.name.rpartition(": ")[2] for alert in alerts)
    rows = [
        ("deployment", f"audit/{suite}", uri),
        _schedule_row(schedule),
        *trigger,
        ("flows", f"suite, helper, {len(SPECS)} properties", f"on the pool {pool}"),
        *([("limit", limit, "calls to the endpoint, over all workers")] if limit else []),
        ("alerts", kinds, f"to {BLOCK}" if told else "in the event feed"),
    ]
    notes += [*stored, *_notes(settings, request, schedule), *([] if told else [NO_MESSAGES])]
    return Deployed(rows, [*notes, f"workers that take its runs: {workers}" if workers else start_worker(settings, pool)])


def deploy_flows(pool: str) -> None:
    """Creates the work pool where it is missing, and deployments `<flow>/<pool>` of every flow that runs on its workers.

    They name the flows by module, so a worker needs aitest installed and nothing of the folder that they were deployed from.
    """
    from aitest_flows.catalog import flow_of
    from aitest_flows.helping import helper
    from aitest_flows.suite import suite

    with prefect_client() as client:
        ensure_pool(client, pool)
        for one in (suite, helper, *(flow_of(name) for name in SPECS)):
            apply(one, pool, pool)


def check_trigger(loaded: LoadedSuite, model: str | None) -> None:
    """New versions can start a suite only where it tests them."""
    reference = loaded.suite.model
    if model is not None and reference.name != model:
        tested = f"the registered model {reference.name}" if reference.name else f"the card {reference.card}"
        expected = f"model: {{name: {model}, version: latest}}"
        raise InputError(f"--on-new-version {model}: the suite tests {tested}, expected {expected}")


def start_worker(settings: Settings, pool: str) -> str:
    """The command that starts a worker with this project's settings; an address with credentials is left to the environment."""
    uri = settings.tracking_uri
    places = {
        "PREFECT_API_URL": shlex.quote(str(given_url())),
        "MLFLOW_TRACKING_URI": shlex.quote(uri) if "@" not in uri else '"$MLFLOW_TRACKING_URI"',
        "AITEST_STORE": shlex.quote(settings.store.url),
    }
    environment = " ".join(f"{name}={value}" for name, value in places.items())
    command = f"prefect worker start --pool {shlex.quote(pool)} --type process --limit 4"
    return f"no worker is there yet; start one with: {environment} {command}"


def deploy_audit(suite: str, model: str, uri: str, pool: str, schedule: Schedule | None, on_new_version: str | None) -> UUID:
    """The deployment of a suite's audit, with its schedule and its trigger; those of an earlier one are replaced."""
    from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
    from prefect.events import DeploymentEventTrigger
    from prefect.schedules import Cron

    from aitest_flows.alerts import VERSION_CREATED, model_resource
    from aitest_flows.audit import audit

    triggers = []
    if on_new_version is not None:
        triggers.append(
            DeploymentEventTrigger(
                name=f"aitest {suite}: new version of {on_new_version}",
                match={"prefect.resource.id": model_resource(on_new_version)},
                expect={VERSION_CREATED},
                parameters={"version": "{{ event.payload.version }}"},
            )
        )
    return apply(
        audit,
        suite,
        pool,
        schedule=Cron(schedule.cron, timezone=schedule.timezone) if schedule else None,
        parameters={"suite_uri": uri, "version": None},
        triggers=triggers,
        tags=["aitest", f"suite:{suite}", f"model:{model}"],
        # Two audits of a suite at once would ask the model the same things twice; the second waits, and finds the answers.
        concurrency_limit=ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE),
    )


def _webhook(settings: Settings, model: str, scheduled: bool) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Registers MLflow's webhook. Where that cannot be, new versions wait for the schedule, if there is one."""
    from aitest_lib.config.secrets import remember
    from aitest_tasks.tracking import Tracking
    from aitest_tasks.webhooks import register_webhook

    url, secret = os.environ.get("AITEST_WEBHOOK_URL"), os.environ.get("AITEST_WEBHOOK_SECRET")
    try:
        if not url or not secret:
            raise UnavailableError("AITEST_WEBHOOK_URL and AITEST_WEBHOOK_SECRET are not set (`aitest up --with-webhook` does)")
        remember(secret)
        made = register_webhook(Tracking(settings), url, secret)
    except UnavailableError as error:
        if not scheduled:
            raise InputError(
                f"--on-new-version: nothing would tell of new versions: {error}; mend it, or add --cron"
            ) from error
        return [], [f"new versions of {model} are audited at the next scheduled run only: {error}"]
    how = "new" if made else "already there"
    return [("trigger", f"new versions of {model}", f"by MLflow's webhook ({how})")], []


def _schedule_row(schedule: Schedule | None) -> tuple[str, str, str]:
    if schedule is None:
        return ("schedule", "none", "")
    return ("schedule", schedule.cron, f"next {schedule.next:%Y-%m-%d %H:%M %Z}")


def _notes(settings: Settings, request: Request, schedule: Schedule | None) -> list[str]:
    """What the audits of a suite will do at first, what they need, and what they will not decide."""
    from aitest_flows.alerts import GRACE, hours
    from aitest_lib.config.secrets import references
    from aitest_tasks.model_registry import unaudited_versions
    from aitest_tasks.tracking import Tracking

    config, card, notes = request.suite.suite, request.card, []
    if schedule is not None:
        notes.append(f"absent goes out where no audit has ended for {hours(schedule.longest_gap + GRACE)}")
        if config.model.name and len(behind := unaudited_versions(Tracking(settings), config.model.name, config.suite)) > 1:
            notes.append(f"the next scheduled audit takes every version without a verdict: {', '.join(behind)}")
    if ungated := [item.property for item in config.properties if not item.gates]:
        notes.append(f"without gates, and so unjudged: {', '.join(ungated)}; an audit that passed else ends as unjudged")
    if card is not None:
        if names := list(dict.fromkeys(references(card.card.model_dump_json()))):
            notes.append(f"workers need, in their environment or as secret files: {', '.join(names)}")
        if card.card.endpoint is None and card.card.mlflow is None:
            notes.append(f"workers need the model's files in {card.base_dir}")
    return notes

"""What audits tell Prefect, as events, and the automations that turn some of them into alerts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.events.actions import DoNothing, SendNotification
    from prefect.events.schemas.automations import AutomationCore
    from prefect.events.schemas.events import Event

VERSION_CREATED = "mlflow.model_version.created"
ENDED = "aitest.audit.ended"
VERDICTS = ("error", "failed", "inconclusive", "unjudged", "passed")  # the worst first
BLOCK = "aitest-alerts"
GRACE = timedelta(hours=2)  # how late an audit may end
# Each alert with the events it answers to. A property without a gate is no proof that all is well.
ALERTS = {
    "failed": ("aitest.audit.failed",),
    "inconclusive": ("aitest.audit.inconclusive", "aitest.audit.unjudged"),
    "error": ("aitest.audit.error",),
}
WHAT = "{{ event.payload.model }} version {{ event.payload.version }}: {{ event.payload.status }}; {{ event.payload.detail }}"


def audit_event(suite: str, kind: str, payload: dict[str, Any]) -> Event:
    """The event `aitest.audit.<kind>` of a suite."""
    return new_event(f"aitest.audit.{kind}", suite_resource(suite), suite, payload)


def new_event(name: str, resource: str, shown_as: str, payload: dict[str, Any], event_id: UUID | None = None) -> Event:
    """An event on one resource; one that is sent again under the same id counts once."""
    from prefect.events.schemas.events import Event

    given: dict[str, Any] = {"id": event_id} if event_id is not None else {}
    return Event(
        event=name, resource={"prefect.resource.id": resource, "prefect.resource.name": shown_as}, payload=payload, **given
    )


def send(client: SyncPrefectClient, events: Sequence[Event]) -> None:
    """Hands events to the Prefect server; returns once it has taken them, and raises where it has not."""
    client.request("POST", "/events", json=[event.model_dump(mode="json") for event in events]).raise_for_status()


def suite_resource(suite: str) -> str:
    """The resource that the events of a suite's audits are about."""
    return f"aitest.suite.{suite}"


def model_resource(model: str) -> str:
    """The resource that the events of a registered model are about."""
    return f"mlflow.model.{model}"


def action_on(client: SyncPrefectClient) -> DoNothing | SendNotification:
    """What an alert does: it notifies through the block of the name `aitest-alerts`, where the server has one."""
    from prefect.events.actions import DoNothing, SendNotification

    for block in client.read_block_documents():
        if block.name == BLOCK and block.block_schema and "notify" in block.block_schema.capabilities:
            return SendNotification(block_document_id=block.id, subject="", body="")
    return DoNothing()


def automations(
    suite: str, deployment: UUID, longest_gap: timedelta | None, action: DoNothing | SendNotification
) -> list[AutomationCore]:
    """The alerts of a suite's audit. The deployment owns them: they are replaced when it is deployed again, and go with it.

    `longest_gap`: of the schedule; None where there is none, and so no audit can be overdue.
    """
    from prefect.events.schemas.automations import EventTrigger, Posture

    of_suite: dict[str, Any] = {"match": {"prefect.resource.id": suite_resource(suite)}}
    triggers = {
        kind: (EventTrigger(posture=Posture.Reactive, expect=set(expected), threshold=1, **of_suite), WHAT)
        for kind, expected in ALERTS.items()
    }
    crashed = EventTrigger(
        posture=Posture.Reactive,
        match={"prefect.resource.id": "prefect.flow-run.*"},
        match_related={"prefect.resource.id": f"prefect.deployment.{deployment}"},
        expect={"prefect.flow-run.Crashed"},
        threshold=1,
    )
    triggers["crashed"] = (crashed, "the worker that ran the audit went away, or could not load it; see its log")
    if longest_gap is not None:
        within = longest_gap + GRACE
        absent = EventTrigger(posture=Posture.Proactive, expect={ENDED}, threshold=1, within=within, **of_suite)
        triggers["absent"] = (absent, f"no audit has ended for {hours(within)}; is there a worker, and can it reach the model?")
    return [_automation(suite, kind, deployment, trigger, text, action) for kind, (trigger, text) in triggers.items()]


def hours(time: timedelta) -> str:
    """A duration as people say it."""
    return f"{time / timedelta(hours=1):g} h"


def _automation(
    suite: str, kind: str, deployment: UUID, trigger: Any, text: str, action: DoNothing | SendNotification
) -> AutomationCore:
    from prefect.events.actions import SendNotification
    from prefect.events.schemas.automations import AutomationCore

    if isinstance(action, SendNotification):
        action = action.model_copy(update={"subject": f"aitest: audit of {suite}: {kind}", "body": text})
    return AutomationCore(
        name=f"aitest {suite}: {kind}",
        description=f"alerts where an audit of the suite {suite} is {kind}",
        trigger=trigger,
        actions=[action],
        owner_resource=f"prefect.deployment.{deployment}",
    )

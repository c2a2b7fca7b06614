"""The audit of a deployed suite as a flow: at night, for a new model version, and for versions whose event got lost.

It ends Completed, whatever the verdict, under a name that says it; it fails where a version could not be audited.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from aitest_flows import runner
from aitest_flows.alerts import VERDICTS, audit_event, send
from aitest_flows.prefect_server import check_prefect
from aitest_flows.spreading import mark_all_killed
from aitest_flows.suite import suite
from aitest_flows.suite_documents import SuiteDocument, open_suite
from aitest_lib.config.secrets import mask
from aitest_lib.errors import AitestError, InputError, Interrupted
from aitest_lib.reports.report import RunReport
from aitest_tasks.model_registry import find_version, superseded_by, unaudited_versions, verdict_on
from aitest_tasks.settings import Settings, open_settings
from aitest_tasks.tracking import Tracking

STATE_NAMES = {
    "error": "Errors",
    "failed": "Gates failed",
    "inconclusive": "Inconclusive",
    "unjudged": "Unjudged",
    "passed": "Gates passed",
}


@dataclass(frozen=True)
class Outcome:
    """How the audit of one version ended. `run_id`: None where it has no report."""

    model: str
    version: str | None
    verdict: str
    run_id: str | None
    detail: str

    @property
    def line(self) -> str:
        """For people."""
        version = f" version {self.version}" if self.version else ""
        return f"{self.model}{version}: {self.verdict}; {self.detail}"


def run_name() -> str:
    """The name of the flow run: the suite, and the version that it was given."""
    given = flow_run.get_parameters()
    version = f" on version {given['version']}" if given.get("version") else ""
    return f"audit of {suite_name(given['suite_uri'])}{version}"


@flow(name="audit", flow_run_name=run_name, persist_result=False, retries=0)
def audit(suite_uri: str, version: str | None = None) -> State[Any]:
    """Runs a deployed suite on one version of its model, or on the one the suite names and all that were never audited.

    A given version that has a verdict of this suite already is left alone: an event may come twice. So is one in whose place
    a newer one is asked: its verdict would be that one's.
    """
    settings = open_settings()
    try:
        mark_all_killed(settings)
        document = open_suite(settings.store, suite_uri)
        if version is not None and (verdict := known_verdict(settings, document, version)) is not None:
            return Completed(name="Already audited", message=f"{document.model.name} version {version} is {verdict}")
        if version is not None and (newer := superseded_by(Tracking(settings), str(document.model.name), version)) is not None:
            message = f"{document.model.name} version {newer} is reached where version {version} was"
            return Completed(name="Superseded", message=message)
        versions = due_versions(settings, document) if version is None else [version]
    except AitestError as error:
        name = suite_name(suite_uri)
        return Failed(message=tell(name, could_not(name, version, error)).line)
    outcomes = [audit_version(settings, document, one) for one in versions]
    message = "\n".join(outcome.line for outcome in outcomes)
    if any(outcome.run_id is None for outcome in outcomes):
        return Failed(message=message)
    return Completed(name=STATE_NAMES[min((one.verdict for one in outcomes), key=VERDICTS.index)], message=message)


def due_versions(settings: Settings, document: SuiteDocument) -> list[str | None]:
    """The version that the suite names, then those without a verdict of it, the oldest first. None: a card's own model."""
    model = document.model
    if model.name is None:
        return [None]
    tracking = Tracking(settings)
    unaudited = unaudited_versions(tracking, model.name, document.name)
    try:
        named = find_version(tracking, model.name, str(model.version)).version
    except InputError:
        named = str(model.version)  # auditing it will say what is wrong, and spare the others
    return [named, *(one for one in unaudited if one != named)]


def known_verdict(settings: Settings, document: SuiteDocument, version: str) -> str | None:
    """The suite's verdict on a version of its registered model, if there is one."""
    if document.model.name is None:
        raise InputError(f"got version {version!r}, but the suite {document.name} tests a card's own model; leave it out")
    try:
        return verdict_on(Tracking(settings), document.model.name, version, document.name)
    except InputError:
        return None  # there is no such version: auditing it will say so


def audit_version(settings: Settings, document: SuiteDocument, version: str | None) -> Outcome:
    """Runs the suite on one version and tells Prefect how it ended. What is wrong with one version spares the others."""
    try:
        report = run_suite(settings, document, version)
    except Interrupted:
        raise
    except Exception as error:  # noqa: BLE001 -- whatever it was, the alert must go out, and the other versions have their turn
        check_prefect(error)
        return tell(document.name, could_not(document.model.name or document.name, version, error))
    model = report.model
    return tell(document.name, Outcome(model.name, model.version, verdict_of(report), report.run_id, detail_of(report)))


def could_not(model: str, version: str | None, error: Exception) -> Outcome:
    """The outcome of an audit that has no report."""
    return Outcome(model, version, "error", None, mask(str(error) or type(error).__name__))


def tell(name: str, outcome: Outcome) -> Outcome:
    """Sends the events of an outcome: its verdict, and that the audit ended, where it did."""
    payload = {
        "model": outcome.model,
        "version": outcome.version,
        "run_id": outcome.run_id,
        "status": outcome.verdict,
        "detail": outcome.detail,
    }
    kinds = [outcome.verdict] if outcome.run_id is None else ["ended", outcome.verdict]
    with get_client(sync_client=True) as client:
        send(client, [audit_event(name, kind, payload) for kind in kinds])
    return outcome


def run_suite(settings: Settings, document: SuiteDocument, version: str | None) -> RunReport:
    """One run of the suite, as a subflow."""
    loaded = document.suite if version is None else document.on_version(version)
    options = runner.Options(pool=document.pool)
    request = runner.request_run(settings, loaded, options, card=document.card)
    return RunReport.model_validate(suite(runner.start(settings, request).uri))


def suite_name(suite_uri: str) -> str:
    """The suite whose document stands at a URI."""
    return PurePosixPath(suite_uri).stem


def verdict_of(report: RunReport) -> str:
    """The report's status; a deployed suite requires gates, so one property without any leaves a passed one unjudged."""
    lacking = report.status in ("passed", "skipped") and any(item.status == "unjudged" for item in report.properties)
    return "unjudged" if lacking or report.status == "skipped" else report.status


def detail_of(report: RunReport) -> str:
    """What each property came to, and the run."""
    properties = ", ".join(f"{item.property} {item.status}" for item in report.properties)
    return f"{properties}; run {report.run_id[:8]}"

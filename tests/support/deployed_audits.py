"""What stands on a Prefect server after `aitest deploy`: deployments, automations, events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from projects import Project, until

from aitest_flows.alerts import suite_resource


@contextmanager
def prefect_at(url: str) -> Iterator[Any]:
    """A client of a Prefect server; this process's Prefect uses that server, too."""
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: url}), get_client(sync_client=True) as client:
        yield client


def automations_of(client: Any, suite: str) -> dict[str, Any]:
    """The automations of a suite's audit, by what their names say after the suite's."""
    start = f"aitest {suite}: "
    found = [one for one in client.read_automations(limit=200) if one.name.startswith(start)]
    names = [one.name.removeprefix(start) for one in found]
    if len(set(names)) < len(names):
        raise ValueError(f"got two automations of one name: {names}")
    return dict(zip(names, found, strict=True))


def events_of(client: Any, suite: str, count: int) -> list[tuple[str, dict[str, Any]]]:
    """The events of a suite's audits with their payloads, the oldest first, once there are so many: Prefect writes them down
    a few seconds after it has taken them."""
    wanted = {"resource": {"id": [suite_resource(suite)]}, "order": "ASC"}

    def found() -> list[dict[str, Any]]:
        events = client.request("POST", "/events/filter", json={"filter": wanted, "limit": 50}).json()["events"]
        return list(events) if len(events) >= count else []

    return [(event["event"].removeprefix("aitest.audit."), event["payload"]) for event in until(found, 30)]


def document_url(project: Project, suite: str) -> str:
    """Where the document of a deployed suite stands in the project's own store."""
    return f"file://{project.store}/suites/{suite}.json"


def run_audit(project: Project, suite: str, version: str | None = None, document: str | None = None) -> Any:
    """Runs an audit in this process, as a worker would in its own; the state it ends in."""
    from aitest_flows.audit import audit

    url = project.env["PREFECT_API_URL"]
    with project.entered(), prefect_at(url):
        return audit(document or document_url(project, suite), version, return_state=True)

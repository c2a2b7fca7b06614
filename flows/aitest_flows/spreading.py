"""A run on the workers of a Prefect work pool: flow runs that share its work, and those that are left over.

Nothing depends on how many of them find a free slot, or when: whoever waits for a property that nobody works on does it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType, FlowRunFilterTags
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.deployments import run_deployment
from prefect.states import Cancelled, Crashed

from aitest_lib.errors import UnavailableError
from aitest_tasks import live
from aitest_tasks.leases import present
from aitest_tasks.limits import ensure_limit
from aitest_tasks.runs import Run
from aitest_tasks.settings import Settings

if TYPE_CHECKING:
    from aitest_flows.runner import Request

TAG = "aitest.run:"
WATCHES_S = 1.0
DASK_TIMEOUT_S = 10
JUST_BEGUN = timedelta(seconds=5)
UNSTARTED = [StateType.SCHEDULED, StateType.PENDING]
FINAL_AFTER_S = 10.0  # a flow run that has ended without a report may still be writing it


def made_ready(settings: Settings, request: Request, pool: str) -> Request:
    """Makes everything that workers need, with what they can read in the request: deployments of the flows, the limit of the
    endpoint, and local tables in the store. Tables with private columns stay where they are."""
    from aitest_flows.deploying import deploy_flows
    from aitest_flows.suite_documents import upload
    from aitest_lib.data.table import TableSource

    deploy_flows(pool)
    if request.card is not None:
        ensure_limit(request.card.card)
    if any(column.private for column in request.suite.suite.data.columns.values()):
        return request
    test, train = (TableSource(upload(settings.store, one)) if one else None for one in (request.test, request.train))
    return replace(request, test=test or request.test, train=train)


def run_tag(run: Run) -> str:
    """The tag of every flow run of a run."""
    return f"{TAG}{run.run_id}"


def start_on_pool(run: Run, flow_name: str, parameters: dict[str, Any]) -> FlowRun:
    """Starts a flow on the run's pool; whoever is free takes it."""
    started: Any = run_deployment(
        f"{flow_name}/{run.pool}", parameters=parameters, timeout=0, tags=[run_tag(run)], as_subflow=False
    )
    return started  # type: ignore[no-any-return]


@contextmanager
def tidied(run: Run) -> Iterator[None]:
    """Flow runs that an earlier attempt, or this one, leaves behind: killed ones are marked as crashed, and what has not
    begun when the run ends is cancelled."""
    mark_killed(run)
    try:
        yield
    finally:
        _set_states(_flow_runs(run, UNSTARTED), Cancelled(message="the run has ended"))
        mark_killed(run)


def mark_killed(run: Run) -> None:
    """Marks flow runs as crashed whose process is gone: they would read RUNNING for ever. One that has just begun may not
    have said yet that it is there."""
    from prefect.runtime import flow_run

    alive = {lease.get("flow_run") for lease in present(run).values()} | {flow_run.get_id()}
    before = datetime.now(UTC) - JUST_BEGUN
    found = _flow_runs(run, [StateType.RUNNING])
    killed = [one for one in found if str(one.id) not in alive and (one.start_time is None or one.start_time < before)]
    _set_states(killed, Crashed(message="its process is gone"))


def mark_all_killed(settings: Settings) -> None:
    """Marks the killed flow runs of all runs of this store, and earlier audits of this deployment: it has one at a time."""
    from prefect.runtime import deployment, flow_run

    running = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING])))
    with get_client(sync_client=True) as client:
        found = client.read_flow_runs(flow_run_filter=running)
    runs = {tag.removeprefix(TAG) for one in found for tag in one.tags if tag.startswith(TAG)}
    for run_id in sorted(runs):
        if settings.store.exists(f"runs/{run_id}/run.json"):
            mark_killed(Run(settings.store, run_id, {}))
    here = deployment.get_id()
    earlier = [one for one in found if here and str(one.deployment_id) == here and str(one.id) != flow_run.get_id()]
    _set_states(earlier, Crashed(message="its process is gone"))


def watch(run: Run, flow_run_id: UUID, tell: Callable[[], None]) -> None:
    """Waits until a run that works elsewhere has its report; `tell` is called about once a second.

    Raises `UnavailableError` where its flow run has ended without one.
    """
    ended_since: float | None = None
    began = time.monotonic()
    with get_client(sync_client=True) as client:
        while not run.has("report") or not run.has("logged"):
            tell()
            live.pause(WATCHES_S)
            state = client.read_flow_run(flow_run_id).state
            if state is not None and state.is_scheduled() and not online_workers(str(run.pool)):
                waited = int(time.monotonic() - began)
                note = f"for a worker; start one with: prefect worker start --pool {run.pool}"
                live.progress(f"pool {run.pool}", "waiting", waited, waited + 1, note)
            if state is None or not state.is_final():
                continue
            ended_since = ended_since or time.monotonic()
            if time.monotonic() - ended_since > FINAL_AFTER_S:
                lines = (state.message or state.name or "").strip().splitlines() or [""]
                raise UnavailableError(f"the run ended on the pool {run.pool} without a report: {lines[-1][:300]}")
    tell()


def online_workers(pool: str) -> int:
    """Workers of a pool that have been heard of lately."""
    with get_client(sync_client=True) as client:
        return sum(worker.status == "ONLINE" for worker in client.read_workers_for_work_pool(pool))


def dask_size(scheduler: str) -> tuple[int, int]:
    """Processes and threads of the Dask cluster of a scheduler; one that is not there is an `UnavailableError`."""
    from distributed import Client

    try:
        connect: Any = Client
        with connect(scheduler, timeout=DASK_TIMEOUT_S, set_as_default=False) as client:
            threads = client.nthreads()
    except (OSError, ValueError) as error:
        raise UnavailableError(
            f"there is no Dask scheduler at {scheduler}: {type(error).__name__}; start one with `dask scheduler`"
        ) from error
    if not threads:
        raise UnavailableError(f"the Dask scheduler at {scheduler} has no workers; start one with: dask worker {scheduler}")
    return len(threads), sum(threads.values())


def _flow_runs(run: Run, types: list[StateType]) -> list[FlowRun]:
    wanted = FlowRunFilter(
        tags=FlowRunFilterTags(all_=[run_tag(run)]), state=FlowRunFilterState(type=FlowRunFilterStateType(any_=types))
    )
    with get_client(sync_client=True) as client:
        return client.read_flow_runs(flow_run_filter=wanted)


def _set_states(flow_runs: list[FlowRun], state: Any) -> None:
    with get_client(sync_client=True) as client:
        for one in flow_runs:
            client.set_flow_run_state(one.id, state, force=True)

"""A run on the workers of a Prefect work pool: flow runs that share its work, and those that are left over.

Nothing depends on how many of them find a free slot, or when: whoever waits for a property that nobody works on does it.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType, FlowRunFilterTags
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.deployments import run_deployment
from prefect.exceptions import PrefectException
from prefect.states import Cancelled, Crashed

from aitest_lib.errors import AitestError, ArtifactMissing, InputError, UnavailableError
from aitest_tasks import live
from aitest_tasks.leases import is_alive, present
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
PATIENT_LOOKS = 5
RESTARTS = 3


def made_ready(settings: Settings, request: Request, pool: str) -> Request:
    """Makes everything that workers need, with what they can read in the request: deployments of the flows, the limit of the
    endpoint, and local data in the store. Data with private columns stay where they are."""
    from aitest_flows.deploying import deploy_flows
    from aitest_flows.suite_documents import upload
    from aitest_lib.config.templates import modality
    from aitest_lib.data.sources import open_source
    from aitest_lib.data.table import TableSource

    deploy_flows(pool)
    if request.card is not None:
        ensure_limit(request.card.card)
    if any(column.private for column in request.suite.suite.data.columns.values()):
        return request
    test = open_source(upload(settings.store, request.test), modality(request.info.type))
    train = TableSource(upload(settings.store, request.train)) if request.train else None
    return replace(request, test=test, train=train)


def run_tag(run: Run) -> str:
    """The tag of every flow run of a run."""
    return f"{TAG}{run.run_id}"


def start_on_pool(run: Run, flow_name: str, parameters: dict[str, Any]) -> FlowRun:
    """Starts a flow on the run's pool; whoever is free takes it."""
    started: Any = run_deployment(
        f"{flow_name}/{run.pool}", parameters=parameters, timeout=0, tags=[run_tag(run)], as_subflow=False
    )
    return started  # type: ignore[no-any-return]


def offer_to_pool(run: Run, flow_name: str, parameters: dict[str, Any]) -> None:
    """Starts a flow on the run's pool that the run can do without: where that fails, this process does its work, too."""
    try:
        start_on_pool(run, flow_name, parameters)
    except (httpx.HTTPError, PrefectException) as error:
        log = logging.getLogger("prefect.aitest")
        log.warning("the flow %s could not be started on the pool %s: %s", flow_name, run.pool, type(error).__name__)


@contextmanager
def tidied(run: Run) -> Iterator[None]:
    """Flow runs that an earlier attempt, or this one, leaves behind: killed ones are marked as crashed, and what has not
    begun when the run ends is cancelled. The workers of a Dask cluster close the model."""
    mark_killed(run)
    try:
        yield
    finally:
        _set_states(_flow_runs(run, UNSTARTED), Cancelled(message="the run has ended"))
        mark_killed(run)
        if run.options.get("scheduler"):
            with suppress(UnavailableError), dask_client(run.options["scheduler"]) as client:
                client.run(live.close_model, run.run_id)


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


def lead_on_pool(run: Run, tell: Callable[[], None]) -> None:
    """Has a worker of the pool lead the run, and waits until its report is there; `tell` is called about once a second.

    Where the leading process was killed another one goes on, a few times. Raises `UnavailableError` where the flow ended
    without a report.
    """
    with get_client(sync_client=True) as client:
        for _ in range(1 + RESTARTS):
            flow_run = start_on_pool(run, "suite", {"run_uri": run.uri})
            if _reported(run, client, flow_run, tell):
                return
            mark_killed(run)
            live.progress(f"pool {run.pool}", "done", 1, 1, "the leading process was killed; another one goes on")
    raise UnavailableError(f"the process that led the run on the pool {run.pool} was killed {1 + RESTARTS} times")


def _reported(run: Run, client: SyncPrefectClient, flow_run: FlowRun, tell: Callable[[], None]) -> bool:
    """Waits for the report; False where the process of the flow run was killed."""
    led, missing = False, 0
    while not (run.has("report") and run.has("logged")):
        tell()
        live.pause(WATCHES_S)
        state = client.read_flow_run(flow_run.id).state
        if state is None or state.is_pending():
            continue
        if state.is_scheduled():
            if not online_workers(str(run.pool)):
                note = f"for a worker; start one with: prefect worker start --pool {shlex.quote(str(run.pool))}"
                live.progress(f"pool {run.pool}", "waiting", 0, 0, note)
            continue
        alive = is_alive(run)
        led |= alive
        # What has just ended may still be writing its report, or its lease.
        missing = 0 if alive else missing + 1
        if missing <= PATIENT_LOOKS:
            continue
        if state.is_crashed() or (state.is_running() and led):
            return False
        if state.is_final():
            raise _ended(run, state)
    tell()
    return True


def _ended(run: Run, state: Any) -> AitestError:
    """Why a run ended on its pool without a report: as the leading process has written it, else as Prefect says."""
    with suppress(ArtifactMissing):
        ended = run.store.read_json(f"runs/{run.run_id}/ended.json")
        kind = InputError if ended["exit_code"] == InputError.exit_code else UnavailableError
        return kind(str(ended["message"]))
    lines = (state.message or state.name or "").strip().splitlines() or [""]
    return UnavailableError(f"the run ended on the pool {run.pool} without a report: {lines[-1][:300]}")


def online_workers(pool: str) -> int:
    """Workers of a pool that have been heard of lately."""
    with get_client(sync_client=True) as client:
        return sum(worker.status == "ONLINE" for worker in client.read_workers_for_work_pool(pool))


@contextmanager
def dask_client(scheduler: str) -> Iterator[Any]:
    """A client of the Dask cluster of a scheduler; one that is not there is an `UnavailableError`."""
    import dask.config

    # Dask talks of every worker and connection that it loses; what follows from that is told by the run.
    dask.config.set({"logging": {"distributed": "critical", "distributed.client": "critical"}})
    from distributed import Client

    try:
        connect: Any = Client
        client = connect(scheduler, timeout=DASK_TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise UnavailableError(
            f"there is no Dask scheduler at {scheduler}: {type(error).__name__}; start one with `dask scheduler`"
        ) from error
    with client:
        yield client


def dask_size(scheduler: str) -> tuple[int, int]:
    """Processes and threads of the Dask cluster of a scheduler; one that has none is an `UnavailableError`."""
    with dask_client(scheduler) as client:
        threads = client.nthreads()
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

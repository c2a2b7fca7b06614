"""Asking: a plan of queries is worked through here, or by every process of the run at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from typing import Any

from prefect.futures import PrefectFuture
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from aitest_flows.working import token_of
from aitest_lib.errors import AitestError, UnavailableError
from aitest_tasks import live
from aitest_tasks.leases import present
from aitest_tasks.limits import slots
from aitest_tasks.querying import plan_queries, query_model, shard_lost
from aitest_tasks.runs import Run
from aitest_tasks.sharing import SharedPlan

LOOKS_UP_S = 0.02
WAITS_S = 0.5
HELPER_BOOTS_S = 15.0


def query(run: Run, name: str, refs: list[dict[str, Any]], repeat: int = 0) -> dict[str, Any]:
    """Asks what is needed and not yet answered. A failed shard makes errors of its own inputs and spares its siblings; one
    whose process was killed is planned again.

    Returns the first plan's counts, what was sent and how many errors that made.
    """
    plan = first = plan_queries(run.uri, refs, repeat)
    sent = errors = 0
    while True:
        counts, lost = (_ask_together if run.pool else _ask_here)(run, name, plan)
        sent, errors = sent + counts["sent"], errors + counts["errors"]
        if not lost:
            break
        plan = plan_queries(run.uri, refs, repeat)
    return {**{key: first[key] for key in ("needed", "planned", "cached", "unpaid")}, "sent": sent, "errors": errors}


def help_with(plan: SharedPlan) -> bool:
    """Takes shards of somebody's plan until none is left to take; whether there were any."""
    run, took = plan.run, False
    if not plan.has_untaken():
        return False
    with slots(run, lambda: not plan.is_closed()) as may_ask:
        if may_ask:
            for place, result in _work(run, plan.property_name, plan.shards, plan.untaken(token_of(run))):
                plan.finish(place, result)
                took = True
    return took


def task_runner(run: Run) -> TaskRunner[Any]:
    """What the shards of this process run on: its threads, or a Dask cluster that is there."""
    if run.options.get("scheduler"):
        from aitest_flows.spreading import dask_size

        dask_size(run.options["scheduler"])  # one that is gone by now is told in one line
        from prefect_dask.task_runners import DaskTaskRunner

        return DaskTaskRunner(address=run.options["scheduler"])
    return ThreadPoolTaskRunner(max_workers=run.options["workers"])


def results_of(futures: list[PrefectFuture[Any]], tell: Any) -> list[Any]:
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


def _ask_here(run: Run, name: str, plan: dict[str, Any]) -> tuple[dict[str, int], bool]:
    """Works through a plan in this process (or its Dask cluster). Returns its counts; nothing is lost."""
    total, counts = plan["to_send"], {"sent": 0, "errors": 0}
    _tell(name, counts, total)
    with slots(run):
        for _, result in _work(run, name, plan["shards"], range(len(plan["shards"]))):
            counts = {key: counts[key] + result[key] for key in counts}
            _tell(name, counts, total)
    return counts, False


def _ask_together(run: Run, name: str, plan: dict[str, Any]) -> tuple[dict[str, int], bool]:
    """Opens a plan to all processes of the run and works on it, too. Returns its counts, and whether shards were lost with
    a process; those that somebody present has taken are waited for."""
    shared = SharedPlan.publish(run, name, plan["shards"])
    every = set(range(len(plan["shards"])))
    call_helpers(run, shared, plan["to_send"])
    done: dict[int, dict[str, int]] = {}

    def look() -> bool:
        """Reads what is done by now; is there anything left."""
        done.update(shared.done(done))
        _tell(name, _sum(done), plan["to_send"])
        return len(done) < len(every)

    try:
        if every:
            with slots(run, look) as may_ask:
                if may_ask:
                    for place, result in _work(run, name, plan["shards"], shared.untaken(token_of(run))):
                        shared.finish(place, result)
                        look()
        while look():
            missing = every - set(done)
            lost = shared.lost(missing)
            if lost == missing:
                # Somebody may have finished a shard, and left, since `done` was read.
                before = len(done)
                if look() and len(done) == before:
                    return _sum(done), True
                continue
            live.pause(WAITS_S)
        return _sum(done), False
    finally:
        shared.close()


def call_helpers(run: Run, plan: SharedPlan, inputs: int) -> None:
    """Starts helpers on the pool, where there is work for longer than they take to boot, and they are not there yet. Nobody
    waits for them: a pool without a free slot costs time only."""
    streams = run.options["share"]["streams"] if run.options.get("share") else 1
    seconds = inputs * float(run.prepared["seconds_per_row"]) / streams
    missing = int(run.options["helpers"]) - (len(present(run)) - 1)
    count = min(missing, int(seconds // HELPER_BOOTS_S), len(plan.shards) - 1)
    if count > 0:
        from aitest_flows.spreading import offer_to_pool

        for _ in range(count):
            offer_to_pool(run, "helper", {"run_uri": run.uri})


def _work(run: Run, name: str, shards: list[dict[str, Any]], places: Iterable[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Asks the shards at `places`, as many at once as the run says; yields place and counts as they end.

    Takes the next place only when there is room for it. The model, the store or a stop end it with their `AitestError`.
    """
    share = run.options.get("share")
    at_once = min(int(run.options["workers"]), share["slots"]) if share else int(run.options["workers"])
    running: dict[int, Any] = {}  # futures of Prefect's; those of threads and of Dask have no type in common that can be polled
    with task_runner(run) as runner:
        try:
            for place in places:
                running[place] = runner.submit(query_model, {"run_uri": run.uri, "shard": shards[place], "property_name": name})
                while len(running) >= at_once:
                    yield from _ended(run, running, shards)
            while running:
                yield from _ended(run, running, shards)
        except BaseException:
            live.stop()  # or the runner would wait for its tasks
            raise


def _ended(run: Run, running: dict[int, Any], shards: list[dict[str, Any]]) -> Iterator[tuple[int, Any]]:
    """Those that have ended; at least one is waited for."""
    while not (ended := [place for place, future in running.items() if future.wrapped_future.done()]):
        live.pause(LOOKS_UP_S)
    for place in ended:
        result = _outcome(running.pop(place))
        if isinstance(result, AitestError):
            raise result  # the model, the store or the user's stop: the run ends here and can be resumed
        if isinstance(result, CancelledError):
            raise UnavailableError(f"the Dask scheduler at {run.options['scheduler']} is gone; start it again")
        if isinstance(result, BaseException):
            result = shard_lost(run, shards[place], f"the query broke ({type(result).__name__})")
        yield place, result


def _outcome(future: PrefectFuture[Any]) -> Any:
    """The result of a task or the exception it ended with, never raised here."""
    future.wait()
    try:
        return future.result(raise_on_failure=False)
    except Exception as error:  # noqa: BLE001 -- Dask's: it has lost the task, or the workers that it gave it to
        return error


def _sum(done: dict[int, dict[str, int]]) -> dict[str, int]:
    return {key: sum(result[key] for result in done.values()) for key in ("sent", "errors")}


def _tell(name: str, counts: dict[str, int], total: int) -> None:
    errors = f"{counts['errors']:,} errors" if counts["errors"] else ""
    live.progress(name, "query", min(counts["sent"], total), total, errors)

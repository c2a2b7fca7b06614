"""Asking: shards of queries, or of seeds to search on, are worked through here, or by every process of the run at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
from prefect.futures import PrefectFuture
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from aitest_flows.working import token_of
from aitest_lib.errors import AitestError, UnavailableError
from aitest_lib.types import ArtifactRef
from aitest_tasks import live
from aitest_tasks.attacking import attack_seeds, chunk_lost
from aitest_tasks.leases import present
from aitest_tasks.limits import slots
from aitest_tasks.memory import one_thread
from aitest_tasks.querying import plan_queries, query_model, shard_lost
from aitest_tasks.runs import Run
from aitest_tasks.sharing import Kind, SharedPlan

Done = dict[int, dict[str, Any]]  # by place of the shard: at least what was sent, and how many errors that made
Tell = Callable[[Done], None]
Lost = Callable[[Run, dict[str, Any], str], dict[str, Any]]  # what came of a shard whose task broke
TASKS: dict[Kind, tuple[Any, Lost]] = {"query": (query_model, shard_lost), "attack": (attack_seeds, chunk_lost)}
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
        total = plan["to_send"]
        done, lost = spread(run, name, "query", plan["shards"], total, partial(_tell, name, total))
        sent, errors = sent + sum_of(done, "sent"), errors + sum_of(done, "errors")
        if not lost:
            break
        plan = plan_queries(run.uri, refs, repeat)
    return {**{key: first[key] for key in ("needed", "planned", "cached", "unpaid")}, "sent": sent, "errors": errors}


def ask_more(run: Run, name: str, refs: list[dict[str, Any]], asked: dict[str, Any]) -> int:
    """Asks further inputs of a property, with what the budget leaves; adds their counts to `asked`. Returns how many were left
    out."""
    more = query(run, name, refs)
    union = np.unique(
        np.concatenate([np.frombuffer(run.store.get(ArtifactRef.of(part["needed"])), "V16") for part in (asked, more)])
    )
    asked |= {
        "needed": run.store.put(union.tobytes(), "digests", len(union)).to_dict(),
        "planned": len(union),
        "sent": asked["sent"] + more["sent"],
        "errors": asked["errors"] + more["errors"],
        "unasked": asked.get("unasked", 0) + more["unpaid"],
    }
    asked["cached"] = max(len(union) - asked["sent"] - asked["unpaid"] - asked["unasked"], 0)
    return int(more["unpaid"])


def spread(run: Run, name: str, kind: Kind, shards: list[dict[str, Any]], inputs: int, tell: Tell) -> tuple[Done, bool]:
    """Works through shards here, or by every process of the run at once. Returns what came of each by place, and whether some
    were lost with a process. `inputs`: about how many are to be asked; `tell` is given what came of shards so far."""
    return (_together if run.pool else _here)(run, name, kind, shards, inputs, tell)


def help_with(plan: SharedPlan) -> bool:
    """Takes shards of somebody's plan until none is left to take; whether there were any."""
    run, took = plan.run, False
    if not plan.has_untaken():
        return False
    with slots(run, lambda: not plan.is_closed()) as may_ask:
        if may_ask:
            for place, result in _work(run, plan.property_name, plan.kind, plan.shards, plan.untaken(token_of(run))):
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


def _here(run: Run, name: str, kind: Kind, shards: list[dict[str, Any]], inputs: int, tell: Tell) -> tuple[Done, bool]:
    """Works through shards in this process (or its Dask cluster); nothing is lost."""
    done: Done = {}
    tell(done)
    with slots(run):
        for place, result in _work(run, name, kind, shards, range(len(shards))):
            done[place] = result
            tell(done)
    return done, False


def _together(run: Run, name: str, kind: Kind, shards: list[dict[str, Any]], inputs: int, tell: Tell) -> tuple[Done, bool]:
    """Opens a plan to all processes of the run and works on it, too. Shards that somebody present has taken are waited for."""
    shared = SharedPlan.publish(run, name, shards, kind)
    every = set(range(len(shards)))
    call_helpers(run, shared, inputs)
    done: Done = {}

    def look() -> bool:
        """Reads what is done by now; is there anything left."""
        done.update(shared.done(done))
        tell(done)
        return len(done) < len(every)

    try:
        if every:
            with slots(run, look) as may_ask:
                if may_ask:
                    for place, result in _work(run, name, kind, shards, shared.untaken(token_of(run))):
                        shared.finish(place, result)
                        look()
        while look():
            missing = every - set(done)
            lost = shared.lost(missing)
            if lost == missing:
                # Somebody may have finished a shard, and left, since `done` was read.
                before = len(done)
                if look() and len(done) == before:
                    return done, True
                continue
            live.pause(WAITS_S)
        return done, False
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


def _work(
    run: Run, name: str, kind: Kind, shards: list[dict[str, Any]], places: Iterable[int]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Works on the shards at `places`, as many at once as the run says; yields place and what came of it as they end.

    Takes the next place only when there is room for it. The model, the store or a stop end it with their `AitestError`.
    """
    share = run.options.get("share")
    at_once = min(int(run.options["workers"]), share["slots"]) if share else int(run.options["workers"])
    running: dict[int, Any] = {}  # futures of Prefect's; those of threads and of Dask have no type in common that can be polled
    work, lost = TASKS[kind]
    with one_thread() if kind == "attack" else nullcontext(), task_runner(run) as runner:  # tasks are threads already
        try:
            for place in places:
                running[place] = runner.submit(work, {"run_uri": run.uri, "shard": shards[place], "property_name": name})
                while len(running) >= at_once:
                    yield from _ended(run, running, shards, lost)
            while running:
                yield from _ended(run, running, shards, lost)
        except BaseException:
            live.stop()  # or the runner would wait for its tasks
            raise


def _ended(run: Run, running: dict[int, Any], shards: list[dict[str, Any]], lost: Lost) -> Iterator[tuple[int, Any]]:
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
            result = lost(run, shards[place], f"the query broke ({type(result).__name__})")
        yield place, result


def _outcome(future: PrefectFuture[Any]) -> Any:
    """The result of a task or the exception it ended with, never raised here."""
    future.wait()
    try:
        return future.result(raise_on_failure=False)
    except Exception as error:  # noqa: BLE001 -- Dask's: it has lost the task, or the workers that it gave it to
        return error


def sum_of(done: Done, key: str) -> int:
    """The sum of a count over all shards that are done."""
    return sum(int(result[key]) for result in done.values())


def _tell(name: str, total: int, done: Done) -> None:
    errors = sum_of(done, "errors")
    live.progress(name, "query", min(sum_of(done, "sent"), total), total, f"{errors:,} errors" if errors else "")

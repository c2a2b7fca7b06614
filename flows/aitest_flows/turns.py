"""The properties of a run, each done once and asked in its turn, by whichever process has claimed it.

The model is asked for one property at a time, in suite order: no input is asked twice because two properties need it, and a
budget leaves out the same cases whatever the workers. Everything else goes on side by side.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aitest_flows.asking import WAITS_S, help_with
from aitest_flows.catalog import flow_of
from aitest_flows.prefect_server import check_prefect
from aitest_flows.recording import log_report
from aitest_flows.working import check_leading, token_of, working
from aitest_lib.errors import AitestError, Unscored
from aitest_lib.reports.report import PropertyReport
from aitest_tasks import live
from aitest_tasks.runs import Run, open_run
from aitest_tasks.sharing import SharedPlan, claim, is_asked, property_claim, read_result, set_asked, write_result


def results(run: Run) -> list[dict[str, Any]]:
    """The results of all properties, in their order. On a pool, every property is offered to its workers, too."""
    if not run.pool:
        return [run_property(run, index) for index in run.properties]
    from aitest_flows.spreading import offer_to_pool

    for index in run.properties[1:]:
        offer_to_pool(run, flow_of(run.property_name(index)).name, {"run_uri": run.uri, "property_index": index})
    settled = [_settled(run, index) for index in run.properties]
    check_leading(run)
    return settled


def run_property(run: Run, index: int) -> dict[str, Any]:
    """One property as a flow run of its own. What breaks it is written down and spares the others, unless the model, the
    store or MLflow is gone, or the user wants to stop."""
    name = run.property_name(index)
    try:
        return dict(flow_of(name)(run.uri, index))
    except AitestError:
        raise
    except Exception as error:  # noqa: BLE001 -- a defect of ours or of a plug-in: say so, go on
        check_prefect(error)
        known = isinstance(error, Unscored)
        reason = str(error) if known else f"{type(error).__name__}: {error}"
        told = f"It could not be scored: {reason}." if known else f"This property broke: {reason}."
        report = PropertyReport(property=name, status="error", reason=reason, explanation=told)
        return _kept(run, index, log_report(run, index, report, {}, time.monotonic()))


def once(run_uri: str, index: int, work: Callable[[Run, float], dict[str, Any]]) -> dict[str, Any]:
    """The result of a property's work, unless another process has claimed it: then nothing is done, and nothing returned.

    `work` is given the run and when it began, on the monotonic clock.
    """
    run = open_run(run_uri)
    with working(run):
        if run.pool and (not claim(run, property_claim(index), token_of(run)) or read_result(run, index) is not None):
            return {}
        return _kept(run, index, work(run, time.monotonic()))


@contextmanager
def turn(run: Run, index: int) -> Iterator[None]:
    """The time in which a property may ask. Meanwhile the process takes shards of the one whose turn it is, and does
    what nobody works on."""
    if not run.pool:
        yield
        return
    for earlier in run.properties[: run.properties.index(index)]:
        while not is_asked(run, earlier):
            _do_or_help(run, earlier)
    yield
    set_asked(run, index)


def _settled(run: Run, index: int) -> dict[str, Any]:
    while (found := read_result(run, index)) is None:
        _do_or_help(run, index)
    return found


def _do_or_help(run: Run, index: int) -> None:
    """Works on a property that is nobody's; else takes part in what is asked now, or waits a little."""
    if claim(run, property_claim(index), token_of(run)):
        if read_result(run, index) is None:
            run_property(run, index)
        return
    plan = SharedPlan.open_one(run)
    if plan is None or not help_with(plan):
        live.pause(WAITS_S)


def _kept(run: Run, index: int, result: dict[str, Any]) -> dict[str, Any]:
    if run.pool:
        write_result(run, index, result)
    return result

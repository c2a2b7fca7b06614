"""A helper as a flow: another process that takes shards of whatever its run asks."""

from __future__ import annotations

import time

from prefect import flow

from aitest_flows.asking import WAITS_S, help_with
from aitest_flows.names import flow_run_name
from aitest_flows.working import working
from aitest_tasks import live
from aitest_tasks.leases import is_alive
from aitest_tasks.runs import open_run
from aitest_tasks.sharing import SharedPlan

LINGERS_S = 20.0  # without work: longer than most pauses between two plans, and a slot of the pool is somebody else's then


@flow(name="helper", flow_run_name=flow_run_name, persist_result=False, retries=0)
def helper(run_uri: str) -> None:
    """Takes shards of the plan that is open, and of the next one, for as long as somebody leads the run."""
    run = open_run(run_uri)
    with working(run):
        worked = time.monotonic()
        while time.monotonic() - worked < LINGERS_S and is_alive(run):
            plan = SharedPlan.open_one(run)
            if plan is not None and help_with(plan):
                worked = time.monotonic()
            else:
                live.pause(WAITS_S)

"""A helper as a flow: another process that takes shards of a plan of queries."""

from __future__ import annotations

from prefect import flow

from aitest_flows.asking import help_with
from aitest_flows.names import flow_run_name
from aitest_flows.working import working
from aitest_tasks.runs import open_run
from aitest_tasks.sharing import SharedPlan


@flow(name="helper", flow_run_name=flow_run_name, persist_result=False, retries=0)
def helper(run_uri: str, plan: str) -> None:
    """Takes shards of the plan until none is left; a plan that is closed by then needs no help."""
    run = open_run(run_uri)
    shared = SharedPlan.find(run, plan)
    if shared is not None:
        with working(run):
            help_with(shared)

"""`tabular.group_fairness` as a flow."""

from __future__ import annotations

from typing import Any

from prefect import flow

from aitest_flows import shapes
from aitest_flows.names import flow_run_name
from aitest_lib.properties.tabular import GROUP_FAIRNESS


@flow(name="tabular-group-fairness", flow_run_name=flow_run_name, persist_result=False, retries=0)
def tabular_group_fairness(run_uri: str, property_index: int) -> dict[str, Any]:
    """Whether the groups of the protected columns, and their crossings, are served alike."""
    return shapes.group(GROUP_FAIRNESS, run_uri, property_index)

"""`tabular.tree_simulatability` as a flow."""

from __future__ import annotations

from typing import Any

from prefect import flow

from aitest_flows import shapes
from aitest_flows.names import flow_run_name
from aitest_lib.properties.tabular import TREE_SIMULATABILITY


@flow(name="tabular-tree-simulatability", flow_run_name=flow_run_name, persist_result=False, retries=0)
def tabular_tree_simulatability(run_uri: str, property_index: int) -> dict[str, Any]:
    """Whether a small decision tree can stand in for the model."""
    return shapes.surrogate(TREE_SIMULATABILITY, run_uri, property_index)

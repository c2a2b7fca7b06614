"""`tabular.directional` as a flow."""

from __future__ import annotations

from typing import Any

from prefect import flow

from aitest_flows import shapes
from aitest_flows.names import flow_run_name
from aitest_lib.properties.tabular import DIRECTIONAL


@flow(name="tabular-directional", flow_run_name=flow_run_name, persist_result=False, retries=0)
def tabular_directional(run_uri: str, property_index: int) -> dict[str, Any]:
    """Whether the answer moves in the expected direction, or not at all, when one column does."""
    return shapes.perturbation(DIRECTIONAL, run_uri, property_index)

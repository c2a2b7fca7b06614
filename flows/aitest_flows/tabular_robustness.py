"""`tabular.robustness` as a flow."""

from __future__ import annotations

from typing import Any

from prefect import flow

from aitest_flows import shapes
from aitest_flows.names import flow_run_name
from aitest_lib.properties.tabular import ROBUSTNESS_SPEC


@flow(name="tabular-robustness", flow_run_name=flow_run_name, persist_result=False, retries=0)
def tabular_robustness(run_uri: str, property_index: int) -> dict[str, Any]:
    """Whether the answer stays the same when a row changes a little."""
    return shapes.perturbation(ROBUSTNESS_SPEC, run_uri, property_index)

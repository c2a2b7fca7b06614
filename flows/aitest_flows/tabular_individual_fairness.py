"""`tabular.individual_fairness` as a flow."""

from __future__ import annotations

from typing import Any

from prefect import flow

from aitest_flows import shapes
from aitest_flows.names import flow_run_name
from aitest_lib.properties.tabular import INDIVIDUAL_FAIRNESS


@flow(name="tabular-individual-fairness", flow_run_name=flow_run_name, persist_result=False, retries=0)
def tabular_individual_fairness(run_uri: str, property_index: int) -> dict[str, Any]:
    """Whether a row is decided otherwise when nothing but its protected values changes."""
    return shapes.perturbation(INDIVIDUAL_FAIRNESS, run_uri, property_index)

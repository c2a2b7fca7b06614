"""`image.robustness` as a flow."""

from __future__ import annotations

from typing import Any

from prefect import flow

from aitest_flows import shapes
from aitest_flows.names import flow_run_name
from aitest_lib.properties.image import IMAGE_ROBUSTNESS


@flow(name="image-robustness", flow_run_name=flow_run_name, persist_result=False, retries=0)
def image_robustness(run_uri: str, property_index: int) -> dict[str, Any]:
    """Whether the answer stays the same when an image is turned, blurred, darkened or noisy."""
    return shapes.perturbation(IMAGE_ROBUSTNESS, run_uri, property_index)

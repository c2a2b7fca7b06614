"""`image.generalization` as a flow."""

from __future__ import annotations

from typing import Any

from prefect import flow

from aitest_flows import shapes
from aitest_flows.names import flow_run_name
from aitest_lib.properties.image import IMAGE_GENERALIZATION


@flow(name="image-generalization", flow_run_name=flow_run_name, persist_result=False, retries=0)
def image_generalization(run_uri: str, property_index: int) -> dict[str, Any]:
    """How well the answers agree with the labels of images."""
    return shapes.group(IMAGE_GENERALIZATION, run_uri, property_index)

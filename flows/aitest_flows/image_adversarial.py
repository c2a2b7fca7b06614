"""`image.adversarial` as a flow."""

from __future__ import annotations

from typing import Any

from prefect import flow

from aitest_flows import shapes
from aitest_flows.names import flow_run_name
from aitest_lib.properties.image import IMAGE_ADVERSARIAL


@flow(name="image-adversarial", flow_run_name=flow_run_name, persist_result=False, retries=0)
def image_adversarial(run_uri: str, property_index: int) -> dict[str, Any]:
    """How many images a search for small noise, by asking alone, makes the model misread."""
    return shapes.search(IMAGE_ADVERSARIAL, run_uri, property_index)

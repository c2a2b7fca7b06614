"""`speech.robustness` as a flow."""

from __future__ import annotations

from typing import Any

from prefect import flow

from aitest_flows import shapes
from aitest_flows.names import flow_run_name
from aitest_lib.properties.speech import SPEECH_ROBUSTNESS


@flow(name="speech-robustness", flow_run_name=flow_run_name, persist_result=False, retries=0)
def speech_robustness(run_uri: str, property_index: int) -> dict[str, Any]:
    """How many more words are misheard in noise and through worse channels."""
    return shapes.perturbation(SPEECH_ROBUSTNESS, run_uri, property_index)

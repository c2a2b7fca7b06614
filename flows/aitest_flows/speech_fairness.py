"""`speech.fairness` as a flow."""

from __future__ import annotations

from typing import Any

from prefect import flow

from aitest_flows import shapes
from aitest_flows.names import flow_run_name
from aitest_lib.properties.speech import SPEECH_FAIRNESS


@flow(name="speech-fairness", flow_run_name=flow_run_name, persist_result=False, retries=0)
def speech_fairness(run_uri: str, property_index: int) -> dict[str, Any]:
    """Whether speakers of every gender and accent are understood alike."""
    return shapes.perturbation(SPEECH_FAIRNESS, run_uri, property_index)

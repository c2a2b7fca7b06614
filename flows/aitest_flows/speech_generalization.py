"""`speech.generalization` as a flow."""

from __future__ import annotations

from typing import Any

from prefect import flow

from aitest_flows import shapes
from aitest_flows.names import flow_run_name
from aitest_lib.properties.speech import SPEECH_GENERALIZATION


@flow(name="speech-generalization", flow_run_name=flow_run_name, persist_result=False, retries=0)
def speech_generalization(run_uri: str, property_index: int) -> dict[str, Any]:
    """How many words are misheard in the clips as they are, over all and in every slice."""
    return shapes.group(SPEECH_GENERALIZATION, run_uri, property_index)

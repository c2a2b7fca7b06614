"""What flow runs are called in Prefect's pages."""

from __future__ import annotations

from prefect.runtime import flow_run


def flow_run_name() -> str:
    """The flow and the run it belongs to: `tabular-robustness 1c3e6ee1`."""
    return f"{flow_run.get_flow_name()} {str(flow_run.get_parameters().get('run_uri', '')).rpartition('/')[2][:8]}"

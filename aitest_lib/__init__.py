"""Everything in aitest that would be true without an orchestrator: no Prefect, no MLflow, no terminal."""

__version__ = "0.1.0"

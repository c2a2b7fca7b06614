"""Metrics of answers against labels."""

from aitest_lib.stats.estimates import Estimate

Row = tuple[str, dict[str, str], Estimate, bool | None]
"""One metric: name, slice ({} for the whole), figure, and whether higher is better (None: neither)."""

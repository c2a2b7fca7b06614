"""Intervals, multiplicity, sequential inference, planning and verdicts."""

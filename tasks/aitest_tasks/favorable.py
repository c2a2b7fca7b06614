"""Which answer people want."""

from __future__ import annotations

from aitest_lib.types import Scalar
from aitest_tasks.baseline import Baseline
from aitest_tasks.runs import Run


def favorable_answer(run: Run, base: Baseline) -> Scalar:
    """The favourable answer of the suite, else the last class, as cards have it where a score alone decides."""
    given = run.suite.suite.data.favorable
    return base.classes.labels[-1] if given is None else given

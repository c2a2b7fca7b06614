"""Which answer people want."""

from __future__ import annotations

from aitest_lib.errors import InputError
from aitest_lib.types import Scalar
from aitest_tasks.baseline import Baseline
from aitest_tasks.runs import Run


def favorable_answer(run: Run, base: Baseline) -> Scalar:
    """The favourable answer of the suite, else the last class, as cards have it where a score alone decides. One that is
    neither a label nor ever answered is an `InputError`: nobody would seem to get it, and all to be served alike."""
    given = run.suite.suite.data.favorable
    if given is None:
        return base.classes.labels[-1]
    if not (base.classes.codes([given]) >= 0).all():
        shown = ", ".join(repr(label) for label in base.classes.labels[:6])
        raise InputError(f"data.favorable: got {given!r}, which the model never answers, expected one of {shown}")
    return given

"""Plain sentences on the gates of a property: how many passed, and which did not. No language model."""

from __future__ import annotations

from aitest_lib.reports.report import GateResult, PropertyReport
from aitest_lib.reports.tables import bound, clip, count, slice_label

MAX_NAMED = 3  # gates named in one sentence; the rest is counted


def gate_words(report: PropertyReport) -> list[str]:
    """How the gates of a property ended, those that failed or are open by name."""
    if not report.gates:
        return ["No gate was set, so the property is unjudged."] if report.status == "unjudged" else []
    failed = [g for g in report.gates if g.verdict == "failed"]
    unsettled = [g for g in report.gates if g.verdict == "inconclusive"]
    passed, spared = (sum(g.verdict == verdict for g in report.gates) for verdict in ("passed", "skipped"))
    if spared == len(report.gates):
        return ["No gate was applicable."]
    text = [f"{passed} of {count(len(report.gates) - spared, 'gate')} passed{inapplicable(spared)}."]
    if failed:
        text.append(f"Failed: {_named(failed)}.")
    if unsettled:
        text.append(f"Inconclusive: {_named(unsettled)}; the first because {unsettled[0].reason.rstrip('.')}.")
    return text


def inapplicable(gates: int) -> str:
    """How many gates were not applicable, as the end of a sentence.

    >>> inapplicable(1), inapplicable(0)
    ('; 1 was not applicable', '')
    """
    return f"; {gates:,} {'was' if gates == 1 else 'were'} not applicable" if gates else ""


def _named(gates: list[GateResult]) -> str:
    parts = [
        f"{clip(g.metric, 60)} {bound(g)} on {slice_label(g.slice, 'the whole')}{' (waived)' if g.waived else ''}"
        for g in gates[:MAX_NAMED]
    ]
    return "; ".join(parts) + (f"; {len(gates) - MAX_NAMED} more" if len(gates) > MAX_NAMED else "")

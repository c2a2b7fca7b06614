"""Plain sentences about synthesized rows: how they were made, how real they look, what they break, what they reach."""

from __future__ import annotations

from aitest_lib.reports.report import SynthesisReport
from aitest_lib.reports.tables import count, interval, number

_METHODS = {
    "swap": "by swapping cells between alike rows",
    "marginal": "by drawing every column by itself",
    "coverage": "so that every path of the surrogate tree is taken",
}
_TOLD = ((0.55, "hardly at all"), (0.7, "with difficulty"), (0.85, "often"), (1.0, "easily"))  # up to this AUC


def synthesis_sentences(found: SynthesisReport) -> list[str]:
    """Two to four sentences on what was synthesized.

    >>> from aitest_lib.reports.report import SynthesisReport
    >>> synthesis_sentences(SynthesisReport(rows=100, method="marginal", from_rows=50, labels=False))[0]
    'The seeds are 100 rows synthesized from 50 real rows by drawing every column by itself; they have no labels.'
    """
    labels = "they have no labels"
    if found.labels:
        labels = "each keeps the label of the row that it descends from, which what was changed may have made wrong"
    how = _METHODS.get(found.method, f"by {found.method}")
    made = f"The seeds are {count(found.rows, 'row')} synthesized from {count(found.from_rows, 'real row')} {how}; {labels}."
    return [made, *filter(None, (_realism(found), _violations(found), _coverage(found)))]


def told_apart(auc: float) -> str:
    """How well a classifier of this AUC tells two samples apart; one below 0.5 tells nothing: it was misled by twins.

    >>> told_apart(0.52), told_apart(0.65), told_apart(0.99)
    ('hardly at all', 'with difficulty', 'easily')
    """
    return next(words for most, words in _TOLD if auc <= most)


def _realism(found: SynthesisReport) -> str:
    if found.auc is None:
        return ""
    figure = f"{number(found.auc)} {interval(found.auc_low, found.auc_high)}".rstrip()
    aside = "; the columns that were asked to drift aside" if any(shift.asked for shift in found.shifts) else ""
    told = f"A classifier tells them from real rows {told_apart(found.auc)}: its AUC is {figure}"
    return f"{told} (0.5: not at all, 1: always{aside})."


def _violations(found: SynthesisReport) -> str:
    parts = []
    if found.rules:
        parts.append(f"{_rows(found.rule_violations)} a rule ({count(len(found.rules), 'rule')})")
    tied = len(found.tied) + len(found.found_tied)
    if tied:
        note = f", {len(found.found_tied)} of them found in the data" if found.found_tied else ""
        parts.append(f"{_rows(found.tied_violations)} a tie of columns ({count(tied, 'group')}{note})")
    return f"{' and '.join(parts)}.".capitalize() if parts else ""


def _rows(broken: int) -> str:
    return f"{count(broken, 'row')} {'breaks' if broken == 1 else 'break'}" if broken else "no row breaks"


def _coverage(found: SynthesisReport) -> str:
    if found.reached is None:
        return ""
    if found.feasible is None:
        return f"They take {found.reached:,} of the {found.paths or 0:,} paths of the surrogate tree."
    whole = "" if found.paths in (None, found.feasible) else f"; the other {found.paths - found.feasible:,} no row can take"
    return f"They take {found.reached:,} of the {found.feasible:,} feasible paths of the surrogate tree{whole}."

"""Pairs of rows beyond the real ones: doubtful ones asked again, possible ones in their place, and a search for more."""

from __future__ import annotations

from typing import Any

from aitest_flows.asking import ask_more, query
from aitest_lib.reports.records_fairness import PairReport
from aitest_tasks.counterparts import changed_columns
from aitest_tasks.pair_hunt import PairHunt
from aitest_tasks.pair_plans import write_tied, write_turned
from aitest_tasks.preparing import SELF_FLIP_REPEATS
from aitest_tasks.proxies import proxies
from aitest_tasks.runs import Run

OVER = "the budget has ended"


def find_pairs(run: Run, name: str, index: int, cases: list[dict[str, Any]], asked: dict[str, Any]) -> dict[str, Any]:
    """Asks what there is to know beyond the real rows; adds the counts to `asked`. Returns artifacts by name: `tied`, the
    possible rows in the place of those that contradict the data, and `pairs`, what the search found."""
    ask_again(run, name, None if run.prepared["deterministic"] else write_turned(run, index, cases), asked)
    tied = write_tied(run, index, cases)
    stopped = OVER if asked["unpaid"] else None
    if tied is not None and ask_more(run, name, [tied], asked):
        stopped = OVER
    hunt = PairHunt(run, index, cases)
    while stopped is None and (batch := hunt.ask()) is not None:
        if ask_more(run, name, [batch], asked):
            stopped = OVER
        hunt.tell()
    ask_again(run, name, hunt.doubtful(), asked)
    return {"tied": tied, "pairs": hunt.found(stopped)}


def ask_again(run: Run, name: str, doubtful: dict[str, Any] | None, asked: dict[str, Any]) -> None:
    """Asks inputs again whose answers may be chance; adds the count to `asked`."""
    if doubtful is not None:
        again = [query(run, name, [doubtful], repeat)["sent"] for repeat in range(1, SELF_FLIP_REPEATS + 1)]
        asked["again"] = asked.get("again", 0) + sum(again)


def nothing_to_change(run: Run) -> tuple[str, PairReport] | None:
    """Why the rows of a model have no counterparts, with the columns that stand for the protected ones; None where they do."""
    if changed_columns(run):
        return None
    names = list(run.suite.suite.data.protected)
    reason = f"the model is not sent {' or '.join(names)}, so that no decision can hang on it directly"
    report = PairReport(
        columns=[], not_inputs=names, combinations=0, tried=0, rows=0, turned=0, prevalence=None, proxies=proxies(run, names)
    )
    return reason, report

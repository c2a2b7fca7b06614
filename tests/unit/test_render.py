"""The terminal output: complete at 80 columns, plain without a terminal, never reading data as markup."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import report_sample as sample
from rich.console import Console

from aitest_flows.render import ProgressView, print_dry_run, print_failures, print_report, print_status, print_table
from aitest_lib.reports.report import GateResult, PropertyReport


def console(width: int = 100, terminal: bool = False, colours: bool = False) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=terminal, no_color=not colours, highlight=False)


def text(out: Console) -> str:
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


@pytest.mark.parametrize("width", [80, 100, 200])
def test_the_summary_is_complete_at_every_width(width: int) -> None:
    out = console(width)
    print_report(sample.report(), out, sample.failures(2))
    shown = text(out)
    for word in (
        "FAILED",
        "UNJUDGED",
        "inconclusive",
        "failed, waived",
        "[0.850, 0.891]",
        "at least 0.95",
        "balanced_accuracy",
        "0.278 nats",
    ):
        assert word in shown
    assert shown.count("inconclusive") >= 2
    assert "aitest show 7f3a9c51e2d8 --property tabular.robustness --failures 10" in shown
    assert "…" not in shown
    assert max(len(line) for line in shown.splitlines() if "aitest" not in line) <= width
    assert shown.isascii() or not any(ord(c) >= 0x1F000 for c in shown)


def test_only_the_named_properties_are_shown() -> None:
    out = console()
    print_report(sample.report(), out, properties=["tabular.generalization"])
    assert "balanced_accuracy" in text(out)
    assert "category_swap" not in text(out)


def test_a_long_paragraph_keeps_its_end() -> None:
    long = "By sex and race the selection rate is told. " * 400 + "5 of 6 gates passed."
    out = console(200)
    print_report(sample.report(properties=[PropertyReport(property="p", status="failed", explanation=long)]), out)
    assert "5 of 6 gates passed." in " ".join(text(out).split()) and "…" not in text(out)


def test_verdicts_that_need_attention_come_first_when_gates_are_many() -> None:
    gates = [GateResult(metric=f"m{i}", min=0.5, verdict="passed", reason="r") for i in range(40)]
    gates.append(GateResult(metric="last", min=0.5, verdict="failed", reason="r"))
    out = console()
    print_report(sample.report(properties=[PropertyReport(property="p", status="failed", gates=gates)]), out)
    assert "last" in text(out)
    assert "and 16 more gates" in text(out)


def test_data_is_never_markup_and_control_characters_are_dropped() -> None:
    case = sample.failing_cases(1)[0]
    case = case.model_copy(
        update={"case": case.case | {"age": "[red]a[/red]\x1b[2J"}, "changed": ["age"], "explanation": "[bold]x[/nope]"}
    )
    out = console(terminal=True)
    print_failures([case], out)
    print_table("[b]title[/b]", ["[i]c[/i]"], [["[red]cell[/red]"], [None]], out)
    shown = text(out)
    for literal in ("[red]a[/red][2J", "[bold]x[/nope]", "[b]title[/b]", "[i]c[/i]", "[red]cell[/red]", "–"):
        assert literal in shown
    assert "\x1b[2J" not in shown


def test_a_failing_case_shows_the_seed_beside_the_case() -> None:
    out = console(160)
    print_failures(sample.failing_cases(3), out)
    shown = text(out)
    assert "hours-per-week: 40 -> 39" in shown
    assert "occupation: Adm-clerical -> Exec-managerial" in shown
    assert "workclass: State-gov -> missing" in shown
    assert shown.count("same ") == 3


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = Console(file=io.StringIO(), width=100, force_terminal=True)
    print_report(sample.report(), out)
    assert "\x1b[31m" not in text(out)
    assert "\x1b[1;31m" not in text(out)
    monkeypatch.delenv("NO_COLOR")
    out = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="standard")
    print_report(sample.report(), out)
    assert "\x1b[31m" in text(out)


def test_the_status_table_lists_every_count() -> None:
    row = {"property": "tabular.robustness", "state": "running", "generated": 5800, "passed": 12, "failed": 3, "skipped": 4}
    out = console(80)
    status = {
        "run_id": "7f3a",
        "suite": "s",
        "model": "m",
        "state": "running",
        "started": "2026-11-29T02:00:00Z",
        "properties": [row],
    }
    print_status(status, out)
    line = next(line for line in text(out).splitlines() if "tabular.robustness" in line)
    assert line.split() == ["tabular.robustness", "running", "5,800", "12", "3", "4", "–", "–"]


def test_the_dry_run_says_from_where_each_gate_passes() -> None:
    rising = {
        "metric": "pass_rate",
        "slice": {"transform": "category_swap"},
        "min": 0.95,
        "n": 1160,
        "passes_from": 0.961,
        "fails_below": 0.938,
    }
    falling = {"metric": "drop", "slice": {}, "max": 0.05, "n": 20, "passes_from": None, "fails_below": 0.1}
    plan: dict[str, Any] = {
        "suite": "s",
        "model": "m",
        "planned": 12000,
        "cached": 60,
        "to_send": 11940,
        "seconds": 125.0,
        "cost": 1.194,
    }
    plan["properties"] = [
        {"property": "tabular.robustness", "seeds": 1160, "cases": 5800, "planned": 6400, "gates": [rising, falling]}
    ]
    out = console(120)
    print_dry_run(plan, out)
    shown = text(out)
    assert "12,000 queries planned, 60 already answered, 11,940 to send, about 2 min 5 s, cost about 1.19" in shown
    assert "from 0.961" in shown
    assert "below 0.938" in shown
    assert "cannot" in shown
    assert "above 0.100" in shown


def test_progress_without_a_terminal_is_a_line_per_tenth() -> None:
    out = console()
    with ProgressView(out, every_s=0) as view, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: view.update("tabular.robustness", "query", i, 1000, "2 retries"), range(1001)))
    lines = text(out).splitlines()
    assert 1 <= len(lines) <= 11
    assert lines[-1].endswith("tabular.robustness query: 1,000 of 1,000, 100 % (2 retries)")


def test_progress_without_a_terminal_is_calm() -> None:
    out = console()
    with ProgressView(out) as view:
        for i in range(1001):
            view.update("tabular.robustness", "query", i, 1000)
        view.update("tabular.robustness", "done", 1, 1, "failed")
    assert [line.partition(" ")[2] for line in text(out).splitlines()] == ["tabular.robustness done: failed"]


def test_progress_on_a_terminal_is_a_bar_per_property() -> None:
    out = console(terminal=True)
    with ProgressView(out) as view:
        view.update("tabular.generalization", "query", 10, 10)
        for stage in ("generate", "query", "score"):
            view.update("tabular.robustness", stage, 3, 7, "[x]")
    last = text(out).split("\r")[-1]
    assert "tabular.robustness" in text(out)
    assert "3/7" in text(out)
    assert "[x]" in text(out)
    assert "score" in last + text(out)


def test_a_finished_property_has_a_full_bar() -> None:
    out = console(terminal=True)
    with ProgressView(out) as view:
        view.update("tabular.robustness", "score", 0, 2)
        view.update("tabular.robustness", "done", 1, 1, "failed")
        view.stop()
    assert "2/2" in text(out)
    assert "0/2" not in text(out).split("\r")[-1]


def test_quiet_progress_says_nothing() -> None:
    out = console()
    with ProgressView(out, quiet=True) as view:
        view.update("p", "query", 1, 1)
    assert text(out) == ""

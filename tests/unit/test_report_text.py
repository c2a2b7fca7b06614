"""Sentences, tables, Markdown and JUnit: what a report says in plain text."""

from __future__ import annotations

import doctest
import math
import xml.etree.ElementTree as ET

import pytest
import report_sample as sample
from hypothesis import given
from hypothesis import strategies as st

from aitest_lib.reports import explain, plots, tables
from aitest_lib.reports.explain import explain_case, explain_property, headline
from aitest_lib.reports.junit import junit_xml
from aitest_lib.reports.report import CaseCounts, GateResult, Metric, PropertyReport
from aitest_lib.reports.tables import to_markdown

finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e9, max_value=1e9)


@pytest.mark.parametrize("module", [tables, explain, plots])
def test_the_examples_in_the_docstrings_hold(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted > 0
    assert result.failed == 0


@given(finite)
def test_a_figure_as_text_is_near_the_figure(value: float) -> None:
    shown = float(tables.number(value).replace(",", ""))
    assert math.isclose(shown, value, rel_tol=0.05, abs_tol=0.0005)


@given(st.text(max_size=400), st.integers(2, 60))
def test_clipped_text_is_one_short_printable_line(text: str, limit: int) -> None:
    line = tables.clip(text, limit)
    assert len(line) <= limit
    assert line == tables.printable(line)
    assert "\n" not in line
    line.encode()


@given(st.lists(st.one_of(st.none(), finite), max_size=8))
def test_a_span_holds_its_values_and_has_width(values: list[float | None]) -> None:
    low, high = plots.span(values)
    assert low < high
    assert all(low <= v <= high for v in values if v is not None)
    marks = plots.ticks(low, high)
    assert all(low - 1e-6 * (high - low) <= t <= high + 1e-6 * (high - low) for t in marks)


def test_a_case_is_one_sentence() -> None:
    assert (
        explain_case("category_swap", [("workclass", "Private", "", None)], "<=50K", ">50K", None)
        == "workclass Private -> missing turned the answer from <=50K to >50K"
    )
    assert explain_case("rotate", [], "4", "9", 0.83) == "rotate turned the answer from 4 to 9 (score 0.83)"
    assert (
        explain_case(None, [("area", "70", "71", 0.02)], "3.10", "5.02", None, tolerance=0.5)
        == "area 70 -> 71 (+0.02 sd): the answer moved from 3.10 to 5.02, more than the tolerance 0.50"
    )


def test_many_changes_name_the_largest() -> None:
    changes: list[explain.Change] = [(f"c{i}", "0", str(i), i / 10) for i in range(6)]
    sentence = explain_case("numeric_noise", changes, "a", "b", None)
    assert sentence.startswith("c5 0 -> 5 (+0.50 sd), c4 0 -> 4 (+0.40 sd), c3 0 -> 3 (+0.30 sd) and 3 more changes turned")


def test_the_paragraph_of_robustness_is_made_from_its_data() -> None:
    text = explain_property(sample.robustness(), 0.95)
    for part in (
        "Small changes were made to 1,160 seeds (numeric_noise at epsilon 0.05, 0.1 and 0.2; category_swap; missing_value)",
        "Of 4,525 judged cases 287 failed: pass rate 0.937 [0.930, 0.944] (bounds one-sided at 95%).",
        "What broke most was category_swap, pass rate 0.870 [0.850, 0.891] over 905",
        "marital-status = Married-civ-spouse (0.112 of 421 seeds against 0.037 elsewhere, difference 0.075 [0.056, 0.097])",
        "capital-gain alone turned the answer of 96 of 905 seeds",
        "2 of 7 gates passed.",
        "1,269 of 5,800 cases were skipped (misclassified seed: 735; no-op, nothing changed: 503; invalid input: 31).",
        "no usable answer on 6 cases, most often: sent 256 rows, got 255 predictions.",
    ):
        assert part in text
    assert "sex = Male" not in text


def test_the_paragraph_of_generalization_names_the_weakest_class() -> None:
    text = explain_property(sample.generalization(), 0.95)
    assert "The weakest class was >50K, recall 0.654 [0.641, 0.667] over 1,440; the strongest was <=50K with 0.943." in text
    assert "No gate was set, so the property is unjudged." in text


def test_few_skips_go_without_saying_and_a_reason_comes_first() -> None:
    prop = PropertyReport(
        property="tabular.robustness",
        status="inconclusive",
        reason="the budget of 100 queries ended it",
        cases=CaseCounts(total=100, passed=99, skipped=1),
        skipped={"no_op": 1},
    )
    text = explain_property(prop, 0.95)
    assert text.startswith("The property is inconclusive: the budget of 100 queries ended it.")
    assert "skipped" not in text


def test_an_undefined_figure_says_why() -> None:
    pooled = Metric(name="accuracy", value=None, n=0, reason="no labels")
    prop = PropertyReport(property="x", status="unjudged", cases=CaseCounts(total=3, passed=3), metrics=[pooled])
    assert "accuracy is undefined (no labels)" in explain_property(prop, 0.9)


@pytest.mark.parametrize(
    ("status", "verdicts", "expected"),
    [
        ("passed", ["passed", "passed"], "All 2 gates passed."),
        ("failed", ["passed", "failed", "failed"], "2 of 3 gates failed, in p."),
        ("inconclusive", ["inconclusive", "passed"], "No gate failed, but 1 of 2 gates is inconclusive."),
        ("inconclusive", [], "No gate failed, but p is inconclusive."),
        ("unjudged", [], "No gates were set, so nothing was judged."),
        ("error", [], "p could not be judged: the endpoint is down."),
        ("skipped", [], "Every property was skipped."),
    ],
)
def test_the_headline_is_the_verdict_in_one_sentence(status: str, verdicts: list[str], expected: str) -> None:
    gates = [GateResult(metric="accuracy", min=0.9, verdict=v, reason="r") for v in verdicts]
    reason = "the endpoint is down" if status == "error" else None
    prop = PropertyReport(property="p", status=status, gates=gates, reason=reason)
    assert headline(sample.report(status=status, properties=[prop])) == expected


def test_a_waived_failure_is_named_in_the_headline() -> None:
    gates = [GateResult(metric="accuracy", min=0.9, verdict="failed", waived=True, reason="r")]
    prop = PropertyReport(property="p", status="passed", gates=gates)
    assert headline(sample.report(status="passed", properties=[prop])) == "The gate passed, 1 by a waiver."


def test_markdown_shows_the_report_and_escapes_what_data_says() -> None:
    prop = sample.robustness().model_copy(update={"explanation": "a | b <img src=x> [link](x) __bold__ `code`\n# no heading"})
    text = to_markdown(sample.report(properties=[prop]), sample.failures(80))
    assert "a \\| b &lt;img src=x> [link]\\(x) \\__bold_\\_ \\`code\\` # no heading" in text
    assert "| pass_rate | category_swap | at least 0.95 | 0.870 | [0.850, 0.891] | failed |" in text
    assert "### Failing cases: 50 of 287" in text
    widths = {line.count(" | ") for line in text.splitlines() if line.startswith("| pass_rate | category_swap | at")}
    assert widths == {6}


def test_junit_has_a_suite_per_property_and_a_case_per_gate() -> None:
    root = ET.fromstring(junit_xml(sample.report()).encode())
    assert root.attrib | {"time": ""} == {
        "name": "adult-nightly",
        "time": "",
        "tests": "8",
        "failures": "2",
        "errors": "0",
        "skipped": "4",
    }
    general, robust = root
    assert [suite.get("name") for suite in root] == ["tabular.generalization", "tabular.robustness"]
    skipped = general.find("testcase/skipped")
    assert skipped is not None
    assert (skipped.get("message") or "").startswith("unjudged: ")
    failures = [case.get("name") for case in robust if case.find("failure") is not None]
    assert failures == ["pass_rate at least 0.95 on numeric_noise, epsilon = 0.2", "pass_rate at least 0.95 on category_swap"]
    assert robust.get("timestamp") == "2026-11-29T02:00:00"


@given(st.text(max_size=50))
def test_junit_is_valid_xml_whatever_the_text(text: str) -> None:
    gates = [GateResult(metric=text, slice={text: text}, min=0.5, verdict="error", reason=text)]
    prop = PropertyReport(property=text, status="error", gates=gates)
    root = ET.fromstring(junit_xml(sample.report(suite=text, properties=[prop])).encode())
    assert root.get("errors") == "1"

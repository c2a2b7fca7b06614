"""A suite may name one property twice: reports, failing cases and comparisons keep the two apart."""

import io
from dataclasses import replace

import pytest
import report_sample as sample
from rich.console import Console
from support.comparisons import F, P, case_table, outcomes, run_of, suite_of

from aitest_flows.render import print_report
from aitest_flows.render_compare import print_comparison
from aitest_lib.reports.compare import compare_runs
from aitest_lib.reports.compare_markdown import comparison_markdown
from aitest_lib.reports.compare_settings import changed_settings
from aitest_lib.reports.html import render_html
from aitest_lib.reports.junit import junit_xml
from aitest_lib.reports.report import Metric
from aitest_lib.reports.tables import to_markdown
from aitest_tasks.tracking import log_run

NAME, SECOND = "tabular.robustness", "tabular.robustness (2)"
ENTRIES = ({"transform": "swap"}, {"transform": "noise"})


def twice(failing, gates=({}, {}), prints=("f1", "f2")):
    """A run of robustness under swap and again under noise, of 120 seeds each; `failing`: how many fail under each."""
    tables, reports = [], []
    for where, bad in zip(ENTRIES, failing, strict=True):
        found = {f"s{i}": F if i < bad else P for i in range(120)}
        tables.append(case_table(outcomes(found, where["transform"])))
        metric = Metric(name="pass_rate", slice=where, value=1 - bad / 120, n=120)
        [report] = run_of({NAME: tables[-1]}, properties={NAME: {"metrics": [metric]}}).report.properties
        reports.append(report)
    suite = suite_of(*({"property": NAME, "gates": gate} for gate in gates))
    marks = {"aitest": "0.1.0", "0.tabular.robustness": prints[0], "1.tabular.robustness": prints[1]}
    run = run_of({NAME: None}, suite=suite, record={"fingerprints": marks})
    report = run.report.model_copy(update={"properties": reports})

    def cases(item):
        return next(table for one, table in zip(reports, tables, strict=True) if one is item)

    return replace(run, report=report, cases=cases)


def printed(found):
    file = io.StringIO()
    print_comparison(found, Console(file=file, width=120, color_system=None))
    return file.getvalue()


@pytest.mark.parametrize(
    ("failing", "verdicts"),
    [((115, 0), ["regression", "no_evidence"]), ((0, 115), ["no_evidence", "regression"])],
)
def test_each_entry_is_compared_with_its_own(failing, verdicts):
    found = compare_runs(twice((0, 0)), twice(failing))
    assert found.verdict == "regression"
    assert [(item.property, item.verdict) for item in found.properties] == list(zip((NAME, SECOND), verdicts, strict=True))
    assert [item.cases.newly_failing for item in found.properties] == list(failing)
    assert found.changes == []
    assert not any(item.cases.new or item.cases.gone for item in found.properties)
    assert f"## {SECOND}" in comparison_markdown(found).replace("\\", "")


def test_a_run_against_itself_is_unchanged():
    run = twice((3, 40))
    found = compare_runs(run, run)
    assert (found.verdict, found.changes) == ("no_evidence", [])
    assert [item.cases.still_failing for item in found.properties] == [3, 40]


def test_a_second_entry_that_is_gone():
    whole = twice((0, 0))
    first = replace(whole, report=whole.report.model_copy(update={"properties": whole.report.properties[:1]}))
    found = compare_runs(whole, first)
    assert (found.only_base, [item.property for item in found.properties]) == ([SECOND], [NAME])
    assert [(c.name, c.weaker) for c in found.changes] == [(SECOND, True)]


def test_settings_of_the_second_entry():
    before = twice((0, 0), ({"pass_rate": {"min": 0.9}}, {"pass_rate": {"min": 0.8}}))
    after = twice((0, 0), ({"pass_rate": {"min": 0.9}}, {"pass_rate": {"min": 0.5}}), ("f1", "f3"))
    found = changed_settings((before.record, before.report), (after.record, after.report))
    assert [(c.name, c.weaker) for c in found] == [
        (f"{SECOND} pass_rate", True),
        (f"{SECOND} transforms (fingerprint)", False),
    ]


@pytest.mark.parametrize(
    ("failing", "margin", "words"),
    [
        (60, None, "REGRESSION in tabular.robustness; no evidence of a change in tabular.robustness (2)."),
        (0, 0.1, "MAY BE WORSE BY MORE THAN 0.1 POINTS in tabular.robustness and tabular.robustness (2)."),
        (0, 50, "NOT WORSE BY MORE THAN 50 POINTS in tabular.robustness and tabular.robustness (2)."),
        (0, None, "NO EVIDENCE OF A CHANGE in tabular.robustness and tabular.robustness (2); every shared"),
    ],
)
def test_the_verdict_is_said_once(failing, margin, words):
    text = printed(compare_runs(twice((0, 0)), twice((failing, 0)), margin))
    assert text.startswith(words)
    assert text.splitlines().count(SECOND) == 1  # its verdict is in the sentence below


@pytest.fixture
def report():
    first, second = (sample.robustness().model_copy(update={"artifacts": {}}) for _ in range(2))
    second = second.model_copy(update={"metrics": [Metric(name="pass_rate", value=0.25, n=4)]})
    return sample.report(properties=[first, second])


@pytest.fixture
def failures():
    one = sample.failing_cases(1)[0]
    return {
        name: [one.model_copy(update={"explanation": f"of the {place}", "case_id": place})]
        for name, place in ((NAME, "first"), (SECOND, "second"))
    }


def test_failing_cases_stand_under_their_own_entry(report, failures):
    file = io.StringIO()
    print_report(report, Console(file=file, width=200, color_system=None), failures)
    for text in (file.getvalue(), to_markdown(report, failures).replace("\\", ""), render_html(report, failures)):
        places = [text.index(part) for part in ("of the first", "of the second")]
        assert places[0] < text.rindex(SECOND, 0, places[1]) < places[1]
        assert text.count("of the first") == text.count("of the second") > 0
    assert f'name="{SECOND}"' in junit_xml(report)


class Recorder:
    """Keeps what is logged as metrics and as the table of failing cases."""

    def log(self, run_id, *, metrics, tags):
        self.metrics = metrics

    def table(self, run_id, frame, name):
        self.frame = frame

    def dataset(self, *args):
        pass

    text = end = dataset


def test_mlflow_gets_the_figures_and_cases_of_both(report, failures):
    class Named:
        run_id = "r"

    kept = Recorder()
    log_run(kept, Named(), report, failures)
    assert kept.metrics["tabular.robustness/pass_rate"] == 0.9367
    assert kept.metrics["tabular.robustness_2/pass_rate"] == 0.25
    assert list(kept.frame["case_id"]) == ["first", "second"]

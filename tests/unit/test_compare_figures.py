"""Groups, pairs and directions of two runs compared by the figures of their gates."""

from __future__ import annotations

import io
import re
from html import unescape

import fairness_sample as sample
import pytest
from rich.console import Console
from support.comparisons import F, P, case_table, outcomes, run_of

from aitest_flows.comparing import exit_status
from aitest_flows.render_compare import print_comparison
from aitest_lib.reports.compare import compare_runs
from aitest_lib.reports.compare_figures import figures_verdict, gate_changes, joint_verdict
from aitest_lib.reports.compare_html import comparison_html
from aitest_lib.reports.compare_markdown import comparison_markdown
from aitest_lib.reports.comparison import Comparison
from aitest_lib.reports.report import GateResult, Metric, PropertyReport

GROUPS, PAIRS, ROBUSTNESS = "tabular.group_fairness", "tabular.individual_fairness", "tabular.robustness"
SEX = {"attribute": "sex"}
UNDEFINED = (None, None, None)


def figure(value, low, high, name="impact_ratio", better=True, where=SEX, **more):
    return Metric(name=name, slice=where, value=value, low=low, high=high, n=100, higher_is_better=better, **more)


def gate(verdict="passed", name="impact_ratio", where=SEX, **edge):
    return GateResult(metric=name, slice=where, verdict=verdict, reason="", **(edge or {"min": 0.8}))


def report(*figures, gates=None, of=GROUPS):
    """A property with these figures and a gate on each."""
    fair = {GROUPS: {"groups": sample.groups().groups}, PAIRS: {"pairs": sample.pairs().pairs}}.get(of, {})
    asked = [gate(name=one.name, where=one.slice) for one in figures] if gates is None else gates
    return PropertyReport(property=of, status="passed", metrics=list(figures), gates=asked, **fair)


def run(*figures, of=GROUPS, found=None, labels="a", **more):
    """A run of one property: its figures, and its cases by seed."""
    fields = report(*figures, of=of, **more).model_dump(include={"metrics", "gates", "groups", "pairs"})
    cases = outcomes(found or {f"s{i}": P for i in range(200)}, observed=labels)
    return run_of({of: case_table(cases)}, properties={of: fields})


def compared(base, candidate, margin=None):
    whole = compare_runs(base, candidate, margin)
    return whole, whole.properties[0]


def terminal(found: Comparison, width: int = 160) -> str:
    file = io.StringIO()
    print_comparison(found, Console(file=file, width=width, color_system=None))
    return file.getvalue()


FAIR, UNFAIR = figure(0.712, 0.65, 0.78), figure(0.0, 0.0, 0.02)


@pytest.mark.parametrize(
    ("before", "after", "better", "moved"),
    [
        ((0.7, 0.6, 0.8), (0.5, 0.4, 0.59), True, "worse"),
        ((0.7, 0.6, 0.8), (0.5, 0.4, 0.6), True, "overlap"),
        ((0.7, 0.6, 0.8), (0.9, 0.81, 0.95), True, "better"),
        ((0.7, 0.6, 0.8), (0.9, 0.81, 0.95), False, "worse"),
        ((0.7, 0.6, 0.8), (0.5, 0.4, 0.59), False, "better"),
        ((0.7, 0.6, 0.8), (0.5, 0.4, 0.59), None, None),
        ((0.7, 0.6, 0.8), UNDEFINED, True, "lost"),
        (UNDEFINED, (0.7, 0.6, 0.8), True, None),
        ((0.7, 0.6, None), (0.5, None, 0.59), True, "worse"),
        ((0.7, 0.6, None), (2.0, 1.9, None), True, "overlap"),
        ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), True, "overlap"),
    ],
)
def test_a_figure_moved_if_its_bounds_lie_apart_on_its_bad_or_good_side(before, after, better, moved):
    [found] = gate_changes(report(figure(*before, better=better)), report(figure(*after, better=better)))
    assert found.moved == moved


def test_figures_are_matched_by_name_and_slice_and_stand_with_both_gates():
    job = figure(0.9, 0.8, 0.95, where={"attribute": "job"})
    sex, other = gate_changes(report(FAIR, job), report(job, UNFAIR, gates=[gate("failed"), gate(where={"attribute": "job"})]))
    assert (sex.slice, sex.base_figure, sex.candidate_figure, sex.moved) == (SEX, FAIR, UNFAIR, "worse")
    assert (sex.base.verdict, sex.candidate.verdict) == ("passed", "failed")
    assert (other.slice, other.base_figure, other.moved) == ({"attribute": "job"}, job, "overlap")
    [gone] = gate_changes(report(FAIR), report(figure(0.9, 0.8, 1.0, where={"attribute": "race"}), gates=[]))
    assert (gone.candidate, gone.candidate_figure, gone.moved) == (None, None, "lost")


def test_a_model_that_refuses_every_woman_is_a_regression_though_no_case_fails():
    whole, item = compared(run(FAIR), run(UNFAIR, labels="b", gates=[gate("failed")]))
    assert (whole.verdict, item.verdict, item.test, item.cases.newly_failing) == ("regression", "regression", None, 0)
    assert whole.headline == "Regression in tabular.group_fairness."
    assert whole.notices == ["Both are the same run."]
    assert item.summary == (
        "Regression: of 1 figure that gates judge, each over all rows of its run, 1 worse beyond chance: impact_ratio "
        "(attribute = sex) from 0.712 [0.650, 0.780] to 0.000 [0.000, 0.020] (their one-sided bounds in the two runs do not "
        "overlap, which is stricter than a test)."
    )
    assert (exit_status(whole, True), exit_status(whole, False)) == (1, 0)


def test_the_way_back_is_an_improvement_and_the_same_figures_are_no_change():
    whole, item = compared(run(UNFAIR), run(FAIR))
    assert (item.verdict, exit_status(whole, True)) == ("improvement", 0)
    assert item.summary.startswith("Improvement: of 1 figure that gates judge, each over all rows of its run, 1 better")
    same, item = compared(run(FAIR), run(FAIR))
    assert (item.verdict, exit_status(same, True)) == ("no_evidence", 0)
    assert item.summary.endswith("every one is as before.")
    assert same.headline == (
        "No evidence of a change in tabular.group_fairness; every shared case ended as before, and every figure is the same."
    )
    near, item = compared(run(FAIR), run(figure(0.7, 0.64, 0.77)))
    assert item.verdict == "no_evidence"
    assert item.summary.endswith("none moved beyond chance, as far as their bounds tell.")
    assert near.headline == "No evidence of a change in tabular.group_fairness."


def test_one_figure_worse_outweighs_others_that_are_better():
    jobs = [figure(*of, where={"attribute": "job"}) for of in ((0.5, 0.4, 0.6), (0.9, 0.8, 1.0))]
    _, item = compared(run(FAIR, jobs[0]), run(UNFAIR, jobs[1]))
    assert item.verdict == "regression"
    assert "1 worse beyond chance: impact_ratio (attribute = sex)" in item.summary
    assert "1 better beyond chance: impact_ratio (attribute = job)" in item.summary


def test_a_figure_that_is_undefined_now_is_not_passed_over():
    whole, item = compared(run(FAIR), run(figure(*UNDEFINED, reason="nobody was selected")))
    assert (item.verdict, exit_status(whole, True)) == ("not_comparable", 0)
    assert "1 undefined now: impact_ratio (attribute = sex) from 0.712" in item.summary
    assert "overlap" not in item.summary
    _, item = compared(run(figure(0.1, -0.2, 0.3, better=None)), run(figure(0.9, 0.8, 1.0, better=None)))
    assert item.verdict == "not_comparable" and "nothing could be tested" in item.summary


def test_two_gates_on_one_figure_count_it_once():
    both = [gate(), gate(max=1.2)]
    _, item = compared(run(FAIR, gates=both), run(UNFAIR, gates=both))
    assert len(item.gates) == 2 and "of 1 figure that" in item.summary


@pytest.mark.parametrize(
    ("after", "margin", "verdict"),
    [
        ((0.69, 0.68, 0.70), 20.0, "non_inferior"),  # at worst 0.78 - 0.68 = 0.1
        ((0.69, 0.68, 0.70), 9.0, "not_shown"),
        ((0.0, 0.0, 0.02), 20.0, "regression"),
        ((0.0, 0.0, 0.02), 79.0, "non_inferior"),
        ((0.9, 0.85, 0.95), 1.0, "improvement"),
        (UNDEFINED, 99.0, "not_comparable"),
    ],
)
def test_a_margin_is_for_the_worst_that_the_bounds_allow(after, margin, verdict):
    assert figures_verdict(gate_changes(report(FAIR), report(figure(*after))), margin) == verdict


def test_a_margin_of_a_figure_with_a_unit_is_in_percent_of_the_base():
    found = [figure(10.0, 9.0, 11.0, better=False, unit="label units") for _ in range(2)]
    assert figures_verdict(gate_changes(report(found[0]), report(found[1])), 21.0) == "non_inferior"  # at worst 2 of 10
    assert figures_verdict(gate_changes(report(found[0]), report(found[1])), 19.0) == "not_shown"


def test_pairs_are_compared_by_cases_and_by_figures():
    common, rare = (figure(*of, name="prevalence", better=False, where={}) for of in ((0.4, 0.36, 0.44), (0.01, 0.0, 0.02)))
    passing, failing = ({f"s{i}": F if i < n else P for i in range(200)} for n in (0, 30))
    _, item = compared(run(rare, of=PAIRS, found=passing), run(rare, of=PAIRS, found=failing))
    assert item.verdict == "regression" and item.summary.startswith("Regression: the share of failing cases went from 0.000")
    assert "Of 1 figure that gates judge, each over all rows of its run, every one is as before." in item.summary
    _, item = compared(run(rare, of=PAIRS, found=passing), run(common, of=PAIRS, found=passing))
    assert item.verdict == "regression" and item.summary.startswith("Regression: of 1 figure that gates judge")
    assert "The share of failing cases went from 0.000 to 0.000" in item.summary
    _, item = compared(run(common, of=PAIRS, found=passing), run(rare, of=PAIRS, found=passing))
    assert item.verdict == "improvement"
    assert joint_verdict("non_inferior", "not_shown") == "non_inferior"  # the paired test sees more


def test_other_properties_are_judged_by_their_cases_alone():
    _, item = compared(run(FAIR, of=ROBUSTNESS), run(UNFAIR, of=ROBUSTNESS))
    assert (item.gates[0].moved, item.verdict) == (None, "no_evidence")
    assert (item.gates[0].base_figure, item.gates[0].candidate_figure) == (FAIR, UNFAIR)


def test_a_regressor_of_groups_is_not_judged_by_its_errors():
    runs = [run(FAIR), run(FAIR)]
    for one in runs:
        one.report.properties[0].seed_tolerance = 1.0  # its cases have text in the place of numbers: they are not read
    assert compared(*runs)[1].test is None


def test_every_format_has_both_figures_both_verdicts_and_the_move():
    whole, _ = compared(run(FAIR, gates=[gate("inconclusive")]), run(UNFAIR, gates=[gate("failed")]))
    page = " ".join(unescape(re.sub(r"<[^>]*>", " ", comparison_html(whole))).split())
    words = ("0.712 [0.650, 0.780]; at least 0.8: inconclusive", "0.000 [0.000, 0.020]; at least 0.8: failed")
    assert " ".join([*words, "worse"]) in " ".join(terminal(whole).split())
    assert " ".join([*words, "worse"]) in page
    text = comparison_markdown(whole)
    assert " | ".join(["| impact_ratio | attribute = sex", *words, "worse |"]) in text
    for shown in (text, terminal(whole), page):
        assert "1 worse of 1" in shown
    assert max(map(len, terminal(whole, 80).splitlines())) <= 80
    assert Comparison.model_validate_json(whole.model_dump_json()) == whole

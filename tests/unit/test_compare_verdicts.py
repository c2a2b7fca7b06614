"""Two runs in memory: verdicts, margins, notices; and their texts and page."""

import io
import re

import numpy as np
import pytest
from rich.console import Console
from support.comparisons import ERROR, WRONG, F, P, case_table, outcomes, run_of, suite_of

from aitest_flows.render_compare import print_comparison
from aitest_lib.errors import InputError
from aitest_lib.reports.compare import compare_runs
from aitest_lib.reports.compare_html import comparison_html
from aitest_lib.reports.compare_markdown import comparison_markdown
from aitest_lib.reports.comparison import Comparison
from aitest_lib.reports.report import FailingCase, GateResult

OTHER = "c" * 32
ROBUSTNESS, GENERALIZATION = "tabular.robustness", "tabular.generalization"


def seeds(n, failing=(), bad=F):
    return {f"s{i:04d}": bad if i in failing else P for i in range(n)}


def one(found, transform="noise", **more):
    return run_of({ROBUSTNESS: case_table(outcomes(found, transform))}, **more)


def compared(before, after, margin=None, **more):
    [item] = compare_runs(one(before), one(after, **more), margin).properties
    return item


def test_what_an_unpaired_test_would_miss():
    item = compared(seeds(1000, range(100)), seeds(1000, range(115)))
    assert item.verdict == "regression"
    assert item.cases.newly_failing == 15
    assert item.test.change == pytest.approx(0.015)
    assert item.test.low > 0
    assert item.test.adjusted_p_value == item.test.p_value < 0.001
    assert item.test.method.startswith("McNemar")
    assert "from 0.100 to 0.115, +1.50 points" in item.summary


def test_as_many_failures_on_other_seeds_are_no_evidence():
    item = compared(seeds(1000, range(100)), seeds(1000, range(100, 200)))
    assert item.verdict == "no_evidence"
    assert item.test.change == 0
    assert (item.cases.newly_failing, item.cases.fixed) == (100, 100)
    assert item.summary.startswith("No evidence of a change")


def test_an_improvement():
    item = compared(seeds(500, range(60)), seeds(500, range(40)))
    assert (item.verdict, item.cases.fixed) == ("improvement", 20)
    assert item.test.high < 0


def test_breaking_the_fragile_seeds_is_a_regression():
    """`pass_rate` rises where the fragile seeds are answered wrongly to begin with."""
    item = compared(seeds(400, range(20)), seeds(400, range(60), WRONG))
    assert item.verdict == "regression"
    assert (item.cases.newly_failing, item.cases.newly_misclassified, item.cases.still_failing) == (40, 40, 20)
    assert "because their seed is answered wrongly now" in item.summary


def test_cases_of_a_seed_count_together():
    """12 cases each: what 20 seeds lose as a whole is the evidence of 20 units, not of 240."""
    base, candidate = (
        [row for name in "abcdefghijkl" for row in outcomes(found, name)]
        for found in (seeds(300, range(5)), seeds(300, range(7)))
    )
    whole = compare_runs(run_of({ROBUSTNESS: case_table(base)}), run_of({ROBUSTNESS: case_table(candidate)}))
    [item] = whole.properties
    assert item.cases.newly_failing == 24
    assert item.test.seeds == 300
    assert item.test.method.startswith("sign-flip")
    assert item.verdict == "no_evidence"


@pytest.mark.parametrize(
    ("failing", "margin", "verdict"),
    [
        (20, 3.0, "non_inferior"),  # as before
        (20, 0.1, "not_shown"),
        (35, 5.0, "non_inferior"),  # worse beyond chance, but not by 5 points
        (35, 1.0, "regression"),
        (35, None, "regression"),
        (5, 1.0, "improvement"),
    ],
)
def test_margins(failing, margin, verdict):
    item = compared(seeds(1000, range(20)), seeds(1000, range(failing)), margin)
    assert item.verdict == verdict
    words = {"non_inferior": "Not worse by more than", "not_shown": "May be worse by more than"}
    assert item.summary.startswith(words.get(verdict, verdict.capitalize()))


@pytest.mark.parametrize("margin", [0, -1, float("nan"), float("inf")])
def test_a_margin_is_above_zero(margin):
    with pytest.raises(InputError, match=r"--margin: got .*, expected points above 0"):
        compare_runs(one(seeds(3)), one(seeds(3)), margin)


def test_p_values_are_adjusted_over_the_properties():
    before, after = seeds(400, range(40)), seeds(400, range(46))
    tables = [
        {name: case_table(outcomes(found, "noise")) for name in (ROBUSTNESS, GENERALIZATION)} for found in (before, after)
    ]
    alone = compared(before, after)
    assert alone.test.p_value == alone.test.adjusted_p_value < 0.05
    both = compare_runs(*(run_of(one_) for one_ in tables))
    assert [item.test.adjusted_p_value for item in both.properties] == [2 * alone.test.p_value] * 2
    assert "after Holm" in both.properties[0].summary


def test_regressors_are_compared_by_their_errors_and_one_yardstick():
    rng = np.random.default_rng(1)
    truth, noise = rng.normal(50, 10, 300), rng.normal(0, 3, 300)
    tables = []
    for factor in (1.0, 1.2):
        rows = [
            {"seed_id": str(i), "expected": f"{t:.6g}", "observed": f"{t + factor * e:.6g}", "outcome": "passed"}
            for i, (t, e) in enumerate(zip(truth, noise, strict=True))
        ]
        tables.append(case_table(rows))
    more = {GENERALIZATION: {"seed_tolerance": 4.0, "tolerance": 1.0}}
    wider = {GENERALIZATION: {"seed_tolerance": 4.8, "tolerance": 1.0}}
    model = {"type": "tabular-regressor"}
    runs = (
        run_of({GENERALIZATION: tables[0]}, properties=more, model=model),
        run_of({GENERALIZATION: tables[1]}, properties=wider, model=model),
    )
    found = compare_runs(*runs)
    [item] = found.properties
    assert item.test.metric == "mean absolute error"
    assert item.test.candidate == pytest.approx(1.2 * item.test.base, rel=1e-4)
    assert item.test.low > 0
    assert item.verdict == "regression"
    assert item.cases.newly_failing > 0
    assert "seed_tolerance in effect" in found.changes[0].name
    assert compare_runs(*runs) == found
    [margin] = compare_runs(*runs, 40.0).properties
    assert margin.verdict == "non_inferior"
    assert margin.summary.startswith("Not worse by more than 40 %")


def test_a_candidate_that_no_longer_answers_is_a_regression():
    item = compared(seeds(100), seeds(100, range(60), ERROR), properties={ROBUSTNESS: {"status": "error"}})
    assert item.verdict == "regression"
    assert item.cases.newly_unanswered == 60
    assert "ended in an error" in item.summary
    assert "60 cases that the base answered got no usable answer" in item.summary


def test_other_data():
    before, after = seeds(60), {f"s{i:04d}": P for i in range(30, 80)}
    found = compare_runs(one(before), one(after, record={"test_digest": "u"}, run_id=OTHER))
    [item] = found.properties
    assert found.notices == ["30 seeds are in both runs (base 60, candidate 50); only their cases are compared."]
    assert (item.shared_seeds, item.cases.new, item.cases.gone, item.cases.compared) == (30, 20, 30, 30)
    assert found.changes[0].area == "data"


def test_no_shared_case_is_told_and_tested_by_nothing():
    found = compare_runs(one(seeds(5)), one(seeds(5), "swap", origin={"random_seed": 2}, run_id=OTHER))
    [item] = found.properties
    assert (item.verdict, item.test, item.cases.new, item.cases.gone) == ("not_comparable", None, 5, 5)
    assert len(found.notices) == 2
    assert "seeds differ" in found.notices[0]
    assert "nothing could be tested" in found.notices[1]


def test_runs_that_have_nothing_in_common():
    other = run_of({GENERALIZATION: case_table(outcomes(seeds(3)))})
    with pytest.raises(InputError, match=r"no property in common: run b{8} has tabular.robustness, run b{8} has tabular.gen"):
        compare_runs(one(seeds(3)), other)
    with pytest.raises(InputError, match=r"tested a tabular-classifier and run b{8} a tabular-regressor"):
        compare_runs(one(seeds(3)), one(seeds(3), model={"type": "tabular-regressor"}))


def test_different_suites_are_compared_with_a_notice():
    suite = suite_of({"property": ROBUSTNESS}, suite="weekly")
    found = compare_runs(one(seeds(3)), one(seeds(3), suite=suite, run_id=OTHER))
    assert found.notices == ["The runs are of different suites, nightly and weekly; what both have is compared."]


def test_slices_of_new_failures_are_found():
    found = seeds(400, range(0, 120, 2))
    jobs = ["cook" if i < 120 else "nurse" for i in range(400)]
    after = run_of({ROBUSTNESS: case_table(outcomes(found, "noise"), {"job": jobs})})
    [item] = compare_runs(one(seeds(400)), after).properties
    cook = next(one_ for one_ in item.slices if one_.value == "cook")
    assert (cook.flagged, cook.failing, cook.seeds) == (True, 60, 120)
    assert "job = cook (60 of 120 seeds)" in item.summary


EVIL = "<script>alert(1)</script>|`x`"


@pytest.fixture
def page() -> Comparison:
    gate = GateResult(metric="pass_rate", min=0.9, verdict="passed", reason=EVIL)
    shown = FailingCase(
        case_id="s0000/noise/None",
        seed_id="s0000",
        transform="noise",
        strength=None,
        expected=EVIL,
        observed=EVIL,
        score=None,
        explanation=EVIL,
        seed={"age": EVIL, EVIL: "1"},
        case={"age": "2", EVIL: "1"},
        changed=["age"],
    )
    suites = [suite_of({"property": ROBUSTNESS, "gates": {"pass_rate": {"min": edge}}}) for edge in (0.9, 0.8)]
    after = outcomes(seeds(300, range(30)), "noise", observed=EVIL, explanation=EVIL)
    return compare_runs(
        one(seeds(300), suite=suites[0], model={"name": EVIL}, properties={ROBUSTNESS: {"gates": [gate]}}),
        run_of({ROBUSTNESS: case_table(after, {"job": [EVIL] * 300})}, suite=suites[1], failures={ROBUSTNESS: [shown]}),
        1.0,
    )


def test_the_page_is_self_contained_and_escapes(page):
    text = comparison_html(page)
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert not re.search(r"""(src|href)=["'](?!#)""", text)
    assert "url(" not in text
    assert text.count("<article") == 30
    assert "weaker" in text
    assert "Regression in tabular.robustness." in text


def test_markdown_escapes_and_keeps_its_tables(page):
    text = comparison_markdown(page)
    assert "<script>" not in text
    tables = [block for block in re.split(r"\n(?!\|)", text) if block.startswith("|")]
    for block in tables:
        widths = {len(re.split(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1, block
    assert "| gates | tabular.robustness pass_rate | at least 0.9 | at least 0.8 | weaker |" in text


def test_the_terminal_shows_it_in_80_columns_without_markup(page):
    file = io.StringIO()
    print_comparison(page, Console(file=file, width=80, color_system=None))
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    [row] = [line for line in lines if line.startswith("tabular.robustness  ")]
    assert row.split() == ["tabular.robustness", "30", "0", "0", "0", "0", "+10.00", "points", "<0.001"]
    assert any(line.startswith("gates") and line.rstrip().endswith("WEAKER") for line in lines)
    assert "<script>alert(1)</script>|`x`" in file.getvalue()


def test_a_comparison_survives_json(page):
    assert Comparison.model_validate_json(page.model_dump_json()) == page
    assert repr(page).startswith("<Comparison of bbbbbbbb and bbbbbbbb: Regression in")

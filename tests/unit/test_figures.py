"""Which figures a gate looks at, and what it says of them."""

from __future__ import annotations

import pytest

from aitest_lib.config.gates import Gate
from aitest_lib.reports.report import GateResult
from aitest_lib.scorers.figures import Figure, judge_gates, status_of
from aitest_lib.stats.estimates import undefined
from aitest_lib.stats.intervals import wilson

N = 1_000


def rate(name: str, hits: int, where: dict | None = None, **more) -> Figure:
    return Figure(name=name, estimate=wilson(hits, N), slice=where or {}, **more)


WEAK = {"transform": "numeric_noise", "epsilon": 0.1}
STRONG = {"transform": "numeric_noise", "epsilon": 1.0}
SWAP = {"transform": "category_swap"}
FIGURES = [
    rate("pass_rate", 990, WEAK, component=True),
    rate("pass_rate", 700, STRONG, component=True),
    rate("pass_rate", 960, SWAP, component=True),
    rate("pass_rate", 880),
    rate("pass_rate", 985, {"sex": "F"}),
    rate("pass_rate", 890, {"group": "1"}),
    rate("accuracy", 900),
    rate("f1", 950, {"class": "yes"}),
    rate("f1", 700, {"class": "no"}),
]


def judged(gates: dict, figures=FIGURES, *, decide="interval", incomplete=None) -> list[GateResult]:
    return judge_gates(gates, figures, confidence=0.95, decide=decide, incomplete=incomplete)


def verdicts(*args, **options) -> list[tuple[dict, str]]:
    return [(item.slice, item.verdict) for item in judged(*args, **options)]


class TestWhichFigures:
    def test_without_slice_each_component(self):
        assert verdicts({"pass_rate": Gate(min=0.94)}) == [(WEAK, "passed"), (STRONG, "failed"), (SWAP, "passed")]

    def test_an_empty_slice_is_the_pooled_figure(self):
        assert verdicts({"pass_rate": Gate(min=0.94, slice={})}) == [({}, "failed")]

    def test_one_slice(self):
        assert verdicts({"pass_rate": Gate(min=0.94, slice={"sex": "F"})}) == [({"sex": "F"}, "passed")]

    @pytest.mark.parametrize("epsilon", [1, 1.0])
    def test_numbers_are_equal_as_numbers(self, epsilon):
        gate = Gate(min=0.94, slice={"transform": "numeric_noise", "epsilon": epsilon})
        assert verdicts({"pass_rate": gate}) == [(STRONG, "failed")]

    @pytest.mark.parametrize("group", [1, "1"])
    def test_a_category_may_be_written_as_a_number(self, group):
        assert verdicts({"pass_rate": Gate(max=0.99, slice={"group": group})}) == [({"group": "1"}, "passed")]

    def test_true_and_false_are_written_as_in_yaml(self):
        figures = [rate("pass_rate", 990, {"member": "true"}), rate("pass_rate", 100, {"member": "false"})]
        assert verdicts({"pass_rate": Gate(min=0.9, slice={"member": True})}, figures) == [({"member": "true"}, "passed")]

    def test_part_of_a_slice_is_all_that_have_it(self):
        gate = Gate(min=0.94, slice={"transform": "numeric_noise"})
        assert verdicts({"pass_rate": gate}) == [(WEAK, "passed"), (STRONG, "failed")]

    def test_a_whole_slice_goes_before_a_part(self):
        figures = [rate("pass_rate", 990, SWAP), rate("pass_rate", 100, {**SWAP, "sex": "F"})]
        assert verdicts({"pass_rate": Gate(min=0.9, slice=SWAP)}, figures) == [(SWAP, "passed")]

    def test_without_components_the_whole(self):
        assert verdicts({"accuracy": Gate(min=0.95)}) == [({}, "failed")]

    def test_without_a_whole_every_slice(self):
        assert verdicts({"f1": Gate(min=0.9)}) == [({"class": "yes"}, "passed"), ({"class": "no"}, "failed")]

    @pytest.mark.parametrize(
        "where", [{"transform": "rotate"}, {"sex": "None"}, {"colour": "None"}, {"sex": "F", "age": "old"}]
    )
    def test_an_unknown_slice_is_inconclusive_and_names_the_known_ones(self, where):
        [found] = judged({"pass_rate": Gate(min=0.5, slice=where)})
        assert (found.verdict, found.slice) == ("inconclusive", where)
        assert "there is no such figure in this run; pass_rate stands for transform numeric_noise, epsilon 0.1" in found.reason

    def test_a_metric_that_was_not_measured(self):
        [found] = judged({"roc_auc": Gate(min=0.5)})
        assert found.verdict == "inconclusive"
        assert "this run has no roc_auc" in found.reason

    def test_several_gates_on_one_metric(self):
        gates = {"pass_rate": [Gate(min=0.95, slice=WEAK), Gate(min=0.6, slice=STRONG)], "accuracy": Gate(max=0.5)}
        assert verdicts(gates) == [(WEAK, "passed"), (STRONG, "passed"), ({}, "failed")]


class TestVerdicts:
    def test_an_interval_across_the_threshold_is_inconclusive(self):
        [found] = judged({"accuracy": Gate(min=0.9)})
        assert found.verdict == "inconclusive"
        assert "straddles 0.9" in found.reason
        assert judged({"accuracy": Gate(min=0.9)}, decide="point")[0].verdict == "passed"

    def test_it_must_pass_with_every_error_counted_as_a_failure(self):
        figures = [rate("pass_rate", 990, pessimistic=wilson(990, 1_100))]
        [found] = judged({"pass_rate": Gate(min=0.95)}, figures)
        assert found.verdict == "inconclusive"
        assert "not with the errors counted as failures" in found.reason

    def test_what_is_judged_may_differ_from_what_is_shown(self):
        shown = rate("pass_rate", 900, judged=wilson(999, N), note="own flips are taken off")
        [found] = judged({"pass_rate": Gate(min=0.95)}, [shown])
        assert found.verdict == "passed"
        assert found.reason.endswith("(own flips are taken off)")
        assert shown.metric(0.95).value == 0.9

    def test_what_the_budget_left_out_never_passes_but_may_fail(self):
        found = judged({"pass_rate": Gate(min=0.94)}, incomplete="budget: 3 cases were not asked")
        assert [item.verdict for item in found] == ["inconclusive", "failed", "inconclusive"]
        assert found[0].reason.endswith("not everything was asked: budget: 3 cases were not asked")

    def test_an_undefined_figure_is_inconclusive(self):
        [found] = judged({"roc_auc": Gate(min=0.5)}, [Figure(name="roc_auc", estimate=undefined("one class alone"))])
        assert (found.verdict, found.reason) == ("inconclusive", "undefined: one class alone")

    def test_no_gates(self):
        assert judged({}) == []


class TestStatus:
    @staticmethod
    def gates(*given: str) -> list[GateResult]:
        return [GateResult(metric="m", verdict=verdict, reason="r") for verdict in given]

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ((), "unjudged"),
            (("passed", "passed"), "passed"),
            (("passed", "inconclusive"), "inconclusive"),
            (("inconclusive", "failed", "passed"), "failed"),
        ],
    )
    def test_the_worst_gate_counts(self, given, expected):
        assert status_of(self.gates(*given)) == expected

    def test_too_many_errors_are_an_error(self):
        assert status_of(self.gates("failed"), too_many_errors=True) == "error"

    @pytest.mark.parametrize(("given", "expected"), [("passed", "inconclusive"), ("failed", "failed")])
    def test_incomplete_is_never_passed(self, given, expected):
        assert status_of(self.gates(given), incomplete="budget") == expected


def test_a_figure_in_the_report():
    metric = rate("pass_rate", 900, SWAP).metric(0.95)
    assert (metric.name, metric.slice, metric.value, metric.n) == ("pass_rate", SWAP, 0.9, N)
    assert (metric.low, metric.high) == wilson(900, N).bounds(0.95)
    empty = Figure(name="roc_auc", estimate=undefined("one class alone"), unit="1").metric(0.95)
    assert (empty.value, empty.low, empty.high, empty.n, empty.reason) == (None, None, None, 0, "one class alone")

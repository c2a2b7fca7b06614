"""Outcomes of cases, and the figures of robustness, against counts made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from aitest_lib.config.gates import Gate
from aitest_lib.scorers.figures import Figure, judge_gates
from aitest_lib.scorers.invariance import ERROR, FAILED, OUTCOME_NAMES, PASSED, SKIPPED, Answered, InvarianceScorer, Tally
from aitest_lib.stats.clusters import clustered_rate
from aitest_lib.stats.intervals import mean, wilson
from aitest_lib.stats.sequences import mean_sequence, rate_sequence

SCORER = InvarianceScorer()
A, B = {"transform": "a"}, {"transform": "b"}


def mask(text: str) -> np.ndarray:
    return np.array([letter == "x" for letter in text])


def tally(where=A, *, effective: str, right_seed: str, right_case: str, same: str, error: str | None = None) -> Tally:
    return Tally(where, mask(effective), mask(right_seed), mask(right_case), mask(same), mask(error or "." * len(effective)))


def figure(figures: list[Figure], name: str, where: dict | None = None) -> Figure:
    [found] = [item for item in figures if item.name == name and item.slice == (where or {})]
    return found


def bounds(estimate) -> tuple[float, float]:
    return estimate.bounds(0.95)


class TestOutcomes:
    def test_the_first_that_applies(self):
        # per case: skip, seed known/unpaid/error, case known/unpaid/error, seed right, same -> outcome and reason
        table = [
            (None, "known", "known", True, True, PASSED, None),
            (None, "known", "known", True, False, FAILED, None),
            (None, "known", "known", False, False, SKIPPED, "misclassified_seed"),
            (None, "known", "known", False, True, SKIPPED, "misclassified_seed"),
            (None, "known", "case timed out", True, False, ERROR, "case timed out"),
            (None, "known", "case timed out", False, False, ERROR, "case timed out"),
            (None, "known", "unpaid", True, False, SKIPPED, "budget"),
            (None, "known", "unpaid", False, False, SKIPPED, "budget"),
            (None, "seed timed out", "known", False, False, ERROR, "on the untouched seed: seed timed out"),
            (None, "seed timed out", "case timed out", False, False, ERROR, "on the untouched seed: seed timed out"),
            (None, "seed timed out", "unpaid", False, False, ERROR, "on the untouched seed: seed timed out"),
            (None, "unpaid", "known", False, False, SKIPPED, "budget"),
            (None, "unpaid", "unpaid", False, False, SKIPPED, "budget"),
            ("no_op", "known", "known", True, True, SKIPPED, "no_op"),
            ("invalid", "seed timed out", "unpaid", False, False, SKIPPED, "invalid"),
            ("not_applicable", "unpaid", "case timed out", False, True, SKIPPED, "not_applicable"),
        ]

        def answered(states) -> Answered:
            return Answered(
                np.array([state == "known" for state in states]),
                np.array([state == "unpaid" for state in states]),
                np.array([None if state in ("known", "unpaid") else state for state in states], dtype=object),
            )

        skip, on_seed, on_case, right, same, outcomes, reasons = zip(*table, strict=True)
        outcome, reason = SCORER.outcomes(
            np.array(skip, dtype=object), answered(on_seed), answered(on_case), np.array(right), np.array(same)
        )
        assert outcome.tolist() == list(outcomes)
        assert reason.tolist() == list(reasons)
        assert OUTCOME_NAMES[PASSED] == "passed"

    def test_no_cases(self):
        none = np.empty(0, bool)
        nothing = Answered(none, none, np.empty(0, object))
        outcome, reason = SCORER.outcomes(np.empty(0, object), nothing, nothing, none, none)
        assert len(outcome) == len(reason) == 0


class TestOneComponent:
    #           seeds:      1234567890
    GIVEN = tally(
        effective="xxxxxxxx..",
        right_seed="xxxxxx..x.",
        right_case="xxxx..x...",
        same="xxxx...x..",
        error="........x.",
    )

    def test_figures(self):
        figures = SCORER.figures([self.GIVEN], None, labelled=True)
        counts = {"pass_rate": (4, 6), "accuracy": (5, 8), "robust_accuracy": (4, 8), "robust_accuracy_drop": (2, 8)}
        for where in (A, {}):
            for name, (hits, n) in counts.items():
                one = figure(figures, name, where)
                assert one.estimate == wilson(hits, n), name
                assert bounds(one.estimate) == bounds(wilson(hits, n))
                assert one.component is (where == A)
                assert one.higher_is_better is (name != "robust_accuracy_drop")
                worse = hits + 1 if name == "robust_accuracy_drop" else hits
                assert bounds(one.pessimistic) == bounds(wilson(worse, n + 1)), name
            assert figure(figures, "clean_accuracy", where).estimate == wilson(6, 8)
        assert len(figures) == 10

    def test_the_drop_is_clean_less_robust_accuracy(self):
        value = {item.name: item.estimate.value for item in SCORER.figures([self.GIVEN], None, labelled=True)}
        assert value["robust_accuracy_drop"] == pytest.approx(value["clean_accuracy"] - value["robust_accuracy"])

    def test_without_labels_there_is_a_pass_rate_alone(self):
        assert {item.name for item in SCORER.figures([self.GIVEN], None, labelled=False)} == {"pass_rate"}

    def test_without_errors_nothing_is_pessimistic(self):
        given = tally(effective="xx", right_seed="xx", right_case="xx", same="xx")
        assert all(item.pessimistic is None for item in SCORER.figures([given], None, labelled=True))

    def test_nothing_counted_is_undefined_never_a_number(self):
        for item in SCORER.figures([Tally.empty(A, 3)], None, labelled=True):
            assert item.estimate.value is None
            assert item.estimate.reason == "there are no cases to count"

    def test_no_components(self):
        assert SCORER.figures([], None, labelled=True) == []


def test_a_model_that_breaks_its_fragile_seeds_passes_often_and_is_not_robust():
    # 100 seeds; the model is wrong on 60 of them already, and stays so. On the other 40 it never changes its mind.
    right = np.arange(100) < 40
    given = Tally(A, np.ones(100, bool), right, right, np.ones(100, bool), np.zeros(100, bool))
    figures = SCORER.figures([given], None, labelled=True)
    assert figure(figures, "pass_rate").estimate.value == 1
    assert figure(figures, "robust_accuracy").estimate.value == 0.4
    kept = np.arange(100) < 95  # another one, right everywhere, that loses 5 seeds
    always = np.ones(100, bool)
    sound = Tally(A, always, always, kept, kept, ~always)
    figures = SCORER.figures([sound], None, labelled=True)
    assert figure(figures, "pass_rate").estimate.value == 0.95
    assert figure(figures, "robust_accuracy").estimate.value == 0.95


class TestPooled:
    ONE = tally(A, effective="xxxx", right_seed="xx.x", right_case="x..x", same="x..x", error="....")
    TWO = tally(B, effective="xxx.", right_seed="xx.x", right_case="xxx.", same="xx..", error="...x")

    def test_rates_are_clustered_by_seed(self):
        figures = SCORER.figures([self.ONE, self.TWO], None, labelled=True)
        expected = {
            "pass_rate": clustered_rate([2, 1, 0, 1], [2, 2, 0, 1]),
            "accuracy": clustered_rate([2, 1, 1, 1], [2, 2, 2, 1]),
            "robust_accuracy": clustered_rate([2, 1, 0, 1], [2, 2, 2, 1]),
            "robust_accuracy_drop": clustered_rate([0, 1, 0, 0], [2, 2, 2, 1]),
        }
        for name, estimate in expected.items():
            found = figure(figures, name)
            assert found.estimate.value == estimate.value, name
            assert bounds(found.estimate) == bounds(estimate), name
            assert not found.component
        assert figure(figures, "pass_rate", A).estimate == wilson(2, 3)
        assert figure(figures, "pass_rate", B).estimate == wilson(2, 2)

    def test_errors_are_counted_as_failures(self):
        figures = SCORER.figures([self.ONE, self.TWO], None, labelled=True)
        assert bounds(figure(figures, "pass_rate").pessimistic) == bounds(clustered_rate([2, 1, 0, 1], [2, 2, 0, 2]))
        assert bounds(figure(figures, "robust_accuracy_drop").pessimistic) == bounds(clustered_rate([0, 1, 0, 1], [2, 2, 2, 2]))
        assert figure(figures, "pass_rate", A).pessimistic is None


class TestOwnFlips:
    FLIPS = np.array([0.0, 0.5, 0.25, 0.0])
    GIVEN = tally(effective="xxxx", right_seed="xxx.", right_case="x.x.", same="x.x.")

    def test_they_are_taken_off_before_a_gate_judges(self):
        for where in (A, {}):
            figures = SCORER.figures([self.GIVEN], self.FLIPS, labelled=True)
            rate, drop = figure(figures, "pass_rate", where), figure(figures, "robust_accuracy_drop", where)
            assert rate.estimate == wilson(2, 3)
            assert bounds(rate.judged) == bounds(mean([1, 0.5, 1.25]))
            assert bounds(drop.judged) == bounds(mean([0, 0.5, -0.25, 0]))
            assert rate.note == drop.note == "the model's own flip rate of 0.250 is taken off"
            assert figure(figures, "accuracy", where).judged is None

    def test_errors_count_as_failures_here_too(self):
        given = tally(effective="xxx.", right_seed="xxxx", right_case="x.x.", same="x.x.", error="...x")
        rate = figure(SCORER.figures([given], self.FLIPS, labelled=True), "pass_rate")
        assert bounds(rate.pessimistic) == bounds(mean([1, 0.5, 1.25, 0]))

    def test_pooled_they_are_taken_off_each_seed(self):
        again = tally(B, effective="xx..", right_seed="xxx.", right_case="xx..", same="xx..")
        figures = SCORER.figures([self.GIVEN, again], self.FLIPS, labelled=True)
        assert bounds(figure(figures, "pass_rate").judged) == bounds(mean([1, 1, 1.25]))
        assert bounds(figure(figures, "robust_accuracy_drop").judged) == bounds(mean([0, 0, -0.25, 0]))

    def test_only_a_right_answer_can_be_lost(self):
        flips = np.array([0.0, 0, 0, 1])
        figures = SCORER.figures([self.GIVEN], flips, labelled=True)
        assert bounds(figure(figures, "robust_accuracy_drop").judged) == bounds(mean([0, 1, 0, 0]))

    @pytest.mark.parametrize("where", [None, {}])
    def test_a_model_that_only_flips_by_itself_is_not_failed_for_it(self, where):
        rng = np.random.default_rng(0)
        seeds = 2_000
        always = np.ones(seeds, bool)
        made = []
        for component in (A, B):
            same = rng.random(seeds) > 0.1
            made.append(Tally(component, always, always, same, same, ~always))
        figures = SCORER.figures(made, rng.binomial(5, 0.1, seeds) / 5, labelled=True)
        gates = {"pass_rate": Gate(min=0.95, slice=where)}
        assert {item.verdict for item in judge_gates(gates, figures, confidence=0.95, decide="interval", incomplete=None)} == {
            "passed"
        }
        raw = SCORER.figures(made, None, labelled=True)
        assert {item.verdict for item in judge_gates(gates, raw, confidence=0.95, decide="interval", incomplete=None)} == {
            "failed"
        }


class TestSequential:
    SCORER = InvarianceScorer(sequential=True)

    def test_every_figure_stays_valid_under_repeated_looks(self):
        given = TestOneComponent.GIVEN
        figures = self.SCORER.figures([given], None, labelled=True)
        rate = figure(figures, "pass_rate")
        assert bounds(rate.estimate) == bounds(rate_sequence(4, 6))
        assert bounds(rate.pessimistic) == bounds(rate_sequence(4, 7))
        assert bounds(rate.estimate)[0] < bounds(wilson(4, 6))[0]

    def test_pooled_the_means_of_the_seeds_count(self):
        figures = self.SCORER.figures([TestPooled.ONE, TestPooled.TWO], None, labelled=True)
        assert bounds(figure(figures, "pass_rate").estimate) == bounds(mean_sequence([1, 0.5, 1]))

    def test_own_flips(self):
        figures = self.SCORER.figures([TestOwnFlips.GIVEN], TestOwnFlips.FLIPS, labelled=True)
        assert bounds(figure(figures, "pass_rate").judged) == bounds(mean_sequence([1, 0.5, 1.25], 0, 2))
        assert bounds(figure(figures, "robust_accuracy_drop").judged) == bounds(mean_sequence([0, 0.5, -0.25, 0], -1, 1))

    def test_the_setting_is_part_of_the_fingerprint(self):
        assert self.SCORER.fingerprint() != SCORER.fingerprint()

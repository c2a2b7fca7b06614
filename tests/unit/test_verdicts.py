"""Verdicts: what passes, what fails, what stays open, and the sentence that says so."""

from __future__ import annotations

import numpy as np
import pytest

from aitest_lib.errors import InputError
from aitest_lib.stats.clusters import clustered_rate
from aitest_lib.stats.estimates import undefined
from aitest_lib.stats.intervals import mean, newcombe, paired_difference, wilson
from aitest_lib.stats.planning import decidable
from aitest_lib.stats.sequences import rate_sequence
from aitest_lib.stats.verdicts import GateInput, judge


def one(gate: GateInput, **options: object) -> tuple[str, str]:
    [result] = judge([gate], **options)  # type: ignore[arg-type]
    return result.verdict, result.reason


def rate(successes: int, n: int, **gate: object) -> GateInput:
    return GateInput(metric="pass_rate", estimate=wilson(successes, n), **gate)  # type: ignore[arg-type]


def test_reasons_word_for_word() -> None:
    assert one(rate(465, 500, min=0.95)) == ("failed", "0.930 [0.909, 0.947] is below 0.95")
    assert one(rate(1944, 2000, min=0.95)) == ("passed", "0.972 [0.965, 0.977] clears 0.95")
    assert one(rate(480, 500, min=0.95)) == (
        "inconclusive",
        "0.960 [0.943, 0.972] straddles 0.95: about 2,700 seeds would decide (500 here)",
    )
    assert one(rate(29, 500, max=0.05)) == (
        "inconclusive",
        "0.058 [0.043, 0.078] straddles 0.05: about 4,800 seeds would decide (500 here)",
    )
    assert one(rate(40, 500, max=0.05)) == ("failed", "0.080 [0.062, 0.102] is above 0.05")
    assert one(rate(10, 500, max=0.05)) == ("passed", "0.020 [0.012, 0.033] clears 0.05")


def test_result_repeats_the_gate() -> None:
    [result] = judge([rate(465, 500, min=0.95, slice={"transform": "rotate", "degrees": 15})])
    assert (result.metric, result.slice, result.min, result.max) == (
        "pass_rate",
        {"transform": "rotate", "degrees": 15},
        0.95,
        None,
    )


def test_a_difference_names_no_number_of_seeds() -> None:
    gate = GateInput(metric="gap", estimate=newcombe(30, 100, 25, 100), max=0.05)
    verdict, reason = one(gate)
    assert verdict == "inconclusive"
    assert reason.endswith("straddles 0.05")


def test_a_pooled_rate_asks_for_clusters() -> None:
    won = 12 * (np.arange(100) >= 6)  # six seeds fail as a whole: 100 trials' worth of information, not 1200
    verdict, reason = one(GateInput(metric="pass_rate", estimate=clustered_rate(won, np.full(100, 12)), min=0.95))
    assert verdict == "inconclusive"
    assert "(100 here)" in reason
    seeds = int(reason.split("about ")[1].split(" seeds")[0].replace(",", ""))
    assert 3000 < seeds < 4500


def test_exactly_at_the_threshold() -> None:
    verdict, reason = one(rate(475, 500, min=0.95))
    assert verdict == "inconclusive"
    assert "no number of seeds decides" in reason


def test_bounds_are_shown_on_their_side_of_the_threshold() -> None:
    estimate = mean(np.array([0.9496, 0.9497, 0.9498] * 100))
    verdict, reason = one(GateInput(metric="m", estimate=estimate, min=0.95))
    assert verdict == "failed"
    assert reason == "0.9497 [0.9497, 0.9497] is below 0.95"


def test_a_gate_with_both_thresholds() -> None:
    assert one(rate(500, 1000, min=0.4, max=0.6)) == ("passed", "0.500 [0.474, 0.526] clears 0.4 and 0.6")
    assert one(rate(700, 1000, min=0.4, max=0.6))[0] == "failed"
    assert one(rate(590, 1000, min=0.4, max=0.6))[0] == "inconclusive"
    assert one(rate(300, 1000, min=0.4, max=0.6)) == ("failed", "0.300 [0.277, 0.324] is below 0.4")


def test_errors_counted_as_failures_must_still_pass() -> None:
    assert one(rate(480, 490, min=0.95, pessimistic=wilson(480, 491)))[0] == "passed"
    verdict, reason = one(rate(485, 490, min=0.95, pessimistic=wilson(485, 500)))
    assert verdict == "passed"
    verdict, reason = one(rate(470, 475, min=0.95, pessimistic=wilson(470, 500)))
    assert verdict == "inconclusive"
    assert reason == "0.989 [0.979, 0.995] clears 0.95, but not with the errors counted as failures: 0.940 [0.920, 0.955]"


def test_a_figure_that_errors_could_undo_does_not_pass() -> None:
    verdict, reason = one(rate(470, 475, min=0.95, pessimistic=undefined("the reference group's rate is 0")))
    assert verdict == "inconclusive"
    assert reason.endswith("counted as failures: undefined (the reference group's rate is 0)")


def test_an_incomplete_property_can_fail_but_not_pass() -> None:
    verdict, reason = one(rate(1944, 2000, min=0.95, incomplete="budget"))
    assert (verdict, reason) == ("inconclusive", "0.972 [0.965, 0.977] clears 0.95; not everything was asked: budget")
    assert one(rate(465, 500, min=0.95, incomplete="budget"))[0] == "failed"


def test_undefined_is_inconclusive_with_its_reason() -> None:
    gate = GateInput(metric="impact_ratio", estimate=undefined("the reference group's rate is 0"), min=0.8)
    assert one(gate) == ("inconclusive", "undefined: the reference group's rate is 0")
    assert one(gate, decide="point") == ("inconclusive", "undefined: the reference group's rate is 0")
    lonely = GateInput(metric="mae", estimate=mean([2.0]), max=3)
    assert one(lonely) == ("inconclusive", "2.000 has no interval: one value alone has no interval")


def test_point_compares_the_value_alone() -> None:
    assert one(rate(474, 500, min=0.95), decide="point") == ("failed", "0.948 is below 0.95 (the value alone decides)")
    assert one(rate(475, 500, min=0.95), decide="point") == ("passed", "0.950 clears 0.95 (the value alone decides)")
    assert one(rate(26, 500, max=0.05), decide="point")[0] == "failed"
    assert one(rate(475, 500, min=0.95, incomplete="budget"), decide="point")[0] == "inconclusive"


def test_failing_verdicts_are_holm_corrected() -> None:
    borderline = rate(932, 1000, min=0.95 - 0.003)  # p about 0.017
    assert one(borderline)[0] == "failed"
    fine = [rate(990, 1000, min=0.95)] * 9
    first = judge([borderline, *fine])[0]
    assert first.verdict == "inconclusive"
    assert "may be chance among 10 gates" in first.reason
    # Many that fail clearly leave room for the borderline one.
    clear = [rate(800, 1000, min=0.95)] * 9
    assert [result.verdict for result in judge([*clear, borderline])] == ["failed"] * 10


def test_passing_is_not_corrected() -> None:
    assert {result.verdict for result in judge([rate(1944, 2000, min=0.95)] * 40)} == {"passed"}


def test_no_gates_no_verdicts() -> None:
    assert judge([]) == []


def test_gates_that_make_no_sense_are_one_clear_message() -> None:
    with pytest.raises(InputError, match="neither min nor max"):
        judge([rate(1, 2)])
    with pytest.raises(InputError, match="swap"):
        judge([rate(1, 2, min=0.9, max=0.1)])


@pytest.mark.parametrize("n", [60, 100, 500])
def test_what_planning_calls_decidable_is_decided_so(n: int) -> None:
    passes_from, fails_from = decidable(n, 0.95)
    assert passes_from is not None and fails_from is not None
    passing, failing = round(passes_from * n), round(fails_from * n)
    assert one(rate(passing, n, min=0.95))[0] == "passed"
    assert one(rate(passing - 1, n, min=0.95))[0] == "inconclusive"
    assert one(rate(failing, n, min=0.95))[0] == "failed"
    assert one(rate(failing + 1, n, min=0.95))[0] == "inconclusive"
    mirrored = GateInput(metric="flip_rate", estimate=wilson(n - passing, n), max=0.05)
    assert one(mirrored)[0] == "passed"


def test_a_good_model_is_rarely_failed_and_mostly_passed() -> None:
    counts = np.random.default_rng(6).binomial(2000, 0.97, 1000)
    verdicts = [one(rate(int(count), 2000, min=0.95))[0] for count in counts]
    assert verdicts.count("failed") <= 65
    assert verdicts.count("passed") >= 950


def test_a_model_exactly_at_the_threshold_fails_and_passes_at_the_stated_rate() -> None:
    counts = np.random.default_rng(7).binomial(2000, 0.95, 2000)
    verdicts = [one(rate(int(count), 2000, min=0.95))[0] for count in counts]
    assert verdicts.count("failed") <= 0.065 * 2000
    assert verdicts.count("passed") <= 0.065 * 2000


@pytest.mark.parametrize(("flips", "self_flips"), [(0.058, 0.058), (0.108, 0.058)])
def test_flips_no_worse_than_the_models_own_are_not_failed(flips: float, self_flips: float) -> None:
    """Excess 0, and excess exactly at the threshold."""
    rng = np.random.default_rng(8)
    failed = 0
    for _ in range(500):
        transformed, repeated = rng.random(500) < flips, rng.random(500) < self_flips
        excess = paired_difference(int((transformed & ~repeated).sum()), int((repeated & ~transformed).sum()), 500)
        failed += one(GateInput(metric="excess", estimate=excess, max=0.05))[0] == "failed"
    assert failed <= (0.065 * 500 + 6 if flips - self_flips > 0.04 else 0)


def test_looking_at_a_stream_again_and_again_stays_honest() -> None:
    rng = np.random.default_rng(9)
    wrong = 0
    for _ in range(500):
        totals = np.cumsum(rng.random(2000) < 0.95)
        gates = [
            GateInput(metric="pass_rate", estimate=rate_sequence(int(totals[n - 1]), n), min=0.95)
            for n in range(100, 2001, 100)
        ]
        wrong += any(judge([gate])[0].verdict == "failed" for gate in gates)
    assert wrong <= 0.05 * 500 + 10

"""The join: which cases are shared, what became of them, and which are shown."""

import numpy as np
import pytest
from support.comparisons import BUDGET, ERROR, NO_OP, WRONG, F, P, case_table, outcomes

from aitest_lib.errors import StoreError
from aitest_lib.reports.compare_cases import (
    SHOWN,
    case_changes,
    changed_cases,
    component_changes,
    join_cases,
    shared_seeds,
    slice_columns,
)
from aitest_lib.reports.comparison import CaseChanges
from aitest_lib.reports.report import FailingCase


def joined(before, after, **more):
    return join_cases(case_table(outcomes(before)), case_table(outcomes(after)), **more)


@pytest.mark.parametrize(
    ("was", "now", "counted"),
    [
        (P, P, {"still_passing": 1}),
        (P, F, {"newly_failing": 1}),
        (P, WRONG, {"newly_failing": 1, "newly_misclassified": 1}),
        (F, P, {"fixed": 1}),
        (WRONG, P, {"fixed": 1}),
        (F, F, {"still_failing": 1}),
        (F, WRONG, {"still_failing": 1}),
        (WRONG, F, {"still_failing": 1}),
        (WRONG, WRONG, {"still_failing": 1, "still_misclassified": 1}),
        (NO_OP, NO_OP, {"not_comparable": 1, "reasons": {"candidate: no_op": 1}}),
        (P, BUDGET, {"not_comparable": 1, "reasons": {"candidate: budget": 1}}),
        (P, ERROR, {"not_comparable": 1, "newly_unanswered": 1, "reasons": {"candidate: no usable answer": 1}}),
        (ERROR, F, {"not_comparable": 1, "reasons": {"base: no usable answer": 1}}),
        (ERROR, ERROR, {"not_comparable": 1, "reasons": {"candidate: no usable answer": 1}}),
    ],
)
def test_what_becomes_of_a_case(was, now, counted):
    assert case_changes(joined({"s": was}, {"s": now})) == CaseChanges(**counted)


def test_new_and_gone_cases_are_counted_and_the_order_plays_no_part():
    before = {"a": P, "b": P, "c": F, "d": P}
    after = {"e": F, "c": P, "b": F, "f": P, "a": P}
    found = case_changes(joined(before, after))
    assert found == CaseChanges(new=2, gone=1, newly_failing=1, fixed=1, still_passing=1)
    assert found.compared == 3
    assert shared_seeds(case_table(outcomes(before)), case_table(outcomes(after))) == (4, 5, 3)


def test_a_case_that_stands_twice_counts_once():
    rows = outcomes({"a": P, "b": F})
    found = case_changes(join_cases(case_table([*rows, *rows]), case_table([*rows, rows[0]])))
    assert found == CaseChanges(still_passing=1, still_failing=1)


def test_no_shared_case():
    shared = joined({"a": P}, {"b": F})
    assert case_changes(shared) == CaseChanges(new=1, gone=1)
    assert component_changes(shared) == []
    assert changed_cases(shared, {}) == []
    assert slice_columns(shared) == []


def test_both_runs_are_judged_by_one_tolerance():
    """Each model's own tolerance would let the worse one pass as often."""
    rows = [{"seed_id": str(i), "expected": "10", "observed": str(10 + i), "outcome": "passed"} for i in range(4)]
    base = [{**row, "observed": "10.5"} for row in rows]
    found = case_changes(join_cases(case_table(base), case_table(rows), tolerance=1.0))
    assert (found.newly_failing, found.still_passing) == (2, 2)


def test_an_answer_that_is_no_number_is_told():
    table = case_table(outcomes({"a": P}))
    with pytest.raises(StoreError, match="no number"):
        join_cases(table, table, tolerance=1.0)


def test_by_component():
    before = case_table(outcomes({"a": P, "b": P}, "noise", strength=0.1) + outcomes({"a": P, "b": F}, "swap"))
    after = case_table(outcomes({"a": F, "b": P}, "noise", strength=0.1) + outcomes({"a": P, "b": P}, "swap"))
    noise, swap = component_changes(join_cases(before, after))
    assert (noise.transform, noise.strength, noise.compared, noise.newly_failing, noise.change) == ("noise", 0.1, 2, 1, 0.5)
    assert (swap.transform, swap.strength, swap.fixed, swap.still_failing, swap.change) == ("swap", None, 1, 0, -0.5)


def test_slices_are_those_of_the_seeds():
    rows = outcomes({"a": P, "b": P, "c": P}, "one") + outcomes({"a": P, "b": P, "c": P}, "two")
    table = case_table(rows, {"job": ["cook", "nurse", "cook"] * 2})
    shared = join_cases(case_table(rows), table)
    [column] = slice_columns(shared)
    assert [column.names[code] for code in column.codes] == ["cook", "nurse", "cook"]
    assert column.name == "job"
    np.testing.assert_array_equal(shared.per_seed(shared.compared), [2, 2, 2])


def test_shown_cases_come_from_every_component_and_failed_ones_first():
    many = {f"s{i:03d}": P for i in range(2 * SHOWN)}
    before = case_table(outcomes(many, "one") + outcomes(many, "two"))
    worse = {seed: F if int(seed[1:]) % 2 else WRONG for seed in many}
    after = case_table(outcomes(worse, "one", observed="b") + outcomes(worse, "two", observed="c"))
    found = changed_cases(join_cases(before, after), {})
    assert len(found) == SHOWN
    assert {case.now for case in found} == {"failed"}
    assert [case.transform for case in found] == ["one"] * (SHOWN // 2) + ["two"] * (SHOWN // 2)
    assert found[0].seed_id == "s001"
    few = changed_cases(join_cases(case_table(outcomes({"a": P, "b": P})), case_table(outcomes({"a": WRONG, "b": F}))), {})
    assert [case.now for case in few] == ["failed", "misclassified_seed"]


def test_a_shown_case_has_both_answers_and_its_cells():
    shown = FailingCase(
        case_id="a/None/None",
        seed_id="a",
        transform=None,
        strength=None,
        expected="x",
        observed="y",
        score=None,
        explanation="e",
        seed={"age": "1"},
        case={"age": "2"},
        changed=["age"],
    )
    before = case_table(outcomes({"a": P}, expected="x", observed="x"))
    after = case_table(outcomes({"a": F}, expected="x", observed="y", explanation="age 1 -> 2 turned it"))
    [case] = changed_cases(join_cases(before, after), {shown.case_id: shown})
    assert (case.base_observed, case.candidate_observed, case.shown) == ("x", "y", shown)
    assert case.explanation == "age 1 -> 2 turned it"


def test_breaking_points_are_one_component_wherever_they_lie():
    def searched(strengths):
        found = '{"breaking_point":{"degrees":60},"degrees":1}'
        return case_table(
            [
                {"case_id": seed, "seed_id": seed, "transform": "rotate", "strength": at, "params": found, "outcome": ended}
                for seed, at, ended in strengths
            ]
        )

    base = searched([("a", 26.0, "failed"), ("b", 40.0, "failed"), ("c", None, "passed")])
    candidate = searched([("a", 20.0, "failed"), ("b", None, "passed"), ("c", 50.0, "failed")])
    [found] = component_changes(join_cases(base, candidate))
    assert (found.transform, found.strength) == ("rotate breaking point", None)
    assert (found.compared, found.newly_failing, found.fixed, found.still_failing) == (3, 1, 1, 1)

"""What changed before any case is looked at: a verdict that is bought by a weaker suite is seen first."""

import pytest
from support.comparisons import P, case_table, outcomes, run_of, suite_of

from aitest_lib.reports.compare_settings import changed_settings
from aitest_lib.reports.report import Metric

TABLES = {"tabular.robustness": case_table(outcomes({"a": P}, "noise"))}


def changes(before, after):
    return changed_settings((before.record, before.report), (after.record, after.report))


def with_gates(gates, **more):
    return run_of(TABLES, suite=suite_of({"property": "tabular.robustness", "gates": gates}, **more))


def test_nothing_changed():
    assert changes(with_gates({"pass_rate": {"min": 0.9}}), with_gates({"pass_rate": {"min": 0.9}})) == []


@pytest.mark.parametrize(
    ("before", "after", "texts", "weaker"),
    [
        ({"pass_rate": {"min": 0.95}}, {"pass_rate": {"min": 0.9}}, ("at least 0.95", "at least 0.9"), True),
        ({"pass_rate": {"min": 0.9}}, {"pass_rate": {"min": 0.95}}, ("at least 0.9", "at least 0.95"), False),
        ({"drop": {"max": 0.05}}, {"drop": {"max": 0.1}}, ("at most 0.05", "at most 0.1"), True),
        ({"drop": {"max": 0.1}}, {"drop": {"max": 0.05}}, ("at most 0.1", "at most 0.05"), False),
        ({"pass_rate": {"min": 0.9}}, {}, ("at least 0.9", None), True),
        ({}, {"pass_rate": {"min": 0.9}}, (None, "at least 0.9"), False),
    ],
)
def test_gates(before, after, texts, weaker):
    [change] = changes(with_gates(before), with_gates(after))
    assert (change.area, change.name) == ("gates", f"tabular.robustness {next(iter(before or after))}")
    assert ((change.base, change.candidate), change.weaker) == (texts, weaker)


def test_gates_on_slices_and_lists_are_told_apart():
    before = {"pass_rate": [{"min": 0.9}, {"min": 0.8, "slice": {"sex": "F"}}, {"min": 0.7, "slice": {}}]}
    after = {"pass_rate": [{"min": 0.7, "slice": {"sex": "F"}}, {"min": 0.9}, {"min": 0.75, "slice": {}}]}
    found = changes(with_gates(before), with_gates(after))
    assert [(c.name, c.weaker) for c in found] == [
        ("tabular.robustness pass_rate, sex = F", True),
        ("tabular.robustness pass_rate, overall", False),
    ]


def test_areas_stand_in_their_order_with_weaker_ones_first():
    metric = Metric(name="pass_rate", slice={"transform": "noise", "epsilon": 0.2}, value=1.0, n=1)
    before = run_of(
        TABLES,
        suite=suite_of(
            {"property": "tabular.robustness", "gates": {"pass_rate": {"min": 0.9}}}, max_error_rate=0.01, confidence=0.95
        ),
        properties={"tabular.robustness": {"metrics": [metric]}},
    )
    after = run_of(
        TABLES,
        suite=suite_of({"property": "tabular.robustness"}, random_seed=2, decide="point", max_error_rate=0.2, confidence=0.8)
        | {"data": {"test": "other.csv", "label": "y", "sample": 50}},
        record={"test_digest": "u", "fingerprints": {"aitest": "0.1.0"}},
        origin={"aitest": "0.2.0", "packages": {"numpy": "3.0"}, "seeds": 50},
        model={"version": "4", "digest": "d2"},
    )
    found = changes(before, after)
    areas = [change.area for change in found]
    assert list(dict.fromkeys(areas)) == ["gates", "data", "settings", "model", "versions"]
    named = {change.name: change for change in found}
    weaker = {"tabular.robustness pass_rate", "decide", "max_error_rate", "confidence"}
    assert {change.name for change in found if change.weaker} == {
        *weaker,
        "tabular.robustness transform noise, epsilon = 0.2",
    }
    assert [change.weaker for change in found if change.area == "settings"] == [True] * 4 + [False]
    assert (named["seeds"].base, named["seeds"].candidate) == ("9", "50")
    assert (named["sample"].base, named["sample"].candidate) == ("all", "50")
    assert (named["version"].base, named["version"].candidate) == (None, "4")
    assert {"content of test", "test", "random_seed", "digest", "aitest", "numpy"} <= set(named)


def test_the_code_of_a_transform_is_known_by_its_fingerprint_wherever_its_property_stands():
    before = run_of(TABLES, record={"fingerprints": {"aitest": "1", "0.tabular.robustness": "f1"}})
    moved = run_of(TABLES, record={"fingerprints": {"aitest": "1", "1.tabular.robustness": "f1"}})
    newer = run_of(TABLES, record={"fingerprints": {"aitest": "1", "1.tabular.robustness": "f2"}})
    assert changes(before, moved) == []
    assert [change.name for change in changes(before, newer)] == ["tabular.robustness transforms (fingerprint)"]


def test_a_property_of_its_own_mind_is_compared_with_the_suite_that_spoke_for_it():
    plain = run_of(TABLES, suite=suite_of({"property": "tabular.robustness"}, max_error_rate=0.01))
    own = run_of(TABLES, suite=suite_of({"property": "tabular.robustness", "max_error_rate": 0.2}, max_error_rate=0.01))
    [change] = changes(plain, own)
    assert (change.name, change.base, change.candidate, change.weaker) == (
        "tabular.robustness max_error_rate",
        "0.01",
        "0.2",
        True,
    )
    assert not changes(own, plain)[0].weaker


def test_a_property_that_is_no_longer_run_is_a_weaker_suite():
    both = run_of({**TABLES, "tabular.generalization": None})
    one = run_of(TABLES)
    [lost] = changes(both, one)
    assert (lost.name, lost.base, lost.candidate, lost.weaker) == ("tabular.generalization", "run", None, True)
    [won] = changes(one, both)
    assert not won.weaker


def test_a_yardstick_that_moves_with_the_model_is_told():
    found = changes(
        run_of(TABLES, properties={"tabular.robustness": {"tolerance": 1.0, "seed_tolerance": 3.0}}),
        run_of(TABLES, properties={"tabular.robustness": {"tolerance": 1.0, "seed_tolerance": 5.5}}),
    )
    assert [(c.name, c.base, c.candidate) for c in found] == [("tabular.robustness seed_tolerance in effect", "3", "5.5")]

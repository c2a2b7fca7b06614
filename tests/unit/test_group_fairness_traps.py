"""What goes wrong with group fairness elsewhere: undefined figures read as 0 or 1, tiny groups, numbers as groups, missing
values, one group alone, several privileged groups."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from aitest_lib.config.gates import Gate
from aitest_lib.data.groups import Groups, group_codes
from aitest_lib.data.schema import Column
from aitest_lib.errors import InputError
from aitest_lib.reports.records_fairness import Attribute
from aitest_lib.reports.report import GateResult
from aitest_lib.scorers.figures import Figure, judge_gates
from aitest_lib.scorers.group_fairness import attribute_figures

Counts = tuple[int, int, int, int]  # selected and not of those with the favourable label, then of the others


def audit(counts: dict[str, Counts], **options) -> tuple[Attribute, list[Figure]]:
    """An attribute `g` of groups with these counts."""
    codes, answers, labels = [], [], []
    for code, cells in enumerate(counts.values()):
        for n, answer, label in zip(cells, (True, False, True, False), (True, True, False, False), strict=True):
            codes += [code] * n
            answers += [answer] * n
            labels += [label] * n
    groups = Groups(codes=np.array(codes), names=list(counts), parts=[(name,) for name in counts])
    return attribute_figures("g", ["g"], groups, np.array(answers), np.array(labels), confidence=0.95, **options)


def component(figures: list[Figure], name: str) -> Figure:
    [found] = [one for one in figures if one.name == name and one.component]
    return found


def of_group(figures: list[Figure], name: str, group: str) -> Figure:
    [found] = [one for one in figures if one.name == name and one.slice == {"g": group}]
    return found


def judged(figures: list[Figure], metric: str, **bound: float) -> GateResult:
    [found] = judge_gates({metric: Gate(**bound)}, figures, confidence=0.95, decide="interval", incomplete=None)
    return found


# 1: a group without any favourable label


def test_a_group_without_favourable_labels_has_no_true_positive_rate():
    counts = {"White": (60, 40, 10, 90), "Other": (0, 0, 3, 9)}
    attribute, figures = audit(counts)
    reason = "Other: none of its 12 rows has the favourable label"
    rate = of_group(figures, "true_positive_rate", "Other").estimate
    assert (rate.value, rate.reason) == (None, reason)
    gap = component(figures, "equal_opportunity_gap")
    assert (gap.estimate.value, gap.estimate.reason) == (None, reason)
    found = judged(figures, "equal_opportunity_gap", max=0.1)
    assert found.verdict == "inconclusive" and reason in found.reason
    [other] = [one for one in attribute.groups if one.name == "Other"]
    tpr = other.figures[1]
    assert (tpr.name, tpr.value, tpr.gap, tpr.reason) == ("true_positive_rate", None, None, reason)
    assert other.average_odds is None and other.figures[0].value == 0.25


def test_without_it_the_others_can_fail_a_gate_but_not_pass():
    unlike = {"White": (900, 100, 100, 900), "Black": (300, 700, 100, 900), "Other": (0, 0, 3, 9)}
    reason = "Other: none of its 12 rows has the favourable label"
    _, figures = audit(unlike)
    gap = component(figures, "equal_opportunity_gap")
    assert gap.estimate.value == pytest.approx(0.6) and gap.unjudged == reason
    assert judged(figures, "equal_opportunity_gap", max=0.1).verdict == "failed"
    alike = unlike | {"Black": (900, 100, 100, 900)}
    _, figures = audit(alike)
    found = judged(figures, "equal_opportunity_gap", max=0.1)
    assert found.verdict == "inconclusive" and reason in found.reason
    # The false positive rates and the selection rates of all groups are known all the same.
    assert component(figures, "statistical_parity_gap").unjudged is None


def test_a_group_of_favourable_labels_alone_has_no_false_positive_rate():
    _, figures = audit({"White": (60, 40, 10, 90), "Other": (9, 3, 0, 0)})
    reason = "Other: all of its 12 rows have the favourable label"
    assert of_group(figures, "false_positive_rate", "Other").estimate.reason == reason
    assert component(figures, "equalized_odds_gap").unjudged == reason
    assert component(figures, "equalized_odds_gap").estimate.value == pytest.approx(0.15)  # of the true positive rates
    assert component(figures, "average_odds_gap").estimate.value is None


def test_a_group_in_which_nobody_is_selected_has_no_precision():
    _, figures = audit({"White": (60, 40, 10, 90), "Other": (0, 6, 0, 6)})
    reason = "Other: none of its 12 rows is decided favourably"
    assert of_group(figures, "precision", "Other").estimate.reason == reason
    assert component(figures, "predictive_parity_gap").estimate.reason == reason
    assert component(figures, "impact_ratio").estimate.value == 0


# 2: nobody is selected


@pytest.mark.parametrize("reference", [None, ["a"]])
def test_where_nobody_is_selected_there_is_no_ratio(reference):
    attribute, figures = audit({"a": (0, 50, 0, 50), "b": (0, 30, 0, 70)}, reference=reference)
    ratio = component(figures, "impact_ratio").estimate
    assert (ratio.value, ratio.reason) == (None, "nobody was selected: there is no ratio")
    assert component(figures, "statistical_parity_gap").estimate.value == 0
    assert judged(figures, "impact_ratio", min=0.8).verdict == "inconclusive"
    assert [group.impact_ratio for group in attribute.groups] == [None, None]
    assert all(group.ratio_reason for group in attribute.groups)
    assert [pair.ratio for pair in attribute.pairs] == [None]


# 3: the reference group's rate is 0


def test_where_the_reference_is_never_selected_the_difference_still_stands():
    attribute, figures = audit({"White": (0, 50, 0, 50), "Black": (30, 20, 10, 40)}, reference=["White"])
    ratio = component(figures, "impact_ratio").estimate
    assert (ratio.value, ratio.reason) == (None, "the rate of the reference group White is 0: there is no ratio")
    gap = component(figures, "statistical_parity_gap").estimate
    low, high = gap.bounds(0.95) or (0, 0)
    assert gap.value == 0.4 and 0.25 < low < 0.4 < high
    difference = of_group(figures, "statistical_parity_difference", "Black").estimate
    assert difference.value == 0.4 and difference.bounds(0.95) is not None
    assert of_group(figures, "impact_ratio", "Black").estimate.reason == ratio.reason
    assert judged(figures, "impact_ratio", min=0.8).verdict == "inconclusive"
    assert attribute.groups[0].name == "Black" and attribute.reference == "White"


def test_a_declared_reference_that_is_not_most_favoured_gives_ratios_above_one():
    _, figures = audit({"a": (30, 20, 10, 40), "b": (20, 30, 5, 45)}, reference=["b"])
    assert component(figures, "impact_ratio").estimate.value == pytest.approx(1.6)
    assert component(figures, "statistical_parity_gap").estimate.value == pytest.approx(0.15)
    assert of_group(figures, "statistical_parity_difference", "a").estimate.value == pytest.approx(0.15)


# 5: tiny groups


@pytest.mark.parametrize("rows", [1, 3, 5])
def test_a_tiny_group_whose_rows_are_all_selected_does_not_pass(rows):
    attribute, figures = audit({"White": (900, 0, 50, 50), "b": (rows, 0, 0, 0)})
    [b] = [one for one in attribute.groups if one.name == "b"]
    assert b.figures[0].value == b.figures[0].high == 1 and (b.figures[0].low or 1) < 0.7
    ratio = component(figures, "impact_ratio").estimate
    low, high = ratio.bounds(0.95) or (1, 1)
    assert low < 0.75 < 0.95 == ratio.value < high
    assert judged(figures, "impact_ratio", min=0.8).verdict == "inconclusive"


def test_one_row_has_the_interval_of_wilson_and_leaves_the_most_open():
    attribute, figures = audit({"White": (300, 200, 100, 400), "Black": (280, 220, 90, 410), "b": (1, 0, 0, 0)})
    [b] = [one for one in attribute.groups if one.name == "b"]
    assert b.figures[0].low == pytest.approx(0.27, abs=0.01)  # one-sided 95 %; two-sided [0.21, 1]
    note = component(figures, "impact_ratio").note or ""
    assert "lowest: Black (0.370 of 1,000 rows) against b (1.000 of 1 row)" in note


def test_the_note_names_the_group_that_leaves_the_most_open():
    counts = {"White": (300, 200, 100, 400), "Black": (210, 290, 60, 440), "Other": (4, 2, 1, 5)}
    _, figures = audit(counts, reference=["White"])
    note = component(figures, "impact_ratio").note or ""
    assert (
        note
        == "lowest: Black (0.270 of 1,000 rows) against White (0.400 of 1,000 rows); Other, with 12 rows, leaves the most open"
    )


def test_groups_below_a_share_are_left_out_by_request_and_listed():
    counts = {"White": (300, 200, 100, 400), "Black": (280, 220, 90, 410), "Other": (0, 6, 0, 6)}
    attribute, figures = audit(counts, smallest_share=0.02)
    assert attribute.excluded == {"Other": 12}
    assert [group.name for group in attribute.groups] == ["White", "Black"]
    assert sum(group.share for group in attribute.groups) == pytest.approx(2000 / 2012)
    assert component(figures, "impact_ratio").estimate.value == pytest.approx(0.925)
    with pytest.raises(InputError, match=r"got the reference Other with 12 of 2,012 rows, expected a share of at least 0\.02"):
        audit(counts, smallest_share=0.02, reference=["Other"])


# 6: a number as a protected column


def test_a_number_is_cut_at_its_quartiles_and_says_so():
    ages = pa.chunked_array([pa.array(range(17, 91))])
    groups = group_codes(ages, Column(name="age", kind="integer"))
    assert len(groups.names) == 4
    favoured = np.arange(74) % 2 == 0
    attribute, _ = attribute_figures("age", ["age"], groups, favoured, confidence=0.95)
    assert attribute.cut == "age is a number: its groups are its quartiles"


def test_a_hundred_groups_are_refused():
    countries = pa.chunked_array([pa.array([f"country {n}" for n in range(120)])])
    with pytest.raises(InputError, match="got 120 groups in native-country, expected at most 50"):
        group_codes(countries, Column(name="native-country", kind="category"))


# 12: missing values


def test_missing_values_are_a_group_of_their_own():
    values = pa.chunked_array([pa.array(["x", None, "y", "x", None, "y", "x"])])
    groups = group_codes(values, Column(name="g", kind="category", missing=True))
    attribute, _ = attribute_figures("g", ["g"], groups, np.array([1, 1, 0, 0, 1, 0, 1], bool), confidence=0.95)
    assert {one.name: one.rows for one in attribute.groups} == {"missing": 2, "x": 3, "y": 2}
    assert sum(one.share for one in attribute.groups) == pytest.approx(1)


# 14: one group alone


def test_one_group_alone_cannot_be_compared():
    attribute, figures = audit({"Male": (30, 20, 10, 40)})
    reason = "there are no two groups to compare: every row is Male"
    for name in ("impact_ratio", "statistical_parity_gap", "equal_opportunity_gap", "equalized_odds_gap"):
        assert (component(figures, name).estimate.value, component(figures, name).estimate.reason) == (None, reason)
    assert attribute.unjudged == reason and attribute.p_value is None and attribute.pairs == []
    assert judged(figures, "impact_ratio", min=0.8).verdict == "inconclusive"


# 15: a group that no row is in


def test_a_reference_that_no_row_is_in_is_an_error_with_its_name():
    with pytest.raises(InputError, match="unknown group 'Whit'; did you mean White"):
        audit({"White": (30, 20, 10, 40), "Black": (30, 20, 10, 40)}, reference=["Whit"])


def test_of_a_crossing_only_the_declared_combinations_that_occur_are_the_reference():
    names, parts = ["F × Black", "M × Asian", "M × White"], [("F", "Black"), ("M", "Asian"), ("M", "White")]
    groups = Groups(codes=np.repeat([0, 1, 2], 40), names=names, parts=parts)
    favoured = np.arange(120) % 3 == 0
    declared = ["M × White", "M × Asian", "M × Other"]
    attribute, figures = attribute_figures("both", ["sex", "race"], groups, favoured, confidence=0.95, reference=declared)
    assert attribute.reference == "M × White, M × Asian" and attribute.groups[0].rows + attribute.groups[1].rows == 120
    assert {"sex": "M", "race": "White, Asian"} in [one.slice for one in figures]
    with pytest.raises(InputError, match="unknown group 'M × Other'"):
        attribute_figures("both", ["sex", "race"], groups, favoured, confidence=0.95, reference=["M × Other"])


# 16: several privileged groups, all against the rest, all pairs


def test_several_privileged_groups_are_one_reference():
    counts = {"White": (30, 20, 10, 40), "Asian": (20, 10, 5, 15), "Black": (20, 30, 5, 45)}
    attribute, figures = audit(counts, reference=["White", "Asian"])
    assert attribute.reference == "White, Asian" and attribute.declared
    assert {one.name: one.rows for one in attribute.groups} == {"White, Asian": 150, "Black": 100}
    assert component(figures, "impact_ratio").estimate.value == pytest.approx(0.25 / (65 / 150))
    assert of_group(figures, "selection_rate", "White, Asian").estimate.value == pytest.approx(65 / 150)


def test_every_group_stands_against_all_other_rows_and_every_pair_is_compared():
    counts = {"a": (300, 200, 100, 400), "b": (200, 300, 50, 450), "c": (290, 210, 110, 390)}
    attribute, _ = audit(counts)
    assert [one.name for one in attribute.groups] == ["a", "c", "b"]
    b = attribute.groups[-1]
    assert b.rest_gap == pytest.approx(0.25 - 0.4) and (b.rest_p or 1) < 1e-6
    assert [(pair.first, pair.second) for pair in attribute.pairs] == [("c", "a"), ("b", "a"), ("b", "c")]
    by_pair = {(pair.first, pair.second): pair for pair in attribute.pairs}
    assert by_pair["b", "a"].p_value < 1e-6 and by_pair["c", "a"].p_value == 1
    assert by_pair["c", "a"].low is not None and by_pair["c", "a"].low < 1 < (by_pair["c", "a"].high or 0)
    assert (attribute.p_value or 1) < 1e-6


# Errors of the model


def with_errors(errors_of: dict[str, int]) -> tuple[Attribute, list[Figure]]:
    """Two groups of 1,000 rows with rates 0.4 and 0.38, and rows without a usable answer beside them."""
    codes = np.concatenate([np.repeat([0, 1], 1000), *(np.full(n, place) for place, n in enumerate(errors_of.values()))])
    favoured = np.zeros(len(codes), bool)
    favoured[:400] = favoured[1000:1380] = True
    failed = np.arange(len(codes)) >= 2000
    groups = Groups(codes=codes, names=list(errors_of), parts=[(name,) for name in errors_of])
    return attribute_figures("g", ["g"], groups, favoured, confidence=0.95, errors=failed)


def test_errors_are_in_no_rate_but_in_the_worst_case():
    attribute, figures = with_errors({"a": 30, "b": 100})
    assert {one.name: (one.rows, one.figures[0].n) for one in attribute.groups} == {"a": (1030, 1000), "b": (1100, 1000)}
    ratio = component(figures, "impact_ratio")
    assert ratio.estimate.value == pytest.approx(0.95)
    assert ratio.pessimistic is not None and ratio.pessimistic.value == pytest.approx((380 / 1100) / (430 / 1030))
    gap = component(figures, "statistical_parity_gap")
    assert gap.pessimistic is not None and gap.pessimistic.value == pytest.approx(430 / 1030 - 380 / 1100)
    found = judged(figures, "impact_ratio", min=0.8)
    assert found.verdict == "inconclusive" and "not with the errors counted as failures" in found.reason
    assert judged(with_errors({"a": 1, "b": 1})[1], "impact_ratio", min=0.8).verdict == "passed"


def test_a_gate_on_one_group_stands_the_worst_case_whichever_way_it_looks():
    _, figures = with_errors({"a": 30, "b": 100})
    difference = of_group(figures, "statistical_parity_difference", "b")
    assert difference.pessimistic is not None
    low, high = difference.pessimistic.bounds(0.95) or (0, 0)
    assert low < 380 / 1100 - 430 / 1030 and high > 480 / 1100 - 400 / 1030


def test_a_group_without_any_answer_leaves_the_attribute_unjudged():
    codes = np.repeat([0, 1, 2], [300, 300, 5])
    groups = Groups(codes=codes, names=["a", "b", "c"], parts=[("a",), ("b",), ("c",)])
    attribute, figures = attribute_figures("g", ["g"], groups, np.arange(605) % 2 == 0, confidence=0.95, errors=codes == 2)
    assert attribute.unjudged == "c: none of its rows has a usable answer"
    assert attribute.groups[-1].name == "c" and attribute.groups[-1].figures[0].value is None
    assert component(figures, "impact_ratio").estimate.value == 1
    assert judged(figures, "impact_ratio", min=0.5).verdict == "inconclusive"


# Names and slices


def test_a_crossing_has_both_columns_in_its_slices_and_classes_are_told_apart():
    groups = Groups(codes=np.repeat([0, 1], 50), names=["F × Black", "M × White"], parts=[("F", "Black"), ("M", "White")])
    favoured = np.arange(100) % 3 == 0
    attribute, figures = attribute_figures(
        "sex × race", ["sex", "race"], groups, favoured, confidence=0.95, favorable="high", one_of_several=True
    )
    assert attribute.columns == ["sex", "race"] and attribute.favorable == "high"
    assert component(figures, "impact_ratio").slice == {"attribute": "sex × race", "class": "high"}
    slices = [one.slice for one in figures if one.name == "selection_rate"]
    assert {"sex": "F", "race": "Black", "class": "high"} in slices and len(slices) == 2


def test_scoring_rates_have_names_of_their_own():
    groups = Groups(codes=np.repeat([0, 1], 50), names=["a", "b"], parts=[("a",), ("b",)])
    _, figures = attribute_figures(
        "g", ["g"], groups, np.arange(100) % 3 == 0, confidence=0.95, rate_name="scoring_rate", ratio_name="scoring_ratio"
    )
    names = {one.name for one in figures}
    assert names == {"scoring_rate", "scoring_ratio", "scoring_rate_difference", "scoring_rate_gap"}


def test_an_inconclusive_gate_says_how_many_rows_would_decide():
    _, figures = audit({"a": (100, 100, 100, 100), "b": (90, 110, 90, 110)}, reference=["a"])
    found = judged(figures, "impact_ratio", min=0.8)
    assert found.verdict == "inconclusive" and "rows would decide (800 here)" in found.reason
    gap = judged(figures, "statistical_parity_gap", max=0.1)
    assert gap.verdict == "inconclusive" and "rows would decide (800 here)" in gap.reason

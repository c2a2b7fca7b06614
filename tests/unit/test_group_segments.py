"""Segments in which a group is served otherwise: found where planted, and where nobody of the group is selected."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import fisher_exact

from aitest_lib.data.groups import Groups
from aitest_lib.reports.segments import crossed_columns, rank_segments
from aitest_lib.reports.slices import SliceColumn, rank_slices
from aitest_lib.scorers.group_fairness import attribute_figures
from aitest_lib.stats.intervals import newcombe


def groups(codes: np.ndarray, names: list[str]) -> Groups:
    return Groups(codes=codes, names=names, parts=[(name,) for name in names])


def cut(name: str, codes: np.ndarray) -> SliceColumn:
    return SliceColumn(name, [f"{name} {n}" for n in range(int(codes.max()) + 1)], codes.astype(np.int32))


def ranked(sex: Groups, favoured: np.ndarray, columns: list[SliceColumn], **options):
    attribute, _ = attribute_figures("sex", ["sex"], sex, favoured, confidence=0.95, **options)
    return rank_segments([(attribute, sex)], favoured, columns, 0.95)


def test_a_planted_segment_comes_first():
    rng = np.random.default_rng(0)
    n = 6_000
    sex = groups(rng.integers(0, 2, n), ["Female", "Male"])
    job, region = rng.integers(0, 6, n), rng.integers(0, 8, n)
    favoured = rng.random(n) < np.where((sex.codes == 0) & (job == 2), 0.1, 0.4)
    found = ranked(sex, favoured, [cut("job", job), cut("region", region), cut("sex", sex.codes)], reference=["Male"])
    assert (found[0].group, found[0].reference, found[0].column, found[0].value) == ("Female", "Male", "job", "job 2")
    assert found[0].flagged and found[0].difference < found[0].high < -0.2
    assert {one.column for one in found} == {"job", "region"}
    assert [one.flagged for one in found] == sorted((one.flagged for one in found), reverse=True)


def test_hardly_anything_is_flagged_where_there_is_nothing():
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(100):
        sex = groups(rng.integers(0, 2, 1_000), ["Female", "Male"])
        favoured = rng.random(1_000) < 0.3
        found = ranked(sex, favoured, [cut("job", rng.integers(0, 6, 1_000))], reference=["Male"])
        wrong += any(one.flagged for one in found)
    assert wrong <= 9


def test_a_segment_in_which_nobody_of_the_group_is_selected_is_looked_at():
    sex = groups(np.repeat([0, 1, 0, 1], [40, 40, 200, 200]), ["Female", "Male"])
    job = np.repeat([0, 0, 1, 1], [40, 40, 200, 200])
    favoured = np.concatenate([np.zeros(40, bool), np.arange(40) < 20, np.tile([True, False], 200)])
    [worst, other] = ranked(sex, favoured, [cut("job", job)], reference=["Male"])
    assert (worst.value, worst.rate, worst.reference_rate, worst.rows, worst.reference_rows) == ("job 0", 0, 0.5, 40, 40)
    p = fisher_exact([[0, 40], [20, 20]]).pvalue
    assert worst.flagged and worst.q_value == pytest.approx(2 * p)
    assert (worst.low, worst.high) == newcombe(0, 40, 20, 40).bounds(0.95)
    assert other.difference == 0 and other.q_value == pytest.approx(1)


def test_segments_of_few_rows_or_few_expected_are_not_looked_at():
    sex = groups(np.repeat([0, 1, 0, 1], [29, 400, 40, 400]), ["Female", "Male"])
    job = np.repeat([0, 0, 1, 1], [29, 400, 40, 400])
    favoured = np.concatenate([np.arange(429) % 2 == 0, np.zeros(440, bool)])
    favoured[500:520] = True  # of 440 rows: 1.8 expected of 40
    assert ranked(sex, favoured, [cut("job", job)], reference=["Male"]) == []


def test_members_of_a_pooled_reference_stand_together_and_excluded_groups_nowhere():
    rng = np.random.default_rng(2)
    race = groups(np.concatenate([rng.integers(0, 3, 3_000), np.full(50, 3)]), ["A", "B", "C", "D"])
    job = rng.integers(0, 2, 3_050)
    favoured = rng.random(3_050) < 0.4
    attribute, _ = attribute_figures(
        "race", ["race"], race, favoured, confidence=0.95, reference=["A", "C"], smallest_share=0.05
    )
    found = rank_segments([(attribute, race)], favoured, [cut("job", job)], 0.95)
    assert {(one.group, one.reference) for one in found} == {("B", "A, C")}
    [first] = [one for one in found if one.value == "job 0"]
    inside = (job == 0) & np.isin(race.codes, [0, 2])
    assert first.reference_rows == inside.sum() and first.reference_rate == pytest.approx(favoured[inside].mean())


def test_groups_are_crossed_with_the_other_columns():
    rng = np.random.default_rng(3)
    sex = groups(rng.integers(0, 2, 2_000), ["Female", "Male"])
    job = rng.integers(0, 3, 2_000)
    crossings = crossed_columns({"sex": sex}, [cut("job", job), cut("sex", sex.codes)])
    assert [one.name for one in crossings] == ["sex × job"]
    assert crossings[0].names == [f"{name} × job {n}" for name in ("Female", "Male") for n in range(3)]
    failing = rng.random(2_000) < np.where((sex.codes == 0) & (job == 1), 0.5, 0.1)
    worst = rank_slices(crossings, np.ones(2_000, bool), failing, 0.95)[0]
    assert (worst.name, worst.value, worst.flagged) == ("sex × job", "Female × job 1", True)
    assert worst.seeds == ((sex.codes == 0) & (job == 1)).sum()

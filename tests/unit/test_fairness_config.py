"""What a suite may say of fairness of tables, and how it is told what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aitest_lib.config.fairness import EXPECTED, Expectation, Protected, expectations
from aitest_lib.config.loading import Document
from aitest_lib.config.suite import LoadedSuite, PropertyConfig, check_fit, suite_of
from aitest_lib.errors import InputError

GROUPS, PAIRS, DIRECTIONS = "tabular.group_fairness", "tabular.individual_fairness", "tabular.directional"


def suite(item: dict[str, Any], **data: Any) -> LoadedSuite:
    given = {"test": "t.csv", "protected": ["sex"], **data}
    return suite_of(Document({"suite": "s", "model": {"card": "m.yaml"}, "data": given, "properties": [item]}), Path())


class TestDirections:
    def test_what_a_suite_says_of_a_column(self):
        given = {
            "income": "increasing",
            "age": {"decreasing": "score"},
            "debts": "never_helps",
            "school": {"never_hurts": "decision", "order": ["none", "some", "much"]},
        }
        config = suite({"property": DIRECTIONS, "directions": given}).suite.properties[0]
        assert expectations(config.directions) == {
            "income": Expectation("increasing"),
            "age": Expectation("decreasing", "score"),
            "debts": Expectation("never_helps"),
            "school": Expectation("never_hurts", "decision", ["none", "some", "much"]),
        }
        again = PropertyConfig.model_validate(config.model_dump(mode="json"))
        assert again == config

    def test_which_way_is_up(self):
        assert [name for name in EXPECTED if Expectation(name).upwards] == ["increasing", "never_hurts"]

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ("up", r"directions\.income: unknown value 'up'; known: decreasing, increasing, never_helps, never_hurts"),
            ({"increasing": "scores"}, r"directions\.income\.increasing: unknown value 'scores'; did you mean score"),
            ({"increasing": "score", "decreasing": "score"}, "got 2 directions, expected one of increasing, decreasing"),
            ({"order": ["a", "b"]}, "got 0 directions"),
            ({"score": "increasing"}, "unknown key 'score'"),
            (3, "got 3, expected a mapping"),
            ({"increasing": "score", "order": ["a"]}, "order"),
        ],
    )
    def test_what_is_wrong_is_told_with_its_place(self, given, said):
        with pytest.raises(InputError, match=said):
            suite({"property": DIRECTIONS, "directions": {"income": given}})

    def test_without_a_column_there_is_nothing_to_move(self):
        with pytest.raises(InputError, match="needs columns and how they may move the answer: directions:"):
            suite({"property": DIRECTIONS})
        with pytest.raises(InputError, match="moves no column; remove the key"):
            suite({"property": GROUPS, "directions": {"income": "increasing"}})

    def test_a_regressor_has_no_score(self):
        loaded = suite({"property": DIRECTIONS, "directions": {"income": {"increasing": "score"}}})
        with pytest.raises(InputError, match="got score for a regressor, which answers numbers; write income: increasing"):
            check_fit(loaded, "tabular-regressor", labelled=False)
        check_fit(suite({"property": DIRECTIONS, "directions": {"income": "increasing"}}), "tabular-regressor", labelled=False)


class TestProtected:
    def test_one_group_or_several(self):
        assert Protected().reference == []
        assert Protected(privileged="m").reference == ["m"]
        assert Protected(privileged=["a", "b"]).reference == ["a", "b"]

    def test_edges_ascend(self):
        assert suite({"property": GROUPS}, protected={"age": {"cut_at": [40, 65]}})
        with pytest.raises(InputError, match=r"protected\.age\.cut_at: got \[65.0, 40.0\], expected ascending numbers"):
            suite({"property": GROUPS}, protected={"age": {"cut_at": [65, 40]}})

    @pytest.mark.parametrize("name", [GROUPS, PAIRS])
    def test_without_a_protected_column_there_is_nothing_to_compare(self, name):
        with pytest.raises(InputError, match=rf"data: {name} compares by protected columns; name them as data.protected"):
            check_fit(suite({"property": name}, protected={}), "tabular-classifier", labelled=True)


class TestKeys:
    @pytest.mark.parametrize(
        ("item", "said"),
        [
            ({"property": GROUPS, "rows": 100}, "rows: .* grows no surrogate"),
            ({"property": GROUPS, "search": {"queries": 5}}, "search: .* searches for nothing"),
            ({"property": PAIRS, "transforms": [{"name": "numeric_noise"}]}, "takes no transforms"),
            ({"property": PAIRS, "min_group_share": 0.02}, "compares no groups"),
            ({"property": PAIRS, "search": {"method": "rays"}}, r"search\.method: is for images"),
            ({"property": PAIRS, "search": {"baselines": []}}, r"search\.baselines: is for images"),
            ({"property": PAIRS, "gates": {"prevalence": {"min": 0.1}}}, "the less of it the better: give a max"),
            ({"property": PAIRS, "gates": {"prevalence": {"max": 5}}}, "expected a share from 0 to 1"),
            ({"property": GROUPS, "gates": {"impact": {"min": 0.8}}}, "did you mean impact_ratio"),
            ({"property": GROUPS, "gates": {"equal_opportunity_gap": {"min": 0.1}}}, "give a max"),
        ],
    )
    def test_what_does_not_belong_is_told(self, item, said):
        with pytest.raises(InputError, match=said):
            suite(item)

    def test_what_belongs_is_taken(self):
        assert suite({"property": PAIRS, "rows": 50, "search": {"queries": 10, "labels_only": True}})
        assert suite({"property": GROUPS, "min_group_share": 0.02, "gates": {"impact_ratio": {"min": 0.8}}})
        assert suite({"property": GROUPS, "gates": {"statistical_parity_difference": {"min": -0.1, "slice": {"sex": "F"}}}})

"""The `search` of a suite: what may stand there, and one clear message for everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from aitest_lib.config.loading import Document
from aitest_lib.config.suite import attacks_of, check_fit, suite_of
from aitest_lib.errors import InputError


def suite(search=None, **more):
    asked = {"property": "image.adversarial", **({} if search is None else {"search": search}), **more}
    data = {"suite": "s", "model": {"card": "c.yaml"}, "data": {"test": "d.npz"}, "properties": [asked]}
    return suite_of(Document(data), Path.cwd())


def attacks(search=None):
    loaded = suite(search)
    return attacks_of(loaded.suite.properties[0], loaded.document, ())


def test_by_itself_it_is_auto_within_eight_grey_levels_beside_two_baselines():
    main, *baselines = attacks()
    assert (main.name, main.radius, main.queries, main.labels_only) == ("auto", 8, 250, False)
    assert [one.name for one in baselines] == ["random", "square"]
    assert {(one.delta, one.queries) for one in baselines} == {(main.delta, main.queries)}


def test_labels_alone_leave_one_baseline_and_a_method_is_none_of_its_own():
    assert [one.name for one in attacks({"labels_only": True})] == ["auto", "random"]
    assert [one.name for one in attacks({"method": "square"})] == ["square", "random"]
    assert [one.name for one in attacks({"baselines": []})] == ["auto"]


@pytest.mark.parametrize(("delta", "levels"), [(8 / 255, 8), (0.0314, 8), (0.3, 76), (1 / 255, 1), (1, 255)])
def test_a_delta_is_whole_grey_levels(delta, levels):
    assert attacks({"delta": delta})[0].radius == levels


@pytest.mark.parametrize(
    ("search", "where", "says"),
    [
        ({"method": "autos"}, "search.method", "unknown search 'autos'; did you mean auto"),
        ({"delta": 0.001}, "search.delta", "got delta 0.001, expected at least one grey level of an 8-bit image, 1/255"),
        ({"delta": 0}, "search.delta", "got 0, expected more than 0"),
        ({"delta": 8}, "search.delta", "got 8"),
        ({"queries": 0}, "search.queries", "got 0"),
        ({"queries": 2.5}, "search.queries", "got 2.5"),
        ({"time_limit_s": 0}, "search.time_limit_s", "got 0"),
        ({"baselines": ["random", "random"]}, "search.baselines[1]", "random is there twice; remove one"),
        ({"baselines": ["auto"]}, "search.baselines[0]", "auto is there twice; remove one"),
        ({"baselines": ["rotate"]}, "search.baselines[0]", "unknown search 'rotate'"),
        ({"method": "square", "labels_only": True}, "search.method", "square is guided by scores"),
        ({"labels_only": True, "baselines": ["sign_hunter"]}, "search.baselines[0]", "these need none: "),
        ({"epsilon": 0.1}, "search.epsilon", "unknown key"),
    ],
)
def test_each_mistake_is_told_with_its_place(search, where, says):
    with pytest.raises(InputError) as caught:
        suite(search)
    assert where in str(caught.value)
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("queries", [251, 0, 2.5, True, "50"])
def test_a_gate_on_more_queries_than_there_are(queries):
    with pytest.raises(InputError, match="from 1 to the 250 that a search may cost"):
        suite(gates={"success_rate": {"max": 0.1, "slice": {"queries": queries}}})


def test_gates_are_shares_of_figures_that_there_are():
    with pytest.raises(InputError, match="expected a share from 0 to 1"):
        suite(gates={"attacked_accuracy": {"min": 50}})
    with pytest.raises(InputError, match="unknown metric 'robust_accuracy'"):
        suite(gates={"robust_accuracy": {"min": 0.5}})


def test_transforms_and_other_properties():
    with pytest.raises(InputError, match="takes no transforms"):
        suite(transforms=[{"name": "rotate"}])
    asked = {"property": "image.robustness", "search": {}}
    data = {"suite": "s", "model": {"card": "c.yaml"}, "data": {"test": "d.npz"}, "properties": [asked]}
    with pytest.raises(InputError, match=r"image\.robustness searches for nothing; remove the key"):
        suite_of(Document(data), Path.cwd())


def test_a_tabular_model_has_no_images():
    with pytest.raises(InputError, match="does not fit a tabular-classifier"):
        check_fit(suite(), "tabular-classifier", True)

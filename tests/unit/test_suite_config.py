"""Suites: what is accepted, and what each mistake is told."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from aitest_lib.config.gates import Gate
from aitest_lib.config.loading import Document
from aitest_lib.config.suite import check_fit, load_suite, suite_of, transforms_of
from aitest_lib.errors import InputError

BASE = {
    "suite": "s",
    "model": {"card": "m.yaml"},
    "data": {"test": "t.csv"},
    "properties": [{"property": "tabular.robustness"}],
}


def suite(**changes):
    return suite_of(Document({**BASE, **changes}), Path())


def robustness(**changes):
    return suite(properties=[{"property": "tabular.robustness", **changes}])


def problem(make, *args, **changes) -> str:
    with pytest.raises(InputError) as caught:
        make(*args, **changes)
    return str(caught.value)


def components(loaded):
    return transforms_of(loaded.suite.properties[0], loaded.document, ("properties", 0))


class TestSuite:
    def test_defaults(self):
        made = suite().suite
        assert (made.confidence, made.max_error_rate, made.sequential, made.decide) == (0.95, 0.01, False, "interval")
        assert (made.data.sample, made.random_seed, made.budget.queries, made.model.version) == ("all", 0, None, "latest")

    def test_everything(self):
        loaded = suite(
            random_seed=7,
            budget={"queries": 10, "cost_per_query": 0.5},
            data={
                "test": "t.csv",
                "train": "train.csv",
                "label": "y",
                "favorable": 1,
                "protected": {"sex": {"privileged": "M"}, "race": None},
                "schema": {"age": {"min": 17, "type": "integer"}, "ssn": {"private": True}},
                "rules": ["age >= 17"],
                "sample": 100,
            },
            sequential=True,
            decide="point",
        )
        assert loaded.suite.data.columns["age"].min == 17
        assert loaded.suite.data.protected["race"] is None

    def test_the_digest_is_that_of_the_content(self, tmp_path):
        text = dedent(
            """\
            suite: s
            model: {card: m.yaml}
            data: {test: t.csv}
            properties: [{property: tabular.robustness}]
            """
        )
        (tmp_path / "a.yaml").write_text(text)
        (tmp_path / "b.yaml").write_text("# another file\n" + text)
        first, second = load_suite(tmp_path / "a.yaml"), load_suite(tmp_path / "b.yaml")
        assert first.digest == second.digest == suite().digest
        assert suite(random_seed=1).digest != suite().digest
        assert first.base_dir == tmp_path

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"suite": "a b"}, "suite: got 'a b' (text), expected text like"),
            ({"suite": "../up"}, "expected text like"),
            ({"properties": []}, "properties: got a list of 0, expected a list of at least 1"),
            ({"sead": 1}, "unknown key 'sead'"),
            ({"propertys": 1}, "unknown key 'propertys'; did you mean properties?"),
            ({"model": {}}, "model: expected exactly one of name (a registered model) and card (a file)"),
            ({"model": {"card": "m", "name": "n"}}, "expected exactly one of name"),
            ({"data": {"test": "t", "sample": 0}}, "got 0, expected `all` or at least 1"),
            ({"data": {"test": "t", "sample": "some"}}, "data.sample: "),
            ({"data": {}}, "data.test: this key is required, but missing"),
            ({"confidence": 0.5}, "confidence: got 0.5, expected more than 0.5"),
            ({"max_error_rate": 1.5}, "max_error_rate: got 1.5, expected at most 1"),
            ({"budget": {"queries": -1}}, "budget.queries: got -1, expected at least 0"),
            ({"random_seed": "7"}, "random_seed: got '7' (text), expected a whole number"),
            ({"decide": "pont"}, "decide: unknown value 'pont'; did you mean point?"),
            ({"data": {"test": "t", "schema": {"a": {"typ": 1}}}}, "unknown key 'typ'; did you mean type?"),
            (
                {"data": {"test": "t", "schema": {"a": {"type": "int"}}}},
                "data.schema.a.type: unknown value 'int'; did you mean",
            ),
            ({"data": {"test": "t", "rules": ["age > 1", "age >"]}}, "data.rules[1]: rule 'age >': not an expression"),
            ({"data": {"test": "t", "rules": ["open('x')"]}}, "is not allowed"),
        ],
    )
    def test_mistakes(self, changes, message):
        assert message in problem(suite, **changes)

    def test_a_mistake_has_its_file_and_line(self, tmp_path):
        file = tmp_path / "suite.yaml"
        file.write_text(
            dedent(
                """\
                suite: s
                model: {card: m.yaml}
                data: {test: t.csv}
                properties:
                  - property: tabular.robustness
                    transforms:
                      - name: category_swap
                      - name: numeric_noise
                        epsilon: 11
                """
            )
        )
        assert problem(load_suite, file) == (
            f"{file}:9: properties[0].transforms[1].epsilon: got 11, expected at most 10.0 (numeric_noise)"
        )


class TestProperties:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"property": "tabular.robustnes"}, "properties[0].property: unknown property 'tabular.robustnes'; did you mean"),
            (
                {"gates": {"pas_rate": {"min": 1}}},
                "properties[0].gates.pas_rate: unknown metric 'pas_rate'; did you mean pass_rate",
            ),
            ({"gates": {"pass_rate": {}}}, "got no bound, expected exactly one of min, max"),
            ({"gates": {"pass_rate": {"min": 0, "max": 1}}}, "got both bounds, expected exactly one of min, max"),
            ({"gates": {"pass_rate": []}}, "got a list of 0, expected a list of at least 1"),
            ({"gates": {"pass_rate": {"mni": 1}}}, "unknown key 'mni'; did you mean min?"),
            ({"search": {"query": 100}}, "properties[0].search.query: unknown key 'query'; did you mean queries?"),
            ({"url": "x"}, "properties[0].url: unknown key 'url' here; did you mean properties.voices."),
            ({"transforms": []}, "properties[0].transforms: got a list of 0, expected a list of at least 1"),
            ({"transforms": [{"epsilon": 1}]}, "this transform has no name; write e.g. {name: category_swap}"),
            ({"transforms": [{"name": "numeric_nose"}]}, "transforms[0].name: unknown transform 'numeric_nose'; did you mean"),
            ({"transforms": [{"name": "numeric_noise", "epsilon": 0}]}, "transforms[0].epsilon: got 0, expected more than 0"),
            ({"transforms": [{"name": "numeric_noise", "epsilon": [0.1, "x"]}]}, "epsilon: got 'x' (text), expected a number"),
            ({"transforms": [{"name": "numeric_noise", "epsilon": []}]}, "got an empty list, expected at least one value"),
            ({"transforms": [{"name": "numeric_noise", "epsilon": [0.1, 0.10]}]}, "is there twice; remove one"),
            ({"transforms": [{"name": "category_swap"}] * 2}, "category_swap is there twice; remove one"),
            ({"transforms": [{"name": "numeric_noise", "sigma": 1}]}, "transforms[0].sigma: unknown key 'sigma'"),
            (
                {"transforms": [{"name": "category_swap", "columns": ["a", 5]}]},
                "properties[0].transforms[0].columns[1]: got 5, expected text; put it in quotes (category_swap)",
            ),
            ({"transforms": [{"name": "category_swap", "columns": "job"}]}, "columns: got 'job' (text), expected a list"),
            ({"tolerance": -1}, "properties[0].tolerance: got -1, expected at least 0"),
        ],
    )
    def test_mistakes(self, changes, message):
        assert message in problem(robustness, **changes)

    def test_a_group_property_takes_no_transforms(self):
        given = [{"property": "tabular.generalization", "transforms": [{"name": "category_swap"}]}]
        assert "tabular.generalization takes no transforms; remove the key" in problem(suite, properties=given)

    def test_a_gate_may_be_a_list(self):
        made = robustness(gates={"pass_rate": [{"min": 0.9, "slice": {}}, {"min": 0.8, "slice": {"sex": "F"}}]})
        assert made.suite.properties[0].gates == {
            "pass_rate": [Gate(min=0.9, slice={}), Gate(min=0.8, slice={"sex": "F"})],
        }

    def test_a_sweep_is_one_component_each(self):
        made = components(robustness(transforms=[{"name": "numeric_noise", "epsilon": [0.1, 1]}, {"name": "category_swap"}]))
        assert [item.slice for item in made] == [
            {"transform": "numeric_noise", "epsilon": 0.1},
            {"transform": "numeric_noise", "epsilon": 1.0},
            {"transform": "category_swap"},
        ]
        assert [item.strength_value for item in made] == [0.1, 1.0, None]

    def test_without_transforms_the_propertys_own(self):
        assert [item.name for item in components(suite())] == ["numeric_noise", "category_swap", "missing_value"]


class TestFit:
    def test_a_property_of_another_type(self):
        assert "tabular.robustness does not fit a image-classifier; these do: " in problem(
            check_fit, suite(), "image-classifier", labelled=True
        )

    def test_a_metric_of_another_type(self):
        loaded = suite(properties=[{"property": "tabular.generalization", "gates": {"f1": {"min": 0.5}}}])
        check_fit(loaded, "tabular-classifier", labelled=True)
        assert "properties[0].gates.f1: unknown metric 'f1'; known: mae, r2, rmse (tabular-regressor)" in problem(
            check_fit, loaded, "tabular-regressor", labelled=True
        )

    def test_labels_that_are_needed(self):
        loaded = suite(properties=[{"property": "tabular.generalization"}])
        assert "tabular.generalization needs labels; name their column as data.label" in problem(
            check_fit, loaded, "tabular-classifier", labelled=False
        )
        check_fit(suite(), "tabular-classifier", labelled=False)

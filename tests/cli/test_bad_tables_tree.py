"""Tables as they should not be, and the surrogate tree that is grown on them."""

import json

import numpy as np
import pandas as pd
import pytest
from model_server import serving
from projects import COLUMNS, new_project, people, property_of

IDS = [2**24, 2**24 + 1, 2**40, 2**40 + 1]


class TestTree:
    """What a surrogate tree makes of such columns. The model asks about three of them, each of which is easily got wrong."""

    TRAIN, TEST, TWICE = 600, 200, 10
    FROM = pd.Timestamp("2020-06-01")

    @classmethod
    def table(cls, rows, seed):
        rng = np.random.default_rng([seed, 1])
        towns = [f"big {n}" for n in range(5)] + [f"small {n}" for n in range(55)]
        return people(rows, seed=seed).assign(
            account=rng.choice(IDS[:2], rows),
            joined=pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 304, rows), unit="D"),
            town=rng.choice(towns, rows, p=[0.12] * 5 + [0.4 / 55] * 55),
            street=[f"street {seed} {n}" for n in range(rows)],
            level=3,
        )

    @classmethod
    def label(cls, row):
        account, joined, town = row[5:8]
        is_late = pd.Timestamp(joined) >= cls.FROM
        return "high" if account % 2 and is_late and town.startswith("big") else "low"

    @pytest.fixture(scope="class")
    @classmethod
    def tree(cls, tmp_path_factory):
        """What the report says of the property."""
        project = new_project(tmp_path_factory.mktemp("tree") / "project")
        train, test = cls.table(cls.TRAIN, 1), cls.table(cls.TEST, 2)
        data = {"test": "test.parquet", "train": "train.parquet", "label": "income", "schema": {"rate": {"private": True}}}
        gates = {"mpl": {"max": 12}, "fidelity": {"min": 0.9}}
        grown = {"property": "tabular.tree_simulatability", "generation": "none", "gates": gates}
        card = {"inputs": {"columns": [*COLUMNS, "account", "joined", "town", "street", "level"]}}
        with serving(cls.label) as server:
            project.fill(server, people(1), properties=[grown], card=card, suite={"data": data})
            train.to_parquet(project.folder / "train.parquet")
            pd.concat([test, train[: cls.TWICE]]).to_parquet(project.folder / "test.parquet")
            found = property_of(project.run(), "tabular.tree_simulatability")
        assert found["status"] == "passed", found["explanation"]
        return found

    @classmethod
    def questions(cls, node):
        """The questions of a node and of those below it."""
        return [node["test"], *cls.questions(node["yes"]), *cls.questions(node["no"])] if node["test"] else []

    def test_ids_beyond_24_bits_stay_apart(self, tree):
        assert f"account <= {IDS[0]}" in self.questions(tree["tree"]["root"])

    def test_a_date_is_asked_about_as_a_date(self, tree):
        [asked] = {test for test in self.questions(tree["tree"]["root"]) if test.startswith("joined")}
        assert abs(pd.Timestamp(asked.removeprefix("joined <= ")) - self.FROM) <= pd.Timedelta(days=10)

    def test_a_column_of_many_categories_is_asked_about_by_groups(self, tree):
        asked = [test for test in self.questions(tree["tree"]["root"]) if test.startswith("town")]
        assert asked
        assert all(test.startswith("town in {big") for test in asked)

    def test_columns_that_it_never_asks_about(self, tree):
        """A constant one, one of free text, a private one."""
        assert {"street", "rate"}.isdisjoint(tree["tree"]["columns"])
        asked = {test.split()[0] for test in self.questions(tree["tree"]["root"])}
        assert asked and {"level", "street", "rate"}.isdisjoint(asked)
        assert "rate" not in json.dumps(tree["tree"]["root"])

    def test_rows_of_the_training_data_among_the_others_are_counted_and_warned_of(self, tree):
        assert tree["tree"]["repeated"] == self.TWICE
        assert f"{self.TWICE} of {self.TEST + self.TWICE} held-out rows equal rows" in tree["explanation"]

    def test_the_majority_and_each_class_are_shown(self, tree):
        whole = {item["name"]: item["value"] for item in tree["metrics"] if item["slice"] == {}}
        assert 0.75 < whole["majority_fidelity"] < 0.95
        assert f"always answering low would on {whole['majority_fidelity']:.3f}" in tree["explanation"]
        by_class = {item["slice"]["class"]: item for item in tree["metrics"] if item["name"] == "class_fidelity"}
        assert set(by_class) == {"high", "low"}
        assert by_class["high"]["value"] > 0.8
        assert by_class["high"]["n"] + by_class["low"]["n"] == self.TEST + self.TWICE

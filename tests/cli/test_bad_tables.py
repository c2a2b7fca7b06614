"""Tables and answers as they should not be: each ends as an error of its rows, one message, or a note; never silently wrong."""

import json
import random

import numpy as np
import pandas as pd
import pytest
from model_server import serving
from projects import COLUMNS, NOISE_AND_SWAP, income, is_calm, new_project, people, property_of

from aitest_flows import api
from aitest_flows.runner import Options
from aitest_lib.config.loading import Document
from aitest_lib.config.suite import suite_of
from aitest_lib.errors import InputError
from aitest_lib.models.endpoint import transport
from aitest_lib.types import ModelInfo
from aitest_tasks.settings import open_settings

GENERALIZATION = {"property": "tabular.generalization"}
ROBUSTNESS = {"property": "tabular.robustness", "transforms": NOISE_AND_SWAP}
MORE = ["visits", "level", "site", "street", "joined", "code", "account"]
IDS = [2**24, 2**24 + 1, 2**40, 2**40 + 1]


def stopped(found, code, *words):
    """It ended with this status and one message that has these words."""
    assert found.code == code, found.text
    assert is_calm(found.text), found.text
    message = " ".join(found.err[found.err.index("error:") :].split())
    assert [word for word in words if word not in message] == [], message


def audited(project, model, frame, info=None, **config):
    """The report on an object and a frame in memory; generalization only."""
    data = {"test": "in-memory", "label": "income"}
    suite = {"suite": "m", "random_seed": 7, "model": {"card": "in-memory"}, "data": data, "properties": [GENERALIZATION]}
    about = {"name": "m", "type": "tabular-classifier", "digest": "object", "reusable": False} | (info or {})
    with project.entered():
        loaded = suite_of(Document(suite | config), project.folder)
        report = api.run_suite(open_settings(), loaded, Options(), model=model, info=ModelInfo(**about), data=frame)
    return report.model_dump(mode="json")


class TestSent:
    """What goes to an endpoint of a table with columns of every awkward kind."""

    ROWS = 100

    @classmethod
    def table(cls):
        every = np.arange(cls.ROWS)
        visits = pd.array(every % 5, dtype="Int64")
        visits[::7] = pd.NA
        frame = people(cls.ROWS, wrong=0).assign(
            visits=visits,
            level=3,
            site="north",
            street=[f"street {place}" for place in every],
            joined=pd.Timestamp("2020-01-31") + pd.to_timedelta(every, unit="D"),
            code=np.array(["12", "012", "7"])[every % 3],
            account=np.array(IDS)[every % 4],
            unlisted=every,
        )
        frame.loc[[3, 50], "rate"] = np.nan
        frame.loc[[4, 5, 6], "job"] = None
        return frame

    @pytest.fixture(scope="class")
    @classmethod
    def ran(cls, tmp_path_factory):
        """The report, the project, and the rows as the model got them."""
        project = new_project(tmp_path_factory.mktemp("sent") / "project")
        with serving(income) as server:
            data = {"test": "data.parquet", "label": "income"}
            card = {"inputs": {"columns": [*COLUMNS, *MORE]}}
            project.fill(server, people(1), properties=[GENERALIZATION, ROBUSTNESS], card=card, suite={"data": data})
            cls.table()[::-1].iloc[:, ::-1].to_parquet(project.folder / "data.parquet")
            report = project.run()
        bodies = [json.loads(request["body"]) for request in server.requests]
        assert all(body["fields"] == [*COLUMNS, *MORE] for body in bodies)
        rows = pd.DataFrame([row for body in bodies for row in body["rows"]], columns=bodies[0]["fields"], dtype=object)
        return report, project, rows

    def test_columns_go_by_name_in_the_cards_order(self, ran):
        report, _, rows = ran
        assert list(rows.columns) == [*COLUMNS, *MORE]  # the file's order is the reverse, and it has more of them
        assert property_of(report, "tabular.generalization")["cases"]["passed"] == self.ROWS

    def test_missing_values_are_sent_as_null_and_noted(self, ran):
        report, _, rows = ran
        assert rows["rate"].isna().any() and rows["job"].isna().any() and rows["visits"].isna().any()
        [note] = [text for text in report["warnings"] if "missing values" in text]
        assert f"rows without a value, of {self.ROWS}: rate 2, job 3, visits 15" in note

    def test_integers_with_missing_values_are_numbers_and_null(self, ran):
        _, _, rows = ran
        assert set(rows["visits"]) == {0, 1, 2, 3, 4, None}

    def test_ids_beyond_24_bits_stay_apart(self, ran):
        _, _, rows = ran
        assert set(IDS) <= set(rows["account"])
        assert all(isinstance(value, int) for value in rows["account"])

    def test_text_of_digits_stays_text(self, ran):
        _, _, rows = ran
        assert set(rows["code"]) == {"12", "012", "7"}

    def test_dates_are_dates_and_no_numbers(self, ran):
        report, project, rows = ran
        assert rows["joined"].str.fullmatch(r"20\d\d-\d\d-\d\dT00:00:00").all()
        assert set(pd.to_datetime(rows["joined"])) == set(self.table()["joined"])
        assert not [flip for flip in property_of(report, "tabular.robustness")["flips"] if flip["column"] == "joined"]
        assert self.changed(project, report).isdisjoint({"joined"})

    def test_a_constant_column_is_left_alone(self, ran):
        report, project, rows = ran
        assert set(rows["level"]) == {3} and set(rows["site"]) == {"north"}
        assert self.changed(project, report) >= {"age", "hours", "rate", "job"}
        assert not [flip for flip in property_of(report, "tabular.robustness")["flips"] if flip["column"] == "level"]

    def test_a_column_of_many_texts_is_no_category(self, ran):
        report, project, _ = ran
        assert "street" not in self.changed(project, report)
        slices = [cut["name"] for item in report["properties"] for cut in item["slices"]]
        assert "street" not in slices and "sex" in slices

    @staticmethod
    def changed(project, report):
        """The columns that some case of the robustness property changes."""
        return {name for params in project.cases(report)["params"].to_pylist() for name in json.loads(params)["set"]}


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")  # scikit-learn's, at 1e39
class TestRowsThatBreakTheModel:
    """A scikit-learn pipeline that raises on some rows of a frame: those are errors, and the rest is judged."""

    ROWS = 300

    @pytest.fixture(scope="class")
    @classmethod
    def report(cls, tmp_path_factory):
        from sklearn.compose import make_column_transformer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder
        from sklearn.tree import DecisionTreeClassifier

        frame = people(cls.ROWS, wrong=0)
        frame["hours"] = frame["hours"].astype("Int64")
        encode = make_column_transformer((OneHotEncoder(), ["job", "sex"]), remainder="passthrough")
        model = make_pipeline(encode, DecisionTreeClassifier(random_state=0))
        model.fit(frame[COLUMNS].astype({"hours": float}), frame["income"])
        frame.loc[[0, 1], "job"] = "pilot"
        frame.loc[[2, 3, 4], "job"] = None
        frame.loc[5, "rate"] = 1e39
        frame.loc[6, "rate"] = float(2**40)
        frame.loc[7, "rate"] = np.nan
        frame.loc[8, "hours"] = pd.NA
        frame.index = [0] * len(frame)
        project = new_project(tmp_path_factory.mktemp("breaking") / "project")
        # The columns in another order than the model was fitted on.
        return audited(project, model, frame[["income", *COLUMNS[::-1]]], max_error_rate=0.1)

    @staticmethod
    def unanswered(report, words):
        """The cells of the rows whose reason has these words."""
        found = property_of(report, "tabular.generalization")
        assert sum(count for reason, count in found["errors"].items() if words in reason) > 0, found["errors"]
        return [one["case"] for one in found["unanswered"] if words in one["reason"]]

    def test_an_unseen_category(self, report):
        assert [row["job"] for row in self.unanswered(report, "Found unknown categories ['pilot']")] == ["pilot"] * 2

    def test_a_missing_text_is_told_with_its_row_and_column(self, report):
        assert [row["job"] for row in self.unanswered(report, "Found unknown categories [None]")] == ["missing"] * 3
        [note] = report["warnings"]
        assert "job 3" in note

    def test_a_number_beyond_32_bit_floats(self, report):
        assert [row["rate"] for row in self.unanswered(report, "value too large for dtype('float32')")] == ["1e+39"]

    def test_nothing_else_is_an_error(self, report):
        """Not 2^40, not the missing numbers, not the index, the order of the columns or integers with gaps."""
        cases = property_of(report, "tabular.generalization")["cases"]
        assert (cases["total"], cases["error"]) == (self.ROWS, 6)
        assert cases["passed"] >= self.ROWS - 6 - 3
        assert property_of(report, "tabular.generalization")["status"] == "unjudged"


INFINITE = {
    "csv": lambda frame, folder: frame.astype({"rate": object}).to_csv(folder / "data.csv", index=False),
    "parquet": lambda frame, folder: frame.to_parquet(folder / "data.parquet"),
}


@pytest.mark.parametrize("kind", INFINITE)
def test_an_infinity(project, server, kind):
    frame = people(60)
    frame.loc[7, "rate"] = np.inf
    project.fill(server, people(60), properties=[GENERALIZATION], suite={"data": {"test": f"data.{kind}", "label": "income"}})
    INFINITE[kind](frame, project.folder)
    stopped(project.here("run", "suite.yaml"), 2, f"data.{kind}", "'rate'", "infinity", "expected finite numbers or missing")
    assert server.calls == 0


def test_missing_and_further_columns_are_told_together(project, server):
    frame = people(60).rename(columns={"hours": "Hours"}).drop(columns="rate").assign(id=range(60))
    project.fill(server, frame, properties=[GENERALIZATION])
    found = project.here("run", "suite.yaml")
    stopped(found, 2, "inputs.columns", "no column 'hours' (did you mean Hours?), 'rate'; they have besides: Hours, id;")
    assert server.calls == 0


def test_a_column_that_a_model_in_memory_was_fitted_on_is_not_there(project):
    from sklearn.tree import DecisionTreeClassifier

    frame = people(60)
    model = DecisionTreeClassifier(random_state=0).fit(frame[["age", "hours", "rate"]], frame["income"])
    numbers = frame[["age", "rate", "income"]].assign(id=range(60))
    with pytest.raises(InputError, match="was fitted on hours, which it is not sent; it is sent age, rate, id"):
        audited(project, model, numbers)
    report = audited(project, model, numbers.assign(hours=frame["hours"]))  # further ones, in another order
    assert property_of(report, "tabular.generalization")["cases"]["passed"] == 60


def double(frame):
    return frame.rename(columns={"hours": "age"})


def test_a_column_name_twice(project, server):
    project.fill(server, double(people(60)), properties=[GENERALIZATION])
    stopped(project.here("run", "suite.yaml"), 2, "data.csv", "column 'age' occurs twice; rename one of them")
    assert server.calls == 0
    with pytest.raises(InputError, match="column 'age' occurs twice"):
        audited(project, lambda rows: ["low"] * len(rows), double(people(60)))


ANSWERED = {
    "text against numbers": (
        {"high": 1, "low": 0},
        {"high": "1", "low": "0"},
        None,
        (2, "'0', '1'", "differ in type, case or"),
    ),
    "spaces and a full stop": (
        {"high": " >50K.", "low": " <=50K."},
        {"high": ">50K", "low": "<=50K"},
        None,
        (2, "' <=50K.', ' >50K.'", "'<=50K', '>50K'", "differ in type, case or spaces only"),
    ),
    "spaces in one of them": (
        {"high": ">50K", "low": "<=50K"},
        {"high": " >50K", "low": "<=50K"},
        None,
        (2, "' >50K'", "'>50K'", "differ in type, case or spaces only"),
    ),
    "true against 1": ({"high": True, "low": False}, {"high": 1, "low": 0}, None, (2, "labels False, True", "answers 0, 1")),
    "true against 1, with classes": (
        {"high": True, "low": False},
        {"high": 1, "low": 0},
        [False, True],
        (3, "expected one of [false, true]", "by type only"),
    ),
}


@pytest.mark.parametrize("case", ANSWERED)
def test_labels_that_are_equal_but_for_their_writing(project, server, case):
    in_data, answers, classes, (code, *words) = ANSWERED[case]
    server.label = lambda row: answers[income(row)]
    data = people(90, wrong=0)
    project.fill(server, data.assign(income=data["income"].map(in_data)), properties=[GENERALIZATION])
    if classes:
        project.change("card.yaml", classes=classes)
    stopped(project.here("run", "suite.yaml"), code, *words)
    assert server.rows <= 1 + 2 * 50 + 101  # the rest is not paid for


def test_a_label_that_differs_from_a_class_by_a_space(project, server):
    server.label = lambda row: {"high": " high", "low": "low"}[income(row)]
    project.fill(server, people(90), properties=[GENERALIZATION], card={"classes": ["low", "high"]})
    report = project.run()
    [reason] = property_of(report, "tabular.generalization")["errors"]
    assert (
        "got the label ' high', expected one of ['low', 'high']; it differs from 'high' by case, spaces or a full stop"
        in reason
    )
    assert report["status"] == "error"


def test_one_class_in_the_data(project, server):
    project.fill(server, people(60).assign(income="low"), properties=[GENERALIZATION])
    stopped(project.here("run", "suite.yaml"), 2, "data.label 'income'", "got the one class 'low'", "expected at least two")
    assert server.calls == 0


def test_a_model_that_knows_one_class(project):
    from sklearn.dummy import DummyClassifier

    data = people(120, wrong=0)
    model = DummyClassifier().fit(data[COLUMNS], ["low"] * len(data))
    assert model.predict_proba(data[COLUMNS]).shape == (120, 1)
    report = audited(project, model, data, {"classes": ("high", "low")})
    found = property_of(report, "tabular.generalization")
    assert found["cases"]["passed"] == (data["income"] == "low").sum()
    assert found["cases"]["error"] == 0
    [auc] = [item["value"] for item in found["metrics"] if item["name"] == "roc_auc" and item["slice"] == {}]
    assert auc == 0.5


def test_answers_in_a_column_are_no_square(project):
    data = people(120, wrong=0)
    report = audited(project, lambda rows: np.array([[income(row)] for row in rows.to_numpy().tolist()]), data)
    assert property_of(report, "tabular.generalization")["cases"]["passed"] == 120
    regressor = {"type": "tabular-regressor"}
    numbers = data.assign(income=data["rate"])
    found = property_of(audited(project, lambda rows: rows[["rate"]], numbers, regressor), "tabular.generalization")
    assert next(item["value"] for item in found["metrics"] if item["name"] == "rmse") == 0


@pytest.mark.parametrize(("fault", "got"), [("short", "sent 1 row, got 0 labels"), ("empty", "sent 1 row")])
def test_too_few_answers(project, server, fault, got):
    project.fill(server, people(60), properties=[GENERALIZATION])
    server.inject(fault, None)
    stopped(project.here("run", "suite.yaml"), 3, got)


def test_one_answer_for_many_rows_is_told_and_not_spread_over_them(project, server):
    project.fill(server, people(60, wrong=0), properties=[GENERALIZATION])
    server.inject("one", None)
    stopped(project.here("probe", "card.yaml", "--data", "data.csv"), 3, "got 1 label", "the batch was then halved")
    assert property_of(project.run(), "tabular.generalization")["cases"]["passed"] == 60


def test_scores_that_are_no_probabilities(project, server):
    def scores(row):
        return {80: [0.5, 0.4], 81: [float("nan"), 0.5], 82: [1.5, -0.5], 83: [0.4995, 0.4998]}.get(row[0], [0.5, 0.5])

    data = people(400)
    server.score = scores
    response = {"scores": "predictions[*].score"}  # the label is the class of the highest one
    project.fill(server, data, properties=[GENERALIZATION], card={"classes": ["low", "high"]}, response=response)
    found = property_of(project.run(), "tabular.generalization")
    ages = data["age"].value_counts()
    expected = "expected probabilities in 0..1 that sum to 1"
    assert found["errors"] == {
        f"got scores that sum to 0.9, {expected}": ages[80],
        f"got scores that are not finite, {expected}": ages[81],
        f"got scores that lie outside 0..1, {expected}": ages[82],
    }


def test_the_majority_and_each_class_are_shown(project, server):
    data = people(400, wrong=0)
    data = pd.concat([data[data["income"] == "low"], data[data["income"] == "high"][:8]])
    server.label = lambda row: "low"  # accurate, and of no use
    found = property_of(project.fill(server, data, properties=[GENERALIZATION]).run(), "tabular.generalization")
    whole = {item["name"]: item["value"] for item in found["metrics"] if item["slice"] == {}}
    assert whole["accuracy"] == whole["majority_baseline"] > 0.95
    assert whole["balanced_accuracy"] == 0.5
    recall = {item["slice"]["class"]: item["value"] for item in found["metrics"] if item["name"] == "recall"}
    assert recall == {"low": 1, "high": 0}


def test_a_model_that_changes_its_mind_is_found_before_anything_is_judged(project, server):
    chance = random.Random(0)
    server.label = lambda row: chance.choice(["high", "low"])
    model = project.fill(server, people(120), properties=[GENERALIZATION]).run()["model"]
    assert model["deterministic"] is False
    assert model["self_flip_rate"] > 0.2
    bodies = [json.loads(request["body"])["rows"] for request in server.requests[:3]]
    assert [len(rows) for rows in bodies] == [1, 50, 50]
    assert bodies[1] == bodies[2]


def test_batches_have_the_cards_size_and_are_sent_again_after_a_time_out_or_a_refusal(project, server, monkeypatch):
    monkeypatch.setattr(transport, "BACKOFF_S", 0.02)
    server.slow_s = 60.0
    server.plan = {4: "slow", 6: "503", 8: "drop"}.get
    project.fill(server, people(120, wrong=0), properties=[GENERALIZATION], batch_size=16, timeout_s=1.5, retries=3)
    report = project.run()
    assert max(server.batch_sizes) == 16
    assert report["queries"]["retries"] >= 3
    assert report["queries"]["errors"] == 0
    assert property_of(report, "tabular.generalization")["cases"]["passed"] == 120

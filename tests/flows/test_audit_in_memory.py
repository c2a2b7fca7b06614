"""`api.audit` on objects in memory: a scikit-learn pipeline, a callable, and the kinds of columns that DataFrames have."""

import json
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
from projects import is_calm, people

from aitest_flows import api
from aitest_lib.errors import InputError

SCRIPT = """
    import json
    import numpy as np, pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from aitest_flows import api

    frame = pd.read_csv("data.csv")
    x, y = frame.drop(columns="income"), frame["income"]
    encode = make_column_transformer((OneHotEncoder(), ["job", "sex"]), (StandardScaler(), ["age", "hours", "rate"]))
    pipeline = make_pipeline(encode, LogisticRegression()).fit(x, y)
    report = api.audit(model=pipeline, data=frame, label="income", protected=["sex"])
    expected = float((pipeline.predict(x) == y).mean())
    print(json.dumps([report.model_dump(mode="json"), expected]))
"""


def test_a_pipeline_in_a_process_of_its_own(project):
    people(200).to_csv(project.folder / "data.csv", index=False)
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)],
        cwd=project.folder,
        env=project.environment(),
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert ran.returncode == 0, ran.stderr
    assert is_calm(ran.stderr), ran.stderr
    report, expected = json.loads(ran.stdout)
    metrics = {item["name"]: item["value"] for item in report["properties"][0]["metrics"] if item["slice"] == {}}
    assert metrics["accuracy"] == pytest.approx(expected)
    assert metrics["roc_auc"] > 0.5
    assert report["model"]["name"] == "Pipeline"
    assert report["queries"]["sent"] == report["queries"]["planned"]


class Rule:
    """Asks for the columns by name and keeps what it was given."""

    def __init__(self, rule):
        self.rule, self.seen = rule, []

    def predict(self, frame):
        self.seen.append(frame)
        return np.where(self.rule(frame), "yes", "no")


def audited(project, rule, frame, **options):
    with project.entered():
        return api.audit(model=Rule(rule), data=frame, label="target", **options)


def test_a_duplicate_index_plays_no_part(project):
    frame = people(120).drop(columns="income")
    frame = frame.assign(target=np.where(frame.age > 50, "yes", "no"))
    frame.index = [0] * len(frame)
    report = audited(project, lambda x: x["age"] > 50, frame)
    assert report.properties[0].cases.passed == 120
    assert report.properties[0].cases.error == 0


def test_integers_with_missing_values_booleans_and_dates(project):
    rng = np.random.default_rng(0)
    children = pd.array(rng.integers(0, 5, 150), dtype="Int64")
    children[::7] = pd.NA
    frame = pd.DataFrame(
        {
            "children": children,
            "member": rng.random(150) < 0.5,
            "joined": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, 150), unit="D"),
            "grade": pd.Categorical(rng.choice(["a", "b", "c"], 150)),
            "spend": rng.normal(100, 20, 150),
        }
    )
    frame["target"] = np.where(frame["member"] & (frame["spend"] > 95), "yes", "no")
    report = audited(project, lambda x: x["member"].astype(bool) & (x["spend"] > 95), frame, protected=["grade"])
    for item in report.properties:
        assert item.cases.error == 0, item.errors
        assert item.status != "error", item.reason
    assert report.properties[0].cases.passed == 150


def test_a_function_is_a_model(project):
    frame = people(80).drop(columns="income").assign(target=lambda x: x.age % 2)
    with project.entered():
        report = api.audit(model=lambda x: (x["age"] % 2).to_numpy(), data=frame, label="target")
    assert report.model.type == "tabular-classifier"
    assert report.properties[0].cases.passed == 80


def test_numbers_with_many_values_are_a_regression(project):
    frame = people(80).drop(columns="income").assign(target=lambda x: x.rate * 2)
    with project.entered():
        report = api.audit(model=lambda x: (x["rate"] * 2).to_numpy(), data=frame, label="target")
    assert report.model.type == "tabular-regressor"
    [rmse] = [item.value for item in report.properties[0].metrics if item.name == "rmse"]
    assert rmse == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"model": object()}, "predict"),
        ({"label": "targett"}, "target"),
        ({"data": [1, 2]}, "DataFrame"),
        ({"protected": ["gender"]}, "gender"),
        ({"frash": True}, "fresh"),
    ],
)
def test_what_a_caller_gets_wrong_is_one_message(project, broken, words):
    frame = people(40).rename(columns={"income": "target"})
    with project.entered(), pytest.raises(InputError, match=words):
        api.audit(**({"model": Rule(lambda x: x["age"] > 50), "data": frame, "label": "target"} | broken))


def test_a_broken_model_does_not_stop_the_next_one(project):
    frame = people(60).drop(columns="income").assign(target=lambda x: np.where(x.age > 50, "yes", "no"))

    def breaks(x):
        raise RuntimeError("no model here")

    with project.entered():
        with pytest.raises(Exception, match="no model here"):
            api.audit(model=breaks, data=frame, label="target")
        report = api.audit(model=Rule(lambda x: x["age"] > 50), data=frame, label="target")
    assert report.properties[0].cases.total == 60

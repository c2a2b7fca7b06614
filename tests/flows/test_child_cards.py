"""Whole runs on models in processes of their own: an ONNX file, a model that crashes on some rows, one that always does."""

import numpy as np
from projects import COLUMNS, income, is_calm, people, property_of, suite_data

GENERALIZATION = {"property": "tabular.generalization", "gates": {"accuracy": {"min": 0.5}}, "max_error_rate": 0.1}
CRASHING = """
import os

def model(table):
    if (table["age"] % 30 == 1).any():
        print("noise " * 1000, flush=True)
        os.kill(os.getpid(), 11)
    return ["high" if age + hours > 95 else "low" for age, hours in zip(table["age"], table["hours"])]

def broken(table):
    os._exit(3)
"""


def written(project, data, card, properties):
    data.to_csv(project.folder / "data.csv", index=False)
    (project.folder / "naughty.py").write_text(CRASHING)
    project.write("card.yaml", {"name": "m", "type": "tabular-classifier", "inputs": {"columns": COLUMNS}} | card)
    project.write("suite.yaml", suite_data(properties))
    return project


def test_rows_that_crash_the_model_are_errors(project):
    data = people(150, seed=4)
    written(project, data, {"python": {"callable": "naughty:model"}}, [GENERALIZATION])
    ended = project.here("run", "suite.yaml", "--json", "report.json")
    report = project.report("report.json")
    crashing = int((data["age"] % 30 == 1).sum())
    assert crashing == 3
    assert property_of(report, "tabular.generalization")["cases"]["error"] == crashing
    assert report["queries"]["errors"] == crashing
    assert ended.code == 0, ended.text
    assert is_calm(ended.text)


def test_a_model_that_always_crashes_is_one_message(project):
    written(project, people(100), {"python": {"callable": "naughty:broken"}}, [GENERALIZATION])
    ended = project.here("run", "suite.yaml")
    assert ended.code == 3
    assert "the model m cannot be used: its process ended at 5 rows in a row" in " ".join(ended.err.split())
    assert is_calm(ended.text)


def test_an_onnx_file(project):
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    data = people(200, seed=5)
    inputs = data[COLUMNS].astype({"age": float, "hours": float})
    encode = make_column_transformer((StandardScaler(), ["age", "hours", "rate"]), (OneHotEncoder(), ["job"]))
    model = make_pipeline(encode, LogisticRegression()).fit(inputs, [income(row) for row in data[COLUMNS].to_numpy().tolist()])
    types = [(name, FloatTensorType([None, 1])) for name in ("age", "hours", "rate")] + [("job", StringTensorType([None, 1]))]
    (project.folder / "model.onnx").write_bytes(to_onnx(model, initial_types=types, target_opset=18).SerializeToString())
    card = {"onnx": "model.onnx", "inputs": {"columns": ["age", "hours", "rate", "job"]}, "revision": "1"}
    noise = {"property": "tabular.robustness", "transforms": [{"name": "numeric_noise", "epsilon": 0.1}]}
    written(project, data, card, [GENERALIZATION, noise])
    report = project.run()
    [accuracy] = [
        metric
        for metric in property_of(report, "tabular.generalization")["metrics"]
        if metric["name"] == "accuracy" and metric["slice"] == {}
    ]
    assert accuracy["value"] == np.mean(model.predict(inputs) == data["income"])
    assert report["queries"]["errors"] == 0
    assert property_of(report, "tabular.robustness")["cases"]["total"] == 200
    assert project.run()["queries"]["sent"] == 0

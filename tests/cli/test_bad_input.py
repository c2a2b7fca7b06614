"""What a user gets wrong: one message that says what to do, the right exit status, nothing asked for nothing."""

import socket

import numpy as np
import pytest
import yaml
from projects import COLUMNS, Ended, income, is_calm, people

GENERALIZATION = [{"property": "tabular.generalization"}]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def check(found: Ended, code: int, *words: str) -> None:
    """One message with all the words, this exit status, and nothing that looks like a defect."""
    assert found.code == code, found.text
    assert is_calm(found.text), found.text
    assert found.err.count("error:") == 1, found.err
    message = found.err[found.err.index("error:") :]
    for word in words:
        assert word in message, message


@pytest.fixture
def filled(project, server):
    return project.fill(server, people(120), properties=GENERALIZATION)


def suite(project, change):
    data = yaml.safe_load((project.folder / "suite.yaml").read_text())
    change(data)
    project.write("suite.yaml", data)


def robustness(*transforms):
    return lambda data: data.update(properties=[{"property": "tabular.robustness", "transforms": list(transforms)}])


BROKEN_SUITES = {
    "unknown key": (lambda data: data.update(propertys=[]), ["suite.yaml:", "propertys", "properties"]),
    "unknown property": (
        lambda data: data.update(properties=[{"property": "tabular.robustnes"}]),
        ["suite.yaml:", "properties[0].property", "did you mean tabular.robustness"],
    ),
    "unknown transform": (
        robustness({"name": "numeric_noize"}),
        ["suite.yaml:", "properties[0].transforms[0].name", "did you mean numeric_noise"],
    ),
    "value out of range": (
        robustness({"name": "numeric_noise", "epsilon": [0.1, 99]}),
        ["suite.yaml:", "properties[0].transforms[0].epsilon", "99", "numeric_noise"],
    ),
    "wrong type": (lambda data: data.update(random_seed="many"), ["suite.yaml:2:", "random_seed"]),
    "unknown metric": (
        lambda data: data.update(properties=[{"property": "tabular.generalization", "gates": {"acuracy": {"min": 0.5}}}]),
        ["suite.yaml:", "did you mean accuracy"],
    ),
    "two bounds": (
        lambda data: data["properties"][0].update(gates={"accuracy": {"min": 0.5, "max": 0.6}}),
        ["suite.yaml:", "properties[0].gates.accuracy", "exactly one of min, max"],
    ),
    "missing card": (lambda data: data.update(model={"card": "no.yaml"}), ["no.yaml"]),
    "missing data": (lambda data: data["data"].update(test="no.csv"), ["no.csv", "no such file"]),
    "unknown ending": (lambda data: data["data"].update(test="card.yaml"), ["card.yaml", ".csv"]),
    "unknown label": (lambda data: data["data"].update(label="incom"), ["data.label", "did you mean income"]),
    "unknown protected": (lambda data: data["data"].update(protected={"gender": {}}), ["data.protected", "gender"]),
    "unknown schema column": (lambda data: data["data"].update(schema={"agee": {"min": 1}}), ["agee", "age"]),
    "no such model": (lambda data: data.update(model={"name": "nobody"}), ["nobody", "aitest models"]),
    "a label that is none": (lambda data: data["data"].update(label="rate"), ["data.label", "rate"]),
}


@pytest.mark.parametrize("case", BROKEN_SUITES)
def test_a_broken_suite(filled, server, case):
    change, words = BROKEN_SUITES[case]
    suite(filled, change)
    check(filled.here("run", "suite.yaml"), 2, *words)
    assert server.calls == 0


BROKEN_DATA = {
    "empty file": ("", ["data.csv", "empty"]),
    "header only": (",".join([*COLUMNS, "income"]) + "\n", ["data.csv", "no rows"]),
    "one class": (people(50).assign(income="low"), ["one class", "low"]),
    "missing labels": (people(50).assign(income=lambda frame: frame.income.where(frame.age > 40)), ["have no label"]),
    "no column of the card": (people(50).drop(columns="hours"), ["inputs.columns", "hours"]),
}


@pytest.mark.parametrize("case", BROKEN_DATA)
def test_broken_data(filled, server, case):
    content, words = BROKEN_DATA[case]
    filled.write("data.csv", content if isinstance(content, str) else content.to_csv(index=False))
    check(filled.here("run", "suite.yaml"), 2, *words)
    assert server.calls == 0


def test_labels_that_are_not_among_the_classes(filled, server):
    filled.change("card.yaml", classes=["low", "middle"])
    check(filled.here("run", "suite.yaml"), 2, "high", "low", "middle")
    assert server.calls == 0


def test_text_against_numbers(filled, server):
    data = people(120)
    filled.write("data.csv", data.assign(income=np.where(data.income == "high", 1, 0)).to_csv(index=False))
    server.label = lambda row: "1" if row[0] > 50 else "0"
    found = filled.here("run", "suite.yaml")
    check(found, 2, "'0'", "0")


BROKEN_CARDS = {
    "undeclared variable": (
        lambda card: card["endpoint"].update(request='{"rows": {{ row|tojson }} }'),
        ["card.yaml:", "endpoint.request", "row", "records"],
    ),
    "template syntax": (lambda card: card["endpoint"].update(request='{"rows": {{ rows }'), ["card.yaml:", "endpoint.request"]),
    "jmespath syntax": (lambda card: card["endpoint"]["response"].update(labels="a[*"), ["card.yaml:", "JMESPath"]),
    "two backends": (lambda card: card.update(predictions="x.csv"), ["card.yaml", "predictions", "endpoint"]),
    "plain secret": (lambda card: card["endpoint"].update(auth={"type": "bearer", "token": "abcd1234"}), ["card.yaml:", "${"]),
    "unset secret": (
        lambda card: card["endpoint"].update(auth={"type": "bearer", "token": "${NOT_SET_ANYWHERE}"}),
        ["NOT_SET_ANYWHERE", "is not set"],
    ),
}


@pytest.mark.parametrize("case", BROKEN_CARDS)
def test_a_broken_card(filled, server, case):
    change, words = BROKEN_CARDS[case]
    card = yaml.safe_load((filled.folder / "card.yaml").read_text())
    change(card)
    filled.write("card.yaml", card)
    found = filled.here("run", "suite.yaml")
    check(found, 2, *words)
    assert "abcd1234" not in found.text
    assert server.calls == 0


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("short", ["answered no input usably"]),
        ("invalid_json", ["answered no input usably", "no valid JSON"]),
        ("error", ["answered no input usably", "model is warming up"]),
        ("empty", ["answered no input usably", "predictions[*].label"]),
        ("401", ["HTTP 401", "endpoint.auth"]),
        ("404", ["HTTP 404", "endpoint.url"]),
    ],
)
def test_a_model_that_never_answers_usably(filled, server, fault, words):
    server.inject(fault, None)
    check(filled.here("run", "suite.yaml"), 3, *words, "aitest resume")


def test_a_single_answer_that_is_not_usable(filled, server):
    server.label = lambda row: float("nan") if row[0] > 80 else income(row)
    found = filled.here("run", "suite.yaml", "--json", "r.json")
    assert found.code == 3, found.text
    assert is_calm(found.text)
    report = filled.report("r.json")
    old = int((people(120).age > 80).sum())
    assert report["properties"][0]["cases"]["error"] == report["queries"]["errors"] == old > 0
    assert report["properties"][0]["status"] == report["status"] == "error"
    assert "max_error_rate" in report["properties"][0]["reason"]
    assert report["queries"]["sent"] == len(server.distinct)


def test_a_path_that_drops_rows(filled, server):
    filled.fill(server, people(120), properties=GENERALIZATION, response={"labels": "predictions[?label=='high'].label"})
    found = filled.here("run", "suite.yaml")
    assert found.code == 3, found.text
    assert is_calm(found.text)
    assert "max_error_rate" in found.text or "no usable answer" in found.text


def test_a_model_that_cannot_be_reached(filled):
    card = yaml.safe_load((filled.folder / "card.yaml").read_text())
    card["endpoint"] |= {"url": f"http://127.0.0.1:{free_port()}/score", "retries": 0}
    filled.write("card.yaml", card)
    check(filled.here("run", "suite.yaml"), 3, "127.0.0.1", "aitest resume")


def test_a_store_that_cannot_be_written(filled, server):
    filled.write("file", "no folder")
    filled.env["AITEST_STORE"] = str(filled.folder / "file" / "store")
    check(filled.here("run", "suite.yaml"), 3, "store", "AITEST_STORE")
    assert server.calls == 0


def test_mlflow_that_is_down_is_said_soon(filled, server):
    filled.env["MLFLOW_TRACKING_URI"] = f"http://127.0.0.1:{free_port()}"
    check(filled.cli("run", "suite.yaml", timeout=60), 3, "MLflow", "MLFLOW_TRACKING_URI")
    assert server.calls == 0


def test_prefect_that_is_down(filled, server):
    filled.env["PREFECT_API_URL"] = f"http://127.0.0.1:{free_port()}/api"
    check(filled.here("run", "suite.yaml"), 3, "Prefect", "PREFECT_API_URL")
    assert server.calls == 0


COMMANDS = {
    "no suite": (["run", "no.yaml"], ["no.yaml"]),
    "a folder as suite": (["run", "."], ["."]),
    "invalid only": (["run", "suite.yaml", "--only", "tabular.generalisation"], ["--only", "tabular.generalization"]),
    "only what the suite lacks": (["run", "suite.yaml", "--only", "tabular.robustness"], ["--only"]),
    "no such run": (["show", "0123456789"], ["0123456789"]),
    "no run yet": (["status"], ["no run", "aitest run"]),
    "resume of nothing": (["resume", "last"], ["no run"]),
    "unknown list": (["list", "propertys"], ["properties"]),
    "unknown schema": (["schema", "suites"], ["suite"]),
    "probe without data": (["probe", "card.yaml"], ["--data"]),
    "json in a folder that is none": (["run", "suite.yaml", "--json", "no/r.json"], ["no/r.json"]),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_a_wrong_command(filled, case):
    args, words = COMMANDS[case]
    check(filled.here(*args), 2, *words)


def test_unknown_options_and_commands_are_exit_status_2(filled):
    for args in (["run", "suite.yaml", "--frash"], ["rum"], ["run"], ["run", "suite.yaml", "--budget", "-1"]):
        found = filled.here(*args)
        assert found.code == 2, args
        assert is_calm(found.text.replace("Error:", "").replace("─ Error ─", ""))


def test_a_broken_suite_as_a_process_writes_nothing(filled):
    suite(filled, BROKEN_SUITES["unknown property"][0])
    before = {path for path in filled.folder.rglob("*") if path.is_file() and ".aitest" not in path.parts}
    found = filled.cli("run", "suite.yaml", "--json", "r.json")
    check(found, 2, "did you mean tabular.robustness")
    assert found.out == ""
    assert {path for path in filled.folder.rglob("*") if path.is_file() and ".aitest" not in path.parts} == before
    assert not list(filled.store.glob("runs/*"))


def test_a_closed_pipe_is_no_error(filled):
    process = filled.start("schema", "suite")
    process.stdout.close()
    process.wait(60)
    assert process.stderr.read() == ""
    process.stderr.close()

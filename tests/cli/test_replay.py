"""`aitest replay`: one stored case sent again, seed beside case; what is kept stays as it is."""

import json
import re

import pytest
from model_server import serving
from projects import COLUMNS, income, is_calm, new_project, people, property_of

from aitest_flows import api
from aitest_lib.errors import InputError

SCORED = {"response": {"labels": "predictions[*].label", "scores": "predictions[*].score"}}
SUITE = {"data": {"test": "data.csv", "label": "income", "schema": {"rate": {"private": True}}}}


def score(row):
    return min(max((row[0] + row[1] - 40) / 110, 0), 1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A project with one run (the column `rate` is private) whose server goes on."""
    with serving(income, score) as server:
        project = new_project(tmp_path_factory.mktemp("replayed"))
        project.fill(server, people(150), suite=SUITE, card={"classes": ["low", "high"]}, **SCORED)
        yield project, server, project.run()


@pytest.fixture
def served(finished):
    """The same, with the server as it was before the test."""
    project, server, report = finished
    label, plan = server.label, server.plan
    yield project, server, report
    server.label, server.plan = label, plan


def a_case(project, report, outcome="passed", name="tabular.robustness"):
    rows = project.cases(report, name).to_pylist()
    return next(row for row in rows if row["outcome"] == outcome)


def stored(project):
    """Every file of the store and its bytes' time."""
    return {path: path.stat().st_mtime_ns for path in project.store.rglob("*") if path.is_file()}


def test_seed_and_case_are_sent_as_they_are_stored_and_nothing_is_written(served):
    project, server, report = served
    row, before, kept = a_case(project, report, "failed"), server.rows, stored(project)
    found = project.here("replay", report["run_id"][:8], row["case_id"][:12])
    assert (found.code, found.err) == (0, "")
    assert found.out.startswith("REPRODUCES tabular.robustness on served, failed")
    assert server.rows - before == 2
    assert stored(project) == kept
    sent = json.loads(server.requests[-1]["body"])
    assert sent["fields"] == COLUMNS
    changed = json.loads(row["params"])["set"]
    for place, name in enumerate(COLUMNS):
        seed, case = (one[place] for one in sent["rows"])
        assert case == changed.get(name, seed)
    assert row["explanation"].split(" turned")[0][:20] in found.out
    assert re.search(r"kept answer +\S+ +\S+ \(0\.\d+\)", found.out)
    assert is_calm(found.out)


def test_private_columns_are_sent_but_not_shown(served):
    project, server, report = served
    row = a_case(project, report)
    found = project.here("replay", "last", row["case_id"])
    private = json.loads(server.requests[-1]["body"])["rows"][0][COLUMNS.index("rate")]
    assert private in people(150)["rate"].tolist()
    assert str(private) not in found.text
    assert "rate" not in found.out.split("label")[0].split("age")[1]


def test_a_model_that_answers_otherwise_now(served):
    project, server, report = served
    row = a_case(project, report)
    server.label = lambda asked: "high" if income(asked) == "low" else "low"
    with project.entered():
        found = api.replay("last", row["case_id"][:16])
    other = {"high": "low", "low": "high"}
    assert found.reproduces is False
    assert (found.case.kept, found.case.now, found.case.same) == (row["observed"], other[row["observed"]], False)
    assert (found.seed.kept, found.seed.now) == (row["expected"], other[row["expected"]])
    assert (found.case.kept_score, found.case.now_score) == (row["score"], pytest.approx(1 - row["score"], abs=1e-5))
    assert project.here("replay", "last", row["case_id"]).out.startswith("DIFFERS")


def test_a_case_that_is_its_seed_is_asked_alone(served):
    project, server, report = served
    row, before = a_case(project, report, name="tabular.generalization"), server.rows
    with project.entered():
        found = api.replay("last", row["case_id"][:16])
    assert (found.case, found.changed, found.reproduces) == (None, [], True)
    assert (found.seed.kept, found.expected) == (row["observed"], row["expected"])
    assert server.rows - before == 1


def test_a_registered_version_is_asked(served):
    project, _, report = served
    row = a_case(project, report)
    registered = project.here("register", "card.yaml")
    assert registered.code == 0, registered.text
    found = project.here("replay", "last", row["case_id"], "--model", "served/1")
    assert found.out.startswith("REPRODUCES tabular.robustness on served version 1")
    for model, message in (("served", "expected NAME/VERSION"), ("served/9", "has no version '9'"), ("sevred/1", "served")):
        wrong = project.here("replay", "last", row["case_id"], "--model", model)
        assert (wrong.code, wrong.out) == (2, "")
        assert message in wrong.err


@pytest.mark.parametrize("fault", ["500", "null", "nan"])
def test_no_usable_answer(served, fault):
    project, server, report = served
    server.plan = lambda call: fault
    found = project.here("replay", "last", a_case(project, report)["case_id"])
    assert (found.code, found.out) == (3, "")
    assert "no usable answer" in found.err or "served" in found.err
    assert is_calm(found.err)


def test_cases_that_cannot_be_found(served):
    project, _, report = served
    nothing = project.here("replay", "last", "zzz")
    assert nothing.code == 2
    assert "got CASE 'zzz', but no case of run" in nothing.err
    assert "examples that a search found, pairs or smallest flips, are no cases" in " ".join(nothing.err.split())
    several = project.here("replay", "last", "")
    assert several.code == 2
    assert "several cases of run" in several.err
    assert project.here("replay", "nothing", "zzz").code == 2
    assert property_of(report, "tabular.robustness")["cases"]["total"] == 300


def test_private_columns_of_data_that_changed_are_not_guessed(served):
    project, _, report = served
    row, path = a_case(project, report), project.folder / "data.csv"
    content = path.read_bytes()
    path.write_bytes(content + b"20,20,1.0,cook,F,low\n")
    try:
        found = project.here("replay", "last", row["case_id"])
    finally:
        path.write_bytes(content)
    assert (found.code, found.out) == (2, "")
    assert "changed since; put back the file" in found.err


def test_a_stored_input_that_is_gone(served):
    project, _, report = served
    row = a_case(project, report)
    [path] = project.store.glob(f"objects/**/{row['input_uri'].rpartition('#')[0].rpartition('/')[2]}")
    content = path.read_bytes()
    path.unlink()
    try:
        found = project.here("replay", "last", row["case_id"])
    finally:
        path.write_bytes(content)
    assert (found.code, found.out) == (3, "")
    assert "the input of case" in found.err
    assert found.err.count("\n") == 1


def test_an_object_in_python_is_gone(project):
    with project.entered():
        report = api.audit(
            model=lambda frame: [income(row) for row in frame.to_numpy().tolist()],
            data=people(120),
            label="income",
            model_type="tabular-classifier",
        )
        table = project.cases(report.model_dump(), "tabular.generalization")
        with pytest.raises(InputError, match="was an object in Python"):
            api.replay("last", table["case_id"][0].as_py())

"""Whole runs against an endpoint that fails, stalls and answers nonsense: no verdict changes, nothing is hidden."""

import json
import random

import pytest
from projects import is_calm, people, property_of

from aitest_lib.models.endpoint import transport

ROWS = 300
PASSING = ["429", "503", "drop"]  # 30 % of the calls; the first two with the two forms of Retry-After
UNUSABLE = ["short", "invalid_json", "nan", "error"]  # 2 % of the calls
CONCURRENCY, RATE = 4, 80
PROPERTIES = [
    {"property": "tabular.generalization", "gates": {"accuracy": {"min": 0.5}}},
    {
        "property": "tabular.robustness",
        "transforms": [{"name": "numeric_noise", "epsilon": 0.1}, {"name": "category_swap"}],
        "gates": {"pass_rate": {"min": 0.5}},
    },
]
COUNTED = ("case_id", "outcome", "observed", "reason", "explanation")


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch):
    monkeypatch.setattr(transport, "BACKOFF_S", 0.02)


def misbehave(server, seed=5):
    """Every call draws its fault. An unusable answer is not followed by another soon, and never by one to the same rows,
    however late they are asked again: the model would really be broken."""
    rng = random.Random(seed)
    last, spoilt = 0, set()

    def fault(call):
        nonlocal last
        draw = rng.random()
        if draw < 0.3:
            return rng.choice(PASSING)
        rows = {json.dumps(row) for row in json.loads(server.requests[call - 1]["body"])["rows"]}
        if draw < 0.32 and call > last + 2 * CONCURRENCY and not rows & spoilt:
            last = call
            spoilt.update(rows)
            return rng.choice(UNUSABLE)
        return None

    server.plan = fault


def verdicts(report):
    return [
        (item["property"], item["status"], item["cases"], item["metrics"], [gate["verdict"] for gate in item["gates"]])
        for item in report["properties"]
    ]


def test_a_third_of_the_calls_failing_changes_no_verdict(project, server):
    endpoint = {"batch_size": 8, "concurrency": CONCURRENCY, "retries": 12}
    project.fill(server, people(ROWS), properties=PROPERTIES, **endpoint)
    clean = project.run()
    cases = project.cases(clean).select(COUNTED)
    project.change("card.yaml", revision="2")
    project.fill(server, people(ROWS), properties=PROPERTIES, card={"revision": "2"}, rate_per_s=RATE, **endpoint)
    server.times.clear()
    server.most_at_once = 0
    misbehave(server)
    report = project.run()
    assert server.statuses[429] > 10
    assert server.statuses[503] > 10
    assert server.statuses[0] > 10
    assert report["queries"]["retries"] > 30
    assert report["queries"]["errors"] == 0
    assert verdicts(report) == verdicts(clean)
    assert project.cases(report).select(COUNTED) == cases
    assert server.most_at_once <= CONCURRENCY
    busiest = max(sum(start <= time < start + 1 for time in server.times) for start in server.times)
    # What has been sent but not taken yet can arrive together: one call for each that may be under way.
    assert busiest <= RATE + 1 + CONCURRENCY


@pytest.mark.parametrize("kind", UNUSABLE)
def test_answers_that_are_unusable_at_first_are_asked_again(project, server, kind):
    project.fill(server, people(100), properties=PROPERTIES, batch_size=8, concurrency=1)
    clean = project.run()
    project.change("card.yaml", revision="2")
    server.plan = lambda call: kind if call % 5 == 0 else None
    report = project.run()
    assert verdicts(report) == verdicts(clean)
    assert report["queries"]["errors"] == 0


def test_inputs_that_never_get_an_answer_are_errors_with_a_reason_and_a_resume_asks_just_those(project, server):
    """Rows of people over 85 make the whole call an HTTP 500, always."""
    server.bad_row = lambda row: row[0] > 85
    data = people(ROWS)
    project.fill(server, data, properties=PROPERTIES[:1], batch_size=16, suite={"max_error_rate": 0.2})
    report = project.run()
    bad = data.drop(columns="income").drop_duplicates()["age"].gt(85).sum()
    assert 0 < bad < 0.2 * ROWS
    found = property_of(report, "tabular.generalization")
    assert report["queries"]["errors"] == bad
    assert found["cases"]["error"] == data["age"].gt(85).sum()
    cases = project.cases(report, "tabular.generalization").to_pandas()
    errors = cases[cases["outcome"] == "error"]
    assert len(errors) == found["cases"]["error"]
    assert errors["reason"].str.contains("HTTP 500").all()
    assert not cases[cases["outcome"] == "failed"]["reason"].fillna("").str.contains("HTTP").any()
    listed = found["unanswered"]
    assert [one["reason"] for one in listed] == errors["reason"].tolist()[:20]
    assert all(int(one["case"]["age"]) > 85 for one in listed)
    shown = project.here("show", "last", "--failures", "1")
    assert shown.out.count("no usable answer: sent 1 row, got HTTP 500") == 5
    assert is_calm(shown.err)


def test_more_errors_than_allowed_make_the_property_an_error(project, server):
    server.bad_row = lambda row: row[0] > 85
    project.fill(server, people(ROWS), properties=PROPERTIES[:1], batch_size=16)
    ended = project.here("run", "suite.yaml", "--json", "report.json")
    assert ended.code == 3
    report = project.report("report.json")
    assert report["status"] == "error"
    found = property_of(report, "tabular.generalization")
    assert "max_error_rate" in found["reason"]
    # Once the endpoint is well again, the same suite asks what is missing and nothing else.
    server.bad_row = None
    server.distinct.clear()
    again = project.run()
    assert again["status"] == "passed"
    assert again["queries"]["errors"] == 0
    assert again["queries"]["sent"] == report["queries"]["errors"]


def test_an_outage_ends_the_run_with_one_message_and_a_resume_finishes_it(project, server):
    project.fill(server, people(ROWS), properties=PROPERTIES, batch_size=8, concurrency=2, retries=1)
    expected = project.run()
    project.change("card.yaml", revision="2")
    server.distinct.clear()
    asked = server.calls
    server.plan = lambda call: "503" if call > asked + 40 else None
    ended = project.here("run", "suite.yaml", "--json", "report.json")
    assert ended.code == 3, ended.text
    assert is_calm(ended.text)
    assert ended.text.count("gives no answers") == 1
    assert "aitest resume" in ended.text
    before = len(server.distinct)
    assert 0 < before < expected["queries"]["planned"]
    server.plan = lambda call: None
    rows = server.rows
    resumed = project.here("resume", "last", "--json", "report.json")
    assert resumed.code == 0, resumed.text
    report = project.report("report.json")
    assert verdicts(report) == verdicts(expected)
    assert server.rows - rows <= expected["queries"]["planned"] - before + 2 * 8 * 2
    assert len(server.distinct) == report["queries"]["planned"]

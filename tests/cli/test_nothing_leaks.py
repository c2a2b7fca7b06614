"""Private columns and secrets: sent to the model, and found nowhere else; and no connection that the suite did not name."""

import itertools
import re
import shutil
import subprocess

import pyarrow.parquet as pq
import pytest
from projects import AITEST, COLUMNS, income, is_calm, new_project, people

TOKEN = "tok-PLANTED-8f3a/2=="
SUITE = {
    "data": {
        "test": "data.csv",
        "label": "income",
        "protected": {"sex": {}},
        "schema": {"ssn": {"private": True}, "code": {"private": True}},
    }
}
ENDPOINT = {"auth": {"type": "bearer", "token": "${PLANTED_TOKEN}"}, "batch_size": 64}
CARD = {"inputs": {"columns": [*COLUMNS, "ssn", "code"]}}


def identified(rows=150):
    """People with a national id (text) and a number that identifies them, too."""
    frame = people(rows)
    ids = [f"900-55-{n:04d}-PLANTED" for n in range(rows)]
    return frame.assign(ssn=ids, code=[7_310_000_000 + n for n in range(rows)])


def everything_written(project):
    """Name and content of every file below the project but its input, compressed tables as their cells' text."""
    for path in sorted(project.folder.rglob("*")):
        if not path.is_file() or path.name in ("data.csv", "card.yaml"):
            continue
        yield path, path.read_bytes()
        if path.suffix == ".parquet":
            yield path, str(pq.read_table(path).to_pydict()).encode() + str(pq.read_schema(path).metadata).encode()


def check_clean(project, *texts):
    planted = re.compile(rb"PLANTED-8f3a|900-55-\d{4}|73100000\d\d|cGxhbnRlZC|dG9rLVBMQU5URUQ")
    files = 0
    for path, content in itertools.chain(everything_written(project), (("output", text.encode()) for text in texts)):
        files += 1
        found = planted.search(content)
        assert not found, f"{path}: ...{content[max(found.start() - 80, 0) : found.end() + 80]!r}"
    assert files > len(texts)


@pytest.fixture
def guarded(project, server):
    server.token = TOKEN
    project.env["PLANTED_TOKEN"] = TOKEN
    return project.fill(server, identified(), suite=SUITE, card=CARD, **ENDPOINT)


def test_a_whole_run_with_its_own_prefect_server(tmp_path, server):
    server.token = TOKEN
    project = new_project(tmp_path / "project", prefect=False)
    project.env["PLANTED_TOKEN"] = TOKEN
    project.fill(server, identified(), suite=SUITE, card=CARD, **ENDPOINT)
    ran = project.cli("run", "suite.yaml", "--json", "r.json", "--junit", "r.xml")
    assert ran.code == 0, ran.text
    sent = [request["body"] for request in server.requests]
    assert any(b"900-55-0007-PLANTED" in body and b"7310000007" in body for body in sent)
    shown = [
        project.here(*args).text
        for args in (
            ("show", "last", "--failures", "20"),
            ("show", "last", "--format", "json"),
            ("show", "last", "--format", "md", "--failures", "20"),
            ("report", "last", "-o", "page.html"),
            ("status",),
        )
    ]
    assert (project.folder / "page.html").stat().st_size > 10_000
    check_clean(project, ran.text, *shown)
    assert b"ssn" not in next(project.store.glob("objects/**/*.parquet")).read_bytes()


def test_private_values_make_inputs_different_but_stay_out_of_the_store(guarded, server):
    frame = identified(40)
    same = frame.assign(age=30, hours=20, rate=10.0, job="cook", sex="F", income=frame.income)
    guarded.write("data.csv", same.to_csv(index=False))
    report = guarded.run("--only", "tabular.generalization")
    assert report["queries"]["planned"] == report["queries"]["sent"] == len(server.distinct) == 40
    assert guarded.run("--only", "tabular.generalization")["queries"]["sent"] == 0
    check_clean(guarded)


def test_a_refused_token_is_not_shown(guarded, server):
    server.token = "another"  # the server's answer repeats the one it got
    found = guarded.here("run", "suite.yaml")
    assert found.code == 3
    assert "401" in found.err
    check_clean(guarded, found.text)


@pytest.mark.parametrize("what", ["label", "number", "batch"])
def test_a_model_that_repeats_what_it_was_sent(guarded, server, what):
    def repeating(row):
        if row[0] > 75:
            return row[5] if what == "label" else row[6] if what == "number" else income(row)
        return income(row)

    server.label = repeating
    if what == "batch":
        server.bad_row = lambda row: row[0] > 75
    guarded.change("card.yaml", classes=["high", "low"])
    found = guarded.here("run", "suite.yaml", "--json", "r.json")
    assert found.code == 3, found.text
    assert is_calm(found.text)
    report = guarded.report("r.json")
    assert report["queries"]["errors"] > 0
    check_clean(guarded, found.text)


def test_probe_and_register_mask(guarded, server):
    server.label = lambda row: row[5]
    guarded.change("card.yaml", classes=["high", "low"])
    registered = guarded.here("register", "card.yaml")
    assert registered.code == 0, registered.text
    models = guarded.here("models")
    assert "served" in models.out
    check_clean(guarded, registered.text, models.text)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_only_loopback_is_connected_to(tmp_path, server):
    project = new_project(tmp_path / "project", prefect=False).fill(server, people(100))
    trace = project.folder / "trace"
    # A continuous-integration machine switches off some telemetry by itself; here nothing does.
    environment = {k: v for k, v in project.environment().items() if k not in ("CI", "GITHUB_ACTIONS", "DO_NOT_TRACK")}
    ran = subprocess.run(
        ["strace", "-f", "-q", "-e", "trace=connect,sendto,sendmsg", "-o", str(trace), AITEST, "run", "suite.yaml"],
        cwd=project.folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    if "ptrace" in ran.stderr or not trace.exists():
        pytest.skip("strace cannot attach here")
    assert ran.returncode == 0, ran.stderr
    reached = re.findall(r'inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)"', trace.read_text(errors="replace"))
    addresses = {first or second for first, second in reached}
    assert "127.0.0.1" in addresses
    assert addresses <= {"127.0.0.1", "::1"}, addresses

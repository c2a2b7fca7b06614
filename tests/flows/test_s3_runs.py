"""Whole runs on a store in a bucket: the same verdicts as on a folder, nothing asked twice, nothing secret left behind."""

from __future__ import annotations

import base64
import json
import pickle
import shutil

import httpx
import pyarrow.parquet as pq
import pytest
from mlflow import MlflowClient
from projects import is_calm, new_project, people, property_of, shared_prefect
from s3_server import READER, READER_SECRET, SECRET, s3_server
from test_foreign_results import Payload

ROWS = 80
NAMES = ("tabular.generalization", "tabular.robustness")


@pytest.fixture(scope="module")
def s3():
    return s3_server()


@pytest.fixture
def bucket(s3, project, server):
    """A project whose store is in the bucket."""
    project.env |= s3.environment() | {"AITEST_STORE": s3.prefix()}
    return project.fill(server, people(ROWS))


def elsewhere(project, folder, **env):
    """The same project in another folder, with an empty `.aitest`, on the same store."""
    other = new_project(folder)
    for name in ("data.csv", "card.yaml", "suite.yaml"):
        shutil.copy(project.folder / name, other.folder / name)
    other.env |= project.env | env
    return other


def cases(report, name, s3):
    """The `cases.parquet` of a property as columns, but for where its inputs are stored."""
    uri = property_of(report, name)["artifacts"]["cases"]
    if uri.startswith("s3://"):
        table = pq.read_table(uri.removeprefix("s3://"), filesystem=s3.client())
    else:
        table = pq.read_table(uri.removeprefix("file://"))
    return table.drop_columns(["input_uri"]).to_pylist()


def verdicts(report):
    return [[(gate["metric"], gate["verdict"], gate["reason"]) for gate in item["gates"]] for item in report["properties"]]


def test_a_bucket_and_a_folder_give_the_same(bucket, server, s3, tmp_path):
    local = new_project(tmp_path / "local").fill(server, people(ROWS))
    here, there = local.run(), bucket.run()
    assert there["queries"] == here["queries"]
    assert verdicts(there) == verdicts(here)
    assert there["status"] == here["status"] == "passed"
    for name in NAMES:
        assert cases(there, name, s3) == cases(here, name, s3)
    assert not bucket.store.exists()


def test_another_machine_asks_nothing_again(bucket, server, s3, tmp_path):
    first = bucket.run()
    other = elsewhere(bucket, tmp_path / "other")
    asked = set(server.distinct)
    ended = other.cli("run", "suite.yaml", "--json", "r.json")
    assert ended.code == 0, ended.text
    assert is_calm(ended.text)
    second = other.report("r.json")
    assert second["queries"]["sent"] == 0
    assert second["queries"]["sentinel"] > 0
    assert server.distinct == asked
    assert verdicts(second) == verdicts(first)
    assert cases(second, NAMES[1], s3) == cases(first, NAMES[1], s3)
    # What only reads the store finds the runs of both.
    for run in (first["run_id"], second["run_id"]):
        assert run in other.here("show", run[:12]).out
        assert "PASSED" in bucket.here("status", run[:12]).out
    page = other.here("report", first["run_id"], "-o", "page.html")
    assert page.code == 0
    assert first["run_id"] in (other.folder / "page.html").read_text()


def test_the_cases_are_linked_from_mlflow(bucket):
    report = bucket.run()
    client = MlflowClient(f"sqlite:///{bucket.home / 'mlflow.db'}")
    experiment = client.get_run(report["run_id"]).info.experiment_id
    children = client.search_runs([experiment], filter_string=f"tags.`mlflow.parentRunId` = '{report['run_id']}'")
    tags = {child.data.tags["aitest.property"]: child.data.tags["aitest.cases"] for child in children}
    assert tags == {name: property_of(report, name)["artifacts"]["cases"] for name in NAMES}
    assert all(uri.startswith(bucket.env["AITEST_STORE"]) for uri in tags.values())


def test_no_secret_is_kept_anywhere(bucket, s3, tmp_path):
    ended = bucket.cli("run", "suite.yaml", "--json", "r.json")
    assert ended.code == 0, ended.text
    assert SECRET not in ended.text
    files = [path for path in bucket.folder.rglob("*") if path.is_file()]
    assert {"mlflow.db", "r.json"} <= {path.name for path in files}
    for path in files:
        assert SECRET.encode() not in path.read_bytes(), path
    client = s3.client()
    for path in client.find(bucket.env["AITEST_STORE"].removeprefix("s3://")):
        assert SECRET.encode() not in client.cat_file(path), path
    # Prefect keeps blocks encrypted, and shows them to whoever asks.
    answer = httpx.post(
        f"{shared_prefect()}/block_documents/filter", json={"include_secrets": True, "limit": 200}, trust_env=False
    )
    stored = [document["data"] for document in answer.json()]
    assert {"url": bucket.env["AITEST_STORE"]} in stored
    assert SECRET not in answer.text


def test_a_planted_pickle_is_not_loaded(bucket, s3, tmp_path):
    first = bucket.run()
    client = s3.client()
    results = client.find(f"{bucket.env['AITEST_STORE'].removeprefix('s3://')}/results")
    assert results
    planted = tmp_path / "planted"
    before = {}
    for path in results:
        stored = json.loads(client.cat_file(path))
        assert stored["metadata"]["serializer"]["type"] == "json"
        before[path] = json.loads(stored["result"])
        stored["metadata"]["serializer"] = {"type": "pickle", "picklelib": "pickle"}
        stored["result"] = base64.b64encode(pickle.dumps(Payload(str(planted)))).decode()  # only to see that nothing reads it
        client.pipe_file(path, json.dumps(stored).encode())
    second = bucket.run()
    assert not planted.exists()
    assert verdicts(second) == verdicts(first)
    assert second["queries"]["sent"] == 0
    assert {path: json.loads(json.loads(client.cat_file(path))["result"]) for path in results} == before, "made again"


def test_cached_tasks_do_not_run_again(bucket, s3):
    bucket.run()
    client = s3.client()
    store = bucket.env["AITEST_STORE"].removeprefix("s3://")

    def written():
        paths = [path for folder in ("results", "objects") for path in client.find(f"{store}/{folder}")]
        return {path: client.info(path)["LastModified"] for path in paths}

    before = written()
    bucket.run()
    after = written()
    assert {path: after[path] for path in before} == before
    assert [path for path in after if path not in before and "/results/" in path] == []


def test_a_damaged_object_and_a_missing_one_are_made_again(bucket, s3):
    first = bucket.run()
    client = s3.client()
    store = bucket.env["AITEST_STORE"].removeprefix("s3://")
    objects = client.find(f"{store}/objects")
    for place, path in enumerate(objects):
        if place % 2:
            client.rm_file(path)
        else:
            client.pipe_file(path, b"damaged")
    second = bucket.run()
    assert verdicts(second) == verdicts(first)
    assert second["queries"]["sent"] == 0
    assert cases(second, NAMES[1], s3) == cases(first, NAMES[1], s3)


def test_a_run_is_resumed_elsewhere_only_where_mlflow_knows_it(bucket, server, tmp_path):
    server.inject("drop", None)
    bucket.change("card.yaml", endpoint={**server.card()["endpoint"], "retries": 0})
    lost = bucket.here("run", "suite.yaml")
    assert lost.code == 3, lost.text
    server._always = None
    other = elsewhere(bucket, tmp_path / "other")
    refused = other.here("resume", "last")
    assert refused.code == 2, refused.text
    assert f"was started in {bucket.home}" in refused.err
    assert "resume it there, or set MLFLOW_TRACKING_URI" in refused.err
    shared = elsewhere(bucket, tmp_path / "shared", MLFLOW_TRACKING_URI=f"sqlite:///{bucket.home / 'mlflow.db'}")
    resumed = shared.here("resume", "last", "--json", "r.json")
    assert resumed.code == 0, resumed.text
    report = shared.report("r.json")
    assert report["queries"]["planned"] == len(server.distinct)
    assert MlflowClient(f"sqlite:///{bucket.home / 'mlflow.db'}").get_run(report["run_id"]).info.status == "FINISHED"
    assert report["run_id"] in bucket.here("show", "last").out


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"AITEST_STORE": "s3://no-such-bucket/x"}, "the bucket does not exist; create it"),
        ({"AWS_SECRET_ACCESS_KEY": "wrong-secret"}, "the credentials are refused"),
        ({"AWS_ACCESS_KEY_ID": READER, "AWS_SECRET_ACCESS_KEY": READER_SECRET}, "access denied; give these credentials"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "the S3 server at http://127.0.0.1:1 does not answer"),
    ],
    ids=["bucket", "credentials", "read-only", "away"],
)
def test_what_is_wrong_with_the_store_is_told_before_anything_is_asked(bucket, server, env, said):
    bucket.env |= env
    found = bucket.here("run", "suite.yaml")
    assert found.code == 3
    assert said in found.err
    assert found.err.count("error:") == 1
    assert is_calm(found.text.replace("EndpointConnectionError", ""))
    assert "wrong-secret" not in found.text
    assert server.calls == 0
    doctor = bucket.here("doctor")
    assert doctor.code == 3
    [line] = [line for line in doctor.out.splitlines() if line.startswith("store ")]
    assert "broken" in line
    assert said[:20] in " ".join(doctor.out.split())


def test_the_doctor_finds_a_bucket_in_order(bucket):
    found = bucket.here("doctor")
    assert found.code == 0, found.text
    assert f"store ok {bucket.env['AITEST_STORE']} " in " ".join(found.out.split())

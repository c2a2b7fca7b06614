"""A team's installation as processes: a new model version is audited by itself, and the night catches up with what got lost."""

import base64
import hashlib
import hmac
import json
import time

import httpx
import pytest
import yaml
from deployed_audits import prefect_at
from local_services import local_services
from model_server import serving
from projects import NOISE_AND_SWAP, Project, income, is_calm, people, until

from aitest_tasks.services import RECEIVER

GATED = [{"property": "tabular.robustness", "transforms": NOISE_AND_SWAP[:1], "gates": {"pass_rate": {"min": 0.5}}}]
AUDIT = "audit/people"
WAITS_S = 90


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    with local_services(tmp_path_factory.mktemp("services"), workers=1, limit=4) as running:
        yield running


@pytest.fixture(scope="module")
def project(services, tmp_path_factory):
    """A registered model behind an endpoint, and the deployed audit of it; version 1 is there and not audited yet."""
    with serving(income) as server:
        made = Project(tmp_path_factory.mktemp("project"), dict(services.environment))
        made.fill(server, people(150), properties=GATED, suite={"model": {"name": "served"}})
        command(made, "register", "card.yaml")
        arguments = ("--cron", "0 2 * * *", "--timezone", "Europe/Berlin", "--on-new-version", "served", "--pool", "aitest")
        made.told = command(made, "deploy", "suite.yaml", *arguments)
        yield made


@pytest.fixture
def prefect(services):
    with prefect_at(services.environment["PREFECT_API_URL"]) as client:
        yield client


@pytest.fixture(scope="module")
def registry(services):
    from mlflow import MlflowClient

    return MlflowClient(services.environment["MLFLOW_TRACKING_URI"])


def command(project, *args):
    done = project.cli(*args)
    assert done.code == 0, done.text
    assert is_calm(done.text)
    return done.text


def register(project, revision):
    """Registers what is deployed under an address of its own: earlier versions can still be asked."""
    card = yaml.safe_load((project.folder / "card.yaml").read_text())
    address = card["endpoint"]["url"].partition("?")[0]
    project.change("card.yaml", revision=revision, endpoint=card["endpoint"] | {"url": f"{address}?revision={revision}"})
    command(project, "register", "card.yaml")


def verdict(registry, version):
    return registry.get_model_version("served", version).tags.get("aitest.people")


def audits(prefect, version):
    """The flow runs of the audit for a version; None: those on schedule."""
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName

    named = DeploymentFilter(name=DeploymentFilterName(any_=["people"]))
    found = prefect.read_flow_runs(deployment_filter=named)
    return [one for one in found if one.parameters.get("version") == version]


def test_what_deploy_says(project, services, prefect):
    for part in (
        AUDIT,
        "0 2 * * *",
        "02:00 CE",
        "new versions of served",
        "MLflow's webhook (new)",
        "workers that take its runs: 1",
    ):
        assert part in project.told
    assert services.environment["AITEST_WEBHOOK_SECRET"] not in project.told
    card = json.dumps(prefect.read_deployment_by_name(AUDIT).model_dump(mode="json"))
    assert services.environment["AWS_SECRET_ACCESS_KEY"] not in card
    assert str(project.folder) not in card


def test_a_new_version_is_audited_by_itself(project, prefect, registry):
    register(project, "2")
    registered = registry.get_model_version("served", "2").creation_timestamp / 1e3
    [audit] = until(lambda: [one for one in audits(prefect, "2") if one.start_time], WAITS_S)
    print(f"the audit started {audit.start_time.timestamp() - registered:.1f} s after the registration")
    assert until(lambda: verdict(registry, "2"), WAITS_S) == "passed"
    ended = until(lambda: (run := prefect.read_flow_run(audit.id)).state.is_final() and run, WAITS_S)
    assert (ended.state.type, ended.state.name) == ("COMPLETED", "Gates passed")
    assert verdict(registry, "1") is None  # the event was of version 2
    assert len(audits(prefect, "2")) == 1


def test_forged_old_and_replayed_webhooks_start_nothing(services, prefect):
    url, secret = (services.environment[f"AITEST_WEBHOOK_{name}"] for name in ("URL", "SECRET"))
    body = json.dumps({"entity": "model_version", "action": "created", "data": {"name": "elsewhere", "version": "9"}}).encode()

    def post(delivery, key=secret, age=0.0):
        timestamp = str(int(time.time() - age))
        mac = hmac.new(key.encode(), f"{delivery}.{timestamp}.".encode() + body, hashlib.sha256).digest()
        headers = {
            "X-MLflow-Delivery-Id": delivery,
            "X-MLflow-Timestamp": timestamp,
            "X-MLflow-Signature": "v1," + base64.b64encode(mac).decode(),
        }
        return httpx.post(url, content=body, headers=headers, trust_env=False).status_code

    assert post("forged", key="a guess") == 401
    assert post("old", age=400) == 401
    assert post("good") == 202
    assert post("good") == 409
    wanted = {"event": {"name": ["mlflow.model_version.created"]}, "resource": {"id": ["mlflow.model.elsewhere"]}}
    found = until(lambda: prefect.request("POST", "/events/filter", json={"filter": wanted}).json()["events"], 30)
    assert [event["payload"] for event in found] == [{"name": "elsewhere", "version": "9"}]


def test_the_night_catches_up_with_what_got_lost(project, services, prefect, registry):
    from prefect.deployments import run_deployment

    services.kill(RECEIVER)
    register(project, "3")
    register(project, "4")
    assert verdict(registry, "1") is None
    night = run_deployment(AUDIT, timeout=WAITS_S, poll_interval=1, as_subflow=False)
    assert (night.state.type, night.state.name) == ("COMPLETED", "Gates passed"), night.state.message
    lines = [line.partition(";")[0] for line in night.state.message.splitlines()]
    assert lines == ["served version 4: passed", "served version 1: passed", "served version 3: passed"]
    assert [verdict(registry, version) for version in "1234"] == ["passed"] * 4
    assert audits(prefect, "3") == audits(prefect, "4") == []
    for version in "1234":
        found = registry.get_model_version("served", version).tags["aitest.people.run_id"]
        assert registry.get_run(found).data.tags["aitest.model_version"] == version

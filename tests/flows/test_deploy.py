"""`aitest deploy` on a real Prefect server: what it makes, updates and removes; and the audits it makes run."""

import json
import shutil
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml
from deployed_audits import automations_of, document_url, events_of, prefect_at, run_audit
from projects import NOISE_AND_SWAP, is_calm, new_project, people, shared_prefect, until

from aitest_flows.audit import due_versions
from aitest_flows.suite_documents import open_suite
from aitest_tasks.settings import open_settings

ALERTS = {"failed", "inconclusive", "error", "crashed"}
JUDGED = [{"property": "tabular.robustness", "transforms": NOISE_AND_SWAP[:1], "gates": {"pass_rate": {"min": 0.5}}}]


@pytest.fixture
def deployed(project, server, request):
    """A project whose suite has a name of its own, for all tests share one server; `deploy` deploys it."""
    project.fill(server, people(120), properties=JUDGED)
    project.change("suite.yaml", suite=request.node.name.replace("_", "-").partition("[")[0])
    return project


def name_of(project):
    return next(line for line in (project.folder / "suite.yaml").read_text().splitlines() if "suite:" in line).split()[1]


def deploy(project, *args, code=0):
    done = project.here("deploy", "suite.yaml", "--pool", "tests", *args)
    assert done.code == code, done.text
    assert is_calm(done.text)
    return done.text


def register(project, revision, address=None, **changes):
    """Registers what is deployed now, by default under an address of its own: earlier versions can still be asked."""
    card = yaml.safe_load((project.folder / "card.yaml").read_text())
    url = address or f"{card['endpoint']['url'].partition('?')[0]}?revision={revision}"
    project.change("card.yaml", revision=revision, endpoint=card["endpoint"] | {"url": url}, **changes)
    assert project.here("register", "card.yaml").code == 0


def test_deploying_again_updates(deployed):
    name = name_of(deployed)
    text = deploy(deployed, "--cron", "0 2 * * *", "--timezone", "Europe/Berlin")
    for part in (f"audit/{name}", "0 2 * * *", "02:00 CE", "event feed", "prefect worker start --pool tests", "absent"):
        assert part in text
    with prefect_at(shared_prefect()) as client:
        made = client.read_deployment_by_name(f"audit/{name}")
        assert made.entrypoint == "aitest_flows.audit.audit"
        assert not made.pull_steps
        assert made.path is None
        assert made.work_pool_name == "tests"
        assert made.parameters == {"suite_uri": document_url(deployed, name), "version": None}
        assert made.global_concurrency_limit.limit == 1
        assert made.concurrency_options.collision_strategy == "ENQUEUE"
        assert str(deployed.folder) not in made.model_copy(update={"parameters": {}}).model_dump_json()
        [schedule] = made.schedules
        assert (schedule.schedule.cron, schedule.schedule.timezone) == ("0 2 * * *", "Europe/Berlin")
        assert automations_of(client, name).keys() == ALERTS | {"absent"}
        for flow in ("suite", "helper", "tabular-robustness", "tabular-generalization"):
            assert client.read_deployment_by_name(f"{flow}/tests").work_pool_name == "tests"

        deploy(deployed, "--cron", "0 3 * * 1-5")
        again = client.read_deployment_by_name(f"audit/{name}")
        assert again.id == made.id
        [schedule] = again.schedules
        assert (schedule.schedule.cron, schedule.schedule.timezone) == ("0 3 * * 1-5", "UTC")
        found = automations_of(client, name)
        assert found.keys() == ALERTS | {"absent"}
        assert found["absent"].trigger.within.total_seconds() == (3 * 24 + 2) * 3600
        assert found["absent"].trigger.expect == {"aitest.audit.ended"}

        deploy(deployed)
        assert client.read_deployment_by_name(f"audit/{name}").schedules == []
        assert automations_of(client, name).keys() == ALERTS


def test_the_document_holds_what_workers_need_and_no_secret(deployed):
    deployed.env["PLANTED_TOKEN"] = "planted-token-value"
    deployed.change("card.yaml", info={"owner": "risk"})
    card = (deployed.folder / "card.yaml").read_text()
    deployed.write("card.yaml", card.replace("endpoint:", "endpoint:\n  auth: {type: bearer, token: '${PLANTED_TOKEN}'}", 1))
    assert "PLANTED_TOKEN" in deploy(deployed)
    deploy(deployed)
    document = json.loads((deployed.store / "suites" / f"{name_of(deployed)}.json").read_text())
    [data] = list((deployed.store / "data").glob("*/data.csv"))
    assert document["suite"]["data"]["test"] == f"file://{data}"
    assert data.read_bytes() == (deployed.folder / "data.csv").read_bytes()
    assert document["card"]["info"] == {"owner": "risk"}
    assert document["pool"] == "tests"
    assert "planted-token-value" not in json.dumps(document)


def test_data_with_a_private_column_stay_where_they_are(deployed):
    private = {"job": {"private": True}, "sex": {"private": True}}
    deployed.change("suite.yaml", data={"test": "data.csv", "label": "income", "schema": private})
    text = deploy(deployed)
    assert f"{deployed.folder}/data.csv stays where it is, for job, sex is private" in text
    document = json.loads((deployed.store / "suites" / f"{name_of(deployed)}.json").read_text())
    assert document["suite"]["data"]["test"] == str(deployed.folder / "data.csv")
    assert not (deployed.store / "data").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--cron", "0 25 * * *"), "--cron: '25' is no hour (in '0 25 * * *')"),
        (("--timezone", "UTC"), "--timezone: got 'UTC' without a schedule"),
        (("--on-new-version", "adult"), "--on-new-version adult: the suite tests the card card.yaml"),
        (("--pool", "a/b"), "--pool: 'a/b' cannot be the name of a work pool"),
    ],
)
def test_what_cannot_be_deployed_is_one_message(deployed, args, message):
    text = deploy(deployed, *args, code=2)
    assert message in text
    assert len(text.splitlines()) == 1
    assert not (deployed.store / "suites").exists()


def test_the_data_are_checked_first(deployed):
    deployed.change("suite.yaml", data={"test": "data.csv", "label": "incom"})
    assert "unknown column 'incom'" in deploy(deployed, code=2)


def test_without_a_server_that_stays_up(deployed):
    del deployed.env["PREFECT_API_URL"]
    text = deploy(deployed, code=3)
    assert "there is no Prefect server; deployments need one that stays up: start it with `aitest up`" in text
    deployed.env["PREFECT_API_URL"] = "http://127.0.0.1:9/api"
    assert "http://127.0.0.1:9/api (PREFECT_API_URL) does not answer" in deploy(deployed, code=3)


def test_a_trigger_for_new_versions(deployed):
    name = name_of(deployed)
    register(deployed, "1")
    deployed.change("suite.yaml", model={"name": "served"})
    refused = deploy(deployed, "--on-new-version", "served", code=2)
    assert "nothing would tell of new versions: AITEST_WEBHOOK_URL and AITEST_WEBHOOK_SECRET are not set" in refused
    deployed.env |= {"AITEST_WEBHOOK_URL": "http://127.0.0.1:9/webhooks/mlflow", "AITEST_WEBHOOK_SECRET": "planted-secret"}
    text = deploy(deployed, "--on-new-version", "served", "--cron", "0 2 * * *")
    assert "new versions of served are audited at the next scheduled run only" in text
    assert "only a server calls webhooks" in text
    assert "planted-secret" not in text
    trigger = "new version of served"
    with prefect_at(shared_prefect()) as client:
        made = client.read_deployment_by_name(f"audit/{name}")
        found = automations_of(client, name)[trigger]
        assert found.trigger.expect == {"mlflow.model_version.created"}
        assert found.trigger.match.root == {"prefect.resource.id": "mlflow.model.served"}
        [action] = found.actions
        assert (action.deployment_id, action.parameters) == (made.id, {"version": "{{ event.payload.version }}"})
        deploy(deployed, "--cron", "0 2 * * *")
        assert trigger not in automations_of(client, name)


def test_alerts_reach_the_block_that_is_there(deployed):
    from prefect.blocks.notifications import CustomWebhookNotificationBlock

    name, got = name_of(deployed), []

    class Inbox(BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            return

    inbox = HTTPServer(("127.0.0.1", 0), Inbox)
    Thread(target=inbox.serve_forever, daemon=True).start()
    deployed.change("suite.yaml", properties=[{**JUDGED[0], "gates": {"pass_rate": {"min": 1.0}}}])
    with prefect_at(shared_prefect()) as client:
        block = CustomWebhookNotificationBlock(
            name="inbox",
            url=f"http://127.0.0.1:{inbox.server_address[1]}/",
            json_data={"subject": "{{subject}}", "body": "{{body}}"},
        )
        saved = block.save("aitest-alerts", overwrite=True)
        try:
            assert "to aitest-alerts" in deploy(deployed)
            assert run_audit(deployed, name).name == "Gates failed"
            assert until(lambda: got, 30)
        finally:
            client.delete_block_document(saved)
            inbox.shutdown()
            inbox.server_close()
    [message] = got
    assert f"audit of {name}: failed" in message
    assert "served version" in message
    assert "tabular.robustness failed; run " in message


class TestAudit:
    def test_of_a_card_that_is_gone_from_its_folder(self, deployed):
        name = name_of(deployed)
        deploy(deployed)
        (deployed.folder / "card.yaml").unlink()
        (deployed.folder / "data.csv").unlink()
        state = run_audit(deployed, name)
        assert (state.type, state.name) == ("COMPLETED", "Gates passed"), state.message
        with prefect_at(shared_prefect()) as client:
            (ended, payload), (verdict, same) = events_of(client, name, 2)
        assert (ended, verdict) == ("ended", "passed")
        assert payload == same
        assert {key: payload[key] for key in ("model", "version", "status")} == {
            "model": "served",
            "version": None,
            "status": "passed",
        }
        assert deployed.here("show", payload["run_id"]).code == 0

    def test_every_version_has_its_turn(self, deployed, server):
        name = name_of(deployed)
        good = server.card(card__revision="1", card__inputs={"columns": ["age", "hours", "rate", "job", "sex"]})
        register(deployed, "1")
        register(deployed, "2", inputs={"columns": ["age", "nonsense"]})
        deployed.write("card.yaml", good)
        register(deployed, "3")
        deployed.change("suite.yaml", model={"name": "served", "version": "latest"})
        deploy(deployed, "--cron", "0 2 * * *")
        state = run_audit(deployed, name)
        assert state.type == "FAILED"
        lines = [line.partition(";")[0] for line in state.message.splitlines()]
        assert lines == ["served version 3: passed", "served version 1: passed", "served version 2: error"]
        assert "the data have no column 'nonsense'" in state.message
        with prefect_at(shared_prefect()) as client:
            told = [(event, payload["version"]) for event, payload in events_of(client, name, 5)]
        assert sorted(told) == sorted([("ended", "3"), ("passed", "3"), ("ended", "1"), ("passed", "1"), ("error", "2")])

        again = run_audit(deployed, name, "3")  # the event of a version that the night has audited
        assert (again.type, again.name) == ("COMPLETED", "Already audited")
        assert "served version 3 is passed" in again.message
        register(deployed, "4")
        assert "overdue" in deployed.here("models").out
        new = run_audit(deployed, name, "4")
        assert (new.name, new.message.partition(";")[0]) == ("Gates passed", "served version 4: passed")
        with deployed.entered():
            settings = open_settings()
            document = open_suite(settings.store, document_url(deployed, name))
            assert due_versions(settings, document) == ["4", "2"]  # the newest every night, and what has no verdict yet
        assert next(line for line in deployed.here("models").out.splitlines() if "served" in line).count("overdue") == 0

    def test_what_is_reached_no_more_gets_no_verdict(self, deployed, server):
        for revision in ("1", "2"):
            register(deployed, revision, server.url)
        again = deployed.here("register", "card.yaml")
        assert "served version 2 is this card already (revision 2); nothing is registered" in again.out
        deployed.change("suite.yaml", model={"name": "served"})
        deploy(deployed)
        late = run_audit(deployed, name_of(deployed), "1")
        assert (late.type, late.name) == ("COMPLETED", "Superseded")
        assert "served version 2 is reached where version 1 was" in late.message
        night = run_audit(deployed, name_of(deployed))
        assert [line.partition(";")[0] for line in night.message.splitlines()] == ["served version 2: passed"]

    def test_of_a_version_that_there_is_not(self, deployed):
        register(deployed, "1")
        deployed.change("suite.yaml", model={"name": "served"})
        deploy(deployed)
        state = run_audit(deployed, name_of(deployed), "7")
        assert state.type == "FAILED"
        assert "the model served has no version '7'; it has 1" in state.message

    def test_without_gates_is_no_success(self, deployed):
        deployed.change("suite.yaml", properties=[*JUDGED, {"property": "tabular.generalization"}])
        assert "without gates, and so unjudged: tabular.generalization" in deploy(deployed)
        state = run_audit(deployed, name_of(deployed))
        assert (state.type, state.name) == ("COMPLETED", "Unjudged")
        with prefect_at(shared_prefect()) as client:
            assert [event for event, _ in events_of(client, name_of(deployed), 2)] == ["ended", "unjudged"]

    def test_of_a_suite_from_another_store_says_so(self, deployed, tmp_path):
        name = name_of(deployed)
        deploy(deployed)
        other = new_project(tmp_path / "other")
        state = run_audit(other, name, document=document_url(deployed, name))
        assert state.type == "FAILED"
        assert "start it with the same AITEST_STORE" in state.message
        shutil.rmtree(deployed.store / "suites")
        state = run_audit(deployed, name)
        assert "deploy it again with `aitest deploy`" in state.message
        with prefect_at(shared_prefect()) as client:
            assert [event for event, _ in events_of(client, name, 2)] == ["error"] * 2


def test_the_deployments_by_hand(tmp_path, project):
    """What `prefect deploy` makes of the file is what `aitest deploy` makes."""
    file = tmp_path / "prefect.yaml"
    text = (Path(__file__).parents[2] / "deployments" / "prefect.yaml").read_text()
    file.write_text(text.replace("name: aitest,", "name: by-hand,"))
    environment = project.environment() | {"PREFECT_API_URL": shared_prefect(), "PREFECT_HOME": str(tmp_path / "home")}
    prefect = [sys.executable, "-m", "prefect", "--no-prompt"]
    for command in (["work-pool", "create", "by-hand", "--type", "process"], ["deploy", "--all"]):
        done = subprocess.run([*prefect, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    with prefect_at(shared_prefect()) as client:
        for name in ("suite/by-hand", "helper/by-hand", "tabular-robustness/by-hand", "audit/credit-nightly"):
            made = client.read_deployment_by_name(name)
            assert (made.path, made.pull_steps, made.work_pool_name) == (None, [], "by-hand")
            assert str(tmp_path) not in made.model_dump_json()
        [schedule] = made.schedules
        assert (schedule.schedule.cron, made.global_concurrency_limit.limit) == ("0 2 * * *", 1)
        assert "new version of credit" in automations_of(client, "credit-nightly")
        client.delete_deployment(made.id)

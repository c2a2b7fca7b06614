"""The webhook receiver believes what is signed, young and new, and answers for what Prefect has taken."""

import asyncio
import base64
import hashlib
import hmac
import json
import socket
import subprocess
import sys
from contextlib import closing
from threading import Thread

import httpx
import pytest
import uvicorn
from projects import until

from aitest_flows import receiver as receiver_module
from aitest_flows.receiver import AGE_S, BODY_BYTES, SERVING, Deliveries, make_app
from aitest_tasks.settings import QUIET

SECRET = "planted-signing-secret"
NOW = 1_800_000_000.0
VERSION = {"entity": "model_version", "action": "created", "data": {"name": "adult", "version": "3"}}


class Receiver:
    """The app in this process, with a clock to set and a Prefect that may be down."""

    def __init__(self):
        self.told, self.down, self.now = [], False, NOW
        self.app = make_app(SECRET, self.tell, lambda: self.now)

    async def tell(self, model, version, delivery):
        if self.down:
            raise ConnectionError("planted")
        self.told.append((model, version))

    def call(self, method, path, **request):
        async def ask():
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://receiver") as client:
                return await client.request(method, path, **request)

        return asyncio.run(ask())

    def post(self, message=VERSION, delivery="d1", secret=SECRET, at=NOW, **headers):
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        signed = signature(secret, delivery, str(int(at)), body)
        standard = {"X-MLflow-Delivery-Id": delivery, "X-MLflow-Timestamp": str(int(at)), "X-MLflow-Signature": signed}
        return self.call("POST", "/webhooks/mlflow", content=body, headers=standard | headers).status_code


def signature(secret, delivery, timestamp, body):
    """As MLflow's documentation says, step by step."""
    mac = hmac.new(secret.encode(), f"{delivery}.{timestamp}.{body.decode()}".encode(), hashlib.sha256)
    return "v1," + base64.b64encode(mac.digest()).decode()


@pytest.fixture
def receiver():
    return Receiver()


def test_it_is_healthy(receiver):
    assert receiver.call("GET", "/health").status_code == 200
    assert receiver.call("GET", "/docs").status_code == 404


def test_a_new_version_is_told_once(receiver):
    assert receiver.post() == 202
    assert receiver.post() == 409
    assert receiver.post(delivery="d2") == 202
    assert receiver.told == [("adult", "3")] * 2


def test_mlflow_signs_as_it_is_checked(receiver):
    from mlflow.webhooks.delivery import _generate_hmac_signature

    body = json.dumps(VERSION)
    mark = _generate_hmac_signature(SECRET, "d1", str(int(NOW)), body)
    assert receiver.post(body.encode(), **{"X-MLflow-Signature": mark}) == 202


@pytest.mark.parametrize(
    "headers",
    [
        {"X-MLflow-Signature": ""},
        {"X-MLflow-Signature": "v1,"},
        {"X-MLflow-Signature": "v1,%%%"},
        {"X-MLflow-Signature": "v1," + base64.b64encode(bytes(32)).decode()},
        {"X-MLflow-Signature": signature(SECRET, "d1", str(int(NOW)), json.dumps(VERSION).encode()).replace("v1", "v2")},
        {"X-MLflow-Delivery-Id": "another"},
        {"X-MLflow-Timestamp": str(int(NOW) + 1)},
        {"X-MLflow-Timestamp": "now"},
    ],
)
def test_what_is_not_signed_so_is_refused(receiver, headers):
    assert receiver.post(**headers) == 401
    assert receiver.told == []
    assert receiver.post() == 202  # and its id is not used up


def test_another_secret_is_refused(receiver):
    assert receiver.post(secret="guess") == 401


def test_a_delivery_without_an_id_is_refused(receiver):
    assert receiver.post(delivery="") == 401


@pytest.mark.parametrize(("age", "status"), [(AGE_S, 202), (AGE_S + 1, 401), (-AGE_S, 202), (-AGE_S - 1, 401)])
def test_old_and_future_ones_are_refused(receiver, age, status):
    assert receiver.post(at=NOW - age) == status


def test_a_replay_is_refused_for_as_long_as_it_is_young(receiver):
    ahead = NOW + AGE_S
    assert receiver.post(at=ahead) == 202
    receiver.now = ahead + AGE_S
    assert receiver.post(at=ahead) == 409
    receiver.now += 1
    assert receiver.post(at=ahead) == 401
    assert len(receiver.told) == 1


def test_a_body_has_its_limit(receiver):
    assert receiver.post(b" " * BODY_BYTES + b"x") == 413
    assert receiver.told == []


@pytest.mark.parametrize(
    "message",
    [
        {"entity": "registered_model", "action": "created", "data": {"name": "adult"}},
        {"entity": "model_version", "action": "deleted", "data": {"name": "adult", "version": "3"}},
        {"entity": "model_version", "action": "created", "data": None},
        [],
        b"{",
        b"[" * 100_000,
    ],
)
def test_other_events_are_ignored(receiver, message):
    assert receiver.post(message) == 204
    assert receiver.told == []


@pytest.mark.parametrize("wrong", ["", "x" * 257, "\ud800", "a\udfffb", None, 3, ["adult"]])
@pytest.mark.parametrize("key", ["name", "version"])
def test_what_cannot_be_a_name_is_refused_though_it_is_signed(receiver, key, wrong):
    assert receiver.post({**VERSION, "data": {**VERSION["data"], key: wrong}}) == 422
    assert receiver.told == []


def test_the_longest_name_is_one(receiver):
    assert receiver.post({**VERSION, "data": {"name": "ä" * 256, "version": "9" * 256}}) == 202


def test_mlflows_test_of_a_webhook_starts_nothing(receiver):
    assert receiver.post({**VERSION, "data": {"name": "example_model", "version": "1"}}) == 200
    assert receiver.told == []


def test_mlflow_sends_again_what_prefect_did_not_take(receiver, capsys):
    receiver.down = True
    assert receiver.post() == 503
    receiver.down = False
    assert receiver.post() == 202
    assert receiver.told == [("adult", "3")]
    logged = capsys.readouterr()
    assert "adult version 3" in logged.err
    assert "planted" not in logged.out + logged.err


def test_the_memory_is_bounded_and_makes_room():
    deliveries = Deliveries(most=2)
    assert deliveries.add("a", NOW)
    assert not deliveries.is_full(NOW)
    assert deliveries.add("b", NOW + 10)
    assert deliveries.is_full(NOW + 10)
    assert not deliveries.is_full(NOW + 2 * AGE_S + 5)
    assert deliveries.add("a", NOW + 2 * AGE_S + 5)
    assert not deliveries.add("b", NOW + 2 * AGE_S + 5)


@pytest.fixture
def served(receiver):
    """The port of a real server."""
    server = uvicorn.Server(uvicorn.Config(receiver.app, host="127.0.0.1", port=0, **SERVING))
    thread = Thread(target=server.run)
    thread.start()
    assert until(lambda: server.started)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(30)
    assert not thread.is_alive()


def begin_body(port):
    """A client that promises a body and sends a part of it."""
    client = socket.create_connection(("127.0.0.1", port), timeout=30)
    client.sendall(b"POST /webhooks/mlflow HTTP/1.1\r\nHost: receiver\r\nContent-Length: 100\r\n\r\n{")
    return client


def everything(client):
    """All that comes until the server closes the connection."""
    return b"".join(iter(lambda: client.recv(4096), b""))


def test_a_body_that_does_not_come_ends_the_connection(served, monkeypatch):
    monkeypatch.setattr(receiver_module, "BODY_S", 0.2)
    with closing(begin_body(served)) as client:
        assert everything(client).startswith(b"HTTP/1.1 408 ")


def test_a_client_that_goes_away_is_no_defect(served, monkeypatch, capfd):
    statuses = []
    refused = receiver_module._refused
    monkeypatch.setattr(receiver_module, "_refused", lambda status: statuses.append(status) or refused(status))
    begin_body(served).close()
    assert until(lambda: statuses) == [400]
    assert httpx.get(f"http://127.0.0.1:{served}/health", trust_env=False).status_code == 200
    shown = capfd.readouterr()
    assert shown.out + shown.err == ""


def test_clients_that_wait_are_so_many_and_no_more(served):
    waiting = [begin_body(served) for _ in range(SERVING["limit_concurrency"] - 1)]  # and one that asks
    health = f"http://127.0.0.1:{served}/health"
    try:
        assert until(lambda: httpx.get(health, trust_env=False).status_code == 503)
    finally:
        for client in waiting:
            client.close()
    assert until(lambda: httpx.get(health, trust_env=False).status_code == 200)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "AITEST_WEBHOOK_SECRET is not set"),
        ({"AITEST_WEBHOOK_SECRET": SECRET}, "PREFECT_API_URL is not set"),
        ({"AITEST_WEBHOOK_SECRET": SECRET, "PREFECT_API_URL": "nowhere"}, "PREFECT_API_URL is not the address"),
    ],
)
def test_it_does_not_start_without_what_it_needs(tmp_path, given, message):
    done = subprocess.run(
        [sys.executable, "-m", "aitest_flows.receiver", "--port", "0"],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": "", **QUIET, **given},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert SECRET not in done.stderr

"""WebSocket calls against real servers: one that speaks the protocol of Vosk, and ones that misbehave."""

from __future__ import annotations

import base64
import json
import logging
import threading
import time
from contextlib import contextmanager
from http import HTTPStatus

import pytest
from websockets.sync.server import serve
from wire_servers import Authority, Wire, proxying, tcp_serving

from aitest_lib.errors import Interrupted, ModelAnswerError, ModelUnavailable
from aitest_lib.models.batches import CallLostError
from aitest_lib.models.endpoint import transport, websocket

CLIP = bytes(range(256)) * 100  # 25,600 bytes: four messages
TALK = json.dumps([{"config": {"sample_rate": 16000}}, {"binary": base64.b64encode(CLIP).decode()}, {"eof": 1}]).encode()


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch):
    monkeypatch.setattr(transport, "BACKOFF_S", 0.01)


@pytest.fixture
def wires():
    made = []

    def wire(*args, **endpoint):
        made.append(Wire(*args, **{"body": "websocket", **endpoint}))
        return made[-1]

    yield wire
    for one in made:
        one.transport.close()


class Vosk:
    """Vosk's protocol: a config in text, audio in binary, a partial for each piece, `{"eof": 1}`, the final text, close."""

    def __init__(self):
        self.received, self.headers, self.paths, self.times = [], [], [], []
        self.refusals = []  # (status, headers) for the next handshakes
        self.drops = 0  # connections to drop in the middle

    def check(self, connection, request):
        self.headers.append(dict(request.headers.raw_items()))
        self.paths.append(request.path)
        self.times.append(time.monotonic())
        if not self.refusals:
            return None
        status, headers = self.refusals.pop(0)
        response = connection.respond(HTTPStatus(status), f"status {status}\n")
        response.headers.update(headers)
        return response

    def __call__(self, connection):
        messages = []
        self.received.append(messages)
        for message in connection:
            messages.append(message)
            if self.drops:
                self.drops -= 1
                connection.close_socket()
                return
            if isinstance(message, bytes):
                connection.send(json.dumps({"partial": f"heard {len(message)}"}))
            elif "eof" in message:
                connection.send(json.dumps({"text": "guten tag"}))
                return


@contextmanager
def ws_serving(talk, context=None, check=None):
    with serve(talk, "127.0.0.1", 0, ssl=context, process_request=check, compression=None) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"ws{'s' if context else ''}://127.0.0.1:{server.socket.getsockname()[1]}/asr"
        server.shutdown()


def test_the_protocol_of_vosk(wires):
    vosk = Vosk()
    with ws_serving(vosk, check=vosk.check) as url:
        wire = wires(url, auth={"type": "bearer", "token": "t-12345"})
        answer = wire.post(content=TALK, headers={"X-Team": "risk"})
        assert answer.status == 200
        texts = [json.loads(text) for text in json.loads(answer.text)]
        assert texts == [{"partial": f"heard {size}"} for size in (8000, 8000, 8000, 1600)] + [{"text": "guten tag"}]
        (messages,) = vosk.received
        assert json.loads(messages[0]) == {"config": {"sample_rate": 16000}}
        assert b"".join(messages[1:-1]) == CLIP
        assert json.loads(messages[-1]) == {"eof": 1}
        assert (vosk.headers[0]["Authorization"], vosk.headers[0]["X-Team"]) == ("Bearer t-12345", "risk")
        assert (wire.usage.calls, wire.usage.rows, wire.usage.retries) == (1, 1, 0)


def test_a_connection_that_drops_is_tried_again(wires):
    vosk = Vosk()
    vosk.drops = 2
    with ws_serving(vosk) as url:
        wire = wires(url, retries=2)
        assert "guten tag" in wire.post(content=TALK).text
        assert (len(vosk.received), wire.usage.retries) == (3, 2)
        vosk.drops = 3
        with pytest.raises(CallLostError, match=r"sent 1 row to ws://.* 3 times, got the connection was lost"):
            wire.post(content=TALK)


def test_a_server_that_closes_with_an_error(wires):
    with (
        ws_serving(lambda connection: connection.close(1011, "no memory")) as url,
        pytest.raises(CallLostError, match=r"the connection was lost: .*1011.*no memory"),
    ):
        wires(url).post(content=TALK)


@pytest.mark.parametrize("content", [TALK, json.dumps([{"binary": base64.b64encode(bytes(30_000_000)).decode()}]).encode()])
def test_a_server_that_never_answers(wires, content):
    # a little is sent; or so much that sending blocks
    with (
        ws_serving(lambda connection: time.sleep(60)) as url,
        pytest.raises(CallLostError, match=r"no close within 0.5 s, after 0 text messages"),
    ):
        wires(url, timeout_s=0.5).post(content=content)


def test_a_server_that_never_closes(wires):
    def talk(connection):
        while True:
            connection.send("{}")
            time.sleep(0.05)

    with ws_serving(talk) as url, pytest.raises(CallLostError, match=r"no close within 0.5 s, after \d+ text messages"):
        wires(url, timeout_s=0.5).post(content=TALK)


def test_a_server_that_shakes_no_hands(wires):
    with (
        tcp_serving(lambda connection: time.sleep(60)) as port,
        pytest.raises(ModelUnavailable, match=r"cannot be reached.*no connection within 0.5 s"),
    ):
        wires(f"ws://127.0.0.1:{port}/", timeout_s=0.5).post(content=TALK)
    with (
        tcp_serving(lambda connection: connection.recv(65536) and connection.sendall(b"SSH-2.0-x\r\n\r\n")) as port,
        pytest.raises(CallLostError, match=r"the opening handshake failed"),
    ):
        wires(f"ws://127.0.0.1:{port}/").post(content=TALK)
    with pytest.raises(ModelUnavailable, match=r"cannot be reached.*refused"):
        wires("ws://127.0.0.1:9/").post(content=TALK)


def test_stop_ends_an_exchange_and_a_handshake(wires):
    reached = threading.Event()

    def silent(connection):
        reached.set()
        time.sleep(60)

    def stopped(url):
        reached.clear()
        wire = wires(url, timeout_s=600)

        def stop():
            reached.wait(20)
            wire.stop.set()
            wire.transport.shutdown()

        threading.Thread(target=stop).start()
        with pytest.raises(Interrupted):
            wire.post(content=TALK)

    with ws_serving(silent) as url:
        stopped(url)
    with tcp_serving(silent) as port:
        stopped(f"ws://127.0.0.1:{port}/")


def test_statuses_of_the_handshake_are_those_of_http(wires):
    vosk = Vosk()
    with ws_serving(vosk, check=vosk.check) as url:
        vosk.refusals = [(429, {"Retry-After": "0"}), (503, {})]
        wire = wires(url, retries=2)
        assert "guten tag" in wire.post(content=TALK).text
        assert wire.usage.retries == 2
        vosk.refusals = [(503, {}), (503, {}), (503, {})]
        with pytest.raises(CallLostError, match="3 times, got HTTP 503 status 503"):
            wire.post(content=TALK)
        vosk.refusals = [(401, {})]
        assert wire.transport.send(lambda: wire.call(content=TALK), renew=lambda: True).status == 200
        vosk.refusals = [(400, {})]
        assert wire.post(content=TALK).status == 400
        vosk.refusals = [(401, {})]
        with pytest.raises(ModelUnavailable, match=r"HTTP 401 status 401; check `endpoint.auth`"):
            wire.post(content=TALK)


def test_a_key_in_the_query_and_the_rate(wires):
    vosk = Vosk()
    with ws_serving(vosk, check=vosk.check) as url:
        wire = wires(f"{url}?lang=de", auth={"type": "api-key", "key": "k/12345", "query": "key"}, rate_per_s=20)
        for _ in range(4):
            wire.post(content=TALK)
        assert vosk.paths[0] == "/asr?lang=de&key=k%2F12345"
        assert vosk.times[-1] - vosk.times[0] >= 2 / 20  # three gaps, of which a busy machine may see one less


def test_messages_that_are_too_large(wires, monkeypatch):
    monkeypatch.setattr(websocket, "MAX_ANSWER", 1000)
    with (
        ws_serving(lambda connection: connection.send("x" * 1001)) as url,
        pytest.raises(ModelAnswerError, match="messages of more than"),
    ):
        wires(url).post(content=TALK)
    monkeypatch.setattr(websocket, "MAX_MESSAGE", 1000)
    with ws_serving(lambda connection: connection.send("x" * 1001)) as url, pytest.raises(CallLostError, match="1009"):
        wires(url).post(content=TALK)


def test_what_the_library_says_of_itself_is_not_shown(caplog):
    """Frames that come when the time is up are an internal error to it, with a traceback, now and then."""
    for say in ("debug", "error", "exception"):
        getattr(logging.getLogger("websockets.client"), say)("unexpected internal error")
    assert not caplog.records


@pytest.mark.parametrize("content", [b'{"a": 1}', b"nothing", b'[{"binary": "%"}]', b"[" * 100_000])
def test_a_body_that_is_no_list_of_messages(wires, content):
    with pytest.raises(ModelAnswerError, match="cannot be sent over a WebSocket: expected a JSON list"):
        wires("ws://127.0.0.1:9/").post(content=content)


def test_what_goes_as_text_and_what_as_binary(wires):
    vosk = Vosk()
    items = ["plain", 3, None, {"binary": ""}, {"binary": 3}, {"binary": "eA==", "more": 1}, {"ü": "\n"}, {"eof": 1}]
    with ws_serving(vosk) as url:
        wires(url).post(content=json.dumps(items).encode())
    (messages,) = vosk.received
    assert messages[3] == b""
    assert [json.loads(text) for text in messages[:3] + messages[4:]] == items[:3] + items[4:]


def test_tls_with_a_ca_of_ones_own(wires, tmp_path):
    authority, vosk = Authority(tmp_path), Vosk()
    Authority(tmp_path, "other")
    with ws_serving(vosk, authority.server_context()) as url:
        assert "guten tag" in wires(url, tmp_path, tls={"ca": "ca.pem"}).post(content=TALK).text
        with pytest.raises(ModelUnavailable, match=r"not trusted.*set endpoint.tls.ca to the PEM file of its CA"):
            wires(url, tmp_path, tls={"ca": "other.pem"}, retries=20).post(content=TALK)


def test_a_certificate_of_ones_own(wires, tmp_path):
    authority, vosk = Authority(tmp_path), Vosk()
    authority.issue("client")
    with ws_serving(vosk, authority.server_context(clients=True)) as url:
        mine = {"ca": "ca.pem", "cert": "client.pem", "key": "client.key"}
        assert "guten tag" in wires(url, tmp_path, tls=mine).post(content=TALK).text
        with pytest.raises(ModelUnavailable, match=r"does not accept our certificate.*set endpoint.tls.cert"):
            wires(url, tmp_path, tls={"ca": "ca.pem"}, retries=20).post(content=TALK)


@pytest.mark.parametrize("secure_proxy", [False, True])
@pytest.mark.parametrize("secure", [False, True])
def test_a_proxy(wires, tmp_path, secure, secure_proxy):
    context, vosk = Authority(tmp_path).server_context(), Vosk()
    with ws_serving(vosk, context if secure else None) as url, proxying(context if secure_proxy else None) as proxy:
        scheme = "https" if secure_proxy else "http"
        at = {"proxy": f"{scheme}://me:secret-pw@127.0.0.1:{proxy.port}", "tls": {"ca": "ca.pem"}}
        assert "guten tag" in wires(url, tmp_path, **at).post(content=TALK).text
        assert proxy.lines == [f"CONNECT {url.split('/')[2]} HTTP/1.1"]
        assert proxy.pairs == ["me:secret-pw"]
        proxy.refuse = "407 Proxy Authentication Required"
        with pytest.raises(ModelUnavailable, match=r"the proxy \w+://127.*refuses the connection: HTTP 407.*endpoint.proxy"):
            wires(url, tmp_path, **at, retries=20).post(content=TALK)

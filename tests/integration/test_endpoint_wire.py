"""Deadlines, limits, redirects, TLS and proxies of the endpoint's transport, against real servers."""

from __future__ import annotations

import gzip
import itertools
import socket
import ssl
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from wire_servers import Authority, Wire, http_serving, proxying, tcp_serving

from aitest_lib.errors import InputError, Interrupted, ModelAnswerError, ModelUnavailable
from aitest_lib.models.batches import CallLostError
from aitest_lib.models.endpoint import http, network, transport


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch):
    monkeypatch.setattr(transport, "BACKOFF_S", 0.01)


@pytest.fixture
def wires():
    made = []

    def wire(*args, **endpoint):
        made.append(Wire(*args, **endpoint))
        return made[-1]

    yield wire
    for one in made:
        one.transport.close()


def ok(request):
    return 200, b'{"ok": true}', {}


def redirecting(status, location):
    return lambda request: (status, b"", {"Location": location}) if request.path.startswith("/score") else ok(request)


def read_request(connection):
    data = b""
    while b'{"n": 1}' not in data:
        received = connection.recv(65536)
        if not received:
            raise ConnectionError("the client has closed")
        data += received


# Deadlines: the server's thread would go on for a minute, so that each of these ends early only because of the deadline.


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 600\r\n\r\n"])
def test_a_server_that_drips_is_too_late(wires, start):
    def talk(connection):
        read_request(connection)
        connection.sendall(start)
        for _ in range(600):
            connection.sendall(b"X")
            time.sleep(0.1)

    with tcp_serving(talk) as port:
        wire = wires(f"http://127.0.0.1:{port}/x", timeout_s=0.5)
        with pytest.raises(CallLostError, match=r"sent 1 row to http://127.0.0.1:\d+/x 1 time, got no answer within 0.5 s"):
            wire.post()


def test_a_server_that_does_not_read_is_too_late(wires):
    with tcp_serving(lambda connection: time.sleep(60)) as port:
        wire = wires(f"http://127.0.0.1:{port}/x", timeout_s=0.5)
        with pytest.raises(CallLostError, match=r"no answer within 0.5 s"):
            wire.post(content=b"x" * 20_000_000)


def test_a_silent_tls_handshake_is_too_late(wires):
    with tcp_serving(lambda connection: time.sleep(60)) as port:
        wire = wires(f"https://127.0.0.1:{port}/x", timeout_s=0.5)
        with pytest.raises(ModelUnavailable, match=r"cannot be reached.*no connection within 0.5 s"):
            wire.post()


def unconnectable():
    """A port whose backlog is full: a connection to it neither succeeds nor fails."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    fill = []
    for _ in range(4):
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(listener.getsockname())
        fill.append(one)
    return listener, fill


def test_a_connection_that_hangs_is_too_late_and_ends_with_stop(wires):
    listener, fill = unconnectable()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
    with pytest.raises(ModelUnavailable, match=r"no connection within 0.3 s"):
        wires(url, timeout_s=0.3).post()
    wire = wires(url, timeout_s=600)
    threading.Timer(0.2, wire.stop.set).start()
    with pytest.raises(Interrupted):  # without a poll this would last `LONGEST_CONNECT_S` and be a ModelUnavailable
        wire.post()
    for one in [listener, *fill]:
        one.close()


def test_a_name_server_that_hangs_is_too_late(wires, monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(network.socket, "getaddrinfo", lambda *_, **__: released.wait(60) and [])
    with pytest.raises(ModelUnavailable, match=r"no connection within 0.3 s"):
        wires("http://model.test/x", timeout_s=0.3).post()
    released.set()


def test_an_unknown_host_is_named(wires):
    with pytest.raises(ModelUnavailable, match=r"cannot be reached: sent 1 row to http://model.invalid/x 1 time, got Connect"):
        wires("http://model.invalid/x?key=12345").post()
    with pytest.raises(ModelUnavailable, match=r"not a host name"):
        wires(f"http://{'a' * 64}.test/x").post()


def test_waiting_for_the_rate_does_not_count_as_lateness(wires):
    with http_serving(ok) as server:
        wire = wires(server.url, rate_per_s=2, timeout_s=0.4, concurrency=4)
        with ThreadPoolExecutor(4) as pool:
            assert {answer.status for answer in pool.map(lambda _: wire.post(), range(4))} == {200}


def test_stop_ends_a_call_that_waits(wires):
    asked = threading.Event()

    def talk(connection):
        read_request(connection)
        asked.set()
        time.sleep(60)

    with tcp_serving(talk) as port:
        wire = wires(f"http://127.0.0.1:{port}/x", timeout_s=600, retries=5)

        def stop():
            asked.wait(20)
            wire.stop.set()
            wire.transport.shutdown()

        threading.Thread(target=stop).start()
        with pytest.raises(Interrupted):
            wire.post()


def test_a_call_after_close(wires):
    with http_serving(ok) as server:
        wire = wires(server.url)
        wire.post()
        wire.transport.close()
        wire.transport.close()
        with pytest.raises(ModelUnavailable, match="has been closed"):
            wire.post()


# What comes back


def test_an_answer_may_not_be_huge(wires, monkeypatch):
    monkeypatch.setattr(http, "MAX_ANSWER", 2**20)
    bomb = gzip.compress(bytes(40 * 2**20))
    assert len(bomb) < 2**17
    answers = iter([(200, bomb, {"Content-Encoding": "gzip"}), (200, bytes(2**20 + 1), {}), (200, bytes(2**20), {})])
    with http_serving(lambda request: next(answers)) as server:
        for _ in range(2):
            with pytest.raises(ModelAnswerError, match="an answer of more than 1 MiB"):
                wires(server.url).post()
        assert len(wires(server.url).post().text) == 2**20


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br"])
def test_only_the_encodings_that_were_asked_for(wires, encoding):
    with http_serving(lambda request: (200, b"x", {"Content-Encoding": encoding})) as server:
        with pytest.raises(ModelAnswerError, match="expected none, gzip or deflate"):
            wires(server.url).post()
        assert server.requests[0].headers["Accept-Encoding"] == "gzip, deflate"


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ("grün".encode("latin-1"), "text/plain; charset=iso-8859-1", "grün"),
        (b'\xef\xbb\xbf{"a": 1}', "application/json", '{"a": 1}'),
        (b"\xff\xfe", "application/json", "\ufffd\ufffd"),
        (b"abc", "text/plain; charset=zlib", "abc"),
        (b"abc", "text/plain; charset=idna", "abc"),
        (b"abc", "text/plain; charset=nonsense", "abc"),
        (b"+AGE-", "text/plain; charset=utf-7", "+AGE-"),
        (b"\\x61", "text/plain; charset=unicode_escape", "\\x61"),
        (b"abc", "text/plain; charset=iso-8859-99", "abc"),
        (b"a\xff", "text/plain; charset=utf8", "a\ufffd"),
        ("\ufeffgrün".encode("utf-16-le"), "text/plain; charset=UTF-16LE", "grün"),
        *(("Ж".encode(name), f"text/plain; charset={name}", "Ж") for name in ("KOI8-R", "windows-1251", "utf-16", "utf-32")),
        *(("字".encode(name), f"text/plain; charset={name}", "字") for name in ("Shift_JIS", "EUC-JP", "gb18030", "big5")),
    ],
)
def test_text_in_any_charset(wires, body, kind, text):
    with http_serving(lambda request: (200, body, {"Content-Type": kind})) as server:
        assert wires(server.url).post().text == text


GZIP, ZLIB = zlib.MAX_WBITS | 16, zlib.MAX_WBITS


def compressed(data, window_bits):
    state = zlib.compressobj(wbits=window_bits)
    return state.compress(data) + state.flush()


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", compressed(b"0.97e-05", GZIP)),
        ("X-GZip", compressed(b"0.97", GZIP) + compressed(b"e-05", GZIP)),
        ("deflate", compressed(b"0.97e-05", ZLIB)),
        ("deflate", compressed(b"0.97e-05", -ZLIB)),
        ("identity", b"0.97e-05"),
    ],
)
def test_a_compressed_answer_is_whole(wires, encoding, body):
    with http_serving(lambda request: (200, body, {"Content-Encoding": encoding})) as server:
        assert wires(server.url).post().text == "0.97e-05"
    with http_serving(lambda request: (200, b"", {"Content-Encoding": encoding})) as server:
        assert wires(server.url).post().text == ""


@pytest.mark.parametrize(("encoding", "window_bits"), [("gzip", GZIP), ("deflate", ZLIB), ("deflate", -ZLIB)])
def test_a_compressed_answer_that_is_cut_is_lost(wires, encoding, window_bits):
    state = zlib.compressobj(wbits=window_bits)
    half = state.compress(b"0.97") + state.flush(zlib.Z_SYNC_FLUSH)
    whole = half + state.compress(b"e-05") + state.flush()
    answers = iter([half, whole, whole[:-1] if window_bits > 0 else half])
    with http_serving(lambda request: (200, next(answers), {"Content-Encoding": encoding})) as server:
        assert wires(server.url, retries=1).post().text == "0.97e-05"
        with pytest.raises(CallLostError, match=f"the answer was cut: its {encoding} data end too early"):
            wires(server.url).post()


def test_a_compressed_answer_that_is_damaged_is_lost(wires):
    damaged = lambda request: (200, b"no gzip", {"Content-Encoding": "gzip"})  # noqa: E731
    with http_serving(damaged) as server, pytest.raises(CallLostError, match="the gzip data of the answer are damaged"):
        wires(server.url).post()


def test_an_answer_that_ends_with_the_connection_needs_the_end_that_tls_demands(wires, tmp_path):
    """Without a length, whoever can close the connection could cut "higher" to "high"."""
    context, says_so = Authority(tmp_path).server_context(), [False, True, False]

    def talk(connection):
        with context.wrap_socket(connection, server_side=True) as secured:
            read_request(secured)
            secured.sendall(b"HTTP/1.1 200 OK\r\n\r\nhigh")
            if says_so.pop(0):
                secured.sendall(b"er")
                secured.unwrap()

    with tcp_serving(talk) as port:
        at = {"tls": {"ca": "ca.pem"}}
        assert wires(f"https://127.0.0.1:{port}/x", tmp_path, **at, retries=1).post().text == "higher"
        with pytest.raises(CallLostError, match="closed without the end that TLS demands"):
            wires(f"https://127.0.0.1:{port}/x", tmp_path, **at).post()


# Connections that are used again


def reply(text):
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()


@pytest.mark.parametrize("secure", [False, True])
def test_what_stands_after_an_answer_is_not_the_answer_to_the_next_call(wires, tmp_path, secure):
    """Both come in one piece; over TLS each in a record of its own, of which the client reads one at a time."""
    context, connections = Authority(tmp_path).server_context(), itertools.count(1)

    def talk(connection):
        if secure:
            connection = context.wrap_socket(connection, server_side=True)
        with connection:
            read_request(connection)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            connection.sendall(reply(f"right {next(connections)}"))
            connection.sendall(reply("wrong"))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
            read_request(connection)
            connection.sendall(reply("late"))

    with tcp_serving(talk) as port:
        wire = wires(f"http{'s' if secure else ''}://127.0.0.1:{port}/x", tmp_path, tls={"ca": "ca.pem"})
        assert [wire.post().text for _ in range(3)] == ["right 1", "right 2", "right 3"]
        assert wire.usage.retries == 0


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("proxied", [False, True])
def test_a_connection_is_used_again(wires, tmp_path, secure, proxied):
    context, connections = Authority(tmp_path).server_context(), itertools.count(1)

    def talk(connection):
        if secure:
            connection = context.wrap_socket(connection, server_side=True)
        with connection:
            number = next(connections)
            while True:
                read_request(connection)
                connection.sendall(reply(str(number)))

    with tcp_serving(talk) as port, proxying() as proxy:
        at = {"tls": {"ca": "ca.pem"}, "proxy": f"http://127.0.0.1:{proxy.port}" if proxied else None}
        wire = wires(f"http{'s' if secure else ''}://127.0.0.1:{port}/x", tmp_path, **at)
        assert [wire.post().text for _ in range(3)] == ["1", "1", "1"]


@pytest.mark.parametrize("secure", [False, True])
def test_a_connection_that_the_server_has_given_up_is_replaced_once(wires, tmp_path, secure):
    context, connections, asked = Authority(tmp_path).server_context(), itertools.count(1), []
    starts = {1: b"", 3: b"HTTP/1.1 2"}  # what comes in answer to the second call on a connection

    def talk(connection):
        if secure:
            connection = context.wrap_socket(connection, server_side=True)
        with connection:
            number = next(connections)
            read_request(connection)
            asked.append(number)
            connection.sendall(reply(f"from {number}"))
            read_request(connection)
            asked.append(number)
            connection.sendall(starts[number])

    with tcp_serving(talk) as port:
        url, at = f"http{'s' if secure else ''}://127.0.0.1:{port}/x", {"tls": {"ca": "ca.pem"}}
        wire = wires(url, tmp_path, **at)
        assert [wire.post().text for _ in range(2)] == ["from 1", "from 2"]
        assert (asked, wire.usage.calls, wire.usage.retries) == ([1, 1, 2], 3, 1)
        wire = wires(url, tmp_path, **at)  # an answer that had begun is lost, and so is one on a new connection
        assert wire.post().text == "from 3"
        with pytest.raises(CallLostError, match="1 time, got"):
            wire.post()
        assert (asked, wire.usage.retries) == ([1, 1, 2, 3, 3], 0)


def test_the_answers_of_steps_do_not_hide_that_calls_are_lost(wires):
    with http_serving(lambda request: ok(request) if request.method == "GET" else (503, b"", {"Retry-After": "0"})) as server:
        wire = wires(server.url)

        def case():
            wire.post(rows=0, method="GET", content=None)
            wire.post()

        for _ in range(2):
            with pytest.raises(CallLostError):
                case()
        with pytest.raises(ModelUnavailable, match="gives no answers: 3 calls in a row failed"):
            case()


@pytest.mark.parametrize("junk", [b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", b""])
def test_what_is_no_http_is_an_error_of_the_call(wires, junk):
    def talk(connection):
        read_request(connection)
        connection.sendall(junk)

    with tcp_serving(talk) as port, pytest.raises(CallLostError, match=r"RemoteProtocolError|ReadError"):
        wires(f"http://127.0.0.1:{port}/x").post()


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("7", 7),
        ("0.25", 0.25),
        ("-3", 0),
        ("86400", 60),
        ("9" * 18, 60),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Wed, 21 Oct 2015 07:28:00 -0000", 0),
        ("Wed, 21 Oct 2215 07:28:00 -0000", 60),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("1_0", None),
        ("", None),
        ("Wed, 99 Oct 2015 07:28:00 GMT", None),
    ],
)
def test_retry_after_is_read_or_left(value, wait):
    assert transport._retry_after(value) == wait


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_retry_after_is_honoured_for_every_passing_failure(wires, monkeypatch, status):
    with http_serving(lambda request: (status, b"busy", {"Retry-After": "0.125"})) as server:
        wire, waits = wires(server.url, retries=2), []
        monkeypatch.setattr(wire.stop, "pause", waits.append)
        with pytest.raises(CallLostError, match=f"3 times, got HTTP {status} busy"):
            wire.post()
        assert (waits, len(server.requests), wire.usage.calls, wire.usage.retries) == ([0.125, 0.125], 3, 3, 2)


@pytest.mark.parametrize("status", [408, 425, 500, 501])
def test_other_failures_are_the_models_answer(wires, status):
    with http_serving(lambda request: (status, b"no", {})) as server:
        assert wires(server.url, retries=3).post().status == status
        assert len(server.requests) == 1


def test_a_steps_status_is_its_own_business(wires):
    with http_serving(lambda request: (404, b"not yet", {})) as server:
        wire = wires(server.url)
        assert wire.post(rows=0, method="GET", content=None).status == 404
        assert wire.post().status == 404  # whether it is the model's or only this input's, one answer does not tell


def test_make_may_send_calls_of_its_own_on_every_attempt(wires):
    def answer(request):
        return ok(request) if request.method == "GET" or len(server.requests) > 2 else (503, b"", {"Retry-After": "0"})

    with http_serving(answer) as server:
        wire = wires(server.url, retries=2, concurrency=1)

        def make():
            step = wire.post(rows=0, method="GET", content=None, headers={})
            return wire.call(headers={"X-Step": str(step.status)})

        assert wire.transport.send(make).status == 200
        assert [request.method for request in server.requests] == ["GET", "POST", "GET", "POST"]
        assert server.requests[-1].headers["X-Step"] == "200"
        assert (wire.usage.calls, wire.usage.retries, wire.usage.rows) == (4, 1, 2)


def test_headers_that_http_does_not_allow(wires, monkeypatch):
    monkeypatch.setenv("T_MULTILINE", "se-cret\r\nX-Evil: 1")
    with http_serving(ok) as server:
        with pytest.raises(ModelUnavailable, match="the header 'X-Key' holds characters") as caught:
            wires(server.url).post(headers={"X-Key": "${T_MULTILINE}"})
        assert "se-cret" not in str(caught.value)
        with pytest.raises(ModelUnavailable, match=r"no call can be made.*check url and headers"):
            wires(server.url).post(headers={"X-Key": "grün"})
        with pytest.raises(ModelUnavailable, match=r"no call can be made.*check url and headers"):
            wires(server.url).post(url="http://127.0.0.1:port/x")
        assert server.requests == []


# Limits


def test_the_rate_holds_in_every_second_for_calls_that_connect_at_different_speeds(wires, tmp_path):
    """The first eight handshakes end together, as in a server that has just woken up: turns alone would let the calls bunch."""
    times = []
    numbers, awake = itertools.count(), threading.Barrier(8)

    def talk(connection):
        if next(numbers) < 8:
            awake.wait(20)
        with context.wrap_socket(connection, server_side=True) as secured:
            read_request(secured)
            times.append(time.monotonic())
            secured.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")

    context = Authority(tmp_path).server_context()
    with tcp_serving(talk) as port:
        wire = wires(f"https://127.0.0.1:{port}/x", tmp_path, tls={"ca": "ca.pem"}, rate_per_s=20, concurrency=8)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: wire.post(), range(30)))
    times.sort()
    most = max(sum(start <= one < start + 1 for one in times) for start in times)
    assert most <= 21 + 2  # a busy machine may see two of them late


def test_concurrency_holds_for_steps_and_calls_together(wires):
    at_once, most, lock = 0, 0, threading.Lock()

    def answer(request):
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.02)
        with lock:
            at_once -= 1
        return ok(request)

    with http_serving(answer) as server:
        wire = wires(server.url, concurrency=3)

        def make():
            wire.post(rows=0, method="GET", content=None)
            return wire.call()

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: wire.transport.send(make), range(16)))
    assert most == 3


# Redirects


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_keeps_method_body_and_credentials(wires, status):
    with http_serving(redirecting(status, "/other?a=1")) as server:
        auth = {"type": "api-key", "key": "k-12345", "query": "key"}
        assert wires(server.url, auth=auth).post().status == 200
        assert [(one.method, one.path, one.body) for one in server.requests] == [
            ("POST", "/score?key=k-12345", b'{"n": 1}'),
            ("POST", "/other?a=1&key=k-12345", b'{"n": 1}'),
        ]


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_would_lose_the_body_is_refused(wires, status):
    with http_serving(redirecting(status, "/other?token=t-12345")) as server:
        with pytest.raises(ModelUnavailable) as caught:
            wires(server.url).post()
        assert f"redirects a POST with HTTP {status} to {server.url[:-5]}other, which would lose" in str(caught.value)
        assert "put the final URL into the card" in str(caught.value)
        assert "t-12345" not in str(caught.value)
        assert wires(server.url).post(rows=0, method="GET", content=None).status == 200
        assert [one.method for one in server.requests] == ["POST", "GET", "GET"]


def test_a_redirect_never_leaves_the_host(wires):
    with http_serving(ok) as other:
        port = other.url.split(":")[2].split("/")[0]
        for place in [other.url, f"http://localhost:{port}/", "http://127.0.0.1/", f"//user:pw@127.0.0.1:{port}/"]:
            with http_serving(redirecting(307, place)) as server:
                with pytest.raises(ModelUnavailable, match="another host; if you trust it, put that URL into the card"):
                    wires(server.url).post()
                with pytest.raises(ModelUnavailable, match="another host"):
                    wires(server.url).post(rows=0, method="GET", content=None)
        assert other.requests == []


@pytest.mark.parametrize(
    ("place", "said"),
    [("http://127.0.0.1/x", "127.0.0.1:80"), ("http://h.test/x", "h.test"), ("http://h.test:1/x", "h.test:1")],
)
def test_the_host_of_a_redirect_is_named_with_its_port_where_that_differs(wires, place, said):
    away = pytest.raises(ModelUnavailable, match=rf"it redirects to http://{said}, another host")
    with http_serving(redirecting(307, place)) as server, away:
        wires(server.url).post()


@pytest.mark.parametrize("place", ["javascript:alert(1)", "mailto:a@b.test", "ftp://x/", "file:///etc/passwd", "data:,x"])
def test_a_redirect_to_what_is_no_http(wires, place):
    with http_serving(redirecting(307, place)) as server:
        with pytest.raises(ModelUnavailable, match="redirects to what is no http:// or https:// address; put the final URL"):
            wires(server.url, retries=20).post()
        assert len(server.requests) == 1


def test_userinfo_in_a_location_is_dropped(wires):
    def answer(request):
        host = server.url.split("/")[2]
        return redirecting(307, f"http://eve:pw@{host}/next")(request)

    with http_serving(answer) as server:
        assert wires(server.url).post().status == 200
        assert server.requests[1].path == "/next"
        assert "Authorization" not in server.requests[1].headers
        assert wires(server.url, auth={"type": "bearer", "token": "t-12345"}).post().status == 200
        assert server.requests[3].headers["Authorization"] == "Bearer t-12345"


@pytest.mark.parametrize("place", ["/next", "http://eve:pw@{host}/next"])
def test_userinfo_of_the_card_goes_along_to_the_same_host(wires, place):
    def answer(request):
        return redirecting(307, place.format(host=server.url.split("/")[2]))(request)

    with http_serving(answer) as server:
        assert wires(server.url.replace("//", "//me:p%40ss@")).post().status == 200
        assert [request.headers["Authorization"] for request in server.requests] == ["Basic bWU6cEBzcw=="] * 2


def test_a_redirect_from_https_to_http_is_refused_and_loops_end(wires, tmp_path):
    authority = Authority(tmp_path)
    with http_serving(lambda request: (307, b"", {"Location": place}), authority.server_context()) as server:
        place = server.url.replace("https", "http")
        with pytest.raises(ModelUnavailable, match=r"redirects to http://127.0.0.1, another host"):
            wires(server.url, tmp_path, tls={"ca": "ca.pem"}).post()
        place = "/score"
        with pytest.raises(ModelUnavailable, match="redirects more than 5 times; put the final URL into the card"):
            wires(server.url, tmp_path, tls={"ca": "ca.pem"}).post()


# TLS


def test_a_ca_of_ones_own(wires, tmp_path):
    with http_serving(lambda request: (200, request.body, {}), Authority(tmp_path).server_context()) as server:
        wire = wires(server.url, tmp_path, tls={"ca": "ca.pem"})
        body = bytes(range(48, 122)) * 30_000  # more than one TLS record, more than the socket's buffer
        assert wire.post(content=body).text.encode() == body
        assert wire.post().status == 200
        assert wires(server.url, tmp_path, tls={"verify": False}).post().status == 200


def test_a_certificate_that_is_not_trusted_is_told_at_once(wires, tmp_path):
    authority = Authority(tmp_path)
    Authority(tmp_path, "other")
    with http_serving(ok, authority.server_context()) as server:
        for tls in (None, {"ca": "other.pem"}):
            with pytest.raises(ModelUnavailable, match=r"not trusted \(.*set endpoint.tls.ca to the PEM file of its CA"):
                wires(server.url, tmp_path, tls=tls, retries=20).post()
        with pytest.raises(ModelUnavailable, match=r"not trusted \(Hostname mismatch"):
            wire = wires(server.url, tmp_path, tls={"ca": "ca.pem"}, retries=20)
            wire.post(url=server.url.replace("127.0.0.1", "localhost"))
        assert server.requests == []
        assert wire.usage.calls == 1


@pytest.mark.parametrize(("days", "said"), [((-9, -1), "certificate has expired"), ((1, 9), "certificate is not yet valid")])
def test_a_certificate_that_is_out_of_date(wires, tmp_path, days, said):
    with http_serving(ok, Authority(tmp_path).server_context(days=days)) as server:
        with pytest.raises(ModelUnavailable, match=rf"is out of date \({said}\); renew the server's certificate") as caught:
            wires(server.url, tmp_path, tls={"ca": "ca.pem"}, retries=20).post()
        assert "endpoint.tls.ca" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_a_tls_version_that_is_too_old(wires, tmp_path):
    context = Authority(tmp_path).server_context()
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with http_serving(ok, context) as server:
        with pytest.raises(ModelUnavailable, match=r"ends the TLS handshake .*have it offer TLS 1.2 or 1.3"):
            wires(server.url, tmp_path, tls={"ca": "ca.pem"}, retries=20).post()
        context.set_ciphers("DEFAULT@SECLEVEL=0")  # so that the server would really speak it
        with pytest.raises(ModelUnavailable, match=r"its TLS version is too old \(.*have the server offer TLS 1.2"):
            wires(server.url, tmp_path, tls={"ca": "ca.pem"}, retries=20).post()


@pytest.mark.parametrize("together", [False, True])
def test_a_certificate_of_ones_own(wires, tmp_path, together):
    authority = Authority(tmp_path)
    cert, key = authority.issue("client")
    if together:
        (tmp_path / "both.pem").write_bytes(cert.read_bytes() + key.read_bytes())
    mine = {"cert": "both.pem"} if together else {"cert": "client.pem", "key": "client.key"}
    with http_serving(ok, authority.server_context(clients=True)) as server:
        assert wires(server.url, tmp_path, tls={"ca": "ca.pem", **mine}).post().status == 200
        with pytest.raises(
            ModelUnavailable, match=r"does not accept our certificate.*set endpoint.tls.cert and endpoint.tls.key"
        ):
            wires(server.url, tmp_path, tls={"ca": "ca.pem"}, retries=20).post()


@pytest.mark.parametrize(
    ("tls", "message"),
    [
        ({"ca": "none.pem"}, r"endpoint.tls.ca: cannot read .*none.pem: No such file"),
        ({"ca": "junk.pem"}, r"endpoint.tls.ca: .*junk.pem holds no certificate"),
        ({"ca": "."}, r"endpoint.tls.ca: cannot read .*Is a directory"),
        ({"cert": "none.pem"}, r"endpoint.tls.cert: cannot read .*none.pem"),
        ({"cert": "client.pem", "key": "none.key"}, r"endpoint.tls.key: cannot read .*none.key"),
        ({"cert": "client.pem"}, r"endpoint.tls.cert: .*client.pem cannot be used"),
        (
            {"cert": "client.pem", "key": "other.key"},
            r"endpoint.tls.cert: .*with the key .*other.key cannot be used \(key values",
        ),
        ({"cert": "client.pem", "key": "locked.key"}, r"endpoint.tls.cert: .*not encrypted"),
        ({"key": "client.key"}, r"endpoint.tls.key: got a key without a certificate; add `cert`"),
    ],
)
def test_files_that_cannot_be_used(wires, tmp_path, tls, message):
    from cryptography.hazmat.primitives import serialization

    authority = Authority(tmp_path)
    _, key = authority.issue("client")
    authority.issue("other")
    (tmp_path / "junk.pem").write_text("-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n")
    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"password")
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (tmp_path / "locked.key").write_bytes(loaded.private_bytes(pem, pkcs8, locked))
    with pytest.raises(InputError, match=message):
        wires("https://127.0.0.1:9/x", tmp_path, tls=tls)


def test_tls_with_what_is_no_tls_server(wires):
    with http_serving(ok) as server, pytest.raises(ModelUnavailable, match=r"cannot be reached.*TLS: "):
        wires(server.url.replace("http", "https")).post()


# Proxies


def test_a_proxy_carries_http_and_its_password_is_masked(wires, monkeypatch):
    monkeypatch.setenv("T_PROXY_PW", "pr0xy/pass")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with http_serving(ok) as server, proxying() as proxy:
        assert wires(server.url).post().status == 200  # the environment's proxy would refuse
        wire = wires(server.url, proxy=f"http://me:pr0xy%2Fpass@127.0.0.1:{proxy.port}")
        assert wire.post().status == 200
        assert proxy.lines == [f"POST {server.url} HTTP/1.1"]
        assert proxy.pairs == ["me:pr0xy/pass"]
        assert "Proxy-Authorization" not in server.requests[1].headers
        proxy.refuse = "407 Proxy Authentication Required"
        with pytest.raises(ModelUnavailable, match=r"HTTP 407.*check `endpoint.proxy` and its credentials") as caught:
            wires(server.url, proxy=f"http://me:${{T_PROXY_PW}}@127.0.0.1:{proxy.port}").post()
        assert proxy.pairs[1] == "me:pr0xy/pass"
        assert "pr0xy" not in str(caught.value)


@pytest.mark.parametrize("secure_proxy", [False, True])
def test_a_proxy_tunnels_https(wires, tmp_path, secure_proxy):
    authority = Authority(tmp_path)
    context = authority.server_context()
    echo = http_serving(lambda request: (200, request.body, {}), context)
    with echo as server, proxying(context if secure_proxy else None) as proxy:
        scheme = "https" if secure_proxy else "http"
        at = {"proxy": f"{scheme}://me:secret-pw@127.0.0.1:{proxy.port}", "tls": {"ca": "ca.pem"}, "retries": 5}
        body = bytes(range(48, 122)) * 3_000
        assert wires(server.url, tmp_path, **at).post(content=body).text.encode() == body
        assert proxy.lines == [f"CONNECT {server.url.split('/')[2]} HTTP/1.1"]
        assert proxy.pairs == ["me:secret-pw"]
        proxy.refuse = "403 Forbidden"
        with pytest.raises(ModelUnavailable, match=r"the proxy \w+://127.*refuses the connection: 403 Forb.*endpoint.proxy"):
            wires(server.url, tmp_path, **at).post()
        assert len(proxy.lines) == 2  # not asked again
        proxy.refuse = "502 Bad Gateway"
        with pytest.raises(CallLostError, match=r"6 times.*502 Bad Gateway"):
            wires(server.url, tmp_path, **at).post()


def test_a_proxy_that_is_none(wires, monkeypatch):
    monkeypatch.setenv("T_PROXY", "localhost:3128")
    with pytest.raises(InputError, match=r"endpoint.proxy: expected http://host:port"):
        wires("http://127.0.0.1:9/x", proxy="${T_PROXY}").post()
    monkeypatch.delenv("T_PROXY")
    with pytest.raises(InputError, match="T_PROXY"):
        wires("http://127.0.0.1:9/x", proxy="${T_PROXY}").post()
    with pytest.raises(ModelUnavailable, match=r"cannot be reached.*and `endpoint.proxy`"):
        wires("http://127.0.0.1:9/x", proxy="http://127.0.0.1:9").post()

"""OAuth 2.0 tokens and AWS signatures, against servers that check them."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, parse_qsl, quote, urlsplit

import pytest
from wire_servers import Authority, Wire, http_serving, proxying

from aitest_lib.config.endpoint import SigV4
from aitest_lib.config.secrets import mask
from aitest_lib.errors import InputError, Interrupted, ModelUnavailable
from aitest_lib.models.endpoint import transport
from aitest_lib.models.endpoint.auth import TokenError, read_token, signer
from aitest_lib.models.endpoint.wire import Answer


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch):
    monkeypatch.setattr(transport, "BACKOFF_S", 0.01)
    monkeypatch.setenv("T_SECRET", "s3cret&/värlue")


@pytest.fixture
def wires():
    made = []

    def wire(*args, **endpoint):
        made.append(Wire(*args, **endpoint))
        return made[-1]

    yield wire
    for one in made:
        one.transport.close()


class Issuer:
    """A token endpoint and a model on one host: `/token` gives tok-1, tok-2, ...; `/score` takes only the `valid` ones."""

    def __init__(self):
        self.issued = 0
        self.valid = None  # None: any that was issued
        self.expires_in = 3600
        self.token_answer = None
        self.lock = threading.Lock()

    def __call__(self, request):
        if not request.path.startswith("/token"):
            token = request.headers.get("Authorization", "").removeprefix("Bearer ")
            fine = token.startswith("tok-") and (self.valid is None or token in self.valid)
            return (200, b"{}", {}) if fine else (401, f"bad token {token}".encode(), {})
        if self.token_answer:
            return self.token_answer
        with self.lock:
            self.issued += 1
            answer = {"access_token": f"tok-{self.issued}", "token_type": "Bearer", "expires_in": self.expires_in}
        return 200, json.dumps(answer).encode(), {}


def oauth(server, **more):
    url = server.url.replace("/score", "/token?tenant=secret-tenant")
    return {"type": "oauth2", "token_url": url, "client_id": "me", "client_secret": "${T_SECRET}", **more}


def tokens_asked(server):
    return [request for request in server.requests if request.path.startswith("/token")]


def test_a_token_is_asked_for_as_rfc_6749_says_and_kept(wires):
    with http_serving(Issuer()) as server:
        wire = wires(server.url, auth=oauth(server, scope="score read", audience="api"), headers={"X-Team": "risk"})
        for _ in range(3):
            assert wire.post(headers={"X-Team": "risk"}).status == 200
        (asked,) = tokens_asked(server)
        assert asked.method == "POST"
        assert parse_qs(asked.body.decode()) == {
            "grant_type": ["client_credentials"],
            "scope": ["score read"],
            "audience": ["api"],
        }
        pair = base64.b64decode(asked.headers["Authorization"].removeprefix("Basic ")).decode()
        assert pair == "me:s3cret%26%2Fv%C3%A4rlue"
        assert asked.headers["Content-Type"] == "application/x-www-form-urlencoded"
        assert "X-Team" not in asked.headers
        assert server.requests[-1].headers["Authorization"] == "Bearer tok-1"
        assert (wire.usage.calls, wire.usage.retries) == (3, 0)
        assert mask("the token is tok-1") == "the token is ***"


def test_a_token_is_renewed_before_it_expires(wires):
    issuer = Issuer()
    issuer.expires_in = 0.2
    with http_serving(issuer) as server:
        wire = wires(server.url, auth=oauth(server))
        wire.post()
        time.sleep(0.11)  # half of a short life, and a little
        issuer.valid = {"tok-2"}
        assert wire.post().status == 200
        assert (issuer.issued, wire.usage.retries) == (2, 0)


def test_many_threads_ask_for_one_token(wires):
    with http_serving(Issuer()) as server:
        wire = wires(server.url, auth=oauth(server), concurrency=8)
        with ThreadPoolExecutor(8) as pool:
            assert {answer.status for answer in pool.map(lambda _: wire.post(), range(24))} == {200}
        assert len(tokens_asked(server)) == 1


def test_a_401_renews_the_token_once_for_all_threads(wires):
    issuer = Issuer()
    with http_serving(issuer) as server:
        wire = wires(server.url, auth=oauth(server), concurrency=8)
        wire.post()
        issuer.valid = {"tok-2"}
        with ThreadPoolExecutor(8) as pool:
            assert {answer.status for answer in pool.map(lambda _: wire.post(), range(16))} == {200}
        assert issuer.issued == 2
        assert len(server.requests) - 2 == 1 + 16 + wire.usage.retries
        assert 1 <= wire.usage.retries <= 8


def test_a_second_401_is_a_refusal_even_without_retries_left(wires):
    issuer = Issuer()
    issuer.valid = set()
    with http_serving(issuer) as server:
        wire = wires(server.url, auth=oauth(server), retries=0)
        with pytest.raises(ModelUnavailable, match=r"refuses calls: POST got HTTP 401 bad token \*\*\*; check `endpoint.auth`"):
            wire.post()
        assert (issuer.issued, wire.usage.calls, wire.usage.retries, wire.usage.rows) == (2, 2, 1, 2)


def test_a_token_that_does_not_last_may_be_used_up_by_others(wires):
    """The model has let calls in before, so new tokens are no use only if several are not."""
    issuer = Issuer()
    with http_serving(issuer) as server:
        wire = wires(server.url, auth=oauth(server), retries=0)
        assert wire.post().status == 200
        issuer.valid = {"tok-4"}
        assert wire.post().status == 200
        assert (issuer.issued, wire.usage.calls, wire.usage.retries) == (4, 5, 3)
        issuer.valid = set()
        with pytest.raises(ModelUnavailable, match=r"HTTP 401"):
            wire.post()
        assert wire.usage.calls == 5 + 1 + transport.REPEATS


def test_the_callers_own_renewal(wires):
    tokens, renewed = ["old"], []

    def renew():
        renewed.append(1)
        tokens.append("tok-new")
        return True

    issuer = Issuer()
    issuer.valid = {"tok-new"}
    with http_serving(issuer) as server:
        wire = wires(server.url)

        def make():
            return wire.call(headers={"Authorization": f"Bearer {tokens[-1]}"})

        assert wire.transport.send(make, renew=renew).status == 200
        assert (len(renewed), wire.usage.calls, wire.usage.retries) == (1, 2, 1)
        issuer.valid = set()
        with pytest.raises(ModelUnavailable, match=r"HTTP 401"):
            wire.transport.send(make, renew=renew)
        assert len(renewed) == 1 + transport.REPEATS
        renewed.clear()
        with pytest.raises(ModelUnavailable, match=r"HTTP 401"):
            wires(server.url).transport.send(make, renew=renew)
        assert len(renewed) == 1  # nobody was ever let in
        asked = len(server.requests)
        with pytest.raises(ModelUnavailable):
            wires(server.url).transport.send(make, renew=lambda: False)
        assert len(server.requests) == asked + 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((401, b'{"error": "invalid_client s3cret&/v\xc3\xa4rlue"}', {}), r'got HTTP 401 {"error": "invalid_client \*\*\*"}'),
        ((400, b'{"error": "invalid_scope"}', {}), r"got HTTP 400 .*invalid_scope.*check client_id, client_secret, scope"),
        ((200, b'{"access": "t0ken-value"}', {}), r"got JSON without a usable `access_token`"),
        ((200, b'{"access_token": 17}', {}), r"got JSON without a usable `access_token`"),
        ((200, b'{"access_token": "a\\nb t0ken-value"}', {}), r"got JSON without a usable `access_token`"),
        ((200, b'{"access_token": "t0ken-value", "token_type": "mac"}', {}), r"got a token whose `token_type` is not Bearer"),
        ((200, b"<html>t0ken-value</html>", {}), r"got an answer that is no JSON"),
        ((200, b"[" * 100_000, {}), r"got an answer that is no JSON"),
        ((302, b"", {"Location": "/login"}), r"it redirects a POST with HTTP 302.*put the final URL into the card"),
        ((307, b"", {"Location": "http://elsewhere.test/"}), r"it redirects to http://elsewhere.test, another host"),
        ((200, b"x", {"Content-Encoding": "br"}), r"got an answer in Content-Encoding"),
    ],
)
def test_a_token_endpoint_that_gives_none(wires, answer, said):
    issuer = Issuer()
    issuer.token_answer = answer
    with http_serving(issuer) as server:
        wire = wires(server.url, auth=oauth(server), retries=4)
        where = server.url.replace("/score", "/token")
        with pytest.raises(ModelUnavailable, match=f"no access token from {where}: {said}") as caught:
            wire.post()
        assert len(server.requests) == 1
        for secret in ("secret-tenant", "t0ken-value", "s3cret"):
            assert secret not in str(caught.value)
        with pytest.raises(ModelUnavailable):  # the circuit is open
            wire.post()
        assert len(server.requests) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_token_endpoint_is_asked_again(wires, status):
    issuer = Issuer()
    issuer.token_answer = (status, b"busy", {"Retry-After": "0"})
    with http_serving(issuer) as server:
        with pytest.raises(ModelUnavailable, match=rf"no access token.*got HTTP {status} busy"):
            wires(server.url, auth=oauth(server), retries=2).post()
        assert len(tokens_asked(server)) == 3


def test_a_token_endpoint_that_is_not_there(wires):
    with http_serving(Issuer()) as server:
        auth = oauth(server) | {"token_url": "http://127.0.0.1:9/token"}
        with pytest.raises(ModelUnavailable, match=r"no access token from http://127.0.0.1:9/token.*ConnectError.*token_url"):
            wires(server.url, auth=auth).post()
        with pytest.raises(InputError, match="T_UNSET"):
            wires(server.url, auth=oauth(server, scope="${T_UNSET}")).post()
        assert server.requests == []


def test_the_token_request_takes_the_same_tls_and_proxy(wires, tmp_path):
    context = Authority(tmp_path).server_context()
    with http_serving(Issuer(), context) as server, proxying() as proxy:
        wire = wires(
            server.url,
            tmp_path,
            auth=oauth(server),
            tls={"ca": "ca.pem"},
            proxy=f"http://127.0.0.1:{proxy.port}",
            concurrency=1,
        )
        assert wire.post().status == 200
        assert [request.path.partition("?")[0] for request in server.requests] == ["/token", "/score"]
        assert set(proxy.lines) == {f"CONNECT {server.url.split('/')[2]} HTTP/1.1"}


def test_rate_and_concurrency_hold_for_tokens_too(wires):
    issuer = Issuer()
    issuer.expires_in = 0.001
    with http_serving(issuer) as server:
        wire = wires(server.url, auth=oauth(server), rate_per_s=50, concurrency=4)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: wire.post(), range(8)))
        times = sorted(request.at for request in server.requests)
        assert len(times) >= 16
        assert times[-1] - times[0] >= (len(times) - 1) / 50 - 0.1  # without a limit they take no time


def test_who_waits_for_a_token_can_be_stopped(wires):
    asked, released = threading.Event(), threading.Event()

    def slow(request):
        asked.set()
        released.wait(60)
        return 200, b'{"access_token": "tok-1"}', {}

    with http_serving(slow) as server:
        wire = wires(server.url, auth=oauth(server), timeout_s=600)
        failures = []

        def post():
            try:
                wire.post()
            except Interrupted as error:
                failures.append(error)

        threads = [threading.Thread(target=post) for _ in range(3)]
        for thread in threads:
            thread.start()
        asked.wait(20)
        wire.stop.set()
        wire.transport.shutdown()
        for thread in threads:
            thread.join(20)
        released.set()
        assert len(failures) == 3


def test_odd_lives_of_tokens():
    def renew_at(**more):
        return read_token(Answer(200, json.dumps({"access_token": "t-12345", **more})), 1000.0).renew_at

    assert renew_at() == renew_at(expires_in=None) == renew_at(expires_in=0) == renew_at(expires_in=-1) == float("inf")
    assert renew_at(expires_in="soon") == renew_at(expires_in=[1]) == float("inf")
    assert renew_at(expires_in=60) == renew_at(expires_in=60, token_type="BearerToken") == 1030.0
    assert renew_at(expires_in=10) == 1005.0
    with pytest.raises(TokenError, match="no JSON"):
        read_token(Answer(200, ""), 0)


# AWS Signature Version 4

ACCESS, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


@pytest.fixture
def aws(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)


def expected_signature(request, region, service):
    """The signature of a request as the documentation of AWS builds it, from what has arrived at the server."""
    signed = request.headers["Authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
    got = {name.lower(): value for name, value in request.headers.items()}
    path, _, query = request.path.partition("?")
    strict = [(quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in parse_qsl(query, keep_blank_values=True)]
    canonical = [
        request.method,
        path if service == "s3" else quote(path, safe="/-_.~"),
        "&".join(f"{name}={value}" for name, value in sorted(strict)),
        *(f"{name}:{' '.join(got[name].split())}" for name in signed),
        "",
        ";".join(signed),
        got.get("x-amz-content-sha256") or hashlib.sha256(request.body).hexdigest(),
    ]
    date = got["x-amz-date"]
    scope = f"{date[:8]}/{region}/{service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256("\n".join(canonical).encode()).hexdigest()])
    key = b"AWS4" + SECRET.encode()
    for part in (date[:8], region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def signed_by_aws_rules(request, region="eu-west-1", service="sagemaker"):
    header = request.headers["Authorization"]
    assert header.startswith(f"AWS4-HMAC-SHA256 Credential={ACCESS}/")
    return header.endswith(f"Signature={expected_signature(request, region, service)}")


SIGV4 = {"type": "sigv4", "region": "eu-west-1"}


def test_every_attempt_is_signed_anew_over_what_is_sent(wires, aws):
    answers = iter([503, 200])
    with http_serving(lambda request: (next(answers), b"{}", {"Retry-After": "1.01"})) as server:
        url = server.url.replace("/score", "/endpoints/gbm%3A1/invocations")
        wire = wires(f"{url}?b=2&a=x%20y&c=1:2&d", auth=SIGV4, retries=1)
        headers = {"Content-Type": "text/csv", "X-Amzn-SageMaker-Target-Variant": "blue   one", "Accept": "application/json"}
        assert wire.post(headers=headers, content="1,2,ü\n".encode()).status == 200
        assert [signed_by_aws_rules(request) for request in server.requests] == [True, True]
        first, second = (request.headers for request in server.requests)
        assert first["X-Amz-Date"] != second["X-Amz-Date"]
        assert first["Authorization"] != second["Authorization"]
        assert "content-type;host;x-amz-date;x-amzn-sagemaker-target-variant" in first["Authorization"]
        assert "X-Amz-Security-Token" not in first


def test_the_check_itself_can_fail(wires, aws):
    with http_serving(lambda request: (200, b"{}", {})) as server:
        wires(server.url, auth=SIGV4).post()
        (request,) = server.requests
        assert signed_by_aws_rules(request)
        assert not signed_by_aws_rules(type(request)(**{**request.__dict__, "body": b'{"n": 2}'}))
        assert not signed_by_aws_rules(type(request)(**{**request.__dict__, "path": "/other"}))


def test_s3_and_get_and_redirects_are_signed(wires, aws):
    def answer(request):
        return (307, b"", {"Location": "/b"}) if request.path.startswith("/a") else (200, b"{}", {})

    with http_serving(answer) as server:
        s3 = {**SIGV4, "service": "s3"}
        wire = wires(server.url, auth=s3)
        url = server.url.replace("/score", "/a//key%20name/../x")
        assert wire.post(url=url, method="PUT", content=b"audio").status == 200
        assert wire.post(url=server.url, method="GET", content=None, headers={}).status == 200
        assert len(server.requests) == 3
        for request in server.requests:
            assert signed_by_aws_rules(request, service="s3")
            assert request.headers["X-Amz-Content-SHA256"] == hashlib.sha256(request.body).hexdigest()


@pytest.mark.parametrize("named", [False, True])
def test_a_session_token_goes_along(wires, aws, monkeypatch, named):
    monkeypatch.setenv("T_SESSION" if named else "AWS_SESSION_TOKEN", "session/token+1==")
    auth = {**SIGV4, "session_token": "${T_SESSION}"} if named else SIGV4
    with http_serving(lambda request: (200, b"{}", {})) as server:
        wires(server.url, auth=auth).post()
        assert server.requests[0].headers["X-Amz-Security-Token"] == "session/token+1=="
        assert signed_by_aws_rules(server.requests[0])


def test_unset_keys_and_a_missing_library(wires, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    with pytest.raises(InputError, match="AWS_ACCESS_KEY_ID"):
        wires("http://127.0.0.1:9/x", auth=SIGV4).post()
    monkeypatch.setitem(__import__("sys").modules, "botocore.auth", None)
    with pytest.raises(InputError, match=r"pip install 'aitest\[s3\]'"):
        wires("http://127.0.0.1:9/x", auth=SIGV4).post()


def test_the_published_example_of_aws(aws, monkeypatch):
    """ "Create a signed AWS API request" in the IAM user guide: ListUsers on 30 August 2015."""
    import botocore.auth

    then = datetime.datetime(2015, 8, 30, 12, 36, 0)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda *_, **__: then)
    sign = signer(SigV4(type="sigv4", region="us-east-1", service="iam"))
    url = "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08"
    signed = sign("GET", url, {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}, None)
    assert signed["X-Amz-Date"] == "20150830T123600Z"
    assert signed["Authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, "
        "SignedHeaders=content-type;host;x-amz-date, "
        "Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    )


def test_the_auth_of_a_card_replaces_a_header_of_the_same_name(wires):
    with http_serving(lambda request: (200, b"{}", {})) as server:
        wires(server.url, auth={"type": "bearer", "token": "t-12345"}).post(headers={"authorization": "Basic eA=="})
        assert server.requests[0].headers["Authorization"] == "Bearer t-12345"
        assert urlsplit(server.url).path == server.requests[0].path

"""One HTTP exchange: from a call and its credentials to an answer, redirects on the same host included."""

from __future__ import annotations

import base64
import logging
import ssl
from collections.abc import Iterator, Mapping
from typing import Any

import httpcore
import httpx

from aitest_lib.config.secrets import remember
from aitest_lib.errors import InputError, ModelAnswerError
from aitest_lib.models.base import excerpt
from aitest_lib.models.endpoint.auth import Credentials, authorized
from aitest_lib.models.endpoint.contents import COMPRESSED, PLAIN, as_text, decompressed
from aitest_lib.models.endpoint.network import Network
from aitest_lib.models.endpoint.rate import RateLimiter
from aitest_lib.models.endpoint.wire import MAX_ANSWER, Answer, Call, WireError, resolved_url, shown

LONGEST_CONNECT_S = 10.0
KEEPALIVE_S = 5.0
MAX_REDIRECTS = 5
LOSES_THE_BODY = (301, 302, 303)  # clients follow these with a GET

for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)  # their info lines show URLs, which may carry keys


class HttpClient:
    """The HTTP connections of one model. Thread-safe."""

    def __init__(
        self, network: Network, context: ssl.SSLContext, proxy: str | None, rate: RateLimiter, *, timeout_s: float, keep: int
    ) -> None:
        """`proxy`: resolved. `keep`: how many idle connections are kept."""
        self._network = network
        self._rate = rate
        self._timeout_s = timeout_s
        self._proxy = None if proxy is None else shown(proxy)
        self._context = context
        self._proxied = None if proxy is None else _proxy(proxy, context)
        self._keeping, self._fresh = self._made_client(keep), self._made_client(0)

    def send(self, call: Call, held: Credentials, *, fresh: bool = False) -> Answer:
        """The answer, whatever its status; `fresh`: over a new connection.

        Raises `WireError` where none came, `ModelAnswerError` where it is too large.
        """
        client = self._fresh if fresh else self._keeping
        try:
            with self._network.within(self._timeout_s):
                return self._followed(client, call, held)
        except httpcore.ConnectTimeout as error:
            seconds = min(self._timeout_s, LONGEST_CONNECT_S)
            raise WireError(f"no connection within {seconds:g} s", connected=False) from error
        except httpcore.TimeoutException as error:
            raise WireError(f"no answer within {self._timeout_s:g} s", connected=True) from error
        except httpcore.ProxyError as error:
            raise self._proxy_error(str(error)) from error
        except (httpcore.UnsupportedProtocol, httpcore.LocalProtocolError):
            # Not quoted: the message may hold the value of a header.
            mend = "check url (http:// or https://) and headers"
            raise WireError("no call can be made: HTTP does not allow it", connected=False, mend=mend) from None
        except RuntimeError as error:
            if not client.is_closed:
                raise
            raise WireError("the connections were closed", connected=True) from error
        except (httpcore.NetworkError, httpcore.ProtocolError, httpx.HTTPError) as error:
            connected = not isinstance(error, httpcore.ConnectError)
            problem = f"{type(error).__name__}: {excerpt(str(error))}"
            raise WireError(problem, connected=connected, stale=self._network.is_stale) from error

    def close(self) -> None:
        """Closes the connections."""
        self._keeping.close()
        self._fresh.close()

    def _made_client(self, keep: int) -> httpx.Client:
        pool = httpcore.ConnectionPool(
            ssl_context=self._context,
            proxy=self._proxied,
            max_connections=None,
            max_keepalive_connections=keep,
            keepalive_expiry=KEEPALIVE_S,
            network_backend=self._network,
        )
        return httpx.Client(
            transport=_PoolTransport(pool),
            trust_env=False,  # a proxy of the environment would see the data: only what the card names is used
            timeout=httpx.Timeout(self._timeout_s, connect=min(self._timeout_s, LONGEST_CONNECT_S)),
            headers={"Accept-Encoding": "gzip, deflate"},
        )

    def _followed(self, client: httpx.Client, call: Call, held: Credentials) -> Answer:
        url = resolved_url(call.url)
        for _ in range(MAX_REDIRECTS + 1):
            self._network.begin()
            try:
                response = client.send(self._build(client, call, url, held), stream=True)
            except httpx.InvalidURL:
                raise _not_http() from None
            try:
                if response.next_request is None:
                    content = _read(response)
                    text = as_text(content, response.charset_encoding)
                    return Answer(response.status_code, text, response.headers.get("Retry-After", ""), content)
                url = _redirect_target(response, response.next_request.url)
            finally:
                response.close()
        mend = "put the final URL into the card"
        raise WireError(f"it redirects more than {MAX_REDIRECTS} times", connected=True, mend=mend)

    def _build(self, client: httpx.Client, call: Call, url: str, held: Credentials) -> httpx.Request:
        target, headers = authorized(call, url, held)
        extensions = {"trace": self._trace} if self._rate.limited else {}
        return client.build_request(call.method, target, content=call.content, headers=headers, extensions=extensions)

    def _trace(self, event: str, details: Mapping[str, Any]) -> None:
        """Called by httpcore: a connected call that is about to go out keeps its distance from the one before."""
        if event == "http11.send_request_headers.started" and details["request"].method != b"CONNECT":
            self._network.pause(self._rate.distance)

    def _proxy_error(self, said: str) -> WireError:
        busy = said[:3] in ("502", "503", "504")  # it may well reach the model later
        mend = None if busy else "check `endpoint.proxy` and its credentials"
        return WireError(f"the proxy {self._proxy} refuses the connection: {excerpt(said)}", connected=busy, mend=mend)


class _PoolTransport(httpx.BaseTransport):
    """httpx over a pool of ours: `httpx.HTTPTransport` takes no network backend."""

    def __init__(self, pool: httpcore.ConnectionPool) -> None:
        self._pool = pool

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = httpcore.URL(
            scheme=request.url.raw_scheme, host=request.url.raw_host, port=request.url.port, target=request.url.raw_path
        )
        answer = self._pool.handle_request(
            httpcore.Request(
                request.method, url, headers=request.headers.raw, content=request.read(), extensions=request.extensions
            )
        )
        return httpx.Response(answer.status, headers=answer.headers, stream=_Body(answer), extensions=answer.extensions)

    def close(self) -> None:
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        return self._answer.iter_stream()

    def close(self) -> None:
        if _has_more(self._answer):
            self._answer.extensions["network_stream"].close()
        self._answer.close()


def _has_more(answer: httpcore.Response) -> bool:
    """Whether bytes stand after the end of the answer: they would be taken for the answer to the next call.

    httpcore looks at the socket only, not at what it has read already. Where its inside is not as expected, the answer is yes.
    """
    connection: Any = getattr(getattr(answer.stream, "_stream", None), "_connection", None)
    http: Any = getattr(connection, "_h11_state", None)
    return http is None or bool(http.trailing_data[0])


def parsed_proxy(proxy: str) -> httpx.URL:
    """A proxy's resolved address. Its user and password are masked from now on."""
    try:
        url = httpx.URL(proxy)
    except (httpx.InvalidURL, ValueError):
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise InputError("endpoint.proxy: expected http://host:port or https://host:port")
    if url.userinfo:
        remember(url.password)
        remember(base64.b64encode(f"{url.username}:{url.password}".encode()).decode())
    return url


def _proxy(proxy: str, context: ssl.SSLContext) -> httpcore.Proxy:
    url = parsed_proxy(proxy)
    return httpcore.Proxy(
        httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=b"/"),
        auth=(url.username.encode(), url.password.encode()) if url.userinfo else None,
        ssl_context=context if url.scheme == "https" else None,
    )


def _redirect_target(response: httpx.Response, target: httpx.URL) -> str:
    """Where to send the call again. A redirect must not lose the body, nor carry data and credentials to another host."""
    came_from, method = response.request.url, response.request.method
    if target.scheme not in ("http", "https"):
        raise _not_http()
    plain = target.copy_with(userinfo=came_from.userinfo)  # never that of the Location
    if not _same_host(came_from, target):
        tells = _port(target) != _port(came_from) and (target.port or target.host == came_from.host)
        port = f":{_port(target)}" if tells else ""
        raise WireError(
            f"it redirects to {target.scheme}://{target.host}{port}, another host",
            connected=True,
            mend="if you trust it, put that URL into the card",
        )
    if response.status_code in LOSES_THE_BODY and method not in ("GET", "HEAD"):
        raise WireError(
            f"it redirects a {method} with HTTP {response.status_code} to {shown(str(plain))}, which would lose the body",
            connected=True,
            mend="put the final URL into the card",
        )
    return str(plain)


def _not_http() -> WireError:
    problem = "it redirects to what is no http:// or https:// address"
    return WireError(problem, connected=True, mend="put the final URL into the card")


def _same_host(one: httpx.URL, other: httpx.URL) -> bool:
    """Same scheme, host and port; http may become https on their usual ports, but not the other way round."""
    places = (one.scheme, _port(one)), (other.scheme, _port(other))
    return one.host == other.host and (places[0] == places[1] or places == (("http", 80), ("https", 443)))


def _port(url: httpx.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def _read(response: httpx.Response) -> bytes:
    """The body, no more than `MAX_ANSWER` bytes however it was compressed."""
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in PLAIN + COMPRESSED:
        raise ModelAnswerError(f"got an answer in Content-Encoding {encoding[:40]!r}, expected none, gzip or deflate")
    chunks: list[bytes] = []
    size = 0
    for chunk in decompressed(response.iter_raw(), encoding):
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_ANSWER:
            raise ModelAnswerError(f"got an answer of more than {MAX_ANSWER // 2**20} MiB, expected less; send smaller batches")
    return b"".join(chunks)

"""From templates to a call that can be sent: address, headers, credentials, body; and who may see the credentials.

Credentials go to hosts that the card names. An address that came out of an answer may lead anywhere, so it gets none, nor
what a step before the run gave, which usually is a token.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache, cached_property
from typing import Any

from jinja2 import TemplateError

from aitest_lib.config.endpoint import Auth, Endpoint, Step
from aitest_lib.config.endpoint_secrets import is_secret_header
from aitest_lib.config.endpoint_urls import Origin, literal_start, origin_of, shown
from aitest_lib.config.secrets import remember, remember_briefly, resolve
from aitest_lib.config.templates import is_template, used_paths, used_variables
from aitest_lib.errors import ModelAnswerError
from aitest_lib.models.answers import is_encodable
from aitest_lib.models.endpoint.bodies import BodyMaker, File
from aitest_lib.models.endpoint.templates import Template
from aitest_lib.models.endpoint.wire import Call

_OF_THE_BODY = ("content-type", "content-encoding", "accept")
_SHORTEST_TOKEN = 8  # characters of what a body or an address takes from a step before the run, to be masked
_TEMPLATE = re.compile(r"(\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\})", re.DOTALL)


class Hosts:
    """The hosts that the card itself names. References are resolved at the first use."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    @cached_property
    def own(self) -> Origin | None:
        """The endpoint's."""
        return _literal_origin(self._endpoint.url)

    def names(self, url: str) -> bool:
        """Whether the card itself names the host of a rendered address."""
        return origin_of(resolve(url)) in self._named

    @cached_property
    def _named(self) -> set[Origin]:
        """The endpoint's and those of its steps."""
        urls = [self._endpoint.url, *(step.url for step in self._endpoint.steps)]
        return {origin for origin in map(_literal_origin, urls) if origin is not None}


class CallMaker:
    """Makes the calls of one kind: the main one, or those of a step. `uses`: the variables that its templates need."""

    def __init__(self, spec: Endpoint | Step, endpoint: Endpoint, hosts: Hosts) -> None:
        self._hosts = hosts
        self._what = f"the address of step {spec.name}" if isinstance(spec, Step) else "the address"
        self._url = Template(spec.url)
        self._headers = _templates(spec.headers)
        self._auth = spec.auth
        self._auth_templates = _auth_templates(spec.auth)
        self._shared: dict[str, Template] = {}
        self._shared_auth: Auth | None = None
        self._shared_auth_templates: dict[str, Template] = {}
        if isinstance(spec, Step):
            self._shared = {name: one for name, one in _templates(endpoint.headers).items() if name.lower() not in _OF_THE_BODY}
            self._shared_auth = endpoint.auth
            self._shared_auth_templates = _auth_templates(endpoint.auth)
        self._body = BodyMaker(spec)
        self._accept = "application/json" if isinstance(spec, Endpoint) and "json" in spec.response.kind else None
        self._method = spec.method or ("POST" if self._body.exists else "GET")
        # The variables that come out of answers: the same in the whole run, or others with every case.
        self._of_run = {step.name for step in endpoint.steps if step.when == "before_run"}
        self._of_case = {step.name for step in endpoint.steps if step.when != "before_run"} | {"call"}
        own = [self._url, *self._headers.values(), *self._auth_templates.values(), *self._body.templates]
        self.uses: set[str] = set().union(*(one.uses for one in own))

    def make(self, values: Mapping[str, Any], file: File, rows: int) -> Call:
        """The call for these values; `ModelAnswerError` where an address or a header would be none."""
        self._remember_tokens(values)
        url = self._url.line(values, self._what)
        if not is_encodable(url):
            raise ModelAnswerError(f"{self._what} cannot be made: a value filled in is not valid Unicode")
        origin = origin_of(resolve(url))
        if origin is None:
            raise ModelAnswerError(f"{self._what} cannot be made: got {shown(url)!r}, expected http:// or https:// and a host")
        is_named = self._hosts.names(url)
        if not is_named and (held := self._held()):
            raise ModelAnswerError(
                f"{self._what} leads to {origin[1]}, which the card does not name, and the call holds {held}; "
                "write the host into the card if you trust it"
            )
        body = self._body.make(values, file)
        headers = self._made_headers(values, is_named, origin == self._hosts.own)
        defaults = {"Content-Type": body.content_type, "Accept": self._accept}
        given = {name.lower() for name in headers}
        headers |= {name: value for name, value in defaults.items() if value is not None and name.lower() not in given}
        auth = self._made_auth(values, origin == self._hosts.own) if is_named else None
        return Call(url=url, method=self._method, headers=headers, content=body.content, auth=auth, rows=rows)

    def _held(self) -> str | None:
        """What in address and body is for nobody but the hosts that the card names."""
        sent = [self._url, *self._body.templates]
        if any(one.names for one in sent):
            return "a secret"
        tokens = {name for one in sent for name in one.uses & self._of_run} - _namer(self._url.source)
        return f"a value of step {min(tokens)}" if tokens else None

    def _made_headers(self, values: Mapping[str, Any], is_named: bool, is_own: bool) -> dict[str, str]:
        headers = {}
        own = {name.lower() for name in self._headers}
        shared = {
            name: one for name, one in self._shared.items() if is_own and one.uses <= set(values) and name.lower() not in own
        }
        for name, one in {**shared, **self._headers}.items():
            if not is_named and (one.names or one.uses or is_secret_header(name)):
                continue
            value = one.line(values, f"the header {name}")
            if one.uses:
                self._remember(one, values)
                if not value.isascii():
                    raise ModelAnswerError(f"the header {name} cannot be made: a value filled in is not ASCII")
            headers[name] = value
        return headers

    def _made_auth(self, values: Mapping[str, Any], is_own: bool) -> Auth | None:
        auth, templates = self._auth, self._auth_templates
        if auth is None and is_own and all(one.uses <= set(values) for one in self._shared_auth_templates.values()):
            # A step that fetches what the credentials need cannot carry them yet.
            auth, templates = self._shared_auth, self._shared_auth_templates
        if auth is None or not templates:
            return auth
        made = {}
        for key, one in templates.items():
            made[key] = one.line(values, f"auth.{key}")
            self._remember(one, values)
            if one.uses <= self._of_run:
                remember(made[key])
            elif one.uses & (self._of_run | self._of_case):
                remember_briefly(made[key])
        return auth.model_copy(update=made)

    def _remember_tokens(self, values: Mapping[str, Any]) -> None:
        """Messages mask what address and body take from the steps before the run."""
        for one in (self._url, *self._body.templates):
            for text in map(_without_host, _taken(one.source, values, self._of_run)):
                if len(text) >= _SHORTEST_TOKEN:
                    remember(text)

    def _remember(self, one: Template, values: Mapping[str, Any]) -> None:
        """Messages mask what credentials take from the answers of steps; those of one case only while it is recent."""
        for text in _taken(one.source, values, self._of_run):
            remember(text)
        for text in _taken(one.source, values, self._of_case):
            remember_briefly(text)


def _templates(headers: Mapping[str, str]) -> dict[str, Template]:
    return {name: Template(value) for name, value in headers.items()}


def _auth_templates(auth: Auth | None) -> dict[str, Template]:
    """The values of `auth` that are to be filled in."""
    texts = {key: Template(value) for key, value in auth or () if isinstance(value, str) and key != "type"}
    return {key: one for key, one in texts.items() if one.uses}


def _literal_origin(url: str) -> Origin | None:
    start = literal_start(url)
    return None if start is None else origin_of(resolve(start))


@cache
def _paths(source: str) -> list[tuple[str, ...]]:
    """The variables of a template with their keys: `{{ login.token }}` → ("login", "token")."""
    paths = used_paths(source) if is_template(source) else set()
    return [path for path in paths if not any(len(path) < len(other) and other[: len(path)] == path for other in paths)]


def _taken(source: str, values: Mapping[str, Any], names: Collection[str]) -> Iterator[str]:
    """The texts and whole numbers that a template takes from the variables of these names."""
    for path in _paths(source):
        if path[0] not in names:
            continue
        value = values.get(path[0])
        for key in path[1:]:
            if isinstance(value, Mapping) and key in value:
                value = value[key]
            elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
                value = value[int(key)]
            else:
                break  # a method, as in `login.get("token")`: it may take anything
        yield from _texts(value)


def _texts(value: Any) -> Iterator[str]:
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, (str, int)) and not isinstance(one, bool):
            yield str(one)
        elif isinstance(one, (Mapping, list)):
            left += one.values() if isinstance(one, Mapping) else one


def _without_host(text: str) -> str:
    """An address keeps its host in messages."""
    return text if origin_of(text) is None else text.partition("://")[2].partition("/")[2]


@cache
def _namer(url: str) -> set[str]:
    """The one variable that says the host of an address; none where several do."""
    head = ""
    for piece in _TEMPLATE.split(url):
        end = None if _TEMPLATE.fullmatch(piece) else re.search(r"[/?#]", piece.replace("://", ":::"))
        head += piece if end is None else piece[: end.start()]
        if end is not None:
            break
    try:
        found = used_variables(head)
    except TemplateError:  # cut within a condition
        return set()
    return found if len(found) == 1 else set()

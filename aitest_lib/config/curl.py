"""A pasted curl command, read into what a card needs. Secrets in it are replaced by `${NAME}` before anything is kept."""

from __future__ import annotations

import base64
import binascii
import json
import re
import shlex
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from aitest_lib.config.secrets import REFERENCE
from aitest_lib.errors import InputError

# Spellings of the options that matter, and of those that say nothing about the model (with and without a value).
_OPTIONS = {
    "-X": "method", "--request": "method", "-H": "header", "--header": "header", "-u": "user", "--user": "user",
    "-d": "data", "--data": "data", "--data-raw": "data", "--data-binary": "data", "--data-ascii": "data",
    "--json": "json", "--url": "url", "-b": "cookie", "--cookie": "cookie", "--oauth2-bearer": "bearer",
    "-A": "skip", "--user-agent": "skip", "-e": "skip", "--referer": "skip", "-o": "skip", "--output": "skip",
    "-m": "skip", "--max-time": "skip", "--connect-timeout": "skip", "--retry": "skip", "-w": "skip", "--write-out": "skip",
    "--retry-delay": "skip", "-c": "skip", "--cookie-jar": "skip",
}  # fmt: skip
_FLAGS = {
    *("-s", "--silent", "-S", "--show-error", "-i", "--include", "-v", "--verbose", "-L", "--location", "-f", "--fail"),
    *("--compressed", "--globoff", "-g", "-N", "--no-buffer", "--http1.1", "--http2", "--fail-with-body"),
}
_DROPPED_HEADERS = {
    *("content-type", "content-length", "accept", "accept-encoding", "accept-language", "connection", "host"),
    *("user-agent", "origin", "referer", "cache-control", "pragma", "priority", "dnt"),
}
_SECRET = re.compile(
    r"authorization|cookie|token|secret|passw|(api|access|subscription)[-_ ]?key|credential|signature|^sig$|^key$",
    re.IGNORECASE,
)
_SHELL_VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")


@dataclass(frozen=True)
class CurlRequest:
    """One request, free of secrets.

    `auth` is the card's `endpoint.auth` or None; `body` the JSON data or None; `notes` say what was left out and which
    environment variable to set in its place.
    """

    url: str
    method: str = "POST"
    headers: dict[str, str] = field(default_factory=dict)
    auth: dict[str, str] | None = None
    body: Any = None
    notes: tuple[str, ...] = ()


class _Vault:
    """Gives each secret a variable name and remembers what to tell the user; the secret itself is forgotten."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._names: set[str] = set()

    def take(self, value: str, what: str, suggested: str) -> str:
        """The reference that stands for `value`; one that is a shell variable already keeps its name."""
        variable = _SHELL_VARIABLE.fullmatch(value.strip())
        name = variable.group(1) if variable else self._free(re.sub(r"[^A-Z0-9]+", "_", suggested.upper()).strip("_"))
        self._names.add(name)
        kept = "is read from" if variable else "was not kept; set"
        self.notes.append(f"the {what} {kept} the environment variable {name}")
        return f"${{{name}}}"

    def _free(self, name: str) -> str:
        name = name if re.match(r"[A-Z_]", name) else f"MODEL_{name}"
        candidates = [name, *(f"{name}_{number}" for number in range(2, 100))]
        return next(candidate for candidate in candidates if candidate not in self._names)


def parse_curl(command: str, *, sends_file: bool = False) -> CurlRequest:
    """Reads `curl -X … -H … -d … -u … URL` (also over several lines).

    A bearer token, key, cookie or password in header, URL, `-u` or JSON body is replaced by `${NAME}`, which `notes`
    names. Options that no card can express (forms, files, GET) are an `InputError`. `sends_file`: the body may be a file
    (`--data-binary @clip.wav`), which is then left out.
    """
    given = _options(_words(command))
    if len(given["url"]) != 1:
        raise InputError(f"got {len(given['url'])} addresses in the curl command, expected one; give `curl … URL`")
    vault = _Vault()
    method = _method(given)
    file = sends_file and any(part.startswith("@") for part in given["data"])
    body = None if file else _body(given, vault)
    url, auth = _from_url(given["url"][0], vault)
    headers, from_headers = _from_headers(given["header"], vault)
    auth = from_headers or auth
    if given["bearer"]:
        auth = {"type": "bearer", "token": vault.take(given["bearer"][-1], "bearer token", "MODEL_TOKEN")}
    if given["user"]:
        auth = _basic(*given["user"][-1].partition(":")[::2], vault)
    if given["cookie"]:
        headers["Cookie"] = vault.take(given["cookie"][-1], "cookie", "MODEL_COOKIE")
    return CurlRequest(url=url, method=method, headers=headers, auth=auth, body=body, notes=tuple(vault.notes))


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(re.sub(r"\\\r?\n", " ", command.strip()).removeprefix("$ "))
    except ValueError as error:
        raise InputError(f"the curl command cannot be read: {error}; quote it as a shell would need it") from error
    if not words or words[0].rpartition("/")[2].removesuffix(".exe") != "curl":
        raise InputError("expected a command that starts with `curl`; paste it whole")
    return words[1:]


def _options(words: list[str]) -> dict[str, list[str]]:
    given: dict[str, list[str]] = {kind: [] for kind in {*_OPTIONS.values()}}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in _FLAGS:
            continue
        if word in _OPTIONS:
            if not rest:
                raise InputError(f"the curl command ends after {word}; give its value")
            given[_OPTIONS[word]].append(rest.pop(0))
        elif not word.startswith("-"):
            given["url"].append(word)
        elif word[:2] in _OPTIONS and not word.startswith("--"):
            given[_OPTIONS[word[:2]]].append(word[2:])  # -XPOST
        elif word[:2] in _FLAGS:
            rest.insert(0, f"-{word[2:]}")  # -sS
        else:
            option = word if word.startswith("--") else word[:2]
            raise InputError(
                f"got the curl option {option}, which no card can express; leave it out, or write the card by hand"
            )
    return given


def _method(given: dict[str, list[str]]) -> str:
    method = given["method"][-1].upper() if given["method"] else "POST"
    if method not in ("POST", "PUT"):
        raise InputError(f"got the method {method}, expected POST or PUT; a model is asked with a JSON body")
    return method


def _body(given: dict[str, list[str]], vault: _Vault) -> Any:
    parts = [*given["json"], *given["data"]]
    if not parts:
        return None
    if any(part.startswith("@") for part in parts):
        raise InputError("got data from a file (@…), expected the JSON itself; paste it after -d")
    try:
        body = json.loads("".join(given["json"]) if given["json"] else "&".join(given["data"]))
    except ValueError as error:
        # The payload stays out of the message: it may hold personal data.
        where = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(f"the data of the curl command is not JSON{where}; expected a JSON body after -d") from error
    return _without_secrets(body, vault)


def _without_secrets(value: Any, vault: _Vault) -> Any:
    if isinstance(value, list):
        return [_without_secrets(item, vault) for item in value]
    if isinstance(value, dict):
        return {
            key: vault.take(item, f"value of {key} in the body", f"MODEL_{key}")
            if isinstance(item, str) and _SECRET.search(key)
            else _without_secrets(item, vault)
            for key, item in value.items()
        }
    return value


def _from_url(text: str, vault: _Vault) -> tuple[str, dict[str, str] | None]:
    """The address without user, password and keys, and the `auth` that they make."""
    parts = _split(text)
    auth: dict[str, str] | None = None
    host = parts.netloc
    if "@" in host:
        user, _, host = host.rpartition("@")
        auth = _basic(*user.partition(":")[::2], vault)
    kept = []
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if not _SECRET.search(name):
            kept.append((name, value))
            continue
        reference = vault.take(value, f"query parameter {name}", f"MODEL_{name}")
        if auth is None:
            auth = {"type": "api-key", "key": reference, "query": name}
        else:
            kept.append((name, reference))
    query = urlencode(kept, safe="${}")
    return urlunsplit((parts.scheme, host, parts.path, query, "")), auth


def _split(text: str) -> SplitResult:
    whole = text if "://" in text else f"http://{text}"  # as curl does
    try:
        parts = urlsplit(whole)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise InputError("the address in the curl command is not usable, expected http:// or https:// and a host; check it")
    return parts


def _from_headers(lines: list[str], vault: _Vault) -> tuple[dict[str, str], dict[str, str] | None]:
    headers: dict[str, str] = {}
    auth: dict[str, str] | None = None
    for line in lines:
        name, _, value = (part.strip() for part in line.partition(":"))
        lower = name.lower()
        if not value or lower in _DROPPED_HEADERS or lower.startswith("sec-"):
            continue
        if lower == "authorization":
            auth, extra = _authorization(value, vault)
            headers |= extra
        elif _SECRET.search(name):
            reference = vault.take(value, f"header {name}", f"MODEL_{name.removeprefix('X-').removeprefix('x-')}")
            if auth is None and lower != "cookie":
                auth = {"type": "api-key", "key": reference, "header": name}
            else:
                headers[name] = reference
        else:
            headers[name] = value
    return headers, auth


def _authorization(value: str, vault: _Vault) -> tuple[dict[str, str] | None, dict[str, str]]:
    scheme, _, rest = value.partition(" ")
    if scheme.lower() == "bearer":
        return {"type": "bearer", "token": vault.take(rest, "bearer token", "MODEL_TOKEN")}, {}
    if scheme.lower() == "basic" and (pair := _decoded(rest)) is not None:
        return _basic(*pair.partition(":")[::2], vault), {}
    if rest and not REFERENCE.search(scheme):
        return None, {"Authorization": f"{scheme} {vault.take(rest, 'header Authorization', 'MODEL_TOKEN')}"}
    return None, {"Authorization": vault.take(value, "header Authorization", "MODEL_TOKEN")}


def _decoded(text: str) -> str | None:
    try:
        return base64.b64decode(text).decode()
    except (binascii.Error, ValueError):
        return None


def _basic(username: str, password: str, vault: _Vault) -> dict[str, str]:
    return {"type": "basic", "username": username, "password": vault.take(password, "password", "MODEL_PASSWORD")}

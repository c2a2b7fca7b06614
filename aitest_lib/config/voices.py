"""The `voices` of a property: who says the texts, and for whom each voice stands."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from aitest_lib.canonical import digest
from aitest_lib.config.card import PythonBackend, sources_digest
from aitest_lib.config.endpoint import Auth, Endpoint, Line, Response, Step, TemplateText, Tls
from aitest_lib.config.endpoint_checks import jmespath_problem, template_sources
from aitest_lib.config.endpoint_secrets import check_secrets
from aitest_lib.config.endpoint_urls import url_problem
from aitest_lib.config.loading import Document, Location, StrictModel
from aitest_lib.config.templates import Place, is_template, template_problem, used_variables
from aitest_lib.errors import unknown
from aitest_lib.voices.base import Engine, Voice
from aitest_lib.voices.command import PLACES, Command
from aitest_lib.voices.function import Function
from aitest_lib.voices.programs import ESPEAK, FLITE, EspeakNg, Flite
from aitest_lib.voices.service import Service

ENGINES: Mapping[str, type[EspeakNg] | type[Flite]] = {ESPEAK: EspeakNg, FLITE: Flite}
PROVIDERS = ("engine", "command", "http", "callable")
_CALLABLE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_BRACES = re.compile(r"(?<!\$)\{(\w*)\}")
_TRIAL = {"text": 'a "quoted" \\text', "voice": "0"}
HERE = (".",)
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^-\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$")]


class HttpVoice(StrictModel):
    """A text-to-speech service. `url`, `headers`, `auth` and `request` may hold templates with `text` and `voice`.

    `audio`: where the audio stands as base64 in a JSON answer (JMESPath); without it the answer is the audio. The rest is as
    in the `endpoint` of a card.
    """

    url: Line
    method: Literal["GET", "POST", "PUT"] | None = None  # POST where there is a request, else GET
    auth: Auth | None = None
    headers: dict[str, Line] = Field(default_factory=dict)
    body: Literal["json", "raw"] = "json"
    request: TemplateText | None = None
    audio: str | None = None
    tls: Tls | None = None
    proxy: str | None = None
    concurrency: int = Field(default=4, ge=1, le=256)
    rate_per_s: float | None = Field(default=None, gt=0)
    timeout_s: float = Field(default=60, gt=0, le=3600)
    retries: int = Field(default=5, ge=0, le=20)


class VoiceConfig(StrictModel):
    """One voice: of an `engine` (espeak-ng, which is the default, or flite), a `command`, a service behind `http`, or a Python
    `callable` (package.module:name, found in `path`). `groups`: whom it stands for, e.g. {gender: female, accent: US}.

    `command`: a program and its arguments with the places {out} (the file to be written), {text} (else it is written to
    stdin) and {voice}.
    """

    voice: Name
    groups: dict[str, str] = Field(default_factory=dict)
    engine: str | None = None
    command: tuple[str, ...] | None = None
    http: HttpVoice | None = None
    callable: str | None = None
    path: tuple[str, ...] = HERE


def voices_of(configs: Sequence[VoiceConfig], document: Document, at: Location, base_dir: Path) -> list[Voice]:
    """The voices of the entries at `at` of a suite, in their order. `base_dir`: where paths in them start.

    Nothing is started and no engine is asked: `check_voice` does that. What is wrong is an `InputError` with file, line, path.
    """
    services: dict[str, Engine] = {}  # voices of one service share its connections, those of a function its process
    voices: list[Voice] = []
    seen: list[Any] = []
    for place, config in enumerate(configs):
        where = (*at, place)
        shown = config.model_dump(mode="json", exclude_defaults=True)
        what = {key: value for key, value in shown.items() if key != "groups"}
        if what in seen:
            raise document.error(where, f"the voice {config.voice} is there twice; remove one")
        seen.append(what)
        provider = digest({key: value for key, value in what.items() if key != "voice"})
        if provider not in services:
            services[provider] = _engine(config, shown, document, where, base_dir)
        voices.append(Voice(config.voice, services[provider], dict(config.groups)))
    return voices


def _engine(config: VoiceConfig, shown: dict[str, Any], document: Document, at: Location, base_dir: Path) -> Engine:
    given = [name for name in PROVIDERS if getattr(config, name) is not None]
    if len(given) > 1:
        raise document.error(at, f"got {' and '.join(given)}, expected one of {', '.join(PROVIDERS)}; keep one")
    if config.path != HERE and config.callable is None:
        raise document.error((*at, "path"), "is where a `callable` is found, but there is none; leave it out")
    if config.command is not None:
        return _command(config.command, document, (*at, "command"), base_dir)
    if config.http is not None:
        return _service(config.http, shown["http"], document, (*at, "http"), base_dir)
    if config.callable is not None:
        if not _CALLABLE.fullmatch(config.callable):
            raise document.error((*at, "callable"), f"got {config.callable!r}, expected package.module:name")
        sources = sources_digest(PythonBackend(callable=config.callable, path=config.path), base_dir)
        return Function(config.callable, config.path, base_dir, digest(sources))
    engine = config.engine or ESPEAK
    if engine not in ENGINES:
        more = "; for another, write `command`, `http` or `callable`"
        raise document.error((*at, "engine"), f"{unknown('engine of voices', engine, ENGINES)}{more}")
    return ENGINES[engine]()


def _command(arguments: tuple[str, ...], document: Document, at: Location, base_dir: Path) -> Command:
    example = "e.g. [my-tts, --voice, '{voice}', --out, '{out}', '{text}']"
    if not arguments or not arguments[0].strip():
        raise document.error(at, f"got no program, expected one with its arguments, {example}")
    for place, one in enumerate(arguments):
        if strange := [name for name in _BRACES.findall(one) if name not in PLACES]:
            known = ", ".join(f"{{{name}}}" for name in PLACES)
            raise document.error((*at, place), f"unknown place {{{strange[0]}}}; known: {known}")
        if "\0" in one:
            raise document.error((*at, place), "got a NUL character, expected text without")
    if not any("{out}" in one for one in arguments):
        raise document.error(at, f"has no place {{out}} for the file to be written; {example}")
    return Command(arguments, base_dir)


def _service(http: HttpVoice, shown: dict[str, Any], document: Document, at: Location, base_dir: Path) -> Service:
    shared = http.model_dump(include={"url", "tls", "proxy", "concurrency", "rate_per_s", "timeout_s", "retries"})
    endpoint = Endpoint(**shared, response=Response())
    fields = {"url": http.url, "method": http.method, "headers": http.headers, "body": http.body, "request": http.request}
    call = Step(name="voice", when="before_call", auth=http.auth, **fields)
    if problem := url_problem(http.url, websocket=False):
        raise document.error((*at, "url"), problem)
    check_secrets(document, endpoint.model_copy(update={"headers": http.headers, "auth": http.auth}), at)
    if http.audio is not None and (problem := jmespath_problem(http.audio)):
        raise document.error((*at, "audio"), problem)
    used: set[str] = set()
    for where, source in template_sources(call):
        is_body = where == ("request",)
        as_json = is_body and http.body == "json"
        if not is_body and not is_template(source):
            continue
        place = Place("a voice", {"text": None, "voice": None}, [_TRIAL])
        if problem := template_problem(source, place, as_json=as_json):
            raise document.error((*at, *where), problem)
        used |= used_variables(source)
    if "text" not in used:
        raise document.error(at, "sends no text; add {{ text|tojson }} to `request`, or {{ text|urlencode }} to `url`")
    _check_headers(http, document, at)
    return Service(endpoint, call, http.audio, base_dir, shown)


def _check_headers(http: HttpVoice, document: Document, at: Location) -> None:
    for name in http.headers:
        if not re.fullmatch(r"[A-Za-z0-9-]+", name):
            raise document.error((*at, "headers", name), "not a header's name; use letters, digits and '-'")

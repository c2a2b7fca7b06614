"""What may stand where in a card's `endpoint`: checked when the card is read, so that no call is made in vain."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import jmespath
from jmespath.exceptions import JMESPathError

from aitest_lib.config.endpoint import Endpoint, FilePart, OAuth2, Step
from aitest_lib.config.endpoint_secrets import check_secrets
from aitest_lib.config.endpoint_urls import proxy_problem, url_problem
from aitest_lib.config.loading import Document, Location
from aitest_lib.config.templates import (
    INPUTS,
    MODEL,
    ONE_INPUT,
    Place,
    input_names,
    is_template,
    is_variable,
    modality,
    stand_ins,
    template_problem,
    used_variables,
)

if TYPE_CHECKING:
    from aitest_lib.config.card import Card

ORDER = ("before_run", "before_case", "before_call", "call", "after_call")
OWN_NAMES = ("model", "call", "loop", "self")  # of every template
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_AT: Location = ("endpoint",)


def check_endpoint(document: Document, card: Card, endpoint: Endpoint) -> Endpoint:
    """The endpoint with its batch size settled; what is wrong with it is an `InputError` with file, line and path."""
    for at, one in _calls(endpoint):
        if problem := url_problem(one.url, websocket=one.body == "websocket"):
            raise document.error((*at, "url"), problem)
        if isinstance(one.auth, OAuth2) and (problem := url_problem(one.auth.token_url, websocket=False)):
            raise document.error((*at, "auth", "token_url"), problem)
        _check_body(document, at, one, card)
    if endpoint.proxy is not None and (problem := proxy_problem(endpoint.proxy)):
        raise document.error((*_AT, "proxy"), problem)
    _check_names(document, card, endpoint)
    check_secrets(document, endpoint)
    for at, one in _calls(endpoint):
        _check_templates(document, card, endpoint, at, one)
    _check_input_is_sent(document, card, endpoint)
    _check_step_conditions(document, endpoint)
    _check_response(document, card, endpoint)
    return _with_batch_size(document, card, endpoint)


def jmespath_problem(expression: str) -> str | None:
    """What is wrong with a JMESPath expression, or None."""
    try:
        jmespath.compile(expression)
    except RecursionError:
        return "not a valid JMESPath expression: nested too deeply"
    except JMESPathError as error:
        problem = str(error).split("\n")[0].removeprefix("Bad jmespath expression: ").rstrip(": ")
        return f'not a valid JMESPath expression: {problem}; a key with other characters needs double quotes: "a-b"'
    return None


def names_at(card: Card, endpoint: Endpoint, here: Step | None) -> dict[str, list[str] | None]:
    """The variables that a step (None: the main call) may use, with the keys of those that are known."""
    when = "call" if here is None else here.when
    names: dict[str, list[str] | None] = {"model": list(MODEL)}
    if when != "before_run":
        names |= dict.fromkeys(input_names(card.type))
    if when == "after_call":
        names["call"] = None
    for step in endpoint.steps:
        if step is here:
            break
        if ORDER.index(step.when) <= ORDER.index(when):
            names[step.name] = None if step.extract is None else list(step.extract)
    later = endpoint.steps[len(endpoint.steps) if here is None else endpoint.steps.index(here) :]
    for step in later:
        if step is not here and ORDER.index(step.when) < ORDER.index(when):
            names[step.name] = None if step.extract is None else list(step.extract)
    return names


def template_sources(one: Endpoint | Step) -> Iterator[tuple[Location, str]]:
    """Every template of a call, with its place below the call."""
    yield ("url",), one.url
    yield from ((("headers", name), value) for name, value in one.headers.items())
    for key, value in one.auth or ():
        if key != "type" and isinstance(value, str):
            yield ("auth", key), value
    if one.request is not None:
        yield ("request",), one.request
    yield from ((("parts", name), part) for name, part in (one.parts or {}).items() if isinstance(part, str))


def carries_file(one: Endpoint | Step) -> bool:
    """Whether the bytes of one input are the body, or a part of it."""
    return (one.body == "raw" and one.request is None) or any(isinstance(part, FilePart) for part in (one.parts or {}).values())


def _calls(endpoint: Endpoint) -> list[tuple[Location, Endpoint | Step]]:
    return [(_AT, endpoint), *(((*_AT, "steps", n), step) for n, step in enumerate(endpoint.steps))]


def _check_body(document: Document, at: Location, one: Endpoint | Step, card: Card) -> None:
    kind = modality(card.type)
    if one.body == "multipart" and not one.parts:
        raise document.error((*at, "parts") if one.parts is not None else at, "body: multipart needs `parts: {name: ...}`")
    if one.body == "multipart" and one.request is not None:
        raise document.error((*at, "request"), "body: multipart is made of `parts`; leave `request` out")
    if one.body != "multipart" and one.parts is not None:
        raise document.error((*at, "parts"), f"parts are for body: multipart, but the body is {one.body}; change one of them")
    before_run = isinstance(one, Step) and one.when == "before_run"
    no_bytes = one.body == "raw" and (kind not in ("image", "speech") or before_run)
    if one.request is None and ((isinstance(one, Endpoint) and one.body in ("json", "websocket")) or no_bytes):
        raise document.error(at, f"missing key request: body: {one.body} needs a template that makes it")
    for name, part in (one.parts or {}).items():
        if isinstance(part, FilePart) and part.content != {"image": "image", "speech": "audio"}.get(kind):
            raise document.error((*at, "parts", name, "content"), f"got {part.content}, but the model's type is {card.type}")
    for name in one.headers:
        if not _HEADER.fullmatch(name):
            raise document.error((*at, "headers", name), "not a header's name; use letters, digits and '-'")
        if one.body == "multipart" and name.lower() == "content-type":
            raise document.error((*at, "headers", name), "multipart sets its own Content-Type; leave it out")


def _check_names(document: Document, card: Card, endpoint: Endpoint) -> None:
    taken = {*input_names(card.type), *OWN_NAMES} - {"session"}
    seen: set[str] = set()
    for n, step in enumerate(endpoint.steps):
        at = (*_AT, "steps", n, "name")
        if not _NAME.fullmatch(step.name) or not is_variable(step.name):
            raise document.error(at, f"got {step.name!r}, expected a name of letters, digits and '_' that is no word of jinja2")
        if step.name in taken:
            raise document.error(at, f"{step.name} is a template variable already; give the step another name")
        if step.name in seen:
            raise document.error(at, f"two steps are named {step.name}; give each a name of its own")
        seen.add(step.name)


def _check_templates(document: Document, card: Card, endpoint: Endpoint, at: Location, one: Endpoint | Step) -> None:
    step = one if isinstance(one, Step) else None
    names = names_at(card, endpoint, step)
    trials = stand_ins(card.type, card.inputs.columns)
    known = {name: dict.fromkeys(keys, "0") for name, keys in names.items() if keys is not None and name != "model"}
    whose = f"a {modality(card.type)} model" if step is None else f"step {step.name} ({step.when})"
    later = {one.name for one in endpoint.steps} - set(names)
    place = Place(whose, names, [trial | known for trial in trials], later)
    language = card.inputs.speech.language if card.inputs.speech else None
    for where, source in template_sources(one):
        if where != ("request",) and not is_template(source):
            continue
        as_json = where == ("request",) and one.body in ("json", "websocket")
        problem = template_problem(source, place, as_json=as_json)
        if problem is None and language is None and "language" in used_variables(source):
            problem = "uses language, but the card does not say it; add `inputs: {speech: {sample_rate: ..., language: ...}}`"
        if problem:
            raise document.error((*at, *where), problem)


def _check_input_is_sent(document: Document, card: Card, endpoint: Endpoint) -> None:
    wanted = INPUTS[modality(card.type)]
    for _, one in _calls(endpoint):
        if carries_file(one):
            return
        for _, source in template_sources(one):
            own = {step.name for step in endpoint.steps}
            if (used_variables(source) if is_template(source) else set()) & set(wanted) - own:
                return
    key = "parts" if endpoint.body == "multipart" else "request"
    example = f"{{{{ {wanted[0]}|tojson }}}}"
    said = f"uses none of {', '.join(wanted)}: the model would get no input; add one, as in {example}"
    raise document.error((*_AT, key), said)


def _check_step_conditions(document: Document, endpoint: Endpoint) -> None:
    for n, step in enumerate(endpoint.steps):
        at = (*_AT, "steps", n)
        if step.until is None and "every_s" in step.model_fields_set:
            raise document.error((*at, "every_s"), "is how often `until` is tried; add `until`, or leave it out")
        if step.until is None and step.timeout_s is not None:
            raise document.error((*at, "timeout_s"), "is how long `until` is tried; add `until`, or leave it out")
        if step.extract is not None and not step.extract:
            raise document.error((*at, "extract"), "expected at least one `name: expression`")
        expressions: dict[Location, str | None] = {("until",): step.until, ("success",): step.success}
        expressions |= {("extract", key): value for key, value in (step.extract or {}).items()}
        for where, expression in expressions.items():
            if expression is not None and (problem := jmespath_problem(expression)):
                raise document.error((*at, *where), problem)


def _check_response(document: Document, card: Card, endpoint: Endpoint) -> None:
    response, at = endpoint.response, (*_AT, "response")
    for key in ("labels", "scores", "success"):
        expression = getattr(response, key)
        if expression is not None and (problem := jmespath_problem(expression) or _place_problem(response.kind, expression)):
            raise document.error((*at, key), problem)
    if response.labels is None and response.scores is None:
        raise document.error(at, "expected `labels`, `scores`, or both: where the answers stand")
    if response.scores is not None and not card.type.endswith("-classifier"):
        who = "a recogniser answers texts" if modality(card.type) == "speech" else "a regressor answers numbers"
        raise document.error((*at, "scores"), f"{who} as `labels`; leave `scores` out")
    if response.scores is not None and card.classes is None:
        raise document.error((*at, "scores"), "scores need the order of the classes; add `classes: [...]`")
    if response.labels is not None and card.decision is not None:
        raise document.error(("decision",), "the model answers labels; leave `decision` or `response.labels` out")


def _place_problem(kind: str, expression: str) -> str | None:
    """An expression that can find nothing in an answer of this kind."""
    samples = {"text": ("0", 'one text; write "@"'), "csv": ([[0] * 300] * 300, "a list of rows; write [*][0]")}
    if kind not in samples:
        return None
    sample, what = samples[kind]
    try:
        found = jmespath.search(expression, sample)
    except (JMESPathError, RecursionError):  # a function that needs real data
        return None
    return f"finds nothing: an answer of kind {kind} is {what}" if found is None else None


def _with_batch_size(document: Document, card: Card, endpoint: Endpoint) -> Endpoint:
    reason = _one_input_reason(card, endpoint)
    if reason is None:
        return endpoint
    if "batch_size" in endpoint.model_fields_set and endpoint.batch_size > 1:
        said = f"got {endpoint.batch_size}, expected 1: {reason}; set `batch_size: 1`"
        raise document.error((*_AT, "batch_size"), said)
    return endpoint.model_copy(update={"batch_size": 1})


def _one_input_reason(card: Card, endpoint: Endpoint) -> str | None:
    """Why a call can carry one input only; None: it can carry more."""
    if modality(card.type) in ("conversation", "speech"):
        return f"a call carries one {'clip' if card.type == 'speech-to-text' else 'conversation'}"
    if endpoint.response.kind == "text":
        return "an answer of kind text is one answer"
    for _, one in _calls(endpoint):
        if isinstance(one, Step) and one.when == "before_case":
            return f"step {one.name} is made for each input (before_case)"
        if carries_file(one):
            return "the body carries one input's bytes"
        for _, source in template_sources(one):
            used = used_variables(source) if is_template(source) else set()
            if single := sorted((used & set(ONE_INPUT) & set(input_names(card.type))) - {step.name for step in endpoint.steps}):
                return f"`{single[0]}` is one input's"
    return None

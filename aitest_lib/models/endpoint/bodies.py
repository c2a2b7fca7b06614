"""The body of a call, in each of the forms that a card may ask for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from aitest_lib.config.endpoint import Endpoint, FilePart, Step
from aitest_lib.errors import ModelAnswerError
from aitest_lib.models.endpoint.templates import Template, quoting_for

File = Callable[[], tuple[bytes, str]]  # the input's bytes and their media type


@dataclass(frozen=True)
class Body:
    """Bytes and media type; neither where a call has no body."""

    content: bytes | None
    content_type: str | None


class BodyMaker:
    """Makes the bodies of one call of the card: the main one, or a step's."""

    def __init__(self, spec: Endpoint | Step) -> None:
        self._kind = spec.body
        self._content_type = next((value for name, value in spec.headers.items() if name.lower() == "content-type"), None)
        self._request = None if spec.request is None else Template(spec.request)
        self._parts: dict[str, Template | FilePart] = {
            name: part if isinstance(part, FilePart) else Template(part) for name, part in (spec.parts or {}).items()
        }
        made = [self._request, *self._parts.values()]
        self.templates = [one for one in made if isinstance(one, Template)]
        self.exists = self._request is not None or bool(self._parts) or self._kind == "raw"

    def make(self, values: Mapping[str, Any], file: File) -> Body:
        """The body; `ModelAnswerError` where the values do not fit its templates."""
        if not self.exists:
            return Body(None, None)
        if self._kind == "multipart":
            return self._multipart(values, file)
        if self._request is None:
            return Body(*file())
        content = self._request.body(values, quoting_for(self._kind, self._content_type))
        if self._kind == "websocket":
            _check_messages(content)
        return Body(content, "text/plain; charset=utf-8" if self._kind == "raw" else "application/json")

    def _multipart(self, values: Mapping[str, Any], file: File) -> Body:
        """multipart/form-data (RFC 7578), encoded by httpx; the parts in the card's order."""
        fields: list[tuple[str, Any]] = []
        for name, part in self._parts.items():
            if isinstance(part, FilePart):
                fields.append((name, (part.filename, file()[0], part.type)))
            else:
                fields.append((name, (None, part.body(values, str))))
        request = httpx.Request("POST", "http://localhost", files=fields)
        return Body(request.read(), request.headers["Content-Type"])


def _check_messages(content: bytes) -> None:
    try:
        messages = json.loads(content)
    except (ValueError, RecursionError):
        messages = None
    if not isinstance(messages, list) or not messages:
        raise ModelAnswerError("the request cannot be made from these inputs: expected the JSON list of the messages to send")

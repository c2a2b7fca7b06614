"""The templates of a card, ready to be filled: bodies with their secrets, and lines (URLs, headers) without."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote_plus

from aitest_lib.config.sandbox import Sandbox
from aitest_lib.config.secrets import REFERENCE, remember, secret
from aitest_lib.config.templates import is_template, used_paths, used_variables
from aitest_lib.errors import ModelAnswerError

_CANNOT = "the request cannot be made from these inputs"
FORM = "application/x-www-form-urlencoded"


class Template:
    """One template of a card. `uses`: the variables that it needs.

    `${NAME}` is set apart before the template is read and put back afterwards, so that neither a secret is read as template
    text, nor an input or an answer that happens to hold `${NAME}` as a reference.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.uses: set[str] = used_variables(source) if is_template(source) else set()
        self.names = REFERENCE.findall(source)
        self._paths = used_paths(source) if self.uses else set()
        self._nonce = secrets.token_hex(8)
        self._sandbox = Sandbox()
        marked = REFERENCE.sub(lambda match: self._mark(match.group(1)), source)
        self._template = self._sandbox.from_string(marked) if is_template(source) else None

    def body(self, values: Mapping[str, Any], quoting: Callable[[str], str]) -> bytes:
        """The text as UTF-8, with the values of secrets, each passed through `quoting`.

        Raises `ModelAnswerError` where the values do not fit the template (an infinity in JSON, a lone surrogate).
        """
        text = self._filled(values)
        for name in self.names:
            text = text.replace(self._mark(name), quoting(secret(name)))
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            raise ModelAnswerError(f"{_CANNOT}: not valid Unicode ({error.reason})") from error

    def line(self, values: Mapping[str, Any], what: str) -> str:
        """One line with its `${NAME}` unresolved; what is filled in may bring neither references nor control characters."""
        if self._template is None:
            return self.source
        text = self._filled(values)
        if REFERENCE.search(text):
            raise ModelAnswerError(f"{what} cannot be made: a value filled in holds a reference to a secret")
        if any(ord(one) < 32 or ord(one) == 127 for one in text):
            raise ModelAnswerError(f"{what} cannot be made: a value filled in holds a line break or another control character")
        for name in self.names:
            text = text.replace(self._mark(name), f"${{{name}}}")
        return text

    def remember(self, values: Mapping[str, Any]) -> None:
        """Makes every message mask what this template takes from the answers of steps: it says who is asking."""
        for path in self._paths:
            value: Any = values.get(path[0])
            for key in path[1:]:
                value = value.get(key) if isinstance(value, Mapping) else None
            if isinstance(value, (str, int)) and path[0] != "model":
                remember(str(value))

    def _filled(self, values: Mapping[str, Any]) -> str:
        if self._template is None:
            return REFERENCE.sub(lambda match: self._mark(match.group(1)), self.source)
        try:
            return self._sandbox.rendered(self._template, values)
        except RecursionError as error:
            raise ModelAnswerError(f"{_CANNOT}: the template calls itself too often") from error
        except Exception as error:  # a template's filters may raise anything on real inputs
            problem = str(error) or type(error).__name__
            raise ModelAnswerError(f"{_CANNOT}: {problem}") from error

    def _mark(self, name: str) -> str:
        return f"{self._nonce}{name}{self._nonce}"


def quoting_for(body: str, content_type: str | None) -> Callable[[str], str]:
    """How a secret is written in a body: escaped in JSON, percent-encoded in a form, plain elsewhere."""
    if body in ("json", "websocket"):
        return lambda value: json.dumps(value)[1:-1]
    if content_type is not None and content_type.partition(";")[0].strip().lower() == FORM:
        return quote_plus
    return str

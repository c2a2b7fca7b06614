"""From the text of a response to predictions: parse it as the card says, find the answers by JMESPath."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError, JMESPathTypeError
from jmespath.parser import ParsedResult

from aitest_lib.config.endpoint import Response
from aitest_lib.errors import ModelAnswerError
from aitest_lib.models.answers import counted, input_word, to_predictions
from aitest_lib.models.base import excerpt
from aitest_lib.models.endpoint.wire import Answer
from aitest_lib.types import ModelInfo, Predictions, Scalar

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_MOST_DIGITS = 300  # a longer whole number is a text


class Reader:
    """Reads the responses of one model."""

    def __init__(self, response: Response, info: ModelInfo, threshold: float | None) -> None:
        self._response = response
        self._info = info
        self._threshold = threshold
        self._labels, self._scores = compiled(response.labels), compiled(response.scores)
        self._success = compiled(response.success)

    def read(self, answer: Answer, n: int) -> Predictions:
        """The answers to n inputs; `ModelAnswerError` where the response as a whole is unusable."""
        sent = f"sent {counted(n, input_word(self._info.type))}"
        if not 200 <= answer.status < 300:
            raise ModelAnswerError(f"{sent}, got HTTP {answer.status} {excerpt(answer.text)}".strip())
        try:
            data = parsed(answer.text, self._response.kind, self._info.type)
        except ModelAnswerError as error:
            raise ModelAnswerError(f"{sent}, {error}: {_came(answer)}") from error
        if self._success is not None and not _searched(self._success, data, "success", answer):
            problem = f"got an answer where `{self._response.success}` is not true"
            raise ModelAnswerError(f"{sent}, {problem}: {excerpt(answer.text)}")
        labels = self._found(self._labels, self._response.labels, data, "labels", n, sent, answer)
        scores = self._found(self._scores, self._response.scores, data, "scores", n, sent, answer)
        if self._response.kind in ("text", "csv"):
            labels, scores = self._from_text(labels), _as_numbers(scores)
        return to_predictions(labels, scores, n, self._info, self._threshold)

    def _found(
        self, expression: ParsedResult | None, source: str | None, data: Any, what: str, n: int, sent: str, answer: Answer
    ) -> Any:
        if expression is None:
            return None
        value = _searched(expression, data, what, answer)
        if value is None:
            raise ModelAnswerError(f"{sent}, found no {what} at `{source}`, got {_came(answer)}")
        if isinstance(value, list) and len(value) < n and source and ("[*]" in source or "[]" in source):
            raise ModelAnswerError(
                f"{sent}, got {len(value)} {what[:-1] if len(value) == 1 else what} at `{source}`: "
                "a JMESPath projection drops nulls; write [*].not_null(key, 'none') so that every row keeps its place"
            )
        return value

    def _from_text(self, labels: Any) -> Any:
        """Text has no types: a label is the class that is written so, a regressor's answer the number."""
        if self._info.type.endswith("-regressor"):
            return _as_numbers(labels)
        if self._info.type == "speech-to-text" or self._info.classes is None:
            return labels
        classes = self._info.classes
        return [_class_written(one, classes) for one in labels] if isinstance(labels, list) else _class_written(labels, classes)


def compiled(expression: str | None) -> ParsedResult | None:
    """A JMESPath expression, ready to search."""
    return None if expression is None else jmespath.compile(expression)


def searched(expression: ParsedResult, data: Any, what: str) -> Any:
    """What an expression finds in an answer; `ModelAnswerError` where it cannot be applied to it."""
    try:
        return expression.search(data)
    except Exception as error:  # an answer can be of any form, and the library checks few of them
        raise ModelAnswerError(f"`{what}` cannot be read from the answer: {_problem(error)}") from error


def _searched(expression: ParsedResult, data: Any, what: str, answer: Answer) -> Any:
    try:
        return searched(expression, data, what)
    except ModelAnswerError as error:
        raise ModelAnswerError(f"{error}; got {excerpt(answer.text)}") from error


def _came(answer: Answer) -> str:
    return excerpt(answer.text) or "nothing"


def _problem(error: Exception) -> str:
    """What an expression could not do, without the value that the library quotes: it may be private."""
    if isinstance(error, JMESPathTypeError):
        return f"{error.function_name}() got a value of type {error.actual_type}, expected {' or '.join(error.expected_types)}"
    return " ".join(str(error).split()) if isinstance(error, JMESPathError) else type(error).__name__


def parsed(text: str, kind: str, model_type: str) -> Any:
    """The data in the text of a response of a kind; `ModelAnswerError` where it is not of that kind."""
    if kind == "text":
        return text.strip()
    if kind == "csv":
        try:
            rows = list(csv.reader(io.StringIO(text.strip("\r\n")), strict=True))
        except csv.Error as error:
            raise ModelAnswerError(f"got no valid CSV ({error})") from error
        # The words of a transcript stay words, also where they are digits.
        return rows if model_type == "speech-to-text" else [[_number_or_text(cell) for cell in row] for row in rows]
    data = parsed_json(text)
    if kind == "json":
        return data
    try:
        return _decoded(parsed_json(data) if isinstance(data, str) and _is_json(data) else data)
    except RecursionError as error:
        raise ModelAnswerError("got JSON that is nested too deeply") from error


def parsed_json(text: str) -> Any:
    """The data in a JSON text; `ModelAnswerError` where it is none, too deep, or gives a key twice."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RecursionError as error:
        raise ModelAnswerError("got JSON that is nested too deeply") from error
    except ValueError as error:
        raise ModelAnswerError("got no valid JSON") from error


def messages_json(text: str) -> str:
    """The JSON list of a WebSocket's messages with those that are JSON themselves as what they hold."""
    messages: list[str] = json.loads(text)
    return f"[{','.join(one if _is_json(one) else json.dumps(one) for one in messages)}]"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ModelAnswerError(f"got the key {excerpt(repr(twice))} twice in one object of the JSON")
    return found


def _decoded(value: Any) -> Any:
    """Texts that hold a JSON object or list are replaced by what they hold."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") and _is_json(value):
        value = parsed_json(value)
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if isinstance(value, dict):
        return {key: _decoded(item) for key, item in value.items()}
    return value


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _number_or_text(text: str) -> str | int | float:
    """A number where a cell holds one, as JSON writes it (blanks around it do not count)."""
    plain = text.strip()
    found = _NUMBER.fullmatch(plain)
    if found is None or len(plain) > _MOST_DIGITS:
        return text
    value = int(plain) if found[2] is None and found[3] is None else float(plain)
    return value if math.isfinite(value) else text


def _as_numbers(value: Any) -> Any:
    """The same with numbers for texts that hold one, also one level down (a row of scores)."""
    if isinstance(value, list):
        return [_as_numbers(item) if isinstance(item, (str, list)) else item for item in value]
    return _number_or_text(value) if isinstance(value, str) else value


def _class_written(value: Any, classes: Sequence[Scalar]) -> Any:
    """The class that `value` is as a text: 1, "1" and true are written 1, 1 and true. Other values stay as they are."""
    if not isinstance(value, (str, int, float)):
        return value
    plain = value.strip() if isinstance(value, str) else value
    for one in classes:
        if isinstance(one, bool):
            if str(plain).casefold() == str(one).casefold():
                return one
        elif plain == one or str(plain) == str(one) or (isinstance(plain, (int, float)) and _number_or_text(str(one)) == plain):
            return one
    number = _number_or_text(plain) if isinstance(plain, str) else plain
    return next((one for one in classes if not isinstance(one, (bool, str)) and one == number), value)

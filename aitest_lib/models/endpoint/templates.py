"""The body of a call: the card's request template filled with the rows of a table."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pandas as pd
from jinja2 import TemplateError

from aitest_lib.config.secrets import REFERENCE, secret
from aitest_lib.config.templates import environment, used_variables
from aitest_lib.errors import ModelAnswerError
from aitest_lib.types import ModelInfo


class RequestTemplate:
    """A tabular request template (contract, section 1), rendered once per batch.

    `${NAME}` in the template is replaced after rendering, so that neither a secret is read as template text nor a cell
    that happens to read `${NAME}` as a reference.
    """

    def __init__(self, source: str, info: ModelInfo) -> None:
        self._nonce = secrets.token_hex(8)
        self._names = REFERENCE.findall(source)
        marked = REFERENCE.sub(lambda match: self._mark(match.group(1)), source)
        self._template = environment().from_string(marked)
        self._used = used_variables(source)
        self._model = {"name": info.name, "version": info.version or ""}

    def render(self, inputs: pd.DataFrame) -> str:
        """The JSON text for a frame: missing values are null, times ISO 8601.

        Raises `ModelAnswerError` where a cell cannot be written as JSON (an infinity, bytes) or the template fails.
        """
        try:
            text = self._template.render(tabular_variables(inputs, self._used), model=self._model)
        except (TemplateError, TypeError, ValueError, OverflowError) as error:
            raise ModelAnswerError(f"the request cannot be made from these rows: {error}") from error
        for name in self._names:
            text = text.replace(self._mark(name), json.dumps(secret(name))[1:-1])
        return text

    def _mark(self, name: str) -> str:
        return f"{self._nonce}{name}{self._nonce}"


def tabular_variables(inputs: pd.DataFrame, used: set[str]) -> dict[str, Any]:
    """The template variables of a table that are used: fields, rows, records, flat, n."""
    fields = [str(name) for name in inputs.columns]
    variables: dict[str, Any] = {"fields": fields, "n": len(inputs)}
    if not used & {"rows", "records", "flat"}:
        return variables
    rows = plain_rows(inputs)
    if "rows" in used:
        variables["rows"] = rows
    if "records" in used:
        variables["records"] = [dict(zip(fields, row, strict=True)) for row in rows]
    if "flat" in used:
        variables["flat"] = [cell for row in rows for cell in row]
    return variables


def plain_rows(inputs: pd.DataFrame) -> list[list[Any]]:
    """The rows as lists of Python values; missing values of every kind are None."""
    columns = [_plain_column(inputs.iloc[:, n]) for n in range(inputs.shape[1])]
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in range(len(inputs))]


def _plain_column(column: pd.Series[Any]) -> list[Any]:
    values: list[Any] = column.tolist()
    missing = column.isna().to_numpy()
    if missing.any():
        values = [None if absent else value for value, absent in zip(values, missing, strict=True)]
    return values

"""References to secrets, `${NAME}`: read when they are used, masked wherever text leaves, stored nowhere.

A reference is an environment variable, or the file NAME in `$AITEST_SECRETS_DIR` (default `/run/secrets`).
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from urllib.parse import quote, quote_plus

from aitest_lib.errors import InputError

REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SECRETS_DIR = "/run/secrets"
SHORTEST = 4  # shorter values are not masked: they would eat ordinary words
MASK = "***"

_forms: set[str] = set()
_lock = Lock()


def references(text: str) -> list[str]:
    """The names that `text` refers to, in order."""
    return REFERENCE.findall(text)


def resolve(text: str, quoting: Callable[[str], str] = str) -> str:
    """`text` with each `${NAME}` replaced by its value (passed through `quoting`). An unset name is an `InputError`."""
    return REFERENCE.sub(lambda match: quoting(secret(match.group(1))), text)


def secret(name: str) -> str:
    """The value behind one name. It is remembered, so that `mask` knows it."""
    folder = Path(os.environ.get("AITEST_SECRETS_DIR") or SECRETS_DIR)
    value = os.environ.get(name)
    if not value:
        try:
            value = (folder / name).read_text("utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError):
            value = ""
    if not value:
        raise InputError(
            f"${{{name}}} is not set: got neither an environment variable {name} nor a file {folder / name}; set one of them"
        )
    remember(value)
    return value


def remember(value: str) -> None:
    """Makes `mask` replace `value` and its base64, URL-encoded and JSON-escaped forms."""
    if len(value) < SHORTEST:
        return
    data = value.encode()
    encoded = [base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()]
    forms = {value, quote(value, safe=""), quote(value), quote_plus(value), json.dumps(value)[1:-1]}
    forms |= {json.dumps(value, ensure_ascii=False)[1:-1], *encoded, *(text.rstrip("=") for text in encoded)}
    with _lock:
        _forms.update(forms)


def mask(text: str) -> str:
    """`text` with every secret resolved so far replaced by `***`."""
    with _lock:
        forms = sorted(_forms, key=len, reverse=True)
    for form in forms:
        text = text.replace(form, MASK)
    return text

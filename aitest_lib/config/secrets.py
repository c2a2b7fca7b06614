"""References to secrets, `${NAME}`: read when they are used, masked wherever text leaves, stored nowhere.

A reference is an environment variable, or the file NAME in `$AITEST_SECRETS_DIR` (default `/run/secrets`).
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from threading import RLock
from urllib.parse import quote, quote_plus

from aitest_lib.errors import InputError

REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SECRETS_DIR = "/run/secrets"
SHORTEST = 4  # shorter values are not masked: they would eat ordinary words
RECENT = 256  # values that are remembered briefly
MASK = "***"
_START = 3  # characters by which a masker looks texts up


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


class Masker:
    """Replaces texts by `***`, overlapping ones as one. Texts of one or two characters stay: they identify nothing.

    The time it takes grows with the length of what is masked, not with the number of the texts.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = {text for text in texts if len(text) >= _START}
        lengths: dict[str, set[int]] = defaultdict(set)
        for text in self._texts:
            lengths[text[:_START]].add(len(text))
        self._lengths = {start: sorted(found, reverse=True) for start, found in lengths.items()}

    def masked(self, text: str) -> str:
        """`text` without any of the texts."""
        out: list[str] = []
        shown = hidden = 0  # up to where `text` has been copied, and up to where it is to be hidden
        for at in range(len(text)):
            for length in self._lengths.get(text[at : at + _START], ()):
                if text[at : at + length] in self._texts:
                    if at >= hidden:
                        out += [text[shown:at], MASK]
                    shown = hidden = max(hidden, at + length)
                    break
        return "".join([*out, text[shown:]])


class _Memory:
    """The values to be masked, and the masker for them."""

    def __init__(self) -> None:
        self._lasting: set[str] = set()
        self._recent: dict[str, None] = {}  # the oldest first
        self._masker: Masker | None = None
        self._lock = RLock()  # a signal's handler may mask while its own thread is here

    def add(self, value: str, *, briefly: bool) -> None:
        with self._lock:
            if len(value) < SHORTEST or value in self._lasting:
                return
            if not briefly:
                self._lasting.add(value)
            elif value not in self._recent:
                self._recent[value] = None
                if len(self._recent) > RECENT:
                    del self._recent[next(iter(self._recent))]
            else:
                return
            self._masker = None

    def masker(self) -> Masker:
        with self._lock:
            if self._masker is None:
                self._masker = Masker(form for value in (*self._lasting, *self._recent) for form in _spellings(value))
            return self._masker


_memory = _Memory()


def remember(value: str) -> None:
    """Makes `mask` replace `value` from now on, as it is and as it may come back: encoded, escaped."""
    _memory.add(value, briefly=False)


def remember_briefly(value: str) -> None:
    """The same until 256 other values have been remembered so: for what is new with every call."""
    _memory.add(value, briefly=True)


def mask(text: str) -> str:
    """`text` with every secret known so far replaced by `***`."""
    return _memory.masker().masked(text)


@lru_cache(maxsize=2 * RECENT)
def _spellings(value: str) -> frozenset[str]:
    """As it is; in base64, an address, Python, HTML; each of these in JSON; that in HTML, or in JSON again."""
    data = value.encode("utf-8", "surrogatepass")
    encoded = [base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()]
    plain = {value, repr(value)[1:-1], quote(data, safe=""), quote(data), quote_plus(data)}
    plain |= {*encoded, *(text.rstrip("=") for text in encoded), *_in_html(value)}
    in_json = {form for text in plain for form in _in_json(text)}
    in_other = {form for text in in_json for form in (*_in_html(text), *_in_json(text))}
    return frozenset(plain | in_json | in_other)


def _in_html(text: str) -> set[str]:
    """Libraries differ in whether and how they escape quotes."""
    escaped = html.escape(text)
    named = escaped.replace("&#x27;", "&#39;")
    return {html.escape(text, quote=False), escaped, named, named.replace("&quot;", "&#34;")}


def _in_json(text: str) -> set[str]:
    """Libraries differ in what they escape beyond need: characters that are not ASCII, slashes, and those of HTML."""
    found = set()
    for written in {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}:
        for escaped in ("", "<", "<&", "<>&", "<>&'"):
            for code in ("\\u{:04x}", "\\u{:04X}"):
                form = written.translate({ord(one): code.format(ord(one)) for one in escaped})
                found |= {form, form.replace("/", "\\/")}
    return found

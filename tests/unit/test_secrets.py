"""References are resolved when used, from the environment or a mounted file, and masked in every form."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitest_lib.config.secrets import mask, references, remember, resolve
from aitest_lib.errors import InputError


def test_from_the_environment_and_from_a_file(monkeypatch, tmp_path):
    monkeypatch.setenv("S_ONE", "first-value")
    monkeypatch.setenv("AITEST_SECRETS_DIR", str(tmp_path))
    (tmp_path / "S_TWO").write_text("second value\n")
    assert resolve("a ${S_ONE}, b ${S_TWO}, $S_ONE {S_ONE}") == "a first-value, b second value, $S_ONE {S_ONE}"
    assert references("a ${S_ONE}, b ${S_TWO}") == ["S_ONE", "S_TWO"]
    assert mask("x first-value y second value") == "x *** y ***"


def test_unset_says_where_it_was_looked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("AITEST_SECRETS_DIR", str(tmp_path))
    with pytest.raises(InputError, match=rf"\$\{{S_NONE\}} is not set.*S_NONE nor a file {tmp_path}/S_NONE"):
        resolve("${S_NONE}")


def test_the_value_is_not_read_as_a_reference(monkeypatch):
    monkeypatch.setenv("S_OUTER", "${S_INNER}")
    assert resolve("${S_OUTER}") == "${S_INNER}"


@given(st.text(min_size=8, max_size=30).filter(lambda text: len(text.strip()) >= 8 and len(set(text)) > 5))
def test_every_form_is_masked(value):
    remember(value)
    forms = [value, quote(value), quote(value, safe=""), quote_plus(value), base64.b64encode(value.encode()).decode()]
    forms += [json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]]
    for form in forms:
        assert form not in mask(f"before {form} after")


def test_short_values_do_not_eat_words():
    remember("on")
    assert mask("one connection") == "one connection"

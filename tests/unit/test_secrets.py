"""References are resolved when used, from the environment or a mounted file, and masked in every form."""

from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitest_lib.config.secrets import RECENT, Masker, mask, references, remember, remember_briefly, resolve
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


JSON_FORMS = {
    "PHP": lambda text: json.dumps(text).replace("/", "\\/"),
    "Go": lambda text: _hex(json.dumps(text, ensure_ascii=False), "<>&"),
    "Jinja": lambda text: _hex(json.dumps(text), "<>&'"),
    "script": lambda text: json.dumps(text).replace("<", "\\u003C"),
    "JSON in JSON": lambda text: json.dumps(json.dumps({"key": text})),
    "JSON in HTML": lambda text: html.escape(json.dumps({"key": text})),
    "HTML in JSON": lambda text: json.dumps(html.escape(text)),
    "base64 in JSON": lambda text: json.dumps(base64.b64encode(text.encode()).decode()).replace("/", "\\/"),
}
HTML_FORMS = {
    "Python": html.escape,
    "named": lambda text: html.escape(text).replace("&#x27;", "&#39;"),
    "numbers": lambda text: html.escape(text).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
    "text only": lambda text: html.escape(text, quote=False),
    "Python's repr": lambda text: repr({"key": text}),
}


def _hex(text, characters):
    return "".join(f"\\u{ord(one):04x}" if one in characters else one for one in text)


@pytest.mark.parametrize("spelled", [*JSON_FORMS.values(), *HTML_FORMS.values()], ids=[*JSON_FORMS, *HTML_FORMS])
@pytest.mark.parametrize("value", ["pl4nt/ed+s<e>c&r\"e't", "str0ng\\pä<ss>?>", 'k3y<Zq&9"/x'])
def test_what_servers_make_of_a_value_is_masked(value, spelled):
    remember(value)
    form = spelled(value)
    masked = mask(f"before {form} after")
    assert "***" in masked
    assert len(masked) <= len("before  after ***") + len(spelled("")), masked


def test_a_value_that_is_no_valid_unicode_can_be_remembered():
    remember("half-\ud800-a-pair")
    assert mask("half-\ud800-a-pair") == "***"


def test_overlapping_texts_are_masked_as_one():
    masker = Masker(["abcdef", "defghi", "cde", "xy"])
    assert masker.masked("abcdefghi") == "***"
    assert masker.masked("1abcde2cdefghi3abcdefabcdef4xy") == "1ab***2***3******4xy"


@given(st.lists(st.text("ab", min_size=3, max_size=6), max_size=6), st.text("abc", max_size=40))
def test_a_masker_hides_every_character_of_its_texts_and_no_other(texts, text):
    within = set()
    for one in texts:
        for at in range(len(text)):
            if text.startswith(one, at):
                within |= set(range(at, at + len(one)))
    assert Masker(texts).masked(text).replace("***", "") == "".join(one for at, one in enumerate(text) if at not in within)


def test_what_is_remembered_briefly_is_forgotten():
    remember("lasting-value")
    for n in range(RECENT + 1):
        remember_briefly(f"brief-value-{n:03d}")
    assert mask("brief-value-000 brief-value-001 brief-value-256 lasting-value") == "brief-value-000 *** *** ***"


def test_short_values_do_not_eat_words():
    remember("on")
    assert mask("one connection") == "one connection"

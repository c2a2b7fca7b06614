"""What the normalizers make of a transcript, and the units of errors."""

from __future__ import annotations

import unicodedata

import pytest

from aitest_lib.errors import InputError
from aitest_lib.metrics.transcripts import DEFAULT_NORMALIZER, NORMALIZERS, normalized, tokens, unit_for

STANDARD = {
    "Hello, World!": "hello world",
    "  one\u00a0two\tthree\nfour\u2003five ": "one two three four five",
    "Don’t stop — don't!": "don't stop don't",
    "rock 'n' roll, the dogs' o'clock": "rock n roll the dogs o'clock",
    "well-known": "well known",
    "a\u200bb\ufeff c\u00add": "ab cd",
    "[BLANK_AUDIO] yes <unk> no %HESITATION maybe (noise)": "yes no maybe",
    "(NOISE) ( laughter ) the tax (income tax) rises": "the tax income tax rises",
    "3 < 5 and 7 > 2": "3 5 and 7 2",
    "Straße": "strasse",
    unicodedata.normalize("NFD", "Café Zoë"): "café zoë",
    "e\u200b\u0301": "é",
    "नमस्ते, दुनिया!": "नमस्ते दुनिया",
    "कि की": "कि की",
    "สวัสดีครับ": "สวัสดีครับ",
    "今天，天气。": "今天 天气",
    "Mr. Smith's 21st St. at 10:30 a.m., 5 & 6": "mr smith's 21st st at 10 30 a m 5 6",
    "…": "",
}

ENGLISH = {
    "twenty one": "21",
    "Twenty-one thousand, three hundred and five": "21305",
    "two hundred": "200",
    "nineteen hundred": "1900",
    "one two three": "1 2 3",
    "one million two hundred thousand and six": "1200006",
    "a hundred thousand": "a hundred thousand",  # a word for a number begins with a number
    "zero hundred": "0 hundred",
    "two hundred zero": "200 0",
    "oh one two": "oh 1 2",
    "five hundred and more": "500 and more",
    "twenty twenty one": "20 21",
    "1,000,000 and 3.5": "1000000 and 3 point 5",
    "three point five": "3 point 5",
    "10,00": "10 00",
    "I can't; he won't, they didn’t. It's what we've said: you're right": (
        "i can not he will not they did not it is what we have said you are right"
    ),
    "cannot": "can not",
    "Mr. Smith's house": "mr smith's house",
    "uh I, um, twenty uh one": "i 21",
    "colour": "colour",
}


@pytest.mark.parametrize(("text", "expected"), STANDARD.items())
def test_standard(text: str, expected: str) -> None:
    assert normalized(text) == normalized(text, "standard") == expected


@pytest.mark.parametrize(("text", "expected"), ENGLISH.items())
def test_english(text: str, expected: str) -> None:
    assert normalized(text, "english") == expected


def test_none_evens_out_white_space_alone() -> None:
    assert normalized(" Hello,\u00a0 World! ", "none") == "Hello, World!"


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_nothing_heard_is_an_empty_text(normalizer: str) -> None:
    assert normalized(None, normalizer) == normalized("", normalizer) == normalized(" \n", normalizer) == ""


def test_an_unknown_normalizer_gets_its_nearest_names() -> None:
    with pytest.raises(InputError, match="unknown normalizer 'englisch'; did you mean english"):
        normalized("yes", "englisch")


def test_every_normalizer_says_what_it_does() -> None:
    assert DEFAULT_NORMALIZER in NORMALIZERS
    assert all(len(normalizer.description) > 20 for normalizer in NORMALIZERS.values())


def test_characters_are_what_readers_see() -> None:
    assert tokens("कि की", "character") == ["कि", "की"]
    assert tokens("今天 天气", "character") == tokens("今天天气", "character") == ["今", "天", "天", "气"]
    assert tokens("a 👨‍👩‍👧", "character") == ["a", "👨‍👩‍👧"]
    assert tokens("go  on", "word") == ["go", "on"]
    assert tokens("", "word") == tokens("", "character") == []


def test_languages_without_spaces_are_counted_by_characters() -> None:
    assert {unit_for(language) for language in ("ja", "zh-CN", "cmn-Hans-CN", "th_TH", "KM")} == {"character"}
    assert {unit_for(language) for language in ("en-US", "hi", "ko-KR", "thx", "", None)} == {"word"}

"""Voices of the installed engines: what they say, what they cannot say, and what a suite may ask of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aitest_lib.config.loading import Document, StrictModel, validate
from aitest_lib.config.voices import VoiceConfig, voices_of
from aitest_lib.errors import InputError
from aitest_lib.pcm import clip_digest, of_pcm16, to_pcm16
from aitest_lib.types import Clip
from aitest_lib.voices.base import CannotSay, Voice
from aitest_lib.voices.command import filled
from aitest_lib.voices.programs import EspeakNg, Flite, list_voices
from aitest_lib.voices.speaking import check_voice, speak

espeak = pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")
flite = pytest.mark.skipif(shutil.which("flite") is None, reason="flite is not installed")


class Suite(StrictModel):
    voices: tuple[VoiceConfig, ...]


def parsed(*entries: dict[str, Any], folder: Path = Path()) -> list[Voice]:
    document = Document({"voices": list(entries)}, "suite.yaml")
    return voices_of(validate(document, Suite).voices, document, ("voices",), folder)


def said(voice: str, text: str = "hello there", sample_rate: int | None = 16_000) -> Clip:
    engine = Flite() if voice in ("slt", "rms", "awb", "kal16") else EspeakNg()
    return speak(Voice(voice, engine), text, sample_rate)


@espeak
@flite
@pytest.mark.parametrize("voice", ["en-us", "en-us+f3", "slt", "awb"])
def test_a_voice_says_a_text_the_same_every_time(voice: str) -> None:
    clip = said(voice)
    assert clip.sample_rate == 16_000 and 8_000 < len(clip.samples) < 48_000
    assert clip_digest(clip) == clip_digest(said(voice))
    np.testing.assert_array_equal(of_pcm16(to_pcm16(clip.samples), 16_000).samples, clip.samples)
    assert clip_digest(clip) != clip_digest(said(voice, "good bye"))


@espeak
def test_a_clip_has_the_rate_that_is_asked_for_or_the_engines_own() -> None:
    own, slow = said("en-us", sample_rate=None), said("en-us", sample_rate=8_000)
    assert (own.sample_rate, slow.sample_rate) == (22_050, 8_000)
    assert len(slow.samples) / 8_000 == pytest.approx(len(own.samples) / 22_050, abs=1e-3)


@espeak
def test_a_variant_may_change_nothing() -> None:
    """Why a suite has to compare what its voices say: this one is listed, accepted, and ignored."""
    assert clip_digest(said("en-gb")) == clip_digest(said("en-gb+f3"))
    assert clip_digest(said("en-us")) != clip_digest(said("en-us+f3"))
    check_voice(Voice("en-gb+f3", EspeakNg()))


@espeak
@flite
@pytest.mark.parametrize("voice", ["en-us", "slt"])
def test_a_text_is_said_and_never_obeyed(voice: str) -> None:
    plain = clip_digest(said(voice, "list of voices"))
    assert clip_digest(said(voice, "  list\n of\tvoices ")) == plain
    assert len(said(voice, "-version").samples) > 8_000
    assert len(said(voice, "--voices $(echo no) `id`; ls").samples) > 16_000


@espeak
def test_phonemes_are_taken_for_text() -> None:
    assert clip_digest(said("en-us", "say [[h@loU]]")) == clip_digest(said("en-us", "say [ [h@loU]]"))


@espeak
@flite
@pytest.mark.parametrize(
    ("voice", "text", "problem"),
    [
        ("slt", " \n ", r"the voice slt \(flite\) has nothing to say: the text is empty"),
        ("en-us", "one\0two", r"the voice en-us \(espeak-ng\) cannot say the text: it holds control characters"),
        ("en-us", "one \ud800", "it holds control characters"),
        ("en-us", "...", "said nothing: its audio is silent"),
        ("slt", "नमस्ते", "cannot say 'नमस्ते': flite knows the letters of English only"),
    ],
)
def test_what_cannot_be_said(voice: str, text: str, problem: str) -> None:
    with pytest.raises(CannotSay, match=problem):
        said(voice, text)


@flite
def test_typographic_quotes_are_said_by_flite() -> None:
    assert clip_digest(said("slt", "“it’s” – me…")) == clip_digest(said("slt", '"it\'s" - me...'))


@espeak
@flite
@pytest.mark.parametrize(
    ("engine", "voice", "problem"),
    [
        (EspeakNg(), "en-uz", r"unknown voice of espeak-ng 'en-uz'; did you mean .*en-us"),
        (EspeakNg(), "en-us+F3", r"unknown variant of the voice en-us of espeak-ng 'F3'; did you mean .*f3"),
        (EspeakNg(), "mb-us1", "MBROLA|does not exist"),
        (Flite(), "stl", r"unknown voice of flite 'stl'; did you mean slt\?; `aitest list voices` shows all"),
    ],
)
def test_a_voice_that_is_not_there(engine: Any, voice: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        check_voice(Voice(voice, engine))


@espeak
@pytest.mark.parametrize("voice", ["en-us", "en", "gmw/en-US", "en-gb-scotland+f3"])
def test_voices_by_any_of_their_names(voice: str) -> None:
    check_voice(Voice(voice, EspeakNg()))


@espeak
@flite
def test_voices_are_listed_with_language_and_gender() -> None:
    found = {one.name: one for one in list_voices("espeak-ng")}
    assert (found["en-us"].language, found["en-us"].gender) == ("en-us", "male")
    assert not any(name.startswith("mb") for name in found) and list(found) == sorted(found)
    assert [one.name for one in list_voices("flite") if one.gender == "female"] == ["slt"]
    with pytest.raises(InputError, match="unknown engine 'festival'"):
        list_voices("festival")


def test_an_engine_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InputError, match="need the program flite, which is not installed; run apt-get install flite"):
        speak(Voice("slt", Flite()), "hello")


@espeak
def test_what_the_audio_depends_on_is_told() -> None:
    [first, other] = parsed({"voice": "en-us", "groups": {"gender": "male"}}, {"voice": "slt", "engine": "flite"})
    assert first.identity()["engine"] == "espeak-ng" and any(one.isdecimal() for one in first.identity()["version"])
    assert first.identity() != other.identity()
    assert (first.groups, first.label) == ({"gender": "male"}, "en-us (espeak-ng)")


HTTP = {"url": "http://127.0.0.1:1/say", "request": "{{ text|tojson }}"}


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (
            {"voice": "a", "engine": "espeak"},
            r"voices\[0\].engine: unknown engine of voices 'espeak'; did you mean espeak-ng\?",
        ),
        ({"voice": "a", "engine": "flite", "command": ["x", "{out}"]}, r"got engine and command, expected one of engine, "),
        ({"voice": ""}, r"voices\[0\].voice"),
        ({"voice": "-w/etc/x"}, r"voices\[0\].voice"),
        ({"engine": "flite"}, "voice"),
        ({"voice": "a", "gender": "male"}, "unknown key gender|gender"),
        ({"voice": "a", "command": []}, "got no program"),
        ({"voice": "a", "command": ["say", "{text}"]}, r"has no place \{out\} for the file"),
        (
            {"voice": "a", "command": ["say", "{txt}", "{out}"]},
            r"command\[1\]: unknown place \{txt\}; known: \{text\}, \{voice\}, ",
        ),
        ({"voice": "a", "callable": "speak"}, "got 'speak', expected package.module:name"),
        ({"voice": "a", "path": ["voices"]}, "is where a `callable` is found"),
        ({"voice": "a", "http": {"url": "http://x/{{ voice }}"}}, r"sends no text; add \{\{ text\|tojson \}\} to `request`"),
        (
            {"voice": "a", "http": HTTP | {"request": "{{ txt|tojson }}"}},
            "unknown template variable txt; allowed for a voice: text, voice",
        ),
        ({"voice": "a", "http": HTTP | {"request": '"{{ text }}"'}}, "does not make valid JSON"),
        ({"voice": "a", "http": HTTP | {"url": "ftp://x"}}, r"http.url: got 'ftp://x'"),
        ({"voice": "a", "http": HTTP | {"audio": "a["}}, "not a valid JMESPath expression"),
        (
            {"voice": "a", "http": HTTP | {"headers": {"Authorization": "abcdef"}}},
            r"http.headers.Authorization: a secret must be a ref",
        ),
        (
            {"voice": "a", "http": HTTP | {"auth": {"type": "bearer", "token": "abcdef"}}},
            r"http.auth.token: a secret must be a ref",
        ),
        ({"voice": "a", "http": HTTP | {"headers": {"X Y": "1"}}}, "not a header's name"),
    ],
)
def test_entries_that_are_wrong(entry: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        parsed(entry)
    assert str(caught.value).startswith("suite.yaml: voices[0]")


def test_a_voice_is_named_once() -> None:
    entry = {"voice": "en-us", "groups": {"accent": "US"}}
    with pytest.raises(InputError, match=r"voices\[1\]: the voice en-us is there twice; remove one"):
        parsed(entry, entry | {"groups": {}})


def test_voices_of_one_service_share_it() -> None:
    first, second, other = parsed(
        {"voice": "a", "http": HTTP}, {"voice": "b", "http": HTTP}, {"voice": "a", "http": HTTP | {"retries": 1}}
    )
    assert first.engine is second.engine and first.engine is not other.engine


@pytest.mark.parametrize(
    ("argument", "text", "expected"),
    [
        ("{text}", "hello {out}", "hello {out}"),  # what is filled in is not looked at again
        ("{text}", "-5 degrees", " -5 degrees"),
        ("--say={text}", "-5", "--say=-5"),
        ("{voice}:{out}", "x", "v:/o.wav"),
        ("a{b}", "x", "a{b}"),
    ],
)
def test_places_of_a_command(argument: str, text: str, expected: str) -> None:
    assert filled(argument, text, "v", "/o.wav") == expected

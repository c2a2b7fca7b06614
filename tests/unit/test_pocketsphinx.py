"""PocketSphinx as a recogniser: what it hears, whatever it heard before, and what it refuses."""

from __future__ import annotations

import shutil
import sys

import numpy as np
import pytest
from recognisers import SENTENCES

from aitest_lib.errors import InputError
from aitest_lib.models.pocketsphinx import PocketSphinx, jsgf
from aitest_lib.voices.base import Voice
from aitest_lib.voices.programs import Flite
from aitest_lib.voices.speaking import speak

pytest.importorskip("pocketsphinx")
pytestmark = pytest.mark.skipif(shutil.which("flite") is None, reason="flite is not installed")
RATE = 16_000
SHORT = SENTENCES[:5]


@pytest.fixture(scope="module")
def clips() -> list[np.ndarray]:
    """The short sentences clean, at 15 dB and at 8 dB of white noise, by two voices."""
    rng = np.random.default_rng(8)
    found = []
    for voice in ("slt", "rms"):
        for sentence in SHORT:
            clean = speak(Voice(voice, Flite()), sentence, RATE).samples
            for snr_db in (np.inf, 15, 8):
                noise = rng.standard_normal(len(clean)) * np.sqrt(np.mean(clean**2) / 10 ** (snr_db / 10))
                found.append((clean + noise).clip(-1, 1).astype(np.float32))
    return found


def test_clean_sentences_are_heard_and_noise_hides_them(clips: list[np.ndarray]) -> None:
    heard = PocketSphinx(SENTENCES).predict(clips, RATE)
    assert heard[::3] == [*SHORT, *SHORT]
    assert heard[2::3] != heard[::3]


def test_what_was_heard_before_changes_nothing(clips: list[np.ndarray]) -> None:
    model = PocketSphinx(SENTENCES)
    heard = model.predict(clips, RATE)
    assert model.predict(clips[::-1], RATE)[::-1] == heard
    assert [text for clip in clips for text in model.predict([clip], RATE)] == heard
    fresh = [PocketSphinx(SENTENCES).predict([clip], RATE)[0] for clip in clips[1:20:3]]
    assert fresh == heard[1:20:3] and len(set(heard)) > 5


def test_without_a_grammar_it_hears_any_english() -> None:
    clip = speak(Voice("rms", Flite()), "go forward ten meters", RATE).samples
    assert PocketSphinx().predict([clip], RATE) == ["go forward ten meters"]


@pytest.mark.parametrize("grammar", [SENTENCES, None])
def test_silence_noise_and_nothing_are_empty_texts(grammar: tuple[str, ...] | None) -> None:
    hiss = (np.random.default_rng(1).standard_normal(RATE) / 8_000).astype(np.float32)
    clips = [np.zeros(RATE, np.float32), np.zeros(0, np.float32), np.zeros(1, np.float32), hiss, hiss[:800]]
    assert PocketSphinx(grammar).predict(clips, RATE) == [""] * len(clips)


@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100])
def test_another_rate_is_refused(rate: int) -> None:
    message = rf"got clips of {rate} samples per second, expected 16000; write `inputs: \{{speech: \{{sample_rate: 16000\}}\}}`"
    with pytest.raises(InputError, match=message):
        PocketSphinx(["hello"]).predict([np.zeros(rate, np.float32)], rate)


@pytest.mark.parametrize(
    ("grammar", "problem"),
    [
        (["i am ready", "Transfar me at 7"], r"not in the dictionary: 'transfar', '7' \(near 'transfar': .*transfer"),
        (["read(2)"], r"not in the dictionary: 'read\(2\)'"),
        (["a | b"], r"not in the dictionary: '\|'"),
        ([f"zzq{one}" for one in "abcdefgh"], r"'zzqe', \.\.\."),
        ([], "without sentences"),
        (["hello", " "], "with an empty one"),
    ],
)
def test_grammars_that_are_wrong(grammar: list[str], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        PocketSphinx(grammar)


def test_words_of_a_grammar_are_taken_in_any_case() -> None:
    clip = speak(Voice("rms", Flite()), "keep holding", RATE).samples
    assert PocketSphinx(["Keep  HOLDING", "repeat please"]).predict([clip], RATE) == ["keep holding"]
    assert jsgf([["a", "b"], ["c"]]).endswith("public <sentence> = a b | c;\n")


def test_it_says_nothing_by_itself(clips: list[np.ndarray], capfd: pytest.CaptureFixture[str]) -> None:
    PocketSphinx(SENTENCES).predict(clips[:3], RATE)
    assert capfd.readouterr() == ("", "")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    with pytest.raises(InputError, match=r"PocketSphinx is not installed; pip install 'aitest\[speech\]'"):
        PocketSphinx()

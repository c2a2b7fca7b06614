"""Texts to clips by a voice, and the check of a voice before anything else is asked."""

from __future__ import annotations

import unicodedata

import numpy as np

from aitest_lib.config.inputs import Speech
from aitest_lib.data.audio_decoding import fitted
from aitest_lib.data.audio_format import UnreadableAudio
from aitest_lib.errors import InputError
from aitest_lib.types import Clip
from aitest_lib.voices.base import CannotSay, Voice

SILENT = 1e-3  # RMS of a clip, -60 dB of full scale
TRIAL = "one two three"


def speak(voice: Voice, text: str, sample_rate: int | None = None) -> Clip:
    """The text said by the voice: a clip at this rate (None: at the voice's own), exactly PCM16.

    Blanks and line breaks are one blank each. `CannotSay` where the text is empty or holds control characters, the engine
    gives no audio for it, or the audio is silent; `InputError` or `UnavailableError` where the engine cannot be used at all.
    """
    try:
        samples, rate = voice.engine.say(voice.voice, _plain(text))
        clip, _ = fitted(samples, rate, (), None if sample_rate is None else Speech(sample_rate=sample_rate))
    except UnreadableAudio as error:
        raise CannotSay(f"the voice {voice.label} gave audio that cannot be used: {error}") from error
    except CannotSay as error:
        raise CannotSay(f"the voice {voice.label} {error}") from error.__cause__
    if float(np.sqrt(np.mean(np.square(clip.samples, dtype=np.float64)))) < SILENT:
        raise CannotSay(f"the voice {voice.label} said nothing: its audio is silent")
    return clip


def check_voice(voice: Voice) -> None:
    """Lets the voice say three words; `InputError` where it is not there or does not say them."""
    voice.engine.check(voice.voice)
    try:
        speak(voice, TRIAL)
    except CannotSay as error:
        raise InputError(f"{error} (the text was {TRIAL!r}); correct the voice, or leave it out") from error


def _plain(text: str) -> str:
    plain = " ".join(text.split())
    if not plain:
        raise CannotSay("has nothing to say: the text is empty")
    if any(unicodedata.category(one) in ("Cc", "Cs") for one in plain):
        raise CannotSay("cannot say the text: it holds control characters")
    return plain

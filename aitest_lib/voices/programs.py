"""The speech synthesizers that come with Linux: eSpeak NG and Flite."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from aitest_lib.errors import InputError, unknown
from aitest_lib.voices.base import SAY_S, CannotSay
from aitest_lib.voices.running import said

ESPEAK, FLITE = "espeak-ng", "flite"
GENDERS = {"M": "male", "F": "female"}
FLITE_VOICES = {
    "awb": ("en-GB-scotland", "male"),
    "awb_time": ("en-GB-scotland", "male"),
    "kal": ("en-US", "male"),
    "kal16": ("en-US", "male"),
    "rms": ("en-US", "male"),
    "slt": ("en-US", "female"),
}
_OTHER = re.compile(r"\(([\w-]+) \d+\)")
TYPOGRAPHY = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "…": "..."})


@dataclass(frozen=True)
class ListedVoice:
    """A voice that is installed. `gender`: male, female, or '' where the engine does not say it."""

    name: str
    language: str
    gender: str


@dataclass(frozen=True)
class EspeakNg:
    """eSpeak NG: a language (`en-us`), or one with a variant that changes its timbre (`en-us+f3`)."""

    name: ClassVar[str] = ESPEAK

    def check(self, voice: str) -> None:
        """Raises `InputError` where the program is not installed, or has no such language or variant.

        The program itself takes an unknown variant for none without a word.
        """
        base, plus, variant = voice.partition("+")
        known = {one.name for one in list_voices(ESPEAK)}
        if base not in known | _espeak_other_names():
            raise InputError(f"{unknown('voice of espeak-ng', base, known)}; `aitest list voices` shows all")
        if plus and variant not in _espeak_variants():
            raise InputError(f"{unknown(f'variant of the voice {base} of espeak-ng', variant, _espeak_variants())}")

    def say(self, voice: str, text: str) -> tuple[NDArray[np.float32], int]:
        """The text as UTF-8 through stdin; `[[` would begin phonemes, and is taken apart."""
        options = ("-b", "1", "-v", voice, "--stdin")
        return said(lambda out: [program(ESPEAK), *options, "-w", str(out)], stdin=text.replace("[[", "[ ["))

    def identity(self) -> dict[str, Any]:
        """The version."""
        return {"version": _version(ESPEAK)}


@dataclass(frozen=True)
class Flite:
    """Flite (CMU): English voices by name (`slt`, `rms`, `awb`, `kal16`)."""

    name: ClassVar[str] = FLITE

    def check(self, voice: str) -> None:
        """Raises `InputError` where the program is not installed, or has no such voice: it would take another in silence."""
        known = [one.name for one in list_voices(FLITE)]
        if voice not in known:
            raise InputError(f"{unknown('voice of flite', voice, known)}; `aitest list voices` shows all")

    def say(self, voice: str, text: str) -> tuple[NDArray[np.float32], int]:
        """The text from a file, so that it may begin with a dash. It reads bytes: what is no ASCII would be misread."""
        plain = text.translate(TYPOGRAPHY)
        if not plain.isascii():
            strange = "".join(dict.fromkeys(one for one in plain if not one.isascii()))
            raise CannotSay(f"cannot say {strange[:20]!r}: flite knows the letters of English only")

        def command(out: Path) -> Sequence[str]:
            source = out.with_name("text.txt")
            source.write_text(plain, encoding="ascii")
            return [program(FLITE), "-voice", voice, "-f", str(source), "-o", str(out)]

        return said(command)

    def identity(self) -> dict[str, Any]:
        """The version."""
        return {"version": _version(FLITE)}


def list_voices(engine: str) -> list[ListedVoice]:
    """The installed voices of `espeak-ng` or `flite`, by name; `InputError` where the engine is not installed, or is another.

    A voice of eSpeak NG may have one of its variants, too, as in `en-us+f3`.
    """
    if engine == ESPEAK:
        rows = [row for row in _espeak_rows() if not row[2].startswith("mb/") and row[0] != "variant"]
        return sorted((ListedVoice(row[0], row[0], row[1]) for row in rows), key=lambda one: one.name)
    if engine == FLITE:
        names = sorted(_printed(FLITE, "-lv").partition(":")[2].split())
        return [ListedVoice(name, *FLITE_VOICES.get(name, ("", ""))) for name in names]
    raise InputError(f"{unknown('engine', engine, (ESPEAK, FLITE))}")


def program(name: str) -> str:
    """Where the program of an engine is; `InputError` where it is not installed."""
    found = shutil.which(name)
    if found is None:
        raise InputError(f"the voices of {name} need the program {name}, which is not installed; run apt-get install {name}")
    return found


def _espeak_rows(kind: str = "") -> list[tuple[str, str, str]]:
    """Language, gender, and file with other languages, of each voice; `variant` stands for the language of those."""
    lines = _printed(ESPEAK, f"--voices={kind}" if kind else "--voices").splitlines()[1:]
    rows = [line.split(maxsplit=4) for line in lines]
    return [(row[1], GENDERS.get(row[2][-1], ""), row[4]) for row in rows if len(row) == 5]


def _espeak_other_names() -> set[str]:
    """Their other languages and their files, as in `en` and `mb-en1`. Whether MBROLA is there shows when they speak."""
    places = [place for _, _, place in (*_espeak_rows(), *_espeak_rows("mb"))]
    files = {place.partition("(")[0].strip() for place in places}
    return {name for place in places for name in _OTHER.findall(place)} | files | {file.rpartition("/")[2] for file in files}


def _espeak_variants() -> set[str]:
    return {place.partition("(")[0].strip().removeprefix("!v/") for _, _, place in _espeak_rows("variant")}


@cache
def _printed(name: str, option: str) -> str:
    # Flite ends with status 1 when it has listed what it has.
    done = subprocess.run([program(name), option], stdin=subprocess.DEVNULL, capture_output=True, timeout=SAY_S, check=False)
    return done.stdout.decode("utf-8", "replace")


def _version(name: str) -> str:
    lines = [line for line in _printed(name, "--version").splitlines() if "version" in line or "text-to-speech" in line]
    return lines[0].partition("  Data at")[0].strip() if lines else ""

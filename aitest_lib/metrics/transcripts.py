"""Transcripts made comparable: named normalizers, and the units (words or characters) in which errors are counted.

Both sides of a comparison go through the same normalizer, and the report names it. Combining marks stay where they are: without
its vowel signs Hindi or Thai is another text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from aitest_lib.errors import InputError, unknown

Unit = Literal["word", "character"]

DEFAULT_NORMALIZER = "standard"

_WITHOUT_SPACES = {"zh", "cmn", "yue", "ja", "th", "lo", "km", "my"}  # written without spaces between words
_APOSTROPHES = str.maketrans(dict.fromkeys("\u2018\u2019\u201b\u02bc\u2032\uff07", "'"))
_TAG = re.compile(r"\[[^\[\]]*\]|<[^<>\s]*>|%hesitation\b", re.IGNORECASE)
_SOUND = re.compile(
    r"\(\s*(?:noise|background noise|silence|blank|music|laughter|laughs|laughing|applause|coughs?|coughing|breath|breathing"
    r"|inaudible|unintelligible|crosstalk|pause)\s*\)",
    re.IGNORECASE,
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_POINT = re.compile(r"(?<=\d)\.(?=\d)")

_NEGATED = "are could did do does had has have is might must need should was were would"  # take n't without changing
_CONTRACTIONS = {
    **{f"{verb}n't": f"{verb} not" for verb in _NEGATED.split()},
    "can't": "can not",
    "cannot": "can not",
    "won't": "will not",
    "shan't": "shall not",
    "i'm": "i am",
    "let's": "let us",
    **{f"{who}'re": f"{who} are" for who in ("you", "we", "they", "who", "what", "there")},
    **{f"{who}'ll": f"{who} will" for who in ("i", "you", "he", "she", "it", "we", "they", "that", "there", "who")},
    **{f"{who}'ve": f"{who} have" for who in ("i", "you", "we", "they", "could", "should", "would", "might")},
    **{f"{who}'s": f"{who} is" for who in ("he", "she", "it", "that", "there", "here", "what", "who", "where", "how")},
}
_FILLERS = {"uh", "uhh", "uhm", "um", "umm", "erm", "hm", "hmm", "mhm"}
_ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen"""
_ROUND = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = {word: value for value, word in enumerate(_ONES.split())}
_TENS = {word: 20 + 10 * place for place, word in enumerate(_ROUND.split())}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}


@dataclass(frozen=True)
class Normalizer:
    """What is done to a transcript before it is compared: `apply` (idempotent), and its `description` for the report."""

    description: str
    apply: Callable[[str], str]


def normalized(text: str | None, normalizer: str = DEFAULT_NORMALIZER) -> str:
    """A transcript as it is compared: words with one space between them, none at the ends; None (nothing heard) is "".

    An unknown `normalizer` is an `InputError`.
    """
    if normalizer not in NORMALIZERS:
        raise InputError(unknown("normalizer", normalizer, NORMALIZERS))
    return NORMALIZERS[normalizer].apply(text or "")


def tokens(text: str, unit: Unit) -> list[str]:
    """The words of a text, or its characters as readers see them (extended grapheme clusters, UAX 29) without the spaces."""
    if unit == "word":
        return text.split()
    import regex

    characters: list[str] = regex.findall(r"\X", "".join(text.split()))
    return characters


def unit_for(language: str | None) -> Unit:
    """In which unit errors are counted in a language (a tag such as "en-US" or "ja"): characters where words are written
    without spaces between them, else words."""
    primary = re.split(r"[-_]", language or "")[0].lower()
    return "character" if primary in _WITHOUT_SPACES else "word"


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _standard(text: str) -> str:
    # Invisible characters go first: between a letter and its accent they would keep the two from composing.
    shown = "".join(map(_visible, _SOUND.sub(" ", _TAG.sub(" ", text.translate(_APOSTROPHES)))))
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFD", shown).casefold())
    words = "".join(" " if sign != "'" and unicodedata.category(sign)[0] in "PSZ" else sign for sign in folded)
    around = f" {words} "
    kept = (
        " " if sign == "'" and not (_in_word(before) and _in_word(after)) else sign
        for before, sign, after in zip(around, words, around[2:], strict=False)
    )
    return _spaced("".join(kept))


def _visible(sign: str) -> str:
    if sign.isspace():
        return " "
    return "" if unicodedata.category(sign)[0] == "C" else sign


def _in_word(sign: str) -> bool:
    return unicodedata.category(sign)[0] in "LMN"


def _english(text: str) -> str:
    plain = _standard(_POINT.sub(" point ", _THOUSANDS.sub("", text)))
    spoken = " ".join(_CONTRACTIONS.get(word, word) for word in plain.split())
    return " ".join(_with_digits([word for word in spoken.split() if word not in _FILLERS]))


def _with_digits(words: list[str]) -> list[str]:
    """Cardinal numbers in words as digits, each by itself: "two hundred and five" is 205, "one two" is 1 2."""
    written = []
    at = 0
    while at < len(words):
        value, end = _number(words, at)
        written.append(words[at] if value is None else str(value))
        at = max(end, at + 1)
    return written


def _number(words: list[str], at: int, below: int = 10**12) -> tuple[int | None, int]:
    """The number that begins at a word, with scales below `below` only, and the place after it; None where none begins."""
    value, end = _hundreds(words, at)
    scale = _SCALES.get(_word(words, end), below)
    if not value or scale >= below:
        return value, end
    rest, after = _number(words, end + 1 + (_word(words, end + 1) == "and"), scale)
    return (value * scale + rest, after) if rest else (value * scale, end + 1)


def _hundreds(words: list[str], at: int) -> tuple[int | None, int]:
    value, end = _tens(words, at)
    if not value or _word(words, end) != "hundred":
        return value, end
    rest, after = _tens(words, end + 1 + (_word(words, end + 1) == "and"))
    return (value * 100 + rest, after) if rest else (value * 100, end + 1)


def _tens(words: list[str], at: int) -> tuple[int | None, int]:
    word = _word(words, at)
    if word in _SMALL:
        return _SMALL[word], at + 1
    if word not in _TENS:
        return None, at
    ones = _SMALL.get(_word(words, at + 1), 0)
    return (_TENS[word] + ones, at + 2) if 1 <= ones <= 9 else (_TENS[word], at + 1)


def _word(words: list[str], at: int) -> str:
    return words[at] if at < len(words) else ""


NORMALIZERS: dict[str, Normalizer] = {
    "none": Normalizer("as they are; only white space is made even", _spaced),
    "standard": Normalizer(
        "upper and lower case alike, without punctuation and symbols (apostrophes inside words stay, a hyphen parts words), "
        "without tags such as [BLANK_AUDIO], <unk>, (noise) and %HESITATION; accents and vowel signs stay (Unicode NFC)",
        _standard,
    ),
    "english": Normalizer(
        "as standard, and: contractions written out (don't: do not), cardinal numbers as digits (twenty one: 21), "
        "thousands without a comma, a decimal point as a word, without fillers (uh, um); British and American spelling differ",
        _english,
    ),
}

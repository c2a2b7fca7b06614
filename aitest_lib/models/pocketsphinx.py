"""PocketSphinx (CMU, en-us model of its own) as a small recogniser that needs no service: for demos, tests and small grammars.

In a card: `python: {callable: aitest_lib.models.pocketsphinx:PocketSphinx, params: {grammar: [i am ready, ...]}}`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.errors import InputError, nearest
from aitest_lib.pcm import to_pcm16

SAMPLE_RATE = 16_000  # what the acoustic model was trained on
MODEL = Path("en-us") / "en-us"
DICTIONARY = Path("en-us") / "cmudict-en-us.dict"
LANGUAGE_MODEL = Path("en-us") / "en-us.lm.bin"
SHOWN_WORDS = 5
_WORD = re.compile(r"[a-z'][a-z'.-]*")  # others mean something in a grammar, or "read(2)" in the dictionary


class PocketSphinx:
    """Recognises English: one of the sentences of a `grammar`, or without one anything, with the package's language model.

    A grammar is about twenty times as fast, and hears nothing (an empty text) rather than a sentence that is unlike all of
    its own. Every clip is heard by itself: what was heard before it changes nothing.
    """

    def __init__(self, grammar: Sequence[str] | None = None) -> None:
        """`InputError` where the package is missing, or a word of the grammar is not in its dictionary."""
        try:
            import pocketsphinx
        except ImportError as error:
            raise InputError("PocketSphinx is not installed; pip install 'aitest[speech]'") from error
        folder = Path(pocketsphinx.get_model_path())
        language_model = str(folder / LANGUAGE_MODEL) if grammar is None else None
        self._decoder: Any = pocketsphinx.Decoder(
            hmm=str(folder / MODEL), dict=str(folder / DICTIONARY), lm=language_model, loglevel="FATAL"
        )
        if grammar is not None:
            sentences = [_words(sentence) for sentence in grammar]
            self._check(sentences, folder / DICTIONARY)
            self._decoder.add_jsgf_string("sentences", jsgf(sentences))
            self._decoder.activate_search("sentences")

    def predict(self, clips: Sequence[NDArray[np.float32]], sample_rate: int) -> list[str]:
        """What is heard in each clip (float32 (n,) in [-1, 1]), '' for nothing; at 16,000 samples per second only.

        Another rate would be heard as something else without a sign of it, so it is an `InputError`.
        """
        if sample_rate != SAMPLE_RATE:
            raise InputError(
                f"got clips of {sample_rate} samples per second, expected {SAMPLE_RATE}; write "
                f"`inputs: {{speech: {{sample_rate: {SAMPLE_RATE}}}}}` into the card, and they are resampled"
            )
        return [self._heard(clip) for clip in clips]

    def _heard(self, clip: NDArray[np.float32]) -> str:
        if not clip.any():
            return ""  # normalised over itself, digital silence would become words
        # Else the means of the features and the level of the noise go on from the clip before.
        self._decoder.reinit_feat()
        self._decoder.start_utt()
        self._decoder.process_raw(to_pcm16(clip).astype("<i2").tobytes(), full_utt=True)
        self._decoder.end_utt()
        found = self._decoder.hyp()
        return "" if found is None else str(found.hypstr)

    def _check(self, sentences: list[list[str]], dictionary: Path) -> None:
        if not sentences or not all(sentences):
            raise InputError("got a grammar without sentences or with an empty one, expected texts such as 'i am ready'")
        words = dict.fromkeys(word for sentence in sentences for word in sentence)
        strange = [word for word in words if not _WORD.fullmatch(word) or self._decoder.lookup_word(word) is None]
        if not strange:
            return
        shown = ", ".join(map(repr, strange[:SHOWN_WORDS])) + (", ..." if len(strange) > SHOWN_WORDS else "")
        known = [line.partition(" ")[0] for line in dictionary.read_text(encoding="utf-8").splitlines()]
        near = nearest(strange[0], [word for word in known if word[:1] == strange[0][:1] and "(" not in word])
        hint = f" (near {strange[0]!r}: {', '.join(near)})" if near else ""
        raise InputError(
            f"the grammar has words that are not in the dictionary: {shown}{hint}; write words of it, numbers in letters"
        )


def jsgf(sentences: Sequence[Sequence[str]]) -> str:
    """A grammar (Java Speech Grammar Format 1.0) that takes one of the sentences, each a list of words."""
    alternatives = " | ".join(" ".join(words) for words in sentences)
    return f"#JSGF V1.0;\ngrammar sentences;\npublic <sentence> = {alternatives};\n"


def _words(sentence: str) -> list[str]:
    return sentence.lower().split()

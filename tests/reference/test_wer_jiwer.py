"""Word error rates against jiwer itself, the paper's table, and what jiwer leaves to its caller."""

from __future__ import annotations

import jiwer
import numpy as np
import pytest

from aitest_lib.metrics.transcripts import normalized
from aitest_lib.metrics.wer import count_errors

# Commands with the word error rates of the paper's table 4: 16 words in all.
TABLE_4 = [
    ("i am ready", "yeah and brandy", 1.0),
    ("can i talk to someone", "can you took two some", 0.8),
    ("keep holding", "keep calling", 0.5),
    ("i need a minute", "i need the minute", 0.25),
    ("repeat please", None, 1.0),
]

# Said, heard, normalizer, unit, and the rate that is wanted (None: none), where jiwer alone gives another or none.
WANTED = [
    ("a b", "", "none", "word", 1.0),
    ("", "", "none", "word", None),
    ("", "a b", "none", "word", None),
    ("", "a", "none", "character", None),
    ("Hello, world!", "hello world", "none", "word", 1.0),
    ("Hello, world!", "hello world", "standard", "word", 0.0),
    ("don't", "do not", "standard", "word", 2.0),
    ("don't", "do not", "english", "word", 0.0),
    ("twenty one", "21", "standard", "word", 1.0),
    ("twenty one", "21", "english", "word", 0.0),
    ("don’t", "don't", "standard", "word", 0.0),
    ("caf\u00e9", "cafe\u0301", "standard", "word", 0.0),
    ("a b", "a\u00a0b", "none", "word", 0.0),
    ("a b", "a\tb", "none", "word", 0.0),
    ("a b", "a\nb", "none", "word", 0.0),
    ("a  b", "a b", "none", "word", 0.0),
    ("ab", "a\u200bb", "standard", "word", 0.0),
    ("今天天气", "今天天汽", "standard", "word", 1.0),
    ("今天天气", "今天天汽", "standard", "character", 0.25),
    ("今天天气", "今天 天气", "standard", "character", 0.0),
    ("कि", "की", "standard", "character", 1.0),
    ("👨‍👩‍👧", "👨", "none", "character", 1.0),
    ("hi", "a b c d", "standard", "word", 4.0),
]


@pytest.fixture(scope="module")
def spoken() -> tuple[list[str], list[str]]:
    """Sentences of few words, so that words come again, and what may be heard of them."""
    rng = np.random.default_rng(8)
    words = ["yes", "no", "go", "on", "the", "light", "turn", "off", "repeat", "please", "café", "नमस्ते"]
    said = [" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(200)]
    heard = [" ".join(rng.choice(words, rng.integers(0, 9))) for _ in range(200)]
    return said, [text if rng.random() < 0.3 else other for text, other in zip(said, heard, strict=True)]


def test_the_papers_table() -> None:
    heard = count_errors([said for said, _, _ in TABLE_4], [text for _, text, _ in TABLE_4])
    assert heard.wer.tolist() == [wer for _, _, wer in TABLE_4] == [1.0, 0.8, 0.5, 0.25, 1.0]
    pooled = heard.pooled()
    assert pooled.mean_wer == pytest.approx(0.71)
    assert pooled.wer == 0.6875


@pytest.mark.parametrize(("said", "heard", "normalizer", "unit", "wanted"), WANTED)
def test_as_wanted(said: str, heard: str, normalizer: str, unit: str, wanted: float | None) -> None:
    found = count_errors([normalized(said, normalizer)], [normalized(heard, normalizer)], unit).wer[0]  # type: ignore[arg-type]
    assert np.isnan(found) if wanted is None else found == wanted


def test_mean_and_pooled_rates_differ_on_short_clips() -> None:
    pooled = count_errors(["a b c", "d"], ["a x c", None]).pooled()
    assert pooled.mean_wer == pytest.approx(0.667, abs=0.001)
    assert pooled.wer == 0.5


def test_counts_pooled(spoken: tuple[list[str], list[str]]) -> None:
    heard, reference = count_errors(*spoken), jiwer.process_words(*spoken)
    pooled = heard.pooled()
    assert pooled.wer == pytest.approx(reference.wer)
    assert heard.hits.sum() == reference.hits
    assert (pooled.substitutions, pooled.deletions, pooled.insertions) == (
        reference.substitutions,
        reference.deletions,
        reference.insertions,
    )


def test_rates_by_pair(spoken: tuple[list[str], list[str]]) -> None:
    rates = [jiwer.wer(said, heard) for said, heard in zip(*spoken, strict=True)]
    np.testing.assert_allclose(count_errors(*spoken).wer, rates)


def test_character_errors_are_those_of_the_text_without_spaces(spoken: tuple[list[str], list[str]]) -> None:
    plain = [pair for pair in zip(*spoken, strict=True) if "".join(pair).isascii()]
    said, heard = ([text.replace(" ", "") for text in side] for side in zip(*plain, strict=True))
    wanted = pytest.approx(jiwer.cer(said, heard))
    assert count_errors(said, heard, "character").pooled().wer == wanted
    spaced = count_errors([one for one, _ in plain], [other for _, other in plain])
    assert spaced.pooled().cer == wanted

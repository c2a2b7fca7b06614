"""Word errors, alignments, and the intervals of pooled rates where they could mislead."""

from __future__ import annotations

import numpy as np
import pytest

from aitest_lib.errors import InputError
from aitest_lib.metrics.transcripts import normalized
from aitest_lib.metrics.wer import align, count_errors, pooled_rate, pooled_rise
from aitest_lib.stats.estimates import Estimate


def bounds(figure: Estimate, confidence: float = 0.95) -> tuple[float, float]:
    found = figure.bounds(confidence)
    assert found is not None
    return found


def test_counts_by_pair() -> None:
    heard = count_errors(
        ["turn on the light", "keep holding", "repeat please", "yes"], ["turn of light", None, "repeat please", "oh yes oh"]
    )
    assert heard.words.tolist() == [4, 2, 2, 1]
    assert heard.hits.tolist() == [2, 0, 2, 1]
    assert heard.substitutions.tolist() == [1, 0, 0, 0]
    assert heard.deletions.tolist() == [1, 2, 0, 0]
    assert heard.insertions.tolist() == [0, 0, 0, 2]
    assert heard.errors.tolist() == [2, 2, 0, 2]
    assert heard.wer.tolist() == [0.5, 1.0, 0.0, 2.0]
    assert heard.empty.tolist() == [False, True, False, False]
    assert heard.characters.tolist() == [14, 11, 12, 3]
    assert heard.character_errors.tolist() == [4, 11, 0, 4]  # "n" of "on", "the"
    assert {column.dtype for column in (heard.words, heard.errors, heard.character_errors)} == {np.dtype(np.int64)}


def test_everything_together() -> None:
    heard = count_errors(["turn on the light", "", "keep holding", "yes"], ["turn of light", "hello there", None, "yes"])
    pooled = heard.pooled()
    assert (pooled.clips, pooled.words, pooled.substitutions, pooled.deletions, pooled.insertions) == (3, 7, 1, 3, 0)
    assert (pooled.wer, pooled.mean_wer, pooled.median_wer) == (4 / 7, 0.5, 0.5)
    assert (pooled.perfect, pooled.empty) == (1, 1)
    assert pooled.cer == 15 / 28
    some = heard.pooled(np.array([True, True, False, False]))
    assert (some.clips, some.wer) == (1, 0.5)


def test_references_without_a_word_stand_apart() -> None:
    heard = count_errors(["", "", "a b"], ["x y z", "", "a b"])
    assert heard.silent.tolist() == [True, True, False]
    assert heard.insertions[heard.silent].tolist() == [3, 0]
    assert np.isnan(heard.wer[:2]).all()
    assert heard.pooled().wer == 0
    silence = heard.take(heard.silent).pooled()
    assert (silence.clips, silence.words, silence.wer, silence.mean_wer, silence.median_wer, silence.cer) == (0, 0, *[None] * 4)


def test_no_pairs() -> None:
    heard = count_errors([], [])
    assert len(heard) == 0
    assert heard.pooled().wer is None


def test_characters_as_units() -> None:
    heard = count_errors(["今天 天气", "कि", "👨‍👩‍👧"], ["今天天汽", "की", "👨‍👩‍👧"], "character")
    assert heard.words.tolist() == heard.characters.tolist() == [4, 1, 1]
    assert heard.errors.tolist() == heard.character_errors.tolist() == [1, 1, 0]


def test_wrong_lists_are_refused() -> None:
    with pytest.raises(InputError, match="got 1 references and 2 transcripts"):
        count_errors(["a"], ["a", "b"])
    with pytest.raises(InputError, match="pair 1: got float, expected text"):
        count_errors(["a", "b"], ["a", float("nan")])  # type: ignore[list-item]


def test_words_side_by_side() -> None:
    assert align("please turn it on", "turn it off") == [
        ("please", None, "delete"),
        ("turn", "turn", "equal"),
        ("it", "it", "equal"),
        ("on", "off", "substitute"),
    ]
    assert align("yes", None) == [("yes", None, "delete")]
    assert align("", "yes") == [(None, "yes", "insert")]
    assert align("", "") == []
    assert align("今天 天", "今天", "character") == [("今", "今", "equal"), ("天", "天", "equal"), ("天", None, "delete")]


def test_normalized_pairs_agree() -> None:
    pairs = [("twenty one", "21"), ("don't", "Do not!"), ("I’m ready.", "i'm ready")]
    said, heard = ([normalized(side, "english") for side in sides] for sides in zip(*pairs, strict=True))
    assert count_errors(said, heard).errors.tolist() == [0, 0, 0]


@pytest.mark.parametrize("clips", [10, 30, 100])
def test_no_error_is_not_certainty(clips: int) -> None:
    low, high = bounds(pooled_rate(np.zeros(clips, int), np.full(clips, 6), np.arange(clips)))
    assert low == 0
    assert 2.7 / clips < high < 4 / clips  # about what is left by the rule of three
    low, high = bounds(pooled_rise(np.ones(clips, int), np.ones(clips, int), np.full(clips, 6), np.arange(clips)))
    assert -low == pytest.approx(high)
    assert 2.7 / clips < high < 5 / clips


def test_few_speakers_without_an_error_are_known_by_their_clips() -> None:
    speakers = np.repeat(["a", "b", "c", "d", "e"], 30)
    _, high = bounds(pooled_rate(np.zeros(150, int), np.full(150, 6), speakers))
    assert 2.7 / 150 < high < 8 / 150  # Student's t of 5 speakers


def test_one_cluster_has_no_interval() -> None:
    for figure in (pooled_rate([1, 0], [4, 4], ["a", "a"]), pooled_rise([2, 0], [1, 0], [4, 4], ["a", "a"])):
        assert figure.value == 0.125
        assert figure.bounds(0.95) is None
        assert figure.reason == "one speaker or clip alone has no interval"


def test_no_words_no_rate() -> None:
    assert pooled_rate([3], [0], ["a"]).value is None
    assert pooled_rise([], [], [], []).value is None


def test_clips_without_words_are_left_out() -> None:
    one, other = pooled_rate([1, 0, 9], [4, 4, 0], ["a", "b", "c"]), pooled_rate([1, 0], [4, 4], ["a", "b"])
    assert one.n == 2
    assert bounds(one) == bounds(other)


def test_rates_above_one() -> None:
    figure = pooled_rate([8, 9, 7, 12], [4, 4, 4, 4], list("abcd"))
    low, high = bounds(figure)
    assert 1 < low < 2.25 < high
    assert figure.effective_n is None  # it is no share of trials


def test_more_speakers_tell_more_than_more_clips() -> None:
    errors, words = np.tile([6, 0, 3, 0, 1], 20), np.full(100, 8)
    apart = bounds(pooled_rate(errors, words, np.arange(100)))
    together = bounds(pooled_rate(errors, words, np.tile(np.arange(5), 20)))
    assert together[0] < apart[0] < apart[1] < together[1]


def test_counts_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="expected one of each a clip"):
        pooled_rate([1, 2], [4], ["a", "b"])
    with pytest.raises(InputError, match="missing or below 0"):
        pooled_rise([1.0, np.nan], [0, 0], [4, 4], ["a", "b"])

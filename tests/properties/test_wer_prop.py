"""What holds for all transcripts, and for all speakers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from aitest_lib.errors import InputError
from aitest_lib.metrics.transcripts import NORMALIZERS, Unit, normalized, tokens
from aitest_lib.metrics.wer import WordErrors, align, count_errors, pooled_rate, pooled_rise
from aitest_lib.stats.disparity import NO_TWO_GROUPS, TOO_FEW, GroupGaps, disparity
from aitest_lib.stats.estimates import Estimate
from aitest_lib.stats.permutation import Speakers, gap_permutation, ratio_permutation

WORDS = ["yes", "no", "turn", "it", "on", "twenty", "one", "hundred", "and", "don't", "uh", "कि", "今天", "café"]
sentences = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
units: st.SearchStrategy[Unit] = st.sampled_from(["word", "character"])
pieces = st.sampled_from(
    [*WORDS, "’", "'", "-", "[x", "]", "<unk>", "%HESITATION", "(noise)", "3,000", "3.5", "\u200b", "\u0301"]
)
texts = st.one_of(st.text(max_size=30), st.lists(st.one_of(pieces, st.sampled_from([" ", ""])), max_size=12).map("".join))
speaker_rows = st.tuples(st.integers(0, 60), st.integers(20, 200), st.integers(1, 30))


def bounds(figure: Estimate, confidence: float = 0.95) -> tuple[float, float]:
    found = figure.bounds(confidence)
    assert found is not None
    return found


def made(rows: list[tuple[int, int, int]]) -> Speakers:
    errors, words, clips = np.array(rows, float).T
    return Speakers(errors=errors, words=words, clips=clips)


groups = st.lists(speaker_rows, min_size=2, max_size=6).map(made)


@given(texts, st.sampled_from(list(NORMALIZERS)))
@example("\u0345\u0301ἀ", "standard")
@example("twenty one thousand thousand", "english")
@example("<\u200bunk> a'\u200bb 1,\u200b000", "english")
def test_normalizing_twice_changes_nothing(text: str, normalizer: str) -> None:
    once = normalized(text, normalizer)
    assert normalized(once, normalizer) == once
    assert " ".join(once.split()) == once


@given(texts)
def test_case_and_punctuation_do_not_matter(text: str) -> None:
    assert normalized(f"({text.swapcase()}!)", "standard") == normalized(text.swapcase(), "standard")


@given(st.lists(st.tuples(sentences, st.none() | sentences), max_size=12), units)
def test_counts_add_up(pairs: list[tuple[str, str | None]], unit: Unit) -> None:
    said, heard = [one for one, _ in pairs], [other for _, other in pairs]
    found = count_errors(said, heard, unit)
    assert found.words.tolist() == [len(tokens(text, unit)) for text in said]
    assert (found.hits + found.substitutions + found.insertions).tolist() == [len(tokens(text or "", unit)) for text in heard]
    assert ((found.errors == 0) == [one.split() == (other or "").split() for one, other in pairs]).all()


@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_a_pair_is_counted_alike_whatever_stands_beside_it(pairs: list[tuple[str, str]], random: object) -> None:
    together = columns(count_errors(*zip(*pairs, strict=True)))
    alone = np.hstack([columns(count_errors([said], [heard])) for said, heard in pairs])
    assert (together == alone).all()


def columns(found: WordErrors) -> NDArray[np.int64]:
    return np.stack([found.words, found.hits, found.substitutions, found.deletions, found.insertions, found.character_errors])


@given(sentences, sentences, units)
def test_an_alignment_holds_both_texts(said: str, heard: str, unit: Unit) -> None:
    aligned = align(said, heard, unit)
    assert [one for one, _, _ in aligned if one is not None] == tokens(said, unit)
    assert [other for _, other, _ in aligned if other is not None] == tokens(heard, unit)
    found = count_errors([said], [heard], unit)
    kinds = [kind for _, _, kind in aligned]
    assert found.errors[0] == len(kinds) - kinds.count("equal")
    assert all((one == other) == (kind == "equal") for one, other, kind in aligned)


clips = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 9), st.integers(0, 5)), min_size=2, max_size=20
).filter(lambda rows: len({row[3] for row in rows}) > 1)
levels = st.floats(0.5, 0.999)


@given(clips, levels, levels)
def test_pooled_intervals_nest_and_hold_the_value(rows: list[tuple[int, int, int, int]], one: float, other: float) -> None:
    case, clean, words, speakers = (list(column) for column in zip(*rows, strict=True))
    for figure in (pooled_rate(case, words, speakers), pooled_rise(case, clean, words, speakers)):
        narrow, wide = bounds(figure, min(one, other)), bounds(figure, max(one, other))
        assert figure.value is not None
        assert wide[0] - 1e-9 <= narrow[0] <= figure.value <= narrow[1] <= wide[1] + 1e-9
    assert bounds(pooled_rate(case, words, speakers))[0] >= 0


@given(clips)
def test_a_rise_the_other_way_round_is_a_fall(rows: list[tuple[int, int, int, int]]) -> None:
    case, clean, words, speakers = (list(column) for column in zip(*rows, strict=True))
    rise, fall = pooled_rise(case, clean, words, speakers), pooled_rise(clean, case, words, speakers)
    assert rise.value == pytest.approx(-(fall.value or 0.0))
    assert bounds(rise) == pytest.approx([-bound for bound in reversed(bounds(fall))], abs=1e-9)


@settings(max_examples=40)
@given(groups, groups, levels, levels)
def test_contrasts_nest_and_hold_the_value(one: Speakers, other: Speakers, first: float, second: float) -> None:
    assume(one.errors.sum() > 0 and other.errors.sum() > 0)
    for test in (gap_permutation, ratio_permutation):
        contrast = test(one, other, 1)
        narrow, wide = (bounds(contrast.estimate, level) for level in sorted((first, second)))
        assert contrast.estimate.value is not None
        assert wide[0] <= narrow[0] <= contrast.estimate.value <= narrow[1] <= wide[1]
        assert contrast.p_value is not None
        assert 0 < contrast.p_value <= 1


@settings(max_examples=30)
@given(groups, groups)
def test_contrasts_the_other_way_round(one: Speakers, other: Speakers) -> None:
    there, back = gap_permutation(one, other, 1), gap_permutation(other, one, 1)
    assert there.p_value == back.p_value
    assert bounds(there.estimate) == pytest.approx([-bound for bound in reversed(bounds(back.estimate))], abs=1e-6)


@settings(max_examples=20)
@given(st.permutations(range(20)), st.integers(0, 3))
def test_the_order_of_the_clips_does_not_matter(order: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    errors, words = rng.integers(0, 9, 20), rng.integers(1, 9, 20)
    speakers = [f"s{place % 10}" for place in range(20)]
    halves = [f"g{place % 2}" for place in range(20)]
    given_order = disparity(errors, words, speakers, halves, 1)
    other = disparity(errors[order], words[order], [speakers[at] for at in order], [halves[at] for at in order], 1)
    assert given_order == other
    assert bounds(given_order.worst) == bounds(other.worst)


def spoken(sizes: dict[str, int], errors: dict[str, int], reference: str | None = None) -> GroupGaps:
    """Groups of so many speakers with one clip of 10 words each, in which each mishears as many."""
    names = [name for name, size in sizes.items() for _ in range(size)]
    speakers = [f"{name}{place}" for place, name in enumerate(names)]
    return disparity([errors[name] for name in names], [10] * len(names), speakers, names, 1, reference)


def test_too_few_speakers_are_voices_and_no_group() -> None:
    found = spoken({"a": TOO_FEW, "b": TOO_FEW - 1}, {"a": 1, "b": 5})
    assert found.unjudged == "these voices differ, not the groups: fewer than 5 speakers in b (4)"
    assert found.worst.value == pytest.approx(0.4)
    assert found.worst.bounds(0.95) is None
    assert found.worst.reason == found.unjudged
    assert [group.p_value for group in found.groups] == [None, None]


def test_groups_with_enough_speakers_are_judged_beside_others() -> None:
    found = spoken({"a": 6, "b": 6, "c": 1}, {"a": 1, "b": 3, "c": 9})
    assert found.unjudged == "these voices differ, not the groups: fewer than 5 speakers in c (1)"
    assert found.worst.value == pytest.approx(0.2)
    assert bounds(found.worst)
    assert [group.name for group in found.groups] == ["a", "b", "c"]
    assert [group.reference for group in found.groups] == [True, False, False]
    few = found.groups[2].gap
    assert few is not None
    assert few.bounds(0.95) is None


def test_no_error_at_all_is_no_certainty() -> None:
    found = spoken({"a": 6, "b": 6}, {"a": 0, "b": 0})
    low, high = bounds(found.worst)
    assert low < -0.2
    assert high > 0.2
    ratio = found.groups[1].ratio
    assert ratio is not None
    assert (ratio.value, ratio.reason) == (None, "the reference group has no error")


def test_speakers_who_are_all_alike() -> None:
    found = spoken({"a": 50, "b": 50}, {"a": 1, "b": 8})
    low, high = bounds(found.worst)
    assert 0.6 < low < 0.7 < high < 0.8  # one imagined clip in 50
    assert found.groups[1].p_value == pytest.approx(1 / 5000)


def test_a_named_reference_is_kept() -> None:
    found = spoken({"a": 6, "b": 6}, {"a": 1, "b": 3}, "b")
    assert found.worst.value == pytest.approx(-0.2)
    with pytest.raises(InputError, match="unknown reference group 'c'"):
        spoken({"a": 6, "b": 6}, {"a": 1, "b": 3}, "c")


def test_one_group_has_nothing_beside_it() -> None:
    found = spoken({"a": 6}, {"a": 1})
    assert (found.worst.value, found.worst.reason, found.unjudged) == (None, NO_TWO_GROUPS, NO_TWO_GROUPS)


def test_a_group_of_one_has_no_interval() -> None:
    one, many = made([(1, 20, 3)]), made([(1, 20, 3), (2, 20, 3)])
    for test in (gap_permutation, ratio_permutation):
        contrast = test(one, many, 1)
        assert contrast.estimate.bounds(0.95) is None
        assert contrast.p_value is None


def test_a_speaker_in_two_groups_is_refused() -> None:
    with pytest.raises(InputError, match="got a speaker in two groups of one attribute"):
        disparity([1, 1], [5, 5], ["s", "s"], ["a", "b"], 1)

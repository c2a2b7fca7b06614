"""The report of speech: sentences, figures, the page and the terminal."""

from __future__ import annotations

import doctest
import re
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest
import speech_sample as sample
from speech_sounds import RATE, spoken

from aitest_lib.reports import explain_speech, sounds, speech_view
from aitest_lib.reports.explain import explain_property, explanation_parts
from aitest_lib.reports.explain_speech import explain_speech_case, speech_words
from aitest_lib.reports.html import MAX_BYTES, render_html
from aitest_lib.reports.html_speech import speech_facts
from aitest_lib.reports.plots import LIGHT, PAGE
from aitest_lib.reports.records import Errors, Level, Sweep, Word
from aitest_lib.reports.sounds import sound
from aitest_lib.reports.speech_plots import MAX_LINES, highest, level_panel, noise_bars, noise_plot, speech_figures
from aitest_lib.reports.speech_text import NARROWEST, speech_lines
from aitest_lib.reports.speech_view import common_snr, half_lost
from aitest_lib.types import Clip

EVIL = "<script>alert(1)</script>\"'&\x00\ud800"
SPACE = "{http://www.w3.org/2000/svg}"
AXIS = "signal-to-noise ratio in dB"


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", re.sub(r"(?s)<(script|style)>.*?</\1>", "", page)).split())


def found(wer: float | None) -> Errors:
    return Errors(clips=10, words=100, substitutions=0, deletions=0, insertions=0, wer=wer)


def noise(name: str, levels: dict[float, float | None], parameter: str = "snr_db", unit: str = "dB") -> Sweep:
    made = [Level(strength=strength, errors=found(wer)) for strength, wer in levels.items()]
    return Sweep(transform=name, parameter=parameter, unit=unit, levels=made)


@pytest.mark.parametrize("module", [explain_speech, speech_view, sounds])
def test_the_examples_in_the_docstrings_hold(module: Any) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


# Sentences


@pytest.mark.parametrize(
    ("transform", "params", "expected"),
    [
        ("white_noise", {"snr_db": 5.0, "noise_seed": 3}, "with white noise at 5 dB"),
        ("white_noise", {"snr_db": -5, "level": "active"}, "with white noise at -5 dB over active speech"),
        ("interference", {"noise": "water_drip", "theta": 0.7}, "with water drip noise at theta 0.7 (7.4 dB)"),
        ("interference", {"noise": "rain", "theta": 0.7, "measured": {"snr_db": 7.2}}, "with rain noise at theta 0.7 (7.2 dB)"),
        ("interference", {"noise": "rain", "theta": 0}, "with rain noise at theta 0"),
        ("interference", {"recording": "street.wav", "snr_db": 0}, "with street.wav noise at 0 dB"),
        ("speed", {"factor": 1.2}, "at 1.2 times the speed"),
        ("pitch", {"semitones": 2}, "with the pitch raised by 2 semitones"),
        ("pitch", {"semitones": -1}, "with the pitch lowered by 1 semitone"),
        ("reverberation", {"rt60_s": 0.8}, "in a room that reverberates for 0.8 s"),
        ("telephone_band", {}, "through a telephone line"),
        (
            "clipping",
            {"level_db": -6, "measured": {"cut": 0.031}},
            "with everything cut off that is above -6 dB of its peak (3.1 % of it cut)",
        ),
        ("gain", {"gain_db": 12, "measured": {"clipped": 0.2}}, "made 12 dB louder (20 % of it clipped)"),
        ("packet_loss", {"rate": 0.1}, "with 10 % of its packets lost"),
        (
            "voice",
            {"voice": "slt (flite)", "original": "en-us"},
            "in the voice slt (flite) instead of en-us",
        ),
        ("my_filter", {"size": 3, "strength": 0.25, "noise_seed": 7}, "changed by my_filter (size 3, strength 0.25)"),
        ("speed", {"tempo": 3}, "changed by speed (tempo 3)"),
    ],
)
def test_every_transform_has_its_words(transform: str, params: dict[str, Any], expected: str) -> None:
    assert speech_words(transform, params) == expected


def test_a_sentence_tells_what_the_untouched_clip_was_heard_as_where_that_was_wrong() -> None:
    said = explain_speech_case("gain", {"gain_db": -40}, "character", "今天天气", "今天天七", "今", 0.25, 0.75, (0, 3, 0))
    figures = 'WER 0.75, untouched 0.25 (heard as "今天天七"); 3 of 4 characters lost'
    assert said == f'made 40 dB quieter "今天天气" was heard as "今": {figures}'


@pytest.mark.parametrize(
    ("counts", "wer", "expected"),
    [
        ((1, 0, 0), 1.0, "1 of 1 word changed"),
        ((2, 1, 3), 0.6, "1 of 10 words lost, 2 changed, 3 added"),
        ((0, 0, 2), 0.5, "2 words added"),
        ((0, 0, 2), None, "2 words added"),
    ],
)
def test_errors_are_told_of_all_words(counts: tuple[int, int, int], wer: float | None, expected: str) -> None:
    assert explain_speech_case(None, {}, "word", "a b", None, "c", None, wer, counts).endswith(f"; {expected}")


def test_words_heard_where_none_were_said_are_told() -> None:
    said = explain_speech_case(None, {}, "word", "", None, "thank you", None, None, (0, 0, 2))
    assert said == 'a clip without words was heard as "thank you": WER undefined; 2 words added'


def test_the_paragraph_on_robustness_names_the_worst_and_where_half_is_lost() -> None:
    told = sample.robustness().explanation
    for expected in (
        "The model transcribed 150 clips (850 words, 6 min 42 s of audio)",
        "after the normalizer `standard`",
        "A case fails if its WER is higher than that of its untouched clip by more than 0.1.",
        "What broke most was restaurant noise at 0 dB with a pooled WER of 1.024 [1.012, 1.035], 1.008 [0.978, 1.038] above",
        "at 5 dB of white noise (at 10 dB it is 0.345)",
        "It stays below 0.5 under water drip noise down to 0 dB and under wind noise down to 0 dB.",
        "At 0 dB each, the noises rank restaurant noise 1.024, white noise 1.011",
        "4 of 5 gates passed.",
    ):
        assert expected in told, expected


def test_the_paragraph_on_fairness_says_what_is_unjudged_and_left_out() -> None:
    told = sample.fairness().explanation
    for expected in (
        "The widest gap is 0.107 [0.067, 0.147], of male against female, 2.47 times as many errors [1.976, 2.964] (p 0.002)",
        "; these voices differ, not the groups: of Scottish there are 3 voices, at least 5 are needed.",
        "1 voice is left out of the groups: espeak-ng hi (WER 0.81 untouched",
        "The voices are synthetic",
        "4 clips without a word in the transcript are counted apart; in 1 of them words were heard that nobody said (2 words).",
    ):
        assert expected in told, expected


def test_the_paragraph_on_generalization_names_the_worst_speaker() -> None:
    prop = sample.generalization()
    assert "The speaker heard worst is voice 4 with 0.208" in prop.explanation
    assert "A clip fails if its WER is above 0.5." in prop.explanation
    own = prop.model_copy(update={"speech": sample.speech_report(own_reference=True)})
    assert "its own words on the untouched clip" in explain_property(own, 0.95)


@pytest.mark.parametrize("prop", [sample.robustness(), sample.fairness(), sample.generalization()])
def test_a_stored_paragraph_is_cut_into_parts(prop: Any) -> None:
    lead, parts = explanation_parts(prop)
    assert " ".join([lead, *(sentence for part in parts.values() for sentence in part)]) == prop.explanation
    assert lead.startswith("The model transcribed")


def test_half_is_lost_at_the_first_level_above_one_half() -> None:
    before, at = half_lost(noise("white_noise", {20: 0.1, 10: None, 5: 0.51, 0: 0.4}))
    assert before is not None
    assert at is not None
    assert (before.strength, at.strength) == (20, 5)
    assert half_lost(noise("wind", {20: 0.1})) == (noise("wind", {20: 0.1}).levels[0], None)


def test_noises_are_compared_where_most_of_them_meet_and_differ() -> None:
    sweeps = [noise("a", {20: 0.1, 10: 0.2, 0: 0.9}), noise("b", {20: 0.1, 10: 0.8}), noise("c", {10: 0.5, 20: 0.2})]
    common = common_snr(sample.speech_report(sweeps=sweeps))
    assert common is not None
    assert common[0] == 10
    assert [name for name, _ in common[1]] == ["b", "c", "a"]
    assert common_snr(sample.speech_report(sweeps=[noise("a", {20: 0.1}), noise("b", {10: 0.1})])) is None


# Figures


def test_curves_stand_where_their_rates_are() -> None:
    sweep = noise("white_noise", {20: 0.0, 10: 0.25, 0: 1.6})
    root = ET.fromstring(noise_plot([sweep], found(0.1), AXIS))
    [line] = root.iter(f"{SPACE}polyline")
    path = [tuple(map(float, point.split(","))) for point in (line.get("points") or "").split()]
    np.testing.assert_allclose(path, [(58, 214), (249, 168), (440, 30)], atol=0.06)  # what is above 1 stops at the edge
    titles = [item.text for item in root.iter(f"{SPACE}title")]
    assert titles == ["white noise at 20 dB: 0.000", "white noise at 10 dB: 0.250", "white noise at 0 dB: 1.600"]


def test_no_two_lines_look_alike() -> None:
    sweeps = [noise(f"n{i}", {20: 0.1, 10: 0.2}) for i in range(MAX_LINES + 3)]
    lines = [line.get("style") for line in ET.fromstring(noise_plot(sweeps, found(0.1), AXIS)).iter(f"{SPACE}polyline")]
    assert len(set(lines)) == len(lines) == MAX_LINES
    assert len({re.findall("dasharray:(.*)", line or "")[0] for line in lines}) == MAX_LINES


def test_a_figure_with_nothing_to_show_is_empty() -> None:
    assert noise_plot([], found(0.1), AXIS) == noise_plot([noise("a", {10: None})], found(0.1), AXIS) == ""
    assert noise_bars(sample.speech_report()) == ""
    assert level_panel(noise("a", {10: None}), found(None), 1.0) == ""
    assert speech_figures(sample.speech_report()) == {}
    assert noise_plot([noise("a", {10: 0.5})], found(None), AXIS)


def test_bars_are_as_long_as_their_rates() -> None:
    speech = sample.speech_report(sweeps=[noise("a", {10: 0.2}), noise("b", {10: 0.8})])
    bars = [
        float(r.get("width") or 0)
        for r in ET.fromstring(noise_bars(speech)).iter(f"{SPACE}rect")
        if LIGHT.accent in (r.get("style") or "")
    ]
    assert bars[0] / bars[1] == pytest.approx(4, rel=0.01)
    assert highest([noise("a", {10: 0.31})]) == 0.4
    assert highest([noise("a", {10: 3.0})]) == 1.0


def test_figures_are_valid_xml_whatever_the_names() -> None:
    run, _ = sample.hostile(EVIL)
    speech = run.properties[0].speech
    assert speech is not None
    figures = [*speech_figures(speech).values(), *(level_panel(s, speech.clean, 1.0, PAGE) for s in speech.sweeps)]
    assert len(figures) > 8
    for figure in figures:
        assert not [e for e in ET.fromstring(figure).iter() if e.tag.endswith("script")]


# The page and the terminal


def test_the_page_tells_the_whole_story() -> None:
    run = sample.run_report()
    page = render_html(run, {sample.ROBUSTNESS: sample.cases(5, 3), sample.FAIRNESS: sample.cases(2, 1, sample.FAIRNESS)})
    text = text_of(page)
    for expected in (
        "150 clips, 150 seeds",
        "Pooled WER 0.015 [0.009, 0.022]",
        "Substituted / deleted / inserted 5 / 7 / 1 of 850 words",
        "Normalizer standard errors counted by word",
        "Clips without words, apart 4 something heard in 1: 2 words",
        "Unjudged these voices differ, not the groups",
        "excluded WER 0.81 untouched, and the second recogniser fails on it too (0.92)",
        "synthetic voices",
        "pooled WER of each noise at 0 dB",
        "all figures of 36 levels",
        "Failing cases: 5 of 839",
        "the clips as they were sent are in the store",
        "expected “",
        "not heard: i am ready",
        "Original voice WER 0.00",
    ):
        assert expected in text, expected
    assert page.count("<audio") == 2 * 3 + 2
    assert page.count('preload="metadata"') == 8
    assert not re.search(r"https?:|@import|url\(|\bfetch\b", page)


def test_errors_are_marked_by_more_than_colour() -> None:
    words = [
        Word(said="can", heard=None, kind="delete"),
        Word(said="i", heard="you", kind="substitute"),
        Word(said=None, heard="a", kind="insert"),
        Word(said="talk", heard="talk", kind="equal"),
    ]
    [case] = sample.cases(1)
    case = case.model_copy(update={"sounds": [case.sounds[1].model_copy(update={"words": words})]})
    page = render_html(sample.run_report(sample.robustness()), {sample.ROBUSTNESS: [case]})
    assert '<span class="aside">not heard: </span><del>can</del>' in page
    assert '<del>i</del><span aria-hidden="true">→</span><span class="aside"> heard as </span><ins>you</ins>' in page
    assert '<span class="aside">not said: </span><ins>+a</ins>' in page


def test_a_page_of_a_thousand_cases_stays_small() -> None:
    cases = sample.cases(60)
    noisy = np.random.default_rng(0).uniform(-1, 1, 4 * RATE).astype(np.float32)
    pair = [sound(spoken(5), "seed", "a"), sound(Clip(noisy, RATE), "case", "b")]
    heard = [case.model_copy(update={"sounds": [pair[1], pair[1]]}) for case in cases]
    silent = [case.model_copy(update={"sounds": []}) for case in cases] * 16
    page = render_html(sample.run_report(), {sample.ROBUSTNESS: silent + heard})
    assert len(page.encode()) < MAX_BYTES
    assert page.count("<audio") == 120
    assert page.count('<article class="case heard"') == 200
    assert page.index("<audio") < page.index("expected “")  # those to be listened to come first


def test_a_page_that_would_be_too_large_plays_fewer_of_its_cases() -> None:
    noisy = np.random.default_rng(0).uniform(-1, 1, 15 * RATE).astype(np.float32)
    one = sound(Clip(noisy, RATE), "case", "fifteen seconds")
    cases = [case.model_copy(update={"sounds": [one, one]}) for case in sample.cases(60, 0)]
    page = render_html(sample.run_report(), {sample.ROBUSTNESS: cases})
    assert len(page.encode()) < MAX_BYTES
    assert page.count("<audio") == 60
    assert page.count('<article class="case heard"') == 60


def test_everything_on_the_page_is_escaped() -> None:
    run, cases = sample.hostile(EVIL)
    page = render_html(run, cases)
    assert page.count("<script>") == 1
    assert page.count("&lt;script&gt;alert(1)") > 60
    assert "\x00" not in page


def test_facts_say_whose_words_are_the_reference() -> None:
    facts = speech_facts(sample.speech_report(own_reference=True, unit="character"))
    assert facts[0] == ("Reference", "the model's own words", "on the untouched clip: there are no transcripts")
    assert ("Normalizer", "standard", "errors counted by character") in facts


@pytest.mark.parametrize("width", [20, 60, 80, 200])
def test_the_terminal_shows_a_line_a_noise_and_a_group(width: int) -> None:
    for prop in (sample.robustness(), sample.fairness()):
        assert prop.speech is not None
        lines = speech_lines(prop.speech, width)
        assert max(map(len, lines)) <= max(width, NARROWEST)
    text = "\n".join(lines)
    assert re.search(r"male +6 +0\.181 +\+0\.107", text)
    assert "unjudged: these voices differ" in text


def test_the_terminal_puts_strengths_from_weak_to_strong() -> None:
    speech = sample.robustness().speech
    assert speech is not None
    lines = speech_lines(speech, 80)
    assert lines[1].split()[3::2] == ["40", "30", "20", "10", "5", "0"]
    assert lines[3].split() == ["restaurant", "noise", "–", "–", "0.114", "0.613", "–", "1.024"]
    assert any(re.match(r"pooled WER at +factor 1.1 +factor 1.25 +factor 1.5", line) for line in lines)
    assert speech_lines(speech, 20)[1].split()[3::2] == ["10", "5", "0"] or len(speech_lines(speech, 20)[1]) <= NARROWEST
    assert speech_lines(sample.speech_report(), 80) == []

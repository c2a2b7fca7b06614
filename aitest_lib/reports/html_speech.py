"""What a page shows of speech: word errors in figures, curves and tables, groups of speakers, and cases to be listened to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from aitest_lib.reports import plots, tables
from aitest_lib.reports.records import Disparity, Errors, GroupErrors, Level, Sound, SpeakerErrors, SpeechReport, Sweep, Word
from aitest_lib.reports.report import FailingCase, PropertyReport
from aitest_lib.reports.speech_plots import MAX_LINES, highest, level_panel, line_key, noise_bars, noise_plot
from aitest_lib.reports.speech_view import (
    level_words,
    measured_words,
    other_sweeps,
    snr_sweeps,
    strength_words,
    sweep_name,
    theta_sweeps,
)

MAX_SPEAKERS = 60  # rows of the table of speakers
MAX_WORDS = 150  # words of a transcript on the page
MAX_PANELS = 24
PLAYED = 0.3  # share of the cards of a page that may have sounds
MAX_SWEEPS = 60  # rows of the tables of transforms
_TITLES = {"seed": "Untouched", "case": "Transformed"}
_VOICES = {"seed": "Original voice", "case": "Other voice"}


def speech_view(prop: PropertyReport) -> dict[str, Any] | None:
    """Everything the section on word errors of `prop` shows, None where it has none."""
    speech = prop.speech
    if speech is None:
        return None
    others = other_sweeps(speech)
    top = highest(others, speech.clean)
    panels = [level_panel(sweep, speech.clean, top, plots.PAGE) for sweep in others[:MAX_PANELS]]
    shown = speech.sweeps[:MAX_SWEEPS]
    return {
        "facts": speech_facts(speech),
        "curves": [curve for curve in _curves(speech) if curve["plot"]],
        "bars": _safe(noise_bars(speech, plots.PAGE)),
        "panels": [_safe(panel) for panel in panels if panel],
        "rows": [_row(sweep) for sweep in shown],
        "columns": max((len(sweep.levels) for sweep in shown), default=0),
        "more": len(speech.sweeps) - len(shown),
        "levels": [(sweep_name(s.transform), _words(s, level), level, _measured(level)) for s in shown for level in s.levels],
        "clean": speech.clean,
        "disparities": [_disparity(item) for item in speech.disparities],
        "attributes": list(dict.fromkeys(name for item in speech.speakers for name in item.groups)),
        "speakers": _speakers(speech.speakers),
        "more_speakers": max(0, len(speech.speakers) - MAX_SPEAKERS),
        "excluded": any(item.excluded for item in speech.speakers),
        "synthetic": speech.synthetic,
        "unit": speech.unit,
    }


def speech_facts(speech: SpeechReport) -> list[tuple[str, str, str]]:
    """Name, figure and addition of what is told first of the untouched clips."""
    clean, unit = speech.clean, speech.unit
    edits = f"{clean.substitutions:,} / {clean.deletions:,} / {clean.insertions:,}"
    facts = [
        ("Pooled WER", tables.number(clean.wer), tables.interval(clean.low, clean.high)),
        ("Mean WER over clips", tables.number(clean.mean_wer), f"median {tables.number(clean.median_wer)}"),
        ("Substituted / deleted / inserted", edits, f"of {tables.count(clean.words, unit)}"),
        ("Without an error", f"{clean.perfect:,}", f"of {tables.count(clean.clips, 'clip')}"),
        ("Nothing heard", f"{clean.empty:,}", f"of {tables.count(clean.clips, 'clip')}"),
        ("Pooled CER", tables.number(clean.cer), "character errors"),
        ("Normalizer", tables.clip(speech.normalizer, 60), f"errors counted by {unit}"),
        ("Audio", tables.duration(speech.seconds), ""),
    ]
    if speech.own_reference:
        facts.insert(0, ("Reference", "the model's own words", "on the untouched clip: there are no transcripts"))
    if speech.silent_clips:
        heard = f"something heard in {speech.hallucinated:,}: {tables.count(speech.hallucinated_words, unit)}"
        facts.append(
            ("Clips without words, apart", f"{speech.silent_clips:,}", heard if speech.hallucinated else "nothing heard")
        )
    return facts


def heard_cases(prop: PropertyReport, failing: Sequence[FailingCase], limit: int) -> list[dict[str, Any]]:
    """The cards of at most `limit` failing cases of speech, those that can be listened to first: as the sounds are what makes a
    page large, 3 of 10 cards have them."""
    ranked = sorted(failing, key=lambda case: not case.sounds)[:limit]
    played = math.ceil(limit * PLAYED)
    silent = [case.model_copy(update={"sounds": []}) for case in ranked[played:]]
    return [_card(prop, case) for case in ranked[:played] + silent]


def _curves(speech: SpeechReport) -> list[dict[str, Any]]:
    made = []
    for sweeps, axis in (
        (snr_sweeps(speech), "signal-to-noise ratio in dB, weak to strong"),
        (theta_sweeps(speech), "theta, the share of the clip in the mix, weak to strong"),
    ):
        drawn = [sweep for sweep in sweeps if any(level.errors.wer is not None for level in sweep.levels)]
        names = [sweep_name(sweep.transform) for sweep in drawn[:MAX_LINES]]
        made.append(
            {
                "plot": _safe(noise_plot(drawn, speech.clean, axis, plots.PAGE)),
                "legend": [(_safe(line_key(place, plots.PAGE)), name) for place, name in enumerate(names)],
                "more": len(drawn) - len(names),
            }
        )
    return made


def _row(sweep: Sweep) -> dict[str, Any]:
    tiles = [(_words(sweep, level), level, min(level.errors.wer or 0.0, 1.0)) for level in sweep.levels]
    return {"name": sweep_name(sweep.transform, 60), "tiles": tiles}


def _words(sweep: Sweep, level: Level) -> str:
    return tables.minus_signs(level_words(sweep, level))


def _measured(level: Level) -> str:
    said = (measured_words(name, value) for name, value in list(level.measured.items())[:6])
    return tables.minus_signs(", ".join(said))


def _disparity(item: Disparity) -> dict[str, Any]:
    """The groups of an attribute with their gaps on one scale."""
    gaps = [edge for group in item.groups for edge in (group.gap, group.gap_low, group.gap_high) if edge is not None]
    low, high = plots.span([0.0, *gaps])
    return {
        "attribute": tables.clip(item.attribute, 40),
        "unjudged": item.unjudged,
        "rows": [(group, _gap_mark(group, (low, high), item.unjudged is None)) for group in item.groups],
        "axis": _safe(plots.axis((low, high), plots.PAGE)) if gaps else "",
    }


def _gap_mark(group: GroupErrors, domain: tuple[float, float], judged: bool) -> Markup | str:
    if group.gap is None or group.reference:
        return ""
    bounds = (group.gap_low, group.gap_high)
    low, high = bounds if bounds != (None, None) else (group.gap, group.gap)  # an open whisker would say: anything
    worse = judged and group.gap_low is not None and group.gap_low > 0
    colour = plots.PAGE.failed if worse else plots.PAGE.accent if judged else plots.PAGE.muted
    mark = plots.interval_mark(group.gap, low, high, [0.0], domain, colour, plots.PAGE)
    return _safe(mark)


def _speakers(speakers: Sequence[SpeakerErrors]) -> dict[str, Any]:
    """The speakers, those heard worst first, with their WER on one scale; what is excluded last."""
    ranked = sorted(speakers, key=lambda item: (item.excluded is not None, -(item.errors.wer or 0.0)))[:MAX_SPEAKERS]
    _, high = plots.span([0.0, *(edge for item in ranked for edge in (item.errors.wer, item.errors.high))])
    domain = (0.0, high)
    return {
        "rows": [(item, _wer_mark(item.errors, domain, item.excluded is None)) for item in ranked],
        "axis": _safe(plots.axis(domain, plots.PAGE)),
    }


def _wer_mark(errors: Errors, domain: tuple[float, float], counted: bool) -> Markup | str:
    if errors.wer is None:
        return ""
    colour = plots.PAGE.accent if counted else plots.PAGE.muted
    low, high = (errors.low, errors.high) if errors.high is not None else (errors.wer, errors.wer)
    return _safe(plots.interval_mark(errors.wer, low, high, [], domain, colour, plots.PAGE))


def _card(prop: PropertyReport, case: FailingCase) -> dict[str, Any]:
    titles = _VOICES if prop.property == "speech.fairness" else _TITLES
    return {
        "case": case,
        "name": sweep_name(case.transform, 60) if case.transform else "",
        "strength": "" if case.strength is None else tables.minus_signs(_strength(prop, case)),
        "sounds": [(sound, _title(case, sound, titles), *_transcript(sound.words)) for sound in case.sounds],
        "cells": [(tables.clip(name, 40), tables.clip(value, 80)) for name, value in list(case.case.items())[:8]],
    }


def _title(case: FailingCase, sound: Sound, titles: dict[str, str]) -> str:
    return "Clip" if case.transform is None else titles[sound.title]


def _strength(prop: PropertyReport, case: FailingCase) -> str:
    """The strength of a case in the words of its sweep."""
    sweeps = prop.speech.sweeps if prop.speech else []
    same = [sweep for sweep in sweeps if case.transform in (sweep.transform, sweep.transform.split(" ")[0])]
    if not same:
        return f"{case.strength:.4g}"
    fitting = [sweep for sweep in same if any(level.strength == case.strength for level in sweep.levels)]
    sweep = (fitting or same)[0]
    return strength_words(sweep.parameter, sweep.unit, case.strength)


def _transcript(words: Sequence[Word]) -> tuple[list[Word], int]:
    """The words that are shown, and how many more there are."""
    return list(words[:MAX_WORDS]), max(0, len(words) - MAX_WORDS)


def _safe(svg: str) -> Markup:
    # The plots escape their text themselves.
    return Markup(svg)  # noqa: S704 -- our own drawing, in which every text is escaped

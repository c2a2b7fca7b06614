"""Fairness of speech: are speakers of every group understood alike, by recordings or by voices that say the same texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from aitest_lib.artifacts.codecs import get_table
from aitest_lib.config.suite import PropertyConfig
from aitest_lib.metrics.wer import WordErrors
from aitest_lib.reports.records import SpeakerErrors, SpeechReport
from aitest_lib.reports.slices import rank_slices
from aitest_lib.scorers.figures import Figure
from aitest_lib.scorers.invariance import ERROR, FAILED
from aitest_lib.scorers.wer import told
from aitest_lib.stats.disparity import disparity
from aitest_tasks.baseline import Baseline, Errors, read_baseline
from aitest_tasks.cases import text_of
from aitest_tasks.group_scoring import log_seeds
from aitest_tasks.groups import described, of_group, privileged, unknown_speakers
from aitest_tasks.hearing import clean_errors, group_wer, heard_seconds, speech_report
from aitest_tasks.property_report import finish, setting
from aitest_tasks.querying import answer_book, run_errors
from aitest_tasks.runs import Run
from aitest_tasks.seed_tables import SPEAKER
from aitest_tasks.voice_scoring import score_voices

MISSING = "missing"  # as slices call it


def score_fairness(run: Run, index: int, config: PropertyConfig, job: dict[str, Any]) -> dict[str, Any]:
    """By voices where the suite names some, else by the groups of those who speak in the clips."""
    if config.voices is not None:
        return score_voices(run, index, config, job)
    return _score_recordings(run, config, job)


def _score_recordings(run: Run, config: PropertyConfig, job: dict[str, Any]) -> dict[str, Any]:
    errors = Errors(run_errors(run), job["unpaid"] > 0)
    book = answer_book(run)
    base = read_baseline(run, book, errors, config)
    confidence = float(setting(run.suite.suite, config, "confidence"))
    known = base.answered.known
    outcome, log, writer, sample = log_seeds(run, config, book, base)
    found = clean_errors(base, book)
    report = speech_report(base, found, known, heard_seconds(base), confidence)
    figures = group_wer(base, found, known, outcome == ERROR)
    report, gaps = _with_groups(run, base, found, report, confidence)
    ranked = rank_slices(base.columns, known, outcome == FAILED, confidence)
    return finish(run, config, [*figures, *gaps], base, log, writer, sample, ranked, speech=report)


def _with_groups(
    run: Run, base: Baseline, found: WordErrors, report: SpeechReport, confidence: float
) -> tuple[SpeechReport, list[Figure]]:
    """The groups of every protected column, by speaker."""
    known, figures = base.answered.known, list[Figure]()
    units = base.heard.units if base.heard.speakers is None else base.heard.speakers
    names = [str(unit) for unit in units]
    columns = [column for column in base.columns if column.name in run.suite.suite.data.protected]
    disparities = []
    members: dict[int, dict[str, str]] = {}
    for column in columns:
        groups = np.array(column.names, dtype=object)[column.codes]
        for unit, group in zip(units.tolist(), groups.tolist(), strict=True):
            members.setdefault(unit, {})[column.name] = str(group)
        counted = known & (groups != MISSING)  # whose group nobody knows is in none
        inside = {str(name): found.take(counted & (groups == name)) for name in column.names}
        of = {str(name): units[counted & (groups == name)] for name in column.names}
        gaps = disparity(
            found.errors[counted],
            found.words[counted],
            [names[place] for place in np.flatnonzero(counted)],
            [str(group) for group in groups[counted]],
            run.suite.suite.random_seed,
            privileged(run, column.name),
        )
        told_of = {name: of_group(part, of[name], confidence) for name, part in inside.items()}
        one, parts = described(column.name, gaps, told_of, confidence)
        if base.heard.speakers is None:
            one, parts = unknown_speakers(one, parts, str(base.heard.unknown))
        disparities.append(one)
        figures += parts
    speakers = []
    if base.heard.speakers is not None:
        labels = speaker_names(run, base)
        for unit in sorted(members):
            mine = known & (units == unit)
            clips = found.take(mine)
            errors = told(clips, np.arange(len(clips)), confidence)
            speakers.append(SpeakerErrors(name=labels[unit], groups=members[unit], errors=errors))
    return report.model_copy(update={"disparities": disparities, "speakers": speakers}), figures


def speaker_names(run: Run, base: Baseline) -> dict[int, str]:
    """What each speaker is called in the data."""
    found: dict[int, str] = {}
    numbers = base.heard.units if base.heard.speakers is None else base.heard.speakers
    start = 0
    for ref in run.seeds:
        table = get_table(run.store, ref)
        known = table.column(SPEAKER).to_pylist() if SPEAKER in table.column_names else [None] * ref.rows  # private
        for place, name in enumerate(known):
            number = int(numbers[start + place])
            found.setdefault(number, f"speaker {number + 1}" if name is None else text_of(name))
        start += ref.rows
    return found

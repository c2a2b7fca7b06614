"""Fairness by voices: the same texts by several voices, each beside the original one, and the groups that they stand for."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.answers import AnswerBook
from aitest_lib.artifacts.codecs import TableWriter, get_table
from aitest_lib.config.suite import PropertyConfig
from aitest_lib.metrics.transcripts import normalized
from aitest_lib.metrics.wer import WordErrors, count_errors
from aitest_lib.reports.records import Disparity, SpeakerErrors
from aitest_lib.reports.slices import rank_case_slices
from aitest_lib.scorers.figures import Figure
from aitest_lib.scorers.invariance import ERROR, FAILED, Answered, InvarianceScorer, Tally
from aitest_lib.scorers.wer import joined, rise_figures, told, unheard, wer_figures
from aitest_lib.stats.disparity import disparity
from aitest_lib.transforms.audio.voice import VoiceOver
from aitest_lib.types import ArtifactRef
from aitest_tasks import live
from aitest_tasks.audio_cases import DIGITAL_SILENCE, MEASURED, SECONDS, UNSAID
from aitest_tasks.baseline import UNINTELLIGIBLE, Baseline, Errors, read_baseline
from aitest_tasks.case_tables import CASE_ID, DETAIL, DISTANCE, PARAMS, STATUS
from aitest_tasks.cases import METADATA, CaseBlock, CaseLog, cases_schema, texts
from aitest_tasks.components import components
from aitest_tasks.contents import content_of
from aitest_tasks.groups import described, of_group, privileged
from aitest_tasks.hearing import Hearing, speech_report
from aitest_tasks.inputs import input_digests
from aitest_tasks.property_report import finish, setting
from aitest_tasks.querying import answer_book, run_errors
from aitest_tasks.runs import Run
from aitest_tasks.seed_tables import RANK, SEED_ID
from aitest_tasks.shown import FailureSample

NO_OP, REPEATED = "no_op", "not_applicable"
MUCH_SILENCE = 0.05  # of a clip


@dataclass(eq=False)
class Spoke:
    """One voice over all seeds, by rank: the case's digest, the place of its answer, why it was not asked, what is known of the
    answer, and what was misheard. `twin`: the voice that it sounds like in each text, None where like no other."""

    voice: VoiceOver
    refs: list[ArtifactRef]
    digests: NDArray[np.void]
    places: NDArray[np.int64]
    skip: NDArray[np.object_]
    answered: Answered
    wer: NDArray[np.float64]
    errors: WordErrors
    twin: NDArray[np.object_]
    silence: float  # the median share of digital silence in its clips
    seconds: NDArray[np.float64]  # of its clips

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Answered, and said by no other voice before."""
        return self.answered.known & _none(self.skip) & _none(self.twin)

    @property
    def rate(self) -> float:
        """Pooled WER; 0 where there is no word."""
        return self.errors.pooled(self.usable).wer or 0.0

    @property
    def sounds_like(self) -> str | None:
        """The voice that it is, where it differs from it in no text."""
        own = _none(self.skip)
        twins = {str(one) for one in self.twin[own]}
        return next(iter(twins)) if own.any() and len(twins) == 1 and None not in self.twin[own] else None


def score_voices(run: Run, index: int, config: PropertyConfig, job: dict[str, Any]) -> dict[str, Any]:
    """Cases of every voice but the first, which is the original that they are compared with."""
    errors = Errors(run_errors(run), job["unpaid"] > 0)
    book = answer_book(run)
    base = read_baseline(run, book, errors, config)
    confidence = float(setting(run.suite.suite, config, "confidence"))
    spoken = read_voices(run, index, book, base, errors, job["cases"])
    original, others = spoken[0], spoken[1:]
    scorer = InvarianceScorer(sequential=setting(run.suite.suite, config, "sequential"))
    right = np.nan_to_num(original.wer, nan=np.inf) <= base.oracle.seed_tolerance
    sample = FailureSample(len(others))
    tallies = [Tally.empty(one.voice.slice, len(base.places)) for one in others]
    failing, counted = np.zeros((2, len(base.places)), np.int64)
    with TableWriter(run.store, cases_schema(base.columns), METADATA) as writer:
        log = CaseLog(writer, config.property, base.columns)
        for place, (one, tally) in enumerate(zip(others, tallies, strict=True)):
            skip = np.where(_none(one.skip) & ~_none(one.twin), NO_OP, one.skip)
            same = base.oracle.same(original.wer, one.wer)
            outcome, reason = scorer.outcomes(skip, original.answered, one.answered, right, same)
            tally.effective[:] = _none(skip) & one.answered.known & original.answered.known
            tally.right_seed[:], tally.same[:] = right, same
            tally.error[:] = outcome == ERROR
            failing += tally.failures
            counted += tally.trials
            for shard in range(len(run.seeds)):
                block, rows = _block(run, base, book, original, one, shard, outcome, reason)
                sample.add(place, block, rows)
                log.add(block)
            live.progress(config.property, "score", place + 1, len(others))
    figures = scorer.figures(tallies, None, labelled=False)
    units = np.arange(len(base.places))  # the same texts by every voice: what they share is the text
    figures += wer_figures(original.errors.take(original.usable), units[original.usable], original.voice.slice, component=True)
    for one, tally in zip(others, tallies, strict=True):
        used, lost = tally.effective, unheard(one.errors.take(tally.error & ~one.errors.silent))
        figures += wer_figures(one.errors.take(used), units[used], tally.slice, lost=lost, component=True)
        figures += rise_figures(one.errors.take(used), original.errors.take(used), units[used], tally.slice, lost=lost)
    second = run.store.get_json(ArtifactRef.of(job["second"]["answers"])) if job.get("second") else None
    speakers = [_speaker(one, _second_rate(base, one, second), confidence) for one in spoken]
    disparities, gaps = _groups(run, spoken, speakers, confidence, second is not None)
    clean = joined_all([one.errors.take(one.usable) for one in spoken])
    seconds = float(sum(one.seconds[one.usable].sum() for one in spoken))
    report = speech_report(base, original.errors, original.usable, seconds, confidence)
    report = report.model_copy(
        update={
            "clean": told(clean, np.arange(len(clean)), confidence).model_copy(update={"low": None, "high": None}),
            "speakers": speakers,
            "disparities": disparities,
            "synthetic": True,
            "bounds_by": "clip",
        }
    )
    ranked = rank_case_slices(base.columns, counted, failing, confidence)
    return finish(run, config, [*figures, *gaps], base, log, writer, sample, ranked, speech=report)


def read_voices(
    run: Run, index: int, book: AnswerBook, base: Baseline, errors: Errors, cases: list[dict[str, Any]]
) -> list[Spoke]:
    """What is known of every voice, in the order of the suite; one that sounds like an earlier one in a text is its twin."""
    found: list[Spoke] = []
    shards, ranks = len(run.seeds), np.arange(len(base.places))
    first = np.zeros(len(ranks), bool)
    first[list({text: rank for rank, text in reversed(list(enumerate(base.heard.references)))}.values())] = True
    for place, component in enumerate(components(run, index)):
        if not isinstance(component, VoiceOver):
            raise TypeError(f"{component.name} is no voice")
        refs = [ArtifactRef.of(ref) for ref in cases[place * shards : (place + 1) * shards]]
        tables = [get_table(run.store, ref) for ref in refs]
        digests = np.concatenate([input_digests(run, table) for table in tables])
        skip = np.array([status for table in tables for status in table.column(STATUS).to_pylist()], dtype=object)
        skip[_none(skip) & ~first] = REPEATED  # a voice says a text once, however many clips have it
        detail = np.array([why for table in tables for why in table.column(DETAIL).to_pylist()], dtype=object)
        asked = _none(skip)
        places = np.where(asked, book.find(digests), -1)
        answered = errors.answered(digests, places)
        answered.error[~asked] = None
        answered.unpaid[~asked] = False
        unsaid = np.equal(skip, UNSAID)
        answered.error[unsaid], skip[unsaid] = detail[unsaid], None
        twin = np.full(len(ranks), None, dtype=object)
        for other in reversed(found):
            twin[asked & _none(other.skip) & (digests == other.digests)] = other.voice.label
        wrong = base.heard.errors(book, places, ranks)
        rates = base.heard.rates(book, places, ranks)
        told = [json.loads(text).get(MEASURED, {}) for table in tables for text in table.column(PARAMS).to_pylist()]
        silence = float(np.median([one.get(DIGITAL_SILENCE, 0.0) for one in told]))
        lasting = np.array([one.get(SECONDS, 0.0) for one in told])
        found.append(Spoke(component, refs, digests, places, skip, answered, rates, wrong, twin, silence, lasting))
    return found


def misheard_voices(run: Run, index: int, book: AnswerBook, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cases of the voices that the recogniser does not understand: those that a second one is asked about."""
    errors = Errors(run_errors(run), True)
    base = read_baseline(run, book, errors, run.suite.suite.properties[index])
    spoken = read_voices(run, index, book, base, errors, cases)
    return [ref.to_dict() for one in spoken if one.rate > UNINTELLIGIBLE for ref in one.refs]


def _none(values: NDArray[np.object_]) -> NDArray[np.bool_]:
    """Where there is nothing."""
    return np.array([value is None for value in values], dtype=bool)


def joined_all(parts: list[WordErrors]) -> WordErrors:
    """The pairs of all parts."""
    whole = parts[0]
    for part in parts[1:]:
        whole = joined(whole, part)
    return whole


def _second_rate(base: Baseline, one: Spoke, second: dict[str, str] | None) -> float | None:
    """The pooled WER of the second recogniser on a voice, None where it was not asked."""
    if second is None:
        return None
    used = [place for place in np.flatnonzero(one.usable) if one.digests[place].tobytes().hex() in second]
    if not used:
        return None
    heard = [normalized(second[one.digests[place].tobytes().hex()], base.heard.normalizer) for place in used]
    return count_errors([base.heard.references[place] for place in used], heard, base.heard.unit).pooled().wer


def _speaker(one: Spoke, second: float | None, confidence: float) -> SpeakerErrors:
    """A voice as a report shows it, with why it is left out of its groups, or why these cannot be judged."""
    excluded = note = None
    if one.sounds_like is not None:
        excluded = f"it sounds exactly like {one.sounds_like}"
    elif one.rate > UNINTELLIGIBLE and second is not None and second > UNINTELLIGIBLE:
        excluded = f"a second recogniser does not understand it either (WER {second:.2f})"
    elif one.rate > UNINTELLIGIBLE:
        told_by = f"; a second recogniser does (WER {second:.2f})" if second is not None else ""
        note = f"it is not understood (WER {one.rate:.2f}): badly made, or badly served{told_by}"
        if one.silence >= MUCH_SILENCE:
            note += f"; {one.silence:.0%} of its audio is digital silence, which some recognisers do not stand"
    alike = int((~_none(one.twin)).sum())
    if excluded is None and alike:
        note = "; ".join(filter(None, [note, f"{alike} texts sound exactly as by another voice, and are left out"]))
    used = one.usable
    clips = one.errors.take(used) if excluded is None or one.sounds_like is None else one.errors.take(_none(one.skip))
    errors = told(clips, np.arange(len(clips)), confidence)
    return SpeakerErrors(name=one.voice.label, groups=one.voice.groups, errors=errors, excluded=excluded, note=note)


def _groups(
    run: Run, spoken: list[Spoke], speakers: list[SpeakerErrors], confidence: float, asked_second: bool
) -> tuple[list[Disparity], list[Figure]]:
    """The groups of every attribute that voices stand for; voices that are not understood leave their groups unjudged."""
    kept = [(one, told_of) for one, told_of in zip(spoken, speakers, strict=True) if told_of.excluded is None]
    # Texts that one of the voices could not say, or that got no answer from it, would make the groups differ by what is said.
    shared = np.all([one.usable for one, _ in kept], axis=0) if kept else np.zeros(0, bool)
    disparities, figures = [], list[Figure]()
    for attribute in dict.fromkeys(name for one, _ in kept for name in one.voice.groups):
        members: dict[str, list[Spoke]] = defaultdict(list)
        for one, _ in kept:
            if attribute in one.voice.groups:
                members[one.voice.groups[attribute]].append(one)
        parts = [
            (one.errors.take(shared if shared.any() else one.usable), one.voice.label, group)
            for group, found in members.items()
            for one in found
        ]
        whole = joined_all([part for part, _, _ in parts])
        names = [label for part, label, _ in parts for _ in range(len(part))]
        groups = [group for part, _, group in parts for _ in range(len(part))]
        gaps = disparity(whole.errors, whole.words, names, groups, run.suite.suite.random_seed, privileged(run, attribute))
        numbers = np.unique(names, return_inverse=True)[1]
        inside = {group: np.array([other == group for other in groups], dtype=bool) for group in members}
        told_of = {group: of_group(whole.take(mask), numbers[mask], confidence) for group, mask in inside.items()}
        bad = [said.name for one, said in kept if attribute in one.voice.groups and one.rate > UNINTELLIGIBLE]
        mend = "a second recogniser understands them" if asked_second else "name a second recogniser as reference_model"
        unsure = (
            f"{', '.join(bad)} {'is' if len(bad) == 1 else 'are'} not understood: badly made, or badly served; {mend}, or use "
            "other voices"
            if bad
            else None
        )
        one_disparity, parts_of = described(attribute, gaps, told_of, confidence, unsure)
        disparities.append(one_disparity)
        figures += parts_of
    return disparities, figures


def _block(
    run: Run,
    base: Baseline,
    book: AnswerBook,
    original: Spoke,
    one: Spoke,
    shard: int,
    outcome: NDArray[np.int8],
    reason: NDArray[np.object_],
) -> tuple[CaseBlock, Any]:
    """The cases of a voice on a shard of seeds, beside the original voice."""
    cases, seeds = get_table(run.store, one.refs[shard]), get_table(run.store, run.seeds[shard])
    ranks = cases.column(RANK).to_numpy().astype(np.int64)
    content, first = content_of(cases), content_of(get_table(run.store, original.refs[shard], [RANK]))
    heard = Hearing.of(base, book, ranks, one.places[ranks], original.places[ranks])
    rows = heard.rows(
        run.store,
        seeds,
        [(content, row) for row in range(len(ranks))],
        [(first, row) for row in range(len(ranks))],
    )
    explanation: list[str | None] = [None] * len(ranks)
    params = cases.column(PARAMS).to_pylist()
    for row in np.flatnonzero(outcome[ranks] == FAILED).tolist():
        told_of = {**json.loads(params[row]), "voice": one.voice.label, "original": original.voice.label}
        explanation[row] = heard.explained(row, one.voice.name, told_of)
    block = CaseBlock(
        case_id=cases.column(CASE_ID).to_pylist(),
        seed_id=cases.column(SEED_ID).to_pylist(),
        transform=f"voice {one.voice.label}",
        strength=[None] * len(ranks),
        params=params,
        expected=texts(book.labels(original.places[ranks])),
        observed=texts(book.labels(one.places[ranks])),
        score=one.wer[ranks],
        outcome=outcome[ranks],
        reason=reason[ranks],
        explanation=explanation,
        distance=cases.column(DISTANCE).to_numpy(),
        input_uri=[f"{run.store.url_of(content.uri)}#{row}" for row in range(len(ranks))],
        asked=_none(one.skip[ranks]),
        ranks=ranks,
    )
    return block, rows

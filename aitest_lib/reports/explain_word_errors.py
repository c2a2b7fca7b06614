"""Plain sentences about word errors: what a property of speech did, and what is heard worst. No language model."""

from __future__ import annotations

from aitest_lib.reports.records import Disparity, GroupErrors, SpeakerErrors, SpeechReport, Sweep
from aitest_lib.reports.report import PropertyReport
from aitest_lib.reports.speech_view import (
    HALF,
    common_snr,
    edits_words,
    half_lost,
    level_words,
    snr_sweeps,
    sweep_name,
    units,
    wer_words,
)
from aitest_lib.reports.tables import clip, count, duration, interval, listed, number, p_value

BETTER = 0.05  # fall of the WER from which on it is told
MAX_NAMED = 3  # sweeps, speakers or voices named in one sentence
SYNTHETIC = "The voices are synthetic: what is found here is a reason to look at real speakers, and not a finding about them."


def speech_lead(report: PropertyReport, speech: SpeechReport, confidence: float) -> list[str]:
    """What was done, and how the clips were heard as they are. `confidence`: that of the bounds, in (0, 1)."""
    clean = speech.clean
    if not clean.clips and not speech.silent_clips:
        return ["No clip was answered, so nothing was compared."]
    against = "its own words on the untouched clip" if speech.own_reference else "the transcripts"
    amount = f"{count(clean.clips, 'clip')} ({units(speech, clean.words)}, {duration(speech.seconds)} of audio)"
    lead = [
        f"The model transcribed {amount}; its words were compared with {against}, after the normalizer "
        f"`{clip(speech.normalizer, 40)}`."
    ]
    if clean.wer is not None and not speech.own_reference:
        mean = "" if clean.mean_wer is None else f"; the mean over clips is {number(clean.mean_wer)}"
        bounds = "" if clean.low is None else f" (bounds one-sided at {confidence:.0%})"
        lead.append(
            f"{'Untouched, the' if speech.sweeps else 'The'} pooled WER is {wer_words(clean)}{bounds}: "
            f"{edits_words(clean)}{mean}. {_perfect(clean.perfect, clean.empty, clean.clips)}"
        )
    if speech.silent_clips:
        lead.append(_silent(speech))
    return [*lead, _rule(report, speech), *_independent(speech)]


def _independent(speech: SpeechReport) -> list[str]:
    """What the bounds speak of, where that is not every speaker."""
    if speech.synthetic or not speech.speakers_known:
        return []
    if speech.bounds_by == "speaker":
        return [f"Bounds are by speaker ({speech.speakers_known:,})."]
    return [f"Bounds are by clip: with {count(speech.speakers_known, 'speaker')} they speak of these alone."]


def speech_weak_spots(speech: SpeechReport) -> list[str]:
    """What is heard worst: noises and strengths, speakers, groups."""
    return [
        _worst_sweeps(speech.sweeps),
        _half(snr_sweeps(speech)),
        _ranked(speech),
        _better(speech),
        *(_disparity(item) for item in speech.disparities),
        "" if speech.disparities or speech.sweeps else _speakers(speech.speakers),
        _excluded(speech),
        SYNTHETIC if speech.synthetic else "",
    ]


def _better(speech: SpeechReport) -> str:
    """Where a transform makes the clips easier to hear, which no transform should."""
    falls = [(level.rise, sweep, level) for sweep in speech.sweeps for level in sweep.levels if level.rise is not None]
    rise, sweep, level = min(falls, key=lambda one: one[0], default=(0.0, None, None))
    if sweep is None or level is None or rise > -BETTER:
        return ""
    where = _at(sweep, level_words(sweep, level))
    return (
        f"It hears better under {where} ({number(level.errors.wer)}) than untouched ({number(speech.clean.wer)}): look at the "
        "silence in the untouched clips, which digital zeros may fill."
    )


def _rule(report: PropertyReport, speech: SpeechReport) -> str:
    """When a case fails."""
    if report.tolerance is not None and (speech.sweeps or speech.synthetic or report.breaking_points):
        other = "the same text by the original voice" if speech.synthetic else "its untouched clip"
        return f"A case fails if its WER is higher than that of {other} by more than {report.tolerance:g}."
    return "" if report.seed_tolerance is None else f"A clip fails if its WER is above {report.seed_tolerance:g}."


def _perfect(perfect: int, empty: int, clips: int) -> str:
    nothing = f", of {empty:,} nothing was heard" if empty else ""
    return f"{perfect:,} of {count(clips, 'clip')} {'was' if perfect == 1 else 'were'} heard without an error{nothing}."


def _silent(speech: SpeechReport) -> str:
    silent, heard = speech.silent_clips, speech.hallucinated
    lead = f"{count(silent, 'clip')} without a word in the transcript {'is' if silent == 1 else 'are'} counted apart"
    if not heard:
        return f"{lead}; nothing was heard there."
    return f"{lead}; in {heard:,} of them words were heard that nobody said ({units(speech, speech.hallucinated_words)})."


def _worst_sweeps(sweeps: list[Sweep]) -> str:
    """The level at which most words are lost, and the one at which fewest are."""
    found = [(sweep, level) for sweep in sweeps for level in sweep.levels if level.errors.wer is not None]
    if len(found) < 2:
        return ""
    ranked = sorted(found, key=lambda item: -(item[1].errors.wer or 0.0))
    (sweep, level), (other, least) = ranked[0], ranked[-1]
    if level.errors.wer == least.errors.wer:
        return ""
    rise = "" if level.rise is None else f", {number(level.rise)} {interval(level.rise_low, level.rise_high)} above untouched"
    return (
        f"What broke most was {_at(sweep, level_words(sweep, level))} with a pooled WER of {wer_words(level.errors)}"
        f"{rise.rstrip()}; what broke least was {_at(other, level_words(other, least))} with {number(least.errors.wer)}."
    )


def _at(sweep: Sweep, strength: str) -> str:
    return f"{sweep_name(sweep.transform)}{f' at {strength}' if strength else ''}"


def _half(sweeps: list[Sweep]) -> str:
    """At which SNR every second word is lost."""
    lost, kept = [], []
    for sweep in sweeps:
        before, at = half_lost(sweep)
        if at is not None:
            after = "" if before is None else f" (at {level_words(sweep, before)} it is {number(before.errors.wer)})"
            lost.append(f"at {level_words(sweep, at)} of {sweep_name(sweep.transform)}{after}")
        elif before is not None:
            kept.append(f"under {sweep_name(sweep.transform)} down to {level_words(sweep, before)}")
    said = [f"The WER passes {HALF:g} {_some(lost)}."] if lost else []
    if kept:
        said.append(f"It stays below {HALF:g} {_some(kept)}." if lost else f"The WER stays below {HALF:g} {_some(kept)}.")
    return " ".join(said)


def _ranked(speech: SpeechReport) -> str:
    """The noises at one SNR."""
    common = common_snr(speech)
    if common is None:
        return ""
    snr, noises = common
    return f"At {snr:.4g} dB each, the noises rank {_some([f'{sweep_name(name)} {number(e.wer)}' for name, e in noises], 6)}."


def _disparity(item: Disparity) -> str:
    """The groups of an attribute, or why nothing is said of them."""
    attribute, known = clip(item.attribute, 40), [group for group in item.groups if group.errors.wer is not None]
    if not known:
        return f"By {attribute} nothing was heard that could be compared."
    rates = _some([f"{clip(group.name, 40)} {wer_words(group.errors)}" for group in known], 6)
    if item.unjudged:
        return f"By {attribute} the pooled WER is {rates}; {item.unjudged.rstrip('.')}."
    reference = next((group for group in known if group.reference), None)
    gaps = sorted((group for group in known if group.gap is not None and not group.reference), key=lambda g: -(g.gap or 0.0))
    if reference is None or not gaps:
        return f"By {attribute} the pooled WER is {rates}."
    more = f"; {len(gaps) - 1:,} more groups are in the table" if len(gaps) > 1 else ""
    return f"By {attribute} the pooled WER is {rates}. {_gap(gaps[0], reference)}{more}."


def _gap(group: GroupErrors, reference: GroupErrors) -> str:
    ratio = (
        "" if group.ratio is None else f", {group.ratio:.2f} times as many errors {interval(group.ratio_low, group.ratio_high)}"
    )
    p = "" if group.p_value is None else f" (p {p_value(group.p_value)})"
    speakers = f"{count(group.speakers, 'speaker')} against {reference.speakers:,}"
    return (
        f"The widest gap is {number(group.gap)} {interval(group.gap_low, group.gap_high)}".rstrip()
        + f", of {clip(group.name, 40)} against {clip(reference.name, 40)}{ratio.rstrip()}{p}, {speakers}"
    )


def _speakers(speakers: list[SpeakerErrors]) -> str:
    known = sorted((item for item in speakers if item.errors.wer is not None), key=lambda item: -(item.errors.wer or 0.0))
    if len(known) < 2 or known[0].errors.wer == known[-1].errors.wer:
        return ""
    worst, best = known[0], known[-1]
    return (
        f"The speaker heard worst is {clip(worst.name, 60)} with {wer_words(worst.errors)}, the one heard best "
        f"{clip(best.name, 60)} with {number(best.errors.wer)}."
    )


def _excluded(speech: SpeechReport) -> str:
    left_out = [item for item in speech.speakers if item.excluded]
    if not left_out:
        return ""
    noun = "voice" if speech.synthetic else "speaker"
    named = _some([f"{clip(item.name, 60)} ({clip(item.excluded, 120).rstrip('.')})" for item in left_out])
    return f"{count(len(left_out), noun)} {'is' if len(left_out) == 1 else 'are'} left out of the groups: {named}."


def _some(items: list[str], most: int = MAX_NAMED) -> str:
    """The first items as prose, and how many more there are."""
    more = [f"{len(items) - most:,} more"] if len(items) > most else []
    return listed(items[:most] + more)

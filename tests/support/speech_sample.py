"""What a recogniser of commands misheard, for the tests of what people look at and listen to: its figures agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import report_sample as sample
from speech_sounds import TEXTS, alignment, pair_of

from aitest_lib.reports.explain import explain_property
from aitest_lib.reports.explain_speech import explain_speech_case
from aitest_lib.reports.records import (
    Disparity,
    Errors,
    GroupErrors,
    Level,
    SpeakerErrors,
    SpeechReport,
    Sweep,
    Word,
)
from aitest_lib.reports.report import (
    CaseCounts,
    FailingCase,
    GateResult,
    Metric,
    ModelReport,
    PropertyQueries,
    PropertyReport,
    RunReport,
)
from aitest_lib.rng import rng_for

ROBUSTNESS, FAIRNESS, GENERALIZATION = "speech.robustness", "speech.fairness", "speech.generalization"
CLIPS = 150
TOLERANCE = 0.1
# The share of words that are misheard, weak to strong.
NOISES: dict[str, dict[float, float]] = {
    "white_noise": {40.0: 0.03, 30.0: 0.05, 20.0: 0.08, 10.0: 0.36, 5.0: 0.78, 0.0: 0.97},
    "interference restaurant": {20.0: 0.12, 10.0: 0.58, 0.0: 0.99},
    "interference rain": {20.0: 0.07, 10.0: 0.45, 0.0: 0.95},
    "interference water_drip": {20.0: 0.03, 10.0: 0.03, 0.0: 0.11},
    "interference wind": {20.0: 0.02, 10.0: 0.02, 0.0: 0.03},
}
THETAS = {"interference rain": {0.9: 0.07, 0.7: 0.5, 0.5: 0.96}, "interference festival": {0.9: 0.03, 0.7: 0.4, 0.5: 0.97}}
OTHER: dict[str, tuple[str, str, dict[float | None, float]]] = {
    "speed": ("factor", "", {1.1: 0.06, 1.25: 0.14, 1.5: 0.52}),
    "reverberation": ("rt60_s", "s", {0.3: 0.05, 0.8: 0.22, 2.0: 0.61}),
    "packet_loss": ("rate", "", {0.02: 0.03, 0.1: 0.12, 0.3: 0.44}),
    "clipping": ("level_db", "dB", {-6.0: 0.02, -20.0: 0.05}),
    "telephone_band": ("", "", {None: 0.04}),
}
CLEAN = 0.02
GENDERS = ("female", "male")
ACCENTS = ("Scottish", "US")


def robustness(**more: Any) -> PropertyReport:
    """What `speech.robustness` found."""
    speech = speech_report(sweeps=[*sweeps(NOISES, "snr_db", "dB"), *sweeps(THETAS, "theta", ""), *other_sweeps()])
    gates = []
    metrics = [_rate("pass_rate", {}, 2461, 3300), Metric(name="clean_wer", value=speech.clean.wer, n=CLIPS)]
    for sweep in speech.sweeps:
        for level in sweep.levels:
            where: dict[str, Any] = {"transform": sweep.transform.split(" ")[0]}
            where |= {"noise": sweep.transform.split(" ")[1]} if " " in sweep.transform else {}
            where |= {} if level.strength is None else {sweep.parameter: level.strength}
            bounds = {"low": level.rise_low, "high": level.rise_high}
            metrics.append(Metric(name="wer_rise", slice=where, value=level.rise, n=CLIPS, higher_is_better=False, **bounds))
            if level.strength == 20.0 and sweep.parameter == "snr_db":
                verdict = "passed" if (level.rise_high or 0) < TOLERANCE else "inconclusive"
                why = f"{level.rise:.3f} [{level.rise_low:.3f}, {level.rise_high:.3f}] against 0.1"
                gates.append(GateResult(metric="wer_rise", slice=where, max=0.1, verdict=verdict, reason=why))
    fields: dict[str, Any] = {
        "property": ROBUSTNESS,
        "status": "inconclusive",
        "cases": CaseCounts(total=3450, passed=2461, failed=839, skipped=150),
        "skipped": {"no_op": 150},
        "metrics": metrics,
        "gates": gates,
        "queries": PropertyQueries(planned=3300, sent=3300),
        "seconds": 214.0,
        "speech": speech,
        "tolerance": TOLERANCE,
        "artifacts": {"cases": "s3://audits/commands/cases.parquet"},
    }
    return _explained(PropertyReport(**(fields | more)))


def fairness(**more: Any) -> PropertyReport:
    """What `speech.fairness` found for synthetic voices: six a gender, and too few of an accent."""
    voices = [_voice(place) for place in range(12)]
    lost = _voice(12).model_copy(
        update={
            "name": "espeak-ng hi",
            "groups": {"gender": "male", "accent": "Hindi"},
            "excluded": "WER 0.81 untouched, and the second recogniser fails on it too (0.92)",
        }
    )
    genders = [_group(name, [voice for voice in voices if voice.groups["gender"] == name]) for name in GENDERS]
    accents = [_group(name, [voice for voice in voices if voice.groups["accent"] == name]) for name in ACCENTS[::-1]]
    speech = speech_report(
        speakers=[*voices, lost],
        disparities=[
            Disparity(attribute="gender", groups=_beside(genders)),
            Disparity(
                attribute="accent",
                groups=[
                    g.model_copy(update=dict.fromkeys(("gap_low", "gap_high", "ratio_low", "ratio_high", "p_value")))
                    for g in _beside(accents)
                ],
                unjudged="these voices differ, not the groups: of Scottish there are 3 voices, at least 5 are needed",
            ),
        ],
        synthetic=True,
        silent_clips=4,
        hallucinated=1,
        hallucinated_words=2,
    )
    worst = speech.disparities[0].groups[-1]
    gate = GateResult(
        metric="wer_gap",
        slice={"attribute": "gender"},
        max=0.05,
        verdict="failed",
        reason=f"{worst.gap:.3f} [{worst.gap_low:.3f}, {worst.gap_high:.3f}] is above 0.05",
    )
    gap = {"value": worst.gap, "low": worst.gap_low, "high": worst.gap_high}
    fields: dict[str, Any] = {
        "property": FAIRNESS,
        "status": "failed",
        "cases": CaseCounts(total=1800, passed=1522, failed=278),
        "metrics": [Metric(name="wer_gap", slice={"attribute": "gender"}, n=12, higher_is_better=False, **gap)],
        "gates": [gate],
        "queries": PropertyQueries(planned=1800, sent=1800),
        "seconds": 96.0,
        "speech": speech,
        "tolerance": TOLERANCE,
        "artifacts": {"cases": "s3://audits/commands/cases.parquet"},
    }
    return _explained(PropertyReport(**(fields | more)))


def generalization(**more: Any) -> PropertyReport:
    """What `speech.generalization` found."""
    speech = speech_report(speakers=[_voice(place) for place in range(4)])
    fields: dict[str, Any] = {
        "property": GENERALIZATION,
        "status": "unjudged",
        "cases": CaseCounts(total=CLIPS, passed=speech.clean.perfect, failed=CLIPS - speech.clean.perfect),
        "metrics": [
            Metric(name="wer", value=speech.clean.wer, low=speech.clean.low, high=speech.clean.high, n=CLIPS),
        ],
        "speech": speech,
        "tolerance": TOLERANCE,
        "seed_tolerance": 0.5,
    }
    return _explained(PropertyReport(**(fields | more)))


def run_report(*properties: PropertyReport, **more: Any) -> RunReport:
    """A run of a recogniser of commands."""
    origin = sample.report().provenance.model_copy(update={"rows": CLIPS, "seeds": CLIPS, "previous_looks": 0})
    fields: dict[str, Any] = {
        "suite": "commands-nightly",
        "model": ModelReport(name="commands", version="2", type="speech-to-text", digest="5bee" * 8),
        "provenance": origin,
        "status": "failed",
        "properties": list(properties or [robustness(), fairness()]),
        "warnings": [],
    }
    return sample.report(**(fields | more))


def speech_report(**more: Any) -> SpeechReport:
    """Word errors on the untouched clips, and what is given."""
    fields = {"normalizer": "standard", "unit": "word", "seconds": 402.5, "clean": errors(CLEAN, "clean")}
    return SpeechReport(**(fields | more))


def sweeps(noises: dict[str, dict[float, float]], parameter: str, unit: str) -> list[Sweep]:
    return [Sweep(transform=name, parameter=parameter, unit=unit, levels=_levels(rates)) for name, rates in noises.items()]


def other_sweeps() -> list[Sweep]:
    return [
        Sweep(transform=name, parameter=parameter, unit=unit, levels=_levels(rates))
        for name, (parameter, unit, rates) in OTHER.items()
    ]


def errors(rate: float, name: str, clips: int = CLIPS) -> Errors:
    """What is misheard in so many clips if this share of their words is, with bounds over clips."""
    rng = rng_for(5, "speech sample", name)
    words = np.array([len(TEXTS[place % len(TEXTS)].split()) for place in range(clips)])
    wrong = rng.binomial(words, rate)
    deleted = rng.binomial(wrong, 0.35)
    inserted = rng.binomial(1, 0.2 * rate, clips)
    made = wrong + inserted
    rates, pooled = made / words, made.sum() / words.sum()
    half = 1.645 * float(np.std(made - pooled * words)) / float(words.mean() * np.sqrt(clips))
    return Errors(
        clips=clips,
        words=int(words.sum()),
        substitutions=int((wrong - deleted).sum()),
        deletions=int(deleted.sum()),
        insertions=int(inserted.sum()),
        wer=float(pooled),
        low=max(float(pooled) - half, 0.0),
        high=float(pooled) + half,
        mean_wer=float(rates.mean()),
        median_wer=float(np.median(rates)),
        cer=float(0.6 * pooled),
        perfect=int((made == 0).sum()),
        empty=int((deleted == words).sum()),
    )


def cases(n: int = 8, sounds: int = 60, name: str = ROBUSTNESS) -> list[FailingCase]:
    """n failing cases, the first of them to be listened to."""
    return [_case(place, place < sounds, name) for place in range(n)]


def hostile(text: str) -> tuple[RunReport, dict[str, list[FailingCase]]]:
    """A run and its cases in which everything that data, cards and plug-ins name is `text`."""
    named = [
        sweep.model_copy(update={"transform": f"{text}{i}", "parameter": "snr_db" if i < 3 else text, "unit": text})
        for i, sweep in enumerate(speech_report(sweeps=[*sweeps(NOISES, "snr_db", "dB"), *other_sweeps()]).sweeps)
    ]
    loud = robustness(speech=speech_report(normalizer=text, sweeps=named), skipped={text: 150}, metrics=[], gates=[])
    groups = _beside([_group(f"{text}{i}", [_voice(i), _voice(i + 1)]) for i in range(2)])
    voices = [
        _voice(i).model_copy(update={"name": text, "groups": {text: text}, "excluded": text if i else None, "note": text})
        for i in range(3)
    ]
    unfair = fairness(
        speech=speech_report(
            speakers=voices, disparities=[Disparity(attribute=text, groups=groups, unjudged=text)], synthetic=True
        )
    )
    words = [
        Word(said=text, heard=text, kind="equal"),
        Word(said=text, heard=text, kind="substitute"),
        Word(said=text, heard=None, kind="delete"),
        Word(said=None, heard=text, kind="insert"),
    ]
    fields = dict.fromkeys(("case_id", "transform", "expected", "observed", "explanation", "reason"), text)
    shown = [
        case.model_copy(
            update={
                **fields,
                "case": {text: text},
                "sounds": [item.model_copy(update={"alt": text, "note": text, "words": words}) for item in case.sounds],
            }
        )
        for case in cases(3, 2)
    ]
    return run_report(loud, unfair), {ROBUSTNESS: shown, FAIRNESS: shown}


def _explained(prop: PropertyReport) -> PropertyReport:
    return prop.model_copy(update={"explanation": explain_property(prop, 0.95)})


def _levels(rates: dict[Any, float]) -> list[Level]:
    clean = errors(CLEAN, "clean")
    made = []
    for strength, rate in rates.items():
        found = errors(rate, "noisy")
        rise = (found.wer or 0.0) - (clean.wer or 0.0)
        bounds = {"rise_low": rise - 0.03, "rise_high": rise + 0.03}
        measured = {} if strength is None else {"snr_db": strength + 0.01, "peak_dbfs": -1.2}
        made.append(Level(strength=strength, errors=found, rise=rise, **bounds, measured=measured))
    return made


def _voice(place: int) -> SpeakerErrors:
    gender = GENDERS[place % 2]
    rate = (0.06 if gender == "female" else 0.16) * (1 + 0.08 * (place % 5))
    groups = {"gender": gender, "accent": ACCENTS[place > 2]}
    note = "the original voice" if place == 0 else None
    return SpeakerErrors(name=f"voice {place + 1}", groups=groups, errors=errors(rate, f"voice {place}", 40), note=note)


def _group(name: str, voices: list[SpeakerErrors]) -> GroupErrors:
    rate = float(np.mean([voice.errors.wer or 0.0 for voice in voices]))
    return GroupErrors(name=name, speakers=len(voices), errors=errors(rate, name, 40 * len(voices)))


def _beside(groups: list[GroupErrors]) -> list[GroupErrors]:
    """The groups beside the one that is served best."""
    first, *rest = sorted(groups, key=lambda group: group.errors.wer or 0.0)
    best = first.errors.wer or 0.0
    made = [first.model_copy(update={"reference": True})]
    for group in rest:
        wer = group.errors.wer or 0.0
        bounds = {"gap_low": wer - best - 0.04, "gap_high": wer - best + 0.04}
        ratio = {"ratio": wer / best, "ratio_low": 0.8 * wer / best, "ratio_high": 1.2 * wer / best}
        made.append(group.model_copy(update={"gap": wer - best, **bounds, **ratio, "p_value": 0.0021}))
    return made


def _case(place: int, sounds: bool, name: str) -> FailingCase:
    rng = rng_for(3, "speech sample", str(place))
    text, words = TEXTS[place % len(TEXTS)], alignment(place, rng)
    heard = " ".join(word.heard for word in words if word.heard)
    kinds = [word.kind for word in words]
    counts = (kinds.count("substitute"), kinds.count("delete"), kinds.count("insert"))
    wer = sum(counts) / len(text.split())
    transform, params, strength = _change(place, name)
    said = explain_speech_case(transform, params, "word", text, text, heard, 0.0, wer, counts)
    return FailingCase(
        case_id=f"{place:032x}"[::-1],
        seed_id=f"{place % 7:032x}",
        transform=transform,
        strength=strength,
        expected=text,
        observed=heard,
        score=None,
        explanation=said,
        seed={"file": f"clips/{place}.flac"},
        case={"file": f"clips/{place}.flac", "speaker": f"s{place % 5}"},
        changed=[],
        sounds=pair_of(place, strength if name == ROBUSTNESS else None, words, wer) if sounds else [],
    )


def _change(place: int, name: str) -> tuple[str, dict[str, Any], float | None]:
    if name == FAIRNESS:
        return "voice", {"voice": "en-us+f3 (espeak-ng)", "engine": "espeak-ng", "original": "en-us (espeak-ng)"}, None
    strength = (5.0, 10.0, 0.0)[place % 3]
    measured = {"measured": {"snr_db": strength + 0.02}}
    if place % 2:
        return "interference", {"noise": "restaurant", "snr_db": strength, **measured}, strength
    return "white_noise", {"snr_db": strength, "noise_seed": 7, **measured}, strength


def _rate(name: str, where: dict[str, Any], hits: int, n: int) -> Metric:
    return Metric(name=name, slice=where, value=hits / n, low=hits / n - 0.02, high=hits / n + 0.02, n=n)

"""How word errors read wherever they are shown: names of noises and strengths, and which sweeps belong together."""

from __future__ import annotations

from collections import Counter

from aitest_lib.reports.records import Errors, Level, SpeechReport, Sweep
from aitest_lib.reports.tables import clip, count, interval, number

HALF = 0.5  # WER above which every second word is wrong
_DECIBELS = "snr_db"


def sweep_name(transform: str, limit: int = 40) -> str:
    """The name of a transform in a text; interference is named by its noise.

    >>> sweep_name("white_noise"), sweep_name("interference water_drip")
    ('white noise', 'water drip noise')
    """
    name = transform.removeprefix("interference ").replace("_", " ")
    mixed_in = len(transform.split()) == 2 and transform.startswith("interference ") and not name.endswith("noise")
    return clip(f"{name} noise" if mixed_in else name, limit)


def strength_words(parameter: str, unit: str, strength: float | None) -> str:
    """A strength with its unit, or, without one, with the name of its parameter; "" where there is no strength.

    >>> strength_words("snr_db", "dB", -5.0), strength_words("theta", "", 0.7), strength_words("", "", None)
    ('-5 dB', 'theta 0.7', '')
    """
    if strength is None:
        return ""
    if unit in ("", "1"):
        return f"{clip(parameter.replace('_', ' '), 20)} {strength:.4g}".strip()
    return f"{strength:.4g} {clip(unit, 20)}"


def level_words(sweep: Sweep, level: Level) -> str:
    """The strength of a level of a sweep: see `strength_words`."""
    return strength_words(sweep.parameter, sweep.unit, level.strength)


def measured_words(name: str, value: float) -> str:
    """A figure that was measured on clips.

    >>> measured_words("snr_db", 10.02), measured_words("peak_dbfs", -1.2), measured_words("clipped", 0.0)
    ('snr 10.02 dB', 'peak -1.2 dBFS', 'clipped 0')
    """
    stem, _, unit = name.rpartition("_")
    unit = {"db": " dB", "dbfs": " dBFS", "s": " s"}.get(unit, "")
    return f"{clip((stem if unit else name).replace('_', ' '), 30)} {value:.4g}{unit}"


def snr_sweeps(speech: SpeechReport) -> list[Sweep]:
    """Noises by their signal-to-noise ratio."""
    return [sweep for sweep in speech.sweeps if sweep.parameter == _DECIBELS]


def theta_sweeps(speech: SpeechReport) -> list[Sweep]:
    """Noises by the share of the clip in the mix."""
    return [sweep for sweep in speech.sweeps if sweep.parameter == "theta"]


def other_sweeps(speech: SpeechReport) -> list[Sweep]:
    """Everything that is no noise."""
    return [sweep for sweep in speech.sweeps if sweep.parameter not in (_DECIBELS, "theta")]


def wer_words(errors: Errors) -> str:
    """The pooled WER with its bounds."""
    return f"{number(errors.wer)} {interval(errors.low, errors.high)}".rstrip()


def common_snr(speech: SpeechReport) -> tuple[float, list[tuple[str, Errors]]] | None:
    """The signal-to-noise ratio that most noises share, and where several are shared alike, at which they differ most; the
    noises there, worst first. None where no two share one."""
    found: dict[float, list[tuple[str, Errors]]] = {}
    for sweep in snr_sweeps(speech):
        for level in sweep.levels:
            if level.strength is not None and level.errors.wer is not None:
                found.setdefault(level.strength, []).append((sweep.transform, level.errors))
    shared = Counter({strength: len(noises) for strength, noises in found.items() if len(noises) > 1})
    if not shared:
        return None
    most = max(shared.values())
    best = max((s for s in shared if shared[s] == most), key=lambda s: (_spread(found[s]), s))
    return best, sorted(found[best], key=lambda item: -(item[1].wer or 0.0))


def half_lost(sweep: Sweep) -> tuple[Level | None, Level | None]:
    """Along a sweep, weak to strong: the last level before the WER first passes 0.5, and the one at which it does; None where
    there is none."""
    before = None
    for level in sweep.levels:
        if level.errors.wer is None:
            continue
        if level.errors.wer > HALF:
            return before, level
        before = level
    return before, None


def units(speech: SpeechReport, amount: int) -> str:
    """So many words, or characters."""
    return count(amount, speech.unit)


def edits_words(errors: Errors) -> str:
    """Substitutions, deletions and insertions.

    >>> edits_words(Errors(clips=1, words=9, substitutions=3, deletions=2, insertions=1, wer=6 / 9))
    '3 substituted, 2 deleted, 1 inserted'
    """
    return f"{errors.substitutions:,} substituted, {errors.deletions:,} deleted, {errors.insertions:,} inserted"


def _spread(noises: list[tuple[str, Errors]]) -> float:
    rates = [errors.wer or 0.0 for _, errors in noises]
    return max(rates) - min(rates)

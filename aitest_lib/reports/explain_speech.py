"""One plain sentence on a clip: what was done to it, and how it was misheard. No language model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from aitest_lib.reports.tables import clip, count

Params = dict[str, Any]

MAX_NAMED = 3  # parameters of a transform without words of its own
MAX_QUOTED = 160  # characters of a transcript in a sentence


def explain_speech_case(
    transform: str | None,
    params: Params,
    unit: str,
    reference: str,
    heard_before: str | None,
    heard: str | None,
    wer_before: float | None,
    wer: float | None,
    counts: tuple[int, int, int],
) -> str:
    """One sentence on a clip that was misheard.

    `transform`: what was done, None for an untouched clip; `params`: the drawn parameters, and under `measured` what came
    out; of another voice its `voice` and the `original`. `unit`: `word` or `character`. `reference`: what was said;
    `heard_before`, `wer_before`: on the untouched clip; `counts`: substituted, deleted and inserted words of the case.

    >>> explain_speech_case(
    ...     "interference", {"noise": "restaurant", "snr_db": 10.0, "measured": {"snr_db": 10.02}}, "word",
    ...     "can i talk to someone", "can i talk to someone", "call someone", 0.0, 0.8, (1, 3, 0),
    ... )
    'with restaurant noise at 10 dB (measured 10.0 dB) "can i talk to someone" was heard as "call someone": WER 0.80, \
untouched 0.00; 3 of 5 words lost, 1 changed'
    >>> explain_speech_case(None, {}, "word", "keep holding", None, "", None, 1.0, (0, 2, 0))
    'nothing was heard of "keep holding": WER 1.00; 2 of 2 words lost'
    """
    cause = "" if transform is None else f"{speech_words(transform, params)} "
    said = f'"{clip(reference, MAX_QUOTED)}"' if reference else "a clip without words"
    answer = f'{said} was heard as "{clip(heard, MAX_QUOTED)}"' if heard else f"nothing was heard of {said}"
    figures = f"WER {_rate(wer)}"
    if transform is not None:
        before = f' (heard as "{clip(heard_before, MAX_QUOTED)}")' if wer_before and heard_before else ""
        figures += f", {'the original' if transform == 'voice' else 'untouched'} {_rate(wer_before)}{before}"
    edits = _edits(counts, wer, unit)
    return f"{cause}{answer}: {figures}{f'; {edits}' if edits else ''}"


def speech_words(transform: str, params: Params) -> str:
    """What was done to a clip; a transform without words of its own is named with its parameters.

    >>> speech_words("gain", {"gain_db": -20}), speech_words("hum", {"hz": 50, "noise_seed": 7})
    ('made 20 dB quieter', 'changed by hum (hz 50)')
    """
    if transform in _SENTENCES:
        try:
            return _SENTENCES[transform](params)
        except (KeyError, TypeError, ValueError):  # a plug-in of the same name, whose parameters are others
            pass
    given = [
        f"{clip(key.replace('_', ' '), 30)} {value:.3g}" if isinstance(value, float) else f"{clip(key, 30)} {clip(value, 40)}"
        for key, value in params.items()
        if isinstance(value, str | int | float) and key != "transform" and not key.endswith("seed")
    ]
    phrase = f"changed by {clip(transform, 60)}"
    return f"{phrase} ({', '.join(given[:MAX_NAMED])})" if given else phrase


def _level(params: Params) -> str:
    """`at 10 dB (measured 10.0 dB)`, or `at theta 0.7 (7.4 dB)`."""
    found = params.get("measured", {}).get("snr_db")
    over = " over active speech" if params.get("level") == "active" else ""
    if params.get("snr_db") is not None:
        return f"at {params['snr_db']:.4g} dB{over}{'' if found is None else f' (measured {found:.1f} dB)'}"
    theta = float(params["theta"])
    ratio = found if found is not None else 20 * math.log10(theta / (1 - theta)) if 0 < theta < 1 else None
    return f"at theta {theta:.3g}{'' if ratio is None else f' ({ratio:.1f} dB)'}"


def _interference(params: Params) -> str:
    name = clip(str(params.get("noise") or params.get("recording") or "recorded").replace("_", " "), 60)
    return f"with {name if name.endswith('noise') else f'{name} noise'} {_level(params)}"


def _voice(params: Params) -> str:
    original = f" instead of {clip(params['original'], 60)}" if params.get("original") else ""
    return f"in the voice {clip(params['voice'], 60)}{original}"


def _pitch(params: Params) -> str:
    semitones = float(params["semitones"])
    way = "raised" if semitones > 0 else "lowered"
    return f"with the pitch {way} by {abs(semitones):.3g} semitone{'' if abs(semitones) == 1 else 's'}"


def _gain(params: Params) -> str:
    gain = float(params["gain_db"])
    return f"made {abs(gain):.3g} dB {'louder' if gain > 0 else 'quieter'}{_share(params, 'clipped')}"


def _share(params: Params, name: str) -> str:
    share = params.get("measured", {}).get(name)
    return f" ({100 * share:.2g} % of it {name})" if share else ""


_SENTENCES: dict[str, Callable[[Params], str]] = {
    "white_noise": lambda p: f"with white noise {_level(p)}",
    "interference": _interference,
    "speed": lambda p: f"at {p['factor']:.3g} times the speed",
    "pitch": _pitch,
    "reverberation": lambda p: f"in a room that reverberates for {p['rt60_s']:.3g} s",
    "telephone_band": lambda _: "through a telephone line",
    "clipping": lambda p: f"with everything cut off that is above {p['level_db']:.3g} dB of its peak{_share(p, 'cut')}",
    "gain": _gain,
    "packet_loss": lambda p: f"with {100 * p['rate']:.3g} % of its packets lost",
    "voice": _voice,
}


def _edits(counts: tuple[int, int, int], wer: float | None, unit: str) -> str:
    """`3 of 5 words lost, 1 changed`; how many words there are follows from the errors and their rate."""
    substituted, deleted, inserted = counts
    told = [(deleted, "lost"), (substituted, "changed"), (inserted, "added")]
    said = [(n, how) for n, how in told if n]
    if not said:
        return ""
    (first, how), *rest = said
    words = round(sum(counts) / wer) if wer else 0
    noun = count(words, unit) if words and how != "added" else ""
    lead = f"{first:,} of {noun} {how}" if noun else f"{count(first, unit)} {how}"
    return ", ".join([lead, *(f"{n:,} {word}" for n, word in rest)])


def _rate(wer: float | None) -> str:
    return "undefined" if wer is None else f"{wer:.2f}"

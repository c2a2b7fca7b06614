"""Plain sentences about images: what was done to one, and what a property of images found. No language model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aitest_lib.reports.report import Attribution, BreakingPoints, Metric
from aitest_lib.reports.tables import clip, count, listed, slice_label

Params = dict[str, Any]

MAX_NAMED = 3  # transforms or links named in one sentence
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
# Participles; what follows in brackets are the parameters.
_PHRASES = {
    "fog": "put in fog",
    "gaussian_blur": "blurred",
    "zoom_blur": "blurred as by zooming",
    "gaussian_noise": "covered with Gaussian noise",
    "shot_noise": "covered with shot noise",
    "impulse_noise": "covered with impulse noise",
    "speckle_noise": "covered with speckle noise",
    "defocus_blur": "put out of focus",
    "motion_blur": "blurred as by motion",
    "glass_blur": "blurred as through glass",
    "snow": "put in snow",
    "frost": "covered with frost",
    "spatter": "spattered",
    "elastic": "distorted elastically",
    "pixelate": "pixelated",
    "jpeg": "compressed as JPEG",
}
# Those whose parameters make the phrase.
_SENTENCES: dict[str, Callable[[Params], str]] = {
    "inverse": lambda _: "inverted",
    "rotate": lambda p: f"rotated by {p['degrees']:.3g}°",
    "scale": lambda p: f"{'enlarged' if p['factor'] > 1 else 'shrunk'} to ×{p['factor']:.3g}",
    "shear": lambda p: f"sheared by {p['shear']:.3g}",
    "translate": lambda p: f"shifted by {100 * p['fraction']:.3g} % of its side",
    "saturation": lambda p: f"{'saturated' if p['factor'] > 1 else 'desaturated'} to ×{p['factor']:.3g}",
    "brightness": lambda p: f"{'brightened' if p['delta'] > 0 else 'darkened'} by {abs(p['delta']):.3g}",
    "contrast": lambda p: f"{'raised' if p['factor'] > 1 else 'lowered'} in contrast to ×{p['factor']:.3g}",
    "compose": lambda p: ", then ".join(transform_words(str(part["name"]), part["params"]) for part in p["parts"]),
}
_STRENGTHS = {"rotate": "angle", "translate": "shift", "brightness": "change", "gaussian_noise": "σ", "gaussian_blur": "σ"}
_SYMBOLS = {"sigma": "σ"}


def transform_words(transform: str, params: Params) -> str:
    """What was done to an image, as a participle; a transform without a phrase of its own is named with its parameters.

    >>> transform_words("compose", {"parts": [{"name": "inverse", "params": {}}, {"name": "fog", "params": {"amount": 2}}]})
    'inverted, then put in fog (amount 2)'
    >>> transform_words("my_filter", {"size": 3, "noise_seed": 17})
    'changed by my_filter (size 3)'
    """
    if transform in _SENTENCES:
        try:
            return _SENTENCES[transform](params)
        except (KeyError, TypeError, ValueError):  # a plug-in of the same name, whose parameters are others
            pass
    given = [
        f"{_SYMBOLS.get(key, clip(key.replace('_', ' '), 30))} {_plain(value)}"
        for key, value in params.items()
        if isinstance(value, str | int | float) and not key.endswith("seed")
    ]
    phrase = _PHRASES.get(transform, f"changed by {clip(transform, 60)}")
    return f"{phrase} ({', '.join(given[:MAX_NAMED])})" if given else phrase


def strength_word(transform: str) -> str:
    """What the strength of a transform is called.

    >>> strength_word("rotate"), strength_word("fog")
    ('angle', 'strength')
    """
    return _STRENGTHS.get(transform, "strength")


def with_unit(value: float, unit: str | None) -> str:
    """A strength with its unit, in three digits.

    >>> with_unit(11.03, "degrees"), with_unit(1.25, "px"), with_unit(0.1234, None)
    ('11°', '1.25 px', '0.123')
    """
    shown = f"{float(f'{value:.3g}'):g}"
    if unit == "degrees":
        return f"{shown}°"
    return shown if unit in (None, "", "1") or len(unit.split()) > 1 else f"{shown} {clip(unit, 30)}"  # a phrase is no unit


def what_was_done(metrics: Sequence[Metric], images: str) -> str:
    """The first sentence on robustness: `Eleven transforms at 3 strengths were applied to 2,000 images`. A few are named."""
    strengths: dict[str, set[str]] = {}
    for where in (m.slice for m in metrics if "transform" in m.slice and m.name == "pass_rate"):
        strengths.setdefault(clip(where["transform"], 60), set()).add(slice_label(where))
    if not strengths:
        return ""
    n, sizes = len(strengths), {len(values) for values in strengths.values()}
    noun = f"{_NUMBERS[n].capitalize() if n < len(_NUMBERS) else f'{n:,}'} transform{'' if n == 1 else 's'}"
    at = f" at {'up to ' if len(sizes) > 1 else ''}{max(sizes)} strengths" if max(sizes) > 1 else ""
    named = f" ({listed(list(strengths))})" if n <= MAX_NAMED else ""
    what = f"{noun}{at} {'was' if n == 1 else 'were'} applied to {images}{named}"
    return f"{what}, and each answer was compared with the model's own answer on the untouched image."


def breaking_words(found: Sequence[BreakingPoints], noun: str = "image") -> str:
    """Where images (or what `noun` says) break, for the transforms that break most of them."""
    broken = sorted((item for item in found if item.median is not None), key=unbroken_share)
    if not broken:
        return ""
    named = [
        f"{median_words(item)} for {clip(item.transform, 60)}, of the {1 - unbroken_share(item):.0%} of the {noun}s that break"
        for item in broken[:MAX_NAMED]
    ]
    least = "smallest" if noun == "image" else "weakest"
    return f"The {least} failing strength found is in the median {listed(named)}."


def median_words(found: BreakingPoints) -> str:
    """The median of the smallest failing strengths, e.g. `sigma 0.12`; "none" where nothing broke."""
    if found.median is None:
        return "none"
    shown = with_unit(found.median, found.unit)
    return shown if found.unit == "degrees" else f"{clip(found.parameter, 30)} {shown}"


def unbroken_share(found: BreakingPoints) -> float:
    """The share of cases that broke at no level."""
    return found.unbroken / max(found.unbroken + sum(found.counts), 1)


def attribution_words(found: Sequence[Attribution]) -> str:
    """The link of each chain without which most of its failing cases pass."""
    most = {one: max(item.turned for item in found if item.transform == one) for one in {item.transform for item in found}}
    worst = [item for item in found if item.turned == most[item.transform] and item.turned]
    alone = [item for item in worst if sum(other.transform == item.transform for other in worst) == 1]  # no link stands out
    named = [
        f"{clip(item.transform, 60)} it is {clip(item.link, 60)} ({item.turned:,} of {item.of:,} failing cases pass without it)"
        for item in sorted(alone, key=lambda item: -item.turned / max(item.of, 1))[:MAX_NAMED]
    ]
    return f"What breaks a chain: in {listed(named)}." if named else ""


def unreadable_words(unreadable: int) -> str:
    """How many files could not be read; "" for none."""
    verb = "is" if unreadable == 1 else "are"
    return f"{count(unreadable, 'file')} could not be read and {verb} in no figure." if unreadable else ""


def _plain(value: str | float) -> str:
    return clip(value, 40) if isinstance(value, str | bool) else f"{value:.4g}"

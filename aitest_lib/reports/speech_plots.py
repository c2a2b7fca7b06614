"""Figures of word errors as SVG text: WER over the strength of noises, noises at one strength, other transforms as bars."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from aitest_lib.reports import svg
from aitest_lib.reports.plots import LIGHT, Palette, Scale, ticks
from aitest_lib.reports.records import Errors, Level, SpeechReport, Sweep
from aitest_lib.reports.speech_view import (
    common_snr,
    level_words,
    other_sweeps,
    snr_sweeps,
    sweep_name,
    theta_sweeps,
    wer_words,
)
from aitest_lib.reports.tables import clip, minus_signs, number, printable

WIDTH, HEIGHT = 470.0, 262.0  # px of a figure
PANEL_WIDTH, PANEL_HEIGHT = 250.0, 176.0  # px of a small one
MAX_LINES = 8  # noises in one figure; what is beyond stays in the tables
FEW_BANDS = 3
MAX_TICKS = 9
_LEFT, _RIGHT, _TOP, _BOTTOM = 50.0, 448.0, 30.0, 214.0
_DASHES = ("none", "7 4", "2 3", "9 3 2 3", "4 2", "12 4", "1 4", "9 3 2 3 2 3")


def speech_figures(speech: SpeechReport) -> dict[str, str]:
    """Every figure of word errors that has something to show, by its name, standing alone."""
    made = {
        "wer_by_snr": noise_plot(snr_sweeps(speech), speech.clean, "signal-to-noise ratio in dB, weak to strong"),
        "wer_by_theta": noise_plot(theta_sweeps(speech), speech.clean, "theta, weak to strong"),
        "wer_by_noise": noise_bars(speech),
    }
    top = highest(other_sweeps(speech))
    made |= {f"wer_{i}": level_panel(sweep, speech.clean, top) for i, sweep in enumerate(other_sweeps(speech))}
    return {name: figure for name, figure in made.items() if figure}


def noise_plot(sweeps: Sequence[Sweep], clean: Errors, axis: str, palette: Palette = LIGHT) -> str:
    """Pooled WER over the strength of noises, weak to strong, each with its bounds as a band, and the WER of the untouched
    clips dashed; with a legend where it stands alone. `axis`: what the strength is. Rates above 1 stop at the upper edge.
    "" where nothing is known at any strength."""
    shown = [sweep for sweep in sweeps if _known(sweep)][:MAX_LINES]
    if not shown:
        return ""
    strengths = sorted({strength for sweep in shown for strength, _ in _known(sweep)}, reverse=True)  # the weakest noise first
    weak, strong = strengths[0], strengths[-1]
    x = Scale(weak, strong, _LEFT + 8, _RIGHT - 8) if weak != strong else Scale(weak - 1, weak + 1, _LEFT, _RIGHT)
    up = Scale(0.0, highest(shown, clean), _BOTTOM, _TOP)
    marks = [svg.text(12, 16, "pooled WER", palette.ink, weight=600)]
    for rate in ticks(0.0, up.high):
        marks.append(svg.line(_LEFT, up(rate), _RIGHT, up(rate), palette.grid))
        marks.append(svg.text(_LEFT - 6, up(rate) + 4, f"{rate:g}", palette.muted, "end"))
    for tick in strengths if len(strengths) <= MAX_TICKS else ticks(strong, weak):
        marks.append(svg.line(x(tick), _BOTTOM, x(tick), _BOTTOM + 5, palette.muted))
        marks.append(svg.text(x(tick), _BOTTOM + 19, minus_signs(f"{tick:.4g}"), palette.muted, "middle"))
    marks.append(svg.text((_LEFT + _RIGHT) / 2, HEIGHT - 9, axis, palette.ink, "middle", 600))
    marks.append(_clean(clean, up, _LEFT, _RIGHT, palette))
    shade = 0.13 if len(shown) <= FEW_BANDS else 0.05  # many of them would make one brown ground
    marks += [_curve(sweep, place, x, up, palette, shade) for place, sweep in reversed(list(enumerate(shown)))]
    legend = _legend(shown, palette) if palette.standalone else []
    said = "; ".join(_told(sweep) for sweep in shown)
    return _figure(WIDTH, HEIGHT + 20 * len(legend), f"Pooled WER over {axis}: {said}", [*marks, *legend], palette)


def line_key(place: int, palette: Palette) -> str:
    """A piece of the line of the noise at `place` of a `noise_plot`, 26 x 10 px, for a legend."""
    return _figure(26, 10, "line", [svg.line(0, 5, 26, 5, *_style(place, palette))], palette)


def noise_bars(speech: SpeechReport, palette: Palette = LIGHT) -> str:
    """A bar a noise: its pooled WER at the signal-to-noise ratio that they share, worst first, with bounds; "" without one."""
    common = common_snr(speech)
    if common is None:
        return ""
    snr, noises = common
    shown, row = noises[:20], 24.0
    names = [sweep_name(name, 20) for name, _ in shown]
    left, right = 24 + 7.2 * max(map(len, names)), 304.0
    scale = Scale(0.0, _top([errors for _, errors in shown]), left, right)
    marks = [svg.text(12, 16, minus_signs(f"pooled WER of each noise at {snr:.4g} dB"), palette.ink, weight=600)]
    for place, ((_, errors), name) in enumerate(zip(shown, names, strict=True)):
        y, value = 30 + row * place, errors.wer or 0.0
        marks.append(svg.text(left - 8, y + 13, name, palette.ink, "end"))
        marks.append(svg.rect(left, y + 2, right - left, 14, palette.grid, 0.5))
        marks.append(svg.rect(left, y + 2, scale(value) - left, 14, palette.accent, 0.75))
        if errors.low is not None and errors.high is not None:
            marks.append(svg.line(scale(errors.low), y + 9, scale(errors.high), y + 9, palette.ink, 1.4))
        marks.append(svg.text(right + 8, y + 13, wer_words(errors), palette.muted, size=11))
    more = len(noises) - len(shown)
    if more:
        marks.append(svg.text(left, 30 + row * len(shown) + 13, f"and {more:,} more, with lower WER", palette.muted))
    told = ", ".join(f"{name} {number(errors.wer)}" for name, (_, errors) in zip(names, shown, strict=True))
    height = 38 + row * (len(shown) + bool(more))
    return _figure(WIDTH, height, f"Pooled WER of each noise at {snr:.4g} dB: {told}", marks, palette)


def level_panel(sweep: Sweep, clean: Errors, top: float, palette: Palette = LIGHT) -> str:
    """Pooled WER of one transform as a bar a strength, weak to strong, with bounds, the WER of the untouched clips dashed;
    `top`: the upper end of the axis that all panels share (see `highest`). "" where nothing is known."""
    levels = [level for level in sweep.levels if level.errors.wer is not None]
    if not levels:
        return ""
    left, right, upper, lower = 34.0, 238.0, 30.0, 146.0
    y, step = Scale(0.0, top, lower, upper), (right - left) / len(levels)
    marks = [svg.text(4, 14, sweep_name(sweep.transform, 30), palette.ink, weight=600)]
    for rate in (0.0, top / 2, top):
        marks.append(svg.line(left, y(rate), right, y(rate), palette.grid))
        marks.append(svg.text(left - 6, y(rate) + 4, f"{rate:g}", palette.muted, "end", size=11))
    few = len(levels) <= 6
    for place, level in enumerate(levels):
        middle, width, errors = left + step * (place + 0.5), min(0.7 * step, 34.0), level.errors
        value = y(errors.wer or 0.0)
        bar = svg.rect(middle - width / 2, value, width, lower - value, palette.accent, 0.75)
        title = f"{level_words(sweep, level) or 'applied'}: {wer_words(errors)}"
        marks.append(svg.tag("g", svg.tag("title", escape(printable(title))), bar))
        if errors.low is not None and errors.high is not None:
            marks.append(svg.line(middle, y(errors.low), middle, y(errors.high), palette.ink, 1.4))
        if level.strength is not None and (few or place in (0, len(levels) // 2, len(levels) - 1)):
            words = minus_signs(f"{level.strength:.4g}")
            marks.append(svg.text(middle, 162, words, palette.muted, "middle", size=11))
    what = " in ".join(filter(None, (clip(sweep.parameter.replace("_", " "), 20), sweep.unit if sweep.unit != "1" else "")))
    marks.append(
        svg.text(right, 14, clip(sweep.unit if sweep.unit not in ("", "1") else what, 20), palette.muted, "end", size=11)
    )
    marks.append(_clean(clean, y, left, right, palette))
    return _figure(PANEL_WIDTH, PANEL_HEIGHT, f"Pooled WER of {_told(sweep)}", marks, palette)


def highest(sweeps: Sequence[Sweep], clean: Errors | None = None) -> float:
    """The upper end of a WER axis that holds these sweeps: their highest bound rounded up to a tenth, from 0.2 to 1."""
    return _top([*(level.errors for sweep in sweeps for level in sweep.levels), *([clean] if clean else [])])


def _top(errors: Iterable[Errors]) -> float:
    edges = [edge for item in errors for edge in (item.wer, item.high) if edge is not None]
    return min(max(math.ceil(10 * max(edges, default=0.0) - 1e-9) / 10, 0.2), 1.0)


def _known(sweep: Sweep) -> list[tuple[float, Level]]:
    return [(level.strength, level) for level in sweep.levels if level.strength is not None and level.errors.wer is not None]


def _curve(sweep: Sweep, place: int, x: Scale, up: Scale, palette: Palette, shade: float) -> str:
    colour, width, dash = _style(place, palette)
    known = sorted(_known(sweep), key=lambda item: -item[0])
    points = [(x(strength), up(level.errors.wer or 0.0)) for strength, level in known]
    bounded = [(x(strength), level.errors) for strength, level in known if level.errors.low is not None]
    upper = [(at, up(up.high if errors.high is None else errors.high)) for at, errors in bounded]
    lower = [(at, up(errors.low or 0.0)) for at, errors in bounded]
    marks = [svg.polygon([*upper, *reversed(lower)], colour, shade)] if len(bounded) > 1 else []
    if len(known) == 1 and bounded:
        marks = [svg.line(points[0][0], upper[0][1], points[0][0], lower[0][1], colour, 2)]
    if len(points) > 1:
        marks.append(svg.polyline(points, colour, width, dash))
    for (at, height), (_, level) in zip(points, known, strict=True):
        title = f"{sweep_name(sweep.transform)} at {level_words(sweep, level)}: {wer_words(level.errors)}"
        marks.append(svg.dot(at, height, colour, title))
    return "".join(marks)


def _style(place: int, palette: Palette) -> tuple[str, float, str]:
    """Colour, width and dashes of a line: no two of eight alike, with or without colours."""
    colours = (palette.accent, palette.failed, palette.passed, palette.inconclusive, palette.ink, palette.muted)
    return colours[place % len(colours)], 2.0, _DASHES[place % len(_DASHES)]


def _clean(clean: Errors, up: Scale, left: float, right: float, palette: Palette) -> str:
    if clean.wer is None:
        return ""
    return svg.line(left, up(clean.wer), right, up(clean.wer), palette.ink, dash="4 3")


def _legend(shown: Sequence[Sweep], palette: Palette) -> list[str]:
    rows = []
    for place, sweep in enumerate(shown):
        y = HEIGHT + 8 + 20 * place
        line = svg.line(_LEFT, y, _LEFT + 26, y, *_style(place, palette))
        rows.append(line + svg.text(_LEFT + 36, y + 4, _told(sweep, 70), palette.ink))
    return rows


def _told(sweep: Sweep, limit: int = 300) -> str:
    said = [f"{level_words(sweep, level) or 'applied'} {number(level.errors.wer)}" for level in sweep.levels]
    return clip(f"{sweep_name(sweep.transform)}: {', '.join(said)}", limit)


def _figure(width: float, height: float, label: str, marks: Iterable[str], palette: Palette) -> str:
    return svg.figure(width, height, label, marks, palette.surface if palette.standalone else None)

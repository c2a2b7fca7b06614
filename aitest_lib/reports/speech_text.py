"""Word errors as plain text for a terminal: a line a noise and a column a strength, then a line a group of speakers."""

from __future__ import annotations

from textwrap import wrap

from aitest_lib.reports.records import Disparity, GroupErrors, Level, SpeechReport, Sweep
from aitest_lib.reports.speech_view import level_words, sweep_name
from aitest_lib.reports.tables import clip, number, p_value

NAME = 22  # characters of a noise or a group
CELL = 8  # of a figure
NARROWEST = NAME + 4 * CELL
MAX_LINES = 30  # noises, and groups of an attribute
_COLUMNS = ("speakers", "WER", "gap", "low", "high", "ratio", "p")


def speech_lines(speech: SpeechReport, width: int) -> list[str]:
    """The pooled WER of every noise at every strength, weak to strong, and the groups of every attribute beside the one served
    best, in lines of `width` characters (54 at least): of many strengths the strongest, of the groups' figures the first."""
    width = max(width, NARROWEST)
    kinds = list(dict.fromkeys((sweep.parameter, sweep.unit) for sweep in speech.sweeps))
    by_kind = [[sweep for sweep in speech.sweeps if (sweep.parameter, sweep.unit) == kind] for kind in kinds]
    lines = [line for sweeps in by_kind for line in _levels(sweeps, width)]
    return lines + [line for item in speech.disparities for line in _groups(item, width)]


def _levels(sweeps: list[Sweep], width: int) -> list[str]:
    """A table of the sweeps that share a parameter."""
    heads = [level_words(sweep, level) for sweep in sweeps for level in sweep.levels]
    at = {head: level.strength or 0.0 for sweep in sweeps for head, level in _by_head(sweep).items()}
    longest = max(sweeps, key=lambda sweep: len(sweep.levels))
    strengths = [level.strength or 0.0 for level in longest.levels]
    falling = strengths == sorted(strengths, reverse=True)  # the less of it the stronger, as of a signal-to-noise ratio
    room = (width - NAME) // max(CELL, 2 + max(map(len, heads), default=0))
    shown = sorted(set(heads), key=lambda head: -at[head] if falling else at[head])[-room:]
    cell = max([CELL, *(2 + len(head) for head in shown)])
    lead = "pooled WER at" if any(heads) else "pooled WER"
    lines = ["", f"{lead:<{NAME}}{''.join(f'{head:>{cell}}' for head in shown)}"]
    for sweep in sweeps[:MAX_LINES]:
        found = _by_head(sweep)
        rates = [found[head].errors.wer if head in found else None for head in shown]
        figures = ["–" if rate is None else number(rate) for rate in rates]
        lines.append(f"{sweep_name(sweep.transform, NAME - 1):<{NAME}}{''.join(f'{figure:>{cell}}' for figure in figures)}")
    return lines + _more(len(sweeps))


def _by_head(sweep: Sweep) -> dict[str, Level]:
    return {level_words(sweep, level): level for level in sweep.levels}


def _groups(item: Disparity, width: int) -> list[str]:
    columns = _COLUMNS[: (width - NAME) // CELL]
    head = f"{clip(f'by {item.attribute}', NAME - 1):<{NAME}}{''.join(f'{name:>{CELL}}' for name in columns)}"
    rows = [
        f"{clip(group.name, NAME - 1):<{NAME}}{''.join(f'{cell:>{CELL}}' for cell in _figures(group)[: len(columns)])}"
        for group in item.groups[:MAX_LINES]
    ]
    unjudged = wrap(f"unjudged: {clip(item.unjudged, 400)}", width) if item.unjudged else []
    return ["", head, *rows, *_more(len(item.groups)), *unjudged]


def _figures(group: GroupErrors) -> list[str]:
    if group.reference:
        return [f"{group.speakers:,}", number(group.errors.wer), "ref.", "–", "–", "–", "–"]
    edges = ("–" if edge is None else f"{edge:+.3f}" for edge in (group.gap, group.gap_low, group.gap_high))
    ratio = "–" if group.ratio is None else f"{group.ratio:.2f}"
    p = "–" if group.p_value is None else p_value(group.p_value)
    return [f"{group.speakers:,}", number(group.errors.wer), *edges, ratio, p]


def _more(rows: int) -> list[str]:
    return [f"and {rows - MAX_LINES:,} more"] if rows > MAX_LINES else []

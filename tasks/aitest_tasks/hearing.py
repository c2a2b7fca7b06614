"""What was heard in the cases of speech, counted and shown: beside what was said, and beside what was heard untouched."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.answers import AnswerBook
from aitest_lib.artifacts.store import Store
from aitest_lib.metrics.wer import WordErrors, count_errors
from aitest_lib.reports.explain_speech import explain_speech_case
from aitest_lib.reports.records import Level, SpeechReport, Sweep
from aitest_lib.scorers.figures import Figure
from aitest_lib.scorers.invariance import Tally
from aitest_lib.scorers.wer import rise_figures, told, unheard, wer_figures
from aitest_lib.stats.clusters import rate_of_rows
from aitest_lib.transforms.base import Transform, unit_of
from aitest_tasks.audio_cases import MEASURED
from aitest_tasks.audio_shown import AudioRows, Place, Spoken
from aitest_tasks.baseline import Baseline
from aitest_tasks.contents import content_of
from aitest_tasks.transcripts import Transcripts, heard_at

MOST_SLICE_VALUES = 40


@dataclass(frozen=True, eq=False)
class Hearing:
    """The cases of some seeds; all (n,). `before`: what was heard in what they are compared with, None in a group property."""

    said: list[str]
    before: list[str] | None
    before_wer: NDArray[np.float64]
    heard: list[str]
    wer: NDArray[np.float64]
    errors: WordErrors
    transcripts: Transcripts

    @classmethod
    def of(
        cls,
        base: Baseline,
        book: AnswerBook,
        ranks: NDArray[np.int64],
        places: NDArray[np.int64],
        before: NDArray[np.int64] | None = None,
    ) -> Hearing:
        """`places` of the answers to the cases, `before` of those to what they are compared with: by default the seeds."""
        transcripts = base.heard
        first = base.places[ranks] if before is None else before
        return cls(
            said=[transcripts.references[rank] for rank in ranks.tolist()],
            before=heard_at(book, first, transcripts.normalizer),
            before_wer=transcripts.rates(book, first, ranks),
            heard=heard_at(book, places, transcripts.normalizer),
            wer=transcripts.rates(book, places, ranks),
            errors=transcripts.errors(book, places, ranks),
            transcripts=transcripts,
        )

    @property
    def alone(self) -> Hearing:
        """The same, compared with nothing."""
        return replace(self, before=None)

    def rows(self, store: Store, seeds: pa.Table, cases: list[Place], originals: list[Place] | None = None) -> AudioRows:
        """The cases to be shown, and what they are compared with: the seeds by default."""
        content = content_of(seeds)
        first = [(content, row) for row in range(len(cases))] if originals is None else originals
        before = Spoken(first, self.before, self.before_wer) if self.before is not None else None
        return AudioRows(store, seeds, self.said, self.transcripts.unit, before, Spoken(cases, self.heard, self.wer))

    def explained(self, row: int, transform: str | None, params: dict[str, Any]) -> str:
        """Why a case failed."""
        found = self.errors
        return explain_speech_case(
            transform,
            params,
            self.transcripts.unit,
            self.said[row],
            None if self.before is None else self.before[row],
            self.heard[row],
            None if self.before is None or np.isnan(self.before_wer[row]) else float(self.before_wer[row]),
            None if np.isnan(self.wer[row]) else float(self.wer[row]),
            (int(found.substitutions[row]), int(found.deletions[row]), int(found.insertions[row])),
        )


@dataclass
class Heard:
    """What was heard under one component, by rank; `measured`: figures that were measured on its clips."""

    errors: WordErrors
    measured: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def nothing(cls, references: list[str]) -> Heard:
        """Nothing was asked yet."""
        return cls(count_errors(references, [""] * len(references)))

    def put(self, ranks: NDArray[np.int64], errors: WordErrors, params: list[dict[str, Any]]) -> None:
        """Takes the cases of some seeds."""
        for item in fields(WordErrors):
            getattr(self.errors, item.name)[ranks] = getattr(errors, item.name)
        for one in params:
            for name, value in one.get(MEASURED, {}).items():
                if isinstance(value, int | float):
                    self.measured[name].append(float(value))


def heard_seconds(base: Baseline) -> float:
    """Of audio in the untouched clips that were answered."""
    return float(base.heard.seconds[base.answered.known].sum())


def clean_errors(base: Baseline, book: AnswerBook) -> WordErrors:
    """The errors in the untouched clips, by rank."""
    return base.heard.errors(book, base.places, np.arange(len(base.places)))


def component_figures(
    tallies: list[Tally], heard: list[Heard], clean: WordErrors, units: NDArray[np.int64]
) -> list[list[Figure]]:
    """WER and, at the end, its rise under every component, over all clips whose case and seed are answered."""
    found = []
    for tally, one in zip(tallies, heard, strict=True):
        used, lost = tally.effective, unheard(clean.take(tally.error & ~clean.silent))
        case = one.errors.take(used)
        figures = wer_figures(case, units[used], tally.slice, lost=lost, component=True)
        found.append(figures + rise_figures(case, clean.take(used), units[used], tally.slice, lost=lost))
    return found


def group_wer(base: Baseline, found: WordErrors, known: NDArray[np.bool_], lost: NDArray[np.bool_]) -> list[Figure]:
    """The figures of the untouched clips, over all that are answered (`known`; `lost`: in error), and every slice's WER."""
    units = base.heard.units
    failed = unheard(found.take(lost & ~found.silent))
    right = rate_of_rows(base.right[known], units[known])
    return [
        *wer_figures(found.take(known), units[known], {}, lost=failed),
        Figure(name="accuracy", estimate=right),
        *slice_figures(base, found, known, units),
    ]


def slice_figures(base: Baseline, found: WordErrors, known: NDArray[np.bool_], units: NDArray[np.int64]) -> list[Figure]:
    """The pooled WER and the accuracy in every slice of every column."""
    figures = []
    for column in base.columns:
        if not 1 < len(column.names) <= MOST_SLICE_VALUES:
            continue
        for code, name in sorted(enumerate(column.names), key=lambda item: item[1]):
            inside = known & (column.codes == code)
            where = {column.name: name}
            figures.append(wer_figures(found.take(inside), units[inside], where)[0])
            figures.append(Figure(name="accuracy", slice=where, estimate=rate_of_rows(base.right[inside], units[inside])))
    return figures


def speech_report(
    base: Baseline, found: WordErrors, known: NDArray[np.bool_], seconds: float, confidence: float
) -> SpeechReport:
    """What stands in every report of speech: the untouched clips, and how they were compared."""
    transcripts = base.heard
    silent = known & found.silent
    return SpeechReport(
        normalizer=transcripts.normalizer,
        unit=transcripts.unit,
        own_reference=transcripts.own,
        speakers_known=0 if transcripts.speakers is None else len(np.unique(transcripts.speakers)),
        bounds_by="speaker" if transcripts.by_speaker else "clip",
        seconds=seconds,
        clean=told(found.take(known), transcripts.units[known], confidence),
        silent_clips=int(silent.sum()),
        hallucinated=int((silent & ~found.empty).sum()),
        hallucinated_words=int(found.insertions[silent].sum()),
    )


def sweeps(
    made: list[Transform],
    tallies: list[Tally],
    heard: list[Heard],
    figures: list[list[Figure]],
    units: NDArray[np.int64],
    confidence: float,
) -> list[Sweep]:
    """The levels of every transform (of every noise of an interference), in the order of the suite; `figures`: those of each
    component (see `component_figures`)."""
    found: dict[tuple[str, str | None], list[tuple[Transform, Level]]] = {}
    for component, tally, one, own in zip(made, tallies, heard, figures, strict=True):
        rise = own[-1].estimate
        low, high = rise.bounds(confidence) or (None, None)
        used = tally.effective
        level = Level(
            strength=component.strength_value,
            errors=told(one.errors.take(used), units[used], confidence),
            rise=rise.value,
            rise_low=low,
            rise_high=high,
            measured={name: float(np.median(values)) for name, values in sorted(one.measured.items())},
        )
        found.setdefault((sweep_name(component), component.strength), []).append((component, level))
    return [
        Sweep(
            transform=name,
            parameter=str(levels[0][0].strength or ""),
            unit=unit_of(levels[0][0]),
            levels=[one for _, one in levels],
        )
        for (name, _), levels in found.items()
    ]


def sweep_name(component: Transform) -> str:
    """The transform, and what else tells it from others but its strength: of an interference its noise."""
    shown = {key: str(value) for key, value in component.slice.items() if key not in ("transform", component.strength)}
    if "recordings" in shown and "noise" not in shown:
        shown["noise"] = f"of {shown['recordings']}"
    return " ".join([component.name, *(value for key, value in shown.items() if key != "recordings")])

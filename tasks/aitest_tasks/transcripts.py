"""What a recogniser heard in the seeds, beside what was said: the baseline of every property of speech."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.answers import AnswerBook
from aitest_lib.config.suite import PropertyConfig
from aitest_lib.metrics.transcripts import DEFAULT_NORMALIZER, Unit, normalized, unit_for
from aitest_lib.metrics.wer import WordErrors, count_errors
from aitest_lib.stats.disparity import TOO_FEW
from aitest_tasks.runs import Run

SPEAKER = "speaker"  # the column that says who speaks, where the data have it


@dataclass(frozen=True, eq=False)
class Transcripts:
    """What was said in each seed, by rank: normalized, empty where nothing was. `own`: there are no transcripts, and what the
    model hears in the untouched clip is taken for them. `speakers`: their number by seed; None without that column."""

    references: list[str]
    normalizer: str
    unit: Unit
    own: bool
    speakers: NDArray[np.int64] | None

    def errors(self, book: AnswerBook, places: NDArray[np.int64], ranks: NDArray[np.int64]) -> WordErrors:
        """The errors in what was heard (answers at `places`; -1, nothing is known: as if nothing was heard) of the seeds of
        `ranks`."""
        heard = heard_at(book, places, self.normalizer)
        return count_errors([self.references[rank] for rank in ranks.tolist()], heard, self.unit)

    def rates(self, book: AnswerBook, places: NDArray[np.int64], ranks: NDArray[np.int64]) -> NDArray[np.float64]:
        """The word error rate of each answer, NaN where there is none. Where nothing was said: 1 if something was heard."""
        found = self.errors(book, places, ranks)
        rates = np.where(found.silent, np.where(found.empty, 0.0, 1.0), found.wer)
        return np.where(places >= 0, rates, np.nan)

    @property
    def by_speaker(self) -> bool:
        """Are there enough speakers to be the unit of intervals; of fewer, these speak of their own clips alone."""
        return self.speakers is not None and len(np.unique(self.speakers)) >= TOO_FEW

    @property
    def units(self) -> NDArray[np.int64]:
        """What counts as independent: the speaker of each seed, else the seed itself."""
        by_speaker = self.by_speaker and self.speakers is not None
        return np.asarray(self.speakers, np.int64) if by_speaker else np.arange(len(self.references))


def heard_at(book: AnswerBook, places: NDArray[np.int64], normalizer: str) -> list[str]:
    """The normalized answers at places, each distinct one normalized once; empty where there is none."""
    known: dict[Any, str] = {None: ""}
    return [
        known[label] if label in known else known.setdefault(label, normalized(label, normalizer))
        for label in book.labels(places).tolist()
    ]


def read_transcripts(
    run: Run,
    book: AnswerBook,
    config: PropertyConfig,
    places: NDArray[np.int64],
    labels: list[Any] | None,
    speakers: list[Any] | None,
) -> Transcripts:
    """What was said in the seeds whose answers stand at `places`; `labels`: their transcripts; `speakers`: who says it, each
    unknown one a speaker alone."""
    normalizer = config.normalizer or DEFAULT_NORMALIZER
    speech = run.card.card.inputs.speech if run.record["card"] else None
    if labels is None:
        references = heard_at(book, places, normalizer)
    else:
        references = [normalized(one, normalizer) for one in labels]
    return Transcripts(
        references=references,
        normalizer=normalizer,
        unit=config.unit or unit_for(speech.language if speech is not None else None),
        own=labels is None,
        speakers=None if speakers is None else _numbered(speakers),
    )


def _numbered(speakers: list[Any]) -> NDArray[np.int64]:
    known: dict[Any, int] = {}
    return np.array([known.setdefault((place,) if one is None else one, len(known)) for place, one in enumerate(speakers)])

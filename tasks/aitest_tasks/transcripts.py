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
from aitest_tasks.seed_tables import SPEAKER


@dataclass(frozen=True, eq=False)
class Transcripts:
    """What was said in each seed, by rank: normalized, empty where nothing was. `own`: there are no transcripts, and what the
    model hears in the untouched clip is taken for them. `speakers`: their number by seed; None where nobody knows all of them,
    and `unknown` says why. `clips`: a number for each clip, equal ones alike; `seconds` of each."""

    references: list[str]
    normalizer: str
    unit: Unit
    own: bool
    speakers: NDArray[np.int64] | None
    unknown: str | None
    clips: NDArray[np.int64]
    seconds: NDArray[np.float64]

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
        """What counts as independent: the speaker of each seed, else its clip, of which a copy says nothing new."""
        return self.speakers if self.by_speaker and self.speakers is not None else self.clips


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
    speakers: list[int],
    digests: NDArray[np.void],
    seconds: list[float],
) -> Transcripts:
    """What was said in the seeds whose answers stand at `places`; `labels`: their transcripts; `speakers`: numbers, -1 unknown,
    none where the data do not say; `digests`: of the clips."""
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
        speakers=_numbered(speakers) if speakers and min(speakers) >= 0 else None,
        unknown=_unknown(speakers),
        clips=_numbered(digests.tolist()),
        seconds=np.array(seconds),
    )


def _unknown(speakers: list[int]) -> str | None:
    """Why nobody knows the speakers, None where they are known."""
    if not speakers:
        return f"nobody knows which clips are of one speaker: the data have no column `{SPEAKER}`"
    absent = sum(one < 0 for one in speakers)
    if not absent:
        return None
    return f"nobody knows who speaks in {absent:,} of {len(speakers):,} clips: fill in the column `{SPEAKER}`"


def _numbered(values: list[Any]) -> NDArray[np.int64]:
    """The same as numbers in the order of their first places."""
    known: dict[Any, int] = {}
    return np.array([known.setdefault(one, len(known)) for one in values], np.int64)

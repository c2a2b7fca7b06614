"""Word errors: substitutions, deletions and insertions of pairs of transcripts (jiwer), pooled, with intervals by cluster.

The texts come normalized (`transcripts.normalized`). A reference without a word has no rate: it stands apart (`silent`), with
the words that were heard in it.

A pooled rate is a ratio of sums, so its variance is that of its linearisation over clusters (speakers, or clips). As with
shares (`stats.clusters`), something imagined that fails as a whole joins the variance, not the value: one clip. (A whole
speaker would be too much: with 20 speakers the bounds never missed, and the interval was twice as wide.) The bounds are score
bounds of a count (errors per word may be more than 1), with the effective number of words that this variance gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from aitest_lib.errors import InputError
from aitest_lib.metrics.transcripts import Unit, tokens
from aitest_lib.reports.records import Errors
from aitest_lib.stats.estimates import Estimate, bisect, t_quantile, undefined

if TYPE_CHECKING:
    import jiwer
    from numpy.typing import ArrayLike

Kind = Literal["equal", "substitute", "delete", "insert"]
Aligned = tuple[str | None, str | None, Kind]

NO_WORDS = "there is no word in the references"
ONE_CLUSTER = "one speaker or clip alone has no interval"

_KINDS: dict[str, Kind] = {"equal": "equal", "substitute": "substitute", "delete": "delete", "insert": "insert"}
_COLUMNS = {kind: column for column, kind in enumerate(_KINDS)}


@dataclass(frozen=True, kw_only=True, eq=False)
class WordErrors:
    """What was misheard in n pairs of transcripts; all int64 (n,).

    `words`: of the reference (characters where these are the unit), `hits` + `substitutions` + `deletions`; `characters`: of
    the reference without spaces, `character_errors` in them.
    """

    words: NDArray[np.int64]
    hits: NDArray[np.int64]
    substitutions: NDArray[np.int64]
    deletions: NDArray[np.int64]
    insertions: NDArray[np.int64]
    characters: NDArray[np.int64]
    character_errors: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.words)

    @property
    def errors(self) -> NDArray[np.int64]:
        """Substitutions, deletions and insertions, (n,)."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def wer(self) -> NDArray[np.float64]:
        """Errors by words, float64 (n,), at least 0 and not capped at 1; NaN where the reference has no word."""
        return np.where(self.silent, np.nan, self.errors / np.maximum(self.words, 1))

    @property
    def silent(self) -> NDArray[np.bool_]:
        """Where the reference has no word, (n,): all that was heard there (`insertions`) was made up."""
        return np.equal(self.words, 0)

    @property
    def empty(self) -> NDArray[np.bool_]:
        """Where no word was heard, (n,)."""
        heard: NDArray[np.int64] = self.words - self.deletions + self.insertions
        return np.equal(heard, 0)

    def take(self, places: NDArray[np.intp] | NDArray[np.bool_]) -> WordErrors:
        """The pairs at these places, or where a mask (n,) is true."""
        return WordErrors(**{field.name: getattr(self, field.name)[places] for field in fields(self)})

    def pooled(self, mask: NDArray[np.bool_] | None = None) -> Errors:
        """All pairs (or those of a mask, (n,)) with words in their references together; without bounds, see `pooled_rate`."""
        kept = ~self.silent if mask is None else ~self.silent & mask
        some = self.take(kept)
        words, characters = int(some.words.sum()), int(some.characters.sum())
        rates = some.wer
        return Errors(
            clips=len(some),
            words=words,
            substitutions=int(some.substitutions.sum()),
            deletions=int(some.deletions.sum()),
            insertions=int(some.insertions.sum()),
            wer=int(some.errors.sum()) / words if words else None,
            mean_wer=float(rates.mean()) if words else None,
            median_wer=float(np.median(rates)) if words else None,
            cer=int(some.character_errors.sum()) / characters if characters else None,
            perfect=int((some.errors == 0).sum()),
            empty=int(some.empty.sum()),
        )


def count_errors(references: Sequence[str], hypotheses: Sequence[str | None], unit: Unit = "word") -> WordErrors:
    """The errors of n pairs: what was said, and what was heard (None: nothing, all of it is deleted).

    Minimum edit distance through jiwer; pairs that are the same are counted once. Lists of other lengths, or with anything
    but text, are an `InputError`.
    """
    pairs = _pairs(references, hypotheses)
    distinct = list(dict.fromkeys(pairs))
    place = {pair: at for at, pair in enumerate(distinct)}
    rows = np.fromiter((place[pair] for pair in pairs), np.intp, len(pairs))
    counts = _counts(distinct, unit)
    characters = counts if unit == "character" else _counts(distinct, "character")
    hits, substitutions, deletions, insertions = counts[rows].T
    return WordErrors(
        words=hits + substitutions + deletions,
        hits=hits,
        substitutions=substitutions,
        deletions=deletions,
        insertions=insertions,
        characters=characters[rows, :3].sum(axis=1),
        character_errors=characters[rows, 1:].sum(axis=1),
    )


def align(reference: str, hypothesis: str | None, unit: Unit = "word") -> list[Aligned]:
    """What was said beside what was heard, one word (or character) each, in order: (said, heard, kind), None where missing."""
    said, heard = tokens(reference, unit), tokens(hypothesis or "", unit)
    aligned: list[Aligned] = []
    for chunk in _chunks([(" ".join(said), " ".join(heard))])[0]:
        kind, first, last, start, end = _KINDS[chunk.type], *_spans(chunk)
        length = max(last - first, end - start)
        left: list[str | None] = [*said[first:last]] or [None] * length
        right: list[str | None] = [*heard[start:end]] or [None] * length
        aligned += [(one, other, kind) for one, other in zip(left, right, strict=True)]
    return aligned


def pooled_rate(errors: ArrayLike, words: ArrayLike, clusters: ArrayLike) -> Estimate:
    """The pooled rate sum(errors) / sum(words), at least 0, of n clips with its interval by cluster; `n` is their number.

    `errors`, `words`: counts (n,) at least 0; `clusters`: (n,) names or numbers of what the clips share (speaker; else each
    clip its own). Ratio estimator with linearised variance over clusters (Cochran 1977, Sampling techniques, chapter 6), t
    quantile. Clips without words are left out; one cluster alone has no interval. Without any error in n clips the upper
    bound is about 3 / n.
    """
    (wrong, spoken), clips, total = _by_cluster([errors], words, clusters)
    count = len(spoken)
    if count == 0:
        return undefined(NO_WORDS)
    rate = float(wrong.sum() / clips)
    if count == 1:
        return Estimate(value=rate, n=1, reason=ONE_CLUSTER)
    with_imagined = (float(wrong.sum()) + 1) / (clips + 1)
    residuals = np.append(wrong, 1.0) - with_imagined * np.append(spoken, 1.0)
    effective = min(_effective(with_imagined, residuals, count, clips), total)
    interval = partial(_rate_interval, rate, effective, count - 1)
    return Estimate(value=rate, n=count, interval=interval, effective_n=effective if rate <= 1 else None)


def pooled_rise(case_errors: ArrayLike, clean_errors: ArrayLike, words: ArrayLike, clusters: ArrayLike) -> Estimate:
    """The difference of two pooled rates of the same n references, sum(case_errors - clean_errors) / sum(words).

    Clips with a transform against the same clips as they are, or one voice against another with the same texts: whatever two
    cases share (seed, speaker, text) belongs to one cluster. `n` is the number of clusters. Linearised variance as in
    `pooled_rate`; score bounds of the difference of two counts: Tango's (`intervals.paired_difference`) for rates that have
    no upper end.
    """
    (case, clean, spoken), clips, total = _by_cluster([case_errors, clean_errors], words, clusters)
    count = len(spoken)
    if count == 0:
        return undefined(NO_WORDS)
    changes = case - clean
    rise = float(changes.sum() / clips)
    if count == 1:
        return Estimate(value=rise, n=1, reason=ONE_CLUSTER)
    differing = float(np.abs(changes).sum())
    # Half an imagined clip fails in the first alone, half in the second alone, so that they favour neither.
    residuals = np.append(changes - rise * spoken, 1.0)
    effective = min(_effective((differing + 1) / (clips + 1), residuals, count, clips), total)
    interval = partial(_rise_interval, differing / clips, rise, effective, count - 1)
    return Estimate(value=rise, n=count, interval=interval)


def _pairs(references: Sequence[str], hypotheses: Sequence[str | None]) -> list[tuple[str, str]]:
    if len(references) != len(hypotheses):
        raise InputError(f"got {len(references)} references and {len(hypotheses)} transcripts, expected one for each reference")
    pairs = [(said, "" if heard is None else heard) for said, heard in zip(references, hypotheses, strict=True)]
    for at, pair in enumerate(pairs):
        for side in pair:
            if not isinstance(side, str):
                raise InputError(f"pair {at}: got {type(side).__name__}, expected text; leave out clips without a transcript")
    return pairs


def _counts(pairs: list[tuple[str, str]], unit: Unit) -> NDArray[np.int64]:
    """Hits, substitutions, deletions and insertions, (pairs, 4)."""
    counts = np.zeros((len(pairs), len(_COLUMNS)), np.int64)
    joined = [(" ".join(tokens(said, unit)), " ".join(tokens(heard, unit))) for said, heard in pairs]
    for row, chunks in zip(counts, _chunks(joined), strict=True):
        for chunk in chunks:
            first, last, start, end = _spans(chunk)
            row[_COLUMNS[chunk.type]] += max(last - first, end - start)
    return counts


def _chunks(pairs: list[tuple[str, str]]) -> list[list[jiwer.AlignmentChunk]]:
    """Runs of one kind in the alignment of each pair of lines, whose units stand between single spaces."""
    import jiwer

    if not pairs:
        return []
    return jiwer.process_words([said for said, _ in pairs], [heard for _, heard in pairs]).alignments


def _spans(chunk: jiwer.AlignmentChunk) -> tuple[int, int, int, int]:
    return chunk.ref_start_idx, chunk.ref_end_idx, chunk.hyp_start_idx, chunk.hyp_end_idx


def _by_cluster(
    counts: Sequence[ArrayLike], words: ArrayLike, clusters: ArrayLike
) -> tuple[list[NDArray[np.float64]], int, float]:
    """Counts, then words, summed by cluster and scaled to a mean of one word a clip; the clips with words; all words."""
    rows = [np.asarray(row, np.float64) for row in (*counts, words)]
    members = np.asarray(clusters)
    if any(row.shape != members.shape or row.ndim != 1 for row in rows):
        raise InputError(f"got counts {[row.shape for row in rows]} and clusters {members.shape}, expected one of each a clip")
    if any(not (np.isfinite(row) & (row >= 0)).all() for row in rows):
        raise InputError("got a count that is missing or below 0, expected numbers from 0; check how the errors are counted")
    spoken = rows[-1] > 0
    codes = np.unique(members[spoken], return_inverse=True)[1]
    clips, total = int(spoken.sum()), float(rows[-1].sum())
    scale = clips / max(total, 1.0)
    return [(np.bincount(codes, row[spoken]) * scale).astype(np.float64) for row in rows], clips, total


def _effective(level: float, residuals: NDArray[np.float64], clusters: int, clips: int) -> float:
    """Effective number of words: with so many, a Poisson count of `level` a word varies as the residuals of the clusters do."""
    squares = float(residuals @ residuals)
    return level / (clusters / (clusters - 1) * squares / clips**2) if squares > 0 else math.inf


def _rate_interval(rate: float, effective: float, degrees: int, confidence: float) -> tuple[float, float]:
    """Score bounds of a Poisson rate: where (rate - bound)^2 = quantile^2 bound / effective."""
    square = t_quantile(confidence, degrees) ** 2 / effective
    half = math.sqrt(square * rate + square * square / 4)
    return max(0.0, rate + square / 2 - half), rate + square / 2 + half


def _rise_interval(differing: float, rise: float, effective: float, degrees: int, confidence: float) -> tuple[float, float]:
    quantile = t_quantile(confidence, degrees)
    reach = 4 * (quantile * quantile / effective + quantile * math.sqrt(differing / effective))
    low = bisect(lambda bound: _rise_score(differing, rise, effective, bound) < quantile, rise, rise - reach)
    high = bisect(lambda bound: _rise_score(differing, rise, effective, bound) > -quantile, rise, rise + reach)
    return low, high


def _rise_score(differing: float, rise: float, effective: float, bound: float) -> float:
    """Score statistic of "the difference of two Poisson rates is `bound`": decreasing in it, 0 at the observed one."""
    if bound == rise:
        return 0.0
    # The likeliest rate of "worse" and "better" together under the constraint: the positive root of a square.
    middle = bound * bound + differing * differing / 4 - bound * rise
    both = differing / 2 + math.sqrt(max(middle, 0.0))
    return (rise - bound) / math.sqrt(both / effective) if both > 0 else math.copysign(math.inf, rise - bound)

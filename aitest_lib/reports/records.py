"""What a report is made of: the base of its records, those of an adversarial search, and those of speech."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Record(BaseModel):
    """A part of a report: no unknown keys, no infinities."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, protected_namespaces=())


class CurvePoint(Record):
    """Of the attacked images, `broken` within `queries` each: `rate` with one-sided bounds."""

    queries: int
    broken: int
    rate: float
    low: float
    high: float


class SearchCurve(Record):
    """What one method did to the attacked images: `attacked` those whose search has begun and was answered, `broken` of them;
    `unfinished`: not begun, or ended by the run's budget, its time limit or errors. `median_queries`: of the broken
    ones; `queries`: asked in all."""

    method: str
    baseline: bool
    attacked: int
    broken: int
    unfinished: int
    points: list[CurvePoint]
    median_queries: float | None
    queries: int


class ClassAttack(Record):
    """Of the attacked images of a label, those that were broken."""

    label: str
    attacked: int
    broken: int


class AdversarialReport(Record):
    """An adversarial search: at most `queries` a seed, noise of at most `levels` of 255 grey levels (`delta` of the range 0 to
    1) in any channel of any pixel. `curves`: the search's own first, then those of the baselines; `classes`: worst first.
    `norms[i]`: broken images whose noise reaches i + 1 grey levels, as stored. `votes`: of how many answers a success needs the
    majority (1: the model answers alike)."""

    method: str
    delta: float
    levels: int
    queries: int
    labels_only: bool
    votes: int = 1
    right: int  # seeds that the model gets right: those that are attacked
    wrong: int  # seeds that it gets wrong untouched
    curves: list[SearchCurve]
    classes: list[ClassAttack] = Field(default_factory=list)
    norms: list[int] = Field(default_factory=list)
    stopped: str | None = None  # why searches are unfinished


class Errors(Record):
    """What was misheard in `clips` clips with `words` words in their references: substituted, deleted and inserted words.
    `wer` = (substitutions + deletions + insertions) / words, pooled, with one-sided bounds; `mean_wer` and `median_wer`: over
    clips; `cer`: of characters, pooled; `perfect` and `empty`: clips without an error, and without a word heard. Rates are
    None where there are no words. Clips without a word in their references are left out of all of these."""

    clips: int
    words: int
    substitutions: int
    deletions: int
    insertions: int
    wer: float | None
    low: float | None = None
    high: float | None = None
    mean_wer: float | None = None
    median_wer: float | None = None
    cer: float | None = None
    perfect: int = 0
    empty: int = 0


class Level(Record):
    """What was heard at one strength of a transform. `rise`: pooled WER minus that of the same clips as they are, with
    one-sided bounds; `measured`: median of each figure that was measured on the clips."""

    strength: float | None
    errors: Errors
    rise: float | None = None
    rise_low: float | None = None
    rise_high: float | None = None
    measured: dict[str, float] = Field(default_factory=dict)


class Sweep(Record):
    """A transform (one noise of an interference) at its strengths, weak to strong: `parameter` in its `unit`, both empty where
    it has no strength."""

    transform: str  # as shown: `white_noise`, `interference rain`
    parameter: str = ""
    unit: str = ""
    levels: list[Level]


class SpeakerErrors(Record):
    """A speaker, or a voice of a text-to-speech engine, with its groups by attribute. `excluded`: why it is left out of its
    groups; `note`: what else is to be known of it."""

    name: str
    groups: dict[str, str]
    errors: Errors
    excluded: str | None = None
    note: str | None = None


class GroupErrors(Record):
    """A group of speakers, beside the `reference` group of its attribute: `gap` = pooled WER minus the reference's, `ratio` =
    pooled WER by the reference's, both with one-sided bounds by a studentised permutation of speakers (None: no bounds);
    `p_value`: two-sided, of no gap at all, Holm-corrected over the groups of the attribute."""

    name: str
    speakers: int
    errors: Errors
    reference: bool = False
    gap: float | None = None
    gap_low: float | None = None
    gap_high: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    p_value: float | None = None


class Disparity(Record):
    """The groups of one attribute (gender, accent), best served first. `unjudged`: why nothing can be said of the groups as
    such (fewer than 5 speakers in one: "these voices differ")."""

    attribute: str
    groups: list[GroupErrors]
    unjudged: str | None = None


class SpeechReport(Record):
    """How speech was heard. `unit`: word, or character where words are not set apart by spaces. `own_reference`: without
    transcripts, the model's own words on the untouched clip are the reference. `silent_clips`: clips without a word in their
    reference, in `hallucinated` of which words were heard (`hallucinated_words` in all). `speakers_known`:
    how many speakers the data name; `bounds_by`: what counts as independent in the bounds. `synthetic`: the voices are those
    of an engine."""

    normalizer: str
    unit: Literal["word", "character"]
    own_reference: bool = False
    speakers_known: int = 0
    bounds_by: Literal["speaker", "clip"] = "clip"
    seconds: float = 0.0  # of audio in the untouched clips
    clean: Errors
    silent_clips: int = 0
    hallucinated: int = 0
    hallucinated_words: int = 0
    sweeps: list[Sweep] = Field(default_factory=list)
    speakers: list[SpeakerErrors] = Field(default_factory=list)
    disparities: list[Disparity] = Field(default_factory=list)
    synthetic: bool = False


class Word(Record):
    """A place in an alignment of two transcripts: equal, substituted, deleted (nothing heard) or inserted (nothing said)."""

    said: str | None
    heard: str | None
    kind: Literal["equal", "substitute", "delete", "insert"]


class Sound(Record):
    """A clip to be played: `src` a data URI of MP3, `spectrogram` one of a PNG, `seconds` of the clip as it was sent; `words`:
    what was said beside what was heard in it, `wer` of that."""

    title: Literal["seed", "case"]
    src: str = Field(pattern=r"^data:audio/mpeg;base64,[A-Za-z0-9+/]+=*$")
    spectrogram: str = Field(pattern=r"^data:image/png;base64,[A-Za-z0-9+/]+=*$")
    seconds: float
    alt: str
    words: list[Word] = Field(default_factory=list)
    wer: float | None = None
    note: str = ""

"""Searches on many images side by side: one candidate of each image a round, so that the model is asked in batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from aitest_lib.canonical import array_digest
from aitest_lib.searches.image.base import Image, ImageSearch, Moves, Noise, Reply, Seed, Together, Try

End = Literal["broken", "resisted", "exhausted", "unanswered", "unpaid", "late"]
COLOURS = 3
AT_ONCE = 16  # images that advance together: what more of them yield would not stay in the caches
STUBBORN = 1_000  # tries in a row that were tried before: the search has nothing left to try
SILENT = 10  # queries in a row without a usable answer: the model does not answer such images
UNKNOWN = Reply(np.nan, False)


@dataclass(frozen=True, eq=False)
class Candidate:
    """An image to ask. `place`: of its seed; `repeat`: 0, or which repeat of a query to a model that answers by chance;
    `digest` (hex) as that of any image."""

    place: int
    image: Image
    repeat: int
    digest: str

    @property
    def key(self) -> tuple[str, int]:
        """What is asked: equal for equal images and repeats."""
        return self.digest, self.repeat


@dataclass
class Attempt:
    """How the search on one image stands. `queries`: asked so far; `unanswered`: those of them without a usable answer;
    `image`: the adversarial one, else the one with the smallest margin within the ball; `found`: the number of the query that
    first asked it; `margin` of it."""

    seed: Image
    queries: int = 0
    unanswered: int = 0
    image: Image | None = None
    found: int | None = None
    margin: float = np.inf
    end: End | None = None

    @property
    def norm(self) -> int:
        """Largest change of a pixel's channel in `image`, in grey levels."""
        return 0 if self.image is None else int(np.abs(self.image.astype(np.int16) - self.seed).max(initial=0))


@dataclass
class _Run:
    """The coroutine of one image with what it waits for."""

    moves: Moves
    known: dict[str, Reply]
    value: Any = None  # what it gets next
    started: bool = False
    stubborn: int = 0
    trying: Candidate | None = None
    in_ball: bool = True
    reply: Reply = UNKNOWN  # the first to what is tried
    asked: int = 0  # the number of the query that got it
    votes: list[bool] = field(default_factory=list)
    silent: int = 0  # queries without a usable answer since the last one that had one


class Attack:
    """The searches on n images, by turns `ask` and `tell`. No model inside.

    `images`: (height, width, channels) uint8, of any sizes; `margins`: of the model's answers to them, all of which are right;
    `rngs`: a generator each. `votes`: 1, or of how many answers a success needs the majority, where the model answers by
    chance; each costs a query. No image costs more than `search.queries`, and no image's course depends on another's.
    """

    def __init__(
        self,
        search: ImageSearch,
        images: Sequence[Image],
        margins: Sequence[float],
        rngs: Iterable[np.random.Generator],
        votes: int = 1,
    ) -> None:
        self.search = search
        self.attempts = [Attempt(image) for image in images]
        self._votes = votes
        self._runs = []
        for image, margin, rng in zip(images, margins, rngs, strict=True):
            seed = Seed(image[..., :COLOURS], search.radius, 1.0 if search.labels_only else float(margin))
            self._runs.append(_Run(search.moves(seed, rng), {array_digest(image): Reply(seed.margin, False)}))

    @property
    def active(self) -> list[int]:
        """The places of images whose search has not ended."""
        return [place for place, attempt in enumerate(self.attempts) if attempt.end is None]

    def ask(self) -> list[Candidate]:
        """The next candidate of every image whose search has not ended; empty where all have."""
        waiting = [place for place in self.active if self._runs[place].trying is None]
        for start in range(0, len(waiting), AT_ONCE):
            self._advance(waiting[start : start + AT_ONCE])
        return [run.trying for place in self.active if (run := self._runs[place]).trying is not None]

    def _advance(self, waiting: list[int]) -> None:
        """Runs coroutines up to their next candidates."""
        while waiting:
            together: dict[type[Together], list[tuple[int, Together]]] = defaultdict(list)
            for place in waiting:
                wish = self._next(place)
                if wish is not None:
                    together[type(wish)].append((place, wish))
            waiting = []
            for kind, wishes in together.items():
                for (place, _), result in zip(wishes, kind.solve([wish for _, wish in wishes]), strict=True):
                    self._runs[place].value = result
                    waiting.append(place)

    def tell(self, candidates: Sequence[Candidate], replies: Sequence[Reply]) -> None:
        """What the model made of the candidates that were asked."""
        for candidate, reply in zip(candidates, replies, strict=True):
            run, attempt = self._runs[candidate.place], self.attempts[candidate.place]
            asked = run.trying
            if asked is None or (candidate.digest, candidate.repeat) != (asked.digest, asked.repeat):
                raise ValueError("got an answer to a candidate that was not asked")
            attempt.queries += 1
            silent = bool(np.isnan(reply.margin))
            attempt.unanswered += silent
            run.silent = run.silent + 1 if silent else 0
            if candidate.repeat == 0:
                run.reply, run.asked = reply, attempt.queries
            run.votes.append(reply.broken)
            self._settle(asked, attempt, run)

    def give_up(self, place: int, end: End) -> None:
        """Ends the search on an image for a reason that is not its own: nobody pays for it, or it is late."""
        self._end(place, end)

    def _settle(self, candidate: Candidate, attempt: Attempt, run: _Run) -> None:
        """After an answer: another vote, a success, the next move, or the end."""
        reply, in_doubt = run.reply, run.reply.broken and run.in_ball
        majority, broken, left = self._votes // 2 + 1, sum(run.votes), self._votes - len(run.votes)
        spent = attempt.queries >= self.search.queries
        if in_doubt and broken < majority <= broken + left and not spent:
            run.trying = replace(candidate, repeat=candidate.repeat + 1)
            return
        success = in_doubt and broken >= majority
        if in_doubt and not success:
            # A majority that holds overrules the first answer, and so do votes that nothing is left for.
            reply = Reply(min(abs(reply.margin), 1.0), False)
        run.known[candidate.digest] = reply
        if success or (run.in_ball and reply.margin < attempt.margin):
            attempt.image, attempt.margin, attempt.found = candidate.image, reply.margin, run.asked
        run.value, run.trying = reply, None
        if success:
            self._end(candidate.place, "broken")
        elif spent:
            self._end(candidate.place, "resisted")
        elif run.silent >= SILENT:
            self._end(candidate.place, "unanswered")

    def _end(self, place: int, end: End) -> None:
        """An image of which no query was answered has not resisted anything."""
        attempt, run = self.attempts[place], self._runs[place]
        silent = attempt.unanswered == attempt.queries > 0 and end in ("resisted", "exhausted")
        attempt.end = "unanswered" if silent else end
        run.trying = None
        run.moves.close()

    def _next(self, place: int) -> Together | None:
        """Runs a coroutine up to its next candidate, or to something that is better done for many images at once."""
        run = self._runs[place]
        while True:
            try:
                wish = run.moves.send(run.value if run.started else None)
            except StopIteration:
                self._end(place, "exhausted")
                return None
            run.started = True
            if not isinstance(wish, Try):
                return wish
            image = with_noise(self.attempts[place].seed, wish.noise)
            digest = array_digest(image)
            if digest not in run.known:
                run.trying, run.votes, run.stubborn = Candidate(place, image, 0, digest), [], 0
                run.in_ball = self._within(place, image)
                return None
            run.value = run.known[digest]
            run.stubborn += 1
            if run.stubborn >= STUBBORN:
                self._end(place, "exhausted")
                return None

    def _within(self, place: int, image: Image) -> bool:
        difference = np.abs(image.astype(np.int16) - self.attempts[place].seed)
        return int(difference.max(initial=0)) <= self.search.radius


def with_noise(image: Image, noise: Noise) -> Image:
    """The image with noise on its colours, clipped to 0..255; an alpha channel stays as it is."""
    changed = image.copy()
    colours = changed[..., :COLOURS]
    colours[:] = np.clip(image[..., :COLOURS] + noise, 0, 255)
    return changed

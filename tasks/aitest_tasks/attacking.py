"""An adversarial search on a chunk of seeds: ask, query and tell in turns, every answer kept before the next is asked.

What is kept is the checkpoint: after an interruption the search is taken up by giving it the kept answers again, which costs
no query. The answers of one step are a segment of their own; when the chunk is done, one segment takes the place of them all.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from prefect import task

from aitest_lib.answers import AnswerBook, write_segment
from aitest_lib.artifacts.codecs import get_table, put_table
from aitest_lib.artifacts.images import get_images, put_images
from aitest_lib.registry import component_class
from aitest_lib.rng import rng_for
from aitest_lib.scorers.oracle import Classes
from aitest_lib.searches.image.attack import Attack, Attempt, Candidate
from aitest_lib.searches.image.base import Image, Reply
from aitest_lib.searches.image.margins import replies
from aitest_lib.types import ArtifactRef, Predictions
from aitest_tasks import live
from aitest_tasks.asked_together import Answer, Shared, shared
from aitest_tasks.contents import content_of, with_content
from aitest_tasks.image_cases import image_digests
from aitest_tasks.querying import add_errors, answer_book, ask, await_stream, error_reasons, run_errors
from aitest_tasks.runs import Run, open_run
from aitest_tasks.seed_tables import DIGEST, RANK, SEED_ID

CHUNK = 64  # seeds of a chunk: what one call of the model gets at most, and what two workers can share
END, QUERIES, UNANSWERED, FOUND, NORM, REASON = "end", "queries", "unanswered", "found", "norm", "reason"
BROKE_OFF = "broke_off"  # the search itself broke, whatever the model
SEARCH = "search"  # the stage of the progress bar


@task(name="attack_seeds", persist_result=False)
def attack_seeds(run_uri: str, shard: dict[str, Any], property_name: str) -> dict[str, Any]:
    """Searches on the seeds of a chunk (see `attack_plans.wave`). Returns what was sent and how many errors that made, how many
    of the searches `ended`, the table of how each ended, and the digests of all that was asked or known before."""
    live.check_stopped()
    run = open_run(run_uri)
    with live.running():  # a worker of a Dask cluster takes no other part in the run
        await_stream(run)
        return _Chunk.of(run, run.store.get_json(ArtifactRef.of(shard)), property_name).searched()


def chunk_lost(run: Run, shard: dict[str, Any], reason: str) -> dict[str, Any]:
    """A chunk whose task broke: every seed of it that was not done gets the reason."""
    plan = run.store.get_json(ArtifactRef.of(shard))
    seeds, images = _seeds(run, plan)
    attempts = [Attempt(image) for image in images]
    digests = run.store.put(b"", "digests", 0).to_dict()
    part = _table(run, seeds, attempts, [reason] * len(attempts), keep=False)
    return {"sent": 0, "errors": len(attempts), "again": 0, "ended": len(attempts), "part": part.to_dict(), "digests": digests}


@dataclass
class _Chunk:
    """The search on some seeds. `right`: codes of their classes; `known`: what the chunks of this process know of the model."""

    run: Run
    name: str
    plan: dict[str, Any]
    seeds: pa.Table
    attack: Attack
    classes: Classes
    right: NDArray[np.float64]
    known: Shared
    reasons: dict[int, str] = field(default_factory=dict)  # by place: the last error
    sent: int = 0
    errors: int = 0
    again: int = 0  # repeats of a query, which are no new inputs
    left: list[int] | None = None  # queries that are still paid for, by place
    segments: list[tuple[str, int, NDArray[np.void], Predictions]] = field(default_factory=list)  # of this chunk
    error_files: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, run: Run, plan: dict[str, Any], name: str) -> _Chunk:
        made: Any = component_class(plan["search"]["name"], "search")
        search = made(**plan["search"]["parameters"])
        seeds, images = _seeds(run, plan)
        rng = partial(rng_for, run.suite.suite.random_seed, search.key)
        rngs = [rng(seed_id) for seed_id in seeds.column(SEED_ID).to_pylist()]
        attack = Attack(search, images, plan["margins"], rngs, votes=plan["votes"])
        left = None if plan["allowances"] is None else list(plan["allowances"])
        known = shared(run, plan["wave"])
        known.put({(digest, 0): Answer(None, None, why) for digest, why in run_errors(run).items()})
        classes = Classes(tuple(plan["classes"]))
        return cls(run, name, plan, seeds, attack, classes, np.array(plan["right"], float), known, left=left)

    def searched(self) -> dict[str, Any]:
        """Works through all searches."""
        books = [answer_book(self.run, repeat) for repeat in range(self.plan["votes"])]
        asked: set[str] = set()
        while candidates := self.attack.ask():
            live.check_stopped()
            if self.plan["deadline"] is not None and time.time() > self.plan["deadline"]:
                for place in self.attack.active:
                    self.attack.give_up(place, "late")
                break
            for repeat, book in enumerate(books):
                self._look_up(book, [one for one in candidates if one.repeat == repeat])
            self._ask(self._paid([one for one in candidates if one.key not in self.known]))
            told = [one for one in candidates if one.key in self.known]
            asked.update(one.digest for one in told)
            self._tell(told)
        self._merge()
        part = _table(self.run, self.seeds, self.attack.attempts, self._why(), keep=self.plan["keep"])
        found = b"".join(bytes.fromhex(digest) for digest in sorted(asked))
        return {
            "sent": self.sent,
            "errors": self.errors,
            "again": self.again,
            "ended": sum(one.end != "unpaid" for one in self.attack.attempts),
            "part": part.to_dict(),
            "digests": self.run.store.put(found, "digests", len(asked)).to_dict(),
        }

    def _look_up(self, book: AnswerBook, candidates: Sequence[Candidate]) -> None:
        """Adds what the store knew of these candidates when the chunk began."""
        if not candidates:
            return
        places = book.find(_void(candidates))
        labels = book.labels(places)
        found = {}
        for one, place, label in zip(candidates, places.tolist(), labels, strict=True):
            if place >= 0:
                found[one.key] = Answer(label, None if book.scores is None else book.scores[place], None)
        self.known.put(found)

    def _paid(self, missing: list[Candidate]) -> list[Candidate]:
        """Those of the candidates that the budget pays for; the searches of the others end here."""
        if self.left is None:
            return missing
        paid = []
        for one in missing:
            if self.left[one.place] or one.repeat:  # a repeat is no new input
                self.left[one.place] -= one.repeat == 0
                paid.append(one)
            else:
                self.attack.give_up(one.place, "unpaid")
        return paid

    def _ask(self, missing: list[Candidate]) -> None:
        """Puts candidates to the model, of equal ones the first and of those that another chunk is asking none, and keeps the
        answers."""
        for repeat in sorted({one.repeat for one in missing}):
            wanted = {one.key: one for one in missing if one.repeat == repeat}
            with self.known.claimed(wanted) as mine:
                if mine:
                    self._ask_batch([wanted[key] for key in mine], repeat)
        self.known.wait_for({one.key for one in missing}, live.check_stopped)

    def _ask_batch(self, batch: list[Candidate], repeat: int) -> None:
        digests = _void(batch)
        answers, segment = ask(self.run, [one.image for one in batch], digests, repeat)
        if segment is not None:
            self.segments.append((segment, repeat, digests, answers))
        if repeat:
            self.again += len(batch)
        else:
            reasons = error_reasons(digests, answers)
            path = add_errors(self.run, reasons)
            self.error_files += [path] if path else []
            self.sent += len(batch)
            self.errors += len(reasons)
        found = {}
        for at, one in enumerate(batch):
            why = answers.errors[at]
            scores = None if answers.scores is None else answers.scores[at]
            found[one.key] = Answer(answers.labels[at], scores, None if why is None else str(why))
        self.known.put(found)

    def _tell(self, told: list[Candidate]) -> None:
        """Tells the searches what the model said, and the listeners how far that is of all that the searches may ask."""
        queries, before = self.attack.search.queries, self.attack.active
        self.attack.tell(told, self._replies(told))
        saved = sum(queries - self.attack.attempts[place].queries for place in set(before) - set(self.attack.active))
        if not self.run.pool:
            live.advance(self.name, self.plan["stage"], len(told) + saved, self.plan["total"] * queries)

    def _replies(self, told: list[Candidate]) -> list[Reply]:
        answers = [self.known[one.key] for one in told]
        for one, answer in zip(told, answers, strict=True):
            if answer.error is not None:
                self.reasons[one.place] = answer.error
        codes = self.classes.codes([answer.label for answer in answers]).astype(float)
        codes[[answer.error is not None for answer in answers]] = np.nan
        right = self.right[[one.place for one in told]]
        width = len(self.classes.labels)
        blank = np.full(width, np.nan)
        fits = [answer.scores is not None and len(answer.scores) == width for answer in answers]
        scores = np.array([answer.scores if fit else blank for answer, fit in zip(answers, fits, strict=True)]).reshape(
            -1, width
        )
        return replies(codes, scores if any(fits) else None, right, self.attack.search.labels_only)

    def _why(self) -> list[str | None]:
        """The error that each search which the model did not answer has met last."""
        return [self.reasons.get(place) for place in range(len(self.attack.attempts))]

    def _merge(self) -> None:
        """One segment, and one file of errors, in the place of those of the steps."""
        by_repeat: dict[int, list[tuple[str, NDArray[np.void], Predictions]]] = defaultdict(list)
        for path, repeat, digests, answers in self.segments:
            by_repeat[repeat].append((path, digests, answers))
        for repeat, parts in by_repeat.items():
            if len(parts) == 1:
                continue
            answers = _joined([answers for _, _, answers in parts])
            digests = np.concatenate([digests for _, digests, _ in parts])
            write_segment(self.run.store, self.run.answers, digests, answers, self.run.run_id, repeat)
            for path, _, _ in parts:
                self.run.store.remove(path)
        if len(self.error_files) > 1:
            add_errors(self.run, {key: why for path in self.error_files for key, why in self.run.store.read_json(path).items()})
            for path in self.error_files:
                self.run.store.remove(path)


def _seeds(run: Run, plan: dict[str, Any]) -> tuple[pa.Table, list[Image]]:
    """The seeds of a chunk, and their images."""
    tables, images = [], list[Image]()
    for part in plan["parts"]:
        table = get_table(run.store, ArtifactRef.of(part["ref"]), [SEED_ID, RANK, DIGEST])
        tables.append(table.take(pa.array(part["rows"])).replace_schema_metadata(None))
        images += get_images(run.store, content_of(table), part["rows"])
    return pa.concat_tables(tables), images


def _table(run: Run, seeds: pa.Table, attempts: Sequence[Attempt], reasons: Sequence[str | None], *, keep: bool) -> ArtifactRef:
    """How each search ended, with the image it came to and its digest; the pixels beside it where they are kept."""
    images = [attempt.seed if attempt.image is None else attempt.image for attempt in attempts]
    table = pa.table(
        {
            SEED_ID: seeds.column(SEED_ID),
            RANK: seeds.column(RANK),
            DIGEST: pa.array([item.tobytes() for item in image_digests(images)], pa.binary(16)),
            END: pa.array([attempt.end or BROKE_OFF for attempt in attempts]),
            QUERIES: pa.array([attempt.queries for attempt in attempts], pa.int32()),
            UNANSWERED: pa.array([attempt.unanswered for attempt in attempts], pa.int32()),
            FOUND: pa.array([attempt.found for attempt in attempts], pa.int32()),
            NORM: pa.array([attempt.norm for attempt in attempts], pa.int32()),
            REASON: pa.array(list(reasons), pa.string()),
        }
    )
    return put_table(run.store, with_content(table, put_images(run.store, images)) if keep else table)


def _void(candidates: Sequence[Candidate]) -> NDArray[np.void]:
    return np.frombuffer(b"".join(bytes.fromhex(one.digest) for one in candidates), dtype="V16")


def _joined(parts: Sequence[Predictions]) -> Predictions:
    """The answers of several batches; of those without scores, where others have them, they are unknown."""
    width = max((part.scores.shape[1] for part in parts if part.scores is not None), default=0)
    scores = [np.full((len(part), width), np.nan) if part.scores is None else part.scores for part in parts]
    return Predictions(
        np.concatenate([part.labels for part in parts]),
        np.concatenate(scores) if width else None,
        np.concatenate([part.errors for part in parts]),
    )

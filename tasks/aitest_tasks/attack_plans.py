"""Which seeds an adversarial search works on next, and what the budget of the run leaves for each of them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.artifacts.codecs import get_table
from aitest_lib.searches.image.base import ImageSearch
from aitest_lib.searches.image.margins import margins
from aitest_lib.types import ArtifactRef
from aitest_tasks.attacking import CHUNK, END
from aitest_tasks.baseline import Baseline
from aitest_tasks.components import attacks
from aitest_tasks.preparing import SELF_FLIP_REPEATS
from aitest_tasks.querying import answer_book, spent
from aitest_tasks.runs import Run
from aitest_tasks.seed_tables import RANK


@dataclass
class Wave:
    """The searches by one method: what is done so far. `parts`: tables of how searches ended (see `attacking`), the later one
    counts; `ended`: ranks whose search is over; `digests`: of what was asked or known before; `keep`: keep the images."""

    search: ImageSearch
    keep: bool
    parts: list[dict[str, Any]] = field(default_factory=list)
    ended: set[int] = field(default_factory=set)
    digests: list[dict[str, Any]] = field(default_factory=list)
    sent: int = 0
    errors: int = 0
    again: int = 0

    def add(self, run: Run, results: Iterable[dict[str, Any]]) -> int:
        """Takes the results of chunks; returns how many queries they have sent and searches they have ended."""
        moved = 0
        for result in results:
            self.parts.append(result["part"])
            self.digests.append(result["digests"])
            self.sent += result["sent"]
            self.errors += result["errors"]
            self.again += result["again"]
            table = get_table(run.store, ArtifactRef.of(result["part"]), [RANK, END])
            over = [
                rank
                for rank, end in zip(*(table.column(name).to_pylist() for name in (RANK, END)), strict=True)
                if end != "unpaid"
            ]
            self.ended.update(over)
            moved += result["sent"] + len(over)
        return moved


def methods(run: Run, index: int, base: Baseline) -> list[ImageSearch]:
    """The search and its baselines as this model can be searched: where it gives no scores, by labels alone, and without those
    that nothing would guide."""
    found = attacks(run, index)
    if gives_scores(run, base):
        return found
    main, *others = found
    return [replace(one, labels_only=True) for one in (main, *(one for one in others if not one.needs_scores))]


def misfit(run: Run, index: int, base: Baseline) -> str | None:
    """Why the search cannot work on this model, None where it can."""
    main = attacks(run, index)[0]
    if main.needs_scores and not gives_scores(run, base):
        return f"{main.name} is guided by scores, and the model gives labels alone; use method auto, bayesian, rays or random"
    return None


def gives_scores(run: Run, base: Baseline) -> bool:
    """Does the model give scores of more than one class."""
    scores = answer_book(run).scores
    return scores is not None and scores.shape[1] == len(base.classes.labels) > 1


def attacked_ranks(base: Baseline) -> NDArray[np.int64]:
    """The seeds that are attacked: those that the model gets right."""
    return np.flatnonzero(base.answered.known & base.right & (base.answers >= 0))


def votes(run: Run) -> int:
    """Of how many answers a success needs the majority: more than one where the model answers by chance."""
    return 1 if run.prepared["deterministic"] else 1 + SELF_FLIP_REPEATS


def time_limit(run: Run, index: int) -> float | None:
    """Seconds that the searches of a property may take together."""
    config = run.suite.suite.properties[index].search
    return None if config is None else config.time_limit_s


def chunks(run: Run, base: Baseline, wave: Wave, stage: str, deadline: float | None) -> list[dict[str, Any]]:
    """The chunks of seeds to search next, as artifacts; none where all are done or nothing is left to pay with.

    With a budget, seeds in rank order get all that a search may cost, as far as it reaches; what they leave is for the next
    wave. So the same seeds are left out whatever the workers.
    """
    ranks = np.array([rank for rank in attacked_ranks(base).tolist() if rank not in wave.ended], np.int64)
    book = answer_book(run)
    allowances: NDArray[np.int64] | None = None
    if run.budget is not None:
        left = max(run.budget - spent(run, book), 0)
        most = wave.search.queries
        allowances = np.clip(left - np.arange(len(ranks)) * most, 0, most)
        # Also without a query left, kept answers may settle a search.
        ranks, allowances = (ranks, allowances) if not left else (ranks[allowances > 0], allowances[allowances > 0])
    clean = np.ones(len(ranks))
    if gives_scores(run, base) and book.scores is not None:
        clean = np.nan_to_num(margins(book.scores[base.places[ranks]], base.answers[ranks]), nan=1.0)
    size, name = chunk_size(run, len(ranks)), os.urandom(8).hex()
    starts = np.cumsum([0, *(ref.rows for ref in run.seeds)])
    found = []
    for at in range(0, len(ranks), size):
        own = ranks[at : at + size]
        shards = np.searchsorted(starts, own, side="right") - 1
        plan = {
            "search": {"name": wave.search.name, "parameters": wave.search.parameters()},
            "parts": [
                {"ref": run.seeds[shard].to_dict(), "rows": (own[shards == shard] - starts[shard]).tolist()}
                for shard in np.unique(shards).tolist()
            ],
            "right": base.answers[own].tolist(),
            "margins": clean[at : at + size].tolist(),
            "classes": list(base.classes.labels),
            "allowances": None if allowances is None else allowances[at : at + size].tolist(),
            "votes": votes(run),
            "deadline": deadline,
            "keep": wave.keep,
            "wave": name,
            "stage": stage,
            "total": len(ranks),
        }
        found.append(run.store.put_json(plan).to_dict())
    return found


def chunk_size(run: Run, seeds: int) -> int:
    """Seeds of a chunk: few enough that every worker has one."""
    processes = 1 + int(run.options.get("helpers") or 0)
    return max(1, min(CHUNK, math.ceil(seeds / (processes * int(run.options["workers"])))))

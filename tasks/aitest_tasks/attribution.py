"""Which link of a chain of transforms breaks the answer: the failing cases once more, each time without one link."""

from __future__ import annotations

from typing import Any

import numpy as np

from aitest_lib.answers import AnswerBook
from aitest_lib.reports.report import Attribution
from aitest_lib.searches.breaking_point import BROKE, HELD
from aitest_lib.transforms.base import Transform
from aitest_lib.transforms.image.compose import Compose
from aitest_lib.types import ArtifactRef
from aitest_tasks.baseline import Baseline
from aitest_tasks.breaking import case_outcomes
from aitest_tasks.generation import generation_job
from aitest_tasks.querying import run_errors
from aitest_tasks.runs import Run


def attribution_jobs(
    run: Run, made: list[Transform], cases: list[dict[str, Any]], base: Baseline, book: AnswerBook
) -> list[tuple[int, int, dict[str, Any]]]:
    """Place of the component, link that is left out, and job, for the failing cases of every chain."""
    errors, jobs = run_errors(run), []
    for number, ref in enumerate(cases):
        place, shard = divmod(number, len(run.seeds))
        chain = made[place]
        if not isinstance(chain, Compose):
            continue
        ranks, found = case_outcomes(run, base, book, ArtifactRef.of(ref), errors)
        failing = np.flatnonzero((found == BROKE) & base.right[ranks] & base.answered.known[ranks])
        if len(failing):
            for link in range(len(chain.parts)):
                jobs.append((place, link, generation_job(run, chain.without(link), run.seeds[shard], failing.tolist())))
    return jobs


def attributions(
    run: Run, made: list[Transform], asked: list[dict[str, Any]], base: Baseline, book: AnswerBook
) -> list[Attribution]:
    """How many of the failing cases hold without each link; `asked`: component, link and cases of each shard."""
    errors = run_errors(run)
    counts: dict[tuple[int, int], list[int]] = {}
    for one in asked:
        _, found = case_outcomes(run, base, book, ArtifactRef.of(one["ref"]), errors)
        turned, of = counts.setdefault((one["component"], one["link"]), [0, 0])
        counts[one["component"], one["link"]] = [turned + int((found == HELD).sum()), of + len(found)]
    return [
        Attribution(transform=made[place].slice["transform"], link=_link(made[place], link), turned=turned, of=of)
        for (place, link), (turned, of) in sorted(counts.items())
    ]


def _link(chain: Transform, place: int) -> str:
    return str(chain.parameters()["parts"][place]["name"])

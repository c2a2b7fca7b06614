"""Smallest flips: borderline seeds, each numeric column moved alone. Examples and an explanation, never a rate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from prefect import task

from aitest_lib.answers import AnswerBook
from aitest_lib.artifacts.codecs import get_table, put_table
from aitest_lib.artifacts.store import Store
from aitest_lib.data.schema import Profile, invalid_reasons
from aitest_lib.data.table import row_digests, to_frame, to_table
from aitest_lib.reports.explain import explain_case
from aitest_lib.reports.report import FailingCase, FeatureFlip
from aitest_lib.searches.rows import SmallestFlip, borderline, feature_flips
from aitest_lib.types import ArtifactRef
from aitest_tasks.baseline import Baseline, Errors, answer_values, own_scores, read_baseline
from aitest_tasks.caching import CACHED, job_key
from aitest_tasks.case_tables import STATUS, case_id
from aitest_tasks.cases import text_of
from aitest_tasks.inputs import input_digests
from aitest_tasks.querying import answer_book, run_errors
from aitest_tasks.runs import Run, open_run
from aitest_tasks.sampling import changeable
from aitest_tasks.seed_tables import DIGEST, RANK, SEED_ID
from aitest_tasks.shown import Rows

SHIFT, COLUMN = "@shift", "@column"
SHOWN = 20


def flips_job(run: Run, index: int) -> dict[str, Any]:
    """The seeds to look at (by the answers on them) and everything else that the grid depends on."""
    config = run.suite.suite.properties[index]
    search = SmallestFlip()
    book = answer_book(run)
    base = read_baseline(run, book, Errors(run_errors(run), True), config)
    scores = None if book.scores is None else np.where((base.places >= 0)[:, None], book.scores[base.places], np.nan)
    usable = base.answered.known & base.right
    random = borderline(None, usable, search.random_seeds)
    near = borderline(scores, usable, search.borderline_seeds)
    return {
        "fingerprint": search.fingerprint(),
        "ranks": np.union1d(random, near).tolist(),
        "random": random.tolist(),
        "seeds": [ref.to_dict() for ref in run.seeds],
        "profile": run.prepared["profile"],
        "columns": run.record["columns"],
        "protected": sorted(run.suite.suite.data.protected),
    }


@task(name="generate_flips", cache_key_fn=job_key, **CACHED)
def generate_flips(job: dict[str, Any], run_uri: str) -> dict[str, Any]:
    """Moves one column at a time in the chosen seeds; returns the reference of the rows."""
    return write_flips(open_run(run_uri).store, job).to_dict()


def write_flips(store: Store, job: dict[str, Any]) -> ArtifactRef:
    """The work of `generate_flips`, without Prefect."""
    profile = Profile.of(store.get_json(ArtifactRef.of(job["profile"])))
    seeds = _chosen_seeds(store, job)
    features = [name for name in seeds.column_names if not name.startswith("@")]
    sent = [name for name in job["columns"] if name in features]
    frame = to_frame(seeds.select(features), [column.name for column in profile.columns if column.missing])
    free = [name for name in changeable(profile, sent) if name not in job["protected"]]
    grid = SmallestFlip().grid(frame, profile, free)
    table = to_table(grid.frame[sent], seeds.select(sent).schema)
    reasons = invalid_reasons(grid.frame, profile)
    extra = {
        SEED_ID: seeds.column(SEED_ID).take(pa.array(grid.seed)),
        RANK: seeds.column(RANK).take(pa.array(grid.seed)),
        STATUS: pa.array([None if reason is None else "invalid" for reason in reasons], pa.string()),
        COLUMN: pa.array(grid.column, pa.string()),
        SHIFT: pa.array(grid.shift),
        DIGEST: pa.array([item.tobytes() for item in row_digests(table)], pa.binary(16)),
    }
    return put_table(store, pa.table({**extra, **{name: table.column(name) for name in table.column_names}}))


def score_flips(
    run: Run, book: AnswerBook, base: Baseline, job: dict[str, Any], ref: ArtifactRef
) -> tuple[list[FeatureFlip], list[FailingCase]]:
    """What the answers to the grid say: flips per column, and the smallest one of each seed as an example."""
    grid = get_table(run.store, ref)
    ranks = grid.column(RANK).to_numpy().astype(np.int64)
    places = np.where(grid.column(STATUS).is_null().to_numpy(zero_copy_only=False), book.find(input_digests(run, grid)), -1)
    values = answer_values(book, places, base.classes if base.oracle.classifier else None)
    known = places >= 0
    flipped = known & ~base.oracle.same(base.answers[ranks], values)
    columns = np.array(grid.column(COLUMN).to_pylist(), dtype=object)
    shift = grid.column(SHIFT).to_numpy()
    told = known & np.isin(ranks, job["random"])
    flips = feature_flips(ranks[told], columns[told].tolist(), shift[told], flipped[told], run.profile)
    return flips, _examples(run, book, base, job, grid, np.flatnonzero(flipped), places, values)


def _examples(
    run: Run,
    book: AnswerBook,
    base: Baseline,
    job: dict[str, Any],
    grid: pa.Table,
    rows: NDArray[np.int64],
    places: NDArray[np.int64],
    values: NDArray[np.float64],
) -> list[FailingCase]:
    if not len(rows):
        return []
    seeds = _chosen_seeds(run.store, job)
    place_of = {rank: place for place, rank in enumerate(job["ranks"])}
    found = pd.DataFrame(
        {"row": rows, "rank": grid.column(RANK).to_numpy()[rows], "size": np.abs(grid.column(SHIFT).to_numpy()[rows])}
    )
    smallest = found.sort_values(["size", "rank", "row"]).drop_duplicates("rank").head(SHOWN)
    names, scores = grid.column(COLUMN).to_pylist(), own_scores(book, places, values)
    examples = []
    for row, rank, size in zip(smallest["row"], smallest["rank"], smallest["size"], strict=True):
        name = names[row]
        view = Rows(
            seeds,
            [
                {"set": {name: grid.column(name)[row].as_py()}} if at == place_of[rank] else {"set": {}}
                for at in range(seeds.num_rows)
            ],
        )
        changes = view.changes(place_of[rank], run.profile)
        expected = text_of(book.labels(base.places[[rank]])[0])
        observed = text_of(book.labels(places[[row]])[0])
        score = None if np.isnan(scores[row]) else float(scores[row])
        seed, after = view.seed(place_of[rank]), text_of(view.changed(place_of[rank])[name])
        seed_id = seeds.column(SEED_ID)[place_of[rank]].as_py()
        examples.append(
            FailingCase(
                case_id=case_id(seed_id, SmallestFlip.name, SmallestFlip.version, {"column": name, "to": after}),
                seed_id=seed_id,
                transform=SmallestFlip.name,
                strength=float(f"{size:.6g}"),
                expected=expected,
                observed=observed,
                score=score,
                explanation=explain_case(
                    SmallestFlip.name,
                    changes,
                    expected,
                    observed,
                    score,
                    tolerance=None if base.oracle.classifier else base.oracle.tolerance,
                ),
                seed=seed,
                case=seed | {name: after},
                changed=[name],
            )
        )
    return examples


def _chosen_seeds(store: Store, job: dict[str, Any]) -> pa.Table:
    """The seeds of the job's ranks, in rank order."""
    wanted = np.array(job["ranks"], np.int64)
    parts: list[pa.Table] = []
    start = 0
    for data in job["seeds"]:
        ref = ArtifactRef.of(data)
        inside = wanted[(wanted >= start) & (wanted < start + ref.rows)] - start
        if len(inside) or not parts:
            parts.append(get_table(store, ref).take(pa.array(inside)))
        start += ref.rows
    return pa.concat_tables(parts).combine_chunks()

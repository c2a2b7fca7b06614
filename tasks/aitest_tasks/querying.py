"""Queries: what is needed and not yet answered is planned, cut to the budget, asked in shards and kept."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prefect import task

from aitest_lib.answers import AnswerBook, distinct, read_book, write_segment
from aitest_lib.artifacts.codecs import get_table
from aitest_lib.data.table import hex_digests
from aitest_lib.errors import AitestError, Interrupted, ModelUnavailable, UnavailableError
from aitest_lib.models.base import Model
from aitest_lib.models.opening import open_model
from aitest_lib.types import ArtifactRef, Predictions
from aitest_tasks import live
from aitest_tasks.case_tables import STATUS
from aitest_tasks.inputs import Inputs, input_digests, joined, model_inputs, nbytes, predict
from aitest_tasks.limits import limited
from aitest_tasks.runs import Run, open_run
from aitest_tasks.seed_tables import DIGEST, RANK

LARGEST_SHARD = 4_000
LOAD_BYTES = 16 << 20  # of images and clips from which on they are asked before more are read
SECONDS_AT_STAKE = 5.0  # work in all shards under way: what a `kill -9` may cost, and enough for their overhead not to show


def run_model(run: Run) -> Model:
    """The model of a run, opened once in this process."""

    def opener() -> Model:
        given = live.kept_object(run.run_id)
        if given is not None:
            from aitest_lib.models.local import LocalModel

            return LocalModel(given, run.info)
        card, share = run.card, run.options.get("share")
        if share is not None and card.card.endpoint is not None:  # the other processes of the run ask it, too
            card = replace(card, card=card.card.model_copy(update={"endpoint": limited(card.card.endpoint, share)}))
        return open_model(card, run.info, private=run.prepared["private"])

    return live.model(run.run_id, opener)


def answer_book(run: Run, repeat: int = 0) -> AnswerBook:
    """All answers that this run may use."""
    return read_book(run.store, [run.answers], repeat, None if run.info.classes is None else len(run.info.classes))


def needed(run: Run, ref: ArtifactRef) -> tuple[NDArray[np.void], NDArray[np.int64], NDArray[np.bool_]]:
    """Digest, rank and whether it is to be asked, for each input of a shard of seeds or cases."""
    table = get_table(run.store, ref, [DIGEST, RANK, STATUS])
    asked = np.ones(table.num_rows, bool)
    if STATUS in table.column_names:
        asked = table.column(STATUS).is_null().to_numpy().astype(bool)
    return input_digests(run, table), table.column(RANK).to_numpy().astype(np.int64), asked


def run_errors(run: Run) -> dict[str, str]:
    """Inputs (digest as hex) to which the model gave no usable answer in this attempt, and why. Not asked again by it."""
    found: dict[str, str] = {}
    for path in run.store.files(f"runs/{run.run_id}/errors"):
        found |= run.store.read_json(path)
    return found


def add_errors(run: Run, reasons: dict[str, str]) -> str | None:
    """Remembers inputs without a usable answer; returns where."""
    if not reasons:
        return None
    path = f"runs/{run.run_id}/errors/{time.time_ns():020d}-{os.urandom(4).hex()}.json"
    run.store.write_json(path, reasons)
    return path


def error_reasons(digests: NDArray[np.void], answers: Predictions) -> dict[str, str]:
    """Why inputs have no usable answer, by digest (hex)."""
    reasons = {place: str(why) for place, why in enumerate(answers.errors) if why is not None}
    return {digests[place].tobytes().hex(): why.encode("utf-8", "replace").decode() for place, why in reasons.items()}


def spent(run: Run, book: AnswerBook) -> int:
    """Inputs that this run has put to the model, those before an interruption included: what its answers and errors say."""
    return book.by_run.get(run.run_id, 0) + len(run_errors(run))


@task(name="plan_queries", persist_result=False)
def plan_queries(run_uri: str, refs: list[dict[str, Any]], repeat: int = 0) -> dict[str, Any]:
    """Which inputs of these shards are not answered yet, as shards of queries, as far as the budget pays for them; repeats
    are free.

    Seeds go in rank order, so that a budget leaves out the same ones however the work is spread.
    """
    run = open_run(run_uri)
    book = answer_book(run, repeat)
    allowance = None if run.budget is None or repeat else max(run.budget - spent(run, book), 0)
    return make_plan(run, [ArtifactRef.of(ref) for ref in refs], book, repeat, allowance)


def make_plan(run: Run, refs: Sequence[ArtifactRef], book: AnswerBook, repeat: int, allowance: int | None) -> dict[str, Any]:
    """The work of `plan_queries`, without Prefect."""
    digests, ranks, sources, rows = [], [], [], []
    for place, ref in enumerate(refs):
        ids, rank, asked = needed(run, ref)
        where = np.flatnonzero(asked)
        digests.append(ids[where])
        ranks.append(rank[where])
        sources.append(np.full(len(where), place))
        rows.append(where)
    all_digests = np.concatenate(digests) if digests else np.empty(0, "V16")
    digests.clear()
    unique, first = distinct(all_digests)
    del all_digests
    open_ = book.find(unique) < 0
    known_errors = set(run_errors(run))
    if known_errors:
        open_ &= [name not in known_errors for name in hex_digests(unique)]
    missing = first[open_]
    source, row, rank = (
        np.concatenate(part)[missing] if len(missing) else np.empty(0, np.int64) for part in (sources, rows, ranks)
    )
    order = np.lexsort((row, source, rank))
    kept = order if allowance is None else order[: max(allowance, 0)]
    kept = kept[np.lexsort((row[kept], source[kept]))]  # shards read few artifacts: seed order decides what is paid, not when
    size = shard_size(run)
    shards = [
        run.store.put_json(_shard(refs, source[part], row[part], repeat)).to_dict()
        for part in (kept[start : start + size] for start in range(0, len(kept), size))
    ]
    return {
        "shards": shards,
        "needed": run.store.put(unique.tobytes(), "digests", len(unique)).to_dict(),
        "planned": len(unique),
        "cached": int(len(unique) - len(missing)),
        "to_send": len(kept),
        "unpaid": int(len(missing) - len(kept)),
    }


def shard_size(run: Run) -> int:
    """Inputs in a shard: what all workers together ask in about five seconds at the speed the probe saw, divided among them;
    whole batches, and enough of them for every call that the model takes at once.

    The workers share the model: a shard lasts about five seconds, too.
    """
    workers, batch = int(run.options["workers"]), int(run.prepared["batch_size"])
    endpoint = run.card.card.endpoint if run.record["card"] else None
    batches = math.ceil((endpoint.concurrency if endpoint else 1) / workers)
    rows = min(SECONDS_AT_STAKE / max(run.prepared["seconds_per_row"], 1e-6) / workers, LARGEST_SHARD)
    return max(batches, int(rows) // batch) * batch


@task(name="query_model", persist_result=False)
def query_model(run_uri: str, shard: dict[str, Any], property_name: str) -> dict[str, Any]:
    """Asks the model one shard of a plan and keeps the usable answers.

    Returns the numbers of inputs sent and of errors. A model that cannot be used at all raises; anything else becomes
    errors of its inputs.
    """
    live.check_stopped()
    run = open_run(run_uri)
    plan = run.store.get_json(ArtifactRef.of(shard))
    sent = errors = 0
    with live.running():  # a worker of a Dask cluster takes no other part in the run
        await_stream(run)
        for inputs, digests in loads(run, plan["parts"]):
            reasons = error_reasons(digests, ask(run, inputs, digests, plan["repeat"])[0])
            if plan["repeat"] == 0:
                add_errors(run, reasons)
            sent, errors = sent + len(digests), errors + len(reasons)
    return {"sent": sent, "errors": errors}


def await_stream(run: Run) -> None:
    """Waits for one call's distance on a Dask cluster: the stream may have been another worker's just now."""
    share = run.options.get("share")
    if run.options.get("scheduler") and share and share["rate"]:
        live.pause(1 / share["rate"])


def loads(run: Run, parts: list[dict[str, Any]]) -> Iterator[tuple[Inputs, NDArray[np.void]]]:
    """The inputs of a shard and their digests: rows all at once, images and clips some megabytes at a time."""
    inputs, digests, held = list[Inputs](), list[NDArray[np.void]](), 0
    for part in parts:
        ref, rows = ArtifactRef.of(part["ref"]), np.array(part["rows"], np.int64)
        found = model_inputs(run, ref, rows)
        inputs.append(found)
        digests.append(needed(run, ref)[0][rows])
        held += nbytes(found)
        if held >= LOAD_BYTES:
            yield joined(inputs), np.concatenate(digests)
            inputs, digests, held = [], [], 0
    if inputs:
        yield joined(inputs), np.concatenate(digests)


def shard_lost(run: Run, shard: dict[str, Any], reason: str) -> dict[str, Any]:
    """A shard whose task broke: every input of it that was not answered before gets the reason."""
    plan = run.store.get_json(ArtifactRef.of(shard))
    book, sent = answer_book(run, plan["repeat"]), 0
    reasons: dict[str, str] = {}
    for part in plan["parts"]:
        digests = needed(run, ArtifactRef.of(part["ref"]))[0][np.array(part["rows"], np.int64)]
        sent += len(digests)
        reasons |= dict.fromkeys(hex_digests(digests[book.find(digests) < 0]), reason)
    add_errors(run, reasons)
    return {"sent": sent, "errors": len(reasons)}


def ask(run: Run, inputs: Inputs, digests: NDArray[np.void], repeat: int) -> tuple[Predictions, str | None]:
    """Puts inputs to the model and keeps what it answered, also what it answered before it could be used no more. Returns the
    answers and where the usable ones stand in the store."""
    try:
        answers = predict(run_model(run), inputs)
    except (ModelUnavailable, Interrupted) as error:
        if error.answers is not None:
            write_segment(run.store, run.answers, digests, error.answers, run.run_id, repeat)
        raise
    except UnavailableError:
        raise
    except AitestError as error:
        size = len(inputs)
        answers = Predictions(np.full(size, None, dtype=object), None, np.full(size, str(error), dtype=object))
    return answers, write_segment(run.store, run.answers, digests, answers, run.run_id, repeat)


def _shard(refs: Sequence[ArtifactRef], sources: NDArray[np.int64], rows: NDArray[np.int64], repeat: int) -> dict[str, Any]:
    parts = [{"ref": refs[place].to_dict(), "rows": rows[sources == place].tolist()} for place in np.unique(sources)]
    return {"parts": parts, "repeat": repeat}

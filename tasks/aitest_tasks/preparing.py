"""Before the first case: seeds, the model's first questions, and whether kept answers may still be trusted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prefect import task

from aitest_lib.answers import folder, write_segment
from aitest_lib.artifacts.codecs import get_table
from aitest_lib.errors import ArtifactMissing, InputError, ModelUnavailable
from aitest_lib.models.probe import probe
from aitest_lib.scorers.oracle import Classes, classes_of
from aitest_lib.types import Predictions
from aitest_tasks import live
from aitest_tasks.inputs import input_digests, model_inputs, of_one_shape, predict
from aitest_tasks.querying import add_errors, answer_book, error_reasons, run_model
from aitest_tasks.runs import Run, open_run

PROBE_ROWS = 50
SENTINELS = 50
CHANGE_LEVEL = 0.001  # chance at which a nondeterministic model of the known flip rate is wrongly called changed
SELF_FLIP_REPEATS = 2
SAME_NUMBER = 1e-6
NUMBERS = (int, float)  # of JSON; `isinstance` would take true and false for numbers, too


def epoch_path(model_digest: str) -> str:
    """Where the store keeps what is known of a model: its epoch, flip rate and speed."""
    return f"answers/{model_digest}/epoch.json"


def known_epoch(run: Run) -> dict[str, Any] | None:
    """The model's current epoch, None when it was never asked or its record is damaged."""
    try:
        known = run.store.read_json(epoch_path(run.info.digest))
    except ArtifactMissing:
        return None
    return known if _is_epoch(known) else None


def next_epoch(run: Run) -> int:
    """The number of an epoch that nothing was asked in yet, but for what a first run that broke off has left."""
    if not run.store.exists(epoch_path(run.info.digest)):
        return 1
    where = f"answers/{run.info.digest}/"
    used = {path.removeprefix(where).split("/")[0] for path in run.store.files(where)}
    return 1 + max((int(name) for name in used if name.isdecimal()), default=0)


@task(name="prepare_model", persist_result=False)
def prepare_model(run_uri: str, prepared: dict[str, Any]) -> dict[str, Any]:
    """Probes a model that was never asked, else asks sentinels; completes and writes the run's `prepared` record.

    Adds to `prepared`: epoch (folder of the answers), epoch_number, changed, deterministic, self_flip_rate,
    seconds_per_row, probed (inputs asked for the first time), sentinel (inputs asked again).
    """
    run = open_run(run_uri)
    endpoint = run.card.card.endpoint if run.record["card"] else None
    prepared = {**prepared, "batch_size": endpoint.batch_size if endpoint else 1, "seconds_per_row": 0.001}
    known = known_epoch(run) if run.info.reusable else None
    number = known["epoch"] if known else next_epoch(run) if run.info.reusable else 1
    if known and run.options.get("fresh"):
        known, number = None, number + 1
    state: dict[str, Any] = {"epoch_number": number, "changed": False, "sentinel": 0, "probed": 0}
    epoch = str(number) if run.info.reusable else f"run-{run.run_id}"
    # The record is complete enough for the functions below from here on; it is written once, at the end.
    run.__dict__["prepared"] = {**prepared, "epoch": epoch}
    if known:
        state |= _sentinels(run, known)
        if state["changed"]:
            known, number = None, number + 1
            epoch = str(number)
            state["epoch_number"] = number
            run.__dict__["prepared"] = {**prepared, "epoch": epoch}
    facts = known or _probe(run, state)
    result = {**prepared, **state, "epoch": epoch, **{key: facts[key] for key in FACTS}}
    if run.info.reusable and not known:
        run.store.write_json(epoch_path(run.info.digest), {"epoch": number, **{key: facts[key] for key in FACTS}})
    run.write("prepared", result)
    run.__dict__["prepared"] = result
    return result


FACTS = ("deterministic", "self_flip_rate", "seconds_per_row")


def _probe(run: Run, state: dict[str, Any]) -> dict[str, Any]:
    """First questions; their answers are kept like any other."""
    live.progress("probe", "query", 0, 1)
    ref = run.seeds[0]
    rows = np.arange(min(PROBE_ROWS, ref.rows, PROBE_ROWS if run.budget is None else run.budget))
    if not len(rows):
        return {"deterministic": True, "self_flip_rate": None, "seconds_per_row": 0.001}
    inputs, alike = of_one_shape(model_inputs(run, ref, rows))
    rows = rows[alike]
    found = probe(run_model(run), inputs, repeat_rows=len(rows), private=run.prepared["private"])
    if all(error is not None for error in found.answers.errors):
        raise ModelUnavailable(
            f"the model {run.info.name} gave no usable answer: {found.problems[0] if found.problems else 'no reason given'}"
        )
    digests = input_digests(run, get_table(run.store, ref).take(rows))
    once = np.unique(digests, return_index=True)[1]  # of equal rows one is paid for, the others are repeats
    answers = found.answers.take(once)
    write_segment(run.store, run.answers, digests[once], answers, run.run_id)
    add_errors(run, error_reasons(digests[once], answers))  # counted as sent, so not asked again by this run
    state["sentinel"] += len(rows)
    state["probed"] = len(once)
    live.progress("probe", "query", 1, 1)
    # A model of which only scores in their last digits differ is deterministic as far as verdicts go.
    flips = found.self_flip_rate or 0.0
    return {"deterministic": flips == 0, "self_flip_rate": flips if flips else None, "seconds_per_row": found.seconds_per_row}


def _sentinels(run: Run, known: dict[str, Any]) -> dict[str, Any]:
    """Asks up to 50 inputs again that are answered already, and compares."""
    book = answer_book(run)
    for ref in run.seeds:
        digests = input_digests(run, get_table(run.store, ref))
        places = book.find(digests)
        rows = np.flatnonzero(places >= 0)[:SENTINELS]
        if len(rows):
            break
    else:
        return {"changed": False, "sentinel": 0}
    answers = predict(run_model(run), model_inputs(run, ref, rows))
    usable = np.array([error is None for error in answers.errors], dtype=bool)
    if not usable.any():
        raise ModelUnavailable(f"the model {run.info.name} gave no usable answer: {answers.errors[0]}")
    differing = int(_differ(answers, book.labels(places[rows]))[usable].sum())
    changed = is_changed(differing, int(usable.sum()), known["self_flip_rate"])
    if changed:
        # They are the first answers of the new epoch: paid for once, kept.
        # Under a name of their own: what is kept under the run's counts against its budget when it is resumed.
        where = folder(run.info.digest, str(known["epoch"] + 1))
        write_segment(run.store, where, digests[rows], answers, f"{run.run_id}-sentinels")
    return {"changed": changed, "sentinel": len(rows)}


def is_changed(differing: int, asked: int, flip_rate: float | None) -> bool:
    """Do the sentinels' labels differ beyond the model's own flip rate (binomial test, one-sided)."""
    if not flip_rate:
        return differing > 0
    from scipy.stats import binom

    return bool(binom.sf(differing - 1, asked, flip_rate) < CHANGE_LEVEL)


def check_labels(run: Run, seen: list[Any]) -> None:
    """Raises `InputError` for labels in the data that are not among the card's classes, before anything is asked."""
    if not run.info.type.endswith("-classifier"):
        return
    known = list(run.info.classes or seen)
    if run.info.classes is not None and seen:
        classes_of(run.info.classes, seen, [])
    _check_favorable(run, known)


def _check_favorable(run: Run, known: list[Any]) -> None:
    """Raises `InputError` for a favourable answer that is none of the known classes, and where none is named that is needed."""
    favorable, directed = run.suite.suite.data.favorable, any(one.directions for one in run.suite.suite.properties)
    shown = ", ".join(repr(value) for value in known[:6])
    if favorable is not None and known and not (Classes(tuple(known)).codes([favorable]) >= 0).all():
        raise InputError(f"data.favorable: got {favorable!r}, expected one of the labels {shown}; write it as the data do")
    if favorable is None and directed and len(known) > 2:
        raise InputError(f"data.favorable: got none for directions and the classes {shown}, expected the one that people want")


def check_answers(run: Run, seen: list[Any]) -> None:
    """Raises `InputError` where the first answers are no classes, or have nothing in common with the labels, before the rest is
    paid for."""
    if run.info.type.endswith("-classifier") and run.info.classes is None:
        _check_classes(run, seen)
    if run.info.type.endswith("-classifier") and seen and run.info.classes is None:
        answered = list(answer_book(run).values)
        try:
            classes_of(None, seen, answered)
            check_alike(seen, answered)
        except InputError as error:
            if not run.prepared["private"]:
                raise
            # The model may answer with what it was told, and that is private.
            hint = "name the right label column, or set `classes` in the card"
            raise InputError(f"the model answers other labels than the data have; {hint}") from error


def _check_classes(run: Run, seen: list[Any]) -> None:
    """Raises `InputError` for scores in the place of decisions: each would be a class of a row or two."""
    known = set(seen)
    scores = [one for one in answer_book(run).values if isinstance(one, float) and not one.is_integer() and one not in known]
    if scores:
        shown = "" if run.prepared["private"] else f" {', '.join(f'{score:g}' for score in scores[:3])}"
        raise InputError(
            f"got the answers{shown} of a classifier, expected classes; if these are scores, write `classes` and "
            "`decision: {threshold: 0.5}` in the card"
        )


def check_alike(seen: list[Any], answered: list[Any]) -> None:
    """Raises `InputError` where a label of the data and one of the model's would be two classes for nothing but their writing,
    though others are the same: such rows could never be right."""
    unanswered = [label for label, code in zip(seen, Classes(tuple(answered)).codes(seen), strict=True) if code < 0]
    strange = [label for label, code in zip(answered, Classes(tuple(seen)).codes(answered), strict=True) if code < 0]
    for label in unanswered:
        for other in strange:
            if _bare(label) == _bare(other):
                raise InputError(
                    f"the model answers {other!r}, and the label in the data is {label!r}; they differ in type, case or spaces "
                    "only: make them equal in the data or in the model's answer"
                )


def _bare(label: Any) -> str:
    return str(label).strip().rstrip(".").lower()


def _is_epoch(value: Any) -> bool:
    """Is it what `prepare_model` writes of an epoch; anything else in its place is as good as nothing."""
    if not isinstance(value, dict) or not {"epoch", *FACTS} <= set(value):
        return False
    rate, seconds = value["self_flip_rate"], value["seconds_per_row"]
    return (
        type(value["epoch"]) is int
        and value["epoch"] >= 1
        and type(value["deterministic"]) is bool
        and (rate is None or (type(rate) in NUMBERS and 0 <= rate <= 1))
        and type(seconds) in NUMBERS
        and 0 < seconds < math.inf
    )


def _differ(answers: Predictions, before: NDArray[np.object_]) -> NDArray[np.bool_]:
    pairs = zip(answers.labels, before, strict=True)
    return np.array([not _same(new, old) for new, old in pairs], dtype=bool)


def _same(new: Any, old: Any) -> bool:
    if isinstance(new, float) and isinstance(old, int | float) and not isinstance(old, bool):
        return abs(new - old) <= SAME_NUMBER * max(1.0, abs(old))
    return bool(new == old)


def check_predictions_backend(run: Run, property_name: str, new_queries: bool) -> str | None:
    """Why computed answers cannot serve a property that asks new inputs, None where they can."""
    if new_queries and run.record["card"] and run.record["card"].get("predictions"):
        return f"{property_name} asks inputs of its own, and this card holds computed answers only"
    return None

"""`aitest replay`: the stored bytes of one case, and those of its seed, sent to the model once more. Nothing kept changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.text import Text

from aitest_flows.comparing import AGAIN, ended_run, read_cases, reference
from aitest_flows.render import print_table
from aitest_lib.artifacts.codecs import get_table
from aitest_lib.config.card import LoadedCard, model_info
from aitest_lib.errors import ArtifactMissing, InputError, ModelUnavailable, StoreError
from aitest_lib.models.opening import open_model
from aitest_lib.reports.report import PropertyReport, RunReport
from aitest_lib.transforms.audio.voice import VoiceOver
from aitest_lib.types import ArtifactRef, ModelInfo, Predictions
from aitest_tasks.cases import text_of
from aitest_tasks.inputs import Inputs, contents, joined, model_inputs, predict, private_columns
from aitest_tasks.runs import Run
from aitest_tasks.seed_tables import LABEL, SEED_ID
from aitest_tasks.settings import Settings

COLUMNS = (
    "case_id",
    "seed_id",
    "transform",
    "strength",
    "expected",
    "observed",
    "score",
    "outcome",
    "reason",
    "explanation",
    "input_uri",
)
SAME_NUMBER = 1e-5  # kept answers have six digits
MAX_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One input with the answer that is kept of it and the new one, as text; scores of the answered class in [0, 1].

    `kept` is None where the run has no answer (skipped, or an error then), `same` then, too.
    """

    cells: dict[str, str]
    kept: str | None
    now: str
    kept_score: float | None
    now_score: float | None
    same: bool | None


@dataclass(frozen=True, kw_only=True)
class Replay:
    """One case asked again. `case` is None where the seed itself is the case (a group property); `changed`: the columns in
    which case and seed differ; `expected`: the label, None without labels; `reproduces`: is every new answer the kept one,
    None where there is none to compare."""

    run_id: str
    model: str
    property: str
    case_id: str
    seed_id: str
    transform: str | None
    strength: float | None
    outcome: str
    explanation: str
    expected: str | None
    seed: Answer
    case: Answer | None
    changed: list[str]
    reproduces: bool | None


def replay_case(settings: Settings, run_id: str, case: str, version: str | None = None) -> Replay:
    """Finds a case by its id or a unique prefix of it and asks the run's model, or the registered `version` (NAME/VERSION)."""
    run, report = ended_run(settings, run_id)
    item, row = _find_case(run, report, case)
    card, info = _model(settings, run, version)
    if row["transform"] is not None and card.card.predictions is not None:
        raise InputError(f"{card.card.name} holds computed answers only, none to the changed inputs of {item.property}")
    if private_columns(run) and run.test.digest() != run.record["test_digest"]:
        raise InputError(
            f"the private columns of run {run.run_id[:8]} are in {run.record['test']} alone, which changed since; "
            "put back the file as it was"
        )
    try:
        tables, inputs = _stored(run, row)
    except (ArtifactMissing, ValueError, IndexError) as error:
        raise StoreError(f"the input of case {row['case_id'][:12]} is gone or damaged ({row['input_uri']}); {AGAIN}") from error
    answers = _ask(card, info, run, joined(inputs))
    cells = [_cells(run, table) for table in tables]
    if run.modality == "speech":
        row["score"] = None  # the word error rate, and no score of the model's
    kept = [(row["expected"], None), (row["observed"], row["score"])] if len(inputs) == 2 else [(row["observed"], row["score"])]
    asked = [
        _answer(one, text, score, answers, at, info) for at, (one, (text, score)) in enumerate(zip(cells, kept, strict=True))
    ]
    label = tables[0].column(LABEL)[0].as_py() if LABEL in tables[0].column_names else None
    return Replay(
        run_id=run.run_id,
        model=f"{info.name} version {info.version}" if info.version else info.name,
        property=item.property,
        case_id=row["case_id"],
        seed_id=row["seed_id"],
        transform=row["transform"],
        strength=row["strength"],
        outcome=f"{row['outcome']}: {row['reason']}" if row["reason"] else row["outcome"],
        explanation=row["explanation"] or "",
        expected=None if label is None else text_of(label),
        seed=asked[0],
        case=asked[1] if len(asked) == 2 else None,
        changed=[name for name in cells[-1] if cells[-1][name] != cells[0].get(name)],
        reproduces=all(known) if (known := [one.same for one in asked if one.same is not None]) else None,
    )


def print_replay(found: Replay, console: Console) -> None:
    """Seed beside case: what changed, the kept and the new answers, and whether they agree."""
    words = {True: "REPRODUCES", False: "DIFFERS", None: "NO KEPT ANSWER"}[found.reproduces]
    style = {True: "green", False: "yellow", None: "cyan"}[found.reproduces]
    console.print(Text(words, style=f"bold {style}"), Text(f"{found.property} on {found.model}, {found.outcome}"))
    strength = "" if found.strength is None else f" at {found.strength:g}"
    origin = f"{found.transform}{strength}, " if found.transform else ""
    console.print(Text(f"{origin}case {found.case_id}, run {found.run_id[:12]}", style="dim"))
    if found.explanation:
        console.print(Text(found.explanation))
    asked = [one for one in (found.seed, found.case) if one is not None]
    columns = list(dict.fromkeys([*found.changed, *found.seed.cells]))
    rows: list[tuple[object, ...]] = []
    for name in columns:
        rows.append((name, *(one.cells.get(name) for one in asked), "changed" if name in found.changed else ""))
    rows += [
        ("label", *([found.expected] * len(asked)), ""),
        ("kept answer", *(_with_score(one.kept, one.kept_score) for one in asked), ""),
        ("new answer", *(_with_score(one.now, one.now_score) for one in asked), ""),
        ("same", *({True: "yes", False: "NO", None: "nothing to compare"}[one.same] for one in asked), ""),
    ]
    print_table("", ["", "seed", "case", ""] if found.case else ["", "seed", ""], rows, console)


def _find_case(run: Run, report: RunReport, given: str) -> tuple[PropertyReport, dict[str, Any]]:
    found: list[tuple[PropertyReport, dict[str, Any]]] = []
    for item in report.properties:
        table = read_cases(run, item, COLUMNS)
        if table is not None:
            rows = table.filter(pc.starts_with(table["case_id"], given.strip().lower()))
            found += [(item, row) for row in rows.slice(0, MAX_NAMED).to_pylist()]
    ids = list(dict.fromkeys(row["case_id"] for _, row in found))
    if len(ids) == 1:
        return found[0]
    run_name = run.run_id[:8]
    if ids:
        shown = ", ".join(name[:12] for name in ids[:MAX_NAMED])
        raise InputError(
            f"got CASE {given!r}, but several cases of run {run_name} start with it ({shown}, …); give more of the id"
        )
    raise InputError(
        f"got CASE {given!r}, but no case of run {run_name} starts with it; `aitest show {run_name} --failures 10` shows some "
        "(examples that a search found, pairs or smallest flips, are no cases and cannot be replayed)"
    )


def _model(settings: Settings, run: Run, version: str | None) -> tuple[LoadedCard, ModelInfo]:
    if version is None:
        if run.record["card"] is None:
            raise InputError(
                f"the model of run {run.run_id[:8]} was an object in Python, which is gone; name a registered one: "
                "--model NAME/VERSION"
            )
        return run.card, run.info
    name, _, number = version.rpartition("/")
    if not name or not number:
        raise InputError(f"--model: got {version!r}, expected NAME/VERSION as `aitest models` lists them, e.g. adult-gbm/3")
    from aitest_tasks.model_registry import find_version
    from aitest_tasks.tracking import Tracking

    found = find_version(Tracking(settings), name, number)
    info = model_info(found.card, found.version)
    if info.type != run.info.type:
        raise InputError(f"--model: {name} is a {info.type}, and run {run.run_id[:8]} tested a {run.info.type}")
    return found.card, info


def _stored(run: Run, row: dict[str, Any]) -> tuple[list[pa.Table], list[Inputs]]:
    """What stands beside the case's seed, and the seed as input; then those of the case, where that is another input."""
    url, _, at = row["input_uri"].rpartition("#")
    case, place = reference(run, url, "parquet"), int(at)
    files = run.modality != "tabular"
    found = [_seed(run, row["seed_id"])] if row["transform"] is not None or files else [(case, place)]
    tables = [get_table(run.store, ref).slice(one, 1) for ref, one in found]
    if str(row["transform"]).startswith(f"{VoiceOver.name} "):  # compared with the original voice, not with the seed
        return tables, [_content(run, case, place)]
    inputs = [model_inputs(run, ref, np.array([one], np.int64)) for ref, one in found]
    if row["transform"] is not None:
        tables.append(tables[0] if files else get_table(run.store, case).slice(place, 1))
        inputs.append(_content(run, case, place) if files else model_inputs(run, case, np.array([place], np.int64)))
    return tables, inputs


def _content(run: Run, ref: ArtifactRef, place: int) -> Inputs:
    """One image or clip of an artifact, of which only the address is known."""
    column = "height" if run.modality == "image" else "sample_rate"
    known = replace(ref, rows=get_table(run.store, ref, [column]).num_rows)
    return contents(run, known, np.array([place], np.int64))


def _seed(run: Run, seed_id: str) -> tuple[ArtifactRef, int]:
    """Shard and row of a seed."""
    for ref in run.seeds:
        place = pc.index(get_table(run.store, ref, [SEED_ID]).column(SEED_ID), pa.scalar(seed_id)).as_py()
        if place >= 0:
            return ref, place
    raise ValueError("the seed is in no shard")


def _ask(card: LoadedCard, info: ModelInfo, run: Run, inputs: Inputs) -> Predictions:
    model = open_model(card, info, private=run.prepared["private"])
    try:
        answers = predict(model, inputs)
        info = model.info
    finally:
        model.close()
    for place, why in enumerate(answers.errors):
        if why is not None:
            what = "case" if place == len(inputs) - 1 else "seed"
            raise ModelUnavailable(f"the model {info.name} gave no usable answer to the {what}: {why}")
    return answers


def _answer(
    cells: dict[str, str], kept: str | None, kept_score: float | None, answers: Predictions, at: int, info: ModelInfo
) -> Answer:
    label = answers.labels[at]
    score = None
    if answers.scores is not None and info.classes is not None and label in info.classes:
        score = round(float(answers.scores[at, info.classes.index(label)]), 6)
    now = text_of(label)
    return Answer(
        cells=cells,
        kept=kept,
        now=now,
        kept_score=kept_score,
        now_score=score,
        same=None if kept is None else now == kept or _close(kept, label),
    )


def _close(kept: str, now: Any) -> bool:
    """Are two numbers the same up to the digits that are kept."""
    if not isinstance(now, float):
        return False
    try:
        before = float(kept)
    except ValueError:
        return False
    return abs(now - before) <= SAME_NUMBER * max(1.0, abs(before))


def _cells(run: Run, table: pa.Table) -> dict[str, str]:
    """The public columns that the model gets; of images and clips, what stands beside them."""
    beside = [name for name in table.column_names if not name.startswith("@")]
    names = beside if run.modality != "tabular" else [name for name in run.record["columns"] if name in table.column_names]
    return {name: text_of(table.column(name)[0].as_py()) for name in names}


def _with_score(answer: str | None, score: float | None) -> str | None:
    return answer if score is None else f"{answer} ({score:.6g})"

"""Projects whose model hears eight sentences: the clips of the demonstration, a card, a suite, and the cases of their runs."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from projects import Project

from aitest_lib.demo.files import DATA

ROBUSTNESS, FAIRNESS, GENERALIZATION = "speech.robustness", "speech.fairness", "speech.generalization"
FLITE = ("flite slt", "flite rms", "flite awb")
CARD = yaml.safe_load((DATA / "commands.yaml").read_text())
SWEEP = [{"name": "white_noise", "snr_db": [20, 5]}, {"name": "interference", "noise": "rain", "snr_db": 5}]
COLUMNS = ("case_id", "seed_id", "transform", "strength", "expected", "observed", "outcome", "reason", "score")


def clips(speakers: Sequence[str] = FLITE, texts: int = 5) -> list[dict[str, str]]:
    """Rows of the demonstration's manifest, their paths absolute: the first texts by these speakers."""
    with (DATA / "speech" / "clips.csv").open() as file:
        rows = list(csv.DictReader(file))
    found = [row for speaker in speakers for row in rows if row["speaker"] == speaker]
    chosen = [row for row in found if int(Path(row["path"]).stem.rpartition("-")[2]) <= texts]
    return [row | {"path": str(DATA / "speech" / row["path"])} for row in chosen]


def write_manifest(project: Project, rows: list[dict[str, str]], name: str = "clips.csv") -> None:
    with (project.folder / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def filled(
    project: Project,
    properties: Sequence[dict[str, Any]] = ({"property": ROBUSTNESS, "transforms": SWEEP},),
    rows: list[dict[str, str]] | None = None,
    card: dict[str, Any] | None = None,
    **suite: Any,
) -> Project:
    """Writes manifest, card and suite; `card` in place of PocketSphinx, `suite` over the defaults."""
    write_manifest(project, clips() if rows is None else rows)
    project.write("card.yaml", CARD if card is None else card)
    found = {
        "suite": "commands",
        "random_seed": 7,
        "model": {"card": "card.yaml"},
        "data": {"test": "clips.csv"},
        "properties": list(properties),
    }
    project.write("suite.yaml", found | suite)
    return project


def rows(project: Project, report: dict[str, Any], name: str = ROBUSTNESS) -> list[tuple[Any, ...]]:
    """The cases of a run, in the order of the file."""
    return [tuple(row[column] for column in COLUMNS) for row in project.cases(report, name).to_pylist()]


def measured(project: Project, report: dict[str, Any]) -> list[dict[str, Any]]:
    """What was measured on every case of a robustness run."""
    return [json.loads(row["params"])["measured"] for row in project.cases(report, ROBUSTNESS).to_pylist()]

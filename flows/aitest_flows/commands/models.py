"""The models: `register`, `probe`, `models`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aitest_flows.commands.options import CardFile
from aitest_flows.console import out, settings_for_command
from aitest_lib.config.card import load_card
from aitest_lib.errors import UnavailableError
from aitest_lib.models.answers import input_word

MOST_HEARD = 3
DataFile = Annotated[Path | None, typer.Option("--data", metavar="FILE", help="Rows or images to ask the model with.")]


def register(card: CardFile, data: DataFile = None) -> None:
    """Check a card, probe its model and record it as a new version in MLflow's registry.

    The card of a model that is in the registry itself (`mlflow: models:/…`) is attached to it instead.
    """
    from aitest_flows.probing import register_card_file

    found = register_card_file(settings_for_command(), card, data)
    note = "" if data is not None else "; not probed: give --data FILE to ask the model first"
    known = f"is this card already (revision {found.card.card.revision}); nothing is registered"
    state = "is registered" if found.new else known
    out.print(f"{found.name} version {found.version} {state}{note}", markup=False, highlight=False)


def probe(card: CardFile, data: DataFile = None) -> None:
    """Ask the model behind a card a few inputs and say how it answers."""
    from aitest_flows.probing import no_scores, probe_card, said_and_heard
    from aitest_flows.render import print_table
    from aitest_lib.metrics.transcripts import normalized
    from aitest_lib.metrics.wer import count_errors

    settings_for_command()
    found = probe_card(card, data)
    if not found.label_kinds:
        raise UnavailableError(found.problems[0])
    word = input_word(load_card(card).card.type)
    rows = [
        ("answers", f"{found.rows} {word}s, {', '.join(found.label_kinds) or 'none'}"),
        ("classes", ", ".join(str(value) for value in found.classes) or None),
        ("scores", "yes" if found.scores else no_scores(card)),
        ("deterministic", "yes" if found.deterministic else f"no, {found.self_flip_rate or 0:.1%} of the labels change"),
        (f"one {word} takes", f"{found.seconds_per_call * 1e3:,.1f} ms"),
        (f"of a batch, one {word} takes", f"{found.seconds_per_row * 1e3:,.2f} ms"),
    ]
    if heard := said_and_heard(card, data, found) if data is not None else []:
        errors = count_errors([normalized(said) for said, _ in heard], [normalized(text) for _, text in heard]).pooled()
        rows.append(("WER", "undefined: nothing is said" if errors.wer is None else f"{errors.wer:.3f}"))
        rows += [("said / heard", f"{said} / {text or '(nothing)'}") for said, text in heard[:MOST_HEARD]]
    print_table(str(card), ["", ""], rows, out)
    if found.problems:
        raise UnavailableError("\n".join(found.problems))


def models() -> None:
    """List the registered models with a card, their verdicts, and what is overdue."""
    from aitest_flows.render import print_table
    from aitest_tasks.model_registry import list_models
    from aitest_tasks.tracking import Tracking

    rows = [
        (
            item["name"],
            item["latest"],
            item["versions"],
            item["type"],
            item["revision"],
            item["tier"],
            ", ".join(f"{suite}: {verdict}" for suite, verdict in item["verdicts"].items()) or "never audited",
            "overdue" if item["overdue"] else "",
        )
        for item in list_models(Tracking(settings_for_command()))
    ]
    columns = ["model", "version", "versions", "type", "revision", "tier", "verdict", ""]
    if rows:
        print_table("", columns, rows, out)
    else:
        out.print("no model is registered; register one with: aitest register CARD", highlight=False)

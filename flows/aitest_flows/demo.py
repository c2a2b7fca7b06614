"""`aitest demo`: small real models, trained here in seconds, audited like any other."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from aitest_lib.config.suite import load_suite
from aitest_lib.demo import census, commands, digits
from aitest_lib.errors import InputError, unknown
from aitest_lib.reports.explain import CHANGED_BY
from aitest_lib.reports.explain_groups import proxy_words
from aitest_lib.reports.report import PropertyReport, RunReport
from aitest_lib.reports.tables import slice_label
from aitest_lib.reports.tree_text import outline
from aitest_lib.types import SEVERITY
from aitest_tasks.settings import Settings

Run = Callable[[Settings, Any], RunReport]
MOST_GATES = 6
TREE_WIDTH = 100  # characters of a line


@dataclass(frozen=True)
class Demo:
    """The demonstration of a modality: its files, its audits (suite file and what it is of), what there is to know, the
    property to look at, and the extra of aitest that it needs."""

    files: Callable[[Path], Any]
    audits: tuple[tuple[str, str], ...]
    told: str
    look_at: str
    needs: tuple[str, ...] = ()
    extra: str | None = None

    @property
    def installed(self) -> bool:
        """Are the packages there that it needs."""
        return all(find_spec(name) is not None for name in self.needs)


DEMOS = {
    "tabular": Demo(
        census.demo_files,
        (
            ("census_sound_suite.yaml", "a sound model of census income"),
            ("census_brittle_suite.yaml", "the same model behind a faulty data feed: a planted weakness"),
        ),
        f"What was planted: {census.PLANTED}. Its accuracy hides that; the audit does not.\n"
        f"What nobody planted: {census.FOUND}.",
        "tabular.robustness",
    ),
    "image": Demo(
        digits.demo_files,
        (("digits_suite.yaml", "LeNet-5 on handwritten digits, trained here"),),
        "What there is to see: it reads 98 of 100 digits, and loses many of them once they are inverted, shrunk or foggy.\n"
        "Noise that is searched for by asking, at most 50 times a digit, turns nearly all: the last images of the report.",
        "image.robustness",
        ("torch", "kornia", "PIL"),
        "image",
    ),
    "speech": Demo(
        commands.demo_files,
        (("commands_suite.yaml", "PocketSphinx with a grammar of eight sentences, by six synthetic voices"),),
        "What there is to see: it hears five of six voices without an error, until there is noise: at equal level\n"
        "restaurant and rain drown the words, wind hardly does. The German voice it hears worse; with one speaker that is\n"
        "a voice, not yet a group.",
        "speech.robustness",
        ("torch", "torchaudio", "soundfile", "jiwer", "regex", "pocketsphinx"),
        "speech",
    ),
}


def chosen(only: str | None, every: bool) -> list[str]:
    """The modalities to demonstrate: the tabular one by default."""
    if only is not None and every:
        raise InputError("got --only and --all, expected one of them")
    if only is None:
        return [name for name, demo in DEMOS.items() if demo.installed] if every else ["tabular"]
    if only not in DEMOS:
        raise InputError(f"--only: {unknown('modality', only, DEMOS)}")
    if not DEMOS[only].installed:
        raise InputError(f"--only {only}: its packages are not installed; run pip install 'aitest[{DEMOS[only].extra}]'")
    return [only]


def run_demo(console: Console, settings: Settings, run: Run, modalities: Sequence[str]) -> None:
    """Audits the models of these demonstrations, says what was found, what there is to know, and where to look."""
    folder = settings.home / "demo"
    shutil.rmtree(folder, ignore_errors=True)
    number, aitest = 0, command()
    for modality in modalities:
        demo, pages = DEMOS[modality], []
        demo.files(folder / modality)
        for suite, what in demo.audits:
            number += 1
            console.print(f"{number}. {what}", style="bold", highlight=False)
            report = run(settings, load_suite(folder / modality / suite))
            _print_found(console, report)
            pages.append(f"{aitest} report {report.run_id[:12]} -o {report.suite}.html")
        console.print(demo.told, markup=False, highlight=False)
        console.print("Look at it", style="bold")
        for line in (
            f"{aitest} show {report.run_id[:12]} --property {demo.look_at} --failures 10",
            *pages,
            f"{aitest} open {report.run_id[:12]}        the run in the MLflow UI",
            f"{folder / modality}        the cards and suites to copy from",
        ):
            console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
        console.print()


def command() -> str:
    """How to call aitest from here: by name where it is on the path, else as it was called."""
    if shutil.which("aitest"):
        return "aitest"
    called = Path(sys.argv[0])
    return str(called.relative_to(Path.cwd())) if called.is_relative_to(Path.cwd()) else str(called)


def _print_found(console: Console, report: RunReport) -> None:
    name = "wer" if report.model.type == "speech-to-text" else "accuracy"
    main = next((item for found in report.properties for item in found.metrics if item.name == name and not item.slice), None)
    if main is not None and main.value is not None:
        console.print(f"   {name} {main.value:.3f} [{main.low:.3f}, {main.high:.3f}]", markup=False, highlight=False)
    for found in report.properties:
        worst = sorted(found.gates, key=lambda gate: SEVERITY.index(gate.verdict))
        for gate in worst[:MOST_GATES]:
            style = {"passed": "green", "failed": "red"}.get(gate.verdict, "yellow")
            where = slice_label(gate.slice)
            console.print(f"   [{style}]{gate.verdict:<12}[/] {gate.metric}, {where}: ", end="", highlight=False)
            console.print(gate.reason, markup=False, highlight=False)
        if len(worst) > MOST_GATES:
            verdicts = Counter(gate.verdict for gate in worst[MOST_GATES:])
            rest = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
            console.print(f"   and {len(worst) - MOST_GATES} more gates: {rest}", markup=False, highlight=False)
        for line in outline(found.tree, TREE_WIDTH) if found.tree is not None else []:
            console.print(f"   {line}", markup=False, highlight=False, soft_wrap=True)
        explained = _culprit(found)
        if explained:
            console.print(f"   why: {explained}", markup=False, highlight=False)
    console.print()


def _culprit(found: PropertyReport) -> str | None:
    """The changed column that goes with the failures, or the columns that tell the groups, where the property failed."""
    if found.status == "failed" and found.groups is not None:
        return proxy_words(found.groups.proxies).rstrip(".") or None
    changes = [item for item in found.slices if item.flagged and item.name.startswith(CHANGED_BY)]
    if found.status != "failed" or not changes:
        return None
    worst = max(changes, key=lambda item: item.difference)
    transform = worst.name.removeprefix(CHANGED_BY)
    here = f"{worst.rate:.1%} of {worst.seeds:,} rows failed"
    return f"where {transform} changed {worst.value}, {here}; elsewhere {worst.rest_rate:.1%}"

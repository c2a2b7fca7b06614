"""What stands in `deployments/` to be copied is valid, whole, and what the installed package carries."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from setuptools import find_namespace_packages

from aitest_flows.ready_cards import ready_card, ready_cards
from aitest_lib.config.card import load_card
from aitest_lib.config.gates import Gate
from aitest_lib.config.start import card_like
from aitest_lib.config.suite import check_fit, load_suite
from aitest_lib.errors import InputError

DEPLOYMENTS = Path(__file__).parents[2] / "deployments"
CARDS = sorted((DEPLOYMENTS / "cards").glob("*.yaml"))
every_card = pytest.mark.parametrize("card", CARDS, ids=lambda path: path.stem)
TABULAR = [path for path in CARDS if yaml.safe_load(path.read_text())["type"].startswith("tabular-")]


def with_its_files(folder: Path, text: str) -> Path:
    """A folder with a card of this text, and the files that a card may name."""
    for name in ("predictions.parquet", "model.onnx"):
        (folder / name).write_bytes(b"content")
    (folder / "card.yaml").write_text(text)
    return folder / "card.yaml"


@every_card
def test_cards_load(card: Path, tmp_path: Path) -> None:
    assert load_card(with_its_files(tmp_path, card.read_text())).card.name


@every_card
def test_a_card_says_what_to_set(card: Path) -> None:
    text = card.read_text()
    header = re.match(r"(# .*\n)+", text)
    assert header and len(header[0].splitlines()) > 1 and re.search(r"\bSet: ", header[0])
    assert max(map(len, header[0].splitlines())) <= 128
    data = yaml.safe_load(text)
    assert ("revision" in data) == ("revision:" in text)
    # Values that a copy replaces stand on one line each.
    assert all(re.search(rf"(?m)^{key}: \S", text) for key in ("name", "type", "classes", "decision", "inputs") if key in data)


@pytest.mark.parametrize("card", TABULAR, ids=lambda path: path.stem)
@pytest.mark.parametrize(
    ("kind", "classes"),
    [
        ("tabular-classifier", ["no", "yes"]),
        ("tabular-classifier", [1, 2, 3]),
        ("tabular-regressor", None),
        (None, None),
    ],
)
def test_a_copy_of_a_card_loads(card: Path, kind: str | None, classes: list[str] | None, tmp_path: Path) -> None:
    text = card_like(card.read_text(), "mine", ["one", "the other"], kind, classes)
    copy = load_card(with_its_files(tmp_path, text)).card
    assert copy.name == "mine" and copy.type == (kind or yaml.safe_load(card.read_text())["type"])
    assert copy.mlflow or copy.inputs.columns == ("one", "the other")
    if kind is not None:
        assert copy.classes == (None if classes is None else tuple(classes))


def test_the_package_carries_the_cards() -> None:
    assert {ready.name: ready.text for ready in ready_cards()} == {path.stem: path.read_text() for path in CARDS}
    assert "aitest_flows.cards" in find_namespace_packages(str(DEPLOYMENTS.parent / "flows"))  # as the build looks for them


def test_an_unknown_card_gets_the_nearest_names() -> None:
    with pytest.raises(InputError, match=r"unknown ready card 'sagemaker'; did you mean .*sagemaker-.*aitest list cards"):
        ready_card("sagemaker")
    with pytest.raises(InputError, match="known: assemblyai"):
        ready_card("?")


@pytest.mark.parametrize("suite", sorted((DEPLOYMENTS / "suites").glob("*.yaml")), ids=lambda path: path.name)
def test_a_suite_loads_and_fits_its_card(suite: Path) -> None:
    loaded = load_suite(suite)
    assert loaded.suite.model.card is not None
    card = load_card(loaded.base_dir / loaded.suite.model.card).card
    check_fit(loaded, card.type, labelled=True)
    gates = [gate for item in loaded.suite.properties for given in item.gates.values() for gate in as_list(given)]
    assert {gate.slice["class"] for gate in gates if gate.slice and "class" in gate.slice} <= set(card.classes or ())


def as_list(given: Gate | list[Gate]) -> list[Gate]:
    return given if isinstance(given, list) else [given]


def test_the_readme_names_every_file() -> None:
    text = (DEPLOYMENTS / "README.md").read_text()
    for path in DEPLOYMENTS.glob("*/*.yaml"):
        assert f"{path.parent.name}/{path.name}" in text

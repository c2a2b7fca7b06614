"""What stands in `deployments/` to be copied is valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from aitest_lib.config.card import load_card
from aitest_lib.config.suite import load_suite

DEPLOYMENTS = Path(__file__).parents[2] / "deployments"


@pytest.mark.parametrize("card", sorted((DEPLOYMENTS / "cards").glob("*.yaml")), ids=lambda path: path.name)
def test_cards_load(card: Path, tmp_path: Path) -> None:
    copy = tmp_path / card.name
    copy.write_text(card.read_text())
    (tmp_path / "predictions.parquet").write_bytes(b"answers")
    assert load_card(copy).card.name


@pytest.mark.parametrize("suite", sorted((DEPLOYMENTS / "suites").glob("*.yaml")), ids=lambda path: path.name)
def test_suites_load(suite: Path) -> None:
    loaded = load_suite(suite)
    assert loaded.suite.model.card is not None
    assert (loaded.base_dir / loaded.suite.model.card).exists()


def test_the_readme_names_every_file() -> None:
    text = (DEPLOYMENTS / "README.md").read_text()
    for path in DEPLOYMENTS.glob("*/*.yaml"):
        assert f"{path.parent.name}/{path.name}" in text

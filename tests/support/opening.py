"""Opens models for tests and closes them at the test's end."""

from __future__ import annotations

from typing import Any

from aitest_lib.config.card import load_card_data
from aitest_lib.models import base, opening

_open: list[base.Model] = []


def open_card(card: dict[str, Any], **options: Any) -> base.Model:
    """The model behind card data, closed by the fixture in conftest."""
    _open.append(opening.open_model(load_card_data(card, "."), **options))
    return _open[-1]


def close_all() -> None:
    while _open:
        _open.pop().close()

"""The ready cards: one for each service that people use. In the repository they stand in `deployments/cards`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from aitest_lib.config.card import BACKENDS, Card
from aitest_lib.config.loading import Document, validate
from aitest_lib.errors import InputError, unknown


@dataclass(frozen=True, kw_only=True)
class ReadyCard:
    """A card to copy. `service`: the first line of its text, without the comment sign."""

    name: str
    service: str
    text: str
    card: Card

    @property
    def backend(self) -> str:
        """Which of the backends it uses."""
        return next(name for name in BACKENDS if getattr(self.card, name) is not None)


def ready_cards() -> list[ReadyCard]:
    """All of them, by type, then name."""
    found = [_read(name) for name in _names()]
    return sorted(found, key=lambda ready: (ready.card.type, ready.name))


def ready_card(name: str) -> ReadyCard:
    """The ready card of this name; an unknown one is an `InputError` with the nearest names."""
    names = _names()
    if name not in names:
        raise InputError(f"{unknown('ready card', name, names)}; `aitest list cards` shows all")
    return _read(name)


def _names() -> list[str]:
    return sorted(file.name.removesuffix(".yaml") for file in _folder.iterdir() if file.name.endswith(".yaml"))


def _read(name: str) -> ReadyCard:
    import yaml

    text = (_folder / f"{name}.yaml").read_text(encoding="utf-8")
    card = validate(Document(yaml.safe_load(text), f"{name}.yaml"), Card)
    return ReadyCard(name=name, service=text.split("\n", 1)[0].removeprefix("# "), text=text, card=card)


_folder = files("aitest_flows") / "cards"

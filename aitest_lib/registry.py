"""What components there are: the built-in ones and those of installed packages (entry-point group `aitest.components`)."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from aitest_lib.component import Component
from aitest_lib.errors import InputError, unknown

GROUP = "aitest.components"
BUILT_IN = (
    "aitest_lib.transforms.tabular",
    "aitest_lib.transforms.image.geometry",
    "aitest_lib.transforms.image.colour",
    "aitest_lib.transforms.image.noise",
    "aitest_lib.transforms.image.blur",
    "aitest_lib.transforms.image.weather",
    "aitest_lib.transforms.image.digital",
    "aitest_lib.transforms.image.compose",
    "aitest_lib.transforms.audio.white_noise",
    "aitest_lib.transforms.audio.interference",
    "aitest_lib.transforms.audio.tempo",
    "aitest_lib.transforms.audio.reverberation",
    "aitest_lib.transforms.audio.channel",
    "aitest_lib.searches.image.auto",
    "aitest_lib.searches.image.bayesian",
    "aitest_lib.searches.image.random",
    "aitest_lib.searches.image.square",
    "aitest_lib.searches.image.sign_hunter",
    "aitest_lib.searches.image.rays",
)

C = TypeVar("C", bound=type[Component])
_components: dict[str, type[Component]] = {}


def register(cls: C) -> C:
    """Class decorator: makes a component known under its name. A second class of the same name is an error."""
    known = _components.get(cls.name)
    if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise InputError(
            f"component name {cls.name!r} is taken: {cls.__module__}.{cls.__qualname__} and "
            f"{known.__module__}.{known.__qualname__} both claim it; rename one of them"
        )
    _components[cls.name] = cls
    return cls


def load_entry_point(entry: EntryPoint) -> None:
    """Imports a plug-in (its import registers its components); an error names the distribution that brings it."""
    brought_by = entry.dist.name if entry.dist else "an unknown distribution"
    try:
        entry.load()
    except InputError as error:
        raise InputError(f"plug-in {entry.name!r} of {brought_by}: {error}") from error
    except Exception as error:
        raise InputError(
            f"plug-in {entry.name!r} of {brought_by} cannot be imported ({type(error).__name__}: {error}); "
            f"repair or uninstall {brought_by}"
        ) from error


@cache
def _load_all() -> None:
    for module in BUILT_IN:
        import_module(module)
    for entry in entry_points(group=GROUP):
        load_entry_point(entry)


def components() -> dict[str, type[Component]]:
    """All components by name, plug-ins included."""
    _load_all()
    return dict(sorted(_components.items()))


def component_class(name: str, kind: str = "component") -> type[Component]:
    """The class registered under `name`; an unknown name is an `InputError` with the nearest ones."""
    known = components()
    if name not in known:
        raise InputError(unknown(kind, name, known))
    return known[name]

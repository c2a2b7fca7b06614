"""Components by name, and those that installed packages bring."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import ClassVar

import pytest

from aitest_lib import registry
from aitest_lib.component import Component
from aitest_lib.errors import InputError
from aitest_lib.parameters import describe, parameter, parameter_model
from aitest_lib.registry import GROUP, component_class, components, load_entry_point, register

PLUG_IN = '''
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from aitest_lib.registry import register
from aitest_lib.transforms.base import RngFor, TableBatch, TableDraw, TabularTransform


@register
@dataclass(frozen=True, kw_only=True)
class Shout(TabularTransform):
    """Writes text in capitals."""

    name: ClassVar[str] = "{name}"
'''


@pytest.fixture
def known(monkeypatch):
    """The registry as it is, put back afterwards."""
    components()
    monkeypatch.setattr(registry, "_components", dict(registry._components))
    yield
    registry._load_all.cache_clear()


@pytest.fixture
def distribution(tmp_path, monkeypatch, known):
    """Installs a distribution of one module: a folder with its metadata, as an installer leaves it."""
    modules = set(sys.modules)

    def install(name: str, code: str) -> None:
        module = name.replace("-", "_")
        site = tmp_path / name
        info = site / f"{module}-1.0.dist-info"
        info.mkdir(parents=True)
        (site / f"{module}.py").write_text(code)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{GROUP}]\nmine = {module}\n")
        monkeypatch.syspath_prepend(str(site))
        importlib.invalidate_caches()
        registry._load_all.cache_clear()

    yield install
    for name in set(sys.modules) - modules:
        if name.startswith("aitest_plug"):
            del sys.modules[name]


def test_the_built_in_components_are_there():
    found = components()
    assert list(found) == sorted(found)
    assert {"numeric_noise", "category_swap", "missing_value"} <= set(found)
    assert component_class("numeric_noise") is found["numeric_noise"]


def test_an_unknown_name_gets_its_nearest_ones():
    with pytest.raises(InputError, match=r"unknown transform 'numeric_nose'; did you mean numeric_noise.*\?"):
        component_class("numeric_nose", "transform")


def test_a_second_class_of_one_name_names_both(known):
    @dataclass(frozen=True, kw_only=True)
    class Other(Component):
        """Not the built-in one."""

        name: ClassVar[str] = "numeric_noise"

    with pytest.raises(InputError) as caught:
        register(Other)
    assert "component name 'numeric_noise' is taken" in str(caught.value)
    assert "aitest_lib.transforms.tabular.NumericNoise" in str(caught.value)
    assert "test_registry" in str(caught.value)
    assert "Other" in str(caught.value)
    assert component_class("numeric_noise") is not Other


def test_the_same_class_may_be_registered_again(known):
    cls = component_class("numeric_noise")
    assert register(cls) is cls


def test_a_plug_in_brings_its_components(distribution):
    distribution("aitest-plug-good", PLUG_IN.replace("{name}", "shout"))
    assert component_class("shout").__module__ == "aitest_plug_good"
    assert "numeric_noise" in components()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import no_such_module\n", r"cannot be imported \(ModuleNotFoundError: No module named 'no_such_module'\)"),
        ("1 / 0\n", r"cannot be imported \(ZeroDivisionError"),
        ("this is no python\n", r"cannot be imported \(SyntaxError"),
    ],
)
def test_a_broken_plug_in_names_its_distribution(distribution, code, message):
    distribution("aitest-plug-broken", code)
    for _ in range(2):  # the second look is no better than the first
        with pytest.raises(InputError, match=rf"plug-in 'mine' of aitest-plug-broken {message}.*uninstall aitest-plug-broken"):
            components()


def test_a_plug_in_that_takes_a_name_names_its_distribution_and_both_classes(distribution):
    distribution("aitest-plug-greedy", PLUG_IN.replace("{name}", "numeric_noise"))
    with pytest.raises(InputError) as caught:
        components()
    for part in ("plug-in 'mine' of aitest-plug-greedy", "aitest_plug_greedy.Shout", "transforms.tabular.NumericNoise"):
        assert part in str(caught.value)


def test_an_entry_point_alone_can_be_loaded(distribution):
    distribution("aitest-plug-alone", PLUG_IN.replace("{name}", "alone"))
    [entry] = entry_points(group=GROUP, name="mine")
    load_entry_point(entry)
    assert registry._components["alone"].__module__ == "aitest_plug_alone"


@dataclass(frozen=True, kw_only=True)
class Sample(Component):
    """A component with parameters of several kinds."""

    name: ClassVar[str] = "sample"
    version: ClassVar[int] = 3
    size: float = parameter(help="how much", unit="sd", gt=0, le=10)
    columns: list[str] | None = parameter(None, help="which")


class TestComponents:
    def test_name_version_and_parameters_make_the_fingerprint(self):
        class Newer(Sample):
            version: ClassVar[int] = 4

        made = [Sample(size=1), Sample(size=2), Sample(size=1, columns=["a"]), Newer(size=1)]
        assert len({item.fingerprint() for item in made}) == len(made)
        assert Sample(size=1).fingerprint() == Sample(size=1.0).fingerprint()
        assert Sample(size=1).key == "sample@3"
        assert Sample(size=1).parameters() == {"size": 1, "columns": None}

    def test_parameters_are_checked(self):
        model = parameter_model(Sample)
        assert model(size=2.5, columns=["a"]).model_dump() == {"size": 2.5, "columns": ["a"]}
        for wrong in ({}, {"size": 0}, {"size": 11}, {"size": "1"}, {"size": 1, "colums": []}, {"size": float("nan")}):
            with pytest.raises(ValueError, match="validation error"):
                model(**wrong)

    def test_parameters_are_described(self):
        assert describe(Sample) == [
            {"name": "size", "unit": "sd", "range": "> 0, <= 10", "default": "", "help": "how much"},
            {"name": "columns", "unit": "", "range": "", "default": "", "help": "which"},
        ]

"""One contract for all components: those that are registered, and those that the library uses by itself."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import pickle
import re
from typing import Any

import pytest
from image_samples import photo
from made_up_models import IMAGE_SEARCHES, attack_on, by_chance, carried_out, digests
from tables import PROTECTED, SCHEMA, rows, seeds_of

from aitest_lib.component import Component
from aitest_lib.data.coverage import Coverage
from aitest_lib.data.drift import Drift
from aitest_lib.data.sampling import StratifiedSampler
from aitest_lib.data.synthesis import Marginal, Swap
from aitest_lib.errors import InputError
from aitest_lib.parameters import describe, parameter_model
from aitest_lib.registry import components
from aitest_lib.scorers.invariance import InvarianceScorer
from aitest_lib.searches.breaking_point import BreakingPoint
from aitest_lib.searches.image.base import ImageSearch
from aitest_lib.searches.pairs.search import PairSearch
from aitest_lib.searches.rows import SmallestFlip
from aitest_lib.surrogates.growing import TreeSurrogate
from aitest_lib.surrogates.trepan import Trepan
from aitest_lib.transforms.audio.voice import VoiceOver
from aitest_lib.transforms.base import TabularTransform, Transform
from aitest_lib.transforms.image.base import ImageTransform
from aitest_lib.transforms.values import MovedColumn, ProtectedValues

REGISTERED = list(components().values())
SYNTHESIS = [Swap, Marginal, Coverage, Drift]
FAIRNESS = [ProtectedValues, MovedColumn, PairSearch]
OWN = [
    VoiceOver,
    *FAIRNESS,
    StratifiedSampler,
    InvarianceScorer,
    SmallestFlip,
    BreakingPoint,
    *SYNTHESIS,
    TreeSurrogate,
    Trepan,
]
every_component = pytest.mark.parametrize("cls", [*REGISTERED, *OWN], ids=lambda cls: cls.name)
every_registered = pytest.mark.parametrize("cls", REGISTERED, ids=lambda cls: cls.name)
every_transform = pytest.mark.parametrize(
    "cls", [cls for cls in REGISTERED if issubclass(cls, TabularTransform)], ids=lambda cls: cls.name
)
every_image_search = pytest.mark.parametrize("cls", IMAGE_SEARCHES, ids=lambda cls: cls.name)
REQUIRED: dict[str, dict[str, Any]] = {
    "voice": {"config": {"voice": "slt", "engine": "flite"}},
    "compose": {"parts": [{"name": "rotate"}, {"name": "inverse"}]},
    "drift": {"ranges": {}, "distributions": {}},
    "protected_values": {"values": {"sex": "F"}},
    "moved": {"column": "age", "to": 40},
}


def plain(cls: type[Component]) -> Any:
    """A component with its defaults, and what it cannot be without."""
    return cls(**REQUIRED.get(cls.name, {}))


def limits(cls: type[Component]) -> dict[str, dict[str, Any]]:
    return {field.name: field.metadata.get("limits", {}) for field in dataclasses.fields(cls)}


def test_all_components_of_the_library_are_in_this_table():
    def below(cls: type) -> set[type]:
        return {cls, *(found for child in cls.__subclasses__() for found in below(child))}

    concrete = {
        cls
        for cls in below(Component)
        if cls.__module__.startswith("aitest_") and "name" in vars(cls) and not inspect.isabstract(cls)
    }
    assert concrete == {*REGISTERED, *OWN}


@every_component
def test_it_is_named_versioned_and_documented(cls):
    assert re.fullmatch(r"[a-z][a-z0-9_]*", cls.name)
    assert isinstance(cls.version, int)
    assert cls.version >= 1
    assert "__doc__" in vars(cls)
    assert len(cls.__doc__.split()) >= 4
    assert not cls.__doc__.startswith(f"{cls.__name__}(")  # what a dataclass writes where nobody did


@every_component
def test_it_does_not_change_once_made(cls):
    made = plain(cls)
    assert dataclasses.is_dataclass(made)
    for field in dataclasses.fields(cls):
        assert field.kw_only
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, field.name, None)


@every_component
def test_it_is_its_parameters(cls):
    made = plain(cls)
    parameters = made.parameters()
    assert json.loads(json.dumps(parameters, allow_nan=False)) == json.loads(json.dumps(parameters))
    again = cls(**parameters)
    assert again == made
    # Components travel to worker processes by pickle; the bytes are our own, made on this line.
    assert again.fingerprint() == made.fingerprint() == pickle.loads(pickle.dumps(made)).fingerprint()
    assert re.fullmatch(r"[0-9a-f]{32}", made.fingerprint())
    assert made.key == f"{cls.name}@{cls.version}"


@every_component
def test_its_fingerprint_tells_versions_apart(cls, monkeypatch):
    before = plain(cls).fingerprint()
    monkeypatch.setattr(cls, "version", cls.version + 1)
    assert plain(cls).fingerprint() != before


@every_registered
def test_every_parameter_is_told_to_users(cls):
    for row in describe(cls):
        assert row["help"], row["name"]
    schema = parameter_model(cls).model_json_schema()
    assert set(schema.get("properties", {})) == {field.name for field in dataclasses.fields(cls)}


@every_registered
def test_defaults_are_valid_and_limits_are_kept(cls):
    model = parameter_model(cls)
    required = REQUIRED.get(cls.name, {})
    assert cls(**model(**required).model_dump()) == plain(cls)
    with pytest.raises(ValueError, match="extra"):
        model(**required, no_such_parameter=1)
    for name, given in limits(cls).items():
        outside = {"gt": given.get("gt"), "ge": None, "lt": given.get("lt"), "le": None}
        if "ge" in given:
            outside["ge"] = given["ge"] - 1
        if "le" in given:
            outside["le"] = given["le"] + 1
        for value in outside.values():
            if value is not None:
                with pytest.raises(ValueError, match=name):
                    model(**required, **{name: value})


@pytest.mark.parametrize("cls", [cls for cls in REGISTERED if issubclass(cls, Transform)], ids=lambda cls: cls.name)
def test_a_transform_says_what_it_works_on(cls):
    assert cls.modality
    assert cls.distance_unit
    names = {field.name for field in dataclasses.fields(cls)}
    assert cls.strength is None or cls.strength in names
    made = plain(cls)
    assert made.slice["transform"] == ("rotate + inverse" if cls.name == "compose" else cls.name)
    own = None if cls.strength is None else getattr(made, cls.strength)
    assert made.strength_value == (made.severity if own is None and isinstance(made, ImageTransform) else own)


def test_what_is_registered_is_a_transform_or_a_search():
    assert all(issubclass(cls, Transform | ImageSearch) for cls in REGISTERED)


@every_image_search
def test_a_search_of_images_says_how_far_it_goes(cls):
    assert cls.kind == "image_search"
    assert isinstance(cls.needs_scores, bool)
    names = {field.name for field in dataclasses.fields(cls)}
    assert {"delta", "queries", "labels_only"} <= names
    assert cls(delta=0.05).radius == 12
    with pytest.raises(InputError, match="at least one grey level"):
        cls(delta=0.001)


@every_image_search
def test_a_search_of_images_keeps_nothing_from_one_image_to_the_next(cls):
    """One component serves all images: it is as it was, and the same image is searched in the same way once more."""
    search, image = cls(delta=0.1, queries=12), photo(1, (8, 8, 3))
    before = search.fingerprint(), vars(search).copy()
    first, again = (digests(carried_out(attack_on(search, list(image)), by_chance())) for _ in range(2))
    assert first == again
    assert (search.fingerprint(), vars(search)) == before


@every_registered
def test_randomness_and_strength_are_apart(cls):
    """What a case is made of comes from the generator it is handed, never from one of the module's own."""
    tree = ast.parse(inspect.getsource(inspect.getmodule(cls)))
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not names & {"default_rng", "seed", "RandomState", "shuffle"}
    assert not any(
        isinstance(node, ast.Import) and any(name.name == "random" for name in node.names) for node in ast.walk(tree)
    )


@every_transform
def test_a_draw_has_one_entry_for_each_seed_and_is_json(cls):
    seeds = seeds_of(rows(60), SCHEMA, protected=PROTECTED)
    draw = seeds.draw(cls())
    assert len(draw.params) == len(draw.distance) == len(draw.not_applicable) == 60
    assert json.loads(json.dumps(draw.params, allow_nan=False)) == draw.params
    assert (draw.distance >= 0).all()
    for row, reason in zip(draw.params, draw.not_applicable, strict=True):
        assert set(row["set"]) <= set(seeds.batch.changeable)
        assert reason is None or not row["set"]


@every_transform
def test_no_seeds_make_no_cases(cls):
    seeds = seeds_of(rows(60), SCHEMA, protected=PROTECTED)
    draw = seeds.draw(cls(), slice(0, 0))
    assert (len(draw.params), len(draw.distance)) == (0, 0)
    assert len(cls().apply(seeds.batch.frame.iloc[:0], draw.params)) == 0

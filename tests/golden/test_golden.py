"""What every component makes of fixed seeds, pinned by name and version: other output needs another version.

Transforms of images are pinned by their pixels, in test_golden_images.py.

Caches trust the version. Where an output was meant to change, raise the component's `version` and print the new digests:

    python tests/golden/test_golden.py > tests/golden/digests.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import pytest
from made_up_models import attack_on, carried_out, linear
from tables import PROTECTED, RANDOM_SEED, SCHEMA, Seeds, rows, seeds_of

from aitest_lib.artifacts.codecs import get_table
from aitest_lib.canonical import array_digest, digest
from aitest_lib.component import Component
from aitest_lib.config.synthesize import Range
from aitest_lib.data.counterparts import Counterparts, combined_values
from aitest_lib.data.drift import Drift
from aitest_lib.data.sampling import StratifiedSampler
from aitest_lib.data.table import hex_digests, memory_source, row_digests
from aitest_lib.registry import components
from aitest_lib.scorers.invariance import Answered, InvarianceScorer, Tally
from aitest_lib.searches.image.base import ImageSearch
from aitest_lib.searches.pairs.search import PairSearch
from aitest_lib.searches.rows import SmallestFlip
from aitest_lib.surrogates.growing import TreeSurrogate, grow
from aitest_lib.surrogates.trepan import Trepan
from aitest_lib.transforms.audio.base import AudioTransform
from aitest_lib.transforms.base import TabularTransform
from aitest_lib.transforms.image.base import ImageTransform
from aitest_lib.transforms.values import MovedColumn, ProtectedValues, PutValues
from aitest_tasks.generation import write_cases

DIGESTS = Path(__file__).with_name("digests.json")
# A transform with a strength is pinned at a weak and a strong one.
STRENGTHS: dict[str, tuple[float, ...]] = {"epsilon": (0.1, 2.0)}
# Of searches by Gaussian processes: in the end the last bits of a sum, other on every machine, may choose a candidate.
FEWER = {"auto": 10, "bayesian": 10}


def cases(cls: type[TabularTransform], seeds: Seeds) -> Any:
    """The cases of a transform, as they are stored: ids, parameters, status and inputs."""
    strengths = STRENGTHS.get(cls.strength or "", (None,))
    made = [cls() if strength is None else cls(**{str(cls.strength): strength}) for strength in strengths]
    tables = [get_table(seeds.store, write_cases(seeds.store, seeds.job(component))) for component in made]
    return [[table.drop_columns(["@digest"]).to_pylist() for table in tables]]


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))


def of_transform(cls: type[TabularTransform]) -> Any:
    return as_json(cases(cls, seeds_of(rows(), SCHEMA, protected=PROTECTED)))


def of_put_values(cls: type[PutValues]) -> Any:
    """Other values in every row; a column that is tied to a changed one moves along."""
    state = min(rows()["state"].dropna())
    given: dict[str, Any] = {"column": "age", "to": 40}
    if cls is ProtectedValues:
        given = {"values": {"sex": "F", "state": state}}
    seeds = seeds_of(rows(), SCHEMA, protected=PROTECTED)
    table = get_table(seeds.store, write_cases(seeds.store, seeds.job(cls(**given))))
    return as_json(table.drop_columns(["@digest"]).to_pylist())


def of_sampler(cls: type[StratifiedSampler]) -> Any:
    source = memory_source(rows()[["age", "job", "sex", "ssn"]])
    return [cls(rows=count).choose(source, ["age", "job", "sex"], ["ssn"], "sex", RANDOM_SEED).seed_ids for count in (None, 50)]


def of_scorer(cls: type[InvarianceScorer]) -> Any:
    """Outcomes for every combination of what can be known of a case, and figures of random ones."""
    bits = np.array([[number >> bit & 1 for bit in range(7)] for number in range(128)], bool).T
    errors = np.full(128, "no answer", dtype=object)
    skip = np.where(bits[0], "no_op", None)
    outcome, reason = cls().outcomes(
        skip, Answered(bits[1], bits[2], errors), Answered(bits[3], bits[4], errors), bits[5], bits[6]
    )
    rng = np.random.default_rng(0)
    tallies = [Tally({"transform": name}, *(rng.random((5, 200)) < 0.8)) for name in ("a", "b")]
    flips = rng.integers(0, 3, 200) / 5
    figures = [
        {
            "metric": figure.metric(0.95).model_dump(),
            "bounds": [None if one is None else one.bounds(0.95) for one in (figure.judged, figure.pessimistic)],
            "note": figure.note,
        }
        for scorer in (cls(), cls(sequential=True))
        for own in (None, flips)
        for figure in scorer.figures(tallies, own, labelled=True)
    ]
    return [outcome.tolist(), reason.tolist(), rounded(figures)]


def of_search(cls: type[SmallestFlip]) -> Any:
    seeds = seeds_of(rows(60), SCHEMA, protected=PROTECTED)
    columns = [name for name in seeds.batch.changeable if name != "account"]
    grid = cls().grid(seeds.batch.frame.drop(columns="account"), seeds.profile, columns)
    return as_json([cells(grid.frame), grid.seed.tolist(), grid.column, rounded(grid.shift.tolist())])


def cells(frame: pd.DataFrame) -> Any:
    """Cells by column, missing ones as None."""
    return as_json(rounded(frame.astype(object).where(frame.notna(), None).to_dict("list")))


def of_tree(cls: type[TreeSurrogate]) -> Any:
    seeds = seeds_of(rows(200), SCHEMA, protected=PROTECTED)
    frame, columns = seeds.batch.frame, list(seeds.batch.frame.columns)
    answers = (np.arange(200) % 7 + frame["age"].to_numpy(float) > 45).astype(np.int64)
    grown = grow(frame, answers, seeds.profile, columns, classes=["no", "yes"], max_depth=6, random_seed=RANDOM_SEED)
    number = grow(frame, answers * 1.5, seeds.profile, columns, classes=[], max_depth=6, random_seed=RANDOM_SEED)
    return rounded(as_json([tree.to_dict() for tree in [*grown, *number]]))


def of_trepan(cls: type[Trepan]) -> Any:
    """The rows of every round, answered by a rule, and the tree at the end."""
    seeds = seeds_of(rows(200), SCHEMA, protected=PROTECTED)
    frame, columns = seeds.batch.frame, list(seeds.batch.frame.columns)

    def answered(asked: Any) -> Any:
        return (asked["age"].to_numpy(float) > 45).astype(np.int64)

    search, rounds = cls(smallest_sample=300, max_leaves=8), []
    state = search.start(frame, answered(frame), seeds.profile, columns, classes=["no", "yes"], random_seed=RANDOM_SEED)
    while not state.done:
        asked, base = search.ask(state)
        rounds.append([cells(asked), base.tolist()])
        state = search.tell(state, answered(asked))
    return [rounds, rounded(as_json(search.tree(state).to_dict()))]


def of_pair_search(cls: type[PairSearch]) -> Any:
    """What is asked about a rule that is biased in a corner, with scores and by labels alone."""
    seeds = seeds_of(rows(200), SCHEMA, protected=PROTECTED)
    frame, profile, asked = seeds.batch.frame, seeds.profile, []
    counterparts = Counterparts(combined_values(profile, PROTECTED).values, profile, frame)
    for scored in (True, False):
        search = cls(queries=300)
        state = search.start(frame, profile, counterparts, classes=2, random_seed=RANDOM_SEED)
        while not state.done:
            made, base = search.ask(state)
            lead = made["age"].to_numpy(float) / 8 - 6 + (made["sex"] == "M").to_numpy() * 1.5
            second = 1 / (1 + np.exp(-lead))
            state = search.tell(state, (lead > 0).astype(float), np.column_stack([1 - second, second]) if scored else None)
            asked.append([cells(made.drop(columns="account")), base.tolist()])
        asked.append(search.result(state).query.tolist())
    return asked


def of_image_search(cls: type[ImageSearch]) -> Any:
    """The first candidates on two small images, by a model of two classes that gives in only outside the ball."""
    models = [linear(shape, level=None, up=0.9).at(50) for shape in ((6, 9, 3), (8, 8, 1))]
    attack = attack_on(
        cls(delta=0.2, queries=FEWER.get(cls.name, 30)), [model.seed for model in models], margin=float(models[0].threshold)
    )
    return [[one.digest for one in asked] for asked in carried_out(attack, lambda one: models[one.place](one))]


def of_drift(cls: type[Drift]) -> Any:
    seeds = seeds_of(rows(200), SCHEMA, protected=PROTECTED)
    drift = cls(ranges={"age": Range(min=40)}, distributions={"sex": {"F": 0.25, "M": 0.75}})
    made = drift.apply(seeds.batch.frame, seeds.profile, (), (), RANDOM_SEED)
    return [cells(made.frame), made.origin.tolist()]


def rounded(value: Any) -> Any:
    """Numbers to 9 digits: the last bits of a sum may differ from machine to machine."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def pinned() -> Iterable[tuple[type[Component], Callable[[Any], Any]]]:
    """Every component with what makes its output."""
    for cls in components().values():
        if issubclass(cls, TabularTransform):
            yield cls, of_transform
        elif issubclass(cls, ImageSearch):
            yield cls, of_image_search
    yield StratifiedSampler, of_sampler
    yield InvarianceScorer, of_scorer
    yield SmallestFlip, of_search
    yield TreeSurrogate, of_tree
    yield Trepan, of_trepan
    yield PairSearch, of_pair_search
    yield ProtectedValues, of_put_values
    yield MovedColumn, of_put_values
    yield Drift, of_drift


def digests() -> dict[str, str]:
    """The digest of every component's output by "name@version"."""
    return {f"{cls.name}@{cls.version}": digest(make(cls)) for cls, make in pinned()}


@pytest.mark.parametrize(("cls", "make"), list(pinned()), ids=lambda item: getattr(item, "name", ""))
def test_the_output_is_the_pinned_one(cls, make):
    known = json.loads(DIGESTS.read_text())
    key = f"{cls.name}@{cls.version}"
    assert key in known, f"{key} is not pinned; {__doc__}"
    assert digest(make(cls)) == known[key], f"the output of {key} is another one; {__doc__}"


def test_nothing_is_pinned_that_is_no_more():
    assert set(json.loads(DIGESTS.read_text())) == {f"{cls.name}@{cls.version}" for cls, _ in pinned()}


def test_all_components_are_pinned():
    unpinned = set(components().values()) - {cls for cls, _ in pinned()}
    assert {cls for cls in unpinned if not issubclass(cls, ImageTransform | AudioTransform)} == set()


def test_a_changed_output_is_noticed(monkeypatch):
    """The guard itself: a draw that differs in one seed has another digest."""
    cls = components()["numeric_noise"]
    before = digest(of_transform(cls))
    draw = cls.draw

    def other(self, seed_ids, batch, rng_for):
        made = draw(self, seed_ids, batch, rng_for)
        made.params[0]["set"]["pay"] = 1.0
        return made

    monkeypatch.setattr(cls, "draw", other)
    assert digest(of_transform(cls)) != before


def test_ids_of_seeds_and_of_arrays_are_pinned():
    """The names under which answers and cases are kept: a change here makes every store forget."""
    assert hex_digests(row_digests(memory_source(rows(1)).take(np.array([0]), rows(1).columns))) == [
        "4669eaf4f6c9d12432727e689b6c05bf"
    ]
    assert array_digest(np.arange(24, dtype=np.float32).reshape(2, 3, 4)) == "718e34a87af84816fa25267ad23c82ce"


if __name__ == "__main__":
    print(json.dumps(digests(), indent=1, sort_keys=True))

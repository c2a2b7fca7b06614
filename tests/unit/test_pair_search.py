"""The search for discriminatory pairs, against models whose answers are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

from aitest_lib.data.counterparts import Counterparts, combined_values
from aitest_lib.data.schema import ColumnOverride, Profile, build_profile
from aitest_lib.data.table import memory_source, row_digests, to_frame
from aitest_lib.errors import InputError
from aitest_lib.searches.pairs.guides import boundary
from aitest_lib.searches.pairs.search import Pairs, PairSearch
from aitest_lib.searches.pairs.state import Known, PairState

PROTECTED = ["sex", "race"]


def people(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """Rows in which `married` is always with `spouse`, and a husband a man, a wife a woman."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n)
    married = rng.random(n) < 0.5
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "income": np.round(rng.lognormal(3, 0.7, n), 1),
            "job": rng.choice(["cook", "nurse", "clerk", "pilot"], n),
            "city": rng.choice(["Rome", "Paris", "Bonn"], n),
            "spouse": np.where(married, np.where(sex == "M", "husband", "wife"), "none"),
            "status": np.where(married, "married", "single"),
            "sex": sex,
            "race": rng.choice(["a", "b", "c"], n),
        }
    )


@dataclass
class Asked:
    """A search on a table, carried out; every row that was asked, in order."""

    frame: pd.DataFrame
    profile: Profile
    counterparts: Counterparts
    pairs: Pairs
    state: PairState
    rows: pd.DataFrame
    origins: list[int] = field(default_factory=list)

    @property
    def queries(self) -> int:
        return len(self.rows)

    def digests(self) -> list[bytes]:
        return [digest.tobytes() for digest in digests(self.rows)]


Model = Callable[[pd.DataFrame], Any]  # scores (n, classes), numbers (n,), or class codes (n,)


def digests(frame: pd.DataFrame) -> Any:
    return row_digests(memory_source(frame).take(np.arange(len(frame)), list(frame.columns)))


def searched(
    frame: pd.DataFrame,
    model: Model,
    *,
    classes: int = 2,
    queries: int = 600,
    protected: Sequence[str] = PROTECTED,
    ties: Sequence[tuple[str, ...]] = (),
    rules: Sequence[str] = (),
    schema: dict[str, ColumnOverride] | None = None,
    batch: int = 10**6,
    seed: int = 0,
    **more: Any,
) -> Asked:
    """What a search asks of `model`, which answers `batch` rows at a time: labels, or scores of which the largest decides."""
    source = memory_source(frame)
    profile = build_profile(source, None, schema or {}, list(rules), set())
    real = to_frame(source.take(np.arange(len(frame)), list(frame.columns)))
    counterparts = Counterparts(combined_values(profile, list(protected)).values, profile, real, tuple(ties))
    search = PairSearch(queries=queries)
    state = search.start(real, profile, counterparts, classes=classes, ties=ties, random_seed=seed, **more)
    rows, origins = [real.iloc[:0]], []
    while not state.done:
        asked, origin = search.ask(state)
        assert len(asked) == len(origin)
        told = np.concatenate([np.asarray(model(asked.iloc[at : at + batch])) for at in range(0, len(asked), batch)])
        if told.ndim == 2:
            answers = np.where(np.isnan(told).any(axis=1), np.nan, told.argmax(axis=1))
            state = search.tell(state, answers, told)
        else:
            state = search.tell(state, told.astype(float))
        rows.append(asked)
        origins += origin.tolist()
    assert state.queries == sum(map(len, rows)) <= queries
    return Asked(real, profile, counterparts, search.result(state), state, pd.concat(rows, ignore_index=True), origins)


def biased(frame: pd.DataFrame) -> Any:
    """Codes: income decides; women of race b below 40 are never served."""
    served = frame["income"] > 20
    hit = (frame["sex"] == "F") & (frame["race"] == "b") & (frame["age"] < 40)
    return (served & ~hit).to_numpy().astype(float)


def with_scores(frame: pd.DataFrame) -> Any:
    """Scores: a logistic model in which sex and race count a little."""
    lead = 0.3 * (frame["income"] - 20) + 0.5 * (frame["sex"] == "M") + 0.4 * (frame["race"] == "a")
    second = 1 / (1 + np.exp(-lead.to_numpy(float)))
    return np.column_stack([1 - second, second])


def fair(frame: pd.DataFrame) -> Any:
    return (frame["income"] > 20).to_numpy().astype(float)


def is_pair(pairs: Pairs, moving: Sequence[str] = PROTECTED) -> bool:
    """Are both rows of each pair equal but for protected columns, and no two pairs the same."""
    rest = [name for name in pairs.first if name not in moving]
    same = pairs.first[rest].equals(pairs.second[rest])
    return same and not pairs.first[rest].duplicated().any()


def test_pairs_are_what_they_claim_to_be():
    asked = searched(people(), biased)
    pairs = asked.pairs
    assert len(pairs.query) > 100
    assert (biased(pairs.first) != biased(pairs.second)).all()
    assert is_pair(pairs)
    values = asked.counterparts.values
    for frame, places in ((pairs.first, pairs.first_place), (pairs.second, pairs.second_place)):
        assert frame[PROTECTED].equals(values.take(places).reset_index(drop=True).astype(frame[PROTECTED].dtypes))
    assert (pairs.query[1:] > pairs.query[:-1]).all() and pairs.query[0] > 1 and pairs.query[-1] <= asked.queries
    found = digests(pairs.second)
    assert [asked.digests()[number - 1] for number in pairs.query] == [digest.tobytes() for digest in found]
    assert set(pairs.row) <= set(range(400))


def test_it_finds_more_than_chance_does_with_labels_and_with_scores():
    """Of real rows with a random counterpart 4 % are a pair with `biased`, 5 % with `with_scores`, for two queries each."""
    for model, least in ((biased, 0.2), (with_scores, 0.25)):
        asked = searched(people(), model)
        assert len(asked.pairs.query) / asked.queries > least


def test_the_region_of_the_bias_is_found_from_labels_alone():
    pairs = searched(people(), biased).pairs
    assert (pairs.first["age"] < 40).all()
    for frame, other in ((pairs.first, pairs.second), (pairs.second, pairs.first)):
        mean = (frame["sex"] == "F") & (frame["race"] == "b")
        assert ((other["sex"] != "F") | (other["race"] != "b"))[mean].all()


def test_scores_are_used_where_another_threshold_than_a_half_decides():
    def strict(frame: pd.DataFrame) -> Any:
        return (with_scores(frame)[:, 1] > 0.9).astype(float)

    frame = people()
    source = memory_source(frame)
    profile = build_profile(source, None, {}, [], set())
    real = to_frame(source.take(np.arange(len(frame)), list(frame.columns)))
    search, found = PairSearch(queries=600), []
    for scored in (True, False):
        state = search.start(real, profile, Counterparts(combined_values(profile, PROTECTED).values, profile, real), classes=2)
        while not state.done:
            asked, _ = search.ask(state)
            state = search.tell(state, strict(asked), with_scores(asked) if scored else None)
        found.append(len(search.result(state).query))
    assert found[0] > found[1]


@pytest.mark.parametrize(
    ("answers", "cut"), [([0, 0, 1, 1], 0.0), ([0, 0, 0, 1], 1.5), ([0, 0, 0, 0], 2.0), ([1, 1, 1, 1], -2.0)]
)
def test_the_boundary_is_moved_only_where_answers_ask_for_it(answers, cut):
    lead = np.array([-2.0, -1.0, 1.0, 2.0])
    scores = np.column_stack([np.zeros(4), lead])
    assert boundary(scores, np.array(answers, float)) == pytest.approx(cut)


def test_three_classes():
    def three(frame: pd.DataFrame) -> Any:
        pull = np.stack(
            [
                np.zeros(len(frame)),
                0.2 * (frame["income"] - 20) + 0.6 * (frame["race"] == "c"),
                0.1 * (frame["age"] - 50) + 0.6 * (frame["sex"] == "F"),
            ],
            axis=1,
        )
        weights = np.exp(pull)
        return weights / weights.sum(axis=1, keepdims=True)

    pairs = searched(people(), three, classes=3).pairs
    first, second = (three(frame).argmax(axis=1) for frame in (pairs.first, pairs.second))
    assert len(pairs.query) > 120 and (first != second).all() and set(first) | set(second) == {0, 1, 2}


def test_a_regressor_differs_beyond_its_tolerance():
    def price(frame: pd.DataFrame) -> Any:
        return (frame["income"] + (frame["sex"] == "M") * frame["age"] / 10 + 0.5 * (frame["race"] == "b")).to_numpy(float)

    def differs(one: Any, other: Any) -> Any:
        return np.abs(one - other) > 6

    pairs = searched(people(), price, classes=0, differs=differs).pairs
    assert len(pairs.query) > 120 and differs(price(pairs.first), price(pairs.second)).all()
    assert is_pair(pairs) and (pairs.first["age"] > 54).all()


def test_a_regressor_compares_with_every_answer_of_the_row():
    """From the middle of three combinations neither end is beyond the tolerance; the ends are from each other."""
    level = {"a": 0.0, "b": 1.0, "c": 2.0}

    def number(frame: pd.DataFrame) -> Any:
        return frame["race"].map(level).to_numpy(float)

    frame = pd.DataFrame({"kind": list("opqrstuvwxyz"), "race": ["a", "c", *"b" * 10]})
    asked = searched(frame, number, classes=0, differs=lambda a, b: np.abs(a - b) > 1.5, protected=["race"], queries=100)
    assert asked.queries <= 36 and sorted(asked.pairs.first["kind"]) == list("opqrstuvwxyz")
    assert set(asked.pairs.first["race"]) | set(asked.pairs.second["race"]) == {"a", "c"}


def test_rows_that_the_model_cannot_answer_are_part_of_no_pair():
    def failing(frame: pd.DataFrame) -> Any:
        scores = with_scores(frame)
        scores[((frame["job"] == "pilot") | (frame["race"] == "c")).to_numpy()] = np.nan
        return scores

    asked = searched(people(), failing)
    both = pd.concat([asked.pairs.first, asked.pairs.second])
    assert len(both) > 300 and not ((both["job"] == "pilot") | (both["race"] == "c")).any()


def test_a_model_that_never_answers_is_asked_no_more_than_the_budget():
    asked = searched(people(), lambda frame: np.full(len(frame), np.nan), queries=300)
    assert asked.queries <= 300 and not len(asked.pairs.query)


@pytest.mark.parametrize("queries", [1, 2, 10, 100, 1500])
@pytest.mark.parametrize("model", [biased, with_scores, fair])
def test_no_row_is_asked_twice_and_the_budget_is_kept(queries, model):
    asked = searched(people(100), model, queries=queries)
    assert asked.queries <= queries and len(set(asked.digests())) == asked.queries
    if queries <= 100:
        assert asked.queries == queries
    if model is fair:
        assert not len(asked.pairs.query) and asked.pairs.first.empty


def test_a_search_takes_few_rounds():
    asked = searched(people(), biased, queries=2000)
    assert asked.state.rounds <= 40


def test_five_rows_are_searched_to_the_end():
    """Of five rows with one value each but in two columns, there are few others to make."""
    frame = pd.DataFrame({"kind": ["a", "b", "c", "a", "b"], "sex": ["F", "M", "F", "M", "F"]})

    def rule(rows: pd.DataFrame) -> Any:
        return ((rows["kind"] == "b") & (rows["sex"] == "M")).to_numpy().astype(float)

    asked = searched(frame, rule, protected=["sex"], queries=100)
    assert asked.queries == 6 and asked.pairs.first["kind"].tolist() == ["b"]


def test_asks_hang_neither_on_the_order_of_the_rows_nor_on_the_batches_of_the_model():
    def coarse(rows: pd.DataFrame) -> Any:
        """Few different scores, so that many rows promise the same."""
        second = np.floor(4 * with_scores(rows)[:, 1]).clip(0, 3) / 4 + 0.125
        return np.column_stack([1 - second, second])

    def jittering(rows: pd.DataFrame) -> Any:
        """As single precision may be off, otherwise in each batch."""
        return coarse(rows) * (1 + 1e-8 * np.random.default_rng(len(rows)).random((len(rows), 2)))

    frame = people(200)
    known = searched(frame, coarse)
    again = searched(frame, jittering, batch=7)
    order = np.random.default_rng(1).permutation(200)
    moved = searched(frame.iloc[order].reset_index(drop=True), coarse)
    assert known.digests() == again.digests() == moved.digests()
    assert known.origins == again.origins == order[moved.origins].tolist()
    assert searched(frame, coarse, seed=1).digests() != known.digests()


TIES = [("spouse", "status", "sex")]


def test_ties_are_kept_together():
    frame = people()
    asked = searched(frame, with_scores, ties=TIES)
    seen = set(map(tuple, frame[list(TIES[0])].drop_duplicates().to_numpy()))
    assert set(map(tuple, asked.rows[list(TIES[0])].to_numpy())) == seen and len(asked.pairs.query) > 120
    loose = searched(frame, with_scores)
    assert not set(map(tuple, loose.rows[list(TIES[0])].to_numpy())) <= seen


def test_declared_ties_move_along():
    """A husband becomes a wife: such a pair differs in `spouse`, too, and the two ends of it are one find."""
    schema = {"spouse": ColumnOverride(tied=["sex"])}
    asked = searched(people(), biased, schema=schema)
    pairs = asked.pairs
    moved = pairs.first["spouse"] != pairs.second["spouse"]
    assert moved.any() and set(pairs.first["spouse"][moved]) == {"husband", "wife"}
    assert is_pair(pairs, [*PROTECTED, "spouse"]) and len(set(asked.digests())) == asked.queries


def test_rules_hold_in_every_row():
    rules = ["job != 'pilot' or race != 'c'", "age >= 30 or job != 'nurse'"]
    frame = people()
    good = (frame["job"].ne("pilot") | frame["race"].ne("c")) & (frame["age"].ge(30) | frame["job"].ne("nurse"))
    rows = searched(frame[good].reset_index(drop=True), with_scores, rules=rules).rows
    assert len(rows) == 600
    assert ((rows["job"] != "pilot") | (rows["race"] != "c")).all() and ((rows["age"] >= 30) | (rows["job"] != "nurse")).all()


def test_columns_that_may_not_change_stay_with_their_row():
    frame = people().assign(born=lambda rows: 2000 - rows["age"])
    asked = searched(frame, with_scores, schema={"born": ColumnOverride(immutable=True)})
    assert asked.rows["born"].tolist() == frame["born"].to_numpy()[asked.origins].tolist()
    assert not (asked.rows["age"] == frame["age"].to_numpy()[asked.origins]).all()


def test_missing_protected_values_are_a_row_as_it_is():
    frame = people()
    frame.loc[::3, "race"] = None
    asked = searched(frame, with_scores, schema={"race": ColumnOverride(missing=True)})
    own = asked.pairs.first_place < 0
    assert own.any() and asked.pairs.first["race"][own].isna().all() and (asked.pairs.second_place >= 0).all()


def known_of(frame: pd.DataFrame, counterparts: Counterparts, model: Model, rows: int) -> Known:
    """All combinations of the first rows, and those as they are."""
    places = np.tile(np.arange(-1, len(counterparts.values)), rows)
    positions = np.repeat(np.arange(rows), len(counterparts.values) + 1)
    asked = frame.take(positions).reset_index(drop=True)
    asked = counterparts.apply(asked, np.where(places < 0, counterparts.own(asked), places))
    scores = model(asked)
    return Known(positions, places, scores.argmax(axis=1).astype(float), scores)


def test_known_rows_are_parents_and_neither_asked_nor_found_again():
    frame = people()
    plain = searched(frame, with_scores, queries=300)
    known = known_of(plain.frame, plain.counterparts, with_scores, 100)
    asked = searched(frame, with_scores, queries=300, known=known)
    given = plain.frame.take(known.rows).reset_index(drop=True)
    free = plain.counterparts.apply(given, np.where(known.places < 0, plain.counterparts.own(given), known.places))
    assert not set(asked.digests()) & {digest.tobytes() for digest in digests(free)}
    rest = [name for name in frame if name not in PROTECTED]
    assert not len(asked.pairs.first[rest].merge(frame[:100][rest]))
    assert len(asked.pairs.query) > len(plain.pairs.query)


def test_known_rows_in_any_order_are_the_same():
    frame = people(150)
    frame[30:60] = frame[:30].assign(race=frame["race"][:30].map({"a": "b", "b": "c", "c": "a"})).to_numpy()
    plain = searched(frame, with_scores, queries=1)
    known = known_of(plain.frame, plain.counterparts, with_scores, 60)
    order = np.random.default_rng(2).permutation(len(known.rows))
    shuffled = Known(known.rows[order], known.places[order], known.answers[order], known.scores[order])
    first, second = (searched(frame, with_scores, queries=200, known=one).digests() for one in (known, shuffled))
    assert first == second


def test_what_is_told_is_checked():
    frame = people(50)
    search = PairSearch(queries=50)
    profile = build_profile(memory_source(frame), None, {}, [], set())
    counterparts = Counterparts(combined_values(profile, PROTECTED).values, profile, frame)
    state = search.start(frame, profile, counterparts, classes=2)
    rows = len(search.ask(state)[0])
    for answers, scores, words in (
        (np.zeros(rows + 1), None, "shape"),
        (np.full(rows, 2.0), None, "class code"),
        (np.full(rows, np.inf), None, "infinite"),
        (np.zeros(rows), np.zeros((rows, 3)), "scores of shape"),
    ):
        with pytest.raises(InputError, match=words):
            search.tell(state, answers, scores)
    with pytest.raises(InputError, match="combinations"):
        search.start(frame, profile, counterparts, classes=2, known=Known(np.array([0]), np.array([99]), np.zeros(1)))

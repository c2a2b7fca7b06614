"""Grown trees against scikit-learn's own answers, and what no order of the rows and no odd value may change."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.datasets import make_classification
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from aitest_lib.data.schema import ColumnOverride, build_profile
from aitest_lib.data.table import memory_source, plain_table, to_frame
from aitest_lib.errors import InputError
from aitest_lib.surrogates.growing import TreeSurrogate, grow, labelled
from aitest_lib.surrogates.pruning import Limits, Pruning
from aitest_lib.surrogates.search import choose, regrown
from aitest_lib.surrogates.stability import bootstrap_trees
from aitest_lib.surrogates.tree import Test as Question

GINI = TreeSurrogate(criteria=("gini",))


def grown(frame, answers, classes=("no", "yes"), columns=None, weights=None, max_depth=8, surrogate=GINI, **overrides):
    profile = build_profile(
        memory_source(frame), None, {name: ColumnOverride(**given) for name, given in overrides.items()}, [], set()
    )
    return grow(
        frame,
        np.asarray(answers),
        profile,
        columns or list(frame),
        classes=classes,
        weights=weights,
        max_depth=max_depth,
        random_seed=7,
        surrogate=surrogate,
    )[0]


def as_read(frame):
    return to_frame(plain_table(pa.Table.from_pandas(frame, preserve_index=False), "the test"))


def numbers(n=600, classes=2, seed=0):
    x, y = make_classification(n, 6, n_informative=4, n_redundant=0, n_classes=classes, random_state=seed)
    return pd.DataFrame(x, columns=[f"x{place}" for place in range(6)]), y


@pytest.mark.parametrize("classes", [("no", "yes"), ("a", "b", "c")])
@pytest.mark.parametrize(("leaves", "depth"), [(2, 8), (9, 3), (60, 8)])
def test_numbers_split_as_scikit_learn_splits_them(classes, leaves, depth):
    frame, answers = numbers(classes=len(classes))
    tree = grown(frame, answers, classes, max_depth=depth, surrogate=TreeSurrogate(criteria=("gini",), max_leaves=leaves))
    peer = DecisionTreeClassifier(max_leaf_nodes=leaves, max_depth=depth, random_state=0).fit(frame, answers)
    assert (tree.predict(frame) == peer.predict(frame)).mean() > 0.995  # ties may fall elsewhere
    assert len(tree.leaves) <= leaves
    assert tree.mpl <= depth
    assert tree.weights[0].tolist() == np.bincount(answers).tolist()


def test_a_regressor_answers_the_means_of_its_leaves():
    frame, _ = numbers()
    answers = frame["x0"] * 3 + (frame["x1"] > 0) + 0.1 * frame["x2"]
    tree = grown(frame, answers, classes=(), surrogate=TreeSurrogate(max_leaves=20))
    peer = DecisionTreeRegressor(max_leaf_nodes=20, max_depth=8, random_state=0).fit(frame, answers)
    assert tree.predict(frame) == pytest.approx(peer.predict(frame))
    assert tree.weights[tree.leaves].sum() == len(frame)


def mixed(n=400, seed=1):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "number": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n).round(1)),
            "count": rng.integers(0, 9, n),
            "flag": rng.random(n) < 0.5,
            "colour": np.where(rng.random(n) < 0.1, None, rng.choice(["red", "green", "blue"], n)),
            "town": rng.choice([f"town {place}" for place in range(60)], n),
            "day": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="h"),
        }
    )
    town = frame["town"].isin([f"town {place}" for place in range(0, 60, 2)])
    answers = (frame["number"].isna() | (frame["colour"] == "red")) ^ (frame["day"] > "2020-01-20") ^ (frame["flag"] & town)
    return as_read(frame), answers.to_numpy(int)


@pytest.mark.parametrize("classes", [("no", "yes"), ()])
def test_the_order_of_the_rows_changes_nothing(classes):
    frame, answers = mixed()
    rng = np.random.default_rng(3)
    weights = rng.choice([0.3, 0.7, 1.0], len(frame))
    answers = answers if classes else answers + rng.normal(size=len(frame)) / 7
    first = grown(frame, answers, classes, weights=weights)
    for _ in range(5):
        order = rng.permutation(len(frame))
        other = grown(frame.iloc[order].reset_index(drop=True), answers[order], classes, weights=weights[order])
        assert other.to_dict() == first.to_dict()


def test_every_kind_of_column_is_asked_and_the_grow_rows_end_where_scikit_learn_put_them():
    frame, answers = mixed()
    tree = grown(frame, answers, max_depth=30)
    assert {test.column for test in tree.tests if test} == set(frame)
    assert (tree.predict(frame) == answers).mean() > 0.95
    reached = tree.route(frame)
    counts = np.zeros_like(tree.weights)
    np.add.at(counts, (reached, answers), 1)
    assert (counts[tree.leaves] == tree.weights[tree.leaves]).all()


def only_test(values, answers, **overrides):
    frame = as_read(pd.DataFrame({"x": values}))
    tree = grown(frame, answers, max_depth=1, **overrides)
    assert (tree.predict(frame) == answers).all()
    return tree.tests[0], tree


@pytest.mark.parametrize(
    ("values", "answers", "wanted"),
    [
        ([1.0, 2.5, 4.0], [0, 0, 1], {"at_most": 3.25}),
        ([1, 2, 5, 6], [0, 0, 1, 1], {"at_most": 3}),  # of integers the one below the middle
        ([16_777_216, 16_777_217], [0, 1], {"at_most": 16_777_216}),  # one number in float32
        ([2**53, 2**53 + 1], [0, 1], {"at_most": 2**53}),  # one number in float64
        ([-(2**62), 2**62], [0, 1], {"at_most": 0}),
        ([1e39, 1e40], [0, 1], {"at_most": 5.5e39}),  # beyond float32
        ([8e307, -8e307], [1, 0], {"at_most": 0.0}),
        ([1.0, np.nextafter(1.0, 2)], [0, 1], {"at_most": 1.0}),  # nothing lies between
        ([5.0, 7.5, None, None], [0, 0, 1, 1], {"among": (), "missing": True}),
        ([1.5, 2.5, 3.5, None], [0, 1, 1, 0], {"at_most": 2.0, "missing": True}),
        ([1.5, 2.5, 3.5, None], [1, 0, 0, 0], {"at_most": 2.0, "missing": False}),
        ([True, False, True], [1, 0, 1], {"among": (True,)}),
        ([True, False, None], [0, 0, 1], {"among": (), "missing": True}),
        (["a", "b", "c", "c"], [0, 1, 0, 0], {"among": ("b",)}),
        (["a", "b", None], [0, 0, 1], {"among": (), "missing": True}),
        (pd.to_datetime(["2020-01-01", "2020-01-05"]), [0, 1], {"at_most": "2020-01-03"}),
        (pd.to_datetime(["2020-01-01T10:00:01", "2020-01-01T10:00:05"]), [0, 1], {"at_most": "2020-01-01T10:00:03"}),
    ],
)
def test_questions_in_the_terms_of_the_column(values, answers, wanted):
    assert only_test(values, np.array(answers))[0] == Question(column="x", **wanted)


def test_many_categories_are_asked_by_frequency():
    values = [name for place in range(60) for name in [f"v{place:02}"] * (100 - place)]
    answers = np.array([int(int(name[1:]) < 20) for name in values])
    test, tree = only_test(values, answers, x={"type": "category"})
    assert test == Question(column="x", among=tuple(f"v{place:02}" for place in range(20)))
    assert tree.predict(pd.DataFrame({"x": ["v03", "v30", "never seen", None]})).tolist() == [1, 0, 0, 0]


def test_values_never_seen_answer_no():
    _, tree = only_test(["a", "b", "c"], np.array([0, 1, 0]))
    assert tree.predict(pd.DataFrame({"x": ["z", None, "b"]})).tolist() == [0, 0, 1]


def test_private_ignored_text_and_constant_columns_are_never_asked():
    answers = np.array([0, 1] * 60)
    secret = answers.astype(float)
    frame = pd.DataFrame(
        {"private": secret, "ignored": secret, "text": [f"{place} {answer}" for place, answer in enumerate(answers)], "same": 1}
    )
    tree = grown(frame, answers, private={"private": True}, ignored={"ignore": True})
    assert len(tree.yes) == 1
    assert tree.weights.tolist() == [[60, 60]]


def test_columns_that_the_model_does_not_take_are_never_asked():
    frame, answers = numbers()
    assert {test.column for test in grown(frame, answers, columns=["x3", "x1"]).tests if test} <= {"x1", "x3"}
    with pytest.raises(InputError, match="unknown column 'y3'; did you mean x3"):
        grown(frame, answers, columns=["y3"])


def test_one_answer_makes_a_lone_root_and_no_row_an_error():
    frame, answers = numbers()
    tree = grown(frame, np.ones(len(frame), int))
    assert (tree.mpl, tree.answer(0)) == (0, "yes")
    assert grown(frame[:4], [1.0, 1.0, 1.0, 1.0], classes=()).answer(0) == 1.0
    profile = build_profile(memory_source(frame), None, {}, [], set())
    with pytest.raises(InputError, match="no answered rows to grow on"):
        labelled(frame[:0], answers[:0], profile, list(frame), classes=())
    with pytest.raises(InputError, match="no answered rows to prune on"):
        Pruning.of(tree, frame[:0], answers[:0])


def test_weights_count_as_repeated_rows():
    frame, answers = numbers(200)
    weights = np.random.default_rng(0).integers(1, 4, len(frame))
    repeated = frame.loc[np.repeat(frame.index, weights)].reset_index(drop=True)
    weighted = grown(frame, answers, weights=weights.astype(float))
    other = grown(repeated, np.repeat(answers, weights))
    assert weighted.weights.tolist() == other.weights.tolist()
    assert weighted.predict(frame).tolist() == other.predict(frame).tolist()


@pytest.mark.parametrize("limits", [{"leaves": 6}, {"apl": 3}, {"epl": 2.5}, {"mpl": 4}, {"apl": 4, "epl": 3, "leaves": 12}])
def test_the_choice_is_no_worse_than_any_best_first_tree_within_the_limits(limits):
    frame, answers = numbers(2_000)
    rest, wanted = frame[1_500:].reset_index(drop=True), answers[1_500:]
    frame, answers = frame[:1_500], answers[:1_500]
    given = Limits(**limits)
    choice = choose([Pruning.of(grown(frame, answers), rest, wanted)], given)
    assert choice.satisfied
    assert choice.best.fidelity == (choice.best.tree.predict(rest) == wanted).mean()
    for leaves in range(2, 64, 7):
        peer = grown(frame, answers, surrogate=TreeSurrogate(criteria=("gini",), max_leaves=leaves))
        sizes = {"leaves": len(peer.leaves), "apl": peer.apl, "mpl": peer.mpl, "epl": peer.path_lengths(rest).mean()}
        if all(sizes[name] <= limit for name, limit in limits.items()):
            assert (peer.predict(rest) == wanted).mean() <= choice.best.fidelity


def test_a_fidelity_that_no_tree_reaches_and_what_it_needs():
    frame, answers = numbers(2_000)
    rest, wanted = frame[1_500:], answers[1_500:]
    shallow = [Pruning.of(grown(frame[:1_500], answers[:1_500], max_depth=2), rest, wanted)]
    deep = [Pruning.of(grown(frame[:1_500], answers[:1_500], max_depth=20), rest, wanted)]
    nearest = choose(shallow, Limits(mpl=2)).best
    choice = choose(shallow, Limits(mpl=2, fidelity=nearest.fidelity + 0.02))
    assert not choice.satisfied
    assert choice.best.tree.to_dict() == nearest.tree.to_dict()
    needed = choose(deep, Limits(fidelity=nearest.fidelity + 0.02))
    assert needed.satisfied
    assert needed.best.fidelity >= nearest.fidelity + 0.02
    assert needed.best.mpl > 2
    assert not choose(deep, Limits(fidelity=1.0)).satisfied


def test_regressors_are_pruned_within_a_tolerance():
    frame, _ = numbers(1_500)
    answers = frame["x0"].to_numpy() * 3 + (frame["x1"] > 0)
    pruning = Pruning.of(grown(frame[:1_000], answers[:1_000], classes=()), frame[1_000:], answers[1_000:], tolerance=0.5)
    best = choose([pruning], Limits(leaves=12)).best
    far = np.abs(best.tree.predict(frame[1_000:]) - answers[1_000:]) > 0.5
    assert best.fidelity == pytest.approx(1 - far.mean())
    assert choose([pruning], Limits(fidelity=0.5)).best.leaves <= 12


@pytest.mark.parametrize("limits", [{"leaves": 0}, {"mpl": -1}, {"apl": -0.5}, {"fidelity": 1.5}, {"epl": float("nan")}])
def test_limits_that_no_tree_can_keep_are_refused(limits):
    with pytest.raises(InputError, match=f"limit {next(iter(limits))}: got .*, expected"):
        Limits(**limits)


def test_bootstrap_trees_agree_more_on_a_rule_than_on_noise():
    frame, _ = mixed(500)
    profile = build_profile(memory_source(frame), None, {}, [], set())
    shares = {}
    for name, told in {
        "rule": (frame["count"] > 4).to_numpy(int),
        "noise": np.random.default_rng(0).integers(0, 2, 500),
    }.items():
        settings = {"classes": ("no", "yes"), "max_depth": 6, "leaves": 16, "random_seed": 1}
        trees = bootstrap_trees(frame, told, profile, list(frame), **settings)
        order = np.random.default_rng(1).permutation(500)
        again = bootstrap_trees(frame.iloc[order].reset_index(drop=True), told[order], profile, list(frame), **settings)
        assert [one.to_dict() for one in trees] == [one.to_dict() for one in again]
        assert len({str(one.to_dict()) for one in trees}) > 1 or name == "rule"
        told_by = [one.predict(mixed(300, seed=9)[0]) for one in trees]
        shares[name] = np.mean([one == other for one, other in combinations(told_by, 2)])
    assert shares["rule"] == 1.0
    assert 0.4 < shares["noise"] < 0.8


def test_a_choice_grown_again_on_all_rows_keeps_every_limit():
    frame, answers = numbers(2_000)
    parts = (frame[:1_500], answers[:1_500]), (frame[1_500:], answers[1_500:])
    pruning = Pruning.of(grown(*parts[0]), *parts[1])
    every = [Pruning.of(grown(frame, answers), frame, answers)]
    for limits in (Limits(apl=4), Limits(epl=3), Limits(mpl=6, leaves=9), Limits(fidelity=0.85, apl=6)):
        choice = choose([pruning], limits)
        again = regrown(choice, limits, every, lambda tree: Pruning.of(tree, *parts[1])).best
        assert again.tree.to_dict() != choice.best.tree.to_dict()
        assert again.leaves <= choice.best.leaves
        assert again.fidelity == (again.tree.predict(frame[1_500:]) == answers[1_500:]).mean()
        assert again.fidelity >= (limits.fidelity or 0)
        sizes = {"apl": again.apl, "epl": again.epl, "mpl": again.mpl, "leaves": again.leaves}
        assert all(size <= (getattr(limits, name) or np.inf) for name, size in sizes.items())
    unlike = [Pruning.of(grown(frame, 1 - answers), frame, 1 - answers)]
    assert regrown(choice, limits, unlike, lambda tree: Pruning.of(tree, *parts[1])) is choice

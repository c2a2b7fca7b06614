"""Bayesian optimisation of noise, and the method that puts patterns before it."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_models import attack_on, by_chance, carried_out, digests, linear

from aitest_lib.rng import rng_for
from aitest_lib.searches.image.attack import Candidate
from aitest_lib.searches.image.auto import Auto
from aitest_lib.searches.image.base import Reply, Seed, Try
from aitest_lib.searches.image.bayesian import Bayesian, Expected
from aitest_lib.searches.image.canvas import Canvas
from aitest_lib.searches.image.evidence import KEPT, Evidence
from aitest_lib.searches.image.gaussian_process import Hyperparameters, fitted
from aitest_lib.searches.image.patterns import along, bank, crossed, flipped_tiles, opening, random_tiles, squares, stripes
from aitest_lib.searches.image.random import RandomTiles
from aitest_lib.searches.image.rays import RayS

pytest.importorskip("torch")
SHAPES = [(12, 12, 1), (9, 14, 3), (1, 6, 1), (70, 40, 1)]
shapes = st.tuples(st.sampled_from([1, 3]), st.integers(1, 12), st.integers(1, 12))


def images(shape: tuple[int, int, int], count: int) -> list[np.ndarray]:
    return list(np.random.default_rng(3).integers(0, 256, (count, *shape), dtype=np.uint8))


@pytest.mark.parametrize("cls", [Auto, Bayesian])
@pytest.mark.parametrize("labels_only", [False, True])
def test_what_is_asked_hangs_on_the_image_alone(cls, labels_only):
    """Alone, side by side, and among images of another size the candidates are the same, to the last bit."""
    search = cls(delta=0.1, queries=14, labels_only=labels_only)
    mixed = images((10, 8, 3), 3) + images((6, 6, 1), 2)
    names = [f"image {place}" for place in range(len(mixed))]
    answers = by_chance(silent=0.1)
    together = digests(carried_out(attack_on(search, mixed, names), answers))
    alone = [
        digests(carried_out(attack_on(search, [image], [name]), answers))[0] for image, name in zip(mixed, names, strict=True)
    ]
    assert together == alone
    assert all(len(set(row)) == len(row) == 14 for row in together)
    assert len({tuple(row) for row in together}) == len(together)


@pytest.mark.parametrize("cls", [Auto, Bayesian])
@pytest.mark.parametrize("shape", SHAPES)
def test_candidates_stay_in_the_ball_and_are_never_asked_twice(cls, shape):
    search = cls(delta=0.2, queries=12)
    seeds = images(shape, 2)
    for seed, asked in zip(seeds, carried_out(attack_on(search, seeds), by_chance()), strict=True):
        changes = [np.abs(one.image.astype(int) - seed).max() for one in asked]
        assert len(asked) == len({one.digest for one in asked}) == 12
        assert max(changes) == search.radius == 51


@pytest.mark.parametrize("cls", [Auto, Bayesian])
def test_it_learns_a_plane(cls):
    """A plane so far away that few patterns of signs reach it is reached; random ones do not."""
    weights_of_tiles = np.kron(np.random.default_rng(1).choice([-3, 3], (4, 4)), np.ones((4, 4), int))
    model = linear((16, 16, 1))
    model.weights = weights_of_tiles[..., None]
    model = model.at(0.85 * 30)
    (end,) = (one.end for one in ran(cls(delta=30 / 255, queries=80), model).attempts)
    assert end == "broken"
    (end,) = (one.end for one in ran(RandomTiles(delta=30 / 255, queries=80, tiles=4), model).attempts)
    assert end == "resisted"


def ran(search, model):
    attack = attack_on(search, [model.seed], margin=model.threshold)
    carried_out(attack, model)
    return attack


@pytest.mark.parametrize("cls", [Auto, Bayesian])
@pytest.mark.parametrize("labels_only", [False, True])
def test_an_image_without_room_for_more_is_exhausted(cls, labels_only):
    """One pixel can go up or down, and nowhere if labels are all there is and the ball is all that counts."""
    attack = attack_on(cls(delta=0.1, queries=5000, labels_only=labels_only), [np.full((1, 1, 1), 128, np.uint8)])
    (asked,) = carried_out(attack, lambda one: Reply(1.0, False))
    within = [one for one in asked if abs(int(one.image[0, 0, 0]) - 128) <= 25]
    assert {int(one.image[0, 0, 0]) for one in within} >= {103, 153}
    assert attack.attempts[0].end == "exhausted"


@pytest.mark.parametrize("cls", [Auto, Bayesian])
def test_answers_that_all_fail_end_the_search(cls):
    attack = attack_on(cls(delta=0.1), images((8, 8, 1), 1))
    (asked,) = carried_out(attack, lambda one: Reply(np.nan, False))
    assert attack.attempts[0].end in ("unanswered", "exhausted")
    assert len(asked) <= 10


def test_labels_only_means_patterns_then_rays():
    search = Auto(delta=0.1, queries=100, labels_only=True)
    (image,) = images((16, 16, 1), 1)
    (asked,) = carried_out(attack_on(search, [image]), lambda one: Reply(1.0, False))
    canvas = Canvas(image, search.radius)
    patterns = [canvas.noise(one) for one in bank(canvas.shape)]
    rays = (
        one.noise for one in islice(unbroken(RayS(delta=0.1).moves(Seed(image, search.radius, 1.0), rng_for(0, "", ""))), 300)
    )
    expected = [np.clip(image + noise, 0, 255).astype(np.uint8).tobytes() for noise in (*patterns, *rays)]
    assert [one.image.tobytes() for one in asked] == list(dict.fromkeys(expected))[:100]


def unbroken(moves):
    wish = next(moves)
    while True:
        yield wish
        try:
            wish = moves.send(Reply(1.0, False))
        except StopIteration:
            return


def test_the_opening_comes_first():
    search = Auto(delta=0.1, queries=4)
    (image,) = images((16, 16, 3), 1)
    (asked,) = carried_out(attack_on(search, [image]), by_chance())
    canvas = Canvas(image, search.radius)
    for one, pattern in zip(asked, opening(canvas.shape), strict=True):
        np.testing.assert_array_equal(one.image, np.clip(image + canvas.noise(pattern), 0, 255))


def test_a_large_image_is_changed_in_tiles():
    image = np.full((200, 100, 1), 128, np.uint8)
    canvas = Canvas(image, 10)
    assert canvas.shape == (1, 32, 16)
    (asked,) = carried_out(attack_on(Auto(delta=10 / 255, queries=12), [image]), by_chance())
    for one in asked:
        rows = {row.tobytes() for row in one.image}
        assert len(rows) <= 32


@given(shapes, st.integers(0, 2**32), st.floats(0.01, 0.5))
@settings(max_examples=60, deadline=None)
def test_patterns_are_signs_of_the_same_shape(shape, number, share):
    rng = np.random.default_rng(number)
    best = random_tiles(shape, 7, 1, rng)[0]
    made = [
        flipped_tiles(best, 4, share, 5, rng),
        squares(best, share, 5, rng),
        crossed(random_tiles(shape, 4, 5, rng), random_tiles(shape, 4, 5, rng), 3, rng),
        along(rng.normal(size=shape), best),
        stripes(shape, 3, 1, 2)[None],
    ]
    for patterns in made:
        assert patterns.dtype == np.int8
        assert patterns.shape[1:] == shape
        assert set(np.unique(patterns)) <= {-1, 1}


@given(shapes, st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_crossing_takes_every_tile_from_one_of_two(shape, number):
    rng = np.random.default_rng(number)
    ones, others = random_tiles(shape, 5, 6, rng), random_tiles(shape, 5, 6, rng)
    child = crossed(ones, others, 4, rng)
    assert ((child == ones) | (child == others)).all()


def test_along_a_gradient_every_change_is_a_gain():
    rng = np.random.default_rng(0)
    gradient, best = rng.normal(size=(3, 28, 28)), random_tiles((3, 28, 28), 7, 1, rng)[0]
    whole, *_tiles, a, b, c, d, e = along(gradient, best)
    np.testing.assert_array_equal(whole, np.where(gradient >= 0, 1, -1))
    gains = [((part - best) * gradient) for part in (whole, a, b, c, d, e)]
    assert all((gain >= 0).all() for gain in gains)
    assert sorted((np.count_nonzero(gain) for gain in gains), reverse=True) == [np.count_nonzero(gain) for gain in gains]
    # A small share of the changes brings more than its share of the gain.
    assert gains[3].sum() / np.count_nonzero(gains[3]) > 2 * gains[0].sum() / np.count_nonzero(gains[0])


def test_a_single_square_is_turned_or_filled():
    rng = np.random.default_rng(0)
    best = random_tiles((1, 20, 20), 20, 1, rng)[0]
    for one in squares(best, 0.25, 50, rng):
        rows, columns = np.nonzero((one != best)[0])
        assert len(rows) == 0 or max(np.ptp(rows), np.ptp(columns)) < 10


@pytest.mark.parametrize("shape", SHAPES)
def test_features_are_linear_in_what_really_changes(shape):
    """The gradient of a linear reward of features is what a tile's way from down to up adds to it."""
    (image,) = images(shape, 1)
    canvas = Canvas(image, 40)
    rng = np.random.default_rng(0)
    pattern = random_tiles(canvas.shape, 7, 1, rng)[0]
    slope = rng.normal(size=canvas.features(pattern[None]).shape[1]).astype(np.float32)
    gradient = canvas.gradient(slope)
    for _ in range(10):
        place = tuple(rng.integers(0, canvas.shape))
        up, down = pattern.copy(), pattern.copy()
        up[place], down[place] = 1, -1
        change = (canvas.features(up[None]) - canvas.features(down[None])) @ slope
        assert change[0] == pytest.approx(gradient[place], abs=1e-4)


def test_no_room_no_feature():
    """White cannot go up: two patterns that differ there alone are one."""
    image = np.zeros((6, 6, 1), np.uint8)
    image[:3] = 255
    canvas = Canvas(image, 9)
    patterns = np.ones((2, 1, 6, 6), np.int8)
    patterns[1, 0, :3] = -1
    down, up = canvas.room
    assert up[0, :3].max() == 0
    assert down[0, 3:].min() == 0
    everything_up, white_down = canvas.features(patterns)
    assert not np.allclose(everything_up, white_down)
    np.testing.assert_array_equal(canvas.effects(np.stack([-patterns[1]]))[0], 0)


def test_requests_of_many_sizes_are_answered_in_their_order():
    rng = np.random.default_rng(0)

    def request(points: int, size: int) -> Expected:
        known = rng.normal(size=(8, size)).astype(np.float32)
        process = fitted(known, rng.normal(size=8), Hyperparameters(0.5, 1.0, 1e-3))
        return Expected(process, rng.normal(size=(points, size)).astype(np.float32))

    requests = [request(points, size) for points, size in [(3, 4), (5, 4), (3, 4), (3, 9)] * 12]
    together = Expected.solve(requests)
    for one, values in zip(requests, together, strict=True):
        (alone,) = Expected.solve([one])
        assert values.shape == (len(one.points),)
        np.testing.assert_array_equal(values, alone)


def test_replies_alone_steer_it():
    """Two models that agree at first are asked the same until they part."""
    search = Auto(delta=0.1, queries=30)
    (image,) = images((12, 12, 1), 1)
    asked: list[list[Candidate]] = []
    for turn in (1.0, -1.0):
        seen = iter(range(1000))

        def answers(one: Candidate, turn: float = turn, seen=seen) -> Reply:
            number = next(seen)
            return Reply(5 + (turn if number >= 12 else 1.0) * float(one.image[:6].mean() - one.image[6:].mean()) / 255, False)

        asked += carried_out(attack_on(search, [image]), answers)
    one, other = digests(asked)
    assert one[:13] == other[:13]
    assert one[13:] != other[13:]


def test_a_try_is_made_of_whole_grey_levels():
    moves = Auto(delta=0.1).moves(Seed(images((7, 5, 3), 1)[0], 25, 4.0), rng_for(0, "", ""))
    wish = next(moves)
    assert isinstance(wish, Try)
    assert wish.noise.dtype == np.int16
    assert set(np.unique(wish.noise)) == {-25, 25}


def test_evidence_keeps_the_best_and_the_latest_and_no_more() -> None:
    """Of an image that resists for long a process learns from no more answers, and nothing else is held."""
    rng = np.random.default_rng(0)
    canvas = Canvas(rng.integers(0, 256, (8, 8, 1), dtype=np.uint8), 20)
    evidence = Evidence(canvas)
    rewards = rng.normal(size=3 * KEPT)
    for reward, pattern in zip(rewards, random_tiles(canvas.shape, 7, 3 * KEPT, rng), strict=True):
        asking = evidence.ask(pattern)
        next(asking)
        with pytest.raises(StopIteration):
            asking.send(Reply(-reward, False))
    best, latest = set(np.argsort(-rewards)[: KEPT // 2].tolist()), set(range(3 * KEPT - KEPT // 2, 3 * KEPT))
    assert evidence.answers == 3 * KEPT
    assert evidence.rewards == [rewards[place] for place in sorted(best | latest)]
    assert all(pattern.base is None for pattern in evidence.patterns)

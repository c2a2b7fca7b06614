"""The published searches against models on which the best that can be found is known exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from made_up_models import Linear, attack_on, carried_out, digests, linear

from aitest_lib.searches.image.attack import Candidate
from aitest_lib.searches.image.base import ImageSearch, Reply, Seed
from aitest_lib.searches.image.random import RandomTiles
from aitest_lib.searches.image.rays import RayS
from aitest_lib.searches.image.sign_hunter import SignHunter
from aitest_lib.searches.image.square import Square, square_side
from aitest_lib.searches.image.tiles import as_noise, enlarged, nested_blocks, random_signs, tile_grid

NEVER = 1e9  # a threshold that no noise reaches
SHAPE = (5, 4, 3)


def found(search: ImageSearch, model: Linear) -> tuple[list[Candidate], str]:
    """What a search asks of a model, and how it ends."""
    attack = attack_on(search, [model.seed], margin=model.threshold)
    (asked,) = carried_out(attack, model)
    return asked, str(attack.attempts[0].end)


def noises(asked: list[Candidate], seed: np.ndarray) -> np.ndarray:
    return np.array([one.image for one in asked]).astype(int) - seed


def course(search: ImageSearch, model: Linear, start: np.ndarray, silent: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The noise of every candidate, and that of the best before it; `silent`: some queries get no answer."""
    seen: list[Candidate] = []

    def answers(candidate: Candidate) -> Reply:
        seen.append(candidate)
        return Reply(np.nan, False) if silent and (len(seen) <= 3 or len(seen) % 4 == 0) else model(candidate)

    attack = attack_on(search, [model.seed], margin=model.threshold)
    carried_out(attack, answers)
    best, margin = start, np.inf
    for place, (one, noise) in enumerate(zip(seen, noises(seen, model.seed), strict=True), 1):
        yield noise, best
        if not (silent and (place <= 3 or place % 4 == 0)) and model.margin(one.image) < margin:
            best, margin = noise, model.margin(one.image)
    assert attack.attempts[0].margin == margin


def test_which_searches_are_guided_by_scores():
    assert [cls.needs_scores for cls in (RandomTiles, Square, SignHunter, RayS)] == [False, True, True, False]


@pytest.mark.parametrize("level", [128, None, 0, 255])
def test_sign_hunter_finds_the_signs_of_a_gradient(level):
    """One pass over 60 values takes at most 1 + 2 · 64 - 1 queries, and the second one finds that nothing is left."""
    model = linear(SHAPE, NEVER, level)
    attack = attack_on(SignHunter(delta=10 / 255, queries=10_000), [model.seed], margin=NEVER)
    (asked,) = carried_out(attack, model)
    assert attack.attempts[0].end == "exhausted"
    assert np.array_equal(attack.attempts[0].image, model.best(10))
    nearest = min(range(len(asked)), key=lambda place: model.margin(asked[place].image))
    assert nearest <= 1 + sum(1 for _ in nested_blocks(60))


def test_sign_hunter_flips_all_then_halves_then_quarters():
    model = linear((4, 2, 1), NEVER)
    asked, _ = found(SignHunter(delta=1 / 255, queries=200), model)
    tried = noises(asked, model.seed).reshape(-1, 8)
    assert tried[0].tolist() == [1] * 8
    assert tried[1].tolist() == [-1] * 8
    best = max(tried[:2], key=lambda one: (one * model.weights.ravel()).sum())
    assert (tried[2] * best).tolist() == [-1] * 4 + [1] * 4


def test_sign_hunter_goes_over_it_again_where_values_hang_together():
    """What a pixel does to the margin turns with its neighbours: one pass over four of them (8 tries) is not enough."""
    seed = np.full((1, 4, 1), 100, np.uint8)

    def answers(candidate: Candidate) -> Reply:
        a, b, c, d = (candidate.image.astype(int) - seed).ravel().tolist()
        return Reply(50.0 + a * b + 2 * b * c + 2 * c * d + a * d - b, False)

    attack = attack_on(SignHunter(delta=1 / 255, queries=100), [seed])
    (asked,) = carried_out(attack, answers)
    assert attack.attempts[0].end == "exhausted"
    assert min(answers(one).margin for one in asked[:8]) == 47
    assert attack.attempts[0].margin == 43  # the smallest of all 16 corners


@pytest.mark.parametrize("silent", [False, True])
def test_sign_hunter_flips_one_block_of_the_best_so_far(silent):
    """A query that got no answer is no progress; before the first answer all is up."""
    model = linear(SHAPE, NEVER)
    blocks = {(one.start, one.stop) for one in nested_blocks(60)}
    for asked, best in course(SignHunter(delta=5 / 255, queries=100), model, np.full(SHAPE, 5), silent):
        changed = np.flatnonzero(np.moveaxis(asked != best, -1, 0))
        if len(changed):
            assert (changed[0], changed[-1] + 1) in blocks
            assert len(changed) == changed[-1] + 1 - changed[0]


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("shape", [(12, 9, 3), (9, 12, 1), (1, 6, 3), (6, 1, 1)])
@pytest.mark.parametrize("area", [0.05, 0.8])
def test_square_changes_one_square_of_the_best_so_far(shape, area, silent):
    """So the margin of what it stands on never rises. All of a channel's square goes one way, each channel its own."""
    model = linear(shape, NEVER)
    search = Square(delta=10 / 255, queries=150, area=area)
    stripes, ways = noises(found(search, model)[0], model.seed)[0], set()
    assert (np.abs(stripes) == 10).all()
    assert (stripes == stripes[:1]).all()
    for step, (asked, best) in enumerate(course(search, model, stripes, silent)):
        rows, columns, channels = np.nonzero(asked - best)
        if step == 0:
            assert len(rows) == 0
            continue
        side = square_side(shape, area, (step - 1) / 150)
        assert np.ptp(rows) < side
        assert np.ptp(columns) < side
        way = [set(asked[rows[channels == channel], columns[channels == channel], channel]) for channel in set(channels)]
        assert all(one in ({10}, {-10}) for one in way)
        ways.add(len(set.union(*way)))
    assert ways == ({1, 2} if shape[2] == 3 else {1})


def test_square_draws_again_what_would_change_nothing():
    """Its squares get smaller by what was tried, not by what was drawn."""
    moves = Square(delta=0.1, queries=50).moves(Seed(np.full((3, 3, 1), 128, np.uint8), 25, 1.0), np.random.default_rng(0))
    first, reply = next(moves).noise, Reply(1.0, False)
    assert not any(np.array_equal(moves.send(reply).noise, first) for _ in range(300))


def test_the_stripes_of_square_differ_between_channels():
    stripes = noises(found(Square(delta=0.1, queries=1), linear((8, 40, 3), NEVER))[0], np.full((8, 40, 3), 128))[0][0]
    assert 20 < (stripes > 0).sum() < 100
    assert not np.array_equal(stripes[:, 0], stripes[:, 1])


def test_the_schedule_of_square_is_the_published_one():
    """Table of the paper's code: the share of the area is halved after 10, 50, 200, ... of 10,000 queries."""
    steps = {10: 1, 11: 2, 50: 2, 51: 4, 200: 4, 201: 8, 500: 8, 501: 16, 1_000: 16, 1_001: 32, 2_001: 64, 4_001: 128}
    steps |= {6_001: 256, 8_001: 512, 9_999: 512}
    for step, parts in steps.items():
        assert square_side((1_000, 1_000, 3), 0.3, step / 10_000) == round(math.sqrt(0.3 / parts) * 1_000), step
        assert square_side((1_000, 1_000, 3), 0.3, step / 25 / 400) == square_side((1_000, 1_000, 3), 0.3, step / 10_000)
    assert square_side((28, 28, 1), 1.0, 0) == 27
    assert square_side((28, 3, 1), 1.0, 0) == 2
    assert square_side((1, 30, 1), 1.0, 0) == 1
    assert square_side((28, 28, 1), 0.001, 1) == 1


@pytest.mark.parametrize("radius", [19, 4])
@pytest.mark.parametrize("level", [128, 40])
def test_rays_comes_down_to_the_distance_of_a_plane(level, radius):
    """However far the ball is from there: no sign of the direction is wrong at the end, nor more than a level of its length."""
    model = linear(SHAPE, level=level).at(20.4)
    asked, end = found(RayS(delta=radius / 255, queries=100_000), model)
    assert end == "exhausted"
    broken = [one for one in asked if model(one).broken]
    lengths = np.abs(noises(broken, model.seed)).max(axis=(1, 2, 3))
    assert 20 < lengths.min() <= 21
    shortest = noises(broken, model.seed)[int(np.abs(noises(broken, model.seed)).sum(axis=(1, 2, 3)).argmin())]
    assert np.abs(shortest).mean() < 20.5
    assert np.array_equal(np.sign(shortest), np.sign(model.weights))


def test_rays_breaks_what_is_within_the_ball():
    model = linear(SHAPE).at(19.5)
    asked, end = found(RayS(delta=20 / 255, queries=100_000), model)
    assert end == "broken"
    assert (np.abs(noises(asked, model.seed)[-1]) == 20).all()
    assert model.margin(asked[-1].image) < 0
    assert len(asked) < 400


def test_rays_tries_all_up_and_all_down_within_the_ball_first():
    model = linear((8, 8, 1), NEVER)
    asked, _ = found(RayS(delta=7 / 255, queries=40), model)
    tried = noises(asked, model.seed)
    assert (tried[0] == 7).all()
    assert (tried[1] == -7).all()
    assert (np.abs(tried[2:]).max(axis=(1, 2, 3)) > 7).all()


def test_what_rays_tries_within_the_ball_is_a_corner_of_it():
    """Of a dithered length nothing is left there: all values moved as far as they may."""
    model = linear((9, 6, 3), up=0.7).at(29.5)

    def answers(candidate: Candidate) -> Reply:  # a model that gives in right outside the ball
        far = np.abs(candidate.image.astype(int) - model.seed).max() > 30
        return Reply(1.0, False) if not far else model(candidate)

    attack = attack_on(RayS(delta=30 / 255, queries=5_000), [model.seed])
    (asked,) = carried_out(attack, answers)
    tried = noises(asked, model.seed)
    within = np.abs(tried).max(axis=(1, 2, 3)) <= 30
    assert within.sum() > 2
    assert (np.abs(tried[within]) == 30).all()
    assert set(np.ptp(np.abs(tried[~within]), axis=(1, 2, 3))) == {0, 1}  # between whole levels neighbours differ by one


def test_rays_listens_to_labels_alone():
    model = linear(SHAPE).at(12.0)
    search, asked = RayS(delta=9 / 255, queries=300), []
    for margin in (lambda reply: reply.margin, lambda reply: -1.0 if reply.broken else 1.0, lambda reply: 5.0):
        attack = attack_on(search, [model.seed])
        asked.append(digests(carried_out(attack, lambda one, m=margin: Reply(m(model(one)), model(one).broken))))
    assert asked[0] == asked[1] == asked[2]


def test_rays_takes_no_answer_for_an_unchanged_class():
    model, seen = linear(SHAPE).at(19.5), []

    def answers(candidate: Candidate) -> Reply:
        seen.append(candidate)
        return Reply(np.nan, False) if len(seen) % 5 == 4 else model(candidate)

    attack = attack_on(RayS(delta=20 / 255, queries=5_000), [model.seed])
    carried_out(attack, answers)
    assert attack.attempts[0].end == "broken"
    assert (np.abs(attack.attempts[0].image.astype(int) - model.seed) == 20).all()


@pytest.mark.parametrize("cls", [SignHunter, RayS])
def test_these_leave_nothing_to_chance(cls):
    seed = Seed(np.full((4, 4, 1), 9, np.uint8), 30, 1.0)
    rng = np.random.default_rng(0)
    before = str(rng.bit_generator.state)
    moves = cls(delta=0.1).moves(seed, rng)
    next(moves)
    for _ in range(20):
        moves.send(Reply(1.0, False))
    assert str(rng.bit_generator.state) == before


def test_no_search_breaks_what_cannot_be_broken_and_guided_ones_break_what_can():
    """Two linear classes on real digits: the best corner of the ball is known, clipping and all."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    data = load_digits(n_class=2)
    x = np.round(data.data * 255 / 16).astype(np.uint8)
    fitted = LogisticRegression(C=1e-4).fit(x, data.target)
    weights, bias = fitted.coef_[0] / 50, fitted.intercept_[0] / 50
    side = np.where(data.target == 1, 1.0, -1.0)
    right = (x @ weights + bias) * side > 0
    x, side = x[right][:24], side[right][:24]
    images = list(x.reshape(-1, 8, 8, 1))
    search = SignHunter(delta=0.2, queries=2_000)
    models = [
        Linear(image, -sign * weights.reshape(8, 8, 1), float(sign * (one @ weights + bias)))
        for image, one, sign in zip(images, x, side, strict=True)
    ]
    within_reach = np.array([model.margin(model.best(search.radius)) < 0 for model in models])
    assert 0.2 < within_reach.mean() < 0.8
    broken = {}
    for made in (search, RayS(delta=0.2, queries=300), *(cls(delta=0.2, queries=100) for cls in (Square, RandomTiles))):
        attack = attack_on(made, images)
        carried_out(attack, lambda one: models[one.place](one))
        broken[made.name] = np.array([attempt.end == "broken" for attempt in attack.attempts])
        assert not (broken[made.name] & ~within_reach).any(), made.name
    assert np.array_equal(broken["sign_hunter"], within_reach)
    assert np.array_equal(broken["rays"], within_reach)
    assert broken["square"].sum() > broken["random"].sum()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 60])
def test_nested_blocks_cover_everything_again_and_again(size):
    blocks = list(nested_blocks(size))
    assert blocks[0] == slice(0, size)
    assert [one for one in blocks if one.stop - one.start == 1][-size:] == [slice(at, at + 1) for at in range(size)]
    covered = np.zeros(size, int)
    for block in blocks:
        assert 0 <= block.start < block.stop <= size
        covered[block] += 1
    assert len(set(covered)) == 1
    assert len(blocks) <= 2 * 2 ** math.ceil(math.log2(size)) - 1


def test_nested_blocks_are_halves_of_halves():
    lengths = [block.stop - block.start for block in nested_blocks(7)]
    assert lengths == [7, *(4, 3), *(2, 2, 2, 1), *[1] * 7]


def test_a_row_of_values_goes_channel_by_channel():
    noise = as_noise(np.arange(24, dtype=np.int16), (2, 4, 3))
    assert noise[..., 0].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert noise[1, 3].tolist() == [7, 15, 23]


@pytest.mark.parametrize(
    ("shape", "grid"), [((28, 28, 1), (7, 7)), ((14, 28, 3), (4, 7)), ((3, 60, 1), (1, 7)), ((2, 2, 1), (2, 2))]
)
def test_tiles_are_about_square_and_differ_by_a_pixel(shape, grid):
    assert tile_grid(shape, 7) == grid
    numbers = np.arange(grid[0] * grid[1] * shape[2], dtype=np.int16).reshape(*grid, shape[2])
    noise = enlarged(numbers, shape)
    assert noise.shape == shape
    values, counts = np.unique(noise[..., 0], return_counts=True)
    assert len(values) == grid[0] * grid[1]
    heights = {math.floor(shape[0] / grid[0]), math.ceil(shape[0] / grid[0])}
    widths = {math.floor(shape[1] / grid[1]), math.ceil(shape[1] / grid[1])}
    assert set(counts) <= {a * b for a in heights for b in widths}


def test_random_signs_are_signs():
    signs = random_signs(np.random.default_rng(0), (50, 40))
    assert signs.dtype == np.int16
    assert set(np.unique(signs)) == {-1, 1}
    assert abs(signs.mean()) < 0.1

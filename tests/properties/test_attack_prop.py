"""What holds of every search on any images, whatever the model says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_up_models import IMAGE_SEARCHES, attack_on, by_chance, carried_out

from aitest_lib.canonical import array_digest
from aitest_lib.searches.image.attack import SILENT

PROBES = {"rays"}  # these look beyond the ball on purpose
ENDS = {"broken", "resisted", "exhausted", "unanswered"}

every_search = pytest.mark.parametrize("cls", IMAGE_SEARCHES, ids=lambda cls: cls.name)
few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def images(draw: st.DrawFn) -> np.ndarray:
    """Of any small size, grey, RGB or RGBA; black, white, or anything."""
    shape = draw(st.tuples(st.integers(1, 7), st.integers(1, 7), st.sampled_from([1, 3, 4])))
    level = draw(st.sampled_from([None, 0, 255, 128]))
    made = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 256, shape, np.uint8)
    return made if level is None else np.full(shape, level, np.uint8)


@every_search
@few
@given(
    seeds=st.lists(images(), min_size=1, max_size=4),
    delta=st.one_of(st.floats(1 / 255, 1), st.sampled_from([1 / 255, 8 / 255, 1.0])),
    queries=st.integers(1, 30),
    votes=st.integers(1, 4),
    broken=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    silent=st.sampled_from([0.0, 0.3, 1.0]),
    salt=st.integers(0, 9),
)
def test_every_attack_keeps_its_books(cls, seeds, delta, queries, votes, broken, silent, salt):
    search = cls(delta=delta, queries=queries)
    attack = attack_on(search, seeds, votes=votes)
    answers = by_chance(broken, silent, str(salt))
    for seed, attempt, asked in zip(seeds, attack.attempts, carried_out(attack, answers), strict=True):
        # Every candidate: an image like its seed, in the ball, and never one that was asked.
        distance = {}
        for one in asked:
            assert one.image.dtype == np.uint8
            assert one.image.shape == seed.shape
            assert one.digest == array_digest(one.image)
            assert np.array_equal(one.image[..., 3:], seed[..., 3:])
            distance[one.digest] = int(np.abs(one.image.astype(int) - seed).max())
            assert 0 < distance[one.digest] <= search.radius or cls.name in PROBES
        assert max(Counter((one.digest, one.repeat) for one in asked).values(), default=1) == 1

        # The budget, and what it was spent on.
        assert attempt.queries == len(asked) <= queries
        assert attempt.unanswered == sum(np.isnan(answers(one).margin) for one in asked)
        for digest, count in Counter(one.digest for one in asked).items():
            first = next(one for one in asked if one.digest == digest)
            assert count <= votes if answers(first).broken and distance[digest] <= search.radius else count == 1
            assert [one.repeat for one in asked if one.digest == digest] == list(range(count))

        # The end.
        assert attempt.end in ENDS
        votes_for = Counter(one.digest for one in asked if answers(one).broken and distance[one.digest] <= search.radius)
        firsts = {one.digest for one in asked if one.repeat == 0 and answers(one).broken}
        won = [digest for digest, count in votes_for.items() if count > votes // 2 and digest in firsts]
        assert (attempt.end == "broken") == bool(won)
        if attempt.end == "broken":
            assert won == [asked[-1].digest] == [array_digest(attempt.image)]
        elif attempt.end == "resisted":
            assert attempt.queries == queries
        elif attempt.end == "unanswered":
            assert attempt.unanswered == attempt.queries <= SILENT
        assert (attempt.unanswered < attempt.queries) or attempt.end == "unanswered" or not asked

        # What is kept.
        if attempt.image is None:
            assert (attempt.found, attempt.norm, attempt.margin) == (None, 0, np.inf)
        else:
            place = [one.digest for one in asked].index(array_digest(attempt.image))
            assert attempt.found == place + 1
            assert attempt.norm == distance[asked[place].digest] <= search.radius
            assert (attempt.margin < 0) == (attempt.end == "broken")
        assert attempt.seed is seed


@every_search
@few
@given(seed=images(), queries=st.integers(1, 20), other=images(), salt=st.integers(0, 9))
def test_an_attack_is_a_function_of_its_image_generator_and_replies(cls, seed, queries, other, salt):
    search, answers = cls(delta=0.1, queries=queries), by_chance(0.1, 0.1, str(salt))
    (alone,) = carried_out(attack_on(search, [seed], ["seed"]), answers)
    _, behind = carried_out(attack_on(search, [other, seed], ["other", "seed"]), answers)
    assert [one.digest for one in alone] == [one.digest for one in behind]

"""What `Attack` promises of every search: budgets, no query twice, votes, ends, and images that know nothing of each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from image_samples import grey_noise, photo
from made_up_models import IMAGE_SEARCHES, attack_on, by_chance, carried_out, digests

from aitest_lib.canonical import array_digest
from aitest_lib.errors import InputError
from aitest_lib.searches.image.attack import SILENT, Attack, Attempt, Candidate, with_noise
from aitest_lib.searches.image.base import ImageSearch, Moves, Reply, Seed, Try
from aitest_lib.searches.image.random import RandomTiles

every_search = pytest.mark.parametrize("cls", IMAGE_SEARCHES, ids=lambda cls: cls.name)
NOBODY = Reply(np.nan, False)
MIXED = [
    *photo(8, (9, 12, 3)),
    *grey_noise(5, (7, 7, 1)),
    *photo(3, (4, 11, 4)),
    *grey_noise(1, (1, 1, 1)),
    *(np.full((6, 6, 1), level, np.uint8) for level in (0, 255)),
    *grey_noise(1, (1, 8, 3)),
]


@dataclass(frozen=True, kw_only=True)
class Scripted(ImageSearch):
    """Tries what it is told to, and keeps what it hears."""

    name: ClassVar[str] = "scripted"
    script: tuple[int, ...] = ()
    delta: float = 0.1

    def moves(self, seed: Seed, rng: np.random.Generator) -> Moves:
        for level in self.script:
            reply = yield Try(np.full(seed.image.shape, level, np.int16))
            heard.append(reply)


heard: list[Any] = []
FLAT = np.full((2, 3, 1), 100, np.uint8)


def scripted(*levels: int, queries: int = 100, votes: int = 1) -> Attack:
    heard.clear()
    return attack_on(Scripted(script=levels, queries=queries), [FLAT], votes=votes)


def told(attack: Attack, *answers: Reply) -> list[Candidate]:
    """Gives answers one by one; the candidates that got them."""
    asked = []
    for answer in answers:
        (candidate,) = attack.ask()
        asked.append(candidate)
        attack.tell([candidate], [answer])
    return asked


def standing(attempt: Attempt) -> list[Any]:
    """An attempt as plain values."""
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in vars(attempt).values()]


def test_there_are_searches_to_hold_to_this():
    assert {"random", "square", "sign_hunter", "rays"} <= {cls.name for cls in IMAGE_SEARCHES}


@every_search
def test_many_images_are_as_many_attacks_on_one(cls):
    """One of them gets no answer at all, and changes nothing for the others."""
    search, mute = cls(delta=0.1, queries=25), 3
    chance = by_chance(broken=0.05, silent=0.1)

    def answers(candidate: Candidate) -> Reply:
        return NOBODY if candidate.place == mute else chance(candidate)

    together = attack_on(search, MIXED)
    asked = digests(carried_out(together, answers))
    assert together.attempts[mute].end == "unanswered"
    assert {attempt.end for attempt in together.attempts} >= {"unanswered", "broken", "resisted"}
    for place, image in enumerate(MIXED):
        alone = attack_on(search, [image], [str(place)])
        (own,) = digests(carried_out(alone, (lambda _: NOBODY) if place == mute else chance))
        assert own == asked[place], place
        assert standing(alone.attempts[0]) == standing(together.attempts[place]), place


@every_search
def test_kept_answers_lead_to_the_same_candidates(cls):
    """What a resumed run does: the answers that are kept once more, then on from there."""
    search, chance = cls(delta=0.1, queries=20), by_chance(broken=0.03, silent=0.1)
    whole = digests(carried_out(attack_on(search, MIXED[:9]), chance))
    for rounds in (1, 7, 15):
        begun = attack_on(search, MIXED[:9])
        kept = {one.digest: chance(one) for row in carried_out(begun, chance, rounds) for one in row}
        again = attack_on(search, MIXED[:9])
        replayed = carried_out(again, lambda one, kept=kept: kept[one.digest], rounds)
        rest = carried_out(again, chance)
        assert [left + right for left, right in zip(digests(replayed), digests(rest), strict=True)] == whole


@every_search
def test_no_image_is_asked_twice_nor_the_untouched_one(cls):
    images = MIXED[:12]
    asked = digests(carried_out(attack_on(cls(delta=0.03, queries=60), images), by_chance()))
    for row, image in zip(asked, images, strict=True):
        assert len(set(row)) == len(row) > 0
        assert array_digest(image) not in row


@every_search
@pytest.mark.parametrize("queries", [1, 2, 7])
def test_a_budget_smaller_than_any_step_is_kept(cls, queries):
    attack = attack_on(cls(delta=0.2, queries=queries), list(photo(3, (8, 8, 3))))
    asked = carried_out(attack, by_chance())
    assert [len(row) for row in asked] == [queries] * 3
    assert [(attempt.queries, attempt.end) for attempt in attack.attempts] == [(queries, "resisted")] * 3


@every_search
def test_what_is_invisible_stays_as_it_is(cls):
    images = [*photo(2, (6, 9, 4))]
    images[0][..., 3] = 0
    asked = carried_out(attack_on(cls(delta=0.3, queries=15), images), by_chance())
    for row, image in zip(asked, images, strict=True):
        for one in row:
            assert np.array_equal(one.image[..., 3], image[..., 3])
            assert not np.array_equal(one.image[..., :3], image[..., :3])


@every_search
def test_the_images_it_was_given_are_left_alone(cls):
    images = [image.copy() for image in MIXED[:4]]
    carried_out(attack_on(cls(delta=0.3, queries=10), images), by_chance(broken=0.2))
    assert all(np.array_equal(left, right) for left, right in zip(images, MIXED, strict=False))


@every_search
def test_a_search_with_nothing_left_to_try_ends(cls):
    """One grey pixel has two corners; nothing more is asked of the guided searches than what they need to know."""
    attack = attack_on(cls(delta=0.01, queries=500), [np.full((1, 1, 1), 128, np.uint8)])
    (asked,) = carried_out(attack, lambda one: Reply(1.0, False))
    assert attack.attempts[0].end == "exhausted"
    in_ball = {int(one.image[0, 0, 0]) for one in asked} & set(range(126, 131))
    assert {126, 130} <= in_ball


def test_a_success_ends_the_search_of_its_image_alone():
    attack = attack_on(RandomTiles(delta=0.1, queries=9), MIXED[:3])
    first = attack.ask()
    attack.tell(first, [Reply(1.0, False), Reply(-0.5, True), Reply(2.0, False)])
    attempt = attack.attempts[1]
    assert (attempt.end, attempt.queries, attempt.found, attempt.margin) == ("broken", 1, 1, -0.5)
    assert attempt.image is first[1].image
    assert attack.active == [0, 2]
    assert [one.place for one in attack.ask()] == [0, 2]


def test_a_success_is_kept_even_if_another_image_had_a_smaller_margin():
    """Where labels come with a threshold, the class may change while the scores still lean the other way."""
    attack = scripted(1, 2, 3)
    asked = told(attack, Reply(0.2, False), Reply(-0.1, False), Reply(0.7, True))
    attempt = attack.attempts[0]
    assert attempt.image is asked[2].image
    assert (attempt.end, attempt.found, attempt.margin, attempt.norm) == ("broken", 3, 0.7, 3)


def test_where_nothing_breaks_the_nearest_is_kept():
    attack = scripted(1, 2, 3, 60, queries=4)
    asked = told(attack, Reply(3.0, False), Reply(1.0, False), Reply(1.5, False), Reply(0.1, False))
    attempt = attack.attempts[0]
    assert attempt.image is asked[1].image  # the last one is beyond the ball
    assert (attempt.end, attempt.found, attempt.margin, attempt.norm) == ("resisted", 2, 1.0, 2)


def test_a_probe_is_never_a_success():
    attack = scripted(26, 25)
    assert attack.search.radius == 25
    told(attack, Reply(-3.0, True))
    assert attack.attempts[0].end is None
    assert attack.attempts[0].image is None
    assert heard == []  # until the next is asked for
    told(attack, Reply(-1.0, True))
    assert heard == [Reply(-3.0, True)]
    assert attack.attempts[0].end == "broken"


def test_what_was_tried_costs_nothing_and_has_its_reply():
    attack = scripted(0, 5, 5, 0, 5, 6)
    told(attack, Reply(2.0, False), Reply(3.0, False))
    assert attack.ask() == []
    assert attack.attempts[0].queries == 2
    assert attack.attempts[0].end == "exhausted"
    assert heard == [Reply(9.0, False), *[Reply(2.0, False)] * 2, Reply(9.0, False), Reply(2.0, False), Reply(3.0, False)]


@pytest.mark.parametrize(
    ("votes", "answers"),
    [
        (1, [True]),
        (2, [True, True]),
        (3, [True, True]),
        (3, [True, False, True]),
        (5, [True, False, True, False, True]),
    ],
)
def test_a_success_needs_the_majority(votes, answers):
    attack = scripted(4, 5, votes=votes)
    asked = told(attack, Reply(3.0, False), *[Reply(-1.0, True) if one else Reply(2.0, False) for one in answers])
    attempt = attack.attempts[0]
    assert [one.repeat for one in asked] == [0, *range(len(answers))]
    assert len({one.digest for one in asked[1:]}) == 1
    assert (attempt.end, attempt.queries, attempt.found, attempt.margin) == ("broken", len(answers) + 1, 2, -1.0)


@pytest.mark.parametrize(("votes", "answers"), [(2, [True, False]), (3, [True, False, False]), (3, [True, None, False])])
def test_a_majority_that_holds_overrules_the_first_answer(votes, answers):
    attack = scripted(4, 5, votes=votes)
    kinds = {True: Reply(-2.5, True), False: Reply(2.0, False), None: NOBODY}
    asked = told(attack, *[kinds[one] for one in answers], Reply(0.5, False))
    attempt = attack.attempts[0]
    assert asked[-1].repeat == 0
    assert heard == [Reply(1.0, False)]
    assert attempt.image is asked[-1].image
    assert (attempt.queries, attempt.found, attempt.margin) == (len(answers) + 1, len(answers) + 1, 0.5)


def test_votes_that_nothing_is_left_for_are_no_success():
    attack = scripted(4, 5, queries=2, votes=3)
    told(attack, Reply(3.0, False), Reply(-1.0, True))
    attempt = attack.attempts[0]
    assert attack.ask() == []
    assert (attempt.end, attempt.queries) == ("resisted", 2)
    assert attempt.margin > 0  # no word of an adversarial image


def test_a_probe_needs_no_votes():
    attack = scripted(60, 5, votes=3)
    asked = told(attack, Reply(-1.0, True), Reply(1.0, False))
    assert [one.repeat for one in asked] == [0, 0]
    assert heard == [Reply(-1.0, True)]


@pytest.mark.parametrize(("queries", "spent"), [(3, 3), (SILENT, SILENT), (200, SILENT)])
def test_a_model_that_never_answers_an_image_has_not_resisted(queries, spent):
    attack = attack_on(RandomTiles(delta=0.1, queries=queries), list(photo(1, (8, 8, 3))))
    carried_out(attack, lambda one: NOBODY)
    attempt = attack.attempts[0]
    assert (attempt.end, attempt.queries, attempt.unanswered) == ("unanswered", spent, spent)
    assert attempt.image is None
    assert attempt.norm == 0


def test_a_model_that_answers_none_of_the_few_there_are_has_not_resisted():
    attack = scripted(1, 2)
    told(attack, NOBODY, NOBODY)
    assert attack.ask() == []
    assert attack.attempts[0].end == "unanswered"


@pytest.mark.parametrize(("every", "end"), [(5, ("resisted", 40, 32)), (30, ("unanswered", 10, 10))])
def test_answers_that_fail_are_counted_and_the_search_goes_on_while_some_come(every, end):
    attack = attack_on(RandomTiles(delta=0.1, queries=40), list(photo(1, (8, 8, 3))))
    asked: list[Candidate] = []

    def answers(candidate: Candidate) -> Reply:
        asked.append(candidate)
        return NOBODY if len(asked) % every else Reply(4.0 + len(asked), False)

    carried_out(attack, answers)
    attempt = attack.attempts[0]
    assert (attempt.end, attempt.queries, attempt.unanswered) == end
    assert attempt.image is (asked[4].image if every == 5 else None)


def test_a_model_that_stops_answering_is_not_asked_for_ever():
    attack = attack_on(RandomTiles(delta=0.1, queries=40), list(photo(1, (8, 8, 3))))
    asked: list[Candidate] = []

    def answers(candidate: Candidate) -> Reply:
        asked.append(candidate)
        return Reply(4.0, False) if len(asked) == 1 else NOBODY

    carried_out(attack, answers)
    assert (attack.attempts[0].end, attack.attempts[0].queries) == ("unanswered", 11)


def test_a_search_can_be_given_up():
    attack = attack_on(RandomTiles(delta=0.1, queries=40), MIXED[:2])
    attack.tell(attack.ask(), [NOBODY, Reply(1.0, False)])
    attack.give_up(0, "unpaid")
    assert [attempt.end for attempt in attack.attempts] == ["unpaid", None]
    assert [one.place for one in attack.ask()] == [1]


def test_asking_again_changes_nothing():
    attack = attack_on(RandomTiles(delta=0.1, queries=40), MIXED[:2])
    first = attack.ask()
    assert [one.digest for one in attack.ask()] == [one.digest for one in first]
    attack.tell(first[1:], [Reply(1.0, False)])  # a part of them may be told before the rest
    second = attack.ask()
    assert [one.place for one in second] == [0, 1]
    assert second[0] is first[0]
    assert second[1].digest != first[1].digest


def test_an_answer_to_what_was_not_asked_is_refused():
    attack = scripted(4, 5, 6)
    with pytest.raises(ValueError, match="not asked"):
        attack.tell([Candidate(0, FLAT, 0, "00" * 16)], [Reply(1.0, False)])
    (first,) = told(attack, Reply(1.0, False))
    attack.ask()
    with pytest.raises(ValueError, match="not asked"):
        attack.tell([first], [Reply(1.0, False)])
    with pytest.raises(ValueError, match="argument"):
        attack.tell(attack.ask(), [])
    assert attack.attempts[0].queries == 1


@dataclass(frozen=True)
class Sum:
    """Work that is done for all images at once."""

    value: int
    calls: ClassVar[list[list[int]]] = []

    @classmethod
    def solve(cls, requests: Sequence[Sum]) -> Sequence[int]:
        cls.calls.append([one.value for one in requests])
        return [one.value + 1 for one in requests]


@dataclass(frozen=True, kw_only=True)
class Counting(ImageSearch):
    """Tries the levels that it is told by the common work."""

    name: ClassVar[str] = "counting"

    def moves(self, seed: Seed, rng: np.random.Generator) -> Moves:
        level = int(seed.image.flat[0])
        while True:
            level = yield Sum(level)
            yield Try(np.full(seed.image.shape, level, np.int16))


def test_common_work_is_done_for_all_images_that_wait():
    Sum.calls.clear()
    attack = attack_on(Counting(delta=1.0, queries=3), [np.full((1, 1, 1), level, np.uint8) for level in (10, 20, 30)])
    asked = carried_out(attack, lambda one: Reply(-1.0, one.place == 1))
    assert Sum.calls == [[10, 20, 30], [11, 31], [12, 32]]
    assert [[int(one.image.flat[0]) for one in row] for row in asked] == [[21, 22, 23], [41], [61, 62, 63]]


def test_noise_is_clipped_and_never_wraps_around():
    image = np.array([[[0, 5, 250], [255, 128, 3]]], np.uint8)
    noise = np.array([[[-300, -6, 6], [300, 1, -3]]], np.int16)
    assert with_noise(image, noise).tolist() == [[[0, 0, 255], [255, 129, 0]]]


def test_a_ball_is_as_many_whole_levels_as_fit():
    assert [RandomTiles(delta=delta).radius for delta in (1 / 255, 8 / 255, 0.05, 0.3, 0.999, 1.0)] == [1, 8, 12, 76, 254, 255]
    with pytest.raises(InputError, match=r"got delta 0\.003, expected at least one grey level"):
        RandomTiles(delta=0.003)


def test_a_search_starts_from_the_margin_that_it_may_know():
    seen: list[float] = []

    @dataclass(frozen=True, kw_only=True)
    class Curious(RandomTiles):
        def moves(self, seed: Seed, rng: np.random.Generator) -> Moves:
            seen.append(seed.margin)
            return super().moves(seed, rng)

    for labels_only in (False, True):
        carried_out(attack_on(Curious(delta=0.1, queries=1, labels_only=labels_only), [FLAT]), by_chance())
    assert seen == [9.0, 1.0]

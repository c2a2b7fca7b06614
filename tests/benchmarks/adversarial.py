"""How many images do black-box searches break with how many queries and CPU seconds, beside each other, ART and Foolbox."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from adversarial_models import CHUNK, ROBUST_DELTA, Network, Victims, floats, pgd_broken, scores, victims
from adversarial_peers import peers_there, run_peer
from numpy.typing import NDArray
from scipy.stats import binomtest
from threadpoolctl import threadpool_limits

from aitest_lib.registry import components
from aitest_lib.rng import rng_for
from aitest_lib.searches.image.attack import Attack
from aitest_lib.searches.image.base import ImageSearch
from aitest_lib.searches.image.margins import margins, replies
from aitest_lib.stats.intervals import wilson
from aitest_lib.stats.multiple import holm

BUDGETS = (10, 25, 50, 100, 250, 500, 1_000)
QUERIES, USUAL = BUDGETS[-1], 250
ROBUST_IMAGES = 50  # at most: every image that is not broken costs all queries
ALPHA, CONFIDENCE = 0.05, 0.975  # of each of an interval's bounds
OWN = "auto"
SCHEDULED = "square"  # how it goes on hangs on its budget: it also runs with the usual one
USUAL_SQUARE = f"{SCHEDULED}, of {USUAL}"
BASELINES = {False: (SCHEDULED, USUAL_SQUARE, "sign_hunter", "random"), True: ("rays", "random")}
PEERS_AGAINST = {False: ("ART Square",), True: ("ART HopSkipJump", "Foolbox HopSkipJump")}
ONCE = "bayesian"  # `auto` has it within; it costs most and is compared with nothing, so that one seed must do
SETTINGS = {  # model, delta, labels only
    "mnist": ("mnist", 0.3, False),
    "mnist-labels": ("mnist", 0.3, True),
    "mnist-0.2": ("mnist", 0.2, False),
    "mnist-0.2-labels": ("mnist", 0.2, True),
    "cifar": ("cifar", 0.05, False),
    "cifar-labels": ("cifar", 0.05, True),
    "cifar-8": ("cifar", 8 / 255, False),
    "cifar-8-labels": ("cifar", 8 / 255, True),
}
PARTS = (*SETTINGS, "robust", "peers")
# What `auto` is held to: share of images broken within a budget; CPU seconds an image within the usual budget.
GOALS: dict[str, dict[int, float]] = {
    "mnist": {40: 0.90, 50: 0.95, 250: 0.995},
    "mnist-labels": {100: 0.88, 1_000: 0.99},
    "mnist-0.2": {250: 0.90},
    "cifar": {500: 0.90},
    "cifar-labels": {1_000: 0.90},
}
SECONDS = {"mnist": 0.03, "mnist-0.2": 0.5}
BETTER_AT = {"mnist-0.2": 50}


@dataclass(frozen=True)
class Runs:
    """A method on n images: `found` (seeds, n), at which query each was broken, inf where it was not; CPU seconds an image,
    the model included, within the usual budget (None for peers) and in all."""

    found: NDArray[np.float64]
    usual: float | None
    seconds: float

    def success(self, budget: int) -> float:
        """The share of images broken within it."""
        return float((self.found <= budget).mean())


Found = dict[str, Runs]


def adversarial(
    parts: Sequence[str] = (),
    methods: Sequence[str] = (),
    images: int = 200,
    peers_images: int = 30,
    seeds: int = 3,
    weights: Path | None = None,
) -> None:
    """The tables of the parts, each with what is better and what the goals say of it."""
    sound = True
    with threadpool_limits(1):
        import torch

        torch.set_num_threads(1)
        for part in parts or PARTS:
            if part == "robust":
                sound &= _robust(methods, images, weights)
            elif part == "peers":
                _peers(methods, peers_images, weights)
            else:
                _setting(part, methods, images, seeds, weights)
    if not sound:
        sys.exit(1)


def _setting(part: str, methods: Sequence[str], images: int, seeds: int, weights: Path | None) -> None:
    kind, delta, labels_only = SETTINGS[part]
    if (attacked := victims(kind, images, weights)) is None:
        return
    found = _own(attacked, delta, labels_only, methods, seeds)
    _print(part, attacked, delta, labels_only, found)
    if OWN in found:
        _verdicts(part, found[OWN], _compared(found, labels_only))


def _robust(methods: Sequence[str], images: int, weights: Path | None) -> bool:
    """Whether no search breaks more of the network that was trained adversarially than gradients do."""
    if (attacked := victims("robust", min(images, ROBUST_IMAGES), weights)) is None or not isinstance(attacked.model, Network):
        return True
    started = time.process_time()
    radius = int(255 * ROBUST_DELTA)
    ceiling = pgd_broken(attacked.model.network, attacked.images, attacked.labels, radius)
    print(
        f"\nrobust: of the first {attacked.places[-1] + 1} digits {len(ceiling)} are right; white-box PGD breaks "
        f"{100 * ceiling.mean():.1f} % of these ({time.process_time() - started:.0f} CPU s)"
    )
    rows = []
    for labels_only in (False, True):
        found = _own(attacked, ROBUST_DELTA, labels_only, methods, 1)
        _print("robust", attacked, ROBUST_DELTA, labels_only, found)
        for name, runs in found.items():
            broken = runs.found[0] <= QUERIES
            more, less = int((broken & ~ceiling).sum()), int((ceiling & ~broken).sum())
            p = binomtest(more, more + less, 0.5, alternative="greater").pvalue if more + less else 1.0
            rows.append((f"{name}, {_access(labels_only)}", broken.mean(), more, less, float(p)))
    adjusted = holm([row[-1] for row in rows])
    for (name, rate, more, less, _), p in zip(rows, adjusted, strict=True):
        said = "MORE THAN PGD" if p < ALPHA else "no more than PGD"
        print(f"  {name:<28}{100 * rate:5.1f} % broken; {more} that PGD does not break, PGD {less} more: {said} (p = {p:.2g})")
    return bool((adjusted >= ALPHA).all())


def _peers(methods: Sequence[str], images: int, weights: Path | None) -> None:
    """ART and Foolbox beside aitest's searches on the same images."""
    kind, delta, _ = SETTINGS["mnist"]
    if (attacked := victims(kind, images, weights)) is None:
        return
    there = peers_there()
    for labels_only in (False, True):
        found = _own(attacked, delta, labels_only, methods, 1)
        for name in PEERS_AGAINST[labels_only]:
            if name in there:
                run_peer(name, attacked.first(1), int(255 * delta), BUDGETS[0])  # what it imports is no time of an image
                asked, seconds = run_peer(name, attacked, int(255 * delta), QUERIES)
                found[name] = Runs(asked[None], None, seconds)
        _print("peers", attacked, delta, labels_only, found)
        for name in PEERS_AGAINST[labels_only]:
            if OWN in found and name in found:
                _, more, less, p = _difference(found[OWN], found[name], 100)
                rates = [100 * found[one].success(100) for one in (OWN, name)]
                said = _yes(p < ALPHA and more > less)
                print(f"  {said}  {OWN} far ahead of {name} at 100: {rates[0]:.0f} and {rates[1]:.0f} % (p = {p:.2g})")


def _own(attacked: Victims, delta: float, labels_only: bool, methods: Sequence[str], seeds: int) -> Found:
    found: Found = {}
    known = {name: kind for name, kind in components().items() if issubclass(kind, ImageSearch)}
    for name, kind in sorted(known.items(), key=lambda one: one[0] != OWN):
        if (methods and name not in methods) or (labels_only and kind.needs_scores):
            continue
        few = 1 if name == ONCE else seeds
        found[name] = _runs(kind(delta=delta, queries=QUERIES, labels_only=labels_only), attacked, few)
        if name == SCHEDULED:
            found[USUAL_SQUARE] = _runs(kind(delta=delta, queries=USUAL, labels_only=labels_only), attacked, seeds)
    return found


def _runs(search: ImageSearch, attacked: Victims, seeds: int) -> Runs:
    found = np.full((seeds, len(attacked.images)), np.inf)
    usual = seconds = 0.0
    few = replace(search, queries=BUDGETS[1])
    _attack(few, attacked, slice(1), 0, np.full(1, np.inf))  # what it imports is no time of an image
    for seed in range(seeds):
        for at in range(0, len(attacked.images), CHUNK):
            spent = _attack(search, attacked, slice(at, at + CHUNK), seed, found[seed, at : at + CHUNK])
            usual += spent[min(USUAL, len(spent) - 1)]
            seconds += spent[-1]
    return Runs(found, usual / found.size, seconds / found.size)


def _attack(search: ImageSearch, attacked: Victims, part: slice, seed: int, found: NDArray[np.float64]) -> NDArray[np.float64]:
    """The searches on some images: writes at which query each was broken into `found`; CPU seconds until each round's end,
    the first of which is the look at the untouched images. Counts at the model, and trusts the search with nothing."""
    images, labels = attacked.images[part], attacked.labels[part].astype(np.float64)
    spent, asked = [], np.zeros(len(images), np.int64)
    seen: set[tuple[int, str]] = set()
    started = time.process_time()
    untouched = scores(attacked.model.logits(floats(images)))
    rngs = [rng_for(seed, search.key, str(place)) for place in attacked.places[part]]
    attack = Attack(search, list(images), margins(untouched, labels).tolist(), rngs)
    spent.append(time.process_time() - started)
    while candidates := attack.ask():
        answers = scores(attacked.model.logits(floats(np.stack([one.image for one in candidates]))))
        places = np.array([one.place for one in candidates])
        codes = answers.argmax(axis=1)
        asked[places] += 1
        attack.tell(candidates, replies(codes.astype(np.float64), answers, labels[places], search.labels_only))
        spent.append(time.process_time() - started)
        seen |= {(one.place, one.digest) for one in candidates}
    wrong = [place for place, attempt in enumerate(attack.attempts) if attempt.queries != asked[place]]
    if wrong or len(seen) != asked.sum() or asked.max(initial=0) > search.queries:
        sys.exit(f"{search.name}: asked {asked.sum()} images of which {len(seen)} are distinct, {asked.max()} of one at most")
    for place, attempt in enumerate(attack.attempts):
        if attempt.end == "broken" and attempt.image is not None:
            answer = int(attacked.model.logits(floats(attempt.image[None])).argmax())
            if attempt.norm > search.radius or answer == labels[place]:
                sys.exit(
                    f"{search.name}: image {place} counts as broken, with noise of {attempt.norm} levels and answer {answer}"
                )
            found[place] = asked[place]
    return np.array(spent)


def _print(part: str, attacked: Victims, delta: float, labels_only: bool, found: Found) -> None:
    title = f"{part}: delta {delta:.3g}, {_access(labels_only)}, {len(attacked.images)} images; % broken within queries"
    print(
        f"\n{title}\n{'method':<22}" + "".join(f"{budget:>17,}" for budget in BUDGETS) + f"{'90 % by':>9}{'CPU s':>9}{'all':>8}"
    )
    for name, runs in found.items():
        cells = [_cell(runs.found <= budget) for budget in BUDGETS]
        if name == USUAL_SQUARE:
            cells = [cell if budget <= USUAL else "" for cell, budget in zip(cells, BUDGETS, strict=True)]
        usual = "" if runs.usual is None else f"{runs.usual:.4f}"
        print(
            f"{name:<22}" + "".join(f"{cell:>17}" for cell in cells) + f"{_needed(runs):>9}{usual:>9}{runs.seconds:>8.3f}",
            flush=True,
        )


def _cell(broken: NDArray[np.bool_]) -> str:
    """Rate over all seeds, with the interval of as many images as there are: another seed is not another image."""
    rate = wilson(round(float(broken.mean(axis=0).sum())), broken.shape[1])
    low, high = rate.bounds(CONFIDENCE) or (0.0, 1.0)
    return f"{100 * broken.mean():.1f} ({100 * low:.0f}-{100 * high:.0f})"


def _needed(runs: Runs) -> str:
    """The fewest queries within which 90 % are broken."""
    needed = np.quantile(runs.found, 0.9, method="inverted_cdf")
    return "never" if np.isinf(needed) else f"{needed:.0f}"


def _compared(found: Found, labels_only: bool) -> dict[int, str]:
    """Per budget whether `auto` is better or worse than the best of the baselines, or level with it."""
    others = [name for name in BASELINES[labels_only] if name in found]
    if not others:
        return {}
    rows = []
    for budget in BUDGETS:
        best = max(
            (name for name in others if name != USUAL_SQUARE or budget <= USUAL), key=lambda name: found[name].success(budget)
        )
        rows.append((budget, best, *_difference(found[OWN], found[best], budget)))
    levels = {}
    for (budget, best, points, more, less, _), p in zip(rows, holm([row[-1] for row in rows]), strict=True):
        levels[budget] = "level" if p >= ALPHA else "better" if more > less else "worse"
        print(
            f"  at {budget:>5,}: {levels[budget]:<7}{100 * points:+5.1f} points against {best}; more often broken by {OWN} "
            f"{more} images, less often {less} (p = {p:.2g})"
        )
    return levels


def _difference(own: Runs, other: Runs, budget: int) -> tuple[float, int, int, float]:
    """The difference of the rates; on how many images the first succeeds under more seeds than the second, and under fewer;
    the exact two-sided p-value of McNemar's test, whose unit is the image, however many seeds there are."""
    counts = [(runs.found <= budget).mean(axis=0) for runs in (own, other)]
    more, less = int((counts[0] > counts[1]).sum()), int((counts[0] < counts[1]).sum())
    p = float(binomtest(more, more + less, 0.5).pvalue) if more + less else 1.0
    return float(counts[0].mean() - counts[1].mean()), more, less, p


def _verdicts(part: str, own: Runs, levels: dict[int, str]) -> None:
    for budget, goal in GOALS.get(part, {}).items():
        rate = own.success(budget)
        print(f"  {_yes(rate >= goal)}  {OWN} breaks at least {100 * goal:g} % by {budget:,}: {100 * rate:.2f} %")
    if part in SECONDS and own.usual is not None:
        said = _yes(own.usual <= SECONDS[part])
        print(f"  {said}  at most {SECONDS[part]} CPU s an image of {USUAL} queries: {own.usual:.4f}")
    if levels:
        worse = ", ".join(f"{budget:,}" for budget, level in levels.items() if level == "worse")
        print(f"  {_yes(not worse)}  {OWN} at no budget worse than the best baseline{worse and f': worse at {worse}'}")
    if part in BETTER_AT and levels:
        level = levels[BETTER_AT[part]]
        print(f"  {_yes(level == 'better')}  better than the best baseline at {BETTER_AT[part]}: {level}")


def _access(labels_only: bool) -> str:
    return "labels only" if labels_only else "scores"


def _yes(holds: bool) -> str:
    return "yes" if holds else "NO "

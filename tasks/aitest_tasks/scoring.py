"""Scoring as a cached task: its key holds the digest of the answers it reads."""

from __future__ import annotations

from typing import Any

from prefect import task

from aitest_lib import __version__
from aitest_lib.answers import book_digest
from aitest_lib.canonical import digest
from aitest_lib.errors import InputError, Unscored
from aitest_lib.properties.catalog import spec
from aitest_lib.properties.speech import SPEECH_FAIRNESS
from aitest_lib.properties.tabular import DIRECTIONAL, GROUP_FAIRNESS, INDIVIDUAL_FAIRNESS
from aitest_lib.scorers.invariance import InvarianceScorer
from aitest_lib.types import ArtifactRef
from aitest_tasks import live
from aitest_tasks.attack_scoring import score_attack
from aitest_tasks.caching import CACHED, job_key
from aitest_tasks.components import attacks, components, searches
from aitest_tasks.corruption_error import baseline_errors
from aitest_tasks.direction_scoring import score_directions
from aitest_tasks.fairness_scoring import score_fairness
from aitest_tasks.group_fairness_scoring import score_groups
from aitest_tasks.group_scoring import score_group
from aitest_tasks.pair_scoring import score_pairs
from aitest_tasks.preparing import SELF_FLIP_REPEATS
from aitest_tasks.querying import answer_book, needed, run_errors
from aitest_tasks.robustness_scoring import score_perturbation
from aitest_tasks.runs import Run, open_run
from aitest_tasks.tree_scoring import score_tree

SCORING_VERSION = 1
SCORERS = {"perturbation": score_perturbation, "group": score_group, "search": score_attack, "surrogate": score_tree}
OWN_SCORERS = {  # of properties that do more than their shape does
    SPEECH_FAIRNESS.name: score_fairness,
    GROUP_FAIRNESS.name: score_groups,
    INDIVIDUAL_FAIRNESS.name: score_pairs,
    DIRECTIONAL.name: score_directions,
}


def scoring_job(run: Run, index: int, cases: list[dict[str, Any]], unpaid: int, more: dict[str, Any]) -> dict[str, Any]:
    """Everything that a property's report depends on; the answers stand in it by their digest. `more`: what was asked beyond
    the cases of all components: `flips`, the artifacts that list what was `searched`, `attributed` and `attacked`, and the
    `surrogate`."""
    config = run.suite.suite.properties[index]
    books = [answer_book(run, repeat) for repeat in range(1 if run.prepared["deterministic"] else 1 + SELF_FLIP_REPEATS)]
    refs = [*run.seeds, *(ArtifactRef.of(ref) for ref in cases)]
    if more.get("flips"):
        refs.append(ArtifactRef.of(more["flips"]["ref"]))
    if more.get("tied"):
        refs.append(ArtifactRef.of(more["tied"]))
    for listed in (more.get("searched"), more.get("attributed")):
        refs += [ArtifactRef.of(one["ref"]) for one in run.store.get_json(ArtifactRef.of(listed))] if listed else []
    if more.get("attacked"):
        parts = run.store.get_json(ArtifactRef.of(more["attacked"]))["parts"]
        refs += [ArtifactRef.of(ref) for method in parts for ref in method]
    return {
        "aitest": __version__,  # a release may word a sentence differently; scoring again costs no query
        "scoring": SCORING_VERSION,
        "scorer": InvarianceScorer().fingerprint(),
        "property": config.model_dump(mode="json"),
        "suite": run.suite.suite.model_dump(
            mode="json", by_alias=True, include={"confidence", "max_error_rate", "sequential", "decide"}
        ),
        "components": [item.fingerprint() for item in components(run, index)],
        "searches": [item.fingerprint() for item in searches(run, index)],
        "attacks": [item.fingerprint() for item in attacks(run, index)],
        "cases": cases,
        "seeds": [ref.to_dict() for ref in run.seeds],
        "profile": run.prepared["profile"],
        "labels": run.prepared["labels"],
        "protected": {
            name: None if one is None else one.model_dump(mode="json")
            for name, one in sorted(run.suite.suite.data.protected.items())
        },
        "favorable": run.suite.suite.data.favorable,
        "type": run.info.type,
        "classes": list(run.info.classes) if run.info.classes is not None else None,
        "answers": [book_digest(book, book.find(needed(run, ref)[0])) for book in books for ref in refs],
        "errors": digest(run_errors(run)),
        "unpaid": unpaid,
        **{name: value for name, value in more.items() if value is not None},
        "self_flip_rate": run.prepared["self_flip_rate"],
        "baseline_errors": baseline_errors(run, config),
    }


@task(name="score_property", cache_key_fn=job_key, **CACHED)
def score_property(job: dict[str, Any], run_uri: str, property_index: int) -> dict[str, Any]:
    """Scores one property; returns references to its report, its cases and the failing cases to show."""
    live.check_stopped()
    run = open_run(run_uri)
    config = run.suite.suite.properties[property_index]
    score = OWN_SCORERS.get(config.property) or SCORERS[spec(config.property).shape]
    try:
        return score(run, property_index, config, job)
    except InputError as error:  # the answers are paid for and kept: no reason to end the run
        raise Unscored(str(error)) from error

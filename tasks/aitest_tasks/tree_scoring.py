"""Tree simulatability: the chosen tree against the model, on held-out rows that neither grew nor pruned it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.answers import AnswerBook
from aitest_lib.artifacts.codecs import TableWriter, get_table
from aitest_lib.canonical import digest
from aitest_lib.config.suite import PropertyConfig
from aitest_lib.data.table import to_frame
from aitest_lib.reports.explain_tree import explain_tree_case
from aitest_lib.reports.report import FrontPoint, TreeReport
from aitest_lib.reports.slices import rank_slices
from aitest_lib.reports.tables import count
from aitest_lib.scorers.figures import Figure
from aitest_lib.scorers.invariance import ERROR, FAILED, PASSED, SKIPPED
from aitest_lib.scorers.simulatability import stability, tree_figures
from aitest_lib.stats.clusters import rate_of_rows
from aitest_lib.surrogates.growing import TreeSurrogate
from aitest_lib.surrogates.tree import Tree
from aitest_lib.types import ArtifactRef
from aitest_tasks import live
from aitest_tasks.baseline import Baseline, Errors, own_scores, read_baseline
from aitest_tasks.cases import METADATA, CaseBlock, CaseLog, cases_schema, text_of, texts
from aitest_tasks.growing_more import limits_of, wanted_fidelity
from aitest_tasks.growing_rows import held_out, tree_columns
from aitest_tasks.inputs import input_digests
from aitest_tasks.property_report import finish, setting, slice_figures
from aitest_tasks.querying import answer_book, run_errors
from aitest_tasks.runs import Run
from aitest_tasks.seed_tables import RANK, SEED_ID
from aitest_tasks.shown import FailureSample, Rows
from aitest_tasks.shown_trees import shown_tree

BUDGET = "budget"


def score_tree(run: Run, index: int, config: PropertyConfig, job: dict[str, Any]) -> dict[str, Any]:
    """Writes one case for each held-out row: passed where tree and model agree."""
    errors = Errors(run_errors(run), job["unpaid"] > 0)
    book = answer_book(run)
    base = read_baseline(run, book, errors, config)
    fitted = run.store.get_json(ArtifactRef.of(job["surrogate"]["fitted"]))
    tree, held = Tree.of(fitted["tree"]), held_out(run)
    front, drawn = [Tree.of(data) for data in fitted["front"]], [Tree.of(data) for data in fitted["bootstrap"]]
    reached = _reached(run, [tree, *front, *drawn], held)
    leaf, by_tree = reached[0], answers_in(tree, base)[reached[0]]
    agree = base.oracle.same(base.answers[:held], by_tree)
    known = base.answered.known[:held]
    outcome = np.where(agree, PASSED, FAILED).astype(np.int8)
    reason = np.full(held, None, dtype=object)
    outcome[~known] = ERROR
    reason[~known] = base.answered.error[:held][~known]
    outcome[base.answered.unpaid[:held]] = SKIPPED
    reason[base.answered.unpaid[:held]] = BUDGET
    sample = FailureSample(1)
    with TableWriter(run.store, cases_schema(base.columns), METADATA) as writer:
        log = CaseLog(writer, config.property, base.columns)
        for number, ref in enumerate(run.seeds):
            found = _block(run, config, book, base, tree, leaf, by_tree, ref, outcome, reason)
            if found is not None:
                sample.add(0, *found)
                log.add(found[0])
            live.progress(config.property, "score", number + 1, len(run.seeds))
    counted = np.zeros(len(base.places), bool)
    counted[:held] = known
    failing = np.zeros(len(base.places), bool)
    failing[:held] = outcome == FAILED
    descent = None if base.descent is None else base.descent[:held][known]
    sequential = setting(run.suite.suite, config, "sequential")
    confidence = float(setting(run.suite.suite, config, "confidence"))
    figures = tree_figures(
        tree,
        tree.depth[leaf[known]],
        by_tree[known],
        base.answers[:held][known],
        agree[known],
        base.classes.names if base.oracle.classifier else (),
        int((outcome == ERROR).sum()),
        run.suite.suite.random_seed,
        bool(sequential),
        descent,
    )
    others = [answers_in(one, base)[nodes[known]] for one, nodes in zip(drawn, reached[1 + len(front) :], strict=True)]
    figures.append(stability(others, 0.0 if base.oracle.classifier else base.oracle.tolerance))
    figures += slice_figures(run, config, base, counted, None, ("fidelity", ~failing))
    ranked = rank_slices(base.columns, counted, failing, confidence)
    seen = [nodes[known] for nodes in reached[1:]]
    points = _front(front, seen, tree, base, base.answers[:held][known], descent, confidence)
    found_tree = TreeReport(
        root=shown_tree(run, tree, leaf, agree, known, base, held),
        columns=tree_columns(run),
        classes=base.classes.names if base.oracle.classifier else [],
        front=points,
        generation=fitted["generation"],
        grown_on=fitted["grown_on"],
        generated=fitted["generated"],
        pruned_on=fitted["pruned_on"],
        held_out=int(known.sum()),
        repeated=_repeated(run, ArtifactRef.of(fitted["digests"]), held),
        satisfied=fitted["satisfied"],
        missed=_missed(config, fitted, figures, points, confidence),
        unasked=job["unpaid"],
        seconds=fitted["seconds"],
    )
    return finish(run, config, figures, base, log, writer, sample, ranked, tree=found_tree) | {
        "tree": run.store.put_json(tree.to_dict()).to_dict()
    }


def answers_in(tree: Tree, base: Baseline) -> NDArray[np.float64]:
    """What each node of a tree answers, as the baseline counts it: a code of its classes (-1 where it has none), a number."""
    if not base.oracle.classifier:
        return tree.values
    code = {name: float(place) for place, name in enumerate(base.classes.names)}
    return np.array([code.get(tree.classes[int(value)], -1.0) for value in tree.values])


def _reached(run: Run, trees: list[Tree], held: int) -> list[NDArray[np.int64]]:
    """The leaf of each tree that each of the first `held` seeds reaches (held,)."""
    nullable = [column.name for column in run.profile.columns if column.missing]
    parts: list[list[NDArray[np.int64]]] = [[] for _ in trees]
    for ref in run.seeds:
        table = get_table(run.store, ref, [RANK, *tree_columns(run)])
        frame = to_frame(table.filter(pa.array(table.column(RANK).to_numpy() < held)), nullable)
        for part, tree in zip(parts, trees, strict=True):
            part.append(tree.route(frame))
    return [np.concatenate(part) for part in parts]


def _front(
    trees: list[Tree],
    reached: list[NDArray[np.int64]],
    chosen: Tree,
    base: Baseline,
    by_model: NDArray[np.float64],
    descent: NDArray[np.int64] | None,
    confidence: float,
) -> list[FrontPoint]:
    """The trees of the front, measured on the held-out rows; `reached`: the leaf of each that each row reaches."""
    points = []
    for tree, leaf in zip(trees, reached, strict=False):
        agree = base.oracle.same(by_model, answers_in(tree, base)[leaf])
        estimate = rate_of_rows(agree, descent)
        low, high = estimate.bounds(confidence) or (0.0, 1.0)
        points.append(
            FrontPoint(
                fidelity=estimate.value or 0.0,
                low=low,
                high=high,
                apl=tree.apl,
                epl=float(tree.depth[leaf].mean()) if len(leaf) else 0.0,
                mpl=tree.mpl,
                leaves=len(tree.leaves),
                chosen=tree.to_dict() == chosen.to_dict(),
            )
        )
    return sorted(points, key=lambda point: (point.mpl, point.leaves, point.epl))


def _missed(
    config: PropertyConfig, fitted: dict[str, Any], figures: list[Figure], front: list[FrontPoint], confidence: float
) -> str | None:
    """Which tree comes nearest to the gates, and what it would take to keep them; None where the held-out rows say that this
    one does."""
    wanted = wanted_fidelity(config)
    found = {figure.name: figure for figure in figures if not figure.slice}
    bounds = found["fidelity"].estimate.bounds(confidence)
    if wanted is None or bounds is None or bounds[0] >= wanted:
        return None
    most = {name: one for name, one in asdict(limits_of(config)).items() if one is not None}
    limits = " and ".join(f"{name} <= {one:g}" for name, one in most.items()) or "the limits"
    keeping = [point for point in front if point.low >= wanted and all(getattr(point, name) <= most[name] for name in most)]
    if keeping:
        least = min(keeping, key=lambda point: point.leaves)
        return (
            f"the rows that it was chosen by said that this tree would do, the held-out rows do not; {len(keeping)} trees of "
            f"the front do there, the smallest with {count(least.leaves, 'leaf', 'leaves')}, mpl {least.mpl} and a fidelity of "
            f"{least.fidelity:.3f} [{least.low:.3f}, {least.high:.3f}]: more rows to choose by would find it"
        )
    value, leaves, mpl = (found[name].estimate.value or 0 for name in ("fidelity", "leaves", "mpl"))
    best = (
        f"this one has {value:.3f} [{bounds[0]:.3f}, {bounds[1]:.3f}], {count(int(leaves), 'leaf', 'leaves')} and mpl {mpl:g}"
    )
    need = fitted["needed"]
    if need:
        sizes = f"{count(need['leaves'], 'leaf', 'leaves')}, apl {need['apl']:.1f}, epl {need['epl']:.1f}"
        more = f"{wanted:g} needs about mpl {need['mpl']} ({sizes})"
    else:
        more = f"no tree of up to {TreeSurrogate().max_leaves} leaves is sure to reach it"
    return f"none within {limits} is sure to reach a fidelity of {wanted:g}; {best}; {more}"


def _repeated(run: Run, ref: ArtifactRef, held: int) -> int:
    """Held-out rows that equal a row on which the tree was grown or pruned: they would agree too easily."""
    seen = np.frombuffer(run.store.get(ref), "V16")
    count = 0
    for shard in run.seeds:
        table = get_table(run.store, shard)
        judged = table.column(RANK).to_numpy() < held
        count += int(np.isin(input_digests(run, table)[judged], seen).sum())
    return count


def _block(
    run: Run,
    config: PropertyConfig,
    book: AnswerBook,
    base: Baseline,
    tree: Tree,
    leaf: NDArray[np.int64],
    by_tree: NDArray[np.float64],
    ref: ArtifactRef,
    outcome: NDArray[np.int8],
    reason: NDArray[np.object_],
) -> tuple[CaseBlock, Rows] | None:
    whole = get_table(run.store, ref)
    rows = np.flatnonzero(whole.column(RANK).to_numpy() < len(leaf))
    if not len(rows):
        return None
    seeds = whole.take(pa.array(rows))
    ranks = seeds.column(RANK).to_numpy().astype(np.int64)
    seed_ids = seeds.column(SEED_ID).to_pylist()
    places = base.places[ranks]
    observed = texts(book.labels(places))
    answers = [_text(tree, base, node) for node in range(len(tree.yes))]
    expected = [answers[node] for node in leaf[ranks]]
    score = own_scores(book, places, base.answers[ranks])
    explanation: list[str | None] = [None] * len(ranks)
    for row in np.flatnonzero(outcome[ranks] == FAILED):
        path = [test.words(holds) for test, holds in tree.path(int(leaf[ranks[row]]))]
        own = None if np.isnan(score[row]) else float(score[row])
        explanation[row] = explain_tree_case(path, expected[row], str(observed[row]), own)
    block = CaseBlock(
        case_id=[digest([seed_id, config.property]) for seed_id in seed_ids],
        seed_id=seed_ids,
        transform=None,
        strength=[None] * len(ranks),
        params=["{}"] * len(ranks),
        expected=list(expected),
        observed=observed,
        score=score,
        outcome=outcome[ranks],
        reason=reason[ranks],
        explanation=explanation,
        distance=np.zeros(len(ranks)),
        input_uri=[f"{run.store.url_of(ref.uri)}#{row}" for row in rows.tolist()],
        asked=np.ones(len(ranks), bool),
        ranks=ranks,
    )
    return block, Rows(seeds, [])


def _text(tree: Tree, base: Baseline, node: int) -> str:
    answer = tree.answer(node)
    return answer if isinstance(answer, str) else text_of(answer)

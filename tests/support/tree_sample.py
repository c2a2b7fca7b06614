"""Real trees of a census model for the tests of what people look at: grown with scikit-learn, told as a report tells them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import report_sample as sample
from numpy.typing import NDArray

from aitest_lib.demo.files import DATA
from aitest_lib.reports.explain import explain_property
from aitest_lib.reports.explain_tree import explain_tree_case
from aitest_lib.reports.report import (
    CaseCounts,
    FailingCase,
    FrontPoint,
    GateResult,
    Metric,
    PropertyQueries,
    PropertyReport,
    RunReport,
    SliceFinding,
    TreeNode,
    TreeReport,
)
from aitest_lib.surrogates.tree import Test, Tree

CLASSES = ("<=50K", ">50K")
NUMERIC = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
CATEGORIES = ("workclass", "education", "marital-status", "occupation", "relationship", "native-country")
COLUMNS = (*NUMERIC, *CATEGORIES)
GROWN_ON = 4500  # of 6,000 rows
GATES: dict[str, dict[str, float]] = {"mpl": {"max": 12}, "fidelity": {"min": 0.85}}


def property_report(leaves: int, **more: Any) -> PropertyReport:
    """What `tabular.tree_simulatability` found with a tree of about so many leaves."""
    tree = tree_report(leaves)
    [chosen] = [point for point in tree.front if point.chosen]
    n, root = tree.held_out, tree.root
    agree = {name: _class_agreement(leaves, name) for name in CLASSES}
    majority = max(root.counts.values()) / n
    metrics = [
        sample.rate("fidelity", {}, round(chosen.fidelity, 4), 0.0098, n),
        sample.rate("majority_fidelity", {}, round(majority, 4), 0.0102, n),
        sample.rate("kappa", {}, round((chosen.fidelity - majority) / (1 - majority), 4), 0.03, n),
        sample.rate("stability", {}, 0.9312, 0.009, n),
        *(
            _exact(name, round(value, 4), "decisions")
            for name, value in (("apl", chosen.apl), ("epl", chosen.epl), ("mpl", chosen.mpl))
        ),
        _exact("leaves", chosen.leaves, "leaves"),
        *(
            sample.rate("class_fidelity", {"class": name}, round(rate, 4), 0.012, total)
            for name, (rate, total) in agree.items()
        ),
    ]
    gates = []
    for name, edge in GATES.items():
        value = next(m.value for m in metrics if m.name == name and not m.slice) or 0.0
        kept = value <= edge.get("max", value) and value >= edge.get("min", value)
        reason = f"{value:.4g} {'keeps' if kept else 'does not keep'} the limit"
        gates.append(GateResult(metric=name, **edge, verdict="passed" if kept else "failed", reason=reason))
    prop = PropertyReport(
        property="tabular.tree_simulatability",
        status="failed" if any(gate.verdict == "failed" for gate in gates) else "passed",
        cases=CaseCounts(total=n, passed=root.agree, failed=n - root.agree),
        metrics=metrics,
        gates=gates,
        queries=PropertyQueries(planned=6000, sent=6000),
        seconds=3.1,
        slices=[finding("occupation", "Exec-managerial", 190, 31), finding("workclass", "Self-emp-inc", 61, 7)],
        tree=tree,
        artifacts={"tree": "s3://audits/income/tree.json", "rules": "s3://audits/income/rules.txt"},
    ).model_copy(update=more)
    return prop.model_copy(update={"explanation": explain_property(prop, 0.95)})


def run_report(*leaves: int, **more: Any) -> RunReport:
    """A run whose properties are trees of so many leaves."""
    fields: dict[str, Any] = {"properties": [property_report(n) for n in leaves], "warnings": []}
    return sample.report(**(fields | more))


def finding(name: str, value: str, rows: int, differing: int) -> SliceFinding:
    flagged = differing > 20
    return sample.finding(name, value, rows, differing, differing / rows, 0.08, 0.02, 0.14, 0.003 if flagged else 0.2, flagged)


@lru_cache
def tree_report(leaves: int) -> TreeReport:
    """A tree of about so many leaves, and the front of smaller ones."""
    tree, held = grown(leaves), held_out()
    sizes = [n for n in (1, 2, 3, 4, 5, 6, 8, 11, 16, 22, 32, 45, 64, 90, 128, 180, 256) if n < leaves]
    front = [_point(grown(n)) for n in sizes] + [_point(tree, chosen=True)]
    return TreeReport(
        root=_node(tree, 0, held, answers()[GROWN_ON:], np.arange(len(held))),
        columns=list(COLUMNS),
        classes=list(CLASSES),
        front=sorted({(p.leaves, p.mpl): p for p in front}.values(), key=lambda p: p.leaves),
        generation="swap",
        grown_on=GROWN_ON * 3 // 4,
        generated=10_000,
        pruned_on=GROWN_ON // 4,
        held_out=len(held),
        seconds=0.41,
    )


def cases(leaves: int, n: int) -> list[FailingCase]:
    """Held-out rows on which tree and model differ."""
    tree, held, model = grown(leaves), held_out(), answers()[GROWN_ON:]
    said, reached = tree.predict(held), tree.route(held)
    found = []
    for row in np.flatnonzero(said != model)[:n]:
        rule = [test.words(holds) for test, holds in tree.path(int(reached[row]))]
        mine, other = CLASSES[int(said[row])], CLASSES[int(model[row])]
        cells = {name: str(value) for name, value in held.iloc[row].items()}
        found.append(
            FailingCase(
                case_id=f"{row:032x}",
                seed_id=f"{row:032x}",
                transform=None,
                strength=None,
                expected=other,
                observed=mine,
                score=0.61,
                explanation=explain_tree_case(rule, mine, other, 0.61),
                seed=cells,
                case=cells,
                changed=[],
            )
        )
    return found


@lru_cache
def census() -> pd.DataFrame:
    return pd.read_parquet(DATA / "census_train.parquet")


def held_out() -> pd.DataFrame:
    return census()[list(COLUMNS)].iloc[GROWN_ON:]


@lru_cache
def answers() -> NDArray[np.float64]:
    """What the model, nearest neighbours on the encoded rows, answers to every row: codes into `CLASSES`."""
    from sklearn.neighbors import KNeighborsClassifier

    encoded, _ = _encoded()
    labels = (census()["income"] == CLASSES[1]).to_numpy(float)
    model = KNeighborsClassifier(3).fit(encoded[:3000] / (encoded.std(axis=0) + 1e-9), labels[:3000])
    return np.asarray(model.predict(encoded / (encoded.std(axis=0) + 1e-9)), np.float64)


@lru_cache
def grown(leaves: int) -> Tree:
    """The first tree, leaf by leaf, that has so many leaves after collapsing."""
    if leaves == 1:
        tree = _grown(2)
        return tree.pruned(np.ones(len(tree.yes), bool))
    sizes = (tree for limit in range(leaves, 3 * leaves) if len((tree := _grown(limit)).leaves) >= leaves)
    return next(sizes)


@lru_cache
def _grown(limit: int) -> Tree:
    from sklearn.tree import DecisionTreeClassifier

    encoded, tests = _encoded()
    fitted = DecisionTreeClassifier(max_leaf_nodes=limit, random_state=0).fit(encoded[:GROWN_ON], answers()[:GROWN_ON]).tree_
    yes, no = fitted.children_left.astype(np.int64), fitted.children_right.astype(np.int64)
    made: list[Test | None] = []
    for node, feature in enumerate(fitted.feature):
        if feature < 0:
            made.append(None)
            continue
        column, value = tests[feature]
        if value is None:
            made.append(Test(column=column, at_most=float(fitted.threshold[node])))
        else:
            made.append(Test(column=column, among=(value,)))
            yes[node], no[node] = no[node], yes[node]
    return _preorder(made, yes, no, fitted.value[:, 0, :], fitted.n_node_samples).collapsed()


def _preorder(
    tests: list[Test | None],
    yes: NDArray[np.int64],
    no: NDArray[np.int64],
    shares: NDArray[np.float64],
    rows: NDArray[np.int64],
) -> Tree:
    order: list[int] = []

    def walk(node: int) -> None:
        order.append(node)
        if yes[node] >= 0:
            walk(int(yes[node]))
            walk(int(no[node]))

    walk(0)
    place = {node: number for number, node in enumerate(order)} | {-1: -1}
    return Tree(
        tests=tuple(tests[node] for node in order),
        yes=np.array([place[int(yes[node])] for node in order]),
        no=np.array([place[int(no[node])] for node in order]),
        values=shares[order].argmax(axis=1).astype(float),
        weights=shares[order] * rows[order, None],
        classes=CLASSES,
    )


@lru_cache
def _encoded() -> tuple[NDArray[np.float64], list[tuple[str, str | None]]]:
    """The rows as numbers, and which column, and which value of it, each of the numbers is."""
    frame = census()
    parts, meaning = [frame[list(NUMERIC)].to_numpy(float)], [(name, None) for name in NUMERIC]
    for name in CATEGORIES:
        values = sorted(frame[name].unique())
        parts.append((frame[name].to_numpy()[:, None] == np.array(values)[None, :]).astype(float))
        meaning += [(name, value) for value in values]
    return np.hstack(parts), meaning


def _point(tree: Tree, chosen: bool = False) -> FrontPoint:
    held = held_out()
    rate, half = float((tree.predict(held) == answers()[GROWN_ON:]).mean()), 0.0095
    return FrontPoint(
        fidelity=rate,
        low=rate - half,
        high=rate + half,
        apl=tree.apl,
        epl=float(tree.path_lengths(held).mean()),
        mpl=tree.mpl,
        leaves=len(tree.leaves),
        chosen=chosen,
    )


def _node(tree: Tree, node: int, held: pd.DataFrame, model: NDArray[np.float64], rows: NDArray[np.int64]) -> TreeNode:
    test = tree.tests[node]
    counts = {name: int((model[rows] == code).sum()) for code, name in enumerate(CLASSES)}
    if test is None:
        agree = counts[CLASSES[int(tree.values[node])]]
        examples = [{name: str(value) for name, value in held.iloc[row].items()} for row in rows[:3]]
        return TreeNode(answer=CLASSES[int(tree.values[node])], rows=len(rows), agree=agree, counts=counts, examples=examples)
    holds = test.holds(held.iloc[rows])
    yes = _node(tree, int(tree.yes[node]), held, model, rows[holds])
    no = _node(tree, int(tree.no[node]), held, model, rows[~holds])
    return TreeNode(
        answer=CLASSES[int(tree.values[node])],
        rows=len(rows),
        agree=yes.agree + no.agree,
        counts=counts,
        test=test.words(True),
        negation=test.words(False),
        yes=yes,
        no=no,
    )


def _exact(name: str, value: float, unit: str) -> Metric:
    return Metric(name=name, value=value, low=value, high=value, n=1, unit=unit, higher_is_better=False)


def _class_agreement(leaves: int, name: str) -> tuple[float, int]:
    model = answers()[GROWN_ON:] == CLASSES.index(name)
    said = grown(leaves).predict(held_out()) == CLASSES.index(name)
    return float((said & model).sum() / model.sum()), int(model.sum())

"""Group fairness: how often each group gets the favourable answer, and how often rightly, beside the others."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.answers import AnswerBook
from aitest_lib.config.suite import PropertyConfig
from aitest_lib.data.groups import CROSS, Groups, crossed
from aitest_lib.errors import InputError
from aitest_lib.reports.records_fairness import Attribute, GroupReport, Segment
from aitest_lib.reports.segments import crossed_columns, rank_segments
from aitest_lib.reports.slices import rank_slices
from aitest_lib.scorers.figures import Figure
from aitest_lib.scorers.group_fairness import attribute_figures
from aitest_lib.scorers.group_means import mean_figures
from aitest_lib.stats.clusters import rate_of_rows
from aitest_lib.stats.estimates import Estimate, undefined
from aitest_tasks.baseline import Baseline, Errors, read_baseline
from aitest_tasks.cases import text_of
from aitest_tasks.favorable import favorable_answer
from aitest_tasks.group_scoring import log_seeds
from aitest_tasks.property_report import finish, setting
from aitest_tasks.protected import protected_groups
from aitest_tasks.proxies import proxies
from aitest_tasks.querying import answer_book, run_errors
from aitest_tasks.runs import Run

LABEL_FREE = {  # figures that need no labels
    "impact_ratio",
    "statistical_parity_difference",
    "statistical_parity_gap",
    "selection_rate",
    "scoring_rate",
    "scoring_rate_difference",
    "scoring_rate_gap",
    "scoring_ratio",
    "mean_answer",
    "mean_answer_gap",
}
NO_LABELS = "the data have no labels; name their column as data.label"
Named = dict[str, tuple[list[str], Groups]]  # by the attribute's name: its columns and groups


def score_groups(run: Run, index: int, config: PropertyConfig, job: dict[str, Any]) -> dict[str, Any]:
    errors = Errors(run_errors(run), job["unpaid"] > 0)
    book = answer_book(run)
    base = read_baseline(run, book, errors, config)
    # Who is treated worse no single row can show: it stands in the figures.
    _, log, writer, sample = log_seeds(run, config, book, base, by_label=False)
    attributes, left_out = attributes_of(run)
    if base.answered.known.any():
        report, figures = _Groups(run, config, book, base, attributes).scored()
    else:
        report, figures = GroupReport(selection="decision" if base.oracle.classifier else "number", rows=0), []
    report = report.model_copy(update={"proxies": proxies(run, list(run.suite.suite.data.protected)), "left_out": left_out})
    confidence = float(setting(run.suite.suite, config, "confidence"))
    protected = {name: groups for name, (columns, groups) in attributes.items() if len(columns) == 1}
    figures += _unlabelled(config) if base.labels is None else []
    columns = [*base.columns, *crossed_columns(protected, base.cuts)]
    ranked = rank_slices(columns, base.answered.known, ~base.right, confidence) if base.labels is not None else []
    return finish(run, config, figures, base, log, writer, sample, ranked, groups=report)


def _unlabelled(config: PropertyConfig) -> list[Figure]:
    """What gates ask for that only labels tell, of data without any."""
    return [
        Figure(name=metric, slice=gate.slice or {}, estimate=undefined(NO_LABELS))
        for metric, given in config.gates.items()
        if metric not in LABEL_FREE
        for gate in (given if isinstance(given, list) else [given])
    ]


def attributes_of(run: Run) -> tuple[Named, list[str]]:
    """The protected columns, and every two of them crossed, with their groups; and why some are left out."""
    single = {name: protected_groups(run, name) for name in run.suite.suite.data.protected}
    found: Named = {name: ([name], groups) for name, groups in single.items()}
    left_out = []
    for first, second in combinations(single, 2):
        name = first + CROSS + second
        try:
            found[name] = ([first, second], crossed(single[first], single[second], name))
        except InputError as error:
            left_out.append(f"{name} is left out: {error}")
    return found, left_out


def _between(least: Estimate, most: Estimate, confidence: float) -> tuple[float, float]:
    """The bounds of a share that lies between two."""
    return (least.bounds(confidence) or (0.0, 1.0))[0], (most.bounds(confidence) or (0.0, 1.0))[1]


class _Groups:
    """The rows of a run as groups are compared by them; those that the budget left out do not count."""

    def __init__(self, run: Run, config: PropertyConfig, book: AnswerBook, base: Baseline, attributes: Named) -> None:
        self._run, self._config, self._book, self._base, self._attributes = run, config, book, base, attributes
        self._used = ~base.answered.unpaid
        self._failed = ~base.answered.known[self._used]
        self._units = base.descent_of(self._used)
        self._confidence = float(setting(run.suite.suite, config, "confidence"))
        self._sequential = bool(setting(run.suite.suite, config, "sequential"))

    def scored(self) -> tuple[GroupReport, list[Figure]]:
        """The report of all attributes, and their figures."""
        return self._by_decision() if self._base.oracle.classifier else self._by_number()

    def _by_decision(self) -> tuple[GroupReport, list[Figure]]:
        base, labels = self._base, self._base.classes.labels
        given = self._run.suite.suite.data.favorable
        several = given is None and len(labels) > 2
        wanted = list(labels) if several else [favorable_answer(self._run, base)]
        attributes, scores, figures, segments = list[Attribute](), list[Attribute](), list[Figure](), list[Segment]()
        for favorable in wanted:
            code = int(base.classes.codes([favorable])[0])
            favoured = (base.answers == code)[self._used]
            deserving = None if base.labels is None else (base.labels == code)[self._used]
            of_class = {"favorable": text_of(favorable), "one_of_several": several}
            found, made = self._compared(favoured, deserving, of_class)
            attributes += found
            figures += made
            figures.append(self._overall("selection_rate", favoured, {"class": text_of(favorable)} if several else {}))
            if not several:
                segments = self._segments(favoured, found)
                scored = self._scores(code)
                if scored is not None:
                    scores, made = self._compared(scored, None, {"rate_name": "scoring_rate", "ratio_name": "scoring_ratio"})
                    figures += made
        report = GroupReport(
            selection="decision",
            assumed=given is None and not several,
            labelled=base.labels is not None,
            rows=int((~self._failed).sum()),
            attributes=attributes,
            scores=scores,
            segments=segments,
        )
        return report, figures

    def _by_number(self) -> tuple[GroupReport, list[Figure]]:
        base, used = self._base, self._used
        answers = base.answers[used]
        median = float(np.median(answers[~self._failed])) if (~self._failed).any() else 0.0
        with np.errstate(invalid="ignore"):
            favoured = answers > median
        found, figures = self._compared(favoured, None, {"rate_name": "scoring_rate"})
        labels = None if base.labels is None else base.labels[used]
        attributes = []
        for attribute, (columns, groups) in zip(found, self._attributes.values(), strict=True):
            of_groups = self._used_of(groups)
            own, made = mean_figures(attribute, of_groups, answers, labels, self._units, **self._options(columns))
            attributes.append(own)
            figures += made
        figures.append(self._overall("scoring_rate", favoured, {}))
        report = GroupReport(
            selection="number",
            threshold=median,
            labelled=labels is not None,
            rows=int((~self._failed).sum()),
            attributes=attributes,
            segments=self._segments(favoured, found),
        )
        return report, figures

    def _compared(
        self, favoured: NDArray[np.bool_], deserving: NDArray[np.bool_] | None, more: dict[str, Any]
    ) -> tuple[list[Attribute], list[Figure]]:
        attributes, figures = [], list[Figure]()
        for name, (columns, groups) in self._attributes.items():
            found, made = attribute_figures(
                name,
                columns,
                self._used_of(groups),
                favoured,
                deserving,
                self._units,
                **self._options(columns),
                **more,
            )
            attributes.append(found)
            figures += made
        return attributes, figures

    def _options(self, columns: list[str]) -> dict[str, Any]:
        """What the suite says of an attribute of these columns; two columns have a reference where each has one."""
        given = [self._run.suite.suite.data.protected.get(column) for column in columns]
        references = [[text_of(value) for value in one.reference] if one else [] for one in given]
        return {
            "confidence": self._confidence,
            "reference": [CROSS.join(parts) for parts in product(*references)] or None,
            "sequential": self._sequential,
            "errors": self._failed,
            "smallest_share": self._config.min_group_share,
        }

    def _used_of(self, groups: Groups) -> Groups:
        return replace(groups, codes=groups.codes[self._used])

    def _overall(self, name: str, favoured: NDArray[np.bool_], where: dict[str, Any]) -> Figure:
        """The share of selected rows in all groups together; in the worst case those without an answer are either."""
        told = ~self._failed
        units = None if self._units is None else self._units[told]
        worst = None
        if self._failed.any():
            least, most = (rate_of_rows((favoured & told) | (self._failed & good), self._units) for good in (False, True))
            worst = replace(least, interval=partial(_between, least, most))
        share = rate_of_rows(favoured[told], units)
        return Figure(name=name, slice=where, estimate=share, pessimistic=worst, higher_is_better=None)

    def _scores(self, code: int) -> NDArray[np.bool_] | None:
        """Which rows have a score of the class above the median of all; None where not every answer has one."""
        book, places = self._book, self._base.places[self._used]
        if book.scores is None or book.scores.shape[1] != len(self._base.classes.labels):
            return None
        scores = np.where(places >= 0, book.scores[places, code], np.nan)
        if np.isnan(scores[~self._failed]).any() or self._failed.all():
            return None
        with np.errstate(invalid="ignore"):
            return np.asarray(scores > np.median(scores[~self._failed]))

    def _segments(self, favoured: NDArray[np.bool_], attributes: list[Attribute]) -> list[Segment]:
        """Groups beside the reference in every segment of the other columns; none for synthesized rows, of which many descend
        from one."""
        if self._units is not None:
            return []
        told = np.flatnonzero(self._used)[~self._failed]
        columns = [replace(one, codes=one.codes[told]) for one in self._base.cuts]
        found = []
        for attribute in attributes:
            if len(attribute.columns) == 1 and attribute.reference is not None:
                groups = self._attributes[attribute.name][1]
                found.append((attribute, replace(groups, codes=groups.codes[told])))
        return rank_segments(found, favoured[~self._failed], columns, self._confidence)

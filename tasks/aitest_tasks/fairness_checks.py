"""Can a suite's fairness of tables be tested on these data: told before anything is asked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pyarrow as pa

from aitest_lib.config.loading import Location
from aitest_lib.config.suite import LoadedSuite
from aitest_lib.data.groups import CROSS, Groups, group_codes
from aitest_lib.data.schema import ColumnOverride, build_profile
from aitest_lib.data.table import TableSource
from aitest_lib.errors import InputError, unknown
from aitest_lib.properties.catalog import spec
from aitest_lib.properties.tabular import GAPS, GROUP_FAIRNESS, MEAN_GAPS
from aitest_lib.scorers.group_choice import choose_groups
from aitest_tasks.cases import text_of
from aitest_tasks.protected import protected_groups
from aitest_tasks.runs import Run


def check_fairness(loaded: LoadedSuite, source: TableSource, columns: Sequence[str], properties: Sequence[int]) -> None:
    """Raises `InputError`, with its place in the suite, for protected columns that cannot be compared, groups that no row is
    in, and directions of columns that cannot be moved. `columns`: those that the model is sent; `properties`: those to run."""
    chosen = [loaded.suite.properties[index] for index in properties]
    if any(spec(item.property).by_protected for item in chosen):
        known = {name: _check_protected(loaded, source, name) for name in loaded.suite.data.protected}
        for index in properties:
            _check_gates(loaded, index, known)
    for index in properties:
        for name in loaded.suite.properties[index].directions or {}:
            at: Location = ("properties", index, "directions", name)
            if name not in source.schema.names:
                raise loaded.document.error(at, f"{unknown('column', name, source.schema.names)} (of {source.url})")
            if name not in columns:
                raise loaded.document.error(at, f"the model is not sent {name}, so that it cannot move its answer; remove it")
            if _override(loaded, name).private:
                raise loaded.document.error(at, f"{name} is private, and what is moved stands in every report; remove it")


def _check_gates(loaded: LoadedSuite, index: int, known: dict[str, list[str]]) -> None:
    """Slices that no group has, and figures that single groups do not have; `known`: groups by protected column."""
    item = loaded.suite.properties[index]
    if item.property != GROUP_FAIRNESS.name:
        return
    attributes = [*known, *(first + CROSS + second for first, second in combinations(known, 2))]
    for metric, given in item.gates.items():
        at: Location = ("properties", index, "gates", metric)
        for gate in given if isinstance(given, list) else [given]:
            for key, value in (gate.slice or {}).items():
                if key in known and text_of(value) not in known[key]:
                    raise loaded.document.error(at, f"slice: {unknown(f'group of {key}', text_of(value), known[key])}")
                if key in known and metric in (*GAPS, *MEAN_GAPS, "scoring_rate_gap"):
                    problem = (
                        f"slice: {metric} stands for attributes: write slice: {{attribute: {key}}}, or gate the difference"
                    )
                    raise loaded.document.error(at, problem)
                if key == "attribute" and value not in attributes:
                    raise loaded.document.error(at, f"slice: {unknown('attribute', str(value), attributes)}")


def _check_protected(loaded: LoadedSuite, source: TableSource, name: str) -> list[str]:
    """Returns the names of the groups."""
    at: Location = ("data", "protected", name)
    if name == loaded.suite.data.label:
        raise loaded.document.error(at, f"{name} is the label, and nobody is protected by what is to be found out; name others")
    if _override(loaded, name).private:
        problem = "the column is private, and groups stand in every report; remove `private`, or the column from data.protected"
        raise loaded.document.error(at, problem)
    try:
        groups = _groups(loaded, source, name)
    except InputError as error:
        raise loaded.document.error(at, str(error)) from error
    if len(groups.names) < 2:
        problem = f"got the one group {groups.names[0]!r} in all {source.rows:,} rows, expected at least two to compare"
        raise loaded.document.error(at, problem)
    given = loaded.suite.data.protected[name]
    for value in given.reference if given is not None else []:
        if text_of(value) not in groups.names:
            problem = f"{unknown('group', text_of(value), groups.names)} (of {source.url})"
            raise loaded.document.error((*at, "privileged"), problem)
    return groups.names


def _groups(loaded: LoadedSuite, source: TableSource, name: str) -> Groups:
    """The groups of all rows of the data by one column."""
    only = source.batches([name])
    values = pa.chunked_array([chunk for batch in only for chunk in batch.column(name).chunks])
    skip = {other for other in source.schema.names if other != name}
    overrides = {other: one for other, one in loaded.suite.data.columns.items() if other == name}
    overrides = {other: one.model_copy(update={"tied": None, "one_hot": None}) for other, one in overrides.items()}
    given = loaded.suite.data.protected[name]
    profile = build_profile(source, None, overrides, [], skip)
    return group_codes(values, profile[name], given.cut_at if given else None)


def _override(loaded: LoadedSuite, name: str) -> ColumnOverride:
    return loaded.suite.data.columns.get(name) or ColumnOverride()


def check_seeds(run: Run) -> None:
    """Raises `InputError`, before anything is asked, where the seeds that were chosen lack a privileged group, or have too few
    of it: all rows of the data may have had enough."""
    data = run.suite.suite.data
    for item in (run.suite.suite.properties[index] for index in run.properties):
        for name, given in data.protected.items() if item.property == GROUP_FAIRNESS.name else ():
            reference = [text_of(value) for value in given.reference] if given else []
            try:
                choose_groups(name, protected_groups(run, name), reference or None, item.min_group_share)
            except InputError as error:
                few = f"; of the {run.prepared['seeds']:,} rows that were chosen" if data.sample != "all" else ""
                raise InputError(f"data.protected.{error}{few}") from error

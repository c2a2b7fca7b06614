"""Can a suite's fairness of tables be tested on these data: told before anything is asked."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from aitest_lib.config.loading import Location
from aitest_lib.config.suite import LoadedSuite
from aitest_lib.data.groups import Groups, group_codes
from aitest_lib.data.schema import ColumnOverride, build_profile
from aitest_lib.data.table import TableSource
from aitest_lib.errors import InputError, unknown
from aitest_lib.properties.catalog import spec
from aitest_tasks.cases import text_of


def check_fairness(loaded: LoadedSuite, source: TableSource, columns: Sequence[str], properties: Sequence[int]) -> None:
    """Raises `InputError`, with its place in the suite, for protected columns that cannot be compared, groups that no row is
    in, and directions of columns that cannot be moved. `columns`: those that the model is sent; `properties`: those to run."""
    chosen = [loaded.suite.properties[index] for index in properties]
    if any(spec(item.property).by_protected for item in chosen):
        for name in loaded.suite.data.protected:
            _check_protected(loaded, source, name)
    for index in properties:
        for name in loaded.suite.properties[index].directions or {}:
            at: Location = ("properties", index, "directions", name)
            if name not in source.schema.names:
                raise loaded.document.error(at, f"{unknown('column', name, source.schema.names)} (of {source.url})")
            if name not in columns:
                raise loaded.document.error(at, f"the model is not sent {name}, so that it cannot move its answer; remove it")
            if _override(loaded, name).private:
                raise loaded.document.error(at, f"{name} is private, and what is moved stands in every report; remove it")


def _check_protected(loaded: LoadedSuite, source: TableSource, name: str) -> None:
    at: Location = ("data", "protected", name)
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

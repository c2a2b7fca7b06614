"""The cases of two runs joined on `case_id`: the same case has the same id in every run, whatever the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aitest_lib.errors import StoreError
from aitest_lib.reports.comparison import CaseChanges, ChangedCase, ComponentChange
from aitest_lib.reports.report import FailingCase
from aitest_lib.reports.slices import SliceColumn

MISCLASSIFIED_SEED = "misclassified_seed"
SLICE = "slice."
# What a comparison reads of `cases.parquet`, the slices of the candidate's run apart.
COLUMNS = (
    *("case_id", "seed_id", "transform", "strength", "params"),
    *("expected", "observed", "outcome", "reason", "explanation"),
)
SEARCHED = '{"breaking_point"'  # how the parameters of a case begin whose strength was found on it
PASSED, FAILED, MISCLASSIFIED, OPEN = range(4)
SHOWN = 200


@dataclass(frozen=True)
class SharedCases:
    """The cases that are in both runs, in the candidate's order; arrays are (n,).

    `was`, `now`: PASSED, FAILED, MISCLASSIFIED or OPEN in base and candidate. `seed`: position of the case's seed among the
    `seeds` shared ones. `new`, `gone`: cases of the candidate's and of the base's run alone.
    """

    base: pa.Table
    candidate: pa.Table
    was: NDArray[np.int8]
    now: NDArray[np.int8]
    seed: NDArray[np.int64]
    seeds: int
    new: int
    gone: int

    @property
    def compared(self) -> NDArray[np.bool_]:
        """Passed or failing in both."""
        return np.asarray((self.was != OPEN) & (self.now != OPEN))

    @property
    def newly_failing(self) -> NDArray[np.bool_]:
        """Passed in the base, failing in the candidate."""
        return np.asarray((self.was == PASSED) & (self.now != PASSED) & (self.now != OPEN))

    @property
    def fixed(self) -> NDArray[np.bool_]:
        """Failing in the base, passed in the candidate."""
        return np.asarray((self.now == PASSED) & (self.was != PASSED) & (self.was != OPEN))

    def per_seed(self, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How many cases of each seed the mask takes, (seeds,)."""
        return np.bincount(self.seed[mask], minlength=self.seeds).astype(np.int64)


def join_cases(base: pa.Table, candidate: pa.Table, tolerance: float | None = None) -> SharedCases:
    """The shared cases of two tables with `COLUMNS`.

    `tolerance`: the error up to which a number counts as right, in both runs (each run's own, taken from its model's errors,
    would be another yardstick); None where outcomes stand as they are.
    """
    base, candidate = _distinct(base), _distinct(candidate)
    places = pc.index_in(candidate["case_id"], value_set=base["case_id"].combine_chunks())
    here = pc.is_valid(places)
    shared, there = candidate.filter(here), base.take(places.drop_null())
    seeds = _array(shared["seed_id"]).dictionary_encode()
    return SharedCases(
        base=there,
        candidate=shared,
        was=_states(there, tolerance),
        now=_states(shared, tolerance),
        seed=seeds.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        seeds=len(seeds.dictionary),
        new=candidate.num_rows - shared.num_rows,
        gone=base.num_rows - shared.num_rows,
    )


def shared_seeds(base: pa.Table, candidate: pa.Table) -> tuple[int, int, int]:
    """Seeds of the base, of the candidate, and of both."""
    first, second = pc.unique(base["seed_id"]), pc.unique(candidate["seed_id"])
    both = pc.sum(pc.is_in(second, value_set=first)).as_py() or 0
    return len(first), len(second), int(both)


def numbers(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Answers of a regressor, written as text, as float64; NaN where there is none."""
    try:
        return np.asarray(pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False), np.float64)
    except pa.ArrowInvalid as error:
        raise StoreError(f"the cases of a regressor hold an answer that is no number ({error}); run the suite again") from error


def case_changes(shared: SharedCases) -> CaseChanges:
    """What became of the cases."""
    compared, bad = shared.compared, shared.compared & (shared.was != PASSED) & (shared.now != PASSED)
    open_ = ~compared
    unanswered = open_ & (shared.was != OPEN) & _equals(shared.candidate["outcome"], "error")
    return CaseChanges(
        newly_failing=int(shared.newly_failing.sum()),
        newly_misclassified=int((shared.newly_failing & (shared.now == MISCLASSIFIED)).sum()),
        fixed=int(shared.fixed.sum()),
        still_failing=int(bad.sum()),
        still_misclassified=int((bad & (shared.was == MISCLASSIFIED) & (shared.now == MISCLASSIFIED)).sum()),
        still_passing=int((compared & (shared.was == PASSED) & (shared.now == PASSED)).sum()),
        new=shared.new,
        gone=shared.gone,
        not_comparable=int(open_.sum()),
        newly_unanswered=int(unanswered.sum()),
        reasons=_reasons(shared, open_),
    )


def component_changes(shared: SharedCases) -> list[ComponentChange]:
    """The same by transform and strength, in the order of the cases."""
    codes, keys = _components(shared.candidate)
    compared, result = shared.compared, []
    counted = {
        "compared": compared,
        "newly_failing": shared.newly_failing,
        "fixed": shared.fixed,
        "still_failing": compared & (shared.was != PASSED) & (shared.now != PASSED),
    }
    counts = {name: np.bincount(codes[mask], minlength=len(keys)).tolist() for name, mask in counted.items()}
    for place, (transform, strength) in enumerate(keys):
        own = {name: values[place] for name, values in counts.items()}
        change = (own["newly_failing"] - own["fixed"]) / own["compared"] if own["compared"] else None
        result.append(ComponentChange(transform=transform, strength=strength, change=change, **own))
    return result


def slice_columns(shared: SharedCases) -> list[SliceColumn]:
    """The slices of the shared seeds, as the candidate's run cuts them."""
    first = np.zeros(shared.seeds, np.int64)
    first[shared.seed[::-1]] = np.arange(len(shared.seed))[::-1]
    columns = []
    for name in shared.candidate.column_names:
        if name.startswith(SLICE):
            encoded = _array(shared.candidate[name].take(pa.array(first)).fill_null("missing")).dictionary_encode()
            codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int32)
            columns.append(SliceColumn(name.removeprefix(SLICE), encoded.dictionary.to_pylist(), codes))
    return columns


def changed_cases(shared: SharedCases, shown: Mapping[str, FailingCase]) -> list[ChangedCase]:
    """The newly failing cases to show, 200 in all: the first ones of every component, those that failed before those whose
    seed is answered wrongly.

    `shown`: what the candidate's run keeps of its failing cases, by case id.
    """
    rows = np.flatnonzero(shared.newly_failing)
    codes, wrong_seed = _components(shared.candidate)[0][rows], shared.now[rows] == MISCLASSIFIED
    order = np.lexsort((wrong_seed, codes))
    turn = np.empty(len(rows), np.int64)
    turn[order] = np.arange(len(rows)) - np.searchsorted(codes[order], codes[order])
    taken = np.lexsort((turn, wrong_seed))[:SHOWN]
    chosen = rows[taken[np.lexsort((taken, wrong_seed[taken]))]]
    before, after = (table.take(pa.array(chosen)).to_pylist() for table in (shared.base, shared.candidate))
    return [
        _changed_case(old, new, state == MISCLASSIFIED, shown.get(new["case_id"]))
        for old, new, state in zip(before, after, shared.now[chosen].tolist(), strict=True)
    ]


def _changed_case(old: dict[str, Any], new: dict[str, Any], misclassified: bool, shown: FailingCase | None) -> ChangedCase:
    where = f"answered {new['expected']} on the untouched seed, which is wrong; before {old['expected']}, which was right"
    return ChangedCase(
        case_id=new["case_id"],
        seed_id=new["seed_id"],
        transform=new["transform"],
        strength=new["strength"],
        now="misclassified_seed" if misclassified else "failed",
        base_expected=old["expected"],
        base_observed=old["observed"],
        candidate_expected=new["expected"],
        candidate_observed=new["observed"],
        explanation=where if misclassified else new["explanation"] or f"answered {new['observed']}, before {old['observed']}",
        shown=shown,
    )


def _states(table: pa.Table, tolerance: float | None) -> NDArray[np.int8]:
    state = np.full(table.num_rows, OPEN, np.int8)
    state[_equals(table["outcome"], "passed")] = PASSED
    state[_equals(table["outcome"], "failed")] = FAILED
    state[_equals(table["reason"], MISCLASSIFIED_SEED)] = MISCLASSIFIED
    if tolerance is not None:
        error = np.abs(numbers(table["observed"]) - numbers(table["expected"]))
        state = np.where(state == OPEN, OPEN, np.where(error <= tolerance, PASSED, FAILED)).astype(np.int8)
    return state


def _reasons(shared: SharedCases, open_: NDArray[np.bool_]) -> dict[str, int]:
    """Why cases are not comparable, most frequent first: the candidate's reason, else the base's."""
    found: dict[str, int] = {}
    for run, table, mask in (
        ("candidate", shared.candidate, open_ & (shared.now == OPEN)),
        ("base", shared.base, open_ & (shared.now != OPEN)),
    ):
        rows = table.select(["outcome", "reason"]).filter(pa.array(mask))
        names = pc.if_else(pc.equal(rows["outcome"], "skipped"), rows["reason"], "no usable answer")
        for item in pc.value_counts(names).to_pylist():
            found[f"{run}: {item['values'] or 'skipped'}"] = item["counts"]
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _components(table: pa.Table) -> tuple[NDArray[np.int64], list[tuple[str | None, float | None]]]:
    """Code of each case's transform and strength, and these, in the order of their first cases. A breaking point is one
    component, wherever it lies."""
    transforms, strengths = table["transform"].fill_null(""), pc.cast(table["strength"], pa.string()).fill_null("")
    searched = pc.starts_with(table["params"].fill_null(""), SEARCHED)
    transforms = pc.if_else(searched, pc.binary_join_element_wise(transforms, "breaking point", " "), transforms)
    names = pc.binary_join_element_wise(transforms, pc.if_else(searched, "", strengths), "\n")
    encoded = _array(names).dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    keys = []
    for text in encoded.dictionary.to_pylist():
        transform, _, strength = text.rpartition("\n")
        keys.append((transform or None, float(strength) if strength else None))
    return codes, keys


def _distinct(table: pa.Table) -> pa.Table:
    """One row a case id: equal rows of the data at strengths that change nothing may share one."""
    codes = _array(table["case_id"]).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    first = np.unique(codes, return_index=True)[1]
    return table if len(first) == table.num_rows else table.take(pa.array(np.sort(first)))


def _equals(column: pa.ChunkedArray, value: str) -> NDArray[np.bool_]:
    return np.asarray(pc.equal(column, value).fill_null(False).to_numpy(zero_copy_only=False), bool)


def _array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

"""What every shard of seeds holds, whatever their modality."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from aitest_lib.data.table import TableSource
from aitest_lib.errors import InputError

# Names of the columns that aitest adds to a shard of seeds; a data column may not start like them.
SEED_ID, RANK, DIGEST, LABEL = "@seed_id", "@rank", "@digest", "@label"
SPEAKER = "speaker"  # the column of the data that says who speaks in a clip
SPEAKER_CODE, SECONDS = "@speaker", "@seconds"  # of clips
ORIGIN = b"aitest.origin"  # in a table's metadata: where its rows come from, if not from the seeds' own (see `Origin`)
MOST_CLASSES = 1_000


def seen_labels(source: TableSource, label: str | None, classifier: bool) -> list[Any]:
    """The distinct labels of a classifier's data; missing, too many or a single one are errors."""
    if label is None:
        return []
    kind = source.schema.field(label).type
    seen: set[Any] = set()
    missing = 0
    for batch in source.batches([label]):
        column = batch.column(label)
        missing += column.null_count
        if classifier:
            seen.update(column.drop_null().unique().to_pylist())
            if len(seen) > MOST_CLASSES:
                raise InputError(
                    f"data.label {label!r}: got more than {MOST_CLASSES} distinct labels, expected classes; "
                    "is it the right column?"
                )
    if missing:
        raise InputError(f"data.label {label!r}: {missing} of {source.rows} rows have no label; drop them or fill them in")
    if classifier and len(seen) == 1:
        raise InputError(
            f"data.label {label!r}: got the one class {seen.pop()!r} in all rows, expected at least two; "
            "is it the right column?"
        )
    if not classifier and not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise InputError(f"data.label {label!r}: got {kind} labels, expected numbers for a regressor")
    return sorted(seen, key=lambda value: (str(type(value)), value))

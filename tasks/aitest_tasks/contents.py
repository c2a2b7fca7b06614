"""What the rows of a table of seeds or cases are, where they are no rows of a table: images or clips, in an artifact of their
own that the table names."""

from __future__ import annotations

import json

import pyarrow as pa

from aitest_lib.canonical import canonical_json
from aitest_lib.types import ArtifactRef

CONTENT = b"aitest.content"  # in a table's metadata


def with_content(table: pa.Table, content: ArtifactRef) -> pa.Table:
    """The table with the reference of its images or clips in its metadata."""
    return table.replace_schema_metadata({CONTENT: canonical_json(content.to_dict())})


def content_of(table: pa.Table) -> ArtifactRef:
    """The artifact that holds the images or clips of a table's rows, in their order."""
    return ArtifactRef.of(json.loads(table.schema.metadata[CONTENT]))

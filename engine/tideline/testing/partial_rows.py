"""Rows of tables with partial updates, and the payload classes by which Hudi makes such tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

MODEL = "org.apache.hudi.common.model."
BY_EVENT_TIME = "PartialUpdateAvroPayload"
BY_COMMIT_TIME = "OverwriteNonDefaultsWithLatestAvroPayload"
FROM_DEBEZIUM = "debezium.PostgresDebeziumAvroPayload"
MARK = "__debezium_unavailable_value"
"""The marker of a value that was not available, as Debezium writes it."""

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("ts", pa.int64()),
        ("n", pa.int64()),
        ("text", pa.string()),
        ("list", pa.list_(pa.int64())),
    ]
)


def rows(*values: tuple[Any, ...], part: str = "p") -> pa.Table:
    """Rows of id, ts, n, text, list; of id, part, ts, n, text, list where these are given."""
    full = [
        value if len(value) == len(SCHEMA) else (value[0], part, *value[1:]) for value in values
    ]
    kinds = zip(zip(*full, strict=True), SCHEMA.types, strict=True)
    return pa.table([pa.array(column, kind) for column, kind in kinds], schema=SCHEMA)

"""Schemas of a table: the user's columns as Arrow, their Avro form, the meta columns, evolution.

One door to `avro_schema`, `column_type`, `meta_column` and `schema_evolution`.
"""

from __future__ import annotations

from tideline.hudi.table.avro_schema import arrow_to_avro, avro_to_arrow, record_name
from tideline.hudi.table.column_type import stored_schema
from tideline.hudi.table.meta_column import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    META_COLUMNS,
    PARTITION_PATH,
    RECORD_KEY,
    is_meta_column,
    with_meta_fields,
    without_meta_fields,
)
from tideline.hudi.table.schema_evolution import EvolvedSchema, evolve

__all__ = [
    "COMMIT_SEQNO",
    "COMMIT_TIME",
    "FILE_NAME",
    "META_COLUMNS",
    "PARTITION_PATH",
    "RECORD_KEY",
    "EvolvedSchema",
    "arrow_to_avro",
    "avro_to_arrow",
    "evolve",
    "is_meta_column",
    "record_name",
    "stored_schema",
    "with_meta_fields",
    "without_meta_fields",
]

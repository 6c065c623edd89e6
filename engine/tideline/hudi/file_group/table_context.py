"""The handle context of a table: what writers and services share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tideline.hudi.file_group.file_settings import FileSettings
from tideline.hudi.file_group.handle_context import HandleContext
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.properties import KeyGeneratorKind, MergeMode
from tideline.hudi.table.schema_history import SchemaHistory
from tideline.hudi.timeline.instant_time import InstantTime

if TYPE_CHECKING:
    import pyarrow as pa


def table_context(
    table: HoodieTable,
    instant: InstantTime,
    schema: pa.Schema,
    files: FileSettings,
    history: SchemaHistory | None,
) -> HandleContext:
    """The context of files written at `instant` with these user columns.

    `history` is the table's, if it has one, read as these columns.
    """
    properties = table.config
    # A clustering of rows that are merged in a custom way merges none.
    merge_mode = properties.known_merge_mode or MergeMode.COMMIT_TIME_ORDERING
    return HandleContext(
        table=table.location.uri,
        instant=instant,
        schema=schema,
        merge_mode=merge_mode,
        ordering_fields=properties.ordering_fields,
        parquet=files.parquet,
        bloom=files.bloom,
        populate_meta_fields=properties.populate_meta_fields,
        record_size_estimate_bytes=files.record_size_estimate_bytes,
        virtual_key_fields=() if properties.populate_meta_fields else properties.record_key_fields,
        virtual_keys_qualified=len(properties.record_key_fields) > 1
        or properties.key_generator is KeyGeneratorKind.COMPLEX,
        logs=files.logs,
        log_schema_json=_log_schema_json(table, schema),
        history=history,
        logs_name_slice=table.layout.names.logs_name_slice,
        partial=properties.partial_updates,
    )


def _log_schema_json(table: HoodieTable, schema: pa.Schema) -> str:
    """The Avro schema of log records: the user's columns, behind the meta columns if any."""
    # Dropping partitions needs no Arrow, and this module is imported for it.
    from tideline.hudi.table.schema import arrow_to_avro, record_name, with_meta_fields

    name, namespace = record_name(table.config.name)
    stored = with_meta_fields(schema) if table.config.populate_meta_fields else schema
    return json.dumps(arrow_to_avro(stored, name=name, namespace=namespace))

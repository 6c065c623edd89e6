"""What every handle of one write needs to know, and the shape of the rows it is given.

A `HandleContext` is made once on the driver, pickled to the tasks, and bound there to the task's
write token with `for_task`. Stores are not part of it: handles take one explicitly.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tideline.hudi.file_group.file_settings import (
    BloomSettings,
    FileSettings,
    LogSettings,
    ParquetSettings,
)
from tideline.hudi.metadata_table.measured_files import columns_to_measure
from tideline.hudi.table.file_group import BaseFile
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.partial_updates import PartialUpdates
from tideline.hudi.table.properties import KeyGeneratorKind, MergeMode
from tideline.hudi.table.schema_history import SchemaHistory
from tideline.hudi.timeline.instant_time import InstantTime

if TYPE_CHECKING:
    import pyarrow as pa

RECORD_KEY = "_hoodie_record_key"
"""Input column of every handle: the record key, a string."""

IS_DELETE = "_tideline_is_delete"
"""Optional input column of every handle: true for a row that deletes its key."""

STORED_ROW = "_tideline_stored_row"
"""Where a row of the same key is in the base file, -1 where there is none."""

BATCH_ROW = "_tideline_batch_row"
"""Where the first row of a key is in the batch that is written."""


@dataclass(frozen=True, slots=True)
class HandleContext:
    """Settings of one write for one task.

    `schema` holds the user columns in the order they are written. `rolls` is whether a create
    handle starts another file at the maximum size (a bucket index never does).
    `partial_update_columns`, when given, names the columns an update may change; all others keep
    their stored value. `merges_inserts` false appends incoming rows without looking for their keys
    (Hudi's concat handle). `virtual_key_fields` are the record key columns, from which the keys of
    stored rows are computed when the table has no meta columns; `virtual_keys_qualified` is whether
    such keys read `field:value` even with a single field. `log_schema_json` is the Avro schema of
    records in log files, meta columns included. `history` gives the names of the columns of
    `schema` in stored files, where these differ. `logs_name_slice` is how the table's layout names
    log files: after their slice, or after the instant that writes them; a base file's stat then
    names the one before it as well. `partial`: rows are filled up from those they win against.
    `indexed_columns` are those whose ranges are found out of every file, None where none are.
    """

    table: str
    instant: InstantTime
    schema: pa.Schema
    write_token: str = "0-0-0"
    merge_mode: MergeMode = MergeMode.COMMIT_TIME_ORDERING
    ordering_fields: tuple[str, ...] = ()
    parquet: ParquetSettings = field(default_factory=ParquetSettings)
    bloom: BloomSettings = field(default_factory=BloomSettings)
    populate_meta_fields: bool = True
    record_size_estimate_bytes: int = 1024
    rolls: bool = True
    merges_inserts: bool = True
    partial_update_columns: tuple[str, ...] | None = None
    virtual_key_fields: tuple[str, ...] = ()
    virtual_keys_qualified: bool = False
    logs: LogSettings = field(default_factory=LogSettings)
    log_schema_json: str = ""
    history: SchemaHistory | None = None
    logs_name_slice: bool = True
    partial: PartialUpdates | None = None
    indexed_columns: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls,
        table: HoodieTable,
        instant: InstantTime,
        schema: pa.Schema,
        files: FileSettings,
        history: SchemaHistory | None,
    ) -> HandleContext:
        """The context of files of a table written at `instant` with these user columns.

        `history` is the table's, if it has one, read as these columns.
        """
        properties = table.config
        log_schema_json = _log_schema_json(table, schema)
        # A clustering of rows that are merged in a custom way merges none.
        merge_mode = properties.known_merge_mode or MergeMode.COMMIT_TIME_ORDERING
        return cls(
            table=table.location.uri,
            instant=instant,
            schema=schema,
            merge_mode=merge_mode,
            ordering_fields=properties.ordering_fields,
            parquet=files.parquet,
            bloom=files.bloom,
            populate_meta_fields=properties.populate_meta_fields,
            record_size_estimate_bytes=files.record_size_estimate_bytes,
            virtual_key_fields=()
            if properties.populate_meta_fields
            else properties.record_key_fields,
            virtual_keys_qualified=len(properties.record_key_fields) > 1
            or properties.key_generator is KeyGeneratorKind.COMPLEX,
            logs=files.logs,
            log_schema_json=log_schema_json,
            history=history,
            logs_name_slice=table.layout.names.logs_name_slice,
            partial=properties.partial_updates,
            indexed_columns=columns_to_measure(table, log_schema_json),
        )

    def for_task(self, task_partition: int, stage: int, attempt: int) -> HandleContext:
        """This context with the write token `<task partition>-<stage>-<attempt>`."""
        return replace(self, write_token=f"{task_partition}-{stage}-{attempt}")

    @property
    def stored_schema(self) -> pa.Schema:
        """`schema` in the types base files store."""
        # Imported here, so that writes which move no rows need no Arrow.
        import pyarrow as pa

        from tideline.hudi.table.column_type import stored_type

        return pa.schema(
            [
                field.with_type(stored_type(field.type, field.name, keep_millis=True))
                for field in self.schema
            ]
        )

    @property
    def task_partition(self) -> str:
        """First part of the write token; the middle part of `_hoodie_commit_seqno`."""
        return self.write_token.split("-", 1)[0]

    def log_instant(self, slice_instant: InstantTime) -> InstantTime:
        """The instant in the name of a log file that is appended to a slice."""
        return slice_instant if self.logs_name_slice else self.instant

    def prev_base_file(self, base: BaseFile | None) -> str | None:
        """What the stat of a base file says of the one before it."""
        return None if self.logs_name_slice or base is None else base.name

    def base_file_name(self, file_id: str) -> str:
        """`<file id>_<write token>_<instant>.parquet`."""
        return f"{file_id}_{self.write_token}_{self.instant}.parquet"


def _log_schema_json(table: HoodieTable, schema: pa.Schema) -> str:
    """The Avro schema of log records: the user's columns, behind the meta columns if any."""
    # Dropping partitions needs no Arrow, and this module is imported for it.
    from tideline.hudi.table.schema import arrow_to_avro, record_name, with_meta_fields

    name, namespace = record_name(table.config.name)
    stored = with_meta_fields(schema) if table.config.populate_meta_fields else schema
    return json.dumps(arrow_to_avro(stored, name=name, namespace=namespace))

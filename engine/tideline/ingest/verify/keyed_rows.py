"""The rows of both sides of a comparison, with their keys and in the types of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tideline.errors import ConfigError
from tideline.hudi.keys.key_generator import KeyGenerator
from tideline.hudi.keys.virtual_key import column_at
from tideline.hudi.table.merge_mode import MergeMode
from tideline.hudi.table.meta_column import (
    COMMIT_TIME,
    PARTITION_PATH,
    RECORD_KEY,
    without_meta_fields,
)
from tideline.hudi.table.missing_columns import MissingColumns
from tideline.hudi.table.partial_updates import PartialUpdates
from tideline.hudi.write.config import WriteConfig
from tideline.hudi.write.key_spelling import key_generator
from tideline.hudi.write.write_operation import WriteOperation
from tideline.in_process.prepared_rows import Flags, PreparedRows, prepare_rows
from tideline.ingest.operation.operation import IngestRange, Operation
from tideline.ingest.sources.known_rows import Known
from tideline.ingest.verify.compare import (
    COMMIT,
    DELETES,
    INSERTS,
    KNOWN,
    PART,
    PARTITION,
    WHEN,
    WIDE,
)
from tideline.ingest.verify.key_buckets import KEY
from tideline.lake_table import LakeTable

_BAGS = (WriteOperation.INSERT, WriteOperation.BULK_INSERT)
_META = (RECORD_KEY, PARTITION_PATH, COMMIT_TIME)


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """How the rows of a table are made of an ingest's, and what they look like: the user's columns
    in `schema`, the meta columns that are `stored`."""

    keys: KeyGenerator
    config: WriteConfig
    ordering: tuple[str, ...]
    is_bag: bool
    deletes_only: bool
    partial: PartialUpdates | None
    schema: pa.Schema
    stored: tuple[str, ...]

    @classmethod
    def of(
        cls, table: LakeTable, schema: pa.Schema, operation: Operation, work: IngestRange
    ) -> KeyedRows:
        """Raises ConfigError for tables whose rows do not follow from records alone."""
        wanted = WriteOperation.parse(work.write_operation)
        properties = operation.table.write_properties
        kind, config = table.writer.planned_write(wanted, properties)
        stored = table.hoodie_table.config
        refused = ""
        if kind not in (WriteOperation.UPSERT, WriteOperation.DELETE, *_BAGS):
            refused = f"the operation {kind.value} leaves no rows to compare"
        elif config.partial_update_columns is not None:
            refused = "the ingest writes some of the columns alone"
        elif work.transform is not None or work.delete_when is not None:
            refused = "the ingest has SQL of its own"
        elif kind in _BAGS and config.combine_before_insert:
            refused = "which of equal keys are inserted depends on the commit they are in"
        elif stored.ordering_fields and stored.merge_mode is MergeMode.COMMIT_TIME_ORDERING:
            refused = "ordering columns decide inside of commits alone"
        if refused:
            raise ConfigError(f"the rows cannot be compared: {refused}", table=table.uri)
        return cls(
            key_generator(table.hoodie_table),
            config,
            stored.ordering_fields,
            kind in _BAGS,
            kind is WriteOperation.DELETE,
            None if kind in _BAGS else stored.partial_updates,
            without_meta_fields(schema),
            _META if stored.populate_meta_fields else (),
        )

    @property
    def read_columns(self) -> list[str]:
        """Columns to read of the table."""
        return [*self.stored, *self.schema.names]

    def of_source(
        self, rows: pa.Table, part: int, known: Known = Known.ROW, when: str = ""
    ) -> pa.Table:
        """Rows of a part of the source as the table would store them, in the order of arrival, how
        much is known of them, and the commit `when` they came; empty where that is not known."""
        batch = prepare_rows(
            rows,
            self.keys,
            self.schema,
            deletes_only=self.deletes_only,
            missing=MissingColumns.NULL,
            delete_marker=self.config.delete_marker,
        )
        none = np.zeros(len(batch), np.bool_)
        deletes = none if batch.deletes is None else batch.deletes
        has_paths = self.deletes_only or self.config.index.type.is_global
        is_wide = none if has_paths else deletes & self._nowhere(batch)
        more = {
            KEY: batch.keys,
            PARTITION: batch.partitions,
            DELETES: pa.array(deletes),
            WIDE: pa.array(is_wide),
            PART: pa.array(np.full(len(batch), part, np.int32)),
            KNOWN: pa.array(np.full(len(batch), known, np.int8)),
            INSERTS: pa.repeat(pa.scalar(self.is_bag), len(batch)),
            WHEN: pa.repeat(pa.scalar(when), len(batch)),
        }
        return _with_columns(batch.rows.select(self.schema.names), more)

    def of_table(self, rows: pa.RecordBatch) -> pa.Table:
        """Rows of the table, with their keys and commits."""
        user = rows.select(self.schema.names)
        if self.stored:
            names = (KEY, PARTITION, COMMIT)
            return _with_columns(user, dict(zip(names, map(rows.column, _META), strict=True)))
        batch = prepare_rows(pa.Table.from_batches([user]), self.keys, self.schema)
        commits = pa.nulls(len(batch), pa.string())
        return _with_columns(user, {KEY: batch.keys, PARTITION: batch.partitions, COMMIT: commits})

    def has_ordered_deletes(self, rows: pa.Table) -> bool:
        """Whether any row of the source deletes and has a value in every ordering column."""
        found = rows.column(DELETES).to_numpy() & bool(self.ordering)
        (batch,) = rows.combine_chunks().to_batches() or (None,)
        for name in self.ordering if batch is not None else ():
            found = found & column_at(batch, name).is_valid().to_numpy(zero_copy_only=False)
        return bool(found.any())

    def typed_source(self, rows: pa.Table | None) -> pa.Table:
        """Rows that `of_source` made, or none of them."""
        kinds = {DELETES: pa.bool_(), WIDE: pa.bool_(), PART: pa.int32()}
        kinds |= {KNOWN: pa.int8(), INSERTS: pa.bool_(), WHEN: pa.string()}
        return self._typed(kinds, rows)

    def typed_table(self, rows: pa.Table | None) -> pa.Table:
        """Rows that `of_table` made, or none of them."""
        return self._typed({COMMIT: pa.string()}, rows)

    def _typed(self, more: Mapping[str, pa.DataType], rows: pa.Table | None) -> pa.Table:
        kinds = {KEY: pa.string(), PARTITION: pa.string(), **more}
        wanted = [*self.schema, *(pa.field(name, kind) for name, kind in kinds.items())]
        schema = pa.schema([item.with_nullable(True) for item in wanted])
        return schema.empty_table() if rows is None else rows.select(schema.names).cast(schema)

    def _nowhere(self, batch: PreparedRows) -> Flags:
        """Rows without any value that names a partition."""
        found = np.full(len(batch), bool(self.keys.partition_fields), np.bool_)
        for item in self.keys.partition_fields:
            found &= column_at(batch.rows, item.field).is_null().to_numpy(zero_copy_only=False)
        return found


def _with_columns(rows: pa.RecordBatch, more: Mapping[str, pa.Array]) -> pa.Table:
    table = pa.Table.from_batches([rows])
    for name, values in more.items():
        is_encoded = pa.types.is_dictionary(values.type)
        table = table.append_column(name, values.dictionary_decode() if is_encoded else values)
    return table

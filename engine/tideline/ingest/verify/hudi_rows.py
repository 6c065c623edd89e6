"""Rows of a Hudi table, with the keys and partition paths that the table makes of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

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
from tideline.hudi.write.config import WriteConfig
from tideline.hudi.write.key_spelling import key_generator
from tideline.hudi.write.write_operation import WriteOperation
from tideline.in_process.prepared_rows import Flags, PreparedRows, prepare_rows
from tideline.ingest.operation.operation import Operation
from tideline.ingest.verify.compare import COMMIT, PARTITION
from tideline.ingest.verify.key_buckets import KEY
from tideline.ingest.verify.keyed_rows import (
    KeyedRows,
    SourceBatch,
    refuse_uncomparable,
    with_columns,
)
from tideline.lake_table import LakeTable

_BAGS = (WriteOperation.INSERT, WriteOperation.BULK_INSERT)
_META = (RECORD_KEY, PARTITION_PATH, COMMIT_TIME)


@dataclass(frozen=True, slots=True)
class HudiRows(KeyedRows):
    """See `KeyedRows`. Rows have the meta columns that are `stored`."""

    keys: KeyGenerator
    config: WriteConfig
    stored: tuple[str, ...]

    @classmethod
    def of(cls, table: LakeTable, schema: pa.Schema, operation: Operation) -> HudiRows:
        """Raises ConfigError for tables whose rows do not follow from records alone."""
        work = operation.ingest
        wanted = WriteOperation.parse(work.write_operation)
        kind, config = table.writer.planned_write(wanted, operation.table.write_properties)
        stored = table.hoodie_table.config
        refused = ""
        if kind not in (WriteOperation.UPSERT, WriteOperation.DELETE, *_BAGS):
            refused = f"the operation {kind.value} leaves no rows to compare"
        elif config.partial_update_columns is not None:
            refused = "the ingest writes some of the columns alone"
        elif kind in _BAGS and config.combine_before_insert:
            refused = "which of equal keys are inserted depends on the commit they are in"
        elif stored.ordering_fields and stored.merge_mode is MergeMode.COMMIT_TIME_ORDERING:
            refused = "ordering columns decide inside of commits alone"
        refuse_uncomparable(table.uri, refused)
        keys = key_generator(table.hoodie_table)
        return cls(
            ordering=stored.ordering_fields,
            is_bag=kind in _BAGS,
            deletes_only=kind is WriteOperation.DELETE,
            partial=None if kind in _BAGS else stored.partial_updates,
            schema=without_meta_fields(schema),
            is_unique_in_table=config.index.type.is_global,
            is_partitioned=bool(keys.partition_fields),
            keys=keys,
            config=config,
            stored=_META if stored.populate_meta_fields else (),
        )

    @property
    def read_columns(self) -> list[str]:
        """Columns to read of the table."""
        return [*self.stored, *self.schema.names]

    def of_table(self, rows: pa.RecordBatch) -> pa.Table:
        """Rows of the table, with their keys and commits."""
        user = rows.select(self.schema.names)
        if self.stored:
            names = (KEY, PARTITION, COMMIT)
            return with_columns(user, dict(zip(names, map(rows.column, _META), strict=True)))
        batch = prepare_rows(pa.Table.from_batches([user]), self.keys, self.schema)
        commits = pa.nulls(len(batch), pa.string())
        return with_columns(user, {KEY: batch.keys, PARTITION: batch.partitions, COMMIT: commits})

    def prepared(self, rows: pa.Table) -> SourceBatch:
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
        return SourceBatch(
            batch.rows.select(self.schema.names), batch.keys, batch.partitions, deletes, is_wide
        )

    def _nowhere(self, batch: PreparedRows) -> Flags:
        """Rows without any value that names a partition."""
        found = np.full(len(batch), bool(self.keys.partition_fields), np.bool_)
        for item in self.keys.partition_fields:
            found &= column_at(batch.rows, item.field).is_null().to_numpy(zero_copy_only=False)
        return found

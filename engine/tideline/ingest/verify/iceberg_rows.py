"""Rows of an Iceberg table, each with a key in the whole table: what it is upserted by, or all that
can be a key where rows are only inserted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.errors import InvalidDataError
from tideline.hudi.table.partial_updates import PartialUpdateMode, PartialUpdates
from tideline.hudi.write.batch_rules import DELETED_FLAG
from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.row_lineage import LAST_UPDATED
from tideline.iceberg.metadata.field_type import NestedField, identifies_rows
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.write.fitted_rows import fitted_rows
from tideline.iceberg.write.given_changes import fields_of
from tideline.iceberg.write.keyed_rows import TableKey
from tideline.iceberg.write.write_operation import IcebergOperation
from tideline.iceberg.write.write_request import UpsertRules
from tideline.ingest.execute.named_columns import as_arrived, as_named, names_in
from tideline.ingest.operation.operation import Operation
from tideline.ingest.sources.kafka.declared import UNAVAILABLE
from tideline.ingest.verify.compare import COMMIT, PARTITION
from tideline.ingest.verify.key_buckets import KEY
from tideline.ingest.verify.keyed_rows import (
    KeyedRows,
    SourceBatch,
    refuse_uncomparable,
    with_columns,
)

_MARKS = r"[\\,]"
"""What would be taken for the end of a value in a key of several."""
_FILLED = PartialUpdates(PartialUpdateMode.FILL_UNAVAILABLE, UNAVAILABLE)


@dataclass(frozen=True, slots=True)
class IcebergRows(KeyedRows):
    """See `KeyedRows`. `key` are columns, `given` those that rows of the source have; `commits` are
    the names of commits by sequence number."""

    key: tuple[str, ...]
    given: tuple[NestedField, ...]
    commits: Mapping[int, str]

    @classmethod
    def of(
        cls, metadata: TableMetadata, operation: Operation, commits: Mapping[int, str]
    ) -> IcebergRows:
        """Raises ConfigError for tables whose rows do not follow from records alone."""
        work, schema = operation.ingest, metadata.schema()
        kind = IcebergOperation.named(work.write_operation, default=IcebergOperation.UPSERT)
        is_bag = kind is IcebergOperation.APPEND
        refused = ""
        if not is_bag and not kind.is_keyed:
            refused = f"the operation {kind.value} leaves no rows to compare"
        refuse_uncomparable(work, metadata.location, refused)
        columns = arrow_schema(schema.fields)
        named = names_in(columns, operation.table.record_key)
        if is_bag and not named:
            named = tuple(item.name for item in schema.fields if identifies_rows(item.type))
            given = fields_of(schema, TableKey((), ()), UpsertRules(deleted_by=DELETED_FLAG))
        else:
            key = TableKey.of(schema, named)
            named = key.columns
            given = fields_of(schema, key, UpsertRules(deleted_by=DELETED_FLAG))
        deletes_only = kind is IcebergOperation.DELETE
        return cls(
            ordering=names_in(columns, operation.table.ordering) if not is_bag else (),
            is_bag=is_bag,
            deletes_only=deletes_only,
            partial=None if is_bag else _FILLED,
            schema=columns,
            is_unique_in_table=True,
            is_partitioned=False,
            key=named,
            given=given,
            commits=commits,
        )

    def of_table(self, rows: pa.RecordBatch) -> pa.Table:
        """Rows of the table, with their keys and commits."""
        more = {
            KEY: key_texts(rows, self.key),
            PARTITION: pa.repeat(pa.scalar(""), rows.num_rows),
            COMMIT: self._commits(rows),
        }
        return with_columns(rows.select(self.schema.names), more)

    def prepared(self, rows: pa.Table) -> SourceBatch:
        arrived = as_arrived(rows)
        if self.deletes_only:
            arrived = arrived.select([name for name in arrived.column_names if self._is_key(name)])
        # What a row that deletes lacks does not matter.
        flagged = pa.schema([*self.schema, pa.field(DELETED_FLAG, pa.bool_())])
        named = as_named(arrived, self.schema if DELETED_FLAG in self.schema.names else flagged)
        (batch,) = named.combine_chunks().to_batches() or (named.schema.empty_batch(),)
        found = fitted_rows(batch, self._fields)
        deletes = np.ones(len(found), np.bool_)
        if not self.deletes_only:
            deletes = pc.fill_null(found.column(DELETED_FLAG), False).to_numpy(zero_copy_only=False)
            self._require_values(found, deletes)
        if self.is_bag:
            found, deletes = found.filter(pa.array(~deletes)), deletes[~deletes]
        columns = [
            found.column(item.name) if item.name in found.schema.names
            else pa.nulls(len(found), item.type)
            for item in self.schema
        ]  # fmt: skip
        user = pa.RecordBatch.from_arrays(columns, self.schema.names)
        none = np.zeros(len(found), np.bool_)
        places = pa.repeat(pa.scalar(""), len(found))
        return SourceBatch(user, key_texts(found, self.key), places, deletes, none)

    @property
    def _fields(self) -> tuple[NestedField, ...]:
        if not self.deletes_only:
            return self.given
        return tuple(item for item in self.given if item.name in self.key)

    def _is_key(self, name: str) -> bool:
        return name.casefold() in {key.casefold() for key in self.key}

    def _require_values(self, rows: pa.RecordBatch, deletes: np.ndarray) -> None:
        """Raise InvalidDataError where a row that is stored lacks what the table requires."""
        stays = pa.array(~deletes)
        for item in self.schema:
            if not item.nullable and rows.column(item.name).filter(stays).null_count:
                raise InvalidDataError("a required column has nulls", value=item.name)

    def _commits(self, rows: pa.RecordBatch) -> pa.Array:
        if LAST_UPDATED.name not in rows.schema.names or not self.commits:
            return pa.nulls(rows.num_rows, pa.string())
        numbers = pa.array(list(self.commits), pa.int64())
        at = pc.index_in(rows.column(LAST_UPDATED.name), value_set=numbers)
        return pa.array(list(self.commits.values()), pa.string()).take(at)


def key_texts(rows: pa.RecordBatch, names: Sequence[str]) -> pa.Array:
    """The key of every row as text, of no other key: its value, or several with their names."""
    texts = [pc.fill_null(_texts(rows.column(name)), "null") for name in names]
    if len(texts) == 1:
        return texts[0]
    if not texts:
        return pa.repeat(pa.scalar(""), rows.num_rows)
    parts = [
        pc.binary_join_element_wise(name, pc.replace_substring_regex(text, _MARKS, r"\\\0"), ":")
        for name, text in zip(names, texts, strict=True)
    ]
    return pc.binary_join_element_wise(*parts, ",")


def _texts(column: pa.Array) -> pa.Array:
    if types.is_fixed_size_binary(column.type) or types.is_binary(column.type):
        return _hexadecimal(column)
    return column.cast(pa.string())


def _hexadecimal(column: pa.Array) -> pa.Array:
    whole = pc.fill_null(column.cast(pa.binary()), b"")
    _, ends, content = whole.buffers()
    bounds = np.frombuffer(ends, np.int32)[whole.offset : whole.offset + len(whole) + 1]
    text = memoryview(content)[bounds[0] : bounds[-1]].hex() if content is not None else ""
    offsets = ((bounds - bounds[0]) * 2).astype(np.int32)
    return pa.StringArray.from_buffers(
        len(whole), pa.py_buffer(offsets), pa.py_buffer(text.encode())
    )

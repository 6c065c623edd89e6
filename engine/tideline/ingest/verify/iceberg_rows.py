"""Rows of an Iceberg table, each with a key in the whole table: what it is upserted by, or all that
can be a key where rows are only inserted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.errors import InvalidDataError
from tideline.hudi.table.partial_updates import UNAVAILABLE, PartialUpdateMode, PartialUpdates
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
    """See `KeyedRows`. `names` are those of the fields of the `key`, `given` are the columns that
    rows of the source have; `commits` are the names of commits by sequence number."""

    key: TableKey
    names: tuple[str, ...]
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
        refuse_uncomparable(metadata.location, refused)
        columns = arrow_schema(schema.fields)
        named = names_in(columns, operation.table.record_key)
        if is_bag and not named:
            found = tuple(item for item in schema.fields if identifies_rows(item.type))
            key = TableKey(tuple(item.field_id for item in found), found)
            required = TableKey((), ())
        else:
            key = required = TableKey.of(schema, named)
        deletes_only = kind is IcebergOperation.DELETE
        return cls(
            ordering=names_in(columns, operation.table.ordering) if not is_bag else (),
            is_bag=is_bag,
            deletes_only=deletes_only,
            partial=None if is_bag else _FILLED,
            schema=columns,
            is_unique_in_table=True,
            is_partitioned=False,
            key=key,
            names=tuple(schema.name_of(number) or "" for number in key.numbers),
            given=fields_of(schema, required, UpsertRules(deleted_by=DELETED_FLAG)),
            commits=commits,
        )

    def of_table(self, rows: pa.RecordBatch) -> pa.Table:
        """Rows of the table, with their keys and commits."""
        more = {
            KEY: self._keys(rows),
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
        return SourceBatch(user, self._keys(found), places, deletes, none)

    @property
    def _fields(self) -> tuple[NestedField, ...]:
        if not self.deletes_only:
            return self.given
        return tuple(item for item in self.given if item.name in self.key.columns)

    def _is_key(self, name: str) -> bool:
        return name.casefold() in {column.casefold() for column in self.key.columns}

    def _keys(self, rows: pa.RecordBatch) -> pa.Array:
        columns = dict(zip(self.names, self.key.values(rows), strict=True))
        return key_texts(columns, rows.num_rows)

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


def key_texts(columns: Mapping[str, pa.Array], count: int) -> pa.Array:
    """The keys of so many rows as texts, each of no other key: its value, or several with their
    names."""
    texts = [pc.fill_null(_texts(column), "null") for column in columns.values()]
    if len(texts) == 1:
        return texts[0]
    if not texts:
        return pa.repeat(pa.scalar(""), count)
    parts = [
        pc.binary_join_element_wise(name, pc.replace_substring_regex(text, _MARKS, r"\\\0"), ":")
        for name, text in zip(columns, texts, strict=True)
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

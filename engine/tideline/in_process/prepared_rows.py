"""The incoming rows of one write, in memory and made ready: target schema, keys, partition paths.

1. Columns are matched with the table's and cast to its types, as Spark's casts do where a table
   allows them (`tideline.hudi.table.schema_evolution`).
2. Keys and partition paths are made of the values as the table stores them.
3. Rows without a key, a needed ordering value or a possible partition are refused: nothing was
   written.

Rows are in the order of their arrival. `tideline.spark.write.batch` does the same on Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.bounded.read_limits import too_many_columns
from tideline.errors import InvalidDataError
from tideline.hudi.keys.key_generator import KeyGenerator, key_columns
from tideline.hudi.keys.key_text import TWO_TEXTS
from tideline.hudi.keys.partition_path import check_partition_paths
from tideline.hudi.keys.row_keys import partition_paths, record_keys, with_two_texts
from tideline.hudi.keys.virtual_key import column_at
from tideline.hudi.table.column_type import fits_in, stored_type
from tideline.hudi.table.meta_column import PARTITION_PATH, RECORD_KEY, is_meta_column
from tideline.hudi.table.missing_columns import MissingColumns
from tideline.hudi.table.schema import EvolvedSchema, evolve
from tideline.hudi.table.stored_value import cast_array
from tideline.hudi.write.batch_rules import (
    ARRIVAL,
    DELETED_FLAG,
    UNREADABLE_TIME,
    require_stored_keys,
    require_typed,
)
from tideline.hudi.write.config import DeleteMarker
from tideline.wording import counted

_BEFORE_ALL = -(1 << 63)
Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PreparedRows:
    """`rows` have the user columns of `schema`; the other arrays are as long as they.

    `deletes` is None where nothing says that any row deletes its key.
    """

    schema: EvolvedSchema
    rows: pa.RecordBatch
    keys: pa.Array
    partitions: pa.DictionaryArray
    deletes: Flags | None = None

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def take(self, positions: Positions) -> PreparedRows:
        """The rows at these positions."""
        wanted = pa.array(positions)
        return PreparedRows(
            self.schema,
            self.rows.take(wanted),
            self.keys.take(wanted),
            self.partitions.take(wanted),
            None if self.deletes is None else self.deletes[positions],
        )

    def followed_by(self, other: PreparedRows) -> PreparedRows:
        """The rows of both."""
        both = (self, other)
        flags = [np.zeros(len(p), np.bool_) if p.deletes is None else p.deletes for p in both]
        has_deletes = any(part.deletes is not None for part in both)
        return PreparedRows(
            self.schema,
            pa.concat_batches([self.rows, other.rows.cast(self.rows.schema)]),
            pa.concat_arrays([self.keys, other.keys]),
            pa.concat_arrays(
                [part.partitions.dictionary_decode() for part in both]
            ).dictionary_encode(),
            np.concatenate(flags) if has_deletes else None,
        )

    def rows_per_partition(self) -> Mapping[str, int]:
        """How many rows each partition gets."""
        counts = np.bincount(self.partition_codes(), minlength=len(self.partitions.dictionary))
        paths = self.partitions.dictionary.to_pylist()
        return {path: int(count) for path, count in zip(paths, counts, strict=True) if count}

    def partition_codes(self) -> Positions:
        """The partition of every row, by its position among `partitions.dictionary`."""
        codes: Positions = self.partitions.indices.to_numpy().astype(np.int64)
        return codes


def prepare_rows(
    supplied: pa.Table,
    keys: KeyGenerator,
    table_schema: pa.Schema | None,
    *,
    ordering: tuple[str, ...] = (),
    deletes_only: bool = False,
    missing: MissingColumns = MissingColumns.REFUSED,
    delete_marker: DeleteMarker | None = None,
) -> PreparedRows:
    """Bring a caller's rows into the table's shape.

    Meta columns are ignored. Rows delete by `_hoodie_is_deleted` or by `delete_marker`; others need
    values in the columns `ordering`. `deletes_only` (operation delete) reads the key and partition
    columns and nothing else. Raises InvalidDataError when the schemas clash, a value does not fit
    or a row has no key, ordering value or possible partition, ConfigError for a missing key field.
    """
    problem = too_many_columns(supplied.num_columns)
    if problem is not None:
        raise InvalidDataError(problem)
    held = _held(supplied)
    deletes = np.ones(held.num_rows, np.bool_) if deletes_only else _deletes(held, delete_marker)
    user = _user_columns(held, table_schema)
    if deletes_only:
        user = user.select(key_columns(user.schema.names, keys))
    if deletes_only and table_schema is not None:
        evolved = EvolvedSchema(table_schema)
        keyed = _key_values(user, table_schema)
    else:
        evolved = evolve(table_schema, user.schema, missing=missing)
        require_typed(evolved.change.untyped, keys, ordering)
        keyed = _cast(user, evolved.schema)
    batch = PreparedRows(
        evolved,
        _nulls(evolved.schema, held.num_rows) if deletes_only else keyed,
        record_keys(keyed, keys),
        partition_paths(keyed, keys),
        deletes,
    )
    _check(batch, keyed, keys, ordering)
    return batch


def stored_rows(found: pa.Table, table_schema: pa.Schema) -> PreparedRows:
    """Rows of the table itself, to be deleted, by the keys and paths they are stored with.

    Raises CorruptTableError for a row that is stored without.
    """
    keys, paths = (_one_array(found.column(name)) for name in (RECORD_KEY, PARTITION_PATH))
    require_stored_keys(keys.null_count + paths.null_count)
    return PreparedRows(
        EvolvedSchema(table_schema),
        _nulls(table_schema, found.num_rows),
        keys,
        paths.dictionary_encode(),
        np.ones(found.num_rows, np.bool_),
    )


def key_rows(supplied: pa.Table, keys: KeyGenerator) -> pa.RecordBatch:
    """The columns that keys and partition paths are made of, in types that tables have.

    Raises InvalidDataError for values that no table can store.
    """
    held = _held(supplied)
    held = held.select(key_columns(held.schema.names, keys))
    pairs = zip(held.schema.names, held.columns, strict=True)
    columns = [_as_type(column, stored_type(column.type, name), name) for name, column in pairs]
    return pa.RecordBatch.from_arrays(columns, names=held.schema.names)


def _held(supplied: pa.Table) -> pa.RecordBatch:
    """The columns that count, each as one array, in the order of arrival."""
    names = supplied.schema.names
    chosen = [number for number, name in enumerate(names) if not is_meta_column(name)]
    table = supplied.select(chosen)
    if ARRIVAL in table.schema.names:
        arrival = pc.fill_null(table.column(ARRIVAL).cast(pa.int64()), _BEFORE_ALL)
        table = table.take(pc.sort_indices(arrival))
        table = table.drop_columns([ARRIVAL])
    arrays = [_one_array(column) for column in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=_schema_of(arrays, table.schema))


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _schema_of(arrays: list[pa.Array], schema: pa.Schema) -> pa.Schema:
    return pa.schema(
        [field.with_type(array.type) for field, array in zip(schema, arrays, strict=True)]
    )


def _user_columns(held: pa.RecordBatch, table_schema: pa.Schema | None) -> pa.RecordBatch:
    names = held.schema.names
    if table_schema is None or DELETED_FLAG not in table_schema.names:
        return held.select([name for name in names if name != DELETED_FLAG])
    if DELETED_FLAG in names:
        return held
    return held.append_column(DELETED_FLAG, pa.repeat(pa.scalar(False), held.num_rows))


def _deletes(held: pa.RecordBatch, marker: DeleteMarker | None) -> Flags | None:
    """Which rows delete their key; None where nothing says that any does."""
    found = []
    if DELETED_FLAG in held.schema.names:
        flag = held.column(DELETED_FLAG)
        if not types.is_boolean(flag.type):
            raise InvalidDataError(f"column {DELETED_FLAG} must be boolean", value=str(flag.type))
        found.append(flag)
    if marker is not None:
        spelled = {name.lower(): name for name in held.schema.names}
        name = spelled.get(marker.column.lower())
        if name is not None:
            found.append(pc.equal(held.column(name).cast(pa.string()), marker.text))
    if not found:
        return None
    flags = np.zeros(held.num_rows, np.bool_)
    for item in found:
        flags |= pc.fill_null(item, False).to_numpy(zero_copy_only=False)
    return flags


def _cast(user: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The target's columns in order, matched by name in any case; absent ones are null."""
    spelled = {name.lower(): name for name in user.schema.names}
    columns = []
    for wanted in schema:
        name = wanted.name if wanted.name in user.schema.names else spelled.get(wanted.name.lower())
        if name is None:
            columns.append(pa.nulls(user.num_rows, wanted.type))
        else:
            columns.append(_as_type(user.column(name), wanted.type, wanted.name))
    return pa.RecordBatch.from_arrays(columns, schema=_nullable(schema))


def _key_values(user: pa.RecordBatch, table_schema: pa.Schema) -> pa.RecordBatch:
    """Key columns as the table stores them; where they do not fit, as they are.

    A value that does not fit is no stored row's, but its text may be: of a long, say, where the
    table has integers.
    """
    stored = {item.name.lower(): item for item in table_schema}
    columns = []
    for name, column in zip(user.schema.names, user.columns, strict=True):
        wanted, kind = stored.get(name.lower()), stored_type(column.type, name)
        if wanted is not None and (kind == wanted.type or fits_in(kind, wanted.type)):
            kind = wanted.type
        columns.append(_as_type(column, kind, name))
    return pa.RecordBatch.from_arrays(columns, names=user.schema.names)


def _as_type(column: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    try:
        return cast_array(column, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidDataError(f"column {name} has a value that does not fit {wanted}") from error


def _nulls(schema: pa.Schema, count: int) -> pa.RecordBatch:
    columns = [pa.nulls(count, item.type) for item in schema]
    return pa.RecordBatch.from_arrays(columns, schema=_nullable(schema))


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([item.with_nullable(True) for item in schema])


def _check(
    batch: PreparedRows, keyed: pa.RecordBatch, keys: KeyGenerator, ordering: tuple[str, ...]
) -> None:
    shown = dict.fromkeys([*keys.record_fields, *[part.field for part in keys.partition_fields]])
    _refuse(keyed, with_two_texts(keyed, keys), TWO_TEXTS, shown)
    bad_keys = batch.keys.is_null().to_numpy(zero_copy_only=False)
    _refuse(keyed, bad_keys, "a null or empty record key", shown)
    lacks = np.zeros(len(batch), np.bool_)
    for name in ordering:
        lacks |= column_at(batch.rows, name).is_null().to_numpy(zero_copy_only=False)
    if batch.deletes is not None:
        lacks &= ~batch.deletes
    what = f"a null ordering value ({', '.join(ordering)})"
    _refuse(keyed, lacks, what, {**shown, **dict.fromkeys(ordering)})
    bad_times = batch.partitions.is_null().to_numpy(zero_copy_only=False)
    _refuse(keyed, bad_times, UNREADABLE_TIME, shown)
    check_partition_paths(batch.rows_per_partition())


def _refuse(rows: pa.RecordBatch, bad: Flags, what: str, shown: Iterable[str]) -> None:
    """`shown` are the fields of a row that the message may show, by their dotted names."""
    count = int(bad.sum())
    if count == 0:
        return
    (row,) = _printable(rows.slice(int(np.flatnonzero(bad)[0]), 1)).to_pylist()
    have = "has" if count == 1 else "have"
    raise InvalidDataError(
        f"{counted(count, 'incoming row')} {have} {what}; nothing was written",
        value={name: _value_at(row, name) for name in shown},
    )


def _printable(rows: pa.RecordBatch) -> pa.RecordBatch:
    """With dates and times as text, as Python does not have all of them."""
    columns = [
        column.cast(pa.string()) if types.is_temporal(column.type) else column
        for column in rows.columns
    ]
    return pa.RecordBatch.from_arrays(columns, rows.schema.names)


def _value_at(row: Mapping[str, Any], dotted: str) -> Any:
    value: Any = row
    for step in dotted.split("."):
        if not isinstance(value, dict):
            return None
        spelled = {name.lower(): name for name in value}
        value = value.get(step, value.get(spelled.get(step.lower(), "")))
    return value

"""The blocks of a file slice's log merged into one entry per record key.

1. Every row and every deleted key of the blocks is an entry; entries are numbered in their order.
2. Entries of one key are merged one after another, all keys at once: in round n the n-th entry
   of every key that has one meets what is left of those before it.
3. By commit time the newer entry wins. By event time it wins unless its ordering values are lower;
   a delete in natural order (without an ordering value, or 0) always wins and always loses to what
   comes after it.
4. A partial row that meets an older one leaves it the columns it lacks itself; what no row of the
   log has comes from the base file. A row of a table with partial updates lacks what is missing in
   the sense of its mode.

Source: Hudi's KeyBasedFileGroupRecordBuffer, BufferedRecordMergerFactory, DeleteContext.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.errors import CorruptTableError
from tideline.hudi.log.block_scan import LogBlock, SelectedBlocks
from tideline.hudi.log.column_sources import ColumnSources
from tideline.hudi.log.data_block import decode_data_block
from tideline.hudi.log.delete_block import DeleteRecords, decode_delete_block
from tideline.hudi.log.entry_fold import EntryFold, Flags, Positions
from tideline.hudi.log.log_files import LogFiles
from tideline.hudi.log.missing_values import missing_values
from tideline.hudi.table.partial_updates import PartialUpdates
from tideline.hudi.table.schema_history import SchemaHistory
from tideline.hudi.table.stored_value import converted_array

IS_DELETED_COLUMN = "_hoodie_is_deleted"
OPERATION_COLUMN = "_hoodie_operation"
_DELETE_OPERATIONS = pa.array(["D", "-U"])


@dataclass(frozen=True, slots=True)
class LogRules:
    """How the entries of a log are read and merged.

    `schema` has the columns to give, in the table's types. `ordering` are the ordering fields and
    their types, empty when the newer entry always wins; `keys_of` computes record keys from a batch
    that has the `key_columns`. `delete_field` and `delete_marker` name a column and the text in it
    that marks a row as a delete (Hudi: hoodie.payload.delete.field). `history` gives the names of
    columns in blocks, where these differ. `partial`: rows are filled up from those they win
    against.
    """

    schema: pa.Schema
    key_columns: tuple[str, ...]
    keys_of: Callable[[pa.RecordBatch], pa.Array]
    ordering: tuple[tuple[str, pa.DataType], ...] = ()
    delete_field: str | None = None
    delete_marker: str | None = None
    history: SchemaHistory | None = None
    partial: PartialUpdates | None = None

    @property
    def columns_read(self) -> tuple[str, ...]:
        """Every column of a data block that merging looks at."""
        fields = [name.split(".")[0] for name, _ in self.ordering]
        deletes = [IS_DELETED_COLUMN, OPERATION_COLUMN, *filter(None, [self.delete_field])]
        return (*self.schema.names, *self.key_columns, *fields, *deletes)


@dataclass(frozen=True, slots=True)
class MergedLog:
    """What is left of a log: one entry per key, in the order the keys were first seen.

    `rows` has the rules' columns, null where the entry is a delete. `natural` marks the deletes in
    natural order. `ordering` has an array for each ordering field. `present` says, for each column,
    in which rows the log has a value; empty where it has all. `has_partial_rows`: blocks of some of
    the columns alone are among those merged.
    """

    keys: pa.Array
    rows: pa.RecordBatch
    deletes: Flags
    natural: Flags
    ordering: tuple[pa.Array, ...] = ()
    present: dict[str, Flags] = field(default_factory=dict)
    has_partial_rows: bool = False
    entries: int = 0

    def __len__(self) -> int:
        return len(self.keys)


def merge_log(files: LogFiles, selected: SelectedBlocks, rules: LogRules) -> MergedLog:
    """Read the selected blocks and merge them.

    Raises CorruptTableError or UnsupportedTableError naming the file whose block cannot be read.
    """
    entries = _Entries(rules)
    for block in selected.blocks:
        with files.named(block.log):
            entries.read(block, files.content(block))
    return entries.merge()


class _Entries:
    """The entries of all blocks, behind one another."""

    def __init__(self, rules: LogRules) -> None:
        self._rules = rules
        self._count = 0
        self._rows = 0
        self._keys: list[pa.Array] = []
        self._ordering: list[list[pa.Array]] = [[] for _ in rules.ordering]
        self._tables: list[pa.RecordBatch] = []
        self._row_of: list[Positions] = []
        self._deletes: list[Flags] = []
        self._from_delete_block: list[Flags] = []
        # (first entry, columns) of every block of rows.
        self._columns: list[tuple[int, int, frozenset[str]]] = []
        # By column, which of the rows have a value, and then which of the entries.
        self._valued: dict[str, list[Flags]] = {}
        self._has_value: dict[str, Flags] = {}
        self._has_partial_rows = False

    def read(self, block: LogBlock, content: bytes) -> None:
        """Add the entries of a block."""
        if block.is_delete:
            for deleted in decode_delete_block(content):
                self._add_deleted(deleted)
            return
        history = self._rules.history
        stored = history.names_at(block.instant) if history else None
        names: Sequence[str] = self._rules.columns_read
        if stored is not None:
            names = stored.stored(names)
        table = decode_data_block(block.frame.kind, content, block.schema_json, names)
        if block.is_partial:
            self._has_partial_rows = True
        if table.num_rows:
            batch = table.combine_chunks().to_batches()[0]
            self._add_rows(batch if stored is None else stored.renamed(batch))

    def _add_rows(self, batch: pa.RecordBatch) -> None:
        rules = self._rules
        missing = [name for name in rules.key_columns if name not in batch.schema.names]
        if missing:
            raise CorruptTableError("log block lacks key columns", value=", ".join(missing))
        keys = rules.keys_of(batch)
        if keys.null_count:
            raise CorruptTableError("log block has rows without a record key")
        count = len(keys)
        rows = conformed_rows(batch, rules.schema)
        for values, (name, data_type) in zip(self._ordering, rules.ordering, strict=True):
            values.append(_ordering_values(batch, name, data_type))
        self._columns.append((self._count, self._count + count, frozenset(batch.schema.names)))
        self._add(
            keys,
            row_of=np.arange(self._rows, self._rows + count, dtype=np.int64),
            deletes=_delete_flags(batch, rules),
            from_delete_block=False,
        )
        self._tables.append(rows)
        self._rows += count
        if rules.partial is not None:
            for name, column in zip(rows.schema.names, rows.columns, strict=True):
                flags = ~missing_values(column, rules.partial)
                self._valued.setdefault(name, []).append(flags)

    def _add_deleted(self, deleted: DeleteRecords) -> None:
        count = len(deleted)
        is_comparable = len(deleted.ordering) == len(self._rules.ordering) and all(
            compares_with(values.type, data_type)
            for values, (_, data_type) in zip(deleted.ordering, self._rules.ordering, strict=True)
        )
        for place, (_, data_type) in enumerate(self._rules.ordering):
            # A delete that cannot be compared deletes, as one in natural order does.
            self._ordering[place].append(
                _comparable(deleted.ordering[place], data_type)
                if is_comparable
                else pa.nulls(count, data_type)
            )
        self._add(
            deleted.keys,
            row_of=np.full(count, -1, dtype=np.int64),
            deletes=np.ones(count, dtype=np.bool_),
            from_delete_block=True,
        )

    def _add(
        self, keys: pa.Array, *, row_of: Positions, deletes: Flags, from_delete_block: bool
    ) -> None:
        self._keys.append(keys)
        self._row_of.append(row_of)
        self._deletes.append(deletes)
        self._from_delete_block.append(np.full(len(keys), from_delete_block))
        self._count += len(keys)

    def merge(self) -> MergedLog:
        """One entry per key."""
        rules = self._rules
        if not self._count:
            return _empty_log(rules)
        codes = pa.concat_arrays(self._keys).dictionary_encode()
        fold = EntryFold(
            codes=codes.indices.to_numpy(),
            keys=len(codes.dictionary),
            ordering=[pa.concat_arrays(values) for values in self._ordering],
            deletes=np.concatenate(self._deletes),
            from_delete_block=np.concatenate(self._from_delete_block),
        )
        sources: ColumnSources | None = None
        row_of = np.concatenate(self._row_of)
        for name, flags in self._valued.items():
            self._has_value[name] = np.concatenate(flags)[np.maximum(row_of, 0)] & (row_of >= 0)
        if self._has_partial_rows or rules.partial is not None:
            sources = ColumnSources(rules.schema.names, fold.keys, self._has_column)
            winners = fold.winners(sources.met)
        elif rules.ordering:
            winners = fold.winners(None)
        else:
            winners = fold.last()
        deletes = fold.deletes[winners]
        return MergedLog(
            keys=codes.dictionary,
            rows=self._take(row_of, winners, deletes, sources),
            deletes=deletes,
            natural=deletes & fold.natural[winners],
            ordering=tuple(values.take(pa.array(winners)) for values in fold.ordering),
            present=sources.present() if sources else {},
            has_partial_rows=self._has_partial_rows,
            entries=self._count,
        )

    def _take(
        self,
        row_of: Positions,
        winners: Positions,
        deletes: Flags,
        sources: ColumnSources | None,
    ) -> pa.RecordBatch:
        """The winners' rows, null where a delete won; with `sources` column by column."""
        schema = self._rules.schema
        columns = []
        positions = pa.array(row_of[winners], mask=deletes)
        for place, column in enumerate(schema):
            chunks = [table.column(place) for table in self._tables]
            values = pa.concat_arrays(chunks) if chunks else pa.nulls(0, column.type)
            wanted = positions
            if sources:
                wanted = pa.array(row_of[sources.entries(column.name, winners)], mask=deletes)
            columns.append(values.take(wanted) if chunks else pa.nulls(len(winners), column.type))
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _has_column(self, entries: Positions, name: str) -> Flags:
        has = np.zeros(len(entries), dtype=np.bool_)
        for start, end, names in self._columns:
            if name in names:
                has |= (entries >= start) & (entries < end)
        if name in self._has_value:
            has &= self._has_value[name][entries]
        return has


def conformed_rows(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of `schema`, by name or name ignoring case, null where the batch has none.

    Raises CorruptTableError for values that are not of the table's types.
    """
    folded = {name.casefold(): name for name in reversed(batch.schema.names)}
    columns = []
    for wanted in schema:
        name = wanted.name if wanted.name in batch.schema.names else None
        name = name or folded.get(wanted.name.casefold())
        if name is None:
            columns.append(pa.nulls(batch.num_rows, wanted.type))
            continue
        try:
            columns.append(converted_array(batch.column(name), wanted.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise CorruptTableError(
                f"column {wanted.name} does not fit the table's type", value=error
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def compares_with(written: pa.DataType, stored: pa.DataType) -> bool:
    """Whether a delete's ordering value of one type is compared with rows' of the other.

    In a delete block a moment or time of day is the number that stores it.
    """
    if types.is_decimal(written):
        return bool(types.is_decimal(stored))
    if types.is_int64(written):
        return bool(types.is_int64(stored) or types.is_timestamp(stored) or types.is_time64(stored))
    if types.is_int32(written):
        return bool(types.is_int32(stored) or types.is_time32(stored))
    if types.is_timestamp(written):
        return bool(types.is_timestamp(stored))
    return bool(written == stored)


def _comparable(values: pa.Array, stored: pa.DataType) -> pa.Array:
    if types.is_decimal(stored):
        return pc.cast(values, stored, safe=False)
    return values if values.type == stored else values.cast(stored)


def _ordering_values(batch: pa.RecordBatch, name: str, wanted: pa.DataType) -> pa.Array:
    """The values of an ordering field, which may be nested; null where the block lacks it."""
    first, *inner = name.split(".")
    if first not in batch.schema.names:
        return pa.nulls(batch.num_rows, wanted)
    column = batch.column(first)
    for step in inner:
        if not types.is_struct(column.type) or column.type.get_field_index(step) < 0:
            return pa.nulls(batch.num_rows, wanted)
        column = pc.struct_field(column, step)
    return converted_array(column, wanted)


def _delete_flags(batch: pa.RecordBatch, rules: LogRules) -> Flags:
    """Which rows delete their key."""
    flags = np.zeros(batch.num_rows, dtype=np.bool_)
    names = batch.schema.names
    if IS_DELETED_COLUMN in names and types.is_boolean(batch.column(IS_DELETED_COLUMN).type):
        flags |= _mask(batch.column(IS_DELETED_COLUMN))
    if OPERATION_COLUMN in names and types.is_string(batch.column(OPERATION_COLUMN).type):
        flags |= _mask(pc.is_in(batch.column(OPERATION_COLUMN), value_set=_DELETE_OPERATIONS))
    if rules.delete_field in names and rules.delete_marker is not None:
        text = batch.column(rules.delete_field).cast(pa.string())
        flags |= _mask(pc.equal(text, rules.delete_marker))
    return flags


def _mask(array: pa.Array) -> Flags:
    flags: Flags = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
    return flags


def _empty_log(rules: LogRules) -> MergedLog:
    nothing = np.zeros(0, dtype=np.bool_)
    rows = pa.RecordBatch.from_arrays(
        [pa.nulls(0, item.type) for item in rules.schema], schema=rules.schema
    )
    ordering = tuple(pa.nulls(0, data_type) for _, data_type in rules.ordering)
    return MergedLog(pa.array([], pa.string()), rows, nothing, nothing, ordering)

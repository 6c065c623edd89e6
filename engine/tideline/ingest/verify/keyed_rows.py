"""The rows of both sides of a comparison, with their keys and in the types of the table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tideline.errors import ConfigError
from tideline.hudi.keys.virtual_key import column_at
from tideline.hudi.table.partial_updates import PartialUpdates
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

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Rows of a source in the columns of the table; which of them delete, and which do so in every
    partition."""

    rows: pa.RecordBatch
    keys: pa.Array
    partitions: pa.Array
    deletes: Flags
    is_wide: Flags


@dataclass(frozen=True, slots=True)
class KeyedRows(ABC):
    """How the rows of a table are made of an ingest's, and what they look like: the user's columns
    in `schema`. Keys are unique in the table, or in a partition where it `is_partitioned`."""

    ordering: tuple[str, ...]
    is_bag: bool
    deletes_only: bool
    partial: PartialUpdates | None
    schema: pa.Schema
    is_unique_in_table: bool
    is_partitioned: bool

    @abstractmethod
    def prepared(self, rows: pa.Table) -> SourceBatch:
        """Rows of the source as the table would store them, in the order of arrival. Raises
        InvalidDataError for those that it would not."""

    def of_source(
        self, rows: pa.Table, part: int, known: Known = Known.ROW, when: str = ""
    ) -> pa.Table:
        """Rows of a part of the source as `prepared`, how much is known of them, and the commit
        `when` they came; empty where that is not known."""
        batch = self.prepared(rows)
        count = batch.rows.num_rows
        more = {
            KEY: batch.keys,
            PARTITION: batch.partitions,
            DELETES: pa.array(batch.deletes),
            WIDE: pa.array(batch.is_wide),
            PART: pa.array(np.full(count, part, np.int32)),
            KNOWN: pa.array(np.full(count, known, np.int8)),
            INSERTS: pa.repeat(pa.scalar(self.is_bag), count),
            WHEN: pa.repeat(pa.scalar(when), count),
        }
        return with_columns(batch.rows, more)

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
        """Rows of the table, or none of them."""
        return self._typed({COMMIT: pa.string()}, rows)

    def _typed(self, more: Mapping[str, pa.DataType], rows: pa.Table | None) -> pa.Table:
        kinds = {KEY: pa.string(), PARTITION: pa.string(), **more}
        wanted = [*self.schema, *(pa.field(name, kind) for name, kind in kinds.items())]
        schema = pa.schema([item.with_nullable(True) for item in wanted])
        return schema.empty_table() if rows is None else rows.select(schema.names).cast(schema)


def refuse_uncomparable(uri: str, reason: str) -> None:
    """Raise ConfigError where rows do not follow from records for a reason."""
    if reason:
        raise ConfigError(f"the rows cannot be compared: {reason}", table=uri)


def with_columns(rows: pa.RecordBatch, more: Mapping[str, pa.Array]) -> pa.Table:
    """The rows with more columns."""
    table = pa.Table.from_batches([rows])
    for name, values in more.items():
        is_encoded = pa.types.is_dictionary(values.type)
        table = table.append_column(name, values.dictionary_decode() if is_encoded else values)
    return table

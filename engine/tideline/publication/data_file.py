"""A Hudi base file as Iceberg lists it: its partition, counts and bounds, from its footer.

1. Every column must be stored as Iceberg reads it: as the published type, or as one that it widens.
   A time stored in another unit than the schema says, as old writers left behind, is refused.
2. A file with field ids of its own is refused, as readers would follow those and not the names.
3. The partition is what the folder's path spells, if the bounds of the partition columns say that
   all rows have exactly these values; else the file goes to the unpartitioned spec.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.formats.parquet_footer import is_broken_footer
from tideline.iceberg.data.column_metrics import FileLeaf, FileMetrics, foreign_file_metrics
from tideline.iceberg.data.metrics_mode import FULL, MetricsConfig
from tideline.iceberg.data.name_mapping import (
    MappedField,
    has_field_ids,
    with_mapped_ids,
)
from tideline.iceberg.manifest.manifest_entry import DataFile, FileContent
from tideline.iceberg.manifest.manifest_reading import in_parallel
from tideline.iceberg.metadata.field_type import Decimal, FieldType, Fixed
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.single_value import decode_value
from tideline.iceberg.metadata.sort_order import SortOrder
from tideline.publication.columns import Leaf, leaves_of
from tideline.publication.partitions import UNPARTITIONED, PublishedPartitions
from tideline.storage.object_store import ObjectStore

_MS_PER_US = 1000


class PlacedFile(Protocol):
    """A file of rows: a base file, or one of the publication's own."""

    @property
    def partition(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...


@dataclass(frozen=True)
class Footer:
    """A file of rows and its footer."""

    file: PlacedFile
    footer: Any
    columns: pa.Schema


def read_footers(store: ObjectStore, files: Iterable[PlacedFile]) -> tuple[Footer, ...]:
    """The footers of base files, a few at a time.

    Raises ObjectNotFoundError, CorruptTableError, UnsupportedTableError and
    StorageUnavailableError.
    """
    return tuple(in_parallel(lambda file: _read_footer(store, file), files))


def read_footer_of(file: PlacedFile, body: bytes) -> Footer:
    """The footer of a file that was written just now."""
    footer = pq.ParquetFile(pa.BufferReader(body)).metadata
    return Footer(file, footer, footer.schema.to_arrow_schema())


def _read_footer(store: ObjectStore, file: PlacedFile) -> Footer:
    try:
        with store.open_reader(file.path) as reader:
            footer = pq.ParquetFile(reader).metadata
    except (ValueError, OSError) as error:
        if not is_broken_footer(error):
            raise
        message = "base file is not a parquet file"
        raise CorruptTableError(message, table=store.uri, path=file.path) from error
    columns = footer.schema.to_arrow_schema()
    if has_field_ids(columns):
        message = "a base file names its columns by ids, which Iceberg would take for its own"
        raise UnsupportedTableError(message, table=store.uri, path=file.path)
    return Footer(file, footer, columns)


@dataclass(frozen=True)
class DataFiles:
    """Makes entries of base files; `location` is the folder as the published metadata names it."""

    store: ObjectStore
    location: str
    schema: Schema
    partitions: PublishedPartitions
    mapping: tuple[MappedField, ...]
    units: Mapping[int, str]
    config: MetricsConfig

    @classmethod
    def of(
        cls,
        store: ObjectStore,
        location: str,
        columns: pa.Schema,
        schema: Schema,
        partitions: PublishedPartitions,
        mapping: tuple[MappedField, ...],
    ) -> DataFiles:
        """`columns` are the Hudi table's, `schema` and `mapping` what is published of them."""
        units = {
            leaf.field_id: leaf.type.unit
            for leaf in leaves_of(with_mapped_ids(columns, mapping))
            if leaf.field_id is not None and types.is_timestamp(leaf.type)
        }
        config = MetricsConfig.of({}, schema, SortOrder())
        sources = {
            partition_field.source_id: FULL for partition_field in partitions.specs[-1].fields
        }
        config = MetricsConfig(config.default, {**config.modes, **sources})
        return cls(store, location, schema, partitions, mapping, units, config)

    def entry(self, found: Footer) -> DataFile:
        """The entry of a base file. Raises UnsupportedTableError."""
        file, footer = found.file, found.footer
        stored = with_mapped_ids(found.columns, self.mapping)
        leaves = [self._leaf(leaf, file) for leaf in leaves_of(stored)]
        kinds = {number: field.type for number, field in self.schema.leaves().items()}
        metrics = foreign_file_metrics(footer, leaves, kinds, self.config)
        spec_id, values = self._partition(file, footer.num_rows, metrics, kinds)
        return DataFile(
            content=FileContent.DATA,
            file_path=f"{self.location}/{file.path}",
            file_format="PARQUET",
            spec_id=spec_id,
            partition=values,
            record_count=footer.num_rows,
            file_size_bytes=file.size_bytes,
            column_sizes=metrics.column_sizes,
            value_counts=metrics.value_counts,
            null_value_counts=metrics.null_value_counts,
            lower_bounds=metrics.lower_bounds,
            upper_bounds=metrics.upper_bounds,
            split_offsets=metrics.split_offsets or None,
        )

    def _leaf(self, leaf: Leaf, file: PlacedFile) -> FileLeaf:
        field = None if leaf.field_id is None else self.schema.field(leaf.field_id)
        if field is None or leaf.field_id is None:
            return FileLeaf(None, leaf.repeated)
        if not _is_read_as(leaf.type, field.type):
            message = f"column {leaf.name} is stored as {leaf.type} and published as {field.type}"
            raise self._unsupported(message, file)
        if not types.is_timestamp(leaf.type):
            return FileLeaf(leaf.field_id, leaf.repeated)
        unit = self.units.get(leaf.field_id)
        if unit != leaf.type.unit:
            message = f"column {leaf.name} is stored in {leaf.type.unit}, the schema says {unit}"
            raise self._unsupported(message, file)
        return FileLeaf(leaf.field_id, leaf.repeated, _MS_PER_US if unit == "ms" else 1)

    def _partition(
        self,
        file: PlacedFile,
        row_count: int,
        metrics: FileMetrics,
        kinds: Mapping[int, FieldType],
    ) -> tuple[int, tuple[Any, ...]]:
        values = self.partitions.values(file.partition)
        if values is None:
            return UNPARTITIONED.spec_id, ()
        spec = self.partitions.specs[-1]
        for field, value in zip(spec.fields, values, strict=True):
            number = field.source_id
            if number not in metrics.column_sizes:
                continue  # The files of this table leave the column out.
            nulls = metrics.null_value_counts.get(number)
            if value is None and nulls == row_count:
                continue
            lower, upper = metrics.lower_bounds.get(number), metrics.upper_bounds.get(number)
            if not row_count:
                continue
            if lower is None or lower != upper or nulls != 0:
                return UNPARTITIONED.spec_id, ()
            if decode_value(kinds[number], lower) != value:
                return UNPARTITIONED.spec_id, ()
        return spec.spec_id, values

    def _unsupported(self, message: str, file: PlacedFile) -> UnsupportedTableError:
        return UnsupportedTableError(message, table=self.store.uri, path=file.path)


def _is_read_as(stored: pa.DataType, kind: FieldType) -> bool:
    if isinstance(kind, Decimal):
        is_alike = types.is_decimal(stored) and stored.scale == kind.scale
        return bool(is_alike and stored.precision <= kind.precision)
    if isinstance(kind, Fixed):
        return bool(types.is_fixed_size_binary(stored) and stored.byte_width == kind.length)
    name = str(kind)
    if name in ("timestamp", "timestamptz"):
        return bool(types.is_timestamp(stored) and (stored.tz is not None) == (name[9:] == "tz"))
    return stored in _STORED.get(name, ())


_STORED: dict[str, tuple[pa.DataType, ...]] = {
    "boolean": (pa.bool_(),),
    "int": (pa.int32(), pa.int16(), pa.int8()),
    "long": (pa.int64(), pa.int32()),
    "float": (pa.float32(),),
    "double": (pa.float64(), pa.float32()),
    "date": (pa.date32(),),
    "string": (pa.string(), pa.large_string()),
    "binary": (pa.binary(), pa.large_binary()),
}

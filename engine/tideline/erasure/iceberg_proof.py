"""Which files in an Iceberg table's folders hold rows that match a condition.

Every file below the table's location is looked at, and the live files of the newest snapshot
wherever they are. Parquet files are read as they are, rows that deletes hide included, and those
that position deletes keep. What is read in no other way is named.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from tideline.erasure.report import HoldingFile, Proof, UnreadFile, Version
from tideline.errors import ConfigError, CorruptTableError, UnsupportedTableError
from tideline.formats.read_ahead import in_order, reading_threads
from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.parquet_rows import ParquetSource
from tideline.iceberg.data.position_deletes import deleted_rows
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.manifest.manifest_entry import (
    DataFile,
    FileContent,
    ManifestEntry,
    ManifestFile,
)
from tideline.iceberg.manifest.manifest_reading import entries_of, in_parallel, manifests_of
from tideline.iceberg.metadata.field_type import NestedField
from tideline.iceberg.metadata.snapshot import MAIN
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO
from tideline.spark.read.matching import columns_of_condition, count_matching
from tideline.storage.nested_tables import CONTROL_FOLDER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_METADATA = "metadata/"
_VECTORS = ".puffin"
"""Deletion vectors and statistics."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition, and the columns of the table that it asks for."""

    where: str
    fields: tuple[NestedField, ...]

    @classmethod
    def of(cls, spark: SparkSession, io: FileIO, metadata: TableMetadata, where: str) -> Condition:
        """Raises ConfigError for what Spark refuses over the table's columns."""
        fields = metadata.schema().fields
        schema = arrow_schema(fields)
        names = columns_of_condition(spark, io.location, where, schema)
        # A file that lacks a column, as equality deletes do, has nulls for it.
        found = (
            replace(nested_field, required=False)
            for nested_field in fields
            if nested_field.name in names
        )
        return cls(where, tuple(found))

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return arrow_schema(self.fields)


@dataclass(slots=True)
class TableFiles:
    """The files that snapshots list: live ones of the newest, and all others, by location."""

    newest: dict[str, DataFile] = field(default_factory=dict)
    older: dict[str, DataFile] = field(default_factory=dict)

    @classmethod
    def of(cls, io: FileIO, metadata: TableMetadata) -> TableFiles:
        """Reads every manifest once. Raises CorruptTableError, StorageUnavailableError."""
        found = cls()
        known: dict[str, list[ManifestEntry]] = {}
        for snapshot in metadata.snapshots:
            manifests = manifests_of(io, snapshot)
            unread = [
                manifest_file for manifest_file in manifests if manifest_file.path not in known
            ]

            def live(manifest: ManifestFile) -> list[ManifestEntry]:
                return list(entries_of(io, manifest, with_metrics=False, live_only=True))

            known.update(
                zip(
                    (manifest_file.path for manifest_file in unread),
                    in_parallel(live, unread),
                    strict=True,
                )
            )
            is_newest = snapshot.snapshot_id == metadata.current_snapshot_id
            files = found.newest if is_newest else found.older
            for manifest in manifests:
                files |= {
                    manifest_entry.data_file.file_path: manifest_entry.data_file
                    for manifest_entry in known[manifest.path]
                }
        return found

    def version(self, location: str) -> Version:
        """Which snapshots list a file."""
        if location in self.newest:
            return Version.NEWEST
        return Version.OLDER if location in self.older else Version.NONE

    def get(self, location: str) -> DataFile | None:
        """What is known of a file."""
        return self.newest.get(location) or self.older.get(location)


def prove_iceberg(
    spark: SparkSession, io: FileIO, metadata: TableMetadata, condition: Condition
) -> Proof:
    """Count the rows that match in every file.

    Raises UnsupportedTableError for the folder of a Hudi table.
    """
    files = TableFiles.of(io, metadata)
    sizes, unread = _listed(io, metadata, files)
    reading = _Reading(io, RowLayout.of(metadata), condition, files, sizes)
    with closing(reading.rows()) as rows:
        counts = count_matching(spark, io.location, condition.where, condition.schema, rows)
    holding = (
        HoldingFile(path, count, files.version(path)) for path, count in sorted(counts.items())
    )
    missed = sorted((*unread, *reading.unread), key=lambda unread_file: unread_file.path)
    return Proof(tuple(holding), tuple(missed), len(sizes))


@dataclass(slots=True)
class _Reading:
    """Some files at a time; `unread` grows while they are read."""

    io: FileIO
    layout: RowLayout
    condition: Condition
    files: TableFiles
    sizes: dict[str, int]
    unread: list[UnreadFile] = field(default_factory=list)

    def rows(self) -> Generator[tuple[str, pa.RecordBatch]]:
        """Batches, each with the location of its file."""
        return in_order(sorted(self.sizes), self._rows, reading_threads())

    def _rows(self, location: str) -> Iterator[tuple[str, pa.RecordBatch]]:
        known = self.files.get(location)
        constants = {} if known is None else self.layout.constants(known)
        mapping = self.layout.mapping
        source = ParquetSource(self.io, location, self.sizes[location], mapping, constants)
        schema = self.condition.schema
        try:
            for found in self._batches(source, known):
                columns = [
                    item if item.type == wanted.type else item.cast(wanted.type)
                    for item, wanted in zip(found.columns, schema, strict=True)
                ]
                yield location, pa.RecordBatch.from_arrays(columns, schema=schema)
        except (CorruptTableError, UnsupportedTableError) as error:
            self.unread.append(UnreadFile(location, error.message))

    def _batches(self, source: ParquetSource, known: DataFile | None) -> Iterator[pa.RecordBatch]:
        fields = self.condition.fields
        if known is not None and known.content is FileContent.POSITION_DELETES:
            return deleted_rows(source, fields)
        return (found.rows for found in source.batches(fields))


def _listed(
    io: FileIO, metadata: TableMetadata, files: TableFiles
) -> tuple[dict[str, int], list[UnreadFile]]:
    """The parquet files to read with their sizes, and what else there is that may hold rows."""
    sizes = {path: file.file_size_bytes for path, file in files.newest.items()}
    root = metadata.location.rstrip("/")
    for location, info in io.list(root):
        below = location.removeprefix(f"{root}/")
        if below.startswith(f"{CONTROL_FOLDER}/"):
            message = "a Hudi table is in this folder, with Iceberg metadata: erase from that"
            raise UnsupportedTableError(message, table=root)
        if not below.startswith(_METADATA) and info.size_bytes:
            sizes[location] = info.size_bytes
    others: list[UnreadFile] = []
    for location in list(sizes):
        known = files.get(location)
        if location.endswith((_VECTORS, ".crc")):
            del sizes[location]
        elif not location.endswith(".parquet") and (
            known is None or known.file_format != "PARQUET"
        ):
            del sizes[location]
            others.append(UnreadFile(location, "it is no parquet file"))
    return sizes, others


def refuse_other_refs(metadata: TableMetadata) -> None:
    """Raise ConfigError for branches and tags, which keep snapshots that hold the rows."""
    others = sorted(name for name in metadata.refs if name != MAIN)
    if others:
        raise ConfigError(
            "branches and tags are in the way, whose snapshots may hold the rows: drop them first",
            table=metadata.location,
            value=", ".join(others),
        )

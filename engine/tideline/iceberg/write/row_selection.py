"""Which rows of a table a write takes out: by a condition, by partition, or all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tideline.formats.row_filter import RowFilter
from tideline.iceberg.commit.file_identity import PartitionKey, partition_key
from tideline.iceberg.data.arrow_schema import arrow_schema, arrow_type, as_arrow
from tideline.iceberg.data.condition_pruning import ConditionPruning
from tideline.iceberg.data.nested_column import ColumnPath
from tideline.iceberg.data.partition_values import PartitionSplitter
from tideline.iceberg.data.row_values import ABSENT, RowValues
from tideline.iceberg.manifest.manifest_entry import DataFile, ManifestFile
from tideline.iceberg.metadata.partition_spec import PartitionSpec
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.pruning import FilePruning

RowNumbers = npt.NDArray[np.int64]


class RowSelection(Protocol):
    """Some rows of one state of a table."""

    @property
    def pruning(self) -> FilePruning | None:
        """Which files may have such rows; None: any."""

    @property
    def row_filter(self) -> RowFilter | None:
        """Which row groups may."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns that `numbers` looks at."""

    def of_file(self, file: DataFile) -> bool | None:
        """Whether all rows of a file are selected, or none; None where its rows are to be read."""

    def numbers(self, rows: pa.RecordBatch) -> RowNumbers:
        """Which of these rows are, counted from 0."""


@dataclass(frozen=True, slots=True)
class AllRows:
    """Every row."""

    pruning: None = None
    row_filter: None = None
    columns: frozenset[str] = frozenset()

    def of_file(self, file: DataFile) -> bool:  # noqa: ARG002
        return True

    def numbers(self, rows: pa.RecordBatch) -> RowNumbers:
        return np.arange(rows.num_rows, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class MatchingRows:
    """The rows for which a condition holds."""

    row_filter: RowFilter
    pruning: FilePruning

    @classmethod
    def of(cls, where: Any, metadata: TableMetadata) -> MatchingRows:
        """Raises ConfigError for what is no condition on the table's rows."""
        row_filter = RowFilter.of(where, arrow_schema(metadata.schema().fields))
        return cls(row_filter, ConditionPruning(row_filter, metadata))

    @property
    def columns(self) -> frozenset[str]:
        return self.row_filter.columns

    def of_file(self, file: DataFile) -> None:  # noqa: ARG002
        return None

    def numbers(self, rows: pa.RecordBatch) -> RowNumbers:
        return self.row_filter.numbers(rows)


@dataclass(frozen=True, slots=True)
class RowsOfPartitions:
    """The rows of some partitions of one spec, in files of older specs as well."""

    metadata: TableMetadata
    spec: PartitionSpec
    partitions: frozenset[PartitionKey]
    values: RowValues
    row_filter: None = None

    @classmethod
    def of(
        cls, files: Iterable[DataFile], spec: PartitionSpec, metadata: TableMetadata
    ) -> RowsOfPartitions:
        """The partitions of new files, which are of this spec."""
        kinds = spec.partition_type(metadata.schema()).fields
        partitions = {partition_key(file): file.partition for file in files}
        columns = [
            pa.array(
                [as_arrow(values[at], kind.type) for values in partitions.values()],
                arrow_type(kind.type),
            )
            for at, kind in enumerate(kinds)
        ]
        return cls(metadata, spec, frozenset(partitions), RowValues.of(columns))

    @property
    def pruning(self) -> FilePruning:
        return _OfPartitions(self)

    @property
    def columns(self) -> frozenset[str]:
        fields = self.metadata.schema().fields
        found = (ColumnPath.find(fields, field.source_id) for field in self.spec.fields)
        return frozenset(fields[path.column].name for path in found if path is not None)

    def of_file(self, file: DataFile) -> bool | None:
        return partition_key(file) in self.partitions if file.spec_id == self.spec.spec_id else None

    def numbers(self, rows: pa.RecordBatch) -> RowNumbers:
        schema = self.metadata.schema()
        kept = tuple(field for field in schema.fields if field.name in rows.schema.names)
        columns = PartitionSplitter(self.spec, Schema(schema.schema_id, kept)).columns(rows)
        kinds = self.spec.partition_type(schema).fields
        typed = [
            column.cast(arrow_type(kind.type)) for column, kind in zip(columns, kinds, strict=True)
        ]
        return np.flatnonzero(self.values.numbers(typed) != ABSENT)


@dataclass(frozen=True, slots=True)
class _OfPartitions:
    """See `FilePruning`."""

    selection: RowsOfPartitions
    needs_metrics: bool = field(default=False)

    def manifest_may_match(self, manifest: ManifestFile) -> bool:  # noqa: ARG002
        return True

    def partition_may_match(self, file: DataFile) -> bool:
        return self.selection.of_file(file) is not False

    def file_may_match(self, file: DataFile) -> bool:
        return self.partition_may_match(file)

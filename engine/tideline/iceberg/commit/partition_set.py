"""A set of partitions, and whether a manifest can hold a file of one of them.

A manifest list says of each manifest, partition field by partition field, which values its files
have: whether there are nulls and NaNs, and a lower and an upper bound (spec, "Manifest Lists").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tideline.errors import CorruptTableError
from tideline.iceberg.commit.file_identity import partition_key
from tideline.iceberg.manifest.manifest_entry import DataFile, FieldSummary, ManifestFile
from tideline.iceberg.metadata.field_type import FieldType
from tideline.iceberg.metadata.single_value import decode_value
from tideline.iceberg.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class PartitionSet:
    """Distinct partition tuples by spec id."""

    by_spec: Mapping[int, tuple[tuple[Any, ...], ...]]

    @classmethod
    def of(cls, files: Iterable[DataFile]) -> PartitionSet:
        """The partitions of some files."""
        distinct = {partition_key(file): file.partition for file in files}
        by_spec: dict[int, list[tuple[Any, ...]]] = {}
        for (spec_id, _), partition in distinct.items():
            by_spec.setdefault(spec_id, []).append(partition)
        return cls({spec_id: tuple(tuples) for spec_id, tuples in by_spec.items()})

    def meets(self, manifest: ManifestFile, metadata: TableMetadata) -> bool:
        """Whether the manifest can hold a file of these partitions; in doubt it can."""
        partitions = self.by_spec.get(manifest.spec_id)
        if partitions is None or manifest.partitions is None:
            return partitions is not None
        spec = metadata.spec(manifest.spec_id)
        types = spec.partition_type(metadata.partition_schema(spec)).fields
        if len(types) != len(manifest.partitions):
            return True
        pairs = zip(types, manifest.partitions, strict=True)
        ranges = [_Range.of(field.type, summary) for field, summary in pairs]
        return any(
            all(candidate.holds(value) for candidate, value in zip(ranges, partition, strict=True))
            for partition in partitions
        )


@dataclass(frozen=True, slots=True)
class _Range:
    """The values of one partition field in one manifest; without bounds only nulls and NaNs,
    unless they could not be read."""

    summary: FieldSummary
    lower: Any
    upper: Any
    is_readable: bool

    @classmethod
    def of(cls, type_: FieldType, summary: FieldSummary) -> _Range:
        lower, upper = summary.lower_bound, summary.upper_bound
        if lower is None or upper is None:
            return cls(summary, None, None, lower is None and upper is None)
        try:
            return cls(summary, decode_value(type_, lower), decode_value(type_, upper), True)
        except CorruptTableError:
            return cls(summary, None, None, False)

    def holds(self, value: Any) -> bool:
        if not self.is_readable:
            return True
        if value is None:
            return self.summary.contains_null
        if value != value:
            return self.summary.contains_nan is not False
        if self.lower is None:
            return False
        if isinstance(value, UUID):
            # Iceberg's Java has them in another order.
            return True
        try:
            return bool(self.lower <= value <= self.upper)
        except TypeError:
            return True

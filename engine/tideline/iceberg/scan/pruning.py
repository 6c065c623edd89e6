"""What a filter lets a scan skip: manifests by their partition summaries, files by their partition
and their column metrics.

What an old or foreign writer left out is taken as unknown, and nothing is skipped for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol

from tideline.iceberg.manifest.manifest_entry import DataFile, FieldSummary, ManifestFile
from tideline.iceberg.metadata.field_type import FieldType, PrimitiveType, parts_of
from tideline.iceberg.metadata.single_value import decode_value
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.bound_filter import ALWAYS, BoundFilter, BoundPredicate, may_hold
from tideline.iceberg.scan.projection import project
from tideline.iceberg.scan.value_range import UNKNOWN, ValueRange


class FilePruning(Protocol):
    """What a scan asks before it looks at a manifest or a file."""

    @property
    def needs_metrics(self) -> bool:
        """Whether `file_may_match` looks at metrics."""

    def manifest_may_match(self, manifest: ManifestFile) -> bool:
        """Whether a file of the manifest may have selected rows, by its summaries."""

    def partition_may_match(self, file: DataFile) -> bool:
        """Whether the partition of a data or delete file may have selected rows."""

    def file_may_match(self, file: DataFile) -> bool:
        """Whether a data file may have selected rows, by its partition and its metrics."""


class Pruning:
    """A filter over one table, asked what may hold rows that it selects."""

    def __init__(self, condition: BoundFilter, metadata: TableMetadata) -> None:
        self._condition = condition
        self._metadata = metadata
        self._projected = cache(self._project)

    @property
    def needs_metrics(self) -> bool:
        """See `FilePruning`."""
        return self._condition != ALWAYS

    def manifest_may_match(self, manifest: ManifestFile) -> bool:
        """See `FilePruning`."""
        summaries = manifest.partitions
        condition = self._projected(manifest.spec_id)
        if condition == ALWAYS or summaries is None:
            return True
        return may_hold(condition, lambda bound_predicate: _summary_may(bound_predicate, summaries))

    def partition_may_match(self, file: DataFile) -> bool:
        """See `FilePruning`."""
        condition = self._projected(file.spec_id)
        if condition == ALWAYS:
            return True
        return may_hold(
            condition, lambda bound_predicate: _value_may(bound_predicate, file.partition)
        )

    def file_may_match(self, file: DataFile) -> bool:
        """See `FilePruning`."""
        if not self.partition_may_match(file):
            return False
        if file.record_count == 0:
            return self._condition == ALWAYS
        return may_hold(
            self._condition, lambda bound_predicate: _metrics_may(bound_predicate, file)
        )

    def _project(self, spec_id: int) -> BoundFilter:
        return project(self._condition, self._metadata.spec(spec_id))


def _value_may(predicate: BoundPredicate, partition: tuple[Any, ...]) -> bool:
    if predicate.reference >= len(partition):
        return True
    known = ValueRange.of_value(partition[predicate.reference])
    return known.may_satisfy(predicate.operator, predicate.values)


def _summary_may(predicate: BoundPredicate, summaries: tuple[FieldSummary, ...]) -> bool:
    if predicate.reference >= len(summaries):
        return True
    known = summary_range(predicate.type, summaries[predicate.reference])
    return known.may_satisfy(predicate.operator, predicate.values)


def summary_range(type_: PrimitiveType, summary: FieldSummary) -> ValueRange:
    """What a manifest says of one partition value of all its files."""
    may_be_nan = has_nan(type_) and summary.contains_nan is not False
    is_bare = summary.lower_bound is None and summary.upper_bound is None
    return ValueRange(
        may_be_null=summary.contains_null,
        # No bounds and no NaN: there is nothing but null.
        may_be_set=not is_bare or may_be_nan,
        may_be_nan=may_be_nan,
        is_only_nan=is_bare and summary.contains_nan is True,
        lower=_bound(type_, summary.lower_bound),
        upper=_bound(type_, summary.upper_bound),
    )


def _metrics_may(predicate: BoundPredicate, file: DataFile) -> bool:
    known = metrics_range(predicate.reference, predicate.type, file)
    return known.may_satisfy(predicate.operator, predicate.values)


def metrics_range(field_id: int, type_: PrimitiveType, file: DataFile) -> ValueRange:
    """What a file's metrics say of one column."""
    values = _count(file.value_counts, field_id)
    nulls = _count(file.null_value_counts, field_id)
    nans = _count(file.nan_value_counts, field_id)
    lower = (file.lower_bounds or {}).get(field_id)
    upper = (file.upper_bounds or {}).get(field_id)
    if values is None and nulls is None and lower is None and upper is None:
        return UNKNOWN
    is_set = values is None or nulls is None or values > nulls
    return ValueRange(
        may_be_null=nulls is None or nulls != 0,
        may_be_set=is_set,
        may_be_nan=has_nan(type_) and nans != 0,
        is_only_nan=nans is not None and is_set and nans == values,
        lower=_bound(type_, lower),
        upper=_bound(type_, upper),
    )


def has_nan(type_: PrimitiveType) -> bool:
    """Whether values of a type may be NaN."""
    return str(type_) in ("float", "double")


def _count(counts: Mapping[int, int] | None, field_id: int) -> int | None:
    return None if counts is None else counts.get(field_id)


def _bound(type_: FieldType, body: bytes | None) -> Any:
    """A bound's value; None when there is none, or none that orders values for certain."""
    # Writers disagree on the order of UUIDs, and some took NaN for a bound.
    if body is None or parts_of(type_) or str(type_) == "uuid":
        return None
    value = decode_value(type_, body)
    return None if value != value else value

"""What a condition in Arrow lets a scan skip: manifests, files by their partition and by metrics.

An expression is not taken apart: Arrow is asked whether it can hold for rows where the ranges of
some columns are known (`RowFilter.may_hold`). Of a column in buckets no range is known. There the
values that the condition requires are found in its text, and Arrow is asked whether it can hold for
any others; where it cannot, the buckets of these values are left.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tideline.formats.filter import Operator
from tideline.formats.row_filter import RowFilter, printed
from tideline.iceberg.data.arrow_schema import arrow_type, as_arrow, as_internal
from tideline.iceberg.manifest.manifest_entry import DataFile, ManifestFile
from tideline.iceberg.metadata.field_type import Decimal, Fixed, Primitive, PrimitiveType
from tideline.iceberg.metadata.partition_spec import PartitionField, Transform
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.partition_value import partition_value
from tideline.iceberg.scan.pruning import has_nan, metrics_range, summary_range
from tideline.iceberg.scan.source_range import source_range
from tideline.iceberg.scan.value_range import ValueRange

_WITHOUT_PARTS = (Primitive, Decimal, Fixed)
_PARTITIONS_KEPT = 10_000
_VALUES_MAX = 100
_NAN = re.compile(r"\bnan\b|nan_is_null=true")
_Known = list[Sequence[pc.Expression]]


class ConditionPruning:
    """A condition over the rows of one table; see `FilePruning`."""

    def __init__(self, row_filter: RowFilter, metadata: TableMetadata) -> None:
        self._filter = row_filter
        self._metadata = metadata
        self._columns = {
            field.field_id: _Column(field.name, field.type)
            for field in metadata.schema().fields
            if field.name in row_filter.columns
            and isinstance(field.type, _WITHOUT_PARTS)
            and _is_ordered(field.type, row_filter)
        }
        self._partition_may = lru_cache(_PARTITIONS_KEPT)(self._partition_may_match)
        self._buckets = cache(self._required_buckets)

    @property
    def needs_metrics(self) -> bool:
        """See `FilePruning`."""
        return bool(self._columns)

    def manifest_may_match(self, manifest: ManifestFile) -> bool:
        """See `FilePruning`."""
        summaries = manifest.partitions
        if summaries is None:
            return True
        spec = self._metadata.spec(manifest.spec_id)
        kinds = spec.partition_type(self._metadata.schema()).fields
        pairs = zip(spec.fields, kinds, summaries, strict=False)
        return self._may_match(
            (field, summary_range(kind.type, summary))
            for field, kind, summary in pairs
            if self._is_read(field) and isinstance(kind.type, _WITHOUT_PARTS)
        )

    def partition_may_match(self, file: DataFile) -> bool:
        """See `FilePruning`."""
        return not self._columns or self._partition_may(file.spec_id, file.partition)

    def file_may_match(self, file: DataFile) -> bool:
        """See `FilePruning`."""
        if not self.partition_may_match(file):
            return False
        known = _of_partition(self._fields(file.spec_id, file.partition), self._columns)
        for number, column in self._columns.items():
            known += column.known(metrics_range(number, column.type, file))
        return self._filter.may_hold(known)

    def _fields(
        self, spec_id: int, partition: tuple[Any, ...]
    ) -> list[tuple[PartitionField, ValueRange]]:
        return [
            (field, ValueRange.of_value(value))
            for field, value in zip(self._metadata.spec(spec_id).fields, partition, strict=False)
            if self._is_read(field)
        ]

    def _is_read(self, field: PartitionField) -> bool:
        return field.source_id in self._columns and field.transform.is_known

    def _partition_may_match(self, spec_id: int, partition: tuple[Any, ...]) -> bool:
        return self._may_match(self._fields(spec_id, partition))

    def _may_match(self, fields: Any) -> bool:
        found = list(fields)
        for field, known in found:
            if field.transform.name == "bucket":
                buckets = self._buckets(field.source_id, field.transform)
                if buckets is not None and not known.may_satisfy(Operator.IN, buckets):
                    return False
        return self._filter.may_hold(_of_partition(found, self._columns))

    def _required_buckets(self, source_id: int, transform: Transform) -> tuple[int, ...] | None:
        column = self._columns[source_id]
        values = _required_values(self._filter, column)
        if values is None or not transform.width:
            return None
        return tuple({partition_value(transform, column.type, value) for value in values})


def _is_ordered(type_: PrimitiveType, row_filter: RowFilter) -> bool:
    """Whether Arrow draws the right conclusions from ranges of a column. Where a condition names
    NaN, it takes NaN for a number that others are greater than, and for what is never null."""
    return not has_nan(type_) or _NAN.search(printed(row_filter.expression)) is None


@dataclass(frozen=True, slots=True)
class _Column:
    """A column that the condition reads."""

    name: str
    type: PrimitiveType

    def known(self, values: ValueRange) -> _Known:
        """What a range says of the column, as `RowFilter.may_hold` takes it; nothing where it says
        nothing."""
        column = pc.field(self.name)
        if not values.may_be_set:
            return [[column.is_null()]]
        # A range leaves NaN out.
        bounds = [] if values.may_be_nan else self._bounds(column, values)
        if not bounds and values.may_be_null:
            return []
        within = column.is_valid()
        for bound in bounds:
            within &= bound
        return [[within, column.is_null()] if values.may_be_null else [within]]

    def _bounds(self, column: pc.Expression, values: ValueRange) -> list[pc.Expression]:
        found = []
        try:
            if values.lower is not None:
                found.append(column >= as_arrow(values.lower, self.type))
            if values.upper is not None:
                found.append(column <= as_arrow(values.upper, self.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return []
        return found


def _of_partition(
    fields: Sequence[tuple[PartitionField, ValueRange]], columns: dict[int, _Column]
) -> _Known:
    known: _Known = []
    for field, values in fields:
        column = columns[field.source_id]
        known += column.known(source_range(field.transform, column.type, values))
    return known


def _required_values(row_filter: RowFilter, column: _Column) -> list[Any] | None:
    """The values that allow a row in the column, which must have one of them; None where there are
    others."""
    kind = arrow_type(column.type)
    try:
        texts = _compared_texts(printed(row_filter.expression), column.name)
        found = sorted({pa.scalar(text).cast(kind).as_py() for text in texts})
    except (pa.ArrowException, TypeError, ValueError):
        return None
    if not 0 < len(found) <= _VALUES_MAX:
        return None
    values = [pa.scalar(value, kind) for value in found]
    field = pc.field(column.name)
    others = [field.is_null(), field < values[0], field > values[-1]]
    others += [(field > item) & (field < two) for item, two in pairwise(values)]
    if row_filter.possible(others):
        return None
    return [as_internal(value, column.type) for value in values]


def _compared_texts(text: str, name: str) -> list[str]:
    """What a column is compared with, as Arrow prints it: only a guess of what is meant."""
    column = re.escape(name)
    single = re.findall(rf'\({column} == ("(?:[^"\\]|\\.)*"|[^()"]+)\)', text)
    found = [json.loads(item) if item.startswith('"') else item for item in single]
    for listed in re.findall(rf"is_in\({column}, {{value_set=\w+:\[\n(.*?)\n\]", text, re.DOTALL):
        items = [part.strip() for part in listed.split(",\n")]
        # Quotes within are not escaped there.
        found += [item[1:-1] if item.startswith('"') else item for item in items]
    return found

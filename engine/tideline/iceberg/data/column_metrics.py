"""Metrics of the columns of a parquet file, from its footer: what manifests record of a data file.

1. Sizes of every column; the offsets of its row groups, where readers may split it.
2. Numbers of values and nulls, and bounds, of columns outside lists and maps.
3. Numbers of NaN, which no footer has: they are counted while rows are written.

A bound that was cut stays a bound: a lower one is a prefix, an upper one a prefix whose last
character is raised.

Source: Iceberg's `ParquetMetrics`, `UnicodeUtil`, `BinaryUtil`.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from tideline.formats.text_order import text_after
from tideline.iceberg.data.metrics_mode import MetricsConfig, MetricsMode
from tideline.iceberg.data.nested_column import ColumnPath
from tideline.iceberg.metadata.field_type import (
    CarriedVariant,
    Decimal,
    FieldType,
    Fixed,
    NestedField,
    Primitive,
    walk_leaves,
)
from tideline.iceberg.metadata.single_value import encode_value


@dataclass(frozen=True, slots=True)
class FileMetrics:
    """The metrics of one file, by field id."""

    column_sizes: Mapping[int, int]
    value_counts: Mapping[int, int]
    null_value_counts: Mapping[int, int]
    nan_value_counts: Mapping[int, int]
    lower_bounds: Mapping[int, bytes]
    upper_bounds: Mapping[int, bytes]
    split_offsets: tuple[int, ...]


class NanCounter:
    """Counts NaN in the columns that can have any."""

    def __init__(self, fields: Sequence[NestedField], config: MetricsConfig) -> None:
        self._paths = {
            number: path
            for number, kind, repeated in walk_leaves(fields)
            if not repeated
            and kind in (Primitive("float"), Primitive("double"))
            and config.mode(number).has_counts
            and (path := ColumnPath.find(fields, number)) is not None
        }
        self.counts = dict.fromkeys(self._paths, 0)

    def add(self, batch: pa.RecordBatch) -> None:
        """Count those of a batch of all fields."""
        for number, path in self._paths.items():
            self.counts[number] += pc.sum(pc.is_nan(path.values(batch))).as_py() or 0

    def add_counts(self, counts: Mapping[int, int]) -> None:
        """Add what was counted elsewhere."""
        for number in self.counts:
            self.counts[number] += counts[number]


def file_metrics(
    footer: Any, fields: Sequence[NestedField], config: MetricsConfig, nans: Mapping[int, int]
) -> FileMetrics:
    """Metrics of a file with these fields; `footer` is its FileMetaData."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    found = FileMetrics({}, {}, {}, nans, {}, {}, tuple(_offset(group) for group in groups))
    for index, (number, kind, repeated) in enumerate(walk_leaves(fields)):
        mode = config.mode(number)
        if mode.has_counts and not isinstance(kind, CarriedVariant):
            chunks = [group.column(index) for group in groups]
            _add_column(found, number, kind, mode, chunks, repeated=repeated)
    return found


@dataclass(frozen=True, slots=True)
class FileLeaf:
    """A column of simple values in a file that Iceberg did not write: the id of its field, None
    where it has none, whether it is within a list or map, and what multiplies its statistics."""

    field_id: int | None
    repeated: bool
    factor: int = 1


def foreign_file_metrics(
    footer: Any, leaves: Sequence[FileLeaf], kinds: Mapping[int, FieldType], config: MetricsConfig
) -> FileMetrics:
    """Metrics of a file whose columns are `leaves`, in the file's order, read as `kinds`.

    Nobody counted its NaN.
    """
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    found = FileMetrics({}, {}, {}, {}, {}, {}, tuple(_offset(group) for group in groups))
    for index, leaf in enumerate(leaves):
        if leaf.field_id is None or not config.mode(leaf.field_id).has_counts:
            continue
        chunks = [group.column(index) for group in groups]
        kind, mode = kinds[leaf.field_id], config.mode(leaf.field_id)
        _add_column(
            found, leaf.field_id, kind, mode, chunks, repeated=leaf.repeated, factor=leaf.factor
        )
    return found


def _offset(group: Any) -> int:
    first = group.column(0)
    dictionary, data = first.dictionary_page_offset, first.data_page_offset
    return int(data if dictionary is None else min(dictionary, data))


def _add_column(
    found: Any,
    number: int,
    kind: FieldType,
    mode: MetricsMode,
    chunks: Any,
    *,
    repeated: bool,
    factor: int = 1,
) -> None:
    found.column_sizes[number] = sum(chunk.total_compressed_size for chunk in chunks)
    statistics = [chunk.statistics for chunk in chunks]
    if repeated or any(
        statistic is None or not statistic.has_null_count for statistic in statistics
    ):
        return
    found.value_counts[number] = sum(chunk.num_values for chunk in chunks)
    found.null_value_counts[number] = sum(statistic.null_count for statistic in statistics)
    filled = [statistic for statistic in statistics if statistic.num_values]
    if not mode.has_bounds or not filled or not all(item.has_min_max for item in filled):
        return
    lower = cut_below(min(_value(kind, item.min_raw) for item in filled), mode.length_max)
    upper = cut_above(max(_value(kind, item.max_raw) for item in filled), mode.length_max)
    if factor != 1:
        lower, upper = lower * factor, upper * factor
    found.lower_bounds[number] = encode_value(kind, lower)
    if upper is not None:
        found.upper_bounds[number] = encode_value(kind, upper)


def _value(kind: FieldType, raw: Any) -> Any:
    """A statistic as Iceberg's internal value, compared as Iceberg compares."""
    match kind:
        case Primitive(name="string"):
            return raw.decode()
        case Primitive(name="uuid"):
            return UUID(bytes=bytes(raw))
        case Primitive(name="binary") | Fixed():
            return bytes(raw)
        case Decimal():
            digits = raw if isinstance(raw, int) else int.from_bytes(raw, "big", signed=True)
            with decimal.localcontext(prec=38):
                return decimal.Decimal(digits).scaleb(-kind.scale)
    return raw


def cut_below(value: Any, length_max: int | None) -> Any:
    """The longest prefix allowed of a text or bytes; other values as they are."""
    return value[:length_max] if isinstance(value, str | bytes) else value


def cut_above(value: Any, length_max: int | None) -> Any:
    """The least value with so short a prefix that is above all with that prefix, or None."""
    if length_max is None or not isinstance(value, str | bytes) or len(value) <= length_max:
        return value
    return text_after(value[:length_max]) if isinstance(value, str) else _raised(value, length_max)


def _raised(value: bytes, length: int) -> bytes | None:
    prefix = value[:length].rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None

"""Column values read back from partition paths, for pruning partitions natively.

Spark takes the values of a partition column from here and not from the data files, so a value
counts only when it is certain to equal the stored one:

1. The key generator wrote it as it is: one path level per field, no formatted time.
2. Its text is exactly what Hudi writes for a value of the column's type, and shows no sign that the
   table's properties are silent about: hive style, url encoding.
3. It is not a placeholder that stands for null or for empty text, whichever it was.

Any partition that fails this is read without pruning. Tables whose files leave the partition
columns out have no other value than the path's text.
Source: Hudi's KeyGenUtils, PartitionPathEncodeUtils, HoodieSparkUtils.parsePartitionColumnValues.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
from pyarrow import types

from tideline.errors import UnsupportedTableError
from tideline.hudi.table.properties import KeyGeneratorKind, TableConfig

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
# What Hudi before 0.12 wrote instead.
_OLD_DEFAULT_PARTITION = "default"
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")
_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_INTEGER = re.compile("0|-?[1-9][0-9]*", re.ASCII)
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A partition field: its column, and its level in the path; `type` None if not recoverable."""

    name: str
    type: pa.DataType | None


@dataclass(frozen=True, slots=True)
class PartitionLayout:
    """How the partition paths of a table spell the values of its partition columns."""

    columns: tuple[PartitionColumn, ...]
    hive_style: bool = False
    url_encode: bool = False
    is_dropped: bool = False
    """The files leave the columns out, so that the text of the path is their value."""

    @classmethod
    def of(cls, config: TableConfig, schema: pa.Schema) -> PartitionLayout | None:
        """The layout of a table with this schema, None when no value can be recovered."""
        if config.drop_partition_columns:
            names = config.partition_fields
            columns = tuple(PartitionColumn(name, pa.string()) for name in names)
            return cls(columns, config.hive_style, config.url_encode, is_dropped=True)
        try:
            kind = config.key_generator
        except UnsupportedTableError:
            # Reading does not need to know how keys are made.
            return None
        if kind is KeyGeneratorKind.TIMESTAMP:
            return None
        columns = tuple(
            _column(name, "" if spec == "SIMPLE" else spec, schema)
            for name, spec in zip(
                config.partition_fields, config.partition_field_types, strict=True
            )
        )
        if all(column.type is None for column in columns):
            return None
        return cls(columns, config.hive_style, config.url_encode)

    @property
    def schema(self) -> pa.Schema:
        """The columns whose values are recovered."""
        return pa.schema([(item.name, item.type) for item in self.columns if item.type is not None])

    def values(self, partition: str) -> tuple[str | None, ...] | None:
        """Per column of `schema` its value as text, None for null; None if any is uncertain."""
        texts = self.texts(partition)
        if texts is None:
            return None
        values: list[str | None] = []
        for column, text in zip(self.columns, texts, strict=True):
            if column.type is None:
                continue
            if self.is_dropped:
                values.append(None if text == DEFAULT_PARTITION else text)
            elif text in (DEFAULT_PARTITION, _OLD_DEFAULT_PARTITION):
                if types.is_string(column.type) or text == _OLD_DEFAULT_PARTITION:
                    return None
                values.append(None)
            elif _is_canonical(text, column.type):
                values.append(text)
            else:
                return None
        return tuple(values)

    def scalars(self, partition: str) -> dict[str, pa.Scalar]:
        """The values of the columns of `schema`, in their types; none if any is uncertain."""
        values = self.values(partition)
        if values is None:
            return {}
        try:
            return {
                field.name: pa.scalar(text, pa.string()).cast(field.type)
                for field, text in zip(self.schema, values, strict=True)
            }
        except pa.ArrowInvalid:
            # A spelling that Python takes for a number and Arrow does not.
            return {}

    def texts(self, partition: str) -> tuple[str, ...] | None:
        """Per column the text of its level, None when the path is not spelt as the layout says."""
        levels = partition.split("/")
        if self.is_dropped and len(self.columns) == 1:
            levels = [partition]
        if len(levels) != len(self.columns):
            return None
        texts = []
        for column, level in zip(self.columns, levels, strict=True):
            prefix, text = f"{column.name}=", level
            if level.startswith(prefix) is not self.hive_style:
                return None
            if self.hive_style:
                text = level.removeprefix(prefix)
            if self.url_encode:
                text = unescape(text)
            elif _ESCAPED.search(text) and not self.is_dropped:
                return None
            texts.append(text)
        return tuple(texts)


def unescape(text: str) -> str:
    """Undo the url encoding of a partition value: `%XX` is the character of that code."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def split_by_certainty(
    partitions: Iterable[str], layout: PartitionLayout | None
) -> tuple[dict[str, tuple[str | None, ...]], list[str]]:
    """Partitions with their certain values, and the partitions that have none."""
    certain: dict[str, tuple[str | None, ...]] = {}
    uncertain = []
    for partition in partitions:
        values = layout.values(partition) if layout else None
        if values is None:
            uncertain.append(partition)
        else:
            certain[partition] = values
    return certain, uncertain


def _column(name: str, spec: str, schema: pa.Schema) -> PartitionColumn:
    indices = schema.get_all_field_indices(name)
    if spec or len(indices) != 1:
        return PartitionColumn(name, None)
    data_type = schema.field(indices[0]).type
    recoverable = any(matches(data_type) for matches in _CANONICAL)
    return PartitionColumn(name, data_type if recoverable else None)


def _is_canonical(text: str, data_type: pa.DataType) -> bool:
    """Whether Hudi writes exactly one value of the type as `text`."""
    return any(
        matches(data_type) and is_canonical(text, data_type)
        for matches, is_canonical in _CANONICAL.items()
    )


def _is_date(text: str, _: pa.DataType) -> bool:
    try:
        return bool(_DATE.fullmatch(text)) and date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _is_integer(text: str, data_type: pa.DataType) -> bool:
    if not _INTEGER.fullmatch(text) or len(text) > 20:
        return False
    limit = _INT32_MAX if types.is_int32(data_type) else _INT64_MAX
    return -limit - 1 <= int(text) <= limit


def _is_real(text: str, data_type: pa.DataType) -> bool:
    """Java's shortest text of a finite number names one value, however it is spelt."""
    try:
        number = float(text)
    except ValueError:
        return False
    if types.is_float32(data_type):
        with np.errstate(over="ignore"):
            number = float(np.float32(number))
    # Minus zero is left out: Spark holds the two zeros equal, a stored value may be either.
    return math.isfinite(number) and number != 0 and text.isascii() and "_" not in text


def _is_decimal(text: str, data_type: pa.DataType) -> bool:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return False
    if not number.is_finite() or "_" in text:
        return False
    exponent = number.as_tuple().exponent
    whole_digits = data_type.precision - data_type.scale
    return bool(exponent == -data_type.scale and abs(number) < Decimal(10) ** whole_digits)


_CANONICAL: dict[Callable[[pa.DataType], bool], Callable[[str, pa.DataType], bool]] = {
    types.is_string: lambda text, _: text != "",
    types.is_boolean: lambda text, _: text in ("true", "false"),
    types.is_int32: _is_integer,
    types.is_int64: _is_integer,
    types.is_float32: _is_real,
    types.is_float64: _is_real,
    types.is_date32: _is_date,
    types.is_decimal128: _is_decimal,
}

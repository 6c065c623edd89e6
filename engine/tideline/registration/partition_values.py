"""Partition folders as the values of a metastore's partition columns. Pure.

A folder has a level for each column, `value` or `column=value`. A time that a key generator
formats may have several (`2024/01/05`), which are its value, and so has the only column of a table
whose values are not escaped. What was escaped for the path is stored as it was before. A day or a
time that the path has as a number is stored as a day or a time: engines cannot read the number in
a column of that type.

Source: Hudi's MultiPartKeysValueExtractor and PartitionPathEncodeUtils.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import copy
from datetime import datetime, timedelta
from itertools import islice
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import types

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.hudi.keys.key_generator import ESCAPED_CHARACTERS, TimestampFormat
from tideline.hudi.table.table_config import KeyGeneratorKind, TableConfig
from tideline.registration.metastore import RegisteredColumn

_EPOCH = datetime(1970, 1, 1)
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_NUMBER = re.compile("-?[0-9]{1,19}", re.ASCII)
_WHOLE_NUMBERS = frozenset({"int", "bigint"})
_ESCAPES = str.maketrans({character: f"%{ord(character):02X}" for character in ESCAPED_CHARACTERS})


class PartitionValues:
    """How a table's partition folders become values."""

    def __init__(self, config: TableConfig, columns: Iterable[pa.Field] = ()) -> None:
        """`columns` are those of the table. Raises what reading the properties raises."""
        self.columns = config.partition_fields
        self.times = time_columns(config)
        self._dated = {
            column.name: column.type
            for column in columns
            if column.name not in self.times and _is_dated(column.type)
        }
        self._is_escaped = config.url_encode
        self._table = config.table_uri

    def registered_as(self, columns: Iterable[RegisteredColumn]) -> PartitionValues:
        """The same for a metastore that has the partition columns in these types: a number stays
        one in a column of numbers, as which some of Hudi's writers register times."""
        numbers = {column.name for column in columns if column.type.lower() in _WHOLE_NUMBERS}
        found = copy(self)
        found._dated = {
            name: kind for name, kind in self._dated.items() if name.lower() not in numbers
        }
        return found

    def folders(self, found: Iterable[str]) -> Mapping[tuple[str, ...], str]:
        """Folders by their values. Raises as `of`, and UnsupportedTableError for two of the same
        values."""
        known: dict[tuple[str, ...], str] = {}
        for folder in found:
            other = known.setdefault(self.of(folder), folder)
            if other != folder:
                message = f"partitions {other} and {folder} have the same values in a metastore"
                raise UnsupportedTableError(message, table=self._table, path=folder)
        return known

    def of(self, folder: str) -> tuple[str, ...]:
        """The values of a folder, none in a table without partition columns.

        Raises UnsupportedTableError for one that does not have a value for each column.
        """
        if not self.columns:
            return ()
        levels = folder.split("/")
        widths = [self.times.get(column, 1) for column in self.columns]
        if len(widths) == 1:
            widths = [len(levels)]
        if len(levels) != sum(widths) or not all(levels):
            message = (
                f"a partition's folder has not one level for each of {', '.join(self.columns)}: "
                "the table cannot be registered with partitions"
            )
            raise UnsupportedTableError(message, table=self._table, path=folder)
        rest = iter(levels)
        texts = ("/".join(islice(rest, width)) for width in widths)
        return tuple(map(self._value, self.columns, texts))

    def _value(self, column: str, level: str) -> str:
        text = level.removeprefix(f"{column}=")
        text = unquote(text) if self._is_escaped else text
        kind = self._dated.get(column)
        return text if kind is None or not _NUMBER.fullmatch(text) else _dated(int(text), kind)


def time_columns(config: TableConfig) -> dict[str, int]:
    """Partition columns whose folders are formatted times, and so no values of the column, with
    the number of levels of each."""
    kinds = zip(config.partition_fields, config.partition_field_types, strict=True)
    is_timed = config.key_generator is KeyGeneratorKind.TIMESTAMP
    names = [name for name, kind in kinds if is_timed or kind == "TIMESTAMP"]
    if not names:
        return {}
    try:
        output_format = TimestampFormat.from_properties(config.properties).output_format
    except ConfigError as error:
        raise UnsupportedTableError(error.message, table=config.table_uri) from error
    return dict.fromkeys(names, 1 + output_format.count("/"))


def partition_name(columns: Iterable[str], values: Iterable[str]) -> str:
    """A partition as Hive names it: `column=value/column=value`, escaped."""
    pairs = zip(columns, values, strict=True)
    return "/".join(f"{_escaped(column.lower())}={_escaped(value)}" for column, value in pairs)


def _is_dated(kind: pa.DataType) -> bool:
    return bool(types.is_date32(kind) or types.is_timestamp(kind))


def _dated(number: int, kind: pa.DataType) -> str:
    """A day or a time as Hive spells it; the number where it is in no year of four digits."""
    try:
        if types.is_date32(kind):
            return (_EPOCH + timedelta(days=number)).date().isoformat()
        seconds, part = divmod(number, _PER_SECOND[kind.unit])
        second = (_EPOCH + timedelta(seconds=seconds)).isoformat(" ")
    except OverflowError:
        return str(number)
    digits = len(str(_PER_SECOND[kind.unit])) - 1
    return f"{second}.{part:0{digits}d}" if part else second


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)

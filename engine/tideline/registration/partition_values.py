"""Partition folders as the values of a metastore's partition columns. Pure.

A folder has a level for each column, `value` or `column=value`. A time that a key generator
formats may have several (`2024/01/05`), which are its value, and so has the only column of a table
whose values are not escaped. What was escaped for the path is stored as it was before. A day that
the path has as a number is stored as a day: engines cannot read the number.

Source: Hudi's MultiPartKeysValueExtractor and PartitionPathEncodeUtils.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta
from itertools import islice
from urllib.parse import unquote

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.hudi.keys.key_generator import ESCAPED_CHARACTERS, TimestampFormat
from tideline.hudi.table.table_config import KeyGeneratorKind, TableConfig

_EPOCH = date(1970, 1, 1)
_ESCAPES = str.maketrans({character: f"%{ord(character):02X}" for character in ESCAPED_CHARACTERS})


class PartitionValues:
    """How a table's partition folders become values."""

    def __init__(self, config: TableConfig, days: Iterable[str] = ()) -> None:
        """`days` are the columns that hold dates. Raises what reading the properties raises."""
        self.columns = config.partition_fields
        self.times = time_columns(config)
        self._days = frozenset(days) - self.times.keys()
        self._is_escaped = config.url_encode
        self._table = config.table_uri

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
        if column in self._days and text.lstrip("-").isdigit():
            return (_EPOCH + timedelta(days=int(text))).isoformat()
        return text


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


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)

"""Values of the columns of a life: of each type some that engines have spelled differently.

A value is Python's, as pyarrow gives it back; `literal` is the same value in Spark SQL.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from decimal import Decimal
from enum import Enum
from typing import Any

import pyarrow as pa

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY = dt.date(2024, 1, 1)
_SOME: dict[str, tuple[Any, ...]] = {
    "int": (0, -1, 2**31 - 1, -(2**31)),
    "bigint": (0, -1, 2**63 - 1, -(2**63), 10**15),
    "double": (0.5, -1.25, 1e7, 1e-4, 123456.789, 1e15, -3.0, 0.1),
    "decimal(12,3)": (Decimal("0.000"), Decimal("-1.500"), Decimal("123456789.125")),
    "string": ("a", "B b", "é", "x-y_z", "0012", "1e3"),
    "date": (dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2099, 12, 31)),
    "timestamp": (
        dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=dt.UTC),
        dt.datetime(2024, 3, 10, 7, 30, tzinfo=dt.UTC),
        dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
    ),
    "boolean": (True, False),
}


class ColumnType(Enum):
    """The types that keys and partitions have; the name in Spark SQL and the type in Arrow."""

    INT = ("int", pa.int32())
    LONG = ("bigint", pa.int64())
    DOUBLE = ("double", pa.float64())
    DECIMAL = ("decimal(12,3)", pa.decimal128(12, 3))
    STRING = ("string", pa.string())
    DATE = ("date", pa.date32())
    TIMESTAMP = ("timestamp", pa.timestamp("us", "UTC"))
    BOOLEAN = ("boolean", pa.bool_())

    def __init__(self, sql: str, arrow: pa.DataType) -> None:
        self.sql = sql
        self.arrow = arrow

    def some(self, chance: random.Random, count: int) -> Sequence[Any]:
        """Distinct values, at most `count`: odd ones among ordinary ones."""
        odd = _SOME[self.sql]
        chosen = chance.sample(odd, min(len(odd), max(1, count // 2)))
        if self is not ColumnType.BOOLEAN:
            chosen += [self._ordinary(number) for number in range(count)]
        return list(dict.fromkeys(chosen))[:count]

    def _ordinary(self, number: int) -> Any:
        made: dict[ColumnType, Any] = {
            ColumnType.INT: 100 + number,
            ColumnType.LONG: 10**10 + number,
            ColumnType.DOUBLE: 100.25 + number,
            ColumnType.DECIMAL: Decimal(100_250 + number).scaleb(-3),
            ColumnType.STRING: f"s{number}",
            ColumnType.DATE: _DAY + dt.timedelta(days=number),
            ColumnType.TIMESTAMP: _EPOCH + dt.timedelta(days=19_000 + number, seconds=number),
        }
        return made[self]

    def literal(self, value: Any) -> str:
        """The value in Spark SQL, with its type."""
        if value is None:
            return f"cast(null as {self.sql})"
        constants = (ColumnType.TIMESTAMP, ColumnType.DATE, ColumnType.BOOLEAN)
        return self.constant(value) if self in constants else f"cast('{value}' as {self.sql})"

    def constant(self, value: Any) -> str:
        """The value where Spark SQL takes constants alone."""
        if self is ColumnType.TIMESTAMP:
            return f"timestamp'{value:%Y-%m-%d %H:%M:%S.%f}+00:00'"
        if self is ColumnType.DATE:
            return f"date'{value.isoformat()}'"
        if self is ColumnType.BOOLEAN:
            return str(value).lower()
        if self is ColumnType.DOUBLE:
            return f"{value!r}D"
        return f"'{value}'" if self is ColumnType.STRING else str(value)

"""Rows with every type a table may hold, for tests that compare readers of different makers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("line", pa.int32()),
        ("region", pa.string()),
        ("ts", pa.int64()),
        ("price", pa.decimal128(10, 2)),
        ("total", pa.decimal128(30, 4)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("count", pa.int32()),
        ("ratio", pa.float32()),
        ("score", pa.float64()),
        ("flag", pa.bool_()),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("parts", pa.list_(pa.struct([("name", pa.string()), ("size", pa.int32())]))),
        ("attributes", pa.map_(pa.string(), pa.int64())),
        ("nested", pa.struct([("x", pa.int32()), ("deep", pa.struct([("y", pa.string())]))])),
    ]
)

_NULLABLE = tuple(name for name in SCHEMA.names if name not in ("id", "line", "region", "ts"))
_EPOCH = datetime(2024, 2, 28, 23, 59, 59, 123456, tzinfo=UTC)


def typed_rows(
    numbers: Iterable[int],
    *,
    version: int,
    regions: tuple[str, ...] = ("north", "south", "east"),
    shift: int = 0,
) -> pa.Table:
    """Rows of `SCHEMA` for these numbers; a higher version has a higher ordering value.

    A number's key never changes and its region changes only with `shift`. Every seventh row holds
    nulls wherever it may.
    """
    rows = [_row(number, version, regions[(number + shift) % len(regions)]) for number in numbers]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _row(number: int, version: int, region: str) -> dict[str, Any]:
    scale = number * 37 + version
    row: dict[str, Any] = {
        "id": f"k{number}",
        "line": number % 2,
        "region": region,
        "ts": version * 1_000,
        "price": Decimal(scale % 9_999_999).scaleb(-2),
        "total": Decimal(scale * 10**20 + number).scaleb(-4),
        "at": _EPOCH + timedelta(days=number, microseconds=scale),
        "day": date(1969, 12, 30) + timedelta(days=scale % 40_000),
        "count": -scale,
        "ratio": scale / 4,
        "score": scale / 7,
        "flag": scale % 2 == 0,
        "raw": bytes([number % 256, version % 256, 0]),
        "tags": [f"t{position}é" for position in range(number % 4)],
        "parts": [{"name": f"p{position}", "size": scale} for position in range(number % 3)],
        "attributes": {f"a{position}": scale + position for position in range(number % 3)},
        "nested": {"x": scale, "deep": {"y": f"v{version}"}},
    }
    if number % 7 == 6:
        row |= dict.fromkeys(_NULLABLE)
    return row

"""Tables of ORC base files that Hudi wrote: read here to the rows that were written.

Hudi's own reads of them are no measure: on Spark 3.5 they fail for most, and of a time it writes no
thousandths of a second. Its times are told by the clock of the writer, here one west of UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tideline.check_finding import Severity
from tideline.errors import UnsupportedTableError
from tideline.hudi.open_table import open_table
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer, HudiPeerIn, metadata_table, version_options
from tideline.testing.table_audit import merged_rows

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.spark]

TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")
WEST = "America/Los_Angeles"
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("ts", pa.int64()),
        ("n", pa.int32()),
        ("short", pa.float32()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(10, 2)),
        ("list", pa.list_(pa.int64())),
        ("map", pa.map_(pa.string(), pa.int32())),
        ("inner", pa.struct([("Deep", pa.int32()), ("text", pa.string())])),
        ("bytes", pa.binary()),
        ("yes", pa.bool_()),
    ]
)
WINTER, SUMMER = datetime(2014, 12, 31, 23, tzinfo=UTC), datetime(2024, 7, 1, 12, tzinfo=UTC)


def row(key: str, ts: int, n: int, *, full: bool = True) -> dict[str, Any]:
    values = {
        "n": n,
        "short": 1.5,
        "at": SUMMER if n % 2 else WINTER,
        "price": Decimal("12.34"),
        "list": [n, None],
        "map": [("k", n)],
        "inner": {"Deep": n, "text": None},
        "bytes": b"\0\xff",
        "yes": n > 1,
    }
    empty = dict.fromkeys(values)
    return {"id": key, "part": f"p{ord(key) % 2}", "ts": ts, **(values if full else empty)}


FIRST = [row("a", 1, 1), row("b", 1, 2), row("c", 1, 3), row("d", 1, 4, full=False)]
SECOND = [row("a", 2, 11), row("b", 0, 12), row("e", 2, 5)]
NOW = [SECOND[0], FIRST[1], FIRST[3], SECOND[2]]
"""By event time, and c is deleted."""


def write(peer: HudiPeer, path: Path, table_type: str, version: int) -> None:
    options = {
        "hoodie.table.name": "in_orc",
        "hoodie.table.base.file.format": "ORC",
        "hoodie.base.file.format": "ORC",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.payload.class": (
            "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
        ),
        "hoodie.write.record.merge.custom.implementation.classes": (
            "org.apache.hudi.common.model.HoodieAvroRecordMerger"
        ),
        "hoodie.index.type": "SIMPLE",
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.compact.inline": "false",
        **version_options(version),
        **metadata_table(version),
    }
    for operation, rows in (("insert", FIRST), ("upsert", SECOND), ("delete", FIRST[2:3])):
        made = pa.Table.from_pylist(rows, schema=SCHEMA)
        peer.write(str(path), made, operation=operation, options=options)


def by_key(rows: pa.Table) -> list[dict[str, Any]]:
    found = rows.select(SCHEMA.names).cast(SCHEMA).to_pylist()
    return sorted(found, key=lambda item: str(item["id"]))


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("table_type", TYPES)
def test_the_rows_are_those_that_were_written(
    spark: SparkSession,
    tmp_path: Path,
    hudi_peer_in: HudiPeerIn,
    table_type: str,
    version: int,
) -> None:
    path = tmp_path / "in_orc"
    write(hudi_peer_in(WEST), path, table_type, version)
    assert list(path.rglob("*.orc"))
    assert not list(path.glob("p*/*.parquet"))
    table = open_table(StoreLocation.of(path))
    table.instants.declare_zone(WEST)
    assert by_key(merged_rows(table)) == NOW
    lake = LakeTable(table)
    assert by_key(lake.snapshot(spark).toArrow()) == NOW
    first = table.timeline().completed().first()
    assert first is not None
    assert by_key(lake.snapshot(spark, as_of=first.time).toArrow()) == FIRST
    changed = lake.incremental(spark, first.completed_at or first.time).toArrow()
    assert {item["id"] for item in by_key(changed)} == {"a", "e"}
    assert [
        finding for finding in lake.check(keys=True) if finding.severity is Severity.ERROR
    ] == []
    with pytest.raises(UnsupportedTableError, match="base files in ORC are read, not written"):
        lake.write(lake.snapshot(spark).drop("_hoodie_commit_time"))

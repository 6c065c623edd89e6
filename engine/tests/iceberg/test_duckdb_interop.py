"""DuckDB reads what Iceberg's Spark runtime reads, before our maintenance and after it: through
partitions of every transform, with filters that prune files, and with equality deletes."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest

from tideline.iceberg.services.rewrite_data_files.in_process import write_groups_here
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.run import rewrite_data_files
from tideline.iceberg.services.rewrite_manifests.execute import execute_manifests
from tideline.iceberg.services.rewrite_manifests.plan import ManifestOptions
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.table.table_operations import Committed
from tideline.testing.iceberg_peer import IcebergPeer
from tideline.testing.iceberg_peer_tables import PeerTable
from tideline.testing.json_line_process import PeerLostError

pytestmark = [pytest.mark.interop, pytest.mark.slow]

FILTERS = (
    "id between 5 and 9",
    "region = 'r1' and flag",
    "region is null",
    "count in (14, 35)",
    "price > 20.5",
    "ratio <= 3",
    "day < date '1970-01-01'",
    "seen >= timestamp '1970-01-01 06:00:00'",
    "place.zip = 8",
)


@dataclass(frozen=True)
class Partitions:
    """How a table is partitioned, and what is done to it afterwards."""

    fields: tuple[str, ...]
    format_version: int
    statements: tuple[str, ...]


SOME_DELETED = ("delete from {table} where id % 8 = 5",)
PARTITIONS = {
    "identity, bucket, year, hour": Partitions(
        ("region", "bucket(3, id)", "years(day)", "hours(seen)"), 2, SOME_DELETED
    ),
    "truncate, month, day": Partitions(
        ("flag", "truncate(20, count)", "truncate(1, region)", "months(day)", "days(seen)"),
        3,
        SOME_DELETED,
    ),
    "void": Partitions(
        ("region", "truncate(500, price)"), 1, ("alter table {table} drop partition field region",)
    ),
}


def rewrite(table: PeerTable, **options: str) -> None:
    chosen = {"rewrite-all": "true"}
    chosen |= {name.replace("_", "-"): value for name, value in options.items()}
    rewrite_data_files(
        IcebergTable.open(table.uri), RewriteOptions.parse(chosen, properties={}), write_groups_here
    )


def spark_rows(table: PeerTable) -> list[str]:
    return in_order(table.peer.read(table.uri))


def duckdb_rows(table: PeerTable) -> list[str]:
    return in_order(table.peer.duckdb_read(table.uri))


def spark_finds(table: PeerTable) -> dict[str, list[int]]:
    """The ids that every filter leaves."""
    scans = (
        f"select {number} as filter, id from {table.sql_name} where {where}"
        for number, where in enumerate(FILTERS)
    )
    found = table.peer.sql(" union all ".join(scans)).to_pylist()
    return {
        where: sorted(row["id"] for row in found if row["filter"] == number)
        for number, where in enumerate(FILTERS)
    }


def duckdb_finds(table: PeerTable) -> dict[str, list[int]]:
    return {
        where: sorted(table.peer.duckdb_read(table.uri, where)["id"].to_pylist())
        for where in FILTERS
    }


def in_order(rows: pa.Table) -> list[str]:
    """As text, in which one NaN is like another and 0.0 is not like -0.0."""
    return [repr(row) for row in sorted(rows.to_pylist(), key=lambda row: row["id"])]


@pytest.mark.parametrize("case", PARTITIONS)
def test_partitions_hold_the_same_rows_under_every_filter(
    iceberg_peer: IcebergPeer, case: str
) -> None:
    chosen = PARTITIONS[case]
    table = PeerTable.create(
        iceberg_peer, partition_by=chosen.fields, format_version=chosen.format_version
    )
    table.insert(0, 2, 5, 6, 8, 10)
    table.insert(13, 14, 16, 17, 21, 22)
    for statement in chosen.statements:
        table.run(statement)
    before = spark_rows(table)
    found = spark_finds(table)
    assert all(0 < len(ids) < len(before) for ids in found.values()), found
    rewrite(table)
    assert spark_rows(table) == before == duckdb_rows(table)
    assert spark_finds(table) == found == duckdb_finds(table)


def test_equality_deletes_hold_until_they_are_applied(iceberg_peer: IcebergPeer) -> None:
    table = PeerTable.create(iceberg_peer, partition_by=("region",))
    table.insert(*range(6), *range(7, 13))
    table.delete_equal("id", [1, 4], partition="region=r1")
    table.delete_equal("count", [0, 21], partition="region=r0")
    table.insert(1, 3)
    table.run("alter table {table} rename column count to number")
    before = spark_rows(table)
    assert len(before) == 12 - 4 + 2
    assert duckdb_rows(table) == before
    run = execute_manifests(IcebergTable.open(table.uri).operations, ManifestOptions())
    assert isinstance(run.outcome, Committed)
    assert spark_rows(table) == before == duckdb_rows(table)
    rewrite(table)
    assert spark_rows(table) == before == duckdb_rows(table)
    rewrite(table, remove_dangling_deletes="true")
    assert spark_rows(table) == before == duckdb_rows(table)


def test_zeros_of_two_signs_that_only_duckdb_takes_for_equal(iceberg_peer: IcebergPeer) -> None:
    table = PeerTable.create(iceberg_peer)
    table.insert(0, 1, 2, 10)
    table.run("update {table} set ratio = double('-0.0') where id = 1")
    table.delete_equal("ratio", [0.0, float("nan")])
    before = spark_rows(table)
    assert [row.partition(",")[0] for row in before] == ["{'id': 1", "{'id': 2"]
    assert duckdb_rows(table) == before[1:]
    rewrite(table, remove_dangling_deletes="true")
    assert spark_rows(table) == before == duckdb_rows(table)


def test_equality_deletes_next_to_a_null_partition_that_duckdb_cannot_read(
    iceberg_peer: IcebergPeer,
) -> None:
    table = PeerTable.create(iceberg_peer, partition_by=("region",))
    table.insert(*range(8))
    table.delete_equal("id", [1, 4], partition="region=r1")
    before = spark_rows(table)
    assert len(before) == 6
    with pytest.raises(PeerLostError):
        duckdb_rows(table)
    rewrite(table, remove_dangling_deletes="true")
    assert spark_rows(table) == before == duckdb_rows(table)


def test_equality_deletes_of_a_dropped_column_that_duckdb_cannot_read(
    iceberg_peer: IcebergPeer,
) -> None:
    table = PeerTable.create(iceberg_peer)
    table.insert(*range(6))
    table.delete_equal("count", [7, 14])
    table.run("alter table {table} drop column count")
    before = spark_rows(table)
    assert len(before) == 4
    with pytest.raises(PeerLostError):
        duckdb_rows(table)
    rewrite(table, remove_dangling_deletes="true")
    assert spark_rows(table) == before == duckdb_rows(table)

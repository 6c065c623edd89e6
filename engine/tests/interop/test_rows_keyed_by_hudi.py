"""Rows that Hudi keyed in a spelling of its own are deleted and erased by the keys they have."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tideline.errors import UnsupportedTableError
from tideline.lake_table import LakeTable
from tideline.testing.hudi_peer import HudiPeer, version_options

pytestmark = [pytest.mark.interop, pytest.mark.spark]

WRITE = "hoodie.datasource.write."
MOR, COW = "mor", "cow"
FIRST = dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
VALUES = """values
    (cast(1 as bigint), timestamp'2024-01-02 03:04:05', cast(10 as bigint)),
    (cast(2 as bigint), timestamp'2024-01-02 03:04:05.123456', cast(20 as bigint)),
    (cast(3 as bigint), timestamp'1969-12-31 23:59:59.999', cast(30 as bigint))
    as x(id, at, v)"""


def made(peer: HudiPeer, folder: Path, kind: str, table_type: str, version: int = 9) -> LakeTable:
    """Three rows, written by Hudi's SQL or its data source."""
    settings = {"hoodie.metadata.enable": "false", **version_options(version)}
    properties = f"type = '{table_type}', {listed(settings)}"
    name = f"keyed_{uuid4().hex}"
    using = f"using hudi location '{folder}'"
    if kind == "partition":
        peer.run_statement(
            f"create table {name} (id bigint, v bigint, at timestamp) {using} "
            f"tblproperties({properties}, primaryKey = 'id') partitioned by (at)"
        )
        peer.run_statement(f"insert into {name} select id, v, at from {VALUES}")
    elif kind == "composite":
        peer.run_statement(
            f"create table {name} {using} tblproperties({properties}, primaryKey = 'id,at') "
            f"as select * from {VALUES}"
        )
    elif kind == "simple":
        peer.run_statement(
            f"create table {name} {using} tblproperties({properties}, primaryKey = 'at') "
            f"as select * from {VALUES}"
        )
    else:
        bulk_insert(peer, folder, name, table_type)
    return LakeTable.open(str(folder))


def listed(settings: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}' = '{text}'" for name, text in settings.items())


def bulk_insert(peer: HudiPeer, folder: Path, name: str, table_type: str) -> None:
    moments = [FIRST, FIRST.replace(microsecond=123456), dt.datetime(1969, 12, 31, tzinfo=dt.UTC)]
    rows = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int64()),
            "at": pa.array(moments, pa.timestamp("us", "UTC")),
            "v": pa.array([10, 20, 30], pa.int64()),
        }
    )
    options = {
        f"{WRITE}recordkey.field": "id,at",
        f"{WRITE}partitionpath.field": "v,at",
        f"{WRITE}keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
        f"{WRITE}table.type": {"mor": "MERGE_ON_READ", "cow": "COPY_ON_WRITE"}[table_type],
        "hoodie.table.name": name,
        "hoodie.metadata.enable": "false",
        **version_options(9),
    }
    peer.write(str(folder), rows, operation="bulk_insert", options=options)


def ids(peer: HudiPeer, table: LakeTable) -> list[int]:
    """The rows that are left, as both readers see them."""
    ours = sorted(table.to_arrow(["id"]).column("id").to_pylist())
    theirs = sorted(peer.read(table.uri, columns=["id"]).column("id").to_pylist())
    assert ours == theirs
    return ours


@pytest.mark.slow_with(
    "bulk_insert-cow-spark",
    "bulk_insert-mor-in_process",
    "bulk_insert-mor-spark",
    "composite-cow-in_process",
    "composite-cow-spark",
    "composite-mor-in_process",
    "partition-cow-in_process",
    "partition-cow-spark",
    "partition-mor-spark",
    "simple-cow-spark",
    "simple-mor-in_process",
    "simple-mor-spark",
)
@pytest.mark.parametrize("small", ["in_process", "spark"])
@pytest.mark.parametrize("table_type", [COW, MOR])
@pytest.mark.parametrize("kind", ["partition", "composite", "simple", "bulk_insert"])
def test_the_rows_that_match_are_deleted(
    hudi_peer: HudiPeer, spark: SparkSession, tmp_path: Path, kind: str, table_type: str, small: str
) -> None:
    table = made(hudi_peer, tmp_path / small, kind, table_type)
    done = table.delete("id <= 2 and v > 10", spark=spark, options={"tideline.engine.small": small})
    assert (done.rows_deleted, ids(hudi_peer, table)) == (1, [1, 3])
    erased = table.erase("v = 30", prove=True, spark=spark)
    assert (erased.matching, erased.is_complete) == (1, True)
    assert ids(hudi_peer, table) == [1]


@pytest.mark.slow_with("bulk_insert-spark", "composite-spark", "partition-spark")
@pytest.mark.parametrize("small", ["in_process", "spark"])
@pytest.mark.parametrize("kind", ["partition", "composite", "simple", "bulk_insert"])
def test_rows_that_are_written_again_are_not_doubled(
    hudi_peer: HudiPeer, spark: SparkSession, tmp_path: Path, kind: str, small: str
) -> None:
    table = made(hudi_peer, tmp_path / small, kind, COW)
    rows = table.to_arrow(["id", "at", "v"])
    options = {"tideline.engine.small": small}
    report = table.write(spark.createDataFrame(rows), "upsert", options=options)
    assert (report.rows_updated, report.rows_inserted) == (3, 0)
    assert ids(hudi_peer, table) == [1, 2, 3]
    assert table.write(spark.createDataFrame(rows), "delete", options=options).rows_deleted == 3
    assert ids(hudi_peer, table) == []


@pytest.mark.slow
@pytest.mark.parametrize("version", [6, 8])
@pytest.mark.parametrize(("kind", "table_type"), [("partition", MOR), ("composite", COW)])
def test_rows_of_older_versions_are_written_deleted_and_erased(
    hudi_peer: HudiPeer,
    spark: SparkSession,
    tmp_path: Path,
    version: int,
    kind: str,
    table_type: str,
) -> None:
    table = made(hudi_peer, tmp_path / "t", kind, table_type, version)
    assert table.hoodie_table.config.version == version
    rows = table.to_arrow(["id", "at", "v"])
    report = table.write(rows, "upsert")
    assert (report.rows_updated, report.rows_inserted) == (3, 0)
    assert (table.delete("v = 20", spark=spark).rows_deleted, ids(hudi_peer, table)) == (1, [1, 3])
    erased = table.erase("v = 30", prove=True, spark=spark)
    assert (erased.matching, erased.is_complete, ids(hudi_peer, table)) == (1, True, [1])


def test_a_table_with_both_spellings_is_refused_and_rows_are_deleted_from_it(
    hudi_peer: HudiPeer, spark: SparkSession, tmp_path: Path
) -> None:
    table = made(hudi_peer, tmp_path / "t", "composite", COW)
    rows = table.to_arrow(["id", "at", "v"])
    name = hudi_peer.table_at(table.uri)
    hudi_peer.run_statement("set hoodie.spark.sql.insert.into.operation=upsert")
    try:
        hudi_peer.run_statement(
            f"insert into {name} values (cast(1 as bigint), "
            "timestamp'2024-01-02 03:04:05', cast(11 as bigint))"
        )
    finally:
        hudi_peer.run_statement("reset hoodie.spark.sql.insert.into.operation")
    table = LakeTable.open(table.uri)
    assert ids(hudi_peer, table) == [1, 1, 2, 3]
    with pytest.raises(UnsupportedTableError, match="some as text"):
        table.write(rows, "upsert")
    table.delete("v = 11", spark=spark)
    assert ids(hudi_peer, table) == [1, 2, 3]

"""DataFrames written by key between commits of Iceberg's Spark runtime, read by three readers."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tideline
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.spark.arrow_frame import frame_of
from tideline.testing.iceberg_peer import IcebergPeer

pytestmark = [pytest.mark.spark, pytest.mark.interop]

COLUMNS = pa.schema([("id", pa.int64()), ("part", pa.string()), ("n", pa.int32())])
Model = dict[int, tuple[str, int]]


def rows(found: Model) -> pa.Table:
    cells = [(number, part, n) for number, (part, n) in found.items()]
    return pa.Table.from_pylist([dict(zip(COLUMNS.names, c, strict=True)) for c in cells], COLUMNS)


def readers(peer: IcebergPeer, name: str, table: IcebergLakeTable) -> dict[str, pa.Table]:
    uri = str(peer.warehouse / "keyed" / name.rpartition(".")[2])
    return {
        "spark": peer.sql(f"select * from {name}"),
        "pyiceberg": peer.pyiceberg_read(uri),
        "tideline": table.refresh().to_arrow(),
    }


@pytest.mark.parametrize(
    ("version", "mode"),
    [
        (3, "merge-on-read"),
        pytest.param(2, "merge-on-read", marks=pytest.mark.slow),
        pytest.param(2, "copy-on-write", marks=pytest.mark.slow),
        pytest.param(3, "copy-on-write", marks=pytest.mark.slow),
    ],
)
def test_others_read_every_commit_and_write_between(
    version: int, mode: str, iceberg_peer: IcebergPeer, spark: SparkSession
) -> None:
    name = f"lake.keyed.v{version}{mode[0]}"
    modes = ", ".join(f"'write.{what}.mode'='{mode}'" for what in ("delete", "merge"))
    iceberg_peer.run(
        f"create table {name} (id bigint, part string, n int) using iceberg "
        f"partitioned by (part) tblproperties ('format-version'='{version}', {modes})"
    )
    table = tideline.open_iceberg(str(iceberg_peer.warehouse / "keyed" / name.rpartition(".")[2]))
    chance, model = random.Random(version), Model()
    for step in range(4):
        given: Model = {chance.randrange(40): (f"p{step % 2}", step) for _ in range(12)}
        frame = frame_of(spark, rows(given)).repartition(2)
        table.refresh().write(frame, "upsert", key="id")
        model |= given
        if step % 2:
            iceberg_peer.run(f"delete from {name} where n = {step - 1}")
            model = {number: cell for number, cell in model.items() if cell[1] != step - 1}
            gone = chance.sample(sorted(model), min(3, len(model)))
            keys = pa.table([pa.array(gone, pa.int64())], names=["id"])
            table.refresh().write(frame_of(spark, keys), "delete", key="id")
            model = {number: cell for number, cell in model.items() if number not in gone}
        for reader, found in readers(iceberg_peer, name, table).items():
            assert sorted(found.to_pylist(), key=lambda row: row["id"]) == sorted(
                rows(model).to_pylist(), key=lambda row: row["id"]
            ), (reader, step)
    assert not table.check()

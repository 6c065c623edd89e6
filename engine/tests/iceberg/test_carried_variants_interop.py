"""Tables with variants that Iceberg's Spark runtime made: written here and by Spark's tasks between
its commits, and read by it after each, and by DuckDB."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tideline
from tideline.errors import UnsupportedTableError
from tideline.spark.arrow_frame import frame_of
from tideline.testing.iceberg_peer import IcebergPeer

pytestmark = [pytest.mark.spark, pytest.mark.interop]

COLUMNS = pa.schema([("id", pa.int64()), ("n", pa.int32())])
IN_DUCKDB = "id, case when v is not null then v::json::varchar end v, n"
Found = dict[int, tuple[str | None, int]]


def rows(numbers: list[int], n: int) -> pa.Table:
    return pa.table([numbers, [n] * len(numbers)], schema=COLUMNS)


def text(number: int) -> str:
    return f'{{"a":{number},"b":[1,"x"]}}'


def found(peer: IcebergPeer, name: str) -> Found:
    read = peer.sql(f"select id, cast(v as string) v, n from {name}").to_pylist()
    assert len({row["id"] for row in read}) == len(read)
    return {row["id"]: (row["v"], row["n"]) for row in read}


@pytest.mark.parametrize(
    ("mode", "order"),
    [
        ("copy-on-write", "write ordered by n, id"),
        pytest.param("copy-on-write", "write unordered", marks=pytest.mark.slow),
        pytest.param("merge-on-read", "write unordered", marks=pytest.mark.slow),
    ],
)
def test_spark_reads_every_commit_and_writes_between(
    mode: str, order: str, iceberg_peer: IcebergPeer, spark: SparkSession
) -> None:
    name = f"lake.variants.{mode[0]}{len(order)}"
    modes = ", ".join(f"'write.{what}.mode'='{mode}'" for what in ("delete", "merge", "update"))
    iceberg_peer.run(
        f"create table {name} (id bigint, v variant, n int) using iceberg "
        f"tblproperties ('format-version'='3', {modes})",
        f"alter table {name} {order}",
        f"insert into {name} select id, "
        """parse_json(concat('{"a":', id, ',"b":[1,"x"]}')), 0 from range(0, 40)""",
    )
    table = tideline.open_iceberg(str(iceberg_peer.warehouse / name[5:].replace(".", "/")))
    model: Found = {number: (text(number), 0) for number in range(40)}

    table.write(frame_of(spark, rows([*range(5, 45)][::5], 1)), "upsert", key="id")
    model |= dict.fromkeys([*range(5, 45)][::5], (None, 1))
    assert found(iceberg_peer, name) == model

    given = frame_of(spark, rows([6, 7, 50], 2)).withColumn("v", F.parse_json(F.lit('{"c": [2]}')))
    table.refresh().write(given, "upsert", key="id")
    model |= dict.fromkeys([6, 7, 50], ('{"c":[2]}', 2))
    assert found(iceberg_peer, name) == model

    iceberg_peer.run(f"delete from {name} where id = 8", f"update {name} set n = 9 where id = 9")
    model[9] = (text(9), 9)
    del model[8]
    keys = pa.table({"id": pa.array([10, 11], pa.int64())})
    table.refresh().write(frame_of(spark, keys), "delete", key="id")
    table.refresh().delete("id = 12")
    table.refresh().update("id = 13", {"n": 13})
    table.refresh().append(frame_of(spark, rows([60, 61], 6)))
    for number in (10, 11, 12):
        del model[number]
    model |= {13: (text(13), 13), 60: (None, 6), 61: (None, 6)}
    assert found(iceberg_peer, name) == model
    read = iceberg_peer.duckdb_read(table.uri.removeprefix("file://"), columns=IN_DUCKDB)
    assert {row["id"]: (row["v"], row["n"]) for row in read.to_pylist()} == model
    assert not table.refresh().check()


def test_what_spark_shredded_is_refused_and_stays(
    iceberg_peer: IcebergPeer, spark: SparkSession
) -> None:
    name = "lake.variants.shredded"
    iceberg_peer.run(
        f"create table {name} (id bigint, v variant, n int) using iceberg tblproperties "
        "('format-version'='3', 'write.parquet.shred-variants'='true')",
        f"insert into {name} select id, parse_json('{{\"a\": 1}}'), 0 from range(0, 40)",
    )
    table = tideline.open_iceberg(str(iceberg_peer.warehouse / name[5:].replace(".", "/")))
    with pytest.raises(UnsupportedTableError, match="is a variant that is shredded"):
        table.write(frame_of(spark, rows([1], 1)), "upsert", key="id")
    table.refresh().append(rows([41], 1))
    merges = {"write.merge.mode": "merge-on-read"}
    table.refresh().write(frame_of(spark, rows([1], 1)), "upsert", key="id", options=merges)
    model: Found = dict.fromkeys(range(40), ('{"a":1}', 0))
    assert found(iceberg_peer, name) == model | {1: (None, 1), 41: (None, 1)}

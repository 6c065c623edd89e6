"""Few keys of a DataFrame, scattered over a large Iceberg table: what is shuffled follows them."""

from __future__ import annotations

import random
import uuid
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tideline
from tideline.spark.arrow_frame import frame_of
from tideline.testing.iceberg_peer import IcebergPeer

pytestmark = [pytest.mark.spark]

MERGES = {"write.merge.mode": "merge-on-read", "write.delete.mode": "merge-on-read"}
NAMED = pa.schema([pa.field("id", pa.string(), nullable=False), ("n", pa.int64())])


def names(seed: int, count: int) -> list[str]:
    chance = random.Random(seed)
    return [str(uuid.UUID(int=chance.getrandbits(128))) for _ in range(count)]


def shuffled_bytes(spark: SparkSession, group: str) -> int:
    """What the jobs of a group wrote for others to read, as Spark counts it."""
    context = spark.sparkContext
    store = context._jsc.sc().statusStore()
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = {stage for job in jobs if job is not None for stage in job.stageIds}
    return sum(store.lastStageAttempt(stage).shuffleWriteBytes() for stage in stages)


def test_few_scattered_keys_shuffle_few_rows(spark: SparkSession, tmp_path: Path) -> None:
    table = tideline.create_iceberg(str(tmp_path / "t"), NAMED, key="id", properties=MERGES)
    stored = names(1, 30_000)
    for at in range(0, 30_000, 10_000):
        table.append(pa.table([stored[at : at + 10_000], [0] * 10_000], schema=NAMED))
    keys = [*stored[::200], *names(2, 20)]
    given = pa.table([keys, [1] * len(keys)], schema=NAMED)
    group = uuid.uuid4().hex
    spark.sparkContext.setJobGroup(group, "few keys")
    report = table.upsert(frame_of(spark, given).repartition(2))
    spark.sparkContext.setJobGroup("", "")
    assert (report.rows_updated, report.rows_inserted) == (150, 20)
    assert shuffled_bytes(spark, group) < 150_000, "the keys alone are a megabyte"
    assert table.count("n = 1") == 170 and table.count() == 30_020
    assert not table.check()


@pytest.mark.slow
def test_keys_of_a_megabyte_come_to_the_driver_as_hashes(
    spark: SparkSession, tmp_path: Path
) -> None:
    body = names(3, 27_000)
    texts = [f"{n:02d}" + "".join(body[n:]) for n in range(40)]
    table = tideline.create_iceberg(str(tmp_path / "t"), NAMED, key="id")
    table.append(pa.table([texts[:30], [0] * 30], schema=NAMED))
    given = frame_of(spark, pa.table([texts[20:], [1] * 20], schema=NAMED))
    report = table.upsert(given.repartition(2))
    assert (report.rows_updated, report.rows_inserted) == (10, 10)
    assert table.write(given.select("id"), "delete").rows_deleted == 20
    assert table.count() == 20 and not table.check()


def given_rows(numbers: list[int], n: int, name: str = "key") -> pa.Table:
    """Keys of three fields, of each number."""
    cells = [
        {
            name: number,
            "price": Decimal(number) / 8 - 20,
            "raw": b"\xff" * (number % 3) + number.to_bytes(2, "big"),
            "moment": number * 3_600_000_001 - 10**12,
            "n": n,
        }
        for number in numbers
    ]
    kinds = [
        (name, pa.int64()),
        ("price", pa.decimal128(12, 3)),
        ("raw", pa.binary()),
        ("moment", pa.timestamp("us", "UTC")),
        ("n", pa.int32()),
    ]
    return pa.Table.from_pylist(cells, pa.schema(kinds))


@pytest.mark.interop
@pytest.mark.parametrize(
    ("version", "mode"),
    [
        (3, "merge-on-read"),
        pytest.param(2, "merge-on-read", marks=pytest.mark.slow),
        pytest.param(2, "copy-on-write", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("key", [("key",), ("price", "raw", "moment")], ids=["one", "three"])
def test_keys_are_found_in_a_table_that_spark_made_and_changed(
    version: int, mode: str, key: tuple[str, ...], iceberg_peer: IcebergPeer, spark: SparkSession
) -> None:
    """Older files have a narrower key by another name; some of their rows are deleted, some have no
    key."""
    name = f"scattered.v{version}{mode[0]}{len(key)}"
    modes = ", ".join(f"'write.{what}.mode'='{mode}'" for what in ("delete", "merge"))
    uri = str(iceberg_peer.warehouse / name.replace(".", "/"))
    older = given_rows([*range(0, 600, 2)], 0, "id")
    iceberg_peer.run(
        f"create table lake.{name} (id int, price decimal(9, 3), raw binary, moment timestamp, "
        f"n int) using iceberg tblproperties ('format-version'='{version}', {modes})"
    )
    iceberg_peer.append(uri, older.set_column(0, "id", older["id"].cast(pa.int32())))
    iceberg_peer.run(
        f"insert into lake.{name} values (null, null, null, null, -1)",
        f"delete from lake.{name} where id % 10 = 0",
        f"alter table lake.{name} alter column id type bigint",
        f"alter table lake.{name} alter column price type decimal(12, 3)",
        f"alter table lake.{name} rename column id to key",
    )
    iceberg_peer.append(uri, given_rows([*range(1, 600, 2)], 0))
    iceberg_peer.run(f"alter table lake.{name} create branch audit")
    table = tideline.open_iceberg(uri)
    chosen = [*range(0, 500, 3)]
    twice = pa.concat_tables([given_rows(chosen, 1), given_rows(chosen[::2], 2)])
    frame = frame_of(spark, twice).coalesce(1)
    report = table.write(frame, "upsert", key=key, branch="audit")
    gone = [number for number in chosen if number % 10 == 0]
    assert report.rows_updated == len(chosen) - len(gone)
    assert report.rows_inserted == len(gone)
    keys = given_rows([*range(1, 500, 2), 9999], 0).select(key)
    deleted = table.refresh().write(frame_of(spark, keys), "delete", key=key, branch="audit")
    assert deleted.rows_deleted == 250
    model = {number: 0 for number in range(600) if number % 2 or number % 10}
    model |= dict.fromkeys(chosen, 1) | dict.fromkeys(chosen[::2], 2)
    model = {number: n for number, n in model.items() if not (number % 2 and number < 500)}
    expected = sorted([(-1, -1), *model.items()])
    found = iceberg_peer.sql(f"select key, n from lake.{name} version as of 'audit'")
    assert pairs(found) == expected
    assert pairs(table.refresh().to_arrow(["key", "n"], as_of="audit")) == expected
    assert table.count() == 541, "the other branch is as it was"
    assert not table.check()


def pairs(rows: pa.Table) -> list[tuple[int, int]]:
    found = zip(rows["key"].to_pylist(), rows["n"].to_pylist(), strict=True)
    return sorted((-1 if key is None else key, n) for key, n in found)

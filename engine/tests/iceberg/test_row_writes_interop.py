"""Iceberg's Spark runtime and DuckDB read each write of ours that takes rows out, and Spark writes
between: updates, deletes and merges in both modes."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tideline
from tideline.testing.iceberg_peer import IcebergPeer
from tideline.testing.iceberg_row_history import COLUMNS, RowHistory

pytestmark = [pytest.mark.interop, pytest.mark.slow]

COPY, MERGE = "copy-on-write", "merge-on-read"
LINEAGE = ("_row_id", "_last_updated_sequence_number")


class Spark:
    """What Spark does to a table of a history."""

    def __init__(self, peer: IcebergPeer, history: RowHistory, name: str) -> None:
        self.peer, self.history, self.name = peer, history, f"lake.peer.{name}"

    def update(self) -> None:
        self.peer.run(f"update {self.name} set note = 'spark', n = n + 1 where id % 3 = 0")
        for number, row in self.history.rows.items():
            if number % 3 == 0:
                row |= {"note": "spark", "n": row["n"] + 1}

    def delete(self) -> None:
        self.peer.run(f"delete from {self.name} where n % 5 = 0")
        rows = self.history.rows
        self.history.rows = {number: row for number, row in rows.items() if row["n"] % 5}

    def insert(self) -> None:
        free = [number for number in range(60, 70) if number not in self.history.rows][:3]
        for number in free:
            self.peer.run(f"insert into {self.name} values ({number}, 'a', 7, 'spark')")
            self.history.rows[number] = {"id": number, "part": "a", "n": 7, "note": "spark"}


@pytest.mark.parametrize("placement", [0, 1, 3])
@pytest.mark.parametrize(
    ("version", "mode"), [(1, COPY), (2, COPY), (2, MERGE), (3, COPY), (3, MERGE)]
)
def test_spark_reads_each_write_and_writes_between(
    iceberg_peer: IcebergPeer, version: int, mode: str, placement: int
) -> None:
    name = f"rows_{version}_{mode[:4]}_{placement}"
    uri = f"{iceberg_peer.warehouse}/peer/{name}"
    history = RowHistory(uri, version=version, mode=mode, placement=placement, seed=name)
    spark = Spark(iceberg_peer, history, name)
    history.append()
    for theirs in (spark.insert, spark.update, spark.delete, spark.update):
        for _ in range(3):
            history.step()
            history.require(iceberg_peer.read(uri))
        history.require(iceberg_peer.duckdb_read(uri))
        assert history.table.check() == ()
        theirs()
        history.require(iceberg_peer.read(uri))
        history.require(history.table.to_arrow())


def lineage(peer: IcebergPeer, name: str) -> dict[int, tuple[int, int]]:
    found = peer.sql(f"select id, {', '.join(LINEAGE)} from lake.peer.{name}")
    return {row["id"]: (row[LINEAGE[0]], row[LINEAGE[1]]) for row in found.to_pylist()}


@pytest.mark.parametrize("mode", [COPY, MERGE])
def test_rows_keep_their_ids_where_they_are_replaced_or_stay(
    iceberg_peer: IcebergPeer, mode: str
) -> None:
    name = f"lineage_{mode[:4]}"
    uri = f"{iceberg_peer.warehouse}/peer/{name}"
    properties = {"write.delete.mode": mode, "write.merge.mode": mode}
    table = tideline.create_iceberg(
        uri, COLUMNS, key="id", format_version=3, properties=properties, partition_by="part"
    )
    columns = {"part": pa.array(["a", "b"] * 5), "n": pa.array(range(10))}
    table.write(pa.table({"id": pa.array(range(10)), **columns}))
    before = lineage(iceberg_peer, name)
    assert len({number for number, _ in before.values()}) == 10
    table.write(
        pa.table({"id": [1, 4, 20], "part": ["b", "b", "a"], "n": [100, 100, 100]}), "upsert"
    )
    table.delete("id = 7")
    after = lineage(iceberg_peer, name)
    assert set(after) == {*range(10), 20} - {7}
    assert all(after[number] == before[number] for number in (0, 2, 3, 5, 6, 8, 9))
    for number in (1, 4):
        assert after[number][0] == before[number][0]
        assert after[number][1] == 2
    assert after[20][0] not in {number for number, _ in before.values()}
    assert after[20][1] == 2

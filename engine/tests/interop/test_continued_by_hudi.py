"""What Tideline writes in ordinary set-ups, Hudi reads and continues writing, without extra
settings.

Hudi's Spark is set as it comes: it refuses days before 1582-10-15 and times before 1900 in parquet
files that do not say their calendar. Only writing such values is allowed, as users with such values
must.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tideline.lake_table import LakeTable
from tideline.parquet.calendar import GREGORIAN_FOOTER
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.json_line_process import PeerFailureError
from tideline.testing.table_model import TableModel

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.spark]

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("hour", pa.string()),
        ("v", pa.int64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
    ]
)
EARLY = (dt.date(1500, 3, 1), dt.datetime(1700, 1, 1, 12, tzinfo=dt.UTC))
FIRST = (dt.date(1, 1, 5), dt.datetime(1200, 6, 1, tzinfo=dt.UTC))
WRITE_MODE = "spark.sql.parquet.datetimeRebaseModeInWrite"
KEYS = "hoodie.datasource.write."
HUDI = {
    "hoodie.table.name": "t",
    f"{KEYS}recordkey.field": "id",
    f"{KEYS}precombine.field": "v",
    "hoodie.index.type": "SIMPLE",
    "hoodie.compact.inline": "false",
}
Moments = tuple[dt.date, dt.datetime]


def rows(keys: Sequence[int], v: int, moments: Moments = EARLY) -> pa.Table:
    found = [
        {"id": f"k{n}", "part": "p", "hour": "7", "v": v, "day": moments[0], "at": moments[1]}
        for n in keys
    ]
    return pa.Table.from_pylist(found, SCHEMA)


class Shared:
    """A table that both write in turn, and the rows it must hold."""

    def __init__(self, uri: str, spark: SparkSession, peer: HudiPeer, **definition: Any) -> None:
        self.uri, self.spark, self.peer = uri, spark, peer
        settings = {"record_key": ["id"], "partition_by": ["part"], **definition}
        LakeTable.create(uri, name="t", ordering=["v"], schema=SCHEMA, **settings)
        self.partition_by = tuple(settings["partition_by"])
        self.model = TableModel(record_key=("id",), partition_by=self.partition_by, ordering="v")

    def write(self, operation: str, batch: pa.Table) -> None:
        self.model.apply(operation, batch)
        LakeTable.open(self.uri).write(self.spark.createDataFrame(batch), operation)

    def write_with_hudi(self, operation: str, batch: pa.Table, **options: str) -> None:
        self.model.apply(operation, batch)
        source = Path(self.uri).parent / "source.parquet"
        with pq.ParquetWriter(source, batch.schema) as writer:
            writer.write_table(batch)
            writer.add_key_value_metadata(dict(GREGORIAN_FOOTER))
        given = {**HUDI, f"{KEYS}partitionpath.field": ",".join(self.partition_by), **options}
        self.peer.write_file(self.uri, source, operation=operation, options=given)

    def check(self) -> None:
        ours = LakeTable.open(self.uri).snapshot(self.spark).toArrow()
        for found in (ours, self.peer.read(self.uri), self.peer.read_with_hudi_rs(self.uri)):
            assert self.model.canonical(found.select(SCHEMA.names)) == self.model.rows()


@pytest.fixture
def peer(hudi_peer: HudiPeer) -> Iterator[HudiPeer]:
    hudi_peer.run_statement(f"set {WRITE_MODE}=CORRECTED")
    yield hudi_peer
    hudi_peer.run_statement(f"set {WRITE_MODE}=EXCEPTION")


@pytest.mark.parametrize(
    ("table_type", "block_format"),
    [("COPY_ON_WRITE", ""), ("MERGE_ON_READ", "parquet"), ("MERGE_ON_READ", "avro")],
)
@pytest.mark.parametrize("metadata_table", ["false", "true"])
def test_early_days_and_times_are_what_they_were(
    tmp_path: Path,
    spark: SparkSession,
    peer: HudiPeer,
    table_type: str,
    block_format: str,
    metadata_table: str,
) -> None:
    blocks = {"hoodie.logfile.data.block.format": block_format} if block_format else {}
    table = Shared(str(tmp_path / "t"), spark, peer, table_type=table_type, properties=blocks)
    table.write("insert", rows(range(3), 1))
    table.write("upsert", rows([0], 2, FIRST))
    table.check()
    described = {f"{KEYS}table.type": table_type, "hoodie.metadata.enable": metadata_table}
    table.write_with_hudi("upsert", rows([1], 3, FIRST), **described)
    # Hudi's upsert leaves a base file without a Spark version, which its own Spark refuses then.
    table.write("upsert", rows(range(3), 4))
    table.check()


@pytest.mark.parametrize("metadata_table", ["false", "true"])
def test_one_key_column_and_several_partition_columns(
    tmp_path: Path, spark: SparkSession, peer: HudiPeer, metadata_table: str
) -> None:
    table = Shared(str(tmp_path / "t"), spark, peer, partition_by=["part", "hour"])
    options = {"hoodie.metadata.enable": metadata_table}
    now = (dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    table.write("insert", rows(range(3), 1, now))
    table.write_with_hudi("upsert", rows([2, 3], 2, now), **options)
    table.write_with_hudi("bulk_insert", rows([4], 2, now), **options)
    table.write_with_hudi("delete", rows([0], 9, now), **options)
    table.check()
    table.write("upsert", rows([3, 4, 5], 3, now))
    table.check()
    newer = {"hoodie.write.table.version": "9", "hoodie.write.auto.upgrade": "true"}
    table.write_with_hudi("upsert", rows([5, 6], 4, now), **options, **newer)
    found = peer.read(table.uri)
    assert sorted(found["_hoodie_record_key"].to_pylist()) == [f"id:k{n}" for n in range(1, 7)]


def test_settings_of_services_are_each_engine_s_own(
    tmp_path: Path, spark: SparkSession, peer: HudiPeer
) -> None:
    kept = {"hoodie.clean.commits.retained": "3", "hoodie.parquet.small.file.limit": "0"}
    shared = {"hoodie.simple.index.update.partition.path": "false"}
    table = Shared(str(tmp_path / "t"), spark, peer, properties={**kept, **shared})
    table.write("insert", rows(range(3), 1))
    others: Mapping[str, str] = {
        "hoodie.clean.commits.retained": "8",
        "hoodie.parquet.small.file.limit": "1000",
        "hoodie.metadata.enable": "false",
    }
    table.write_with_hudi("upsert", rows([1], 2), **others)
    table.write("upsert", rows(range(4), 3))
    table.check()
    contradicted = {"hoodie.simple.index.update.partition.path": "true"}
    with pytest.raises(PeerFailureError, match="Config conflict"):
        table.write_with_hudi("upsert", rows([1], 9), **contradicted)


def test_a_batch_with_deletes_does_not_bind_later_ones(
    tmp_path: Path, spark: SparkSession, peer: HudiPeer
) -> None:
    table = Shared(str(tmp_path / "t"), spark, peer)
    table.write("insert", rows(range(4), 1))
    flags = pa.array([True, False])
    flagged = rows([0, 1], 2).append_column("_hoodie_is_deleted", flags)
    LakeTable.open(table.uri).write(spark.createDataFrame(flagged), "upsert")
    table.model.apply("delete", rows([0], 2))
    table.model.apply("upsert", rows([1], 2))
    table.write_with_hudi("upsert", rows([2], 3), **{"hoodie.metadata.enable": "false"})
    table.write("upsert", rows([3], 3))
    table.write("upsert", rows(range(1, 4), 4))
    table.check()

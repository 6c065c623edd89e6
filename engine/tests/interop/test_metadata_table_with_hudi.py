"""The metadata table's `files`, kept by both engines in turn: nobody misses a row.

Hudi 1.2 reads and writes with its metadata table on, as by default, so that a file missing there is
a row missing in its answers, and in what it writes next. hudi-rs uses it wherever it is listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tideline.hudi.table.files_partition import FILES
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.metadata_table import MetadataTable
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer, version_options
from tideline.testing.table_model import TableModel

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.spark]

SCHEMA = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("v", pa.int64()), ("text", pa.string())]
)
KEYS = "hoodie.datasource.write."
ON = {"hoodie.metadata.enable": "true"}
OFF = {"hoodie.metadata.enable": "false"}
KINDS = pytest.mark.parametrize(
    ("version", "table_type"),
    [(9, "COPY_ON_WRITE"), (9, "MERGE_ON_READ"), (8, "MERGE_ON_READ")],
)


def rows(keys: Sequence[int], v: int) -> pa.Table:
    found = [{"id": f"k{n}", "part": f"p{n % 2}", "v": v, "text": f"{n} at {v}"} for n in keys]
    return pa.Table.from_pylist(found, SCHEMA)


class Shared:
    """A table that both write in turn, and the rows it must hold."""

    def __init__(
        self,
        uri: str,
        spark: SparkSession,
        peer: HudiPeer,
        version: int,
        table_type: str,
        properties: Mapping[str, str],
        partition_by: Sequence[str] = ("part",),
    ) -> None:
        self.uri, self.spark, self.peer = uri, spark, peer
        self.version, self.table_type = version, table_type
        self.partition_by = tuple(partition_by)
        LakeTable.create(
            uri,
            name="t",
            record_key=["id"],
            partition_by=list(partition_by),
            ordering=["v"],
            schema=SCHEMA,
            table_type=table_type,
            table_version=version,
            properties=dict(properties),
        )
        self.model = TableModel(record_key=("id",), partition_by=self.partition_by, ordering="v")

    @property
    def table(self) -> LakeTable:
        return LakeTable.open(self.uri)

    @property
    def hoodie_table(self) -> HoodieTable:
        return HoodieTable.open(StoreLocation.of(self.uri))

    def write(self, operation: str, batch: pa.Table) -> tuple[str, ...]:
        self.model.apply(operation, batch)
        return self.table.write(self.spark.createDataFrame(batch), operation).notes

    def write_with_hudi(self, operation: str, batch: pa.Table, **options: str) -> None:
        self.model.apply(operation, batch)
        given = {
            "hoodie.table.name": "t",
            f"{KEYS}recordkey.field": "id",
            f"{KEYS}precombine.field": "v",
            f"{KEYS}partitionpath.field": ",".join(self.partition_by),
            f"{KEYS}table.type": self.table_type,
            "hoodie.index.type": "SIMPLE",
            "hoodie.clean.automatic": "false",
            **version_options(self.version),
            **options,
        }
        self.peer.write(self.uri, batch, operation=operation, options=given)

    def check(self) -> None:
        """All readers find the rows, by the metadata table and by listings."""
        ours = self.table.snapshot(self.spark).toArrow()
        found = {
            "ours": ours,
            "hudi, metadata on": self.peer.read(self.uri, ON),
            "hudi, metadata off": self.peer.read(self.uri, OFF),
            "hudi-rs": self.peer.read_with_hudi_rs(self.uri),
        }
        for who, answer in found.items():
            assert self.model.canonical(answer.select(SCHEMA.names)) == self.model.rows(), who

    def listed(self) -> tuple[str, ...]:
        return self.hoodie_table.config.metadata_partitions

    def check_files(self) -> None:
        """`files` lists what a listing finds of what is committed."""
        table = self.hoodie_table
        assert FILES in self.listed()
        timeline = table.timeline()
        files = MetadataTable(table.store, table.clock).files()
        by_listing = table.view_of(table.list_files(), timeline)
        assert table.view_of(files.listing(), timeline) == by_listing


@pytest.fixture
def shared(tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer) -> Any:
    def make(version: int, table_type: str, **properties: str) -> Shared:
        return Shared(str(tmp_path / "t"), spark, hudi_peer, version, table_type, properties)

    return make


@KINDS
def test_our_metadata_table_is_read_and_continued(
    shared: Any, version: int, table_type: str
) -> None:
    table: Shared = shared(version, table_type, **ON)
    table.write("insert", rows(range(6), 1))
    table.check_files()
    assert table.listed() == (FILES,)
    table.check()
    for v in range(2, 15):
        table.write("upsert", rows([v % 6, v + 5], v))
    table.check_files()
    table.check()
    table.write_with_hudi("upsert", rows([1, 2, 30], 20), **ON)
    table.check_files()
    table.check()
    notes = table.write("delete", rows([2], 21))
    assert any("dropped column_stats, partition_stats" in note for note in notes)
    assert table.listed() == (FILES,)
    table.check_files()
    table.check()
    for v in range(22, 36):
        table.write_with_hudi("upsert", rows([v % 6], v), **ON)
        if v % 4 == 0:
            table.write("upsert", rows([v % 5, v], v))
            table.check_files()
    table.check()

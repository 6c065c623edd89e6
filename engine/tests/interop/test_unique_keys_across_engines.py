"""Keys that are unique in the whole table, and keys that logs deleted: Hudi and we in turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tideline.check_finding import Severity
from tideline.errors import ConflictError
from tideline.hudi.table.table_config import INDEX_TYPE
from tideline.lake_table import LakeTable
from tideline.testing.hudi_peer import HudiPeer

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]

COPY_ON_WRITE, MERGE_ON_READ = "COPY_ON_WRITE", "MERGE_ON_READ"
NEW_GROUPS = {"hoodie.parquet.small.file.limit": "0"}
RECORD_INDEX = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}
MOVES = "hoodie.record.index.update.partition.path"
Row = tuple[str, str, int]


def rows(keys: str, part: str, v: int) -> pa.Table:
    columns = {"id": list(keys), "part": [part] * len(keys), "v": [v] * len(keys)}
    return pa.table(columns)


@dataclass
class HudisTable:
    """A table that Hudi makes at `folder`, with these of its options. The later write wins."""

    folder: Path
    spark: SparkSession
    peer: HudiPeer
    table_type: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def lake(self) -> LakeTable:
        return LakeTable.open(str(self.folder))

    def write_with_hudi(self, operation: str, written: pa.Table, **more: str) -> None:
        options = {
            "hoodie.table.name": "theirs",
            "hoodie.datasource.write.table.type": self.table_type,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.datasource.write.precombine.field": "v",
            "hoodie.metadata.enable": "false",
            "hoodie.compact.inline": "false",
            **self.options,
            **more,
        }
        self.peer.write(str(self.folder), written, operation=operation, options=options)

    def write(self, operation: str, written: pa.Table, **options: str) -> None:
        self.lake.write(self.spark.createDataFrame(written), operation, options=options)

    def check(self, *expected: Row) -> None:
        """We and Hudi see these rows in these partitions, and no check has anything to say."""
        for found in (self.lake.snapshot(self.spark).toArrow(), self.peer.read(str(self.folder))):
            columns = [found[name].to_pylist() for name in ("id", "_hoodie_partition_path", "v")]
            assert sorted(zip(*columns, strict=True)) == sorted(expected)
        findings = self.lake.check(keys=True)
        assert [finding for finding in findings if finding.severity is Severity.ERROR] == []


@pytest.mark.parametrize("table_type", [COPY_ON_WRITE, MERGE_ON_READ])
@pytest.mark.parametrize("moves", ["false", "true"])
def test_keys_stay_unique_behind_hudis_record_index(
    moves: str, table_type: str, tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    table = HudisTable(
        tmp_path / "t", spark, hudi_peer, table_type, {**RECORD_INDEX, MOVES: moves, **NEW_GROUPS}
    )
    table.write_with_hudi("upsert", rows("abcd", "p1", 1))
    table.write("upsert", rows("abn", "p2", 2), **{MOVES: moves})
    home = "p2" if moves == "true" else "p1"
    table.check(("a", home, 2), ("b", home, 2), ("c", "p1", 1), ("d", "p1", 1), ("n", "p2", 2))
    assert "record_index" in table.lake.hoodie_table.config.metadata_partitions
    table.write("upsert", rows("bc", "p3", 3), **{MOVES: moves})
    table.write("delete", rows("n", "p1", 3))
    third = "p3" if moves == "true" else "p1"
    table.check(("a", home, 2), ("b", third, 3), ("c", third, 3), ("d", "p1", 1))
    table.write_with_hudi("upsert", rows("adx", "p4", 4))
    assert "record_index" in table.lake.hoodie_table.config.metadata_partitions
    last = "p4" if moves == "true" else "p1"
    kept = ("b", third, 3), ("c", third, 3), ("x", "p4", 4)
    table.check(("a", last, 4), ("d", last, 4), *kept)
    table.write_with_hudi("delete", rows("d", last, 5))
    table.write("upsert", rows("d", "p1", 6), **{MOVES: moves})
    table.write_with_hudi("upsert", rows("d", "p1", 7))
    table.check(("a", last, 4), ("d", "p1", 7), *kept)


@pytest.mark.parametrize(
    ("index", "table_type"),
    [("GLOBAL_SIMPLE", COPY_ON_WRITE), ("GLOBAL_BLOOM", MERGE_ON_READ)],
)
def test_a_declared_global_index_is_followed(
    index: str, table_type: str, tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    options = {"hoodie.index.type": index, **NEW_GROUPS}
    table = HudisTable(tmp_path / "t", spark, hudi_peer, table_type, options)
    table.write_with_hudi("upsert", rows("abc", "p1", 1))
    table.lake.hoodie_table.properties.update({INDEX_TYPE: index})
    table.write("upsert", rows("an", "p2", 2))
    table.check(("a", "p2", 2), ("b", "p1", 1), ("c", "p1", 1), ("n", "p2", 2))
    table.write_with_hudi("upsert", rows("ab", "p3", 3))
    table.write("delete", rows("n", "p1", 4))
    table.write("upsert", rows("bn", "p1", 5))
    table.check(("a", "p3", 3), ("b", "p1", 5), ("c", "p1", 1), ("n", "p1", 5))
    table.write_with_hudi("upsert", rows("abn", "p2", 6))
    table.check(("a", "p2", 6), ("b", "p2", 6), ("c", "p1", 1), ("n", "p2", 6))


def test_a_declared_global_index_outlives_a_rename_of_sparks_sql(
    tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    """Hudi rewrites the properties, without ours."""
    options = {"hoodie.index.type": "GLOBAL_SIMPLE", **NEW_GROUPS}
    table = HudisTable(tmp_path / "t", spark, hudi_peer, COPY_ON_WRITE, options)
    table.write_with_hudi("upsert", rows("abc", "p1", 1))
    table.lake.hoodie_table.properties.set({INDEX_TYPE: "GLOBAL_SIMPLE"})
    table.write("upsert", rows("a", "p1", 2))
    name = hudi_peer.table_at(str(table.folder))
    hudi_peer.run_statement(f"alter table {name} rename to {name}_renamed")
    assert table.lake.hoodie_table.config.index_type is None
    with pytest.raises(ConflictError, match="RENAME TO"):
        table.write("upsert", rows("a", "p2", 3))
    table.check(("a", "p1", 2), ("b", "p1", 1), ("c", "p1", 1))
    table.write("upsert", rows("a", "p2", 3))
    table.check(("a", "p2", 3), ("b", "p1", 1), ("c", "p1", 1))


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM"])
@pytest.mark.parametrize("metadata", ["false", "true"])
def test_a_key_that_a_log_deletes_is_updated_where_it_was_inserted_again(
    metadata: str, index: str, tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    """Hudi itself doubles such a key, but no more once its deletes are compacted."""
    options = {"hoodie.index.type": index, "hoodie.metadata.enable": metadata, **NEW_GROUPS}
    table = HudisTable(tmp_path / "t", spark, hudi_peer, MERGE_ON_READ, options)
    table.write_with_hudi("upsert", rows("abc", "p", 1))
    table.write_with_hudi("delete", rows("ab", "p", 1))
    table.write_with_hudi("insert", rows("a", "p", 2))
    table.write("upsert", rows("abd", "p", 3), **{"hoodie.index.type": index})
    table.check(("a", "p", 3), ("b", "p", 3), ("c", "p", 1), ("d", "p", 3))
    # A key that only a log deleted is where Hudi looks for it.
    table.write_with_hudi("upsert", rows("bd", "p", 4))
    table.check(("a", "p", 3), ("b", "p", 4), ("c", "p", 1), ("d", "p", 4))
    table.lake.run(
        "compaction", spark=spark, options={"hoodie.compact.inline.max.delta.commits": "1"}
    )
    table.write_with_hudi("upsert", rows("abcd", "p", 5))
    table.check(*((key, "p", 5) for key in "abcd"))


def test_a_row_that_hudi_appends_on_top_of_a_compaction_is_found(
    tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    """The compaction drops the key, so that the row is in a log alone: Hudi loses it."""
    options = {"hoodie.index.type": "SIMPLE", **NEW_GROUPS}
    table = HudisTable(tmp_path / "t", spark, hudi_peer, MERGE_ON_READ, options)
    table.write_with_hudi("upsert", rows("abc", "p", 1))
    table.write_with_hudi("delete", rows("a", "p", 1))
    eager = {"hoodie.compact.inline.max.delta.commits": "1"}
    assert table.lake.schedule("compaction", options=eager) is not None
    table.write_with_hudi("upsert", rows("a", "p", 2))
    # What is pending is finished, and no other is due.
    table.lake.run("compaction", spark=spark)
    table.check(("a", "p", 2), ("b", "p", 1), ("c", "p", 1))
    table.write("upsert", rows("ab", "p", 3))
    table.check(("a", "p", 3), ("b", "p", 3), ("c", "p", 1))

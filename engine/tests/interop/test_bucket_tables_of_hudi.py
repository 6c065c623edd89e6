"""Tables that Hudi made with a bucket index: recognised, written as Hudi writes them, kept so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tideline.errors import ConfigError
from tideline.hudi.index.bucket import file_ids_by_bucket
from tideline.lake_table import LakeTable
from tideline.testing.hudi_peer import HudiPeer, version_options
from tideline.testing.json_line_process import PeerFailureError

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]

COPY_ON_WRITE, MERGE_ON_READ = "COPY_ON_WRITE", "MERGE_ON_READ"
COUNT = "hoodie.bucket.index.num.buckets"
EXPRESSIONS = "hoodie.bucket.index.partition.expressions"
DUE = {
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clean.commits.retained": "1",
}
Key = tuple[str, int, str]


def rows(numbers: range, v: int) -> pa.Table:
    """Keys far apart, each always in the same one of two partitions."""
    return pa.table(
        {
            "id": [f"k{number * 7919}" for number in numbers],
            "line": pa.array([number % 3 for number in numbers], pa.int32()),
            "part": [f"2024-0{1 + number % 2}" for number in numbers],
            "v": [v] * len(numbers),
        }
    )


@dataclass
class HudisTable:
    """A table Hudi makes at `folder`, and the rows it has to hold. The later write wins."""

    folder: Path
    spark: SparkSession
    peer: HudiPeer
    table_type: str = COPY_ON_WRITE
    record_key: str = "id"
    options: Mapping[str, str] = field(default_factory=lambda: {COUNT: "4"})
    name: str = "theirs"
    model: dict[Key, int] = field(default_factory=dict)

    @property
    def lake(self) -> LakeTable:
        return LakeTable.open(str(self.folder))

    def apply(self, operation: str, written: pa.Table) -> None:
        for row in written.to_pylist():
            key = row["id"], row["line"], row["part"]
            if operation == "delete":
                self.model.pop(key, None)
            else:
                self.model[key] = row["v"]

    def write_with_hudi(self, operation: str, written: pa.Table, **more: str) -> None:
        self.apply(operation, written)
        composite = "," in self.record_key
        options = {
            "hoodie.table.name": self.name,
            "hoodie.datasource.write.table.type": self.table_type,
            "hoodie.datasource.write.recordkey.field": self.record_key,
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.datasource.write.precombine.field": "v",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen."
            + ("ComplexKeyGenerator" if composite else "SimpleKeyGenerator"),
            "hoodie.index.type": "BUCKET",
            "hoodie.metadata.enable": "false",
            "hoodie.compact.inline": "false",
            **self.options,
            **more,
        }
        try:
            self.peer.write(str(self.folder), written, operation=operation, options=options)
        except PeerFailureError as failure:
            # Tasks of Hudi race for one map when they first read the rules of partitions.
            if "ConcurrentModificationException" not in str(failure):
                raise
            self.peer.write(str(self.folder), written, operation=operation, options=options)

    def write(
        self, operation: str, written: pa.Table, options: Mapping[str, str] | None = None
    ) -> None:
        self.apply(operation, written)
        self.lake.write(self.spark.createDataFrame(written), operation, options=options)

    def check(self) -> None:
        """We and Hudi see the model's rows."""
        expected = sorted((*key, value) for key, value in self.model.items())
        for found in (self.lake.snapshot(self.spark).toArrow(), self.peer.read(str(self.folder))):
            columns = [found[name].to_pylist() for name in ("id", "line", "part", "v")]
            assert sorted(zip(*columns, strict=True)) == expected

    def file_ids(self) -> dict[str, list[str]]:
        hoodie = self.lake.hoodie_table
        view = hoodie.files.read_view(hoodie.timeline())
        return {
            partition: [file_slice.file_id for file_slice in view.latest_slices(partition)]
            for partition in view.partitions
        }

    def buckets(self) -> dict[str, list[int]]:
        """The buckets of every partition.

        Raises CorruptTableError where one has two file groups.
        """
        return {
            partition: sorted(file_ids_by_bucket(partition, ids))
            for partition, ids in self.file_ids().items()
        }


@pytest.mark.parametrize("table_type", [COPY_ON_WRITE, MERGE_ON_READ])
def test_both_write_in_turn_and_no_key_is_stored_twice(
    table_type: str, tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    table = HudisTable(tmp_path / "theirs", spark, hudi_peer, table_type)
    table.write_with_hudi("upsert", rows(range(60), 1))
    table.write("upsert", rows(range(30, 90), 2))
    table.check()
    table.write_with_hudi("upsert", rows(range(20, 110), 3))
    table.write("delete", rows(range(0, 40, 3), 4))
    table.check()
    table.write("insert", rows(range(200, 230), 5))
    table.write("bulk_insert", rows(range(230, 250), 5))
    table.write_with_hudi("delete", rows(range(1, 60, 5), 6))
    table.write_with_hudi("upsert", rows(range(0, 250, 7), 7))
    table.check()
    table.write("insert_overwrite", rows(range(300, 320), 8))
    table.model = {key: value for key, value in table.model.items() if value == 8}
    table.write_with_hudi("upsert", rows(range(310, 340), 9))
    table.check()
    assert table.buckets() == {"2024-01": [0, 1, 2, 3], "2024-02": [0, 1, 2, 3]}


def test_what_would_place_rows_elsewhere_is_refused(
    tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    table = HudisTable(tmp_path / "theirs", spark, hudi_peer)
    table.write_with_hudi("upsert", rows(range(60), 1))
    frame = spark.createDataFrame(rows(range(3), 2))
    for option, value, words in (
        ("hoodie.index.type", "SIMPLE", "stored twice"),
        (COUNT, "8", "is not where 8 buckets would place it"),
        (COUNT, "2", "declared to have 2 buckets here, but there is bucket"),
        (EXPRESSIONS, ".*-02,8", "is not where 8 buckets would place it"),
    ):
        with pytest.raises(ConfigError, match=words):
            table.lake.write(frame, "upsert", options={option: value})
    table.write("upsert", rows(range(50, 70), 2), {"hoodie.index.type": "BUCKET", COUNT: "4"})
    table.check()


def test_a_hash_of_a_part_of_the_key_has_to_be_declared(
    tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    hashed = {"hoodie.bucket.index.hash.field": "line"}
    table = HudisTable(
        tmp_path / "theirs", spark, hudi_peer, record_key="id,line", options={COUNT: "4", **hashed}
    )
    table.write_with_hudi("upsert", rows(range(60), 1))
    with pytest.raises(ConfigError, match=r"declare hoodie\.bucket\.index\.hash\.field"):
        table.lake.writer.config_for_rows({})
    table.write("upsert", rows(range(30, 90), 2), hashed)
    table.write_with_hudi("upsert", rows(range(20, 110), 3))
    table.check()


def test_services_keep_the_buckets(
    tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    table = HudisTable(tmp_path / "theirs", spark, hudi_peer, MERGE_ON_READ)
    for turn in range(3):
        table.write_with_hudi("upsert", rows(range(20 * turn, 20 * turn + 60), turn + 1))
    planned = table.lake.plan("clustering", options=DUE)
    assert "bucket index" in str(planned.outcome)
    assert not table.lake.run("clustering", options=DUE, spark=spark).done
    assert table.lake.run("compaction", options=DUE, spark=spark).done
    table.write_with_hudi("upsert", rows(range(100, 160), 9))
    assert table.lake.run("cleaning", options=DUE).done
    table.check()
    table.write("upsert", rows(range(150, 200), 10))
    table.write_with_hudi("upsert", rows(range(40, 160), 11))
    table.check()


def test_partition_rules_are_honoured(
    tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    rules = {EXPRESSIONS: r"\d{4}-02,8"}
    table = HudisTable(tmp_path / "theirs", spark, hudi_peer, options={COUNT: "4", **rules})
    table.write_with_hudi("upsert", rows(range(60), 1))
    with pytest.raises(ConfigError, match="2024-01: 4; 2024-02: 8"):
        table.lake.writer.config_for_rows({})
    table.write("upsert", rows(range(30, 90), 2), rules)
    table.check()
    table.write_with_hudi("upsert", rows(range(20, 200), 3))
    table.check()
    assert table.buckets() == {"2024-01": list(range(4)), "2024-02": list(range(8))}


def test_rules_that_hudi_stored_are_honoured(
    tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    table = HudisTable(tmp_path / "theirs", spark, hudi_peer, name="ruled")
    properties = {
        "primaryKey": "id",
        "preCombineField": "v",
        "type": "cow",
        "hoodie.datasource.write.hive_style_partitioning": "false",
        "hoodie.index.type": "BUCKET",
        **table.options,
        **version_options(6),
    }
    listed = ", ".join(f"'{name}'='{value}'" for name, value in properties.items())
    hudi_peer.run_statement(
        "create table ruled (id string, line int, v bigint, part string) using hudi "
        f"partitioned by (part) location '{table.folder}' tblproperties ({listed})"
    )
    hudi_peer.sql(
        "call partition_bucket_index_manager(table => 'ruled', overwrite => '.*-02,8', "
        "bucket_number => 4, dry_run => false)"
    )
    assert "SIMPLE, 4 buckets, .*-02,8," in str(table.lake.writer.index.layout())
    table.write("upsert", rows(range(60), 1))
    table.write_with_hudi("upsert", rows(range(30, 90), 2))
    table.check()
    table.write("upsert", rows(range(20, 200), 3))
    table.check()
    assert table.buckets() == {"2024-01": list(range(4)), "2024-02": list(range(8))}


CONSISTENT = {COUNT: "4", "hoodie.index.bucket.engine": "CONSISTENT_HASHING"}


def test_a_part_of_the_key_that_rings_hash_has_to_be_declared(
    tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    hashed = {"hoodie.bucket.index.hash.field": "line"}
    table = HudisTable(
        tmp_path / "theirs",
        spark,
        hudi_peer,
        MERGE_ON_READ,
        record_key="id,line",
        options={**CONSISTENT, **hashed},
    )
    table.write_with_hudi("upsert", rows(range(40), 1))
    changed = rows(range(20, 60), 2)
    with pytest.raises(ConfigError, match=r"declare hoodie\.bucket\.index\.hash\.field"):
        table.lake.write(spark.createDataFrame(changed), "upsert")
    table.write("upsert", changed, hashed)
    table.check()
    table.write_with_hudi("upsert", rows(range(30, 50), 3))
    assert table.lake.run("compaction", options=DUE, spark=spark).done
    with pytest.raises(ConfigError, match=r"declare hoodie\.bucket\.index\.hash\.field"):
        table.lake.write(spark.createDataFrame(changed), "upsert")
    table.check()


def test_consistent_hashing_is_written_by_its_metadata(
    tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    options = CONSISTENT
    table = HudisTable(tmp_path / "theirs", spark, hudi_peer, MERGE_ON_READ, options=options)
    odd = rows(range(1, 60, 2), 1)
    table.write_with_hudi("upsert", odd)
    # The other partition, and with it a ring, is new.
    table.write("upsert", rows(range(30, 90), 2))
    table.check()
    table.write_with_hudi("upsert", rows(range(20, 110), 3))
    table.write("delete", rows(range(0, 40, 3), 4))
    table.check()
    assert table.lake.run("compaction", options=DUE, spark=spark).done
    table.write_with_hudi("upsert", rows(range(100, 160), 5))
    table.write("upsert", rows(range(90, 130), 6))
    table.check()
    assert {name: len(ids) for name, ids in table.file_ids().items()} == {
        "2024-01": 4,
        "2024-02": 4,
    }


def test_rings_that_hudi_resized_place_our_rows(
    tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    strategies = "org.apache.hudi.client.clustering"
    resizing = {
        **CONSISTENT,
        "hoodie.bucket.index.min.num.buckets": "2",
        "hoodie.bucket.index.max.num.buckets": "8",
        "hoodie.parquet.max.file.size": "1000",
        "hoodie.clustering.inline": "true",
        "hoodie.clustering.inline.max.commits": "2",
        "hoodie.clustering.plan.strategy.class": f"{strategies}.plan.strategy"
        ".SparkConsistentBucketClusteringPlanStrategy",
        "hoodie.clustering.execution.strategy.class": f"{strategies}.run.strategy"
        ".SparkConsistentBucketClusteringExecutionStrategy",
        "hoodie.clustering.updates.strategy": f"{strategies}.update.strategy"
        ".SparkConsistentBucketDuplicateUpdateStrategy",
    }
    table = HudisTable(tmp_path / "theirs", spark, hudi_peer, MERGE_ON_READ, options=resizing)
    table.write_with_hudi("upsert", rows(range(60), 1))
    table.write_with_hudi("upsert", rows(range(30, 90), 2))
    assert {len(ids) for ids in table.file_ids().values()} == {8}
    table.write("upsert", rows(range(60, 120), 3))
    table.check()
    table.write_with_hudi("upsert", rows(range(20, 160), 4))
    table.check()

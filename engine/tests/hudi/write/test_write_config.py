"""Write settings: Hudi's names and defaults, and errors that name the setting."""

from __future__ import annotations

import pytest

from tideline.errors import ConfigError
from tideline.hudi.capabilities.rules import Facts, refusals_of
from tideline.hudi.file_group.file_settings import LogSettings
from tideline.hudi.index.index_type import IndexType
from tideline.hudi.log.log_format import LogFormat
from tideline.hudi.table.table_config import TableConfig
from tideline.hudi.write.config import (
    ClusteringUpdates,
    DeleteMarker,
    FailedWritesPolicy,
    SortMode,
    WriteConfig,
)
from tideline.hudi.write.planned_write import table_write_config
from tideline.parquet.encoding import ParquetCodec


@pytest.mark.parametrize(
    ("index", "written"), [("SIMPLE", False), ("BLOOM", True), ("GLOBAL_BLOOM", True)]
)
def test_bloom_filters_are_left_out_where_no_bloom_index_is_named(
    index: str, written: bool
) -> None:
    config = WriteConfig.from_properties(
        {"hoodie.parquet.bloom.filter.enabled": "false", "hoodie.index.type": index}
    )
    assert config.bloom.is_written is written


def test_defaults_are_hudi_s_but_for_codec_and_policy() -> None:
    config = WriteConfig.from_properties({})
    assert config == WriteConfig()
    assert config.sizing.small_file_limit_bytes == 104_857_600
    assert config.sizing.file_size_bytes_max == 125_829_120
    assert config.sizing.insert_split_records == 500_000
    assert config.sizing.record_size_estimate_bytes == 1024
    assert (config.bloom.num_entries, config.bloom.error_rate) == (60_000, 1e-9)
    assert config.bloom.is_written
    assert config.index.type is IndexType.SIMPLE
    assert config.parquet.codec is ParquetCodec.SNAPPY
    assert config.failed_writes_policy is FailedWritesPolicy.LAZY


def test_settings_are_read_by_their_hudi_names() -> None:
    config = WriteConfig.from_properties(
        {
            "hoodie.parquet.max.file.size": "1000",
            "hoodie.parquet.small.file.limit": "0",
            "hoodie.parquet.compression.codec": "ZSTD",
            "hoodie.copyonwrite.insert.auto.split": "False",
            "hoodie.combine.before.insert": "true",
            "hoodie.merge.allow.duplicate.on.inserts": "false",
            "hoodie.index.type": "global_bloom",
            "hoodie.bloom.index.update.partition.path": "false",
            "hoodie.write.lock.wait_time_ms": "1500",
            "hoodie.client.heartbeat.interval_in_ms": "2000",
            "hoodie.cleaner.policy.failed.writes": "EAGER",
            "hoodie.bulkinsert.sort.mode": "GLOBAL_SORT",
            "tideline.write.partial.update.columns": "a, b",
            "hoodie.table.name": "of no concern here",
        }
    )
    assert config.sizing.file_size_bytes_max == config.parquet.file_size_bytes_max == 1000
    assert config.sizing.small_file_limit_bytes == 0
    assert config.parquet.codec is ParquetCodec.ZSTD
    assert not config.sizing.insert_auto_split
    assert config.combine_before_insert
    assert not config.allows_duplicate_inserts
    assert config.index.type is IndexType.GLOBAL_BLOOM
    assert not config.index.updates_partition_path
    assert (config.lock_timing.wait_s, config.heartbeat.interval_s) == (1.5, 2.0)
    assert config.failed_writes_policy is FailedWritesPolicy.EAGER
    assert config.bulk_insert_sort_mode is SortMode.GLOBAL_SORT
    assert config.partial_update_columns == ("a", "b")


def test_log_and_clustering_settings_are_read() -> None:
    strategy = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
    config = WriteConfig.from_properties(
        {
            "hoodie.logfile.data.block.format": "AVRO",
            "hoodie.logfile.max.size": "1000",
            "hoodie.logfile.data.block.max.size": "100",
            "hoodie.merge.small.file.group.candidates.limit": "3",
            "hoodie.clustering.updates.strategy": strategy,
            "hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true",
        }
    )
    assert config.logs == LogSettings(LogFormat.AVRO, 100, 1000)
    assert config.sizing.small_files_without_logs_max == 3
    assert config.clustering_updates is ClusteringUpdates.ALLOW
    assert config.withdraws_clustering
    plain = WriteConfig()
    assert plain.logs == LogSettings(LogFormat.PARQUET, 256 << 20, 1 << 30)
    assert plain.clustering_updates is ClusteringUpdates.REJECT


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hoodie.logfile.data.block.format", "hfile"),
        ("hoodie.payload.delete.field", "op"),
        ("hoodie.payload.delete.marker", "D"),
        ("hoodie.clustering.updates.strategy", "com.example.MyOwnStrategy"),
    ],
)
def test_what_cannot_be_honoured_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError):
        WriteConfig.from_properties({name: value})


def test_a_table_of_version_9_says_under_names_of_its_own_which_rows_delete() -> None:
    own = {
        "hoodie.record.merge.property.hoodie.payload.delete.field": "op",
        "hoodie.record.merge.property.hoodie.payload.delete.marker": "d",
    }
    made = {
        "hoodie.timeline.layout.version": "2",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.recordkey.fields": "id",
        **own,
    }
    nine = TableConfig({"hoodie.table.version": "9", **made})
    assert table_write_config(nine, {}).delete_marker == DeleteMarker("op", "d")
    given = {"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "D"}
    assert table_write_config(nine, given).delete_marker == DeleteMarker("op", "D")
    assert refusals_of(Facts(nine)) == {}
    eight = TableConfig({"hoodie.table.version": "8", **made})
    assert table_write_config(eight, {}).delete_marker is None


def test_only_global_indexes_move_rows_between_partitions() -> None:
    moves = {
        kind: WriteConfig.from_properties({"hoodie.index.type": str(kind)}).index
        for kind in IndexType
    }
    assert {kind for kind in moves if moves[kind].updates_partition_path} == {
        IndexType.GLOBAL_BLOOM,
        IndexType.GLOBAL_SIMPLE,
    }


def test_bucket_settings_are_read() -> None:
    index = WriteConfig.from_properties(
        {
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": "4",
            "hoodie.bucket.index.hash.field": "id,name",
        }
    ).index
    assert (index.num_buckets, index.bucket_hash_fields) == (4, ("id", "name"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hoodie.parquet.max.file.size", "0"),
        ("hoodie.parquet.max.file.size", "120MB"),
        ("hoodie.parquet.small.file.limit", "-1"),
        ("hoodie.combine.before.upsert", "yes"),
        ("hoodie.parquet.compression.codec", "lzo"),
        ("hoodie.index.bloom.fpp", "0"),
        ("hoodie.index.bloom.fpp", "nan"),
        ("hoodie.bucket.index.num.buckets", "0"),
        ("hoodie.index.bucket.engine", "CONSISTENT_HASHING"),
        ("hoodie.bloom.index.filter.type", "SIMPLE"),
        ("hoodie.clean.failed.writes.policy", "SOON"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name_and_value(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        WriteConfig.from_properties({"hoodie.index.type": "BUCKET", name: value})
    assert name in str(caught.value)
    assert value in str(caught.value)

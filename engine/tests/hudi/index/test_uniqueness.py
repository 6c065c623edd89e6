"""Keys that are unique in the whole table: how that is known, kept, and followed by writes."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from tideline.errors import ConfigError, ConflictError, CorruptTableError
from tideline.hudi.index.index_type import IndexType
from tideline.hudi.index.uniqueness import global_index, says_unique
from tideline.hudi.metadata_table.disable import disable_metadata_table
from tideline.hudi.metadata_table.index_definitions import INDEX_DEFINITIONS_PATH
from tideline.hudi.open_table import open_table
from tideline.hudi.table.create import TableDefinition, create_table
from tideline.hudi.table.table_config import (
    INDEX_TYPE,
    METADATA_PARTITIONS,
    METADATA_PARTITIONS_INFLIGHT,
)
from tideline.testing.small_table import SmallTable, batch, memory_place

HUDI_INDEX = "hoodie.index.type"
MOVES = "hoodie.record.index.update.partition.path"
FORGOTTEN = dict.fromkeys((INDEX_TYPE, "hoodie.bucket.index.num.buckets"))


def with_record_index(table: SmallTable, partitioned: str | None = None) -> SmallTable:
    """What Hudi's properties say once it has built the index; `partitioned` as it defines it."""
    hoodie = table.lake().hoodie_table
    hoodie.properties.update({METADATA_PARTITIONS: "column_stats,files,record_index"})
    if partitioned is not None:
        options = {"indexOptions": {"isPartitioned": partitioned}}
        definitions = {"indexDefinitions": {"record_index": options, "column_stats": {}}}
        hoodie.store.put(INDEX_DEFINITIONS_PATH, json.dumps(definitions).encode())
    return table


def index_of(table: SmallTable, **options: str) -> IndexType:
    return table.lake().writer.config_for_rows(options).index.type


@pytest.mark.parametrize(
    ("partitioned", "expected"),
    [(None, IndexType.RECORD_INDEX), ("false", IndexType.RECORD_INDEX), ("true", None)],
)
def test_a_record_index_of_the_table_says_it_and_one_of_partitions_does_not(
    partitioned: str | None, expected: IndexType | None
) -> None:
    table = with_record_index(SmallTable.in_memory(), partitioned)
    assert global_index(table.lake().hoodie_table) is expected
    assert index_of(table) is (expected or IndexType.SIMPLE)


def test_one_that_is_being_built_says_it_too() -> None:
    table = SmallTable.in_memory()
    assert global_index(table.lake().hoodie_table) is None
    building = {METADATA_PARTITIONS: "files", METADATA_PARTITIONS_INFLIGHT: "record_index"}
    table.lake().hoodie_table.properties.update(building)
    assert index_of(table) is IndexType.RECORD_INDEX


def test_broken_index_definitions_stop_a_write() -> None:
    table = with_record_index(SmallTable.in_memory())
    store = table.store()
    store.put(INDEX_DEFINITIONS_PATH, b'{"indexDefinitions": {')
    with pytest.raises(CorruptTableError, match=r"index\.json"):
        table.lake().writer.config_for_rows(None)
    store.put(INDEX_DEFINITIONS_PATH, b'{"indexDefinitions": ["record_index"]}')
    assert index_of(table) is IndexType.RECORD_INDEX


def test_an_index_that_is_not_global_is_refused() -> None:
    table = with_record_index(SmallTable.in_memory({HUDI_INDEX: "BLOOM"}))
    assert index_of(table) is IndexType.RECORD_INDEX
    for other in ("SIMPLE", "BLOOM", "BUCKET"):
        with pytest.raises(ConfigError, match="record_index in hoodie"):
            index_of(table, **{HUDI_INDEX: other})
    assert index_of(table, **{HUDI_INDEX: "GLOBAL_BLOOM"}) is IndexType.GLOBAL_BLOOM
    declared = SmallTable.in_memory({HUDI_INDEX: "GLOBAL_BLOOM"})
    with pytest.raises(ConfigError, match=r"tideline\.index\.type=GLOBAL_BLOOM"):
        index_of(declared, **{HUDI_INDEX: "SIMPLE"})


def test_a_row_stays_in_its_partition_as_with_hudis_record_index() -> None:
    table = with_record_index(SmallTable.in_memory())
    assert not table.lake().writer.config_for_rows(None).index.updates_partition_path
    assert table.lake().writer.config_for_rows({MOVES: "true"}).index.updates_partition_path
    for moving in ("GLOBAL_SIMPLE", "GLOBAL_BLOOM"):
        assert (
            table.lake().writer.config_for_rows({HUDI_INDEX: moving}).index.updates_partition_path
        )


@pytest.mark.parametrize("declared", ["", "SIMPLE", "GLOBAL_BLOOM"])
def test_it_is_kept_when_the_metadata_table_goes(declared: str) -> None:
    properties = {HUDI_INDEX: declared} if declared else {}
    table = with_record_index(SmallTable.in_memory(properties), "false")
    table.write("insert", batch(range(4), 1))
    hoodie = table.lake().hoodie_table
    assert hoodie.config.metadata_partitions == ()
    kept = declared if declared == "GLOBAL_BLOOM" else "RECORD_INDEX"
    assert hoodie.config.index_type == kept
    assert says_unique(hoodie) == f"{INDEX_TYPE}={kept}"
    assert index_of(table).value == kept


@pytest.mark.parametrize("partitioned", ["true", "false"])
def test_nothing_is_kept_of_other_indexes(partitioned: str) -> None:
    bucket = {HUDI_INDEX: "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    properties = bucket if partitioned == "false" else {}
    table = with_record_index(SmallTable.in_memory(properties), partitioned)
    before = table.lake().hoodie_table.config.index_type
    assert disable_metadata_table(table.lake().hoodie_table)
    assert table.lake().hoodie_table.config.index_type == before


def test_buckets_are_recognised_next_to_a_record_index() -> None:
    """A bucket finds a key in its partition alone: it cannot be written otherwise."""
    buckets = {HUDI_INDEX: "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
    table = SmallTable.in_memory(buckets)
    table.write("upsert", batch(range(200), 1))
    table.lake().hoodie_table.properties.update({INDEX_TYPE: "RECORD_INDEX"})
    table.lake().hoodie_table.properties.update(
        {"hoodie.bucket.index.num.buckets": None, "hoodie.bucket.index.hash.field": None}
    )
    index = table.lake().writer.config_for_rows(None).index
    assert (index.type, index.num_buckets) == (IndexType.BUCKET, 4)
    with pytest.raises(ConfigError, match="has a bucket index"):
        index_of(table, **{HUDI_INDEX: "GLOBAL_SIMPLE"})


def test_without_partitions_there_is_no_difference() -> None:
    location, clock = memory_place()
    store = location.open()
    config = create_table(store, TableDefinition("orders", ("id",)), clock)
    table = open_table(location, clock, store, config)
    table.properties.update({METADATA_PARTITIONS: "files,record_index"})
    assert global_index(table) is None


@pytest.mark.parametrize("operation", ["upsert", "insert"])
def test_a_write_that_began_before_it_was_known_conflicts(operation: str) -> None:
    """But an insert, which promises nothing."""
    table = SmallTable.in_memory()
    table.write("insert", batch(range(4), 1))
    if operation == "insert":
        table.write(operation, batch([9], 2), before_files=lambda: with_record_index(table))
        return
    with pytest.raises(ConflictError, match="became unique in the whole table"):
        table.write(operation, batch([0], 2), before_files=lambda: with_record_index(table))
    assert table.values() == [(f"k00{number}", 1) for number in range(4)]


@pytest.mark.parametrize("version", [6, 9])
def test_a_declared_index_that_the_properties_lost_is_set_again(version: int) -> None:
    """As Spark SQL renames a table: nothing of ours is left in hoodie.properties."""
    index = IndexType.GLOBAL_SIMPLE.value
    table = SmallTable.in_memory({HUDI_INDEX: index}, table_version=version)
    table.write("insert", batch(range(4), 1))
    table.lake().hoodie_table.properties.update({INDEX_TYPE: None})
    moved = pa.table({"id": ["k000"], "part": ["p1"], "v": [2]})
    with pytest.raises(ConflictError, match="RENAME TO of Spark SQL; it is set again"):
        table.write("upsert", moved)
    assert table.values().count(("k000", 1)) == 1
    table.write("upsert", moved)
    assert [value for key, value in table.values() if key == "k000"] == [2]


def test_an_index_that_is_declared_instead_is_not_taken_for_a_loss() -> None:
    table = SmallTable.in_memory({HUDI_INDEX: IndexType.GLOBAL_SIMPLE.value})
    table.write("insert", batch(range(4), 1))
    table.lake().hoodie_table.properties.update({INDEX_TYPE: IndexType.SIMPLE.value})
    table.write("upsert", batch(range(2), 2))
    assert index_of(table) is IndexType.SIMPLE

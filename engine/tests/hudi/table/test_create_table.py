"""Creating a table: what its properties say, what is refused, and who wins a race."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.clock import SystemClock
from tideline.errors import ConfigError
from tideline.hudi.capabilities.rules import Facts, refusals_of
from tideline.hudi.table.create import TableDefinition, create_table
from tideline.hudi.table.properties import (
    BACKUP_PATH,
    PROPERTIES_PATH,
    KeyGeneratorKind,
    MergeMode,
    TableType,
    load_table_config,
    parse_properties,
)
from tideline.hudi.table.schema import avro_to_arrow
from tideline.storage.local.store import LocalStore
from tideline.storage.memory.store import MemoryStore

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("ns", tz="UTC")),
        ("home", pa.struct([("city", pa.string())])),
    ]
)
ORDERS = TableDefinition(name="orders", record_key=("id",), schema=SCHEMA)
CLOCK = SystemClock()


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    name = uuid.uuid4().hex
    yield MemoryStore(name)
    MemoryStore.forget(name)


def test_a_table_is_created_as_hudi_0_14_would(store: MemoryStore) -> None:
    definition = replace(
        ORDERS, partition_by=("day",), ordering=("ts",), hive_style=True, table_version=6
    )
    create_table(store, definition, CLOCK)
    properties = parse_properties(store.get(PROPERTIES_PATH))
    create_schema = properties.pop("hoodie.table.create.schema")
    assert properties == {
        "hoodie.table.name": "orders",
        "hoodie.database.name": "",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": "6",
        "hoodie.timeline.layout.version": "1",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.archivelog.folder": "archived",
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "day",
        "hoodie.table.precombine.field": "ts",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        "hoodie.compaction.payload.class": (
            "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
        ),
        "hoodie.populate.meta.fields": "true",
        "hoodie.table.cdc.enabled": "false",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.partition.metafile.use.base.format": "false",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "false",
        "hoodie.table.metadata.partitions": "",
        "hoodie.table.metadata.partitions.inflight": "",
        "hoodie.table.checksum": "1443086834",
    }
    assert avro_to_arrow(create_schema).field("ts").type == pa.timestamp("us", tz="UTC")
    assert [info.path for info in store.list()] == [PROPERTIES_PATH]


def test_a_table_is_of_version_9_unless_another_is_given(store: MemoryStore) -> None:
    create_table(store, replace(ORDERS, ordering=("ts",)), CLOCK)
    properties = parse_properties(store.get(PROPERTIES_PATH))
    assert {
        "hoodie.table.version": "9",
        "hoodie.timeline.layout.version": "2",
        "hoodie.table.initial.version": "9",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.table.keygenerator.type": "NON_PARTITION",
    }.items() <= properties.items()
    assert "hoodie.table.precombine.field" not in properties


def test_what_was_created_is_what_is_opened(store: MemoryStore) -> None:
    created = create_table(store, replace(ORDERS, name="größe: ä", ordering=("ts",)), CLOCK)
    opened = load_table_config(store)
    assert opened == created
    assert refusals_of(Facts(opened)) == {}
    assert opened.name == "größe: ä"
    assert opened.merge_mode is MergeMode.EVENT_TIME_ORDERING
    assert opened.key_generator is KeyGeneratorKind.NON_PARTITION


def test_without_an_ordering_the_last_write_wins(store: MemoryStore) -> None:
    config = create_table(store, replace(ORDERS, table_type=TableType.MERGE_ON_READ), CLOCK)
    assert config.merge_mode is MergeMode.COMMIT_TIME_ORDERING
    assert config.table_type is TableType.MERGE_ON_READ


@pytest.mark.parametrize(
    ("record_key", "partition_by", "kind"),
    [
        (("id",), (), KeyGeneratorKind.NON_PARTITION),
        (("id",), ("day",), KeyGeneratorKind.SIMPLE),
        (("id", "region"), ("day",), KeyGeneratorKind.COMPLEX),
        (("id",), ("region", "day"), KeyGeneratorKind.COMPLEX),
        (("id",), ("region:SIMPLE",), KeyGeneratorKind.CUSTOM),
    ],
)
def test_the_key_generator_follows_from_the_fields(
    store: MemoryStore,
    record_key: tuple[str, ...],
    partition_by: tuple[str, ...],
    kind: KeyGeneratorKind,
) -> None:
    config = create_table(
        store, replace(ORDERS, record_key=record_key, partition_by=partition_by), CLOCK
    )
    assert config.key_generator is kind
    assert config.record_key_fields == record_key
    assert config.properties.get("hoodie.table.partition.fields", "") == ",".join(partition_by)


def test_index_settings_are_kept_for_every_later_writer(store: MemoryStore) -> None:
    properties = {"hoodie.index.type": "bucket", "hoodie.bucket.index.num.buckets": "8"}
    config = create_table(
        store,
        replace(
            ORDERS,
            record_key=("id", "region"),
            properties=properties | {"tideline.single.writer": "true"},
        ),
        CLOCK,
    )
    assert config.index_type == "BUCKET"
    assert config.bucket_count == 8
    assert config.bucket_hash_fields == ("id", "region")
    assert config.single_writer
    assert "hoodie.index.type" not in config.properties


def test_timestamp_key_generator_settings_are_kept(store: MemoryStore) -> None:
    settings = {
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
    }
    definition = replace(ORDERS, partition_by=("day",), key_generator=KeyGeneratorKind.TIMESTAMP)
    with pytest.raises(ConfigError, match=r"timestamp\.type"):
        create_table(store, definition, CLOCK)
    create_table(store, replace(definition, properties=settings), CLOCK)
    assert settings.items() <= load_table_config(store).properties.items()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": " "}, "name"),
        ({"record_key": ()}, "record key"),
        ({"record_key": ("",)}, "record key"),
        ({"record_key": ("a,b",)}, "record key"),
        ({"record_key": ("id", "id")}, "twice"),
        ({"record_key": ("nope",)}, "record key.*nope"),
        ({"record_key": ("home",)}, "single values.*home"),
        ({"record_key": ("home.street",)}, r"home\.street"),
        ({"record_key": ("ID",)}, "ID"),
        ({"partition_by": ("nope",)}, "partition.*nope"),
        ({"ordering": ("nope",)}, "ordering.*nope"),
        ({"table_version": 7}, "writes 6, 8, 9"),
        ({"merge_mode": MergeMode.EVENT_TIME_ORDERING}, "ordering"),
        ({"key_generator": KeyGeneratorKind.SIMPLE}, "SIMPLE"),
        (
            {"key_generator": KeyGeneratorKind.NON_PARTITION, "partition_by": ("day",)},
            "NON_PARTITION",
        ),
        (
            {
                "key_generator": KeyGeneratorKind.SIMPLE,
                "partition_by": ("day",),
                "record_key": ("id", "region"),
            },
            "one record key",
        ),
        ({"partition_by": ("day:HOURLY",)}, "custom"),
        (
            {"partition_by": ("day:SIMPLE",), "key_generator": KeyGeneratorKind.COMPLEX},
            "only a custom",
        ),
        ({"schema": pa.schema([])}, "no such record key"),
        ({"schema": pa.schema([("id", pa.string()), ("ID", pa.string())])}, "case"),
        (
            {"schema": pa.schema([("id", pa.string()), ("_hoodie_record_key", pa.string())])},
            "_hoodie_record_key",
        ),
        ({"schema": pa.schema([("id", pa.string()), ("x", pa.uint64())])}, "uint64"),
        ({"schema": pa.schema([("id", pa.string()), ("x", pa.null())])}, "no type"),
        ({"schema": pa.schema([("id", pa.string()), ("a b", pa.string())])}, "a b"),
        ({"properties": {"hoodie.table.version": "8"}}, "hoodie.table.version"),
        ({"properties": {"hoodie.populate.meta.fields": "false"}}, "populate"),
        ({"properties": {"colour": "red"}}, "colour"),
        ({"properties": {"hoodie.s3.secret.key": "x"}}, "secret"),
        ({"properties": {"hoodie.index.type": "HBASE"}}, "HBASE"),
        (
            {
                "properties": {
                    "hoodie.index.type": "BUCKET",
                    "hoodie.bucket.index.hash.field": "region",
                }
            },
            "record key",
        ),
        (
            {
                "properties": {
                    "hoodie.index.type": "BUCKET",
                    "hoodie.bucket.index.num.buckets": "0",
                }
            },
            "at least 1",
        ),
    ],
)
def test_a_definition_that_cannot_be_is_refused_before_anything_is_written(
    store: MemoryStore, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        create_table(store, replace(ORDERS, **changes), CLOCK)
    assert list(store.list()) == []


def test_without_a_schema_columns_are_taken_on_trust(store: MemoryStore) -> None:
    config = create_table(store, replace(ORDERS, schema=None, partition_by=("day",)), CLOCK)
    assert config.create_schema is None


@pytest.mark.parametrize("path", [PROPERTIES_PATH, BACKUP_PATH, ".hoodie/20250101000000000.commit"])
def test_nothing_is_created_over_a_table_or_the_rest_of_one(store: MemoryStore, path: str) -> None:
    store.put(path, b"x")
    with pytest.raises(ConfigError, match="exists here already"):
        create_table(store, ORDERS, CLOCK)
    assert store.get(path) == b"x"


def test_a_lock_left_by_another_process_does_not_prevent_creation(store: MemoryStore) -> None:
    store.put(".hoodie/.locks/table_lock.json", b"{}")
    assert create_table(store, ORDERS, CLOCK).name == "orders"


def test_of_many_creators_exactly_one_wins(tmp_path: Path) -> None:
    barrier = threading.Barrier(6)
    outcomes: list[str] = []

    def create(number: int) -> None:
        definition = replace(ORDERS, name=f"orders{number}")
        barrier.wait()
        try:
            outcomes.append(create_table(LocalStore(str(tmp_path)), definition, CLOCK).name)
        except ConfigError:
            outcomes.append("lost")

    threads = [threading.Thread(target=create, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("lost") == 5
    (winner,) = [name for name in outcomes if name != "lost"]
    assert load_table_config(LocalStore(str(tmp_path))).name == winner

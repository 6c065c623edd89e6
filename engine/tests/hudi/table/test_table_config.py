"""What properties mean, in the spelling of Hudi 0.14 and of Hudi 1.2 on a version 6 table."""

from __future__ import annotations

import pytest

from tideline.errors import UnsupportedTableError
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.capabilities.rules import Facts, refusal_of
from tideline.hudi.table.properties import KeyGeneratorKind, MergeMode, TableConfig, TableType

V0_14 = TableConfig(
    {
        "hoodie.table.name": "orders",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "6",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
        "hoodie.table.recordkey.fields": "region, id",
        "hoodie.table.partition.fields": "day,hour",
        "hoodie.table.precombine.field": "ts",
        "hoodie.compaction.payload.class": (
            "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
        ),
        "hoodie.compaction.record.merger.strategy": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.table.metadata.partitions": "column_stats,files",
    }
)
V1_2 = TableConfig(
    {
        "hoodie.table.name": "orders",
        "hoodie.database.name": "shop",
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": "6",
        "hoodie.table.format": "native",
        "hoodie.table.keygenerator.type": "SIMPLE",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "day",
        "hoodie.table.ordering.fields": "ts,seq",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.record.merge.strategy.id": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
        "hoodie.archivelog.folder": "history",
        "hoodie.table.timeline.timezone": "utc",
        "hoodie.populate.meta.fields": "false",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
    }
)


def test_understands_the_keys_of_hudi_0_14() -> None:
    assert V0_14.table_type is TableType.MERGE_ON_READ
    assert V0_14.key_generator is KeyGeneratorKind.COMPLEX
    assert V0_14.record_key_fields == ("region", "id")
    assert V0_14.partition_fields == ("day", "hour")
    assert V0_14.ordering_fields == ("ts",)
    assert V0_14.merge_mode is MergeMode.EVENT_TIME_ORDERING
    assert V0_14.hive_style and not V0_14.url_encode
    assert V0_14.metadata_partitions == ("column_stats", "files")


def test_absent_keys_have_hudis_defaults() -> None:
    assert V0_14.populate_meta_fields
    assert not V0_14.drop_partition_columns
    assert V0_14.timeline_timezone == "LOCAL"
    assert V0_14.layout.archive.folder == "archived"
    assert V0_14.layout_version == 1
    assert V0_14.database == ""
    assert V0_14.create_schema is None
    assert V0_14.index_type is None
    assert V0_14.bucket_count is None
    assert not V0_14.single_writer


def test_understands_the_keys_of_hudi_1_2() -> None:
    assert V1_2.key_generator is KeyGeneratorKind.SIMPLE
    assert V1_2.ordering_fields == ("ts", "seq")
    assert V1_2.merge_mode is MergeMode.EVENT_TIME_ORDERING
    assert V1_2.layout.archive.folder == "history"
    assert V1_2.timeline_timezone == "UTC"
    assert V1_2.database == "shop"
    assert V1_2.url_encode and not V1_2.populate_meta_fields


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({"class": "org.apache.hudi.keygen.SimpleKeyGenerator"}, KeyGeneratorKind.SIMPLE),
        ({"class": "org.apache.hudi.keygen.SimpleAvroKeyGenerator"}, KeyGeneratorKind.SIMPLE),
        (
            {"class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator"},
            KeyGeneratorKind.NON_PARTITION,
        ),
        (
            {"class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator"},
            KeyGeneratorKind.TIMESTAMP,
        ),
        ({"class": "org.apache.hudi.keygen.CustomKeyGenerator"}, KeyGeneratorKind.CUSTOM),
        ({"type": "COMPLEX_AVRO"}, KeyGeneratorKind.COMPLEX),
        ({"type": "NON_PARTITION"}, KeyGeneratorKind.NON_PARTITION),
        ({}, KeyGeneratorKind.NON_PARTITION),
        ({"keys": "id", "partitions": "day"}, KeyGeneratorKind.SIMPLE),
        ({"keys": "id,region", "partitions": "day"}, KeyGeneratorKind.COMPLEX),
        ({"keys": "id", "partitions": "day,hour"}, KeyGeneratorKind.COMPLEX),
        ({"keys": "id", "partitions": "country:SIMPLE"}, KeyGeneratorKind.CUSTOM),
    ],
)
def test_key_generator_from_class_type_or_fields(
    properties: dict[str, str], kind: KeyGeneratorKind
) -> None:
    names = {
        "class": "hoodie.table.keygenerator.class",
        "type": "hoodie.table.keygenerator.type",
        "keys": "hoodie.table.recordkey.fields",
        "partitions": "hoodie.table.partition.fields",
    }
    config = TableConfig({names[key]: value for key, value in properties.items()})
    assert config.key_generator is kind


def test_custom_partition_fields_are_split_from_their_types() -> None:
    config = TableConfig({"hoodie.table.partition.fields": "country:simple,date:TIMESTAMP"})
    assert config.partition_fields == ("country", "date")
    assert config.partition_field_types == ("SIMPLE", "TIMESTAMP")


@pytest.mark.parametrize(
    ("mode", "payload", "strategy", "ordering", "expected"),
    [
        (
            "COMMIT_TIME_ORDERING",
            "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
            "",
            "ts",
            "COMMIT",
        ),
        ("", "org.apache.hudi.common.model.DefaultHoodieRecordPayload", "", "", "EVENT"),
        ("", "org.apache.hudi.common.model.EventTimeAvroPayload", "", "", "EVENT"),
        ("", "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload", "", "ts", "COMMIT"),
        ("", "", "ce9acb64-bde0-424c-9b91-f6ebba25356d", "ts", "COMMIT"),
        ("", "", "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", "", "EVENT"),
        ("", "", "", "ts", "EVENT"),
        ("", "", "", "", "COMMIT"),
    ],
)
def test_merge_mode_from_mode_payload_strategy_or_ordering(
    mode: str, payload: str, strategy: str, ordering: str, expected: str
) -> None:
    config = TableConfig(
        {
            "hoodie.record.merge.mode": mode,
            "hoodie.compaction.payload.class": payload,
            "hoodie.record.merge.strategy.id": strategy,
            "hoodie.table.precombine.field": ordering,
        }
    )
    assert config.merge_mode is MergeMode(f"{expected}_TIME_ORDERING")


WRITABLE = {"hoodie.table.version": "6", "hoodie.table.type": "COPY_ON_WRITE"} | {
    "hoodie.table.recordkey.fields": "id"
}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hoodie.record.merge.mode": "CUSTOM"}, "CUSTOM"),
        ({"hoodie.compaction.payload.class": "com.acme.Payload"}, "com.acme.Payload"),
        ({"hoodie.table.keygenerator.class": "com.acme.Keys"}, "com.acme.Keys"),
        (
            {"hoodie.compaction.payload.class": "com.acme.DefaultHoodieRecordPayload"},
            "com.acme.DefaultHoodieRecordPayload",
        ),
        (
            {
                "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
                "hoodie.compaction.payload.class": "com.acme.Payload",
            },
            "com.acme.Payload",
        ),
        ({"hoodie.table.keygenerator.class": "com.acme.SimpleKeyGenerator"}, "com.acme.Simple"),
        ({"hoodie.datasource.write.slash.separated.date.partitioning": "true"}, "slash.separated"),
        ({"hoodie.table.cdc.enabled": "true"}, "cdc"),
        ({"hoodie.datasource.write.drop.partition.columns": "true"}, "drop.partition"),
        ({"hoodie.table.recordkey.fields": ""}, "record keys"),
    ],
)
def test_what_tideline_would_get_wrong_can_be_read_but_not_written(
    changes: dict[str, str], says: str
) -> None:
    assert refusal_of(Permission.WRITE, Facts(TableConfig(WRITABLE))) is None
    config = TableConfig(WRITABLE | changes)
    config.check_readable()
    refused = refusal_of(Permission.WRITE, Facts(config))
    assert refused is not None
    with pytest.raises(UnsupportedTableError, match=says):
        raise refused.error("memory://t")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hoodie.table.version": "10"}, "version 10 is not supported"),
        ({"hoodie.table.base.file.format": "HFILE"}, "base file format"),
        ({"hoodie.table.multiple.base.file.formats.enable": "true"}, "several base file formats"),
        ({"hoodie.table.format": "iceberg"}, "hoodie.table.format=iceberg"),
    ],
)
def test_what_lies_otherwise_than_tideline_reads_is_refused_by_name(
    changes: dict[str, str], says: str
) -> None:
    TableConfig(WRITABLE | {"hoodie.table.format": "native"}).check_readable()
    with pytest.raises(UnsupportedTableError, match=says):
        TableConfig(WRITABLE | changes).check_readable()

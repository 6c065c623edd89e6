"""Manifests and manifest lists: what others wrote is read, what we write is the same again."""

from __future__ import annotations

import datetime
import decimal
import uuid
from dataclasses import replace
from typing import Any

import pytest

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.iceberg.manifest.manifest_entry import (
    UNASSIGNED,
    DataFile,
    EntryStatus,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)
from tideline.iceberg.manifest.manifest_file import encode_manifest, read_manifest
from tideline.iceberg.manifest.manifest_list import encode_manifest_list, read_manifest_list
from tideline.iceberg.metadata.field_type import Decimal, FieldType, Fixed, NestedField, Primitive
from tideline.iceberg.metadata.partition_path import partition_path
from tideline.iceberg.metadata.partition_spec import (
    IDENTITY,
    PartitionField,
    PartitionSpec,
    Transform,
)
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.single_value import decode_value, encode_value
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO
from tideline.storage.location import StoreLocation
from tideline.storage.named_places import normalised
from tideline.testing.fixtures import fixture_table

WRITTEN_BY_OTHERS = [
    "iceberg-duckdb.hist.generated_spec2_0_001/data/generated_spec2_0_001/pyspark_iceberg_table",
    "iceberg-duckdb.hist.fruit/data/fruit",
    "iceberg-duckdb.partition_decimal_hugeint/data/partition_decimal_hugeint",
    "iceberg-duckdb.partition_binary/data/partition_binary",
    "iceberg-duckdb.hist.partition_timestamp_ns/data/partition_timestamp_ns",
    "iceberg-duckdb.equality_deletes/data/equality_deletes/warehouse/mydb/mytable_partitioned",
    "iceberg-duckdb.legacy_bare_deletion_vector/data/legacy_bare_deletion_vector/warehouse/default"
    "/legacy_bare_deletion_vector",
    "iceberg-python.hist.biglake_blmt/data/kevinliu_blmt",
    "iceberg-duckdb.iceberg/data/iceberg/lineitem_iceberg_gz",
]


def newest(table: str) -> tuple[TableMetadata, FileIO]:
    folder = fixture_table(table)
    files = sorted((folder / "metadata").glob("*.metadata.json"), key=lambda file: file.name)
    parsed = [
        TableMetadata.parse(file.read_bytes()) for file in files if file.name != "v0.metadata.json"
    ]
    metadata = max(parsed, key=lambda table_metadata: table_metadata.last_updated_ms)
    return metadata, FileIO(StoreLocation.of(folder), metadata.location)


def manifests_of(table: str) -> tuple[TableMetadata, FileIO, tuple[ManifestFile, ...]]:
    metadata, io = newest(table)
    snapshot = metadata.snapshot()
    assert snapshot is not None
    assert snapshot.manifest_list is not None
    return metadata, io, read_manifest_list(io.read(snapshot.manifest_list))


@pytest.mark.fixtures
@pytest.mark.parametrize("table", WRITTEN_BY_OTHERS)
def test_manifests_of_other_writers_survive_being_written_again(table: str) -> None:
    metadata, io, manifests = manifests_of(table)
    for manifest in manifests:
        entries = list(read_manifest(io.read(manifest.path), manifest))
        spec = metadata.spec(manifest.spec_id)
        encoded = encode_manifest(
            entries,
            spec=spec,
            schema=metadata.partition_schema(spec),
            content=manifest.content,
            format_version=metadata.format_version,
            snapshot_id=manifest.added_snapshot_id,
        )
        assert list(read_manifest(encoded.body, manifest)) == entries
        written = encoded.at(manifest.path)
        assert written.added_files_count == sum(e.status is EntryStatus.ADDED for e in entries)
        if manifest.partitions is not None and manifest.partitions[:1]:
            bounds = [
                (partition.lower_bound, partition.upper_bound) for partition in manifest.partitions
            ]
            assert [(p.lower_bound, p.upper_bound) for p in written.partitions or ()] == bounds
    encoded_list = encode_manifest_list(
        manifests,
        snapshot_id=1,
        parent_snapshot_id=None,
        sequence_number=99,
        format_version=metadata.format_version,
    )
    assert read_manifest_list(encoded_list.body) == manifests


@pytest.mark.fixtures
def test_metrics_can_be_left_unread() -> None:
    _, io, manifests = manifests_of(WRITTEN_BY_OTHERS[0])
    body = io.read(manifests[0].path)
    whole = list(read_manifest(body, manifests[0]))
    lean = list(read_manifest(body, manifests[0], with_metrics=False))
    assert whole[0].data_file.lower_bounds
    assert [e.data_file.lower_bounds for e in lean] == [None] * len(whole)
    assert [e.data_file.file_path for e in lean] == [e.data_file.file_path for e in whole]


@pytest.mark.fixtures
def test_broken_manifests_are_corrupt_and_named() -> None:
    _, io, manifests = manifests_of(WRITTEN_BY_OTHERS[0])
    body = io.read(manifests[0].path)
    for cut in (b"", body[:3], body[:200], body[:-20], b"PAR1" + body):
        with pytest.raises(CorruptTableError) as caught:
            list(read_manifest(cut, manifests[0]))
        assert caught.value.path == manifests[0].path


SCHEMA = Schema(
    0,
    (
        NestedField(1, "id", Primitive("long")),
        NestedField(2, "price", Decimal(9, 2)),
        NestedField(3, "key", Primitive("uuid")),
        NestedField(4, "code", Fixed(3)),
        NestedField(5, "day of week/2", Primitive("date")),
        NestedField(6, "other price", Decimal(9, 2)),
    ),
)
SPEC = PartitionSpec(
    4,
    tuple(
        PartitionField(field.field_id, 1000 + field.field_id, field.name, IDENTITY)
        for field in SCHEMA.fields
    ),
)
VALUES = (7, decimal.Decimal("-1.25"), uuid.UUID(int=5), b"abc", 20_000, decimal.Decimal("0.00"))


def entry(
    status: EntryStatus = EntryStatus.ADDED,
    *,
    number: int | None = None,
    values: tuple[Any, ...] = VALUES,
    rows: int = 10,
) -> ManifestEntry:
    file = DataFile(FileContent.DATA, "d/a.parquet", "PARQUET", 4, values, rows, 1_000)
    return ManifestEntry(status, 8, number, number, file)


def encoded(entries: list[ManifestEntry], version: int = 2) -> tuple[bytes, ManifestFile]:
    made = encode_manifest(
        entries,
        spec=SPEC,
        schema=SCHEMA,
        content=ManifestContent.DATA,
        format_version=version,
        snapshot_id=8,
    )
    return made.body, made.at("m/0.avro")


def test_partition_values_of_every_kind_and_any_name_come_back() -> None:
    nothing = (None,) * len(VALUES)
    body, manifest = encoded([entry(number=3), entry(number=3, values=nothing)])
    read = [manifest_entry.data_file.partition for manifest_entry in read_manifest(body, manifest)]
    assert read == [VALUES, nothing]
    assert manifest.partitions is not None
    assert all(partition.contains_null for partition in manifest.partitions)
    assert manifest.partitions[0].lower_bound == encode_value(Primitive("long"), 7)


def test_new_entries_inherit_and_old_ones_keep_their_sequence_number() -> None:
    body, manifest = encoded([entry(), entry(EntryStatus.EXISTING, number=2)])
    assert manifest.sequence_number == UNASSIGNED
    assert manifest.min_sequence_number == 2
    (listed,) = encode_manifest_list(
        [manifest],
        snapshot_id=8,
        parent_snapshot_id=None,
        sequence_number=9,
        format_version=2,
    ).manifests
    assert (listed.sequence_number, listed.min_sequence_number) == (9, 2)
    assert [manifest_entry.sequence_number for manifest_entry in read_manifest(body, listed)] == [
        9,
        2,
    ]


def test_row_ids_are_handed_on_from_list_to_manifest_to_file() -> None:
    gone = entry(EntryStatus.DELETED, number=1)
    body, manifest = encoded([entry(rows=10), gone, entry(rows=5)], version=3)
    made = encode_manifest_list(
        [manifest, replace(manifest, path="m/1.avro")],
        snapshot_id=8,
        parent_snapshot_id=None,
        sequence_number=9,
        format_version=3,
        first_row_id=100,
    )
    assert [manifest_file.first_row_id for manifest_file in made.manifests] == [100, 115]
    assert made.next_row_id == 130
    read = list(read_manifest(body, made.manifests[1]))
    assert [manifest_entry.data_file.first_row_id for manifest_entry in read] == [115, None, 125]


@pytest.mark.parametrize(
    ("type_", "value", "body"),
    [
        (Primitive("boolean"), True, b"\x01"),
        (Primitive("int"), 34, b"\x22\x00\x00\x00"),
        (Primitive("long"), -2, b"\xfe\xff\xff\xff\xff\xff\xff\xff"),
        (Primitive("string"), "é", b"\xc3\xa9"),
        (Primitive("double"), 1.5, b"\x00\x00\x00\x00\x00\x00\xf8?"),
        (Decimal(9, 2), decimal.Decimal("14.20"), b"\x05\x8c"),
        (Decimal(9, 2), decimal.Decimal("-1.28"), b"\x80"),
        (Decimal(9, 2), decimal.Decimal("1.28"), b"\x00\x80"),
        (Fixed(2), b"ab", b"ab"),
        (Primitive("uuid"), uuid.UUID(int=1), bytes(15) + b"\x01"),
    ],
)
def test_single_values_are_the_specifications_bytes(
    type_: FieldType, value: Any, body: bytes
) -> None:
    assert encode_value(type_, value) == body
    assert decode_value(type_, body) == value


def test_bounds_from_before_a_promotion_are_read_as_the_new_type() -> None:
    assert decode_value(Primitive("long"), b"\x22\x00\x00\x00") == 34
    assert decode_value(Primitive("double"), b"\x00\x00\xc0?") == 1.5
    with pytest.raises(CorruptTableError):
        decode_value(Primitive("long"), b"\x22")


def test_partition_folders_are_named_as_iceberg_names_them() -> None:
    schema = Schema(
        0,
        (
            NestedField(1, "ts", Primitive("timestamptz")),
            NestedField(2, "name", Primitive("string")),
            NestedField(3, "raw", Primitive("binary")),
        ),
    )
    fields = [
        (1, "ts_hour", Transform("hour"), 494_000),
        (1, "ts_month", Transform("month"), -1),
        (2, "name", IDENTITY, "EU/West é"),
        (2, "b", Transform.parse("bucket[16]"), 3),
        (3, "raw", IDENTITY, b"\xff\x00"),
        (2, "gone", Transform("void"), None),
        (2, "none", IDENTITY, None),
    ]
    spec = PartitionSpec(0, tuple(PartitionField(s, 0, n, t) for s, n, t, _ in fields))
    day = datetime.date(1970, 1, 1) + datetime.timedelta(days=494_000 // 24)
    assert partition_path(spec, tuple(value for *_, value in fields), schema) == (
        f"ts_hour={day}-{494_000 % 24:02d}/ts_month=1969-12/name=EU%2FWest+%C3%A9/b=3"
        "/raw=%2FwA%3D/gone=null/none=null"
    )


@pytest.mark.parametrize(
    ("uri", "same"),
    [
        ("s3a://bucket/a/b/", "s3://bucket/a/b"),
        ("file:/data/t", "file:///data/t"),
        ("file:///data//t", "file:///data/t"),
        ("/data/t", "file:///data/t"),
        ("data/t", "data/t"),
    ],
)
def test_spellings_of_a_place_are_one(uri: str, same: str) -> None:
    assert normalised(uri) == same


def test_files_of_a_moved_table_are_found_where_it_is(tmp_path: Any) -> None:
    (tmp_path / "here" / "data").mkdir(parents=True)
    (tmp_path / "here" / "data" / "a").write_bytes(b"1")
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "b").write_bytes(b"2")
    io = FileIO(StoreLocation.of(tmp_path / "here"), "s3://old/warehouse/t")
    assert io.read("s3a://old/warehouse/t/data/a") == b"1"
    assert io.read((tmp_path / "here" / "data" / "a").as_uri()) == b"1"
    elsewhere = (tmp_path / "else" / "b").as_uri()
    with pytest.raises(UnsupportedTableError, match="TIDELINE_EXTRA_LOCATIONS"):
        io.read(elsewhere)
    assert io.also_at([str(tmp_path / "else")]).read(elsewhere) == b"2"
    relative = FileIO(StoreLocation.of(tmp_path / "here"), "warehouse/t")
    assert relative.read("warehouse/t/data/a") == b"1"
    assert relative.read("some/other/here/data/a") == b"1"
    with pytest.raises(CorruptTableError):
        relative.read("some/other/data/a")

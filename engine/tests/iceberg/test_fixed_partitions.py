"""Partitions of fixed bytes, which Iceberg's Java stores with a length that no schema says."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tideline
from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.formats.avro_blocks import MAGIC, read_map
from tideline.formats.avro_container import encode_records_container, open_container
from tideline.iceberg.manifest.manifest_entry import ManifestContent, ManifestFile
from tideline.iceberg.manifest.manifest_file import encode_manifest, read_manifest
from tideline.iceberg.manifest.manifest_reading import entries_of, manifests_of
from tideline.iceberg.metadata.field_type import Decimal, Fixed, NestedField, Primitive
from tideline.iceberg.metadata.partition_spec import IDENTITY, PartitionField, PartitionSpec
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.services.remove_orphan_files.execute import execute_orphans, plan_orphans
from tideline.iceberg.services.remove_orphan_files.plan import OrphanOptions
from tideline.testing.iceberg_peer import DataFileOnDisk, IcebergPeer

SCHEMA = Schema(
    0,
    (
        NestedField(1, "a", Fixed(3)),
        NestedField(2, "d", Decimal(9, 2)),
        NestedField(3, "b", Fixed(3)),
        NestedField(4, "u", Primitive("uuid")),
    ),
)
SPEC = PartitionSpec(
    0, tuple(PartitionField(f.field_id, 1000 + f.field_id, f.name, IDENTITY) for f in SCHEMA.fields)
)


def javas_manifest(*values: tuple[bytes | None, bytes | None]) -> bytes:
    """A manifest with these values of `a` and `b`, each with its length before it."""
    made = encode_manifest(
        [], spec=SPEC, schema=SCHEMA, content=ManifestContent.DATA, format_version=2, snapshot_id=8
    )
    container = open_container(made.body)
    as_bytes = json.loads(json.dumps(container.schema))
    file = next(item for item in as_bytes["fields"] if item["field-id"] == 2)["type"]
    place = next(item for item in file["fields"] if item["field-id"] == 102)["type"]
    for item in place["fields"]:
        if item["name"] in "ab":
            item["type"] = ["null", "bytes"]
    records = [
        {
            "status": 1,
            "snapshot_id": 8,
            "sequence_number": None,
            "file_sequence_number": None,
            "data_file": {
                "content": 0,
                "file_path": f"d/{number}.parquet",
                "file_format": "PARQUET",
                "partition": {"a": a, "d": None, "b": b, "u": None},
                "record_count": 7,
                "file_size_in_bytes": 100,
            },
        }
        for number, (a, b) in enumerate(values)
    ]
    body = encode_records_container(as_bytes, records, {})
    # The header that says fixed, before the blocks of the other.
    return encode_header(container.schema, body)


def encode_header(schema: Mapping[str, Any], body: bytes) -> bytes:
    own, at = read_map(body, len(MAGIC))
    with_other = encode_records_container(schema, [], {})
    header, end = read_map(with_other, len(MAGIC))
    assert header["avro.codec"] == own["avro.codec"]
    sync = body[at : at + 16]
    return with_other[:end] + sync + body[at + 16 :]


def manifest(body: bytes) -> ManifestFile:
    return ManifestFile("m/0.avro", len(body), 0, ManifestContent.DATA, 3, 3, 8)


@pytest.mark.parametrize("with_metrics", [True, False])
def test_the_values_of_java_are_read_and_not_written(with_metrics: bool) -> None:
    values = [(b"abc", b"def"), (None, b"\x00\x01\x02"), (b"\xff\xfe\xfd", None)]
    body = javas_manifest(*values)
    entries = list(read_manifest(body, manifest(body), with_metrics=with_metrics))
    found = [entry.data_file.partition for entry in entries]
    assert found == [(a, None, b, None) for a, b in values]
    assert [entry.data_file.record_count for entry in entries] == [7, 7, 7]
    with pytest.raises(UnsupportedTableError, match="only read"):
        encode_manifest(
            entries,
            spec=SPEC,
            schema=SCHEMA,
            content=ManifestContent.DATA,
            format_version=2,
            snapshot_id=9,
        )


def test_values_of_another_length_are_none() -> None:
    body = javas_manifest((b"abcd", b"def"))
    with pytest.raises(CorruptTableError):
        list(read_manifest(body, manifest(body)))


@pytest.mark.interop
def test_a_table_of_javas_is_read_and_its_orphans_removed(iceberg_peer: IcebergPeer) -> None:
    uri = str(iceberg_peer.warehouse / "fixed" / "table")
    fields = [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "x", "required": False, "type": "fixed[3]"},
    ]
    part = {"name": "x", "transform": "identity", "source-id": 2, "field-id": 1000}
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    spec = {"spec-id": 0, "fields": [part]}
    iceberg_peer.create_table(uri, json.dumps(schema), json.dumps(spec), {"format-version": "2"})
    for number in range(2):
        path = Path(uri) / "data" / f"f{number}.parquet"
        path.parent.mkdir(exist_ok=True)
        columns = pa.schema(
            [
                pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"}),
                pa.field("x", pa.binary(3), metadata={"PARQUET:field_id": "2"}),
            ]
        )
        pq.write_table(pa.table([[number], [b"abc"]], schema=columns), path)
        file = DataFileOnDisk(str(path), path.stat().st_size, 1, "x=abc")
        iceberg_peer.append_files(uri, file)
    table = tideline.open_iceberg(uri)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1]
    io, snapshot = table.table.io, table.current_snapshot
    assert snapshot is not None
    entries = [entry for item in manifests_of(io, snapshot) for entry in entries_of(io, item)]
    assert {entry.data_file.partition for entry in entries} == {(b"abc",)}
    lost = Path(uri) / "data" / "lost.parquet"
    lost.write_bytes(b"1")
    operations = table.table.operations
    plan = plan_orphans(
        operations, OrphanOptions(time.time_ns() // 1_000_000 + 60_000, is_forced=True)
    )
    assert [orphan.location.rpartition("/")[2] for orphan in plan.orphans] == ["lost.parquet"]
    execute_orphans(operations, plan)
    assert not lost.exists()
    with pytest.raises(UnsupportedTableError, match="fixed bytes"):
        table.delete("id = 0")
    assert sorted(iceberg_peer.read(uri)["id"].to_pylist()) == [0, 1]

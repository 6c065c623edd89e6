"""Table metadata of versions 1 to 3: read, written back, refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.iceberg.commit.rewrite_files import commit_rewrite
from tideline.iceberg.metadata.metadata_update import (
    AddSnapshot,
    AssertRefSnapshotId,
    AssertTableUuid,
    RemoveSnapshots,
    SetSnapshotRef,
    apply_updates,
    unmet,
)
from tideline.iceberg.metadata.snapshot import MAIN, Snapshot, SnapshotRef
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.table_operations import Committed
from tideline.testing.fixtures import fixture_table
from tideline.testing.iceberg_model import IcebergModel

JAVA = "iceberg-java.core-resources/data"
SPARK = "iceberg-duckdb.hist.generated_spec2_0_001/data/generated_spec2_0_001/pyspark_iceberg_table"


def java_resource(name: str) -> bytes:
    return (fixture_table(JAVA) / name).read_bytes()


def spark_table(version: int) -> TableMetadata:
    path = fixture_table(SPARK) / "metadata" / f"v{version}.metadata.json"
    return TableMetadata.parse(path.read_bytes(), path=path)


@pytest.mark.fixtures
@pytest.mark.parametrize(
    "name",
    [
        "TableMetadataV1Valid.json",
        "TableMetadataV2Valid.json",
        "TableMetadataV2ValidMinimal.json",
        "TableMetadataV3ValidMinimal.json",
        "TableMetadataStatisticsFiles.json",
        "TableMetadataPartitionStatisticsFiles.json",
    ],
)
def test_javas_examples_are_read_and_written_back(name: str) -> None:
    body = java_resource(name)
    metadata = TableMetadata.parse(body)
    written = json.loads(metadata.to_bytes())
    assert TableMetadata.of(written) == metadata
    for field, value in json.loads(body).items():
        if field not in ("schemas", "schema", "snapshots", "current-snapshot-id"):
            assert written[field] == value, field


@pytest.mark.fixtures
def test_every_version_of_a_table_of_sparks_is_written_back_with_the_same_content() -> None:
    for version in range(1, 10):
        metadata = spark_table(version)
        written = json.loads(metadata.to_bytes())
        path = Path(fixture_table(SPARK) / "metadata" / f"v{version}.metadata.json")
        read = json.loads(path.read_text())
        assert written == read | {"refs": written["refs"]}
        assert written["refs"] == read["refs"]


@pytest.mark.fixtures
@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("TableMetadataV2MissingSortOrder.json", "sort-orders"),
        ("TableMetadataV2MissingSchemas.json", "schemas"),
        ("TableMetadataV2MissingPartitionSpecs.json", "partition-specs"),
        ("TableMetadataV2MissingLastPartitionId.json", "last-partition-id"),
    ],
)
def test_what_the_specification_requires_is_missed_by_name(name: str, missing: str) -> None:
    with pytest.raises(CorruptTableError, match=missing) as caught:
        TableMetadata.parse(java_resource(name), path="v2.metadata.json")
    assert caught.value.path == "v2.metadata.json"


@pytest.mark.fixtures
def test_a_version_above_three_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedTableError, match="versions 1 to 3") as caught:
        TableMetadata.parse(java_resource("TableMetadataUnsupportedVersion.json"))
    assert caught.value.value == "format-version 42"


@pytest.mark.parametrize(
    "encrypted",
    [
        {"properties": {"encryption.key-id": "k1"}},
        {"encryption-keys": [{"key-id": "k1", "encrypted-key-metadata": "AAAA"}]},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_an_encrypted_table_is_refused_by_name(encrypted: dict[str, Any]) -> None:
    document = IcebergModel.create().metadata().json()
    assert TableMetadata.of(document | {"encryption-keys": []}).table_uuid
    with pytest.raises(UnsupportedTableError, match=r"encrypted tables \(encryption.key-id\)"):
        TableMetadata.of(document | encrypted)


@pytest.mark.parametrize("body", [b"", b"{", b"\x1f\x8b\x08\x00", b"[]", b'{"format-version": 2}'])
def test_truncated_metadata_is_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptTableError):
        TableMetadata.parse(body)


@pytest.mark.fixtures
def test_gzip_is_seen_by_content() -> None:
    metadata = spark_table(9)
    assert TableMetadata.parse(metadata.to_bytes(is_gzip=True)) == metadata


@pytest.mark.fixtures
def test_a_dangling_branch_is_corrupt() -> None:
    document = spark_table(9).json()
    document["refs"]["audit"] = {"snapshot-id": 12, "type": "branch"}
    with pytest.raises(CorruptTableError, match="does not list"):
        TableMetadata.of(document)


def following(metadata: TableMetadata, snapshot_id: int = 77) -> Snapshot:
    return Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=metadata.current_snapshot_id,
        sequence_number=metadata.last_sequence_number + 1,
        timestamp_ms=metadata.last_updated_ms + 5,
        operation="replace",
        summary={"added-data-files": "1"},
        manifest_list="list.avro",
    )


@pytest.mark.fixtures
def test_a_commit_moves_the_branch_the_log_and_the_sequence_number() -> None:
    base = spark_table(9)
    snapshot = following(base)
    after = apply_updates(
        base, [AddSnapshot(snapshot), SetSnapshotRef(MAIN, SnapshotRef(77))], now_ms=1
    )
    assert after.current_snapshot_id == 77
    assert after.snapshot() == snapshot
    assert after.last_sequence_number == base.last_sequence_number + 1
    assert after.last_updated_ms == snapshot.timestamp_ms
    assert after.snapshot_log[-1].timestamp_ms == snapshot.timestamp_ms
    assert [ancestor.snapshot_id for ancestor in after.ancestors(77)][1] == base.current_snapshot_id
    assert TableMetadata.parse(after.to_bytes()) == after


@pytest.mark.fixtures
def test_rows_added_in_version_three_take_the_next_row_ids() -> None:
    body = java_resource("TableMetadataV3ValidMinimal.json")
    base = TableMetadata.parse(body)
    snapshot = Snapshot(5, None, 35, base.last_updated_ms, "append", {}, "l.avro", (), 0, 0, 40)
    after = apply_updates(base, [AddSnapshot(snapshot)], now_ms=0)
    assert after.next_row_id == 40
    assert json.loads(after.to_bytes())["next-row-id"] == 40


@pytest.mark.fixtures
def test_removing_snapshots_drops_their_log_and_statistics() -> None:
    base = spark_table(9)
    document = base.json()
    first = base.snapshot_log[0].snapshot_id
    document["statistics"] = [{"snapshot-id": first, "statistics-path": "s.puffin"}]
    after = apply_updates(TableMetadata.of(document), [RemoveSnapshots((first,))], now_ms=0)
    assert after.snapshot(first) is None
    assert after.json()["statistics"] == []
    assert first not in {entry.snapshot_id for entry in after.snapshot_log}


@pytest.mark.fixtures
def test_requirements_say_what_moved() -> None:
    base = spark_table(9)
    current = base.current_snapshot_id
    assert (
        unmet(base, [AssertTableUuid(base.table_uuid), AssertRefSnapshotId(MAIN, current)]) is None
    )
    assert "has moved" in str(unmet(base, [AssertRefSnapshotId(MAIN, 3)]))
    assert "another table" in str(unmet(base, [AssertTableUuid("other")]))
    assert unmet(base, [AssertRefSnapshotId("audit", None)]) is None


@pytest.mark.fixtures
def test_a_current_schema_that_is_not_listed_is_corrupt() -> None:
    document = spark_table(9).json() | {"current-schema-id": 12}
    with pytest.raises(CorruptTableError, match="no schema of this id"):
        TableMetadata.of(document)


@pytest.mark.parametrize("numbers_rows", [True, False], ids=["row ids", "no row ids"])
def test_version_three_without_a_next_row_id_is_read_and_gone_on_with(numbers_rows: bool) -> None:
    """DuckDB writes such."""
    model = IcebergModel.create(format_version=3)
    model.append(range(10))
    model.append([10, 11])
    store = model.location.open()
    newest = "metadata/v3.metadata.json"
    document = json.loads(store.get(newest))
    del document["next-row-id"]
    if not numbers_rows:
        for snapshot in document["snapshots"]:
            del snapshot["first-row-id"], snapshot["added-rows"]
    store.put(newest, json.dumps(document).encode())
    assert model.metadata().next_row_id == (12 if numbers_rows else 0)
    assert model.rows() == list(range(12))
    assert isinstance(commit_rewrite(model.operations(), model.plan_rewrite()), Committed)
    assert model.rows() == list(range(12))
    written = json.loads(store.get("metadata/v4.metadata.json"))
    assert written["next-row-id"] == model.metadata().next_row_id
    assert written["next-row-id"] >= 12

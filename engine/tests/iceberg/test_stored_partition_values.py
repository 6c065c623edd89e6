"""Partition values that engines store or order in ways of their own: fixed bytes, and UUIDs."""

from __future__ import annotations

import itertools
import uuid
from uuid import UUID

import pyarrow as pa
import pytest

import tideline
from tideline.errors import ConfigError, UnsupportedTableError
from tideline.iceberg.commit.partition_set import PartitionSet
from tideline.iceberg.data.partition_values import refuse_unstorable
from tideline.iceberg.manifest.manifest_entry import FieldSummary, ManifestContent, ManifestFile
from tideline.iceberg.manifest.manifest_reading import manifests_of
from tideline.iceberg.metadata.field_type import Fixed, NestedField, Primitive
from tideline.iceberg.metadata.partition_spec import PartitionField, PartitionSpec, Transform
from tideline.iceberg.metadata.schema import Schema
from tideline.testing.iceberg_values import data_file, table_metadata

UUIDS = [UUID(int=(first << 120) + 5) for first in (0x00, 0x7F, 0x80, 0xFF)]


def test_partitions_of_fixed_bytes_are_not_made() -> None:
    columns = pa.schema([pa.field("x", pa.binary(4)), pa.field("n", pa.int64())])
    with pytest.raises(ConfigError, match=r"identity.*x"):
        tideline.create_iceberg(f"memory://{uuid.uuid4().hex}/table", columns, partition_by="x")
    table = tideline.create_iceberg(
        f"memory://{uuid.uuid4().hex}/table", columns, partition_by="bucket(4, x)"
    )
    with pytest.raises(ConfigError, match=r"identity is not taken of x, which is fixed"):
        table.alter().add_partition_field("x").commit()
    table.write([{"x": b"abcd", "n": 1}, {"x": None, "n": 2}])
    assert table.count() == 2


def test_rows_are_not_written_into_partitions_of_fixed_bytes() -> None:
    schema = Schema(0, (NestedField(1, "x", Fixed(4)),))
    for name in ("identity", "void"):
        spec = PartitionSpec(0, (PartitionField(1, 1000, "x", Transform(name)),))
        refuse_unstorable((None,), spec, schema)
    with pytest.raises(UnsupportedTableError, match="partitions of fixed bytes"):
        refuse_unstorable((b"abcd",), spec, schema)


def test_a_manifest_has_bounds_of_uuids_in_javas_order() -> None:
    columns = pa.schema([pa.field("u", pa.uuid()), pa.field("n", pa.int64())])
    table = tideline.create_iceberg(f"memory://{uuid.uuid4().hex}/table", columns, partition_by="u")
    table.write([{"u": value.bytes, "n": 1} for value in UUIDS])
    metadata = table.refresh().metadata
    (manifest,) = manifests_of(table.table.io, metadata.snapshot())
    assert manifest.partitions is not None
    (summary,) = manifest.partitions
    assert (summary.lower_bound, summary.upper_bound) == (UUIDS[2].bytes, UUIDS[1].bytes)


@pytest.mark.parametrize("bounds", list(itertools.permutations(UUIDS, 2)))
def test_a_file_is_looked_for_whatever_the_bounds_of_uuids(bounds: tuple[UUID, UUID]) -> None:
    spec = PartitionSpec(0, (PartitionField(1, 1000, "p", Transform("identity")),))
    metadata = table_metadata(Schema(0, (NestedField(1, "u", Primitive("uuid")),)), spec)
    summary = FieldSummary(False, None, bounds[0].bytes, bounds[1].bytes)
    manifest = ManifestFile("m", 1, 0, ManifestContent.DATA, 1, 1, 1, partitions=(summary,))
    for value in UUIDS:
        assert PartitionSet.of([data_file("f", partition=(value,))]).meets(manifest, metadata)
    nothing = PartitionSet.of([data_file("f", partition=(None,))])
    assert not nothing.meets(manifest, metadata)

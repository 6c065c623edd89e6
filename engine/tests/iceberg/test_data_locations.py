"""Where new data files go, against locations that Iceberg's own runtime chose."""

from __future__ import annotations

import pytest

from tideline.iceberg.metadata.data_locations import DataLocations
from tideline.iceberg.metadata.field_type import INT, STRING, NestedField
from tideline.iceberg.metadata.partition_spec import PartitionField, PartitionSpec, Transform
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.services.rewrite_data_files.in_process import write_groups_here
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.run import rewrite_data_files
from tideline.iceberg.services.rewrite_position_deletes.execute import execute_position_deletes
from tideline.iceberg.services.rewrite_position_deletes.plan import delete_rewrite_options
from tideline.iceberg.table.open_table import IcebergTable
from tideline.testing.iceberg_delete_table import DeleteTable
from tideline.testing.iceberg_model import IcebergModel

SPREAD = {"write.object-storage.enabled": "true"}
FLAT = {**SPREAD, "write.object-storage.partitioned-paths": "false"}
SCHEMA = Schema(0, (NestedField(1, "region", STRING), NestedField(2, "id", INT)))
SPEC = PartitionSpec(
    0,
    (
        PartitionField(1, 1000, "region", Transform("identity")),
        PartitionField(2, 1001, "id_bucket", Transform("bucket", 4)),
    ),
)
NO_SPEC = PartitionSpec(0)


def metadata(properties: dict[str, str], location: str = "/w/lay/t") -> TableMetadata:
    document = IcebergModel.create(properties=properties).metadata().json()
    return TableMetadata.of({**document, "location": location})


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, "memory://t/table/data"),
        ({"write.data.path": "s3://b/d/"}, "s3://b/d"),
        ({"write.folder-storage.path": "s3://b/f"}, "s3://b/f"),
        ({"write.object-storage.path": "s3://b/o"}, "memory://t/table/data"),
        ({"write.object-storage.path": "s3://b/o", **SPREAD}, "s3://b/o"),
        ({"write.object-storage.path": "s3://b/o", "write.data.path": "s3://b/d", **SPREAD},
         "s3://b/d"),
    ],
)  # fmt: skip
def test_new_data_goes_where_the_properties_say(properties: dict[str, str], expected: str) -> None:
    assert DataLocations.of(metadata(properties, "memory://t/table")).folder == expected


@pytest.mark.parametrize(
    ("properties", "folder", "name", "partition"),
    [
        (
            {},
            "/w/lay/t/data/region=EU%2Fx/id_bucket=0",
            "00000-62-d1839bc1-5b16-43b1-a5f3-800a29067e48-0-00001.parquet",
            ("EU/x", 0),
        ),
        (
            SPREAD,
            "/w/lay/t/data/0100/1000/0010/10110010",
            "00000-42-f3a350d3-eab7-4101-8ee3-64f2dec92eb4-0-00001.parquet",
            None,
        ),
        (
            SPREAD,
            "/w/lay/t/data/0001/1011/0010/01011010/region=%C3%9CS/id_bucket=1",
            "00000-45-c130ce48-3754-4107-a0ea-0d3e9f435bf3-0-00002.parquet",
            ("ÜS", 1),
        ),
        (
            {**SPREAD, "write.data.path": "/w/lay/t/data2"},
            "/w/lay/t/data2/0110/0111/1010/11110000/region=%C3%9CS/id_bucket=1",
            "00000-75-91009df0-dd8d-4dc6-9d79-7fdee68bb532-0-00002.parquet",
            ("ÜS", 1),
        ),
        (
            {**SPREAD, "write.data.path": "file:///elsewhere"},
            "file:///elsewhere/1000/0100/0110/10101001/lay/t",
            "00000-54-a54354b3-d13e-464f-8093-bc38002cdae8-0-00001.parquet",
            None,
        ),
    ],
)
def test_files_go_where_iceberg_puts_them(
    properties: dict[str, str], folder: str, name: str, partition: tuple[str, int] | None
) -> None:
    locations = DataLocations.of(metadata(properties))
    spec = NO_SPEC if partition is None else SPEC
    assert locations.of_file(name, spec, partition or (), SCHEMA) == f"{folder}/{name}"


def test_flat_files_have_the_hash_before_their_name_and_no_partition() -> None:
    name = "00000-51-329f6060-f751-45bc-a882-17b6e731f49b-0-00002.parquet"
    found = DataLocations.of(metadata(FLAT)).of_file(name, SPEC, ("ÜS", 1), SCHEMA)
    assert found == f"/w/lay/t/data/0110/0010/1110/10110110-{name}"
    shared = {**FLAT, "write.data.path": "s3://b/d"}
    found = DataLocations.of(metadata(shared)).of_file(name, SPEC, ("ÜS", 1), SCHEMA)
    assert found == f"s3://b/d/0110/0010/1110/10110110/lay/t/{name}"


@pytest.mark.parametrize("properties", [SPREAD, FLAT])
def test_rewritten_files_and_deletes_are_laid_out_so(properties: dict[str, str]) -> None:
    made = DeleteTable(IcebergModel.create(properties=properties))
    made.append("a", [0, 2])
    made.append("b", [4, 6])
    made.append("c", [1, 3], parity="odd")
    made.append("d", [5, 7], parity="odd")
    made.delete({"a": [0]})
    made.delete({"b": [1]})
    table = IcebergTable.open(made.model.location.uri)
    chosen = delete_rewrite_options({"rewrite-all": "true"}, properties)
    assert execute_position_deletes(table.operations, chosen).files_added == 1
    assert not misplaced(made)
    options = RewriteOptions.parse({"rewrite-all": "true"}, properties=properties)
    assert rewrite_data_files(table, options, write_groups_here).files_added == 2
    assert not misplaced(made)
    assert sorted(made.rows()) == [1, 2, 3, 4, 5, 7]


def misplaced(made: DeleteTable) -> list[str]:
    """Files that were not appended as they are, and lie elsewhere than Iceberg puts them."""
    layout, metadata = DataLocations.of(made.model.metadata()), made.model.metadata()
    appended = {made.path(name) for name in "abcd"}
    found = []
    for entry in made.model.files().live:
        file = entry.data_file
        name = file.file_path.rpartition("/")[2]
        if not layout.has_partitions:
            name = name.partition("-")[2]
        expected = layout.of_file(name, metadata.spec(0), file.partition, metadata.schema())
        if file.file_path not in appended and file.file_path != expected:
            found.append(file.file_path)
    return found

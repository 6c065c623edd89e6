"""Real tables of other engines, planned: the files they have, and their rows but for deletes."""

from __future__ import annotations

import pytest

from tideline.errors import CorruptTableError
from tideline.formats.filter_parser import parse_filter
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.table.file_io import FileIO
from tideline.storage.location import StoreLocation
from tideline.testing.fixtures import all_expected, expected, fixture_table, require_fixtures

pytestmark = pytest.mark.fixtures

# Its delete files name the data files by where they were before they were moved.
MOVED = "iceberg-duckdb.hist.moved_positional_delete_path"
DUCKDB = "iceberg-duckdb."


def load(metadata_path: str) -> tuple[TableMetadata, FileIO]:
    table_path, _, name = metadata_path.partition("/metadata/")
    folder = fixture_table(table_path)
    path = folder / "metadata" / name
    metadata = TableMetadata.parse(path.read_bytes(), path=path)
    return metadata, FileIO(StoreLocation.of(folder), metadata.location)


def plan(metadata_path: str, where: str = "true") -> list[FileScanTask]:
    metadata, io = load(metadata_path)
    return list(plan_files(io, metadata, metadata.snapshot(), parse_filter(where)))


def iceberg_tables() -> list[str]:
    """Tables that some authority could read, by their metadata file."""
    require_fixtures()
    return [
        path
        for path, entry in all_expected().items()
        if entry.get("format") == "iceberg" and entry["expected"]["rows"] is not None
    ]


def test_every_table_is_planned_to_the_rows_that_others_read() -> None:
    """Every delete file of these tables deletes rows of the files it is planned with, once."""
    counted = {}
    for path in iceberg_tables():
        if path.startswith(MOVED):
            continue
        tasks = plan(path)
        deletes = {delete.file_path: delete for task in tasks for delete in task.deletes}
        counted[path] = sum(task.data_file.record_count for task in tasks) - sum(
            delete.record_count for delete in deletes.values()
        )
    assert len(counted) > 25
    assert counted == {path: expected(path)["expected"]["rows"] for path in counted}


def only(name: str) -> str:
    """The metadata file of the table whose folder is called `name`."""
    (path,) = [
        iceberg_table for iceberg_table in iceberg_tables() if f"/{name}/metadata/" in iceberg_table
    ]
    return path


@pytest.mark.parametrize(
    ("name", "deletes"),
    [
        ("mytable", [((), 1, False), ((), 3, False)]),
        ("mytable_partitioned", [((), 0, False)] * 3 + [((), 1, False)] * 3),
        (
            "generated_spec2_0_001/pyspark_iceberg_table",
            [((), 0, False), ((685,), 0, False), ((3077, 7690), 0, False)]
            + [((7690,), 0, False)] * 2,
        ),
        (
            "moved_positional_delete_path",
            [((), 0, False), *(((rows,), 0, False) for rows in (817, 829, 854))],
        ),
        ("legacy_bare_deletion_vector", [((), 0, True)]),
    ],
)
def test_deletes_meet_their_files(name: str, deletes: list[tuple[object, ...]]) -> None:
    """Rows of position delete files, number of equality delete files, a deletion vector."""
    found = [
        (
            tuple(delete.record_count for delete in task.position_deletes),
            len(task.equality_deletes),
            task.deletion_vector is not None,
        )
        for task in plan(only(name))
    ]
    assert sorted(found) == sorted(deletes)


@pytest.mark.parametrize(
    ("name", "where", "files"),
    [
        ("partition_integer", "partition_col = 42", 1),
        ("partition_integer", "partition_col > 42 and partition_col <= 1336", 0),
        ("partition_bool", "partition_col = true", 1),
        ("partition_float", "partition_col = 1.23", 1),
        ("partition_float", "partition_col between 1 and 5", 2),
        ("partition_binary", "partition_col = X'010203'", 1),
        ("partition_decimal_integer", "partition_col < 42.563", 1),
        ("partition_decimal_integer", "partition_col in (1.23, 42.5630, 7)", 2),
        ("partition_decimal_bigint", "partition_col = 0.00000000001", 1),
        ("partition_decimal_hugeint", "partition_col > 1000000000000.00000000000000000001", 1),
        ("partition_decimal_hugeint", "partition_col > 1000000000000.000000000000000000009", 2),
        ("partition_timestamp_ns", "partition_col >= '2023-08-01'", 1),
        ("partition_timestamp_year", "partition_col < '2021-01-01'", 1),
        ("partition_timestamp_year", "not partition_col < '2021-01-01'", 2),
        ("partition_timestamp_year", "partition_col is null", 0),
        ("partition_bucket_test", "partition_col = 'partition_1'", 1),
        ("partition_bucket_test", "partition_col in ('partition_1', 'partition_2')", 2),
        ("partition_bucket_test", "id < 0", 0),
        ("mytable_partitioned", "name in ('a', 'f')", 2),
        ("is_null_is_not_null", "true", 3),
    ],
)
def test_a_filter_leaves_the_files_that_may_hold_its_rows(
    name: str, where: str, files: int
) -> None:
    assert len(plan(only(name), where)) == files


def test_a_missing_manifest_list_is_named() -> None:
    path = next(
        name for name in all_expected() if name.startswith(f"{DUCKDB}hist.generated_spec1_0_01")
    )
    with pytest.raises(CorruptTableError, match=r"missing.*snap-25064456467094441"):
        plan(path)

"""Every Iceberg table of other engines, read to exactly the rows it is known to hold."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.iceberg.data.arrow_schema import arrow_schema, as_stored, stored_schema
from tideline.iceberg.data.file_rows import FileRows
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.table.file_io import FileIO
from tideline.storage.location import StoreLocation
from tideline.testing.fixtures import FIXTURES, expected, fixture_table

DUCKDB = "iceberg-duckdb"
READABLE = [
    f"{DUCKDB}.add_columns_with_defaults/data/add_columns_with_defaults/default.db/"
    "add_columns_with_defaults/metadata/00003-3f1801a5-7dfb-4072-b14a-39cd12f9279b.metadata.json",
    f"{DUCKDB}.custom_write_paths/data/custom_write_paths/metadata/"
    "00000-acdf842e-3a9d-4b9b-ad87-daf785831925.metadata.json",
    f"{DUCKDB}.expression_filter/data/expression_filter/metadata/"
    "00001-19739cda-f528-4429-84cc-377ffdd24c75.metadata.json",
    f"{DUCKDB}.hist.fruit/data/fruit/metadata/v3.metadata.json",
    f"{DUCKDB}.hist.generated_spec2_0_001/data/generated_spec2_0_001/pyspark_iceberg_table/"
    "metadata/v9.metadata.json",
    f"{DUCKDB}.hist.moved_positional_delete_path/data/moved_positional_delete_path/metadata/"
    "00025-bdccae64-4163-4a0f-96d5-415a6b67b9f5.metadata.json",
    f"{DUCKDB}.hist.partition_bucket_test/data/partition_bucket_test/metadata/v2.metadata.json",
    f"{DUCKDB}.hist.partition_timestamp_ns/data/partition_timestamp_ns/metadata/v2.metadata.json",
    f"{DUCKDB}.hist.partition_timestamp_year/data/partition_timestamp_year/metadata/"
    "v2.metadata.json",
    f"{DUCKDB}.iceberg/data/iceberg/lineitem_iceberg/metadata/v2.metadata.json",
    f"{DUCKDB}.iceberg/data/iceberg/lineitem_iceberg_gz/metadata/v2.gz.metadata.json",
    f"{DUCKDB}.iceberg_v1_repro/data/iceberg_v1_repro/repro/merch_v1/metadata/"
    "00004-v3-upgraded-v1-null-counts.metadata.json",
    f"{DUCKDB}.is_null_is_not_null/data/is_null_is_not_null/metadata/"
    "00001-43ceeb9a-cd0d-4556-b1e2-513b5bf88ff8.metadata.json",
    f"{DUCKDB}.partition_binary/data/partition_binary/metadata/v2.metadata.json",
    f"{DUCKDB}.partition_bool/data/partition_bool/metadata/v2.metadata.json",
    f"{DUCKDB}.partition_decimal_bigint/data/partition_decimal_bigint/metadata/v2.metadata.json",
    f"{DUCKDB}.partition_decimal_hugeint/data/partition_decimal_hugeint/metadata/v2.metadata.json",
    f"{DUCKDB}.partition_decimal_integer/data/partition_decimal_integer/metadata/v2.metadata.json",
    f"{DUCKDB}.partition_float/data/partition_float/metadata/v2.metadata.json",
    f"{DUCKDB}.partition_integer/data/partition_integer/metadata/v2.metadata.json",
    "iceberg-trino.invalid_compression_codec/data/invalid_compression_codec/none_parquet/metadata/"
    "00001-4a4f4986-8872-400e-9866-7fec45afa6a5.metadata.json",
    "iceberg-trino.mixed_case_bloom_filter/data/mixed_case_bloom_filter/metadata/"
    "00000-e9018b65-af5c-4ef5-9e30-c18a42f9782f.metadata.json",
]
COLUMN_MAPPING = (
    f"{DUCKDB}.column_mapping/data/column_mapping/warehouse/default.db/my_table/metadata/"
    "00001-75643dae-a7a7-46ae-ab30-ea80d3793f3f.metadata.json"
)
EQUALITY_DELETES = f"{DUCKDB}.equality_deletes/data/equality_deletes/warehouse/mydb"
BARE_VECTOR = (
    f"{DUCKDB}.legacy_bare_deletion_vector/data/legacy_bare_deletion_vector/warehouse/default/"
    "legacy_bare_deletion_vector/metadata/00002-legacy-bare-dv.metadata.json"
)
AVRO = (
    "iceberg-trino.invalid_compression_codec/data/invalid_compression_codec/none_avro/metadata/"
    "00001-12faafb5-1002-4960-ad32-277739955417.metadata.json"
)

pytestmark = [pytest.mark.fixtures, pytest.mark.slow]


def canonical() -> Any:
    path = FIXTURES / "canonical_rows.py"
    spec = importlib.util.spec_from_file_location("canonical_rows", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def opened(name: str) -> tuple[TableMetadata, FileIO]:
    folder, _, file = name.rpartition("/metadata/")
    table = fixture_table(folder)
    path = table / "metadata" / file
    metadata = TableMetadata.parse(path.read_bytes(), path=path)
    return metadata, FileIO(StoreLocation.of(str(table)), metadata.location)


def rows_of(metadata: TableMetadata, io: FileIO, *, any_format: bool = False) -> pa.Table:
    layout = RowLayout.of(metadata)
    reader = FileRows(io, layout, any_format=any_format)
    schema = stored_schema(layout.schema.fields)

    def batches() -> Iterator[pa.RecordBatch]:
        snapshot = metadata.snapshot()
        for task in () if snapshot is None else plan_files(io, metadata, snapshot):
            for rows in reader.batches(task):
                assert rows.schema.equals(arrow_schema(layout.fields))
                yield as_stored(rows.select(range(len(schema))), schema)

    return pa.Table.from_batches(batches(), schema=schema)


@pytest.mark.parametrize("name", READABLE, ids=lambda name: name.split("/")[-3])
def test_a_table_has_the_rows_others_find_in_it(name: str) -> None:
    rows = rows_of(*opened(name))
    wanted = expected(name)["expected"]
    assert rows.num_rows == wanted["rows"]
    assert canonical().summ(rows)[0]["sha256_user_columns"] == wanted["sha256"]


def test_files_without_field_ids_are_read_through_the_name_mapping() -> None:
    metadata, io = opened(COLUMN_MAPPING)
    # Its locations are relative to the folder of another project.
    root = Path(io.actual_uri(metadata.location).removeprefix("file://")).parents[3]
    moved = FileIO(StoreLocation.of(root), "data/persistent")
    rows = rows_of(metadata, moved)
    wanted = expected(COLUMN_MAPPING)["expected"]
    assert canonical().summ(rows)[0]["sha256_user_columns"] == wanted["sha256"]


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        (f"{EQUALITY_DELETES}/mytable/metadata/v7.metadata.json", [4, 5]),
        (f"{EQUALITY_DELETES}/mytable_partitioned/metadata/v6.metadata.json", [1, 4, 5]),
        (BARE_VECTOR, [1, 3]),
    ],
    ids=["equality", "equality in partitions", "bare deletion vector"],
)
def test_deleted_rows_stay_away(name: str, ids: list[int]) -> None:
    assert sorted(rows_of(*opened(name))["id"].to_pylist()) == ids


def test_avro_data_files_are_read_and_not_rewritten() -> None:
    rows = rows_of(*opened(AVRO), any_format=True)
    assert rows.to_pylist() == [{"a": "Hello World!"}]
    with pytest.raises(UnsupportedTableError, match=r"parquet.*\.avro.*AVRO"):
        rows_of(*opened(AVRO))


def test_a_data_file_that_is_cut_short_is_named(tmp_path: Path) -> None:
    metadata, io = opened(READABLE[2])
    snapshot = metadata.snapshot()
    assert snapshot is not None
    (task, *_) = plan_files(io, metadata, snapshot)
    name = task.data_file.file_path.rpartition("/")[2]
    (tmp_path / name).write_bytes(io.read(task.data_file.file_path)[:100])
    folder = task.data_file.file_path.rpartition("/")[0]
    broken = FileIO(StoreLocation.of(str(tmp_path)), folder)
    with pytest.raises(CorruptTableError, match=name):
        list(FileRows(broken, RowLayout.of(metadata)).batches(task))

"""New data files: sizes, partitions, parquet properties, and what the manifest says about them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.errors import ConfigError, CorruptTableError
from tideline.iceberg.data import parquet_rows
from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.column_metrics import cut_above, cut_below
from tideline.iceberg.data.file_layout import FileLayout
from tideline.iceberg.data.metrics_mode import COUNTS, FULL, NONE, TRUNCATED, MetricsConfig
from tideline.iceberg.data.parquet_rows import ParquetSource
from tideline.iceberg.data.parquet_settings import ParquetSettings
from tideline.iceberg.data.partitioned_writer import Output, write_data_files
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.metadata.data_locations import DataLocations
from tideline.iceberg.metadata.field_type import NestedField, parse_type
from tideline.iceberg.metadata.partition_spec import PartitionField, PartitionSpec, Transform
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.sort_order import SortField, SortOrder
from tideline.iceberg.table.file_io import FileIO
from tideline.storage.location import StoreLocation

SCHEMA = Schema(
    3,
    (
        NestedField(1, "id", parse_type("long"), required=True),
        NestedField(2, "name", parse_type("string")),
        NestedField(3, "score", parse_type("double")),
        NestedField(4, "key", parse_type("uuid")),
        NestedField(5, "nothing", parse_type("unknown")),
    ),
)
UNPARTITIONED = PartitionSpec(0)
BY_NAME = PartitionSpec(
    1,
    (
        PartitionField(2, 1000, "name", Transform("identity")),
        PartitionField(1, 1001, "id_bucket", Transform("bucket", 4)),
    ),
)


def write(
    folder: Path,
    batches: Any,
    *,
    properties: Mapping[str, str] | None = None,
    spec: PartitionSpec = UNPARTITIONED,
    partition: tuple[Any, ...] | None = (),
    size_bytes_max: int = 1 << 30,
    row_bytes: float = 20.0,
) -> tuple[DataFile, ...]:
    io = FileIO(StoreLocation.of(folder), str(folder))
    chosen = properties or {}
    layout = FileLayout(
        SCHEMA.schema_id,
        SCHEMA.fields,
        ParquetSettings.of(chosen, SCHEMA),
        MetricsConfig.of(chosen, SCHEMA, SortOrder()),
        0,
    )
    output = Output(
        SCHEMA, spec, partition, DataLocations(f"{folder}/data"), "new", row_bytes, size_bytes_max
    )
    return write_data_files(io, layout, output, batches)


def batch(start: int, count: int, name: str | None = None) -> pa.RecordBatch:
    numbers = range(start, start + count)
    columns = [
        pa.array(numbers, pa.int64()),
        pa.array([name or f"name {number}" for number in numbers]),
        pa.array([float("nan") if number % 10 == 0 else number / 2 for number in numbers]),
        pa.array([None if number % 2 else number.to_bytes(16, "big") for number in numbers],
                 pa.binary(16)),
        pa.nulls(count),
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(SCHEMA.fields))


def test_a_file_carries_ids_schema_and_metrics(tmp_path: Path) -> None:
    (written,) = write(tmp_path, [batch(0, 50), batch(50, 50)])
    file = pq.ParquetFile(written.file_path)
    assert written.file_size_bytes == Path(written.file_path).stat().st_size
    assert json.loads(file.metadata.metadata[b"iceberg.schema"]) == SCHEMA.json()
    assert b"ARROW:schema" not in file.metadata.metadata
    assert file.schema_arrow.names == ["id", "name", "score", "key"]
    assert [field.metadata[b"PARQUET:field_id"] for field in file.schema_arrow] == [
        b"1", b"2", b"3", b"4",
    ]  # fmt: skip
    assert "(UUID)" in str(file.schema) and not file.schema_arrow.field("id").nullable
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert written.record_count == 100
    assert written.value_counts == {1: 100, 2: 100, 3: 100, 4: 100}
    assert written.null_value_counts == {1: 0, 2: 0, 3: 0, 4: 50}
    assert written.nan_value_counts == {3: 10}
    assert written.lower_bounds is not None and written.upper_bounds is not None
    assert written.lower_bounds[1] == (0).to_bytes(8, "little")
    assert written.upper_bounds[2] == b"name 99"
    assert written.upper_bounds[4] == (98).to_bytes(16, "big")
    assert written.split_offsets == (4,)
    assert written.column_sizes is not None and set(written.column_sizes) == {1, 2, 3, 4}


def test_files_in_a_bucket_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    io = FileIO(StoreLocation.of("memory://written-data-files/lake"), "s3://bucket/lake")
    layout = FileLayout(
        0, SCHEMA.fields, ParquetSettings.of({}, SCHEMA), MetricsConfig(TRUNCATED, {}), 0
    )
    output = Output(
        SCHEMA, UNPARTITIONED, (), DataLocations("s3a://bucket/lake/data"), "new", 20.0, 1 << 30
    )
    (written,) = write_data_files(io, layout, output, [batch(0, 500)])
    assert written.file_path == "s3a://bucket/lake/data/new-00001.parquet"
    for limit in (1 << 20, 0):
        monkeypatch.setattr(parquet_rows, "_WHOLE_FILE_BYTES_MAX", limit)
        source = ParquetSource(io, written.file_path, written.file_size_bytes, None, {})
        rows = pa.Table.from_batches(found.rows for found in source.batches(SCHEMA.fields))
        assert rows.select(["id", "name", "key"]).equals(
            pa.Table.from_batches([batch(0, 500)]).select(["id", "name", "key"])
        )


def test_files_roll_at_the_size_they_may_have(tmp_path: Path) -> None:
    (source,) = write(tmp_path, [batch(0, 100_000)])
    limit, row_bytes = source.file_size_bytes // 5, source.file_size_bytes / 100_000
    batches = (batch(start, 5_000) for start in range(0, 100_000, 5_000))
    written = write(tmp_path / "cut", batches, size_bytes_max=limit, row_bytes=row_bytes)
    assert sum(file.record_count for file in written) == 100_000
    assert 4 <= len(written) <= 7
    assert all(limit * 0.7 < file.file_size_bytes < limit * 1.3 for file in written[:-1])


def test_rows_stream_through_memory_that_one_row_group_needs(tmp_path: Path) -> None:
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    before = pa.default_memory_pool()
    properties = {"write.parquet.row-group-size-bytes": str(2 << 20)}
    seen_bytes = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal seen_bytes
        for start in range(0, 400_000, 5_000):
            rows = batch(start, 5_000)
            seen_bytes += rows.nbytes
            yield rows

    pa.set_memory_pool(pool)
    try:
        (written,) = write(tmp_path, batches(), properties=properties)
    finally:
        pa.set_memory_pool(before)
    assert written.record_count == 400_000
    assert seen_bytes > 16 << 20
    assert pool.max_memory() < 8 << 20


def test_row_groups_end_at_their_size(tmp_path: Path) -> None:
    properties = {"write.parquet.row-group-size-bytes": "100000"}
    (written,) = write(tmp_path, [batch(0, 5_000) for _ in range(4)], properties=properties)
    file = pq.ParquetFile(written.file_path)
    assert file.metadata.num_row_groups == 4
    assert written.split_offsets is not None and len(written.split_offsets) == 4
    assert sorted(set(written.split_offsets)) == list(written.split_offsets)


def test_rows_are_spread_over_their_partitions(tmp_path: Path) -> None:
    batches = [batch(start, 40, name) for start in (0, 40) for name in ("a/b", "ü")]
    written = write(tmp_path, batches, spec=BY_NAME, partition=None)
    assert sum(file.record_count for file in written) == 160
    partitions = [file.partition for file in written]
    assert len(set(partitions)) == len(partitions) == 8
    for file in written:
        name, _ = file.partition
        assert file.spec_id == 1
        assert f"/name={'a%2Fb' if name == 'a/b' else '%C3%BC'}/id_bucket=" in file.file_path
        assert set(pq.read_table(file.file_path)["name"].to_pylist()) == {name}


def test_what_fails_leaves_no_file(tmp_path: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 40_000, 5_000):
            yield batch(start, 5_000)
        raise CorruptTableError("the source ended early")

    with pytest.raises(CorruptTableError, match="ended early"):
        write(tmp_path, batches(), size_bytes_max=100_000)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_null_in_a_required_column_is_an_error(tmp_path: Path) -> None:
    good = batch(0, 3)
    columns = [pa.array([1, None, 3]), *good.columns[1:]]
    with pytest.raises(CorruptTableError, match="null"):
        write(tmp_path, [pa.RecordBatch.from_arrays(columns, schema=good.schema)])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_parquet_properties_are_obeyed(tmp_path: Path) -> None:
    properties = {
        "write.parquet.compression-codec": "gzip",
        "write.parquet.compression-level": "9",
        "write.parquet.bloom-filter-enabled.column.name": "true",
        "write.parquet.bloom-filter-fpp.column.name": "0.001",
    }
    (written,) = write(tmp_path, [batch(0, 2_000)], properties=properties)
    (plain,) = write(tmp_path / "plain", [batch(0, 2_000)], properties={
        "write.parquet.compression-codec": "uncompressed"})  # fmt: skip
    group = pq.ParquetFile(written.file_path).metadata.row_group(0)
    assert group.column(1).compression == "GZIP"
    assert pq.ParquetFile(plain.file_path).metadata.row_group(0).column(1).compression == (
        "UNCOMPRESSED"
    )
    sizes = [written.file_size_bytes - sum((written.column_sizes or {}).values())]
    (without,) = write(tmp_path / "without", [batch(0, 2_000)], properties={
        "write.parquet.compression-codec": "gzip"})  # fmt: skip
    sizes.append(without.file_size_bytes - sum((without.column_sizes or {}).values()))
    assert sizes[0] > sizes[1] + 2_000, "no bloom filter was written"
    with pytest.raises(ConfigError, match="compression-codec"):
        ParquetSettings.of({"write.parquet.compression-codec": "lzo"}, SCHEMA)


def test_modes_of_metrics_follow_the_properties() -> None:
    properties = {
        "write.metadata.metrics.default": "counts",
        "write.metadata.metrics.column.name": "full",
        "write.metadata.metrics.column.score": "none",
        "write.metadata.metrics.column.gone": "full",
    }
    config = MetricsConfig.of(properties, SCHEMA, SortOrder(1, (SortField(4),)))
    assert [config.mode(number) for number in (1, 2, 3, 4)] == [COUNTS, FULL, NONE, TRUNCATED]
    assert MetricsConfig.of({}, SCHEMA, SortOrder()).mode(1) == TRUNCATED
    narrow = {"write.metadata.metrics.max-inferred-column-defaults": "2"}
    config = MetricsConfig.of(narrow, SCHEMA, SortOrder())
    assert [config.mode(number) for number in (1, 2, 3, 4)] == [TRUNCATED, TRUNCATED, NONE, NONE]


def test_metrics_have_no_more_than_their_mode_allows(tmp_path: Path) -> None:
    properties = {
        "write.metadata.metrics.default": "counts",
        "write.metadata.metrics.column.name": "truncate(3)",
        "write.metadata.metrics.column.score": "none",
    }
    (written,) = write(tmp_path, [batch(0, 50)], properties=properties)
    assert written.value_counts is not None and set(written.value_counts) == {1, 2, 4}
    assert written.nan_value_counts == {}
    assert (written.lower_bounds, written.upper_bounds) == ({2: b"nam"}, {2: b"nan"})


@pytest.mark.parametrize(
    ("value", "length", "lower", "upper"),
    [
        ("abcdef", 3, "abc", "abd"),
        ("abc", 3, "abc", "abc"),
        ("ab\U0010ffffd", 3, "ab\U0010ffff", "ac"),
        ("\U0010ffff\U0010ffff", 1, "\U0010ffff", None),
        ("a\ud7ffx", 2, "a\ud7ff", "a\ue000"),
        ("käsekuchen", 2, "kä", "kå"),
        (b"\x01\xff\xff\x01", 3, b"\x01\xff\xff", b"\x02"),
        (b"\xff\xff", 1, b"\xff", None),
        (7, 3, 7, 7),
        ("abcdef", None, "abcdef", "abcdef"),
    ],
)
def test_cut_bounds_stay_bounds(value: Any, length: int | None, lower: Any, upper: Any) -> None:
    assert cut_below(value, length) == lower
    assert cut_above(value, length) == upper

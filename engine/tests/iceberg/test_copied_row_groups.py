"""Which row groups a rewrite copies as bytes, and what the new files are then."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.errors import CorruptTableError
from tideline.iceberg.data.arrow_schema import stored_schema
from tideline.iceberg.data.copy_rules import CopyRules, Treatment
from tideline.iceberg.data.file_layout import FileLayout
from tideline.iceberg.data.metrics_mode import MetricsConfig
from tideline.iceberg.data.parquet_settings import ParquetSettings
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.manifest.manifest_entry import DataFile, FileContent
from tideline.iceberg.metadata.data_locations import DataLocations
from tideline.iceberg.metadata.field_type import (
    Decimal,
    Fixed,
    ListType,
    MapType,
    NestedField,
    Primitive,
    StructType,
    parse_type,
)
from tideline.iceberg.metadata.partition_spec import PartitionSpec
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.sort_order import SortOrder
from tideline.iceberg.metadata.stored_columns import stored_columns
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.services.rewrite_data_files.execute import RewriteContext
from tideline.iceberg.services.rewrite_data_files.group_outcome import GroupResult, RewriteEngine
from tideline.iceberg.services.rewrite_data_files.in_process import (
    SMALL_BYTES_MAX,
    engine_for,
    write_groups_here,
)
from tideline.iceberg.services.rewrite_data_files.left_files import Reason
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.plan import FileGroup
from tideline.iceberg.services.rewrite_data_files.stored_file import open_stored
from tideline.iceberg.table.file_io import FileIO
from tideline.settings.small_engine import SmallEngine
from tideline.storage.location import StoreLocation

SCHEMA = Schema(
    0,
    (
        NestedField(1, "id", parse_type("long"), required=True),
        NestedField(2, "name", parse_type("string")),
        NestedField(3, "weight", parse_type("double")),
    ),
)
# A row group of 1,000 bytes is large enough to be copied.
LARGE_ENOUGH = {"write.parquet.row-group-size-bytes": "16000"}
ROWS = 500
METRICS = (
    "record_count", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds",
    "upper_bounds",
)  # fmt: skip


class Lake:
    """Data files of an unpartitioned table, and what rewriting them comes to."""

    def __init__(self, folder: Path, schema: Schema = SCHEMA) -> None:
        self.folder = folder
        self.schema = schema
        self.io = FileIO(StoreLocation.of(folder), str(folder))

    def write(self, name: str, *, rows: int = ROWS, **options: Any) -> FileScanTask:
        """A file of the table's columns."""
        numbers = np.arange(rows) + 1000 * len(list(self.folder.iterdir()))
        weights = np.where(numbers % 100 == 0, np.nan, numbers / 7)
        columns = [
            pa.array(numbers),
            pa.array([f"n{number}" for number in numbers]),
            pa.array(weights, mask=numbers % 9 == 0),
        ]
        table = pa.Table.from_arrays(columns, schema=stored_schema(SCHEMA.fields))
        chosen = {"compression": "zstd", "store_schema": False, **options}
        schema = chosen.pop("schema", table.schema)
        table = pa.Table.from_arrays(table.columns, schema=schema)
        path = self.folder / f"{name}.parquet"
        pq.write_table(table, path, **chosen)
        size_bytes = path.stat().st_size
        return FileScanTask(
            DataFile(FileContent.DATA, str(path), "PARQUET", 0, (), rows, size_bytes), 1
        )

    def context(self, properties: Mapping[str, str]) -> RewriteContext:
        files = FileLayout(
            0,
            self.schema.fields,
            ParquetSettings.of(properties, self.schema),
            MetricsConfig.of(properties, self.schema, SortOrder()),
            0,
        )
        rows = RowLayout(self.schema, (), {0: PartitionSpec(0)}, None, False)
        return RewriteContext(
            rows, files, DataLocations(f"{self.folder}/data"), uuid.uuid4().hex, None
        )

    def rewrite(
        self,
        tasks: Sequence[FileScanTask],
        properties: Mapping[str, str] = LARGE_ENOUGH,
        *,
        size_bytes_max: int = 1 << 30,
    ) -> list[DataFile]:
        context = self.context(properties)
        (done,) = write_groups_here(self.io, context, [group(tasks, size_bytes_max)])
        assert isinstance(done, GroupResult), done
        return list(done.added)

    def treatments(self, task: FileScanTask, **properties: str) -> list[Treatment]:
        files = self.context({**LARGE_ENOUGH, **properties}).files
        rules = CopyRules.of(files.fields, files.parquet, files.metrics)
        source = open_stored(self.io, task.data_file)
        assert source is not None
        return rules.treatments(source, lambda _: False)


def group(tasks: Sequence[FileScanTask], size_bytes_max: int = 1 << 30) -> FileGroup:
    size_bytes = sum(task.data_file.file_size_bytes for task in tasks)
    rows = sum(task.data_file.record_count for task in tasks)
    return FileGroup(
        0, 0, (), 0, tuple(tasks), size_bytes, 1, size_bytes, size_bytes_max, Reason.REWRITE_ALL,
        rows, 0,
    )  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def rows_of(paths: Sequence[str]) -> list[dict[str, Any]]:
    found = pa.concat_tables(pq.read_table(path) for path in paths)
    return sorted(found.to_pylist(), key=lambda row: row["id"])


def test_copied_and_encoded_row_groups_share_a_file_with_exact_metrics(lake: Lake) -> None:
    tasks = [lake.write("a"), lake.write("b"), lake.write("c", rows=40), lake.write("d", rows=30)]
    (copied,) = lake.rewrite(tasks)
    file = pq.ParquetFile(copied.file_path)
    assert [file.metadata.row_group(n).num_rows for n in range(3)] == [ROWS, ROWS, 70]
    paths = [task.data_file.file_path for task in tasks]
    assert repr(rows_of([copied.file_path])) == repr(rows_of(paths))
    # The same when nothing is copied.
    (encoded,) = lake.rewrite(tasks, {"write.parquet.row-group-size-bytes": "16000000"})
    for metric in METRICS:
        assert getattr(copied, metric) == getattr(encoded, metric), metric
    assert copied.split_offsets is not None and len(copied.split_offsets) == 3
    assert copied.file_size_bytes == Path(copied.file_path).stat().st_size


def test_a_file_is_finished_before_a_row_group_makes_it_too_large(lake: Lake) -> None:
    tasks = [lake.write(name) for name in "abcde"]
    size_bytes = tasks[0].data_file.file_size_bytes
    files = lake.rewrite(tasks, size_bytes_max=round(2.1 * size_bytes))
    assert [file.record_count for file in files] == [2 * ROWS, 2 * ROWS, ROWS]
    assert repr(rows_of([file.file_path for file in files])) == repr(
        rows_of([task.data_file.file_path for task in tasks])
    )


def test_what_does_not_fit_the_table_is_encoded_anew(lake: Lake) -> None:
    fits = lake.write("fits")
    assert lake.treatments(fits) == [Treatment.COPIED]
    other = stored_schema([replace(SCHEMA.fields[0], required=False), *SCHEMA.fields[1:]])
    cases = {
        Treatment.TRANSCODED: lake.write("snappy", compression="snappy"),
        Treatment.STATISTICS: lake.write("bare", write_statistics=["id"]),
        Treatment.COLUMNS: lake.write("optional", schema=other),
        Treatment.SMALL: lake.write("small", rows=20),
    }
    for expected, task in cases.items():
        assert lake.treatments(task) == [expected]
    filters = {"write.parquet.bloom-filter-enabled.column.name": "true"}
    assert lake.treatments(fits, **filters) == [Treatment.BLOOM_FILTER]
    filtered = lake.write("filtered", bloom_filter_options={"name": {"ndv": 9, "fpp": 0.1}})
    assert lake.treatments(filtered, **filters) == [Treatment.COPIED]
    counts_only = {"write.metadata.metrics.default": "none"}
    assert lake.treatments(cases[Treatment.STATISTICS], **counts_only) == [Treatment.COPIED]
    tasks = [fits, filtered, *cases.values()]
    files = lake.rewrite(tasks)
    assert sum(file.record_count for file in files) == 5 * ROWS + 20


@pytest.mark.parametrize("codec", ["gzip", "lz4", "brotli", "uncompressed", "snappy"])
def test_row_groups_of_other_codecs_are_compressed_anew(lake: Lake, codec: str) -> None:
    stored = "none" if codec == "uncompressed" else codec
    tasks = [lake.write("a"), lake.write("b", compression=stored), lake.write("c", rows=30)]
    properties = {**LARGE_ENOUGH, "write.parquet.compression-codec": codec}
    assert lake.treatments(tasks[0], **properties) == [Treatment.TRANSCODED]
    assert lake.treatments(tasks[1], **properties) == [Treatment.COPIED]
    (file,) = lake.rewrite(tasks, properties)
    paths = [task.data_file.file_path for task in tasks]
    assert repr(rows_of([file.file_path])) == repr(rows_of(paths))
    found = pq.ParquetFile(file.file_path).metadata
    groups = [found.row_group(number) for number in range(found.num_row_groups)]
    assert [group.num_rows for group in groups] == [ROWS, ROWS, 30]
    codecs = {group.column(n).compression for group in groups for n in range(3)}
    assert codecs == {codec.upper()}
    (encoded,) = lake.rewrite(
        tasks, {**properties, "write.parquet.row-group-size-bytes": "16000000"}
    )
    for metric in METRICS:
        assert getattr(file, metric) == getattr(encoded, metric), metric
    sizes = [sum(group.column(n).total_compressed_size for group in groups) for n in range(3)]
    assert file.column_sizes == {number + 1: size for number, size in enumerate(sizes)}


def test_columns_that_are_uncompressed_next_to_compressed_ones_stay_so(lake: Lake) -> None:
    codecs = dict.fromkeys(pq.read_schema(lake.write("a").data_file.file_path).names, "zstd")
    first = next(iter(codecs))
    task = lake.write("b", compression={**codecs, first: "none"})
    properties = {**LARGE_ENOUGH, "write.parquet.compression-codec": "zstd"}
    assert lake.treatments(task, **properties) == [Treatment.COPIED]
    (file,) = lake.rewrite([task], properties)
    group = pq.ParquetFile(file.file_path).metadata.row_group(0)
    assert group.column(0).compression == "UNCOMPRESSED"
    assert group.column(1).compression == "ZSTD"


def test_the_level_that_the_table_asks_for_counts(lake: Lake) -> None:
    task = lake.write("a", rows=20_000, compression="none", use_dictionary=False)
    sizes = [
        lake.rewrite([task], {**LARGE_ENOUGH, "write.parquet.compression-level": level})[0]
        for level in ("1", "19")
    ]
    assert sizes[0].file_size_bytes > sizes[1].file_size_bytes
    assert sizes[0].record_count == sizes[1].record_count == 20_000


def test_small_row_groups_without_a_codec_are_encoded(lake: Lake) -> None:
    task = lake.write("plain", compression="none")
    size_bytes = 16 * task.data_file.file_size_bytes
    large = {"write.parquet.row-group-size-bytes": str(size_bytes // 5)}
    small = {"write.parquet.row-group-size-bytes": str(size_bytes // 3)}
    assert lake.treatments(task, **large) == [Treatment.TRANSCODED]
    assert lake.treatments(task, **small) == [Treatment.SMALL]


def test_nan_is_counted_unless_the_manifest_says_that_there_is_none(lake: Lake) -> None:
    task = lake.write("a")
    (counted,) = lake.rewrite([task])
    assert counted.nan_value_counts == {3: 4}
    for known, expected in (({3: 0}, 0), ({3: 1}, 4), ({1: 0}, 4)):
        file = replace(task.data_file, nan_value_counts=known)
        (written,) = lake.rewrite([replace(task, data_file=file)])
        assert written.nan_value_counts == {3: expected}


def test_a_broken_data_file_is_reported_as_before(lake: Lake) -> None:
    task = lake.write("a")
    path = Path(task.data_file.file_path)
    path.write_bytes(path.read_bytes()[:-20] + b"x" * 20)
    context = lake.context(LARGE_ENOUGH)
    (failed,) = write_groups_here(lake.io, context, [group([task])])
    assert not isinstance(failed, GroupResult)
    assert isinstance(failed.error, CorruptTableError)
    assert failed.error.path == task.data_file.file_path


def test_columns_are_expected_as_they_are_written(tmp_path: Path) -> None:
    names = "boolean int long float double date time timestamp timestamptz timestamp_ns"
    words = (*names.split(), "timestamptz_ns", "string", "binary", "uuid", "unknown")
    fields = [NestedField(n, word, Primitive(word)) for n, word in enumerate(words, 1)]
    fields += [NestedField(20 + p, f"d{p}", Decimal(p, 2), True) for p in range(2, 39)]
    inner = (
        NestedField(105, "x", Primitive("long"), True),
        NestedField(106, "y", ListType(107, Fixed(3), False)),
    )
    fields += [
        NestedField(100, "l", ListType(101, Primitive("uuid"), True)),
        NestedField(102, "m", MapType(103, Primitive("string"), 104, StructType(inner), False)),
        NestedField(108, "f", Fixed(7)),
    ]
    path = tmp_path / "empty.parquet"
    schema = stored_schema(fields)
    pq.ParquetWriter(path, schema, store_schema=False, store_decimal_as_integer=True).close()
    io = FileIO(StoreLocation.of(tmp_path), str(tmp_path))
    file = DataFile(FileContent.DATA, str(path), "PARQUET", 0, (), 0, path.stat().st_size)
    source = open_stored(io, file)
    assert source is not None
    assert source.nodes == stored_columns(fields)


def test_small_rewrites_do_not_ask_for_spark(lake: Lake) -> None:
    asked = []

    def spark() -> RewriteEngine:
        asked.append(True)
        return write_groups_here

    small = group([lake.write("a")])
    large = replace(small, input_bytes=SMALL_BYTES_MAX + 1)
    here = RewriteOptions.parse({}, properties={})
    there = RewriteOptions.parse({"tideline.engine.small": "spark"}, properties={})
    assert there.small_engine is SmallEngine.SPARK
    for options, groups, expected in ((here, small, 0), (here, large, 1), (there, small, 2)):
        list(engine_for(options, spark)(lake.io, lake.context(LARGE_ENOUGH), [groups]))
        assert len(asked) == expected

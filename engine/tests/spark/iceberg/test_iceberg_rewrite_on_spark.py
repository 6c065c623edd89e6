"""Rewriting groups of Iceberg files in Spark tasks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tideline.errors import CorruptTableError
from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.file_layout import FileLayout
from tideline.iceberg.data.metrics_mode import MetricsConfig
from tideline.iceberg.data.parquet_settings import ParquetSettings
from tideline.iceberg.data.partitioned_writer import Output, write_data_files
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.data.row_order import RowOrder
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.metadata.data_locations import DataLocations
from tideline.iceberg.metadata.field_type import NestedField, parse_type
from tideline.iceberg.metadata.partition_spec import PartitionField, PartitionSpec, Transform
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.sort_order import SortField, SortOrder
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.services.rewrite_data_files.execute import RewriteContext
from tideline.iceberg.services.rewrite_data_files.group_outcome import GroupFailed, GroupResult
from tideline.iceberg.services.rewrite_data_files.left_files import Reason
from tideline.iceberg.services.rewrite_data_files.plan import FileGroup
from tideline.iceberg.table.file_io import FileIO
from tideline.spark.iceberg.rewrite import execute_groups
from tideline.storage.location import StoreLocation

pytestmark = pytest.mark.spark

SCHEMA = Schema(
    0,
    (
        NestedField(1, "id", parse_type("long"), required=True),
        NestedField(2, "key", parse_type("uuid")),
        NestedField(3, "weight", parse_type("double")),
    ),
)
SPECS = {
    0: PartitionSpec(0),
    1: PartitionSpec(1, (PartitionField(1, 1000, "part", Transform("bucket", 3)),)),
}
FILES, ROWS = 6, 3_000
# In a task's memory, by a shuffle, and through the disk of this machine.
WAYS_TO_SORT = [(1 << 30, False), (20_000, True), (20_000, False)]


class Lake:
    """Some data files of an unpartitioned table, and what it takes to rewrite them."""

    def __init__(self, folder: Path) -> None:
        self.io = FileIO(StoreLocation.of(folder), str(folder))
        self.folder = folder
        self.layout = FileLayout(
            0,
            SCHEMA.fields,
            ParquetSettings.of({"write.parquet.row-group-size-bytes": "20000"}, SCHEMA),
            MetricsConfig.of({}, SCHEMA, SortOrder()),
            0,
        )
        generator = np.random.default_rng(7)
        self.numbers = generator.permutation(FILES * ROWS)
        self.files = [self._write(at) for at in range(FILES)]

    def _write(self, at: int) -> DataFile:
        numbers = self.numbers[at * ROWS : (at + 1) * ROWS]
        columns = [
            pa.array(numbers),
            pa.array([int(number).to_bytes(16, "big") for number in numbers], pa.binary(16)),
            pa.array(numbers * 7919 % 1000 / 10),
        ]
        rows = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(SCHEMA.fields))
        output = Output(
            SCHEMA, SPECS[0], (), DataLocations(f"{self.folder}/data"), f"old-{at}", 10.0, 1 << 30
        )
        batches = (rows.slice(start, 500) for start in range(0, ROWS, 500))
        (written,) = write_data_files(self.io, self.layout, output, batches)
        return written

    def context(self, order: RowOrder | None = None) -> RewriteContext:
        rows = RowLayout(SCHEMA, (), SPECS, None, False)
        return RewriteContext(
            rows, self.layout, DataLocations(f"{self.folder}/data"), "write-id", order
        )

    def group(
        self, index: int, files: Sequence[DataFile], *, outputs: int = 1, spec_id: int = 0
    ) -> FileGroup:
        size_bytes = sum(file.file_size_bytes for file in files)
        return FileGroup(
            index=index,
            spec_id=0,
            partition=(),
            output_spec_id=spec_id,
            tasks=tuple(FileScanTask(file, 1) for file in files),
            input_bytes=size_bytes,
            outputs_expected=outputs,
            split_size_bytes=size_bytes // outputs + 1000,
            write_size_bytes_max=size_bytes,
            reason=Reason.REWRITE_ALL,
            rows=sum(file.record_count for file in files),
            rows_deleted=0,
        )

    def new_files(self) -> set[str]:
        return {str(path) for path in self.folder.rglob("*write-id*")}


def ids(files: Sequence[DataFile]) -> list[int]:
    return [number for file in files for number in pq.read_table(file.file_path)["id"].to_pylist()]


def test_packs_of_a_group_become_its_files(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    groups = [lake.group(0, lake.files[:4], outputs=3), lake.group(1, lake.files[4:])]
    for per_job in (None, 1):
        found = list(execute_groups(spark, lake.io, lake.context(), groups, groups_per_job=per_job))
        assert [outcome.index for outcome in found] == [0, 1]
        results = [outcome for outcome in found if isinstance(outcome, GroupResult)]
        assert [len(result.added) for result in results] == [3, 1]
        assert sorted(ids(results[0].added)) == sorted(lake.numbers[: 4 * ROWS].tolist())
        assert sorted(ids(results[1].added)) == sorted(lake.numbers[4 * ROWS :].tolist())


@pytest.mark.parametrize(("limit", "shuffles"), WAYS_TO_SORT)
def test_sorted_files_continue_each_other(
    spark: SparkSession, tmp_path: Path, limit: int, shuffles: bool
) -> None:
    lake = Lake(tmp_path)
    order = RowOrder((SortField(3, is_descending=True), SortField(1)))
    (found,) = execute_groups(
        spark, lake.io, lake.context(order), [lake.group(0, lake.files, outputs=3)],
        part_bytes_max=limit, shuffles=shuffles,
    )  # fmt: skip
    assert isinstance(found, GroupResult)
    assert len(found.added) == 3
    keys = [sort_keys(file) for file in found.added]
    assert sorted(number for file in keys for _, number in file) == list(range(FILES * ROWS))
    assert all(file == sorted(file) for file in keys)
    assert all(group[-1] < other[0] for group, other in pairwise(sorted(keys)))


def sort_keys(file: DataFile) -> list[tuple[float, int]]:
    """What the rows of a file are sorted by, in the file's order."""
    rows = pq.read_table(file.file_path)
    weights = pc.negate(rows["weight"]).to_pylist()
    return list(zip(weights, rows["id"].to_pylist(), strict=True))


@pytest.mark.parametrize(("limit", "shuffles"), WAYS_TO_SORT)
def test_rows_move_into_the_partitions_of_a_newer_spec(
    spark: SparkSession, tmp_path: Path, limit: int, shuffles: bool
) -> None:
    lake = Lake(tmp_path)
    (found,) = execute_groups(
        spark, lake.io, lake.context(), [lake.group(0, lake.files, spec_id=1)],
        part_bytes_max=limit, shuffles=shuffles,
    )  # fmt: skip
    assert isinstance(found, GroupResult)
    assert sorted(ids(found.added)) == list(range(FILES * ROWS))
    assert {file.partition for file in found.added} == {(0,), (1,), (2,)}
    by_partition = {file.partition: set(ids([file])) for file in found.added}
    assert len(by_partition) == len(found.added)


@pytest.mark.parametrize(("limit", "shuffles"), WAYS_TO_SORT)
def test_a_group_that_fails_takes_its_files_along_and_no_other_group(
    spark: SparkSession, tmp_path: Path, limit: int, shuffles: bool
) -> None:
    lake = Lake(tmp_path)
    broken = Path(lake.files[1].file_path)
    broken.write_bytes(broken.read_bytes()[:-2000])
    groups = [lake.group(0, lake.files[:3], outputs=3), lake.group(1, lake.files[3:])]
    order = RowOrder((SortField(1),)) if limit < 1 << 30 else None
    failed, written = execute_groups(
        spark, lake.io, lake.context(order), groups, part_bytes_max=limit, shuffles=shuffles
    )
    assert isinstance(failed, GroupFailed) and isinstance(failed.error, CorruptTableError)
    assert broken.name in str(failed.error)
    assert isinstance(written, GroupResult)
    assert lake.new_files() == {file.file_path for file in written.added}

"""Sorting a group through the disk: rows, their order, what remains when it fails."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.iceberg.data.arrow_schema import stored_schema
from tideline.iceberg.data.file_layout import FileLayout
from tideline.iceberg.data.metrics_mode import MetricsConfig
from tideline.iceberg.data.parquet_settings import ParquetSettings
from tideline.iceberg.data.partitioned_writer import write_data_files
from tideline.iceberg.data.row_layout import RowLayout
from tideline.iceberg.data.row_order import RowOrder
from tideline.iceberg.manifest.manifest_entry import DataFile, FileContent
from tideline.iceberg.metadata.data_locations import DataLocations
from tideline.iceberg.metadata.field_type import NestedField, parse_type
from tideline.iceberg.metadata.partition_spec import PartitionSpec
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.sort_order import SortField, SortOrder
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.services.rewrite_data_files.execute import RewriteContext
from tideline.iceberg.services.rewrite_data_files.group_outcome import GroupFailed, GroupResult
from tideline.iceberg.services.rewrite_data_files.in_process import sorted_here
from tideline.iceberg.services.rewrite_data_files.left_files import Reason
from tideline.iceberg.services.rewrite_data_files.plan import FileGroup
from tideline.iceberg.table.file_io import FileIO
from tideline.storage.location import StoreLocation

SCHEMA = Schema(
    0,
    (
        NestedField(1, "id", parse_type("long"), required=True),
        NestedField(2, "name", parse_type("string")),
        NestedField(3, "kind", parse_type("int")),
    ),
)
FILES, ROWS = 6, 20_000


@pytest.fixture
def spills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    folder = tmp_path / "spills"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def made(folder: Path) -> tuple[FileIO, FileGroup]:
    """Files whose rows are mixed, with nulls and many equal ones."""
    random = np.random.default_rng(7)
    numbers = random.permutation(FILES * ROWS)
    tasks = []
    for number in range(FILES):
        ids = numbers[number * ROWS : (number + 1) * ROWS]
        kinds = pa.array((ids % 50).astype(np.int32), mask=ids % 11 == 0)
        columns = [pa.array(ids), pa.array([f"name-{item}" for item in ids]), kinds]
        path = folder / f"source-{number}.parquet"
        rows = pa.Table.from_arrays(columns, schema=stored_schema(SCHEMA.fields))
        pq.write_table(rows, path, row_group_size=5_000)
        size_bytes = path.stat().st_size
        file = DataFile(FileContent.DATA, str(path), "PARQUET", 0, (), ROWS, size_bytes)
        tasks.append(FileScanTask(file, 1))
    size_bytes = sum(task.data_file.file_size_bytes for task in tasks)
    group = FileGroup(
        0, 0, (), 0, tuple(tasks), size_bytes, 2, size_bytes, 1 << 30, Reason.REWRITE_ALL,
        FILES * ROWS, 0,
    )  # fmt: skip
    return FileIO(StoreLocation.of(folder), str(folder)), group


def context(folder: Path, order: RowOrder) -> RewriteContext:
    files = FileLayout(
        0,
        SCHEMA.fields,
        ParquetSettings.of({}, SCHEMA),
        MetricsConfig.of({}, SCHEMA, SortOrder()),
        0,
    )
    rows = RowLayout(SCHEMA, (), {0: PartitionSpec(0)}, None, False)
    return RewriteContext(rows, files, DataLocations(f"{folder}/data"), "id", order)


@pytest.mark.parametrize("part_bytes", [1 << 30, 100_000, 4_000])
def test_equal_rows_stay_in_the_order_of_their_files(
    tmp_path: Path, spills: Path, part_bytes: int
) -> None:
    io, group = made(tmp_path)
    order = RowOrder((SortField(3, is_descending=True),))
    found = sorted_here(io, context(tmp_path, order), group, order, part_bytes=part_bytes)
    assert isinstance(found, GroupResult), found
    assert 1 <= len(found.added) <= 2
    written = pa.concat_tables(pq.read_table(file.file_path) for file in found.added)
    sources = (pq.read_table(task.data_file.file_path) for task in group.tasks)
    together = pa.concat_tables(sources)
    indices = pa.compute.sort_indices(together, sort_keys=[("kind", "descending", "at_start")])
    assert written.equals(together.take(indices))
    assert not list(spills.iterdir())


def test_a_curve_covers_all_rows(tmp_path: Path, spills: Path) -> None:
    io, group = made(tmp_path)
    order = RowOrder((SortField(1), SortField(3)), is_curve=True)
    found = sorted_here(io, context(tmp_path, order), group, order, part_bytes=50_000)
    assert isinstance(found, GroupResult), found
    ids = [pq.read_table(file.file_path)["id"].to_pylist() for file in found.added]
    assert sorted(item for part in ids for item in part) == list(range(FILES * ROWS))
    # Neighbours on the curve are neighbours in the table, as those of the sources are not.
    distance = np.mean([abs(item - other) for item, other in pairwise(ids[0])])
    assert distance < FILES * ROWS / 20
    assert not list(spills.iterdir())


def test_nothing_remains_of_a_sort_that_fails(tmp_path: Path, spills: Path) -> None:
    io, group = made(tmp_path)
    broken = Path(group.tasks[3].data_file.file_path)
    broken.write_bytes(broken.read_bytes()[:-2000])
    order = RowOrder((SortField(1),))
    failed = sorted_here(io, context(tmp_path, order), group, order, part_bytes=50_000)
    assert isinstance(failed, GroupFailed)
    assert broken.name in str(failed.error)
    assert not list(spills.iterdir())
    assert not list(tmp_path.rglob("*sorted*"))


def test_files_that_are_written_are_taken_back_with_one_that_fails(
    tmp_path: Path, spills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    io, group = made(tmp_path)
    order = RowOrder((SortField(1),))

    def failing(*given: object, **named: object) -> tuple[DataFile, ...]:
        files = write_data_files(*given, **named)  # type: ignore[arg-type]
        if "-00001-" in files[0].file_path:
            io.remove_written(file.file_path for file in files)
            raise OSError("no space left on device")
        return files

    monkeypatch.setattr(
        "tideline.iceberg.services.rewrite_data_files.spilled_sort.write_data_files", failing
    )
    failed = sorted_here(io, context(tmp_path, order), group, order, part_bytes=50_000)
    assert isinstance(failed, GroupFailed)
    assert "no space left" in str(failed.error)
    assert not list(tmp_path.rglob("*sorted*"))
    assert not list(spills.iterdir())

"""Upserts, deletes and overwrites of Iceberg tables: what they take, refuse and leave."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet
import pytest

import tideline
from tideline.errors import ConfigError, InvalidDataError
from tideline.iceberg.commit.replacement import AddedDelete, RewriteFiles
from tideline.iceberg.commit.rewrite_files import commit_rewrite
from tideline.iceberg.data.deletion_vector_writer import write_deletion_vectors
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.table.file_system_table import FileSystemTable
from tideline.iceberg.table.table_operations import Committed
from tideline.iceberg.write.held_rows import held_rows
from tideline.iceberg.write.merged_rows import chosen_rows
from tideline.iceberg_lake_table import IcebergLakeTable

COLUMNS = pa.schema([("id", pa.int64()), ("part", pa.string()), ("n", pa.float64())])
MERGE = {"write.delete.mode": "merge-on-read", "write.merge.mode": "merge-on-read"}


def created(rows: int = 0, columns: pa.Schema = COLUMNS, **definition: Any) -> IcebergLakeTable:
    uri = f"memory://{uuid.uuid4().hex}/table"
    table = tideline.create_iceberg(uri, columns, **definition)
    if rows:
        table.write(given(range(rows)))
    return table


def given(numbers: Any, n: float = 0.0) -> list[dict[str, Any]]:
    return [{"id": number, "part": f"p{number % 3}", "n": n} for number in numbers]


def ids(table: IcebergLakeTable, **chosen: Any) -> list[int]:
    return sorted(table.to_arrow(["id"], **chosen)["id"].to_pylist())


def test_a_table_without_identifier_fields_is_told_the_key() -> None:
    table = created(6)
    with pytest.raises(ConfigError, match="no identifier fields: name the columns of its key"):
        table.write(given([1]), "upsert")
    table.write([*given([1, 9], 1.0), {"id": 1, "part": "p2", "n": 2.0}], "upsert", key="id, part")
    found = table.to_arrow(filter="id = 1").sort_by("part").to_pylist()
    assert [(row["part"], row["n"]) for row in found] == [("p1", 1.0), ("p2", 2.0)]
    table.write([{"id": 1}], "delete", key=["id"])
    assert ids(table) == [0, 2, 3, 4, 5, 9]


@pytest.mark.parametrize("version", [2, 3])
def test_rows_are_replaced_where_they_lie_in_a_large_file(version: int) -> None:
    numbers = np.arange(150_000)
    table = created(format_version=version, properties={"write.delete.mode": "merge-on-read"})
    columns = [numbers, np.array([f"p{number % 3}" for number in numbers]), np.zeros(len(numbers))]
    table.write(pa.table(columns, schema=COLUMNS))
    table.delete("part = 'p0'")
    model = {key: 0.0 for key in numbers.tolist() if key % 3}
    news = [*range(1, 150_000, 1_000), 200_000]
    changes = [row for key in reversed(news) for row in given([key], key / 2)]
    report = table.write(changes, "upsert", key="id")
    assert report.rows_updated == sum(key in model for key in news)
    model |= {key: key / 2 for key in news}
    table.update("id >= 65530 and id < 65560", {"n": 2.0})
    model |= {key: 2.0 for key in model if 65_530 <= key < 65_560}
    table.alter().set_properties({"write.delete.mode": "copy-on-write"}).commit()
    table.delete("n > 40000.0")
    model = {key: n for key, n in model.items() if n <= 40_000.0}
    found = table.to_arrow(["id", "n"])
    assert dict(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True)) == model


@pytest.mark.parametrize("key", ["n", "none", "id, none"])
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(ConfigError):
        created(3).write(given([1]), "upsert", key=key)


def test_a_key_that_is_null_is_refused_and_nothing_is_written() -> None:
    table = created(3)
    before = table.metadata
    with pytest.raises(InvalidDataError, match="a key is null"):
        table.write([*given([1]), {"id": None, "part": "p", "n": 1.0}], "upsert", key="id")
    assert table.refresh().metadata == before


@pytest.mark.parametrize(
    ("operation", "asked"),
    [
        ("append", {"where": "id = 1"}),
        ("upsert", {"where": "id = 1"}),
        ("overwrite", {"key": "id"}),
        ("overwrite", {"where": "nothing = 1"}),
        ("delete", {"where": "id = 1", "key": "id"}),
        ("merge", {}),
        ("upsert", {"key": "id", "options": {"write.merge.mode": "sometimes"}}),
    ],
)
def test_what_makes_no_sense_is_refused_before_a_file_is_written(
    operation: str, asked: dict[str, Any]
) -> None:
    table = created(3)
    with pytest.raises(ConfigError):
        table.write(given([1]), operation, **asked)
    assert len(list(table.table.io.list(f"{table.uri}/data"))) == 1


@pytest.mark.parametrize("where", ["id = 2 or part = 'p0'", [("id", "<", 2)], pc.field("id") > 3])
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("properties", [{}, MERGE], ids=["copy", "merge"])
def test_rows_that_match_go(where: Any, version: int, properties: dict[str, str]) -> None:
    table = created(9, format_version=version, properties=properties, partition_by="part")
    expected = sorted(set(range(9)) - set(ids(table, filter=where)))
    report = table.delete(where)
    assert ids(table) == expected
    assert report.rows_deleted == 9 - len(expected)
    assert table.delete("id is null").rows_deleted == 0


def test_files_without_other_rows_go_as_they_are() -> None:
    table = created(9, partition_by="part", properties=MERGE)
    report = table.delete("part = 'p1'")
    assert (report.files_written, report.file_groups_replaced) == (0, 1)
    snapshot = table.current_snapshot
    assert snapshot is not None and snapshot.operation == "delete"


def test_files_that_a_key_cannot_be_in_are_not_read() -> None:
    table = created(9, key="id", partition_by="truncate(3, id)")
    paths = {
        task.data_file.partition[0]: task.data_file.file_path
        for task in plan_files(table.table.io, table.metadata, table.current_snapshot)
    }
    for partition in (0, 6):
        table.table.io.remove_written([paths[partition]])
    table.write(given([3, 4], 1.0), "upsert")
    found = tideline.open_iceberg(table.uri).to_arrow(filter="id between 3 and 5")
    assert sorted(found["n"].to_pylist()) == [0.0, 1.0, 1.0]


def test_a_vector_takes_over_what_is_deleted_already() -> None:
    table = created(9, format_version=3, properties=MERGE)
    for number in (1, 5, 7):
        table.delete(f"id = {number}")
    (task,) = plan_files(table.table.io, table.metadata, table.current_snapshot)
    assert task.deletion_vector is not None
    assert task.deletion_vector.record_count == 3
    assert ids(table) == [0, 2, 3, 4, 6, 8]
    upgraded = created(9, format_version=2, properties=MERGE)
    upgraded.delete("id < 2")
    upgraded.alter().upgrade(3).commit()
    upgraded.delete("id = 8")
    (task,) = plan_files(upgraded.table.io, upgraded.metadata, upgraded.current_snapshot)
    assert task.deletion_vector is not None and not task.position_deletes
    assert task.deletion_vector.record_count == 3
    assert ids(upgraded) == [2, 3, 4, 5, 6, 7]


def test_a_branch_gets_the_change_and_main_keeps_its_rows() -> None:
    table = created(6, key="id")
    table.alter().create_branch("audit").commit()
    table.write(given([1, 7], 1.0), "upsert", branch="audit")
    table.delete("id = 2", branch="audit")
    assert ids(table) == [*range(6)]
    assert ids(table, as_of="audit") == [0, 1, 3, 4, 5, 7]


def test_an_empty_table_takes_each_kind_of_write() -> None:
    for operation in ("upsert", "delete", "overwrite", "overwrite_partitions"):
        table = created(key="id", partition_by="part")
        table.write(given([1, 2]), operation)
        assert ids(table) == ([] if operation == "delete" else [1, 2])
        table.write([], operation)
    table = created()
    assert table.delete("id = 1").rows_deleted == 0


def test_a_nested_key() -> None:
    columns = pa.schema(
        [("at", pa.struct([("id", pa.int64()), ("x", pa.int64())])), ("n", pa.int64())]
    )
    table = created(columns=columns)
    rows = [{"at": {"id": number, "x": 0}, "n": 0} for number in range(4)]
    table.write(rows)
    table.write([{"at": {"id": 2, "x": 5}, "n": 1}], "upsert", key="at.id")
    found = sorted(table.to_arrow().to_pylist(), key=lambda row: row["at"]["id"])
    assert found == [*rows[:2], {"at": {"id": 2, "x": 5}, "n": 1}, rows[3]]


def test_rows_above_a_bound_wait_on_disk() -> None:
    batches = [pa.record_batch({"n": pa.array(range(start, start + 10))}) for start in (0, 10, 20)]
    for bound in (1, 100, 10_000):
        with held_rows(iter(batches), batches[0].schema, memory_bytes=bound) as rows:
            assert rows["n"].to_pylist() == [*range(30)]
    with held_rows(iter(()), batches[0].schema) as rows:
        assert rows.num_rows == 0


def test_a_table_that_another_engine_made_is_written_by_its_own_words(tmp_path: Path) -> None:
    table = created(6, key="id")
    path = tmp_path / "rows.parquet"
    pa.parquet.write_table(pa.table({"id": [1, 8], "part": ["p", "p"], "n": [1.0, 1.0]}), path)
    report = table.write(pa.dataset.dataset(str(path)), "UPSERT")
    assert (report.rows_updated, report.rows_inserted) == (1, 1)


def test_a_column_that_is_renamed_meanwhile_keeps_its_values() -> None:
    table = created(6, key="id")
    other = tideline.open_iceberg(table.uri)

    def rows() -> Any:
        other.alter().rename_column("part", "new").commit()
        yield pa.RecordBatch.from_pylist(given([1], 5.0), COLUMNS)

    table.write(pa.RecordBatchReader.from_batches(COLUMNS, rows()), "upsert")
    found = table.to_arrow(filter="id = 1").to_pylist()
    assert found == [{"id": 1, "new": "p1", "n": 5.0}]
    assert ids(table) == [*range(6)]


@contextmanager
def meanwhile(other: Callable[[], object]) -> Iterator[None]:
    """Another writer is first, once."""
    plain, waiting = FileSystemTable.commit, [other]

    def commit(*given: Any) -> Any:
        if waiting:
            waiting.pop()()
        return plain(*given)

    with patch.object(FileSystemTable, "commit", commit):
        yield


@pytest.mark.parametrize("is_divided", [True, False])
def test_partitions_are_overwritten_by_the_spec_that_placed_the_rows(is_divided: bool) -> None:
    columns = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    table = created(columns=columns, partition_by="a")
    table.write([{"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 3, "b": 2}])

    def other() -> None:
        there = tideline.open_iceberg(table.uri)
        with there.alter() as change:
            change.drop_partition_field("a")
            if is_divided:
                change.add_partition_field("b")
        there.write([{"a": 1, "b": 7}])

    with meanwhile(other):
        table.write([{"a": 1, "b": 100}], "overwrite_partitions")
    found = sorted((row["a"], row["b"]) for row in table.to_arrow().to_pylist())
    assert found == [(1, 100), (2, 1), (3, 2)]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("properties", [{}, MERGE], ids=["copy", "merge"])
def test_partitions_of_the_two_zeros_are_two(version: int, properties: dict[str, str]) -> None:
    table = created(partition_by="n", format_version=version, properties=properties)
    for numbers in ((1, 2, 3, 4), (5, 6)):
        zeros = [{"id": number, "n": -0.0 if number % 2 else 0.0} for number in numbers]
        table.write([*zeros, {"id": -numbers[0], "n": math.nan}])
    table.delete("id in (1, 2, -1)")
    assert ids(table) == [-5, 3, 4, 5, 6]
    table.write([{"id": 4, "n": 0.0}, {"id": 7, "n": 0.0}], "upsert", key="id")
    assert ids(table) == [-5, 3, 4, 5, 6, 7]
    table.write([{"id": 8, "n": 0.0}], "overwrite_partitions")
    assert ids(table) == [-5, 3, 5, 8]


@pytest.mark.parametrize("properties", [{}, MERGE], ids=["copy", "merge"])
def test_partitions_of_real_numbers_are_overwritten_in_files_of_an_older_spec(
    properties: dict[str, str],
) -> None:
    table = created(properties=properties)
    numbers = [2.0, 1.5, -0.0, math.nan, None]
    table.write([{"id": number, "n": n} for number, n in enumerate(numbers)])
    table.alter().add_partition_field("n").commit()
    table.write([{"id": 9, "n": 2.0}, {"id": 10, "n": math.nan}], "overwrite_partitions")
    assert ids(table) == [1, 2, 4, 9, 10]
    table.write([{"id": 11, "n": 0.0}, {"id": 12, "n": None}], "overwrite_partitions")
    assert ids(table) == [1, 2, 9, 10, 11, 12]


def test_a_delete_by_key_is_given_all_of_the_key() -> None:
    table = created(3, format_version=3)
    table.alter().add_column("region", "string", default="eu").commit()
    with pytest.raises(InvalidDataError, match="lack a column of the key"):
        table.write([{"id": 1}], "delete", key="id, region")
    assert ids(table) == [0, 1, 2]


def test_a_table_that_becomes_version_3_meanwhile_gets_a_vector() -> None:
    table = created(6, properties=MERGE)
    other = tideline.open_iceberg(table.uri)
    with meanwhile(lambda: other.alter().upgrade(3).commit()):
        table.delete("id = 2")
    assert ids(table) == [0, 1, 3, 4, 5]
    assert table.current_snapshot is not None
    assert table.current_snapshot.summary["added-dvs"] == "1"


@pytest.mark.parametrize("number", [1, 99])
def test_rows_that_come_meanwhile_by_another_spec(number: int) -> None:
    table = created(6, key="id", partition_by="part")
    other = tideline.open_iceberg(table.uri)

    def first() -> None:
        other.alter().add_partition_field("bucket(4, id)").commit()
        other.write(given([number], 7.0))

    with meanwhile(first):
        table.write(given([1], 2.0), "upsert")
    assert ids(table) == sorted({*range(6), number})
    assert table.to_arrow(filter="id = 1")["n"].to_pylist() == [2.0]


def test_a_vector_that_a_rewrite_makes_meanwhile_is_a_conflict() -> None:
    table = created(properties=MERGE)
    for first in (0, 10):
        table.write(given(range(first, first + 10)))
    table.delete("id in (1, 11)")
    table.alter().upgrade(3).commit()

    def other() -> None:
        there = tideline.open_iceberg(table.uri).table
        tasks = list(plan_files(there.io, there.metadata, there.metadata.snapshot()))
        (shared,) = {file.file_path: file for task in tasks for file in task.deletes}.values()
        deleted = [(task.data_file, np.array([1])) for task in tasks]
        vectors = write_deletion_vectors(there.io, there.metadata, deleted)
        head = there.metadata.current_snapshot_id
        assert head is not None
        rewrite = RewriteFiles(
            head, removed_deletes=(shared,), added_deletes=tuple(map(AddedDelete, vectors))
        )
        assert isinstance(commit_rewrite(there.operations, rewrite), Committed)

    with meanwhile(other):
        table.delete("id = 2")
    assert ids(table) == [0, *range(3, 11), *range(12, 20)]


@pytest.mark.parametrize("properties", [{}, MERGE], ids=["copy", "merge"])
def test_given_rows_in_many_parts_replace_others(properties: dict[str, str]) -> None:
    table = created(10, format_version=3, properties=properties)
    parts = [pa.Table.from_pylist(given([n, n + 20], 1.0), COLUMNS) for n in (7, 3, 9, 3)]
    report = table.write(pa.concat_tables(parts), "upsert", key="id")
    assert (report.rows_updated, report.rows_inserted) == (3, 3)
    assert ids(table) == [*range(10), 23, 27, 29]
    assert ids(table, filter="n = 1") == [3, 7, 9, 23, 27, 29]


def test_of_given_rows_only_the_chosen_ones_are_copied() -> None:
    batches = [pa.record_batch({"id": range(n, n + 4)}) for n in (0, 4, 8)]
    numbers = np.array([1, 3, 8, 9, 10, 11])
    found = list(chosen_rows(batches, numbers))
    assert [batch.column("id").to_pylist() for batch, _, _ in found] == [[1, 3], [8, 9, 10, 11]]
    assert [places for _, *places in found] == [[0, 2], [2, 6]]
    assert found[1][0] is batches[2]

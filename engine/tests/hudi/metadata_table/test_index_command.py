"""`tideline index`, and which indexes a table gets."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.cli.main import run
from tideline.errors import ConfigError, CorruptTableError, UnsupportedTableError
from tideline.hudi.metadata_table.index_definitions import read_definitions
from tideline.hudi.open_table import open_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import (
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    TableType,
)
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.testing.kept_statistics import statistics_of_files, statistics_of_partitions
from tideline.testing.small_table import SmallTable, batch, memory_place
from tideline.testing.stepping_store import Step, SteppingStore

Captured = pytest.CaptureFixture[str]
ALL = (COLUMN_STATS, FILES, PARTITION_STATS)
LIST = "hoodie.metadata.index.column.stats.column.list"
MAX = "hoodie.metadata.index.column.stats.max.columns.to.index"


@pytest.fixture
def small() -> Iterator[SmallTable]:
    table = SmallTable.in_memory(table_version=9, table_type=TableType.MERGE_ON_READ)
    table.write("insert", batch(range(4), 1))
    yield table
    table.forget()


def opened(small: SmallTable) -> HoodieTable:
    return open_table(small.location, small.clock, small.store())


def listed_columns(small: SmallTable) -> list[str]:
    fields: list[str] = read_definitions(opened(small))[COLUMN_STATS]["sourceFields"]
    return [name for name in fields if not name.startswith("_hoodie_")]


def test_indexes_are_made_listed_and_dropped(tmp_path: Any, capsys: Captured) -> None:
    small = SmallTable.create(StoreLocation.of(tmp_path / "table"))
    small.write("insert", batch(range(4), 1))
    uri = small.location.uri
    assert run(["index", "list", uri]) == 0
    assert capsys.readouterr().out == "No indexes: the table has no metadata table.\n"
    assert run(["index", "create", uri, COLUMN_STATS, PARTITION_STATS, "--dry-run"]) == 0
    assert capsys.readouterr().out == (
        "Would make column_stats: 12 records.\nWould make partition_stats.\n"
    )
    assert opened(small).config.metadata_partitions == ()
    assert run(["index", "create", uri, COLUMN_STATS, PARTITION_STATS]) == 0
    # Two files, two partitions: each with three meta columns and three own, and of partitions
    # which files had a part.
    assert capsys.readouterr().out == (
        "Made column_stats: 12 records.\nMade partition_stats: 14 records.\n"
    )
    assert run(["index", "list", uri, "--json"]) == 0
    found = {item["name"]: item for item in json.loads(capsys.readouterr().out)["indexes"]}
    assert tuple(found) == ALL
    assert found[COLUMN_STATS]["in_use"]
    assert found[COLUMN_STATS]["kept"]
    assert found[COLUMN_STATS]["made_at"] is not None
    assert (found[COLUMN_STATS]["file_groups"], found[PARTITION_STATS]["file_groups"]) == (2, 1)
    assert found[COLUMN_STATS]["columns"][-3:] == ["id", "part", "v"]
    assert run(["index", "list", uri]) == 0
    assert "_hoodie_commit_time, _hoodie_partition_path" in capsys.readouterr().out
    assert run(["index", "drop", uri, COLUMN_STATS, "--dry-run"]) == 0
    assert capsys.readouterr().out == "Would drop column_stats, partition_stats.\n"
    assert opened(small).config.metadata_partitions == ALL
    assert run(["index", "drop", uri, COLUMN_STATS, "--yes"]) == 0
    assert capsys.readouterr().out == "Dropped column_stats, partition_stats.\n"
    assert opened(small).config.metadata_partitions == (FILES,)
    assert run(["index", "drop", uri, COLUMN_STATS, "--json"]) == 2
    assert "no such index; it has: files" in json.loads(capsys.readouterr().err)["message"]


def test_columns_are_chosen(small: SmallTable) -> None:
    indexes = small.lake().indexes({LIST: "v, part"})
    advice = indexes.create(COLUMN_STATS).advice
    assert advice is not None
    assert advice.startswith(f"give writers of Hudi {LIST}=part,v too")
    assert listed_columns(small) == ["part", "v"]
    small.write("upsert", batch([1, 9], 7))
    assert {column for _, column in statistics_of_files(opened(small))} >= {"part", "v"}
    assert "id" not in {column for _, column in statistics_of_files(opened(small))}
    indexes.drop(COLUMN_STATS)
    small.lake().indexes({MAX: "2"}).create(COLUMN_STATS)
    assert listed_columns(small) == ["id", "part"]
    indexes.drop(COLUMN_STATS)
    with pytest.raises(UnsupportedTableError, match="'w' can be indexed; these can: id, part, v"):
        small.lake().indexes({LIST: "w"}).create(COLUMN_STATS)


def test_what_is_in_the_way_is_named(small: SmallTable) -> None:
    indexes = small.lake().indexes()
    with pytest.raises(ConfigError, match="known: bloom_filters, column_stats, partition_stats"):
        indexes.create("expression_stats")
    with pytest.raises(ConfigError, match="expression indexes are not made: queries of Hudi"):
        indexes.create("expr_index_x")
    with pytest.raises(ConfigError, match="partition_stats is made of column_stats: create that"):
        indexes.create(PARTITION_STATS)
    with pytest.raises(ConfigError, match="switches its metadata table off"):
        small.lake().indexes({"hoodie.metadata.enable": "false"}).create(COLUMN_STATS)
    assert opened(small).config.metadata_partitions == ()
    made = indexes.create(COLUMN_STATS)
    assert made.has_new_metadata_table
    assert made.advice is None
    with pytest.raises(ConfigError, match="has column_stats already; to make it again, drop it"):
        indexes.create(COLUMN_STATS)
    with pytest.raises(ConfigError, match="=false, given to a write"):
        indexes.drop(FILES)


def test_tables_that_do_not_keep_a_partition_get_none() -> None:
    old = SmallTable.in_memory(table_version=6)
    old.write("insert", batch(range(4), 1))
    with pytest.raises(UnsupportedTableError, match="upgrade the table first"):
        old.lake().indexes().create(PARTITION_STATS)
    assert not list(old.store().list(".hoodie/metadata"))
    old.forget()


def test_a_table_without_partitions_has_no_statistics_of_them() -> None:
    lake = LakeTable.create(memory_place()[0].uri, record_key="id")
    lake.write(pa.table({"id": ["a", "b"], "v": [1, 2]}), "insert")
    assert lake.indexes().create(COLUMN_STATS).records == 5
    with pytest.raises(UnsupportedTableError, match="cannot be made: the table has no partitions"):
        lake.indexes().create(PARTITION_STATS)


def test_a_column_that_came_later_is_null_in_older_files(small: SmallTable) -> None:
    wider = batch([1, 8], 3).append_column("w", pa.array([5, 6]))
    evolving = {"hoodie.write.set.null.for.missing.columns": "true"}
    small.lake().write(wider, "upsert", options=evolving)
    for name in (COLUMN_STATS, PARTITION_STATS):
        small.lake().indexes().create(name)
    files = statistics_of_files(opened(small))
    base_files = {name for name, _ in files if name.endswith(".parquet")}
    older = {name for name in base_files if files[name, "w"].range.least is None}
    assert older
    assert all(files[name, "w"].range.nulls == files[name, "w"].range.values for name in older)
    of_partition = statistics_of_partitions(opened(small))["p1", "w"].range
    assert (of_partition.least, of_partition.greatest) == (5, 5)
    assert of_partition.nulls == of_partition.values - 1


def test_bounds_of_logs_are_those_of_their_rows(small: SmallTable) -> None:
    small.write("upsert", batch([1, 3], 50))
    small.write("delete", batch([3], 60))
    small.lake().indexes().create(COLUMN_STATS)
    logs = {
        name: row.range
        for (name, column), row in statistics_of_files(opened(small)).items()
        if column == "v" and ".log." in name
    }
    assert len(logs) == 2
    found = sorted((bounds.values, bounds.least, bounds.greatest) for bounds in logs.values())
    assert found == [(0, None, None), (2, 50, 50)]


@pytest.mark.parametrize("is_log", [False, True], ids=["base file", "log"])
def test_nan_is_found_and_named(is_log: bool) -> None:
    small = SmallTable.in_memory(table_version=9, table_type=TableType.MERGE_ON_READ)
    numbers = pa.array([1.5, float("nan"), 2.5, 3.5])
    small.lake().write(batch(range(4), 1).append_column("d", numbers), "insert")
    if is_log:
        some = batch([1], 2).append_column("d", pa.array([0.5]))
        small.lake().write(some, "upsert")
        small.lake().run("compaction", options={"hoodie.compact.inline.max.delta.commits": "1"})
        with_nan = batch([0], 3).append_column("d", pa.array([float("nan")]))
        small.lake().write(with_nan, "upsert")
    with pytest.raises(UnsupportedTableError, match=r"column_stats cannot be made: d of p.*NaN"):
        small.lake().indexes().create(COLUMN_STATS)
    assert opened(small).config.metadata_partitions == ()
    small.lake().indexes({LIST: "id,v"}).create(COLUMN_STATS)
    assert listed_columns(small) == ["id", "v"]
    small.forget()


def test_nan_of_a_file_whose_writer_leaves_it_out_of_bounds_is_found() -> None:
    small = SmallTable.in_memory(table_version=9)
    numbers = pa.array([1.5, 0.5, 2.5, 3.5])
    small.lake().write(batch(range(4), 1).append_column("d", numbers), "insert")
    store = small.store()
    (path,) = [info.path for info in store.list("p1") if info.path.endswith(".parquet")]
    rows = pq.read_table(io.BytesIO(store.get(path)))
    changed = rows.set_column(
        rows.schema.get_field_index("d"), "d", pa.array([1.5, float("nan")])
    ).replace_schema_metadata(None)
    body = io.BytesIO()
    pq.write_table(changed, body, store_schema=False)
    store.put(path, body.getvalue())
    with pytest.raises(UnsupportedTableError, match=r"d of p1.* holds NaN"):
        small.lake().indexes().create(COLUMN_STATS)
    small.forget()


def test_definitions_that_are_being_written_are_read_again(small: SmallTable) -> None:
    """In a folder Hudi empties the file, then fills it."""
    small.lake().indexes().create(COLUMN_STATS)
    inner, path = small.store(), ".hoodie/.index_defs/index.json"
    whole, reads = inner.get(path), []

    def before(step: Step) -> None:
        if step.path == path:
            reads.append(step.method)
            inner.put(path, whole if len(reads) == 3 else whole[: 100 * len(reads) - 100])

    table = open_table(small.location, small.clock, SteppingStore(inner, before))
    assert read_definitions(table).keys() == {COLUMN_STATS}
    assert reads == ["get_versioned"] * 3
    inner.put(path, b"")
    with pytest.raises(CorruptTableError, match="index definitions"):
        read_definitions(opened(small))


def test_a_definition_of_another_index_stays(small: SmallTable) -> None:
    store = small.store()
    other = {"indexName": "expr_index_x", "sourceFields": ["v"], "version": "V2"}
    body = json.dumps({"indexDefinitions": {"other": other}})
    store.put(".hoodie/.index_defs/index.json", body.encode())
    small.lake().indexes().create(COLUMN_STATS)
    assert read_definitions(opened(small)).keys() == {"other", COLUMN_STATS}
    small.lake().indexes().drop(COLUMN_STATS)
    assert read_definitions(opened(small)) == {"other": other}


STATISTICS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
}


@pytest.mark.parametrize("version", [8, 9])
def test_a_table_may_have_statistics_from_its_first_commit_on(version: int) -> None:
    small = SmallTable.in_memory({**STATISTICS, LIST: "v,id"}, table_version=version)
    small.write("insert", batch(range(4), 1))
    assert opened(small).config.metadata_partitions == ALL
    assert listed_columns(small) == ["id", "v"]
    small.write("upsert", batch([1], 7))
    bounds = statistics_of_partitions(opened(small))["p1", "v"].range
    assert (bounds.least, bounds.greatest) == (1, 7)
    small.forget()


def test_a_first_commit_says_the_schema_of_statistics() -> None:
    lake = LakeTable.create(memory_place()[0].uri, record_key="id", properties=STATISTICS)
    lake.write(pa.table({"id": ["a", "b"], "v": [1, 2]}), "insert")
    assert [index.name for index in lake.indexes().list()] == [COLUMN_STATS, FILES]


def test_a_first_commit_with_nan_has_no_statistics_and_says_so() -> None:
    lake = LakeTable.create(memory_place()[0].uri, record_key="id", properties=STATISTICS)
    report = lake.write(pa.table({"id": ["a"], "v": [float("nan")]}), "insert")
    assert [index.name for index in lake.indexes().list()] == [FILES]
    assert any("no statistics, as v of" in note and "NaN" in note for note in report.notes)


def test_a_commit_of_a_table_with_rows_makes_no_statistics(
    small: SmallTable, caplog: pytest.LogCaptureFixture
) -> None:
    small.write("upsert", batch([1], 2), options=STATISTICS)
    assert opened(small).config.metadata_partitions == (FILES,)
    assert "tideline index create makes them" in caplog.text

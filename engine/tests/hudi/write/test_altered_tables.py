"""Writes and services on a table whose columns schema on read changes, by the in-process engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from tideline.check_finding import Finding
from tideline.errors import ConflictError, CorruptTableError, UnsupportedTableError
from tideline.hudi.check.run import check_table
from tideline.hudi.file_group.file_slice_merge import SliceContext, read_file_slice
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import execute_archival
from tideline.hudi.services.clustering.config import ClusteringConfig
from tideline.hudi.services.clustering.execute import execute_clustering, schedule_clustering
from tideline.hudi.services.compaction.config import CompactionConfig
from tideline.hudi.services.compaction.execute import execute_compaction, schedule_compaction
from tideline.hudi.services.config import ServiceConfig
from tideline.hudi.services.log_compaction.config import LogCompactionConfig
from tideline.hudi.services.log_compaction.execute import (
    execute_log_compaction,
    schedule_log_compaction,
)
from tideline.hudi.services.restore.execute import restore_table
from tideline.hudi.services.savepoint.execute import create_savepoint
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import Instant
from tideline.hudi.write.config import WriteConfig
from tideline.services.explanation import NotDue
from tideline.testing.altered_schema import (
    add,
    alter,
    begin_altering,
    drop,
    forget_version,
    rename,
)
from tideline.testing.observed_service_engine import ObservedServiceEngine
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

pytestmark = pytest.mark.usefixtures("version_6")

COPY_ON_WRITE, MERGE_ON_READ = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ
ROWS = 8
SERVICE = ServiceConfig()
Found = dict[str, Any]


@pytest.fixture(params=[COPY_ON_WRITE, MERGE_ON_READ], ids=["cow", "mor"])
def table(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    """Eight rows of one file per partition, all of value 1."""
    small = SmallTable.in_memory(table_type=request.param)
    small.write("upsert", batch(range(ROWS), 1))
    yield small
    small.forget()


def hoodie(table: SmallTable) -> HoodieTable:
    table.fake_clock.advance(1)
    return open_fresh(table.location, clock=table.clock)


def named(table: pa.Table, **names: str) -> pa.Table:
    return table.rename_columns([names.get(name, name) for name in table.column_names])


def values(table: SmallTable, column: str) -> dict[str, Any]:
    """A column of every row as the product reads it."""
    fresh = hoodie(table)
    timeline = fresh.timeline()
    schema = fresh.schemas.newest(timeline)
    assert schema is not None
    context = SliceContext.of(fresh, timeline, schema)
    view = fresh.files.read_view(timeline)
    return {
        row["id"]: row[column]
        for partition in view.partitions
        for file_slice in view.latest_slices(partition)
        for rows in read_file_slice(fresh.store, file_slice, context, ["id", column])
        for row in rows.to_pylist()
    }


def expected(**changed: Any) -> dict[str, Any]:
    return {f"k{number:03d}": 1 for number in range(ROWS)} | changed


def newest(table: SmallTable) -> tuple[Instant, Found]:
    """The newest completed commit and its extra metadata."""
    fresh = hoodie(table)
    instant = fresh.timeline().completed().last()
    assert instant is not None
    return instant, dict(fresh.commits.read(instant).extra_metadata)


def names_of(latest_schema: str) -> dict[str, int]:
    fields = json.loads(latest_schema)["fields"]
    return {item["name"]: item["id"] for item in fields if not item["name"].startswith("_")}


def schedule(table: SmallTable, make: Callable[[HoodieTable], Instant | NotDue]) -> Instant:
    fresh = hoodie(table)
    with fresh.lock().acquire(timeout_s=5):
        instant = make(fresh)
    assert isinstance(instant, Instant), instant
    return instant


def plan(table: SmallTable) -> Instant:
    """A compaction, or a clustering where there is nothing to compact."""
    if hoodie(table).config.table_type is MERGE_ON_READ:
        config = CompactionConfig(delta_commits_max=1)
        return schedule(table, lambda fresh: schedule_compaction(fresh, config))
    clustering = ClusteringConfig(inline_commits_max=1)
    return schedule(table, lambda fresh: schedule_clustering(fresh, clustering))


def run(
    table: SmallTable, instant: Instant, after_files: Callable[[], object] = lambda: None
) -> None:
    fresh = hoodie(table)
    engine = ObservedServiceEngine(fresh, after_files)
    is_merged = fresh.config.table_type is MERGE_ON_READ
    execute = execute_compaction if is_merged else execute_clustering
    execute(fresh, instant, engine, config=SERVICE, write_config=WriteConfig())


def test_an_upsert_keeps_the_values_of_a_renamed_column(table: SmallTable) -> None:
    alter(hoodie(table), rename("v", "value"))
    assert values(table, "value") == expected()
    table.write("upsert", named(batch([2], 5), v="value"))
    assert values(table, "value") == expected(k002=5)
    instant, extra = newest(table)
    assert names_of(extra["latest_schema"]) == {"id": 5, "part": 6, "value": 7}
    assert table.store().head(f".hoodie/.schema/{instant.time}.schemacommit") is not None


def test_a_column_dropped_and_brought_back_by_a_batch_is_empty(table: SmallTable) -> None:
    alter(hoodie(table), drop("v"))
    table.write("upsert", batch([2], 5))
    assert values(table, "v") == dict.fromkeys(expected()) | {"k002": 5}
    _, extra = newest(table)
    assert names_of(extra["latest_schema"])["v"] == 8
    assert json.loads(extra["latest_schema"])["max_column_id"] == 8


def test_a_plan_from_before_the_change_is_run_as_of_its_instant(table: SmallTable) -> None:
    """Its files are read by the version in force at its instant, whenever they are written."""
    table.write("upsert", batch([2], 5))
    instant = plan(table)
    alter(hoodie(table), rename("v", "value"))
    run(table, instant)
    assert values(table, "value") == expected(k002=5)
    fresh = hoodie(table)
    done = fresh.timeline().completed().find(instant.time)
    assert done is not None
    assert names_of(fresh.commits.read(done).extra_metadata["latest_schema"])["v"] == 7
    table.write("upsert", named(batch([3], 6), v="value"))
    assert values(table, "value") == expected(k002=5, k003=6)


def test_a_plan_from_after_the_change_writes_the_new_names(table: SmallTable) -> None:
    alter(hoodie(table), rename("v", "value"))
    table.write("upsert", named(batch([2], 5), v="value"))
    run(table, plan(table))
    assert values(table, "value") == expected(k002=5)
    alter(hoodie(table), rename("value", "v"))
    assert values(table, "v") == expected(k002=5)


def test_log_compaction_carries_blocks_to_its_own_version() -> None:
    table = SmallTable.in_memory(table_type=MERGE_ON_READ)
    table.write("upsert", batch(range(ROWS), 1))
    table.write("upsert", batch([2, 4], 5))
    alter(hoodie(table), rename("v", "value"))
    table.write("upsert", named(batch([4, 6], 6), v="value"))
    config = LogCompactionConfig(blocks_min=1)
    instant = schedule(table, lambda fresh: schedule_log_compaction(fresh, config))
    fresh = hoodie(table)
    execute_log_compaction(
        fresh, instant, ObservedServiceEngine(fresh), config=SERVICE, write_config=WriteConfig()
    )
    alter(hoodie(table), rename("value", "w"))
    assert values(table, "w") == expected(k002=5, k004=6, k006=6)
    table.forget()


def test_a_change_during_a_write_is_a_conflict(table: SmallTable) -> None:
    def change() -> None:
        alter(hoodie(table), rename("v", "value"))

    with pytest.raises(ConflictError, match="schema"):
        table.write("upsert", batch([2], 5), before_files=change)
    assert values(table, "value") == expected()


def test_a_first_change_that_keeps_names_is_a_conflict_too(table: SmallTable) -> None:
    """Dropped and added again, a column has its name and another id."""

    def change() -> None:
        alter(hoodie(table), drop("v"))
        alter(hoodie(table), add("v", 8))

    with pytest.raises(ConflictError, match="schema"):
        table.write("upsert", batch([2], 5), before_files=change)
    assert values(table, "v") == dict.fromkeys(expected())


def test_a_change_begun_before_a_service_and_done_during_it_is_a_conflict(
    table: SmallTable,
) -> None:
    if hoodie(table).config.table_type is MERGE_ON_READ:
        pytest.skip("no compaction is planned during a pending write")
    table.write("upsert", batch([2], 5))
    altering = begin_altering(hoodie(table))
    instant = plan(table)
    with pytest.raises(ConflictError, match="schema"):
        run(table, instant, lambda: altering.complete(rename("v", "value")))
    assert values(table, "value") == expected(k002=5)
    run(table, instant)
    assert values(table, "value") == expected(k002=5)


def test_a_writer_without_schema_evolution_in_between_loses_no_version(table: SmallTable) -> None:
    alter(hoodie(table), rename("v", "value"))
    table.write("upsert", named(batch([2], 5), v="value"))
    forget_version(hoodie(table))
    assert [str(found.severity) for found in schema_findings(table)] == ["warning"]
    assert values(table, "value") == expected(k002=5)
    table.write("upsert", named(batch([3], 6), v="value"))
    assert not schema_findings(table)
    assert values(table, "value") == expected(k002=5, k003=6)
    _, extra = newest(table)
    assert names_of(extra["latest_schema"])["value"] == 7


def test_columns_that_such_a_writer_added_are_found_by_name(table: SmallTable) -> None:
    alter(hoodie(table), rename("v", "value"))
    rows = named(batch([2], 5), v="value").append_column("more", pa.array(["x"]))
    table.write("upsert", rows)
    forget_version(hoodie(table))
    assert values(table, "more")["k002"] == "x"
    table.write("upsert", rows.set_column(0, "id", pa.array(["k004"])))
    assert {key for key, text in values(table, "more").items() if text} == {"k002", "k004"}
    alter(hoodie(table), rename("more", "most"))
    assert {key for key, text in values(table, "most").items() if text} == {"k002", "k004"}


def test_dropping_a_partition_carries_the_history_on(table: SmallTable) -> None:
    lake = table.lake()
    known = lake.hoodie_table.schemas.newest_json(lake.timeline())
    alter(hoodie(table), rename("v", "value"))
    _, altered = newest(table)
    table.write("delete_partition", batch([1], 0))
    _, extra = newest(table)
    assert extra["latest_schema"] == altered["latest_schema"]
    assert extra["schema"] == altered["schema"] != known
    assert values(table, "value") == {
        key: value for key, value in expected().items() if int(key[1:]) % 2 == 0
    }


def test_archival_keeps_the_history(table: SmallTable) -> None:
    alter(hoodie(table), rename("v", "value"))
    for number in range(6):
        table.write("upsert", named(batch([2], number), v="value"))
    files_before = history_files(table)
    config = ArchivalConfig(commits_min=2, commits_max=3)
    execute_archival(hoodie(table), config)
    assert len(hoodie(table).timeline().completed()) < 6
    table.write("upsert", named(batch([2], 9), v="value"))
    files = history_files(table)
    assert len(files) < len(files_before)
    assert values(table, "value") == expected(k002=9)


def test_a_savepoint_keeps_the_history_that_a_restore_goes_back_to(table: SmallTable) -> None:
    alter(hoodie(table), rename("v", "value"))
    table.write("upsert", named(batch([3], 3), v="value"))
    forget_version(hoodie(table))
    savepoint = create_savepoint(hoodie(table)).instant
    for number in range(5):
        table.write("upsert", named(batch([2], number), v="value"))
    execute_archival(hoodie(table), ArchivalConfig(commits_min=2, commits_max=3))
    table.write("upsert", named(batch([2], 9), v="value"))
    restore_table(hoodie(table), savepoint)
    assert values(table, "value") == expected(k003=3)


def test_columns_that_the_table_is_keyed_by_must_keep_their_names(table: SmallTable) -> None:
    alter(hoodie(table), rename("id", "key"))
    rows = named(batch([2], 5), id="id")
    rows = rows.append_column("key", rows.column("id"))
    with pytest.raises(UnsupportedTableError, match="record key column id was renamed"):
        table.write("upsert", rows)


def test_a_lost_history_is_refused(table: SmallTable) -> None:
    alter(hoodie(table), rename("v", "value"))
    for path in history_files(table):
        table.store().delete(path)
    with pytest.raises(UnsupportedTableError, match="history of the table's schema is missing"):
        table.write("upsert", named(batch([2], 5), v="value"))
    with pytest.raises(UnsupportedTableError, match="history of the table's schema is missing"):
        values(table, "value")
    assert [str(found.severity) for found in schema_findings(table)] == ["error"]


def test_a_broken_history_is_named(table: SmallTable) -> None:
    alter(hoodie(table), rename("v", "value"))
    (path,) = history_files(table)
    table.store().put(path, table.store().get(path)[:-10])
    with pytest.raises(CorruptTableError) as caught:
        table.write("upsert", named(batch([2], 5), v="value"))
    assert caught.value.path == path
    assert [found.path for found in schema_findings(table)] == [path]


def schema_findings(table: SmallTable) -> list[Finding]:
    return [found for found in check_table(hoodie(table)) if found.check == "schema"]


def history_files(table: SmallTable) -> list[str]:
    listing = table.store().list_directory(".hoodie/.schema")
    return [info.path for info in listing.objects]

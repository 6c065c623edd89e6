"""The life of a table, played back from its timeline, is what the table was at each moment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import Action
from tideline.report.table_life import Kind, Life, State, read_life
from tideline.testing.small_table import SmallTable, batch

OFTEN = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.clustering.plan.strategy.small.file.limit": "100000000",
}


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    made = SmallTable.in_memory(ordering=["v"], table_version=request.param)
    yield made
    made.forget()


def life_of(table: SmallTable) -> Life:
    lake = table.lake()
    view = lake.hoodie_table.files.read_view(lake.timeline())
    slices = [file_slice for path in view.partitions for file_slice in view.latest_slices(path)]
    return read_life(lake.hoodie_table, slices)


def now(table: SmallTable) -> State:
    """What a look at the table's files says."""
    lake = table.lake()
    view = lake.hoodie_table.files.read_view(lake.timeline())
    slices = [file_slice for path in view.partitions for file_slice in view.latest_slices(path)]
    return State(
        rows=len(table.rows()),
        base_files=sum(1 for file_slice in slices if file_slice.base_file is not None),
        log_files=sum(len(file_slice.log_files) for file_slice in slices),
        size_bytes=sum(file_slice.size_bytes for file_slice in slices),
        stored_bytes=sum(file.size_bytes for file in lake.hoodie_table.files.base_files())
        + sum(file.size_bytes for file in lake.hoodie_table.files.log_files()),
    )


def test_every_state_is_as_it_was(table: SmallTable) -> None:
    seen = []

    def look() -> None:
        table.fake_clock.advance(60)
        seen.append(now(table))

    table.write("insert", batch(range(10), 1), options=OFTEN)
    look()
    table.write("upsert", batch(range(5, 15), 2), options=OFTEN)
    look()
    table.write("delete", batch(range(3), 3), options=OFTEN)
    look()
    table.write("insert_overwrite", batch(range(20, 24, 2), 4), options=OFTEN)
    look()
    table.lake().run("clustering", options={**OFTEN, "hoodie.clustering.inline.max.commits": "1"})
    look()
    table.lake().run("cleaning", options={"hoodie.clean.commits.retained": "1"})
    look()
    life = life_of(table)
    assert list(life.states) == seen
    assert [done.what for done in life.done] == [
        "insert", "upsert", "delete", "insert overwrite", "clustering", "cleaning",
    ]  # fmt: skip
    assert [done.kind for done in life.done] == [Kind.WRITE] * 4 + [Kind.SERVICE] * 2
    insert, upsert, delete, *_ = life.done
    assert (insert.rows_inserted, upsert.rows_inserted, upsert.rows_updated) == (10, 5, 5)
    assert delete.rows_deleted == 3
    assert life.done[-1].files_deleted > 0
    assert life.done[4].rows_inserted == 0


def test_an_archive_is_part_of_it(table: SmallTable) -> None:
    for v in range(8):
        table.write("upsert", batch(range(10), v), options=OFTEN)
        table.fake_clock.advance(60)
    before = life_of(table)
    settings = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3",
                "hoodie.clean.commits.retained": "1"}  # fmt: skip
    table.lake().run("cleaning", options=settings)
    table.fake_clock.advance(60)
    assert table.lake().run("archival", options=settings).done
    after = life_of(table)
    assert after.done[: len(before.done)] == before.done
    assert after.states[: len(before.states)] == before.states
    assert after.states[-1] == now(table)


def test_a_clean_that_is_older_than_archived_commits_is_in_its_place(table: SmallTable) -> None:
    for v in range(10):
        table.write("upsert", batch(range(10 * (v + 1)), v), options=OFTEN)
        table.fake_clock.advance(60)
        if v in (4, 9):
            table.lake().run("cleaning", options={"hoodie.clean.commits.retained": "1"})
            table.fake_clock.advance(60)
    before = life_of(table)
    settings = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3",
                "hoodie.clean.commits.retained": "1"}  # fmt: skip
    assert table.lake().run("archival", options=settings).done
    left = table.lake().timeline().completed()
    # From version 8 on it leaves the timeline with them.
    leaves = table.lake().hoodie_table.layout.timeline.has_completion_times
    assert next(instant.action for instant in left) is (Action.COMMIT if leaves else Action.CLEAN)
    after = life_of(table)
    assert after.done[: len(before.done)] == before.done
    assert after.states[: len(before.states)] == before.states


def test_file_groups_older_than_the_history_count_from_the_start(table: SmallTable) -> None:
    table.write("insert", batch(range(10), 1), options=OFTEN)
    table.fake_clock.advance(60)
    table.write("insert_overwrite", batch(range(0, 10, 2), 2), options=OFTEN)
    whole = life_of(table)
    lake = table.lake()
    slices = [
        file_slice
        for path in ("p0", "p1")
        for file_slice in lake.hoodie_table.files.read_view(lake.timeline()).latest_slices(path)
    ]
    first = lake.timeline().completed().instants[0]
    for info in list(table.store().list(".hoodie")):
        if f"/{first.time}" in info.path:
            table.store().delete(info.path)
    partial = read_life(table.lake().hoodie_table, slices)
    assert len(slices) == 2
    assert partial.states[0].base_files == whole.states[-1].base_files
    assert partial.states[0].size_bytes == whole.states[-1].size_bytes


def test_logs_are_counted_until_they_are_compacted() -> None:
    table = SmallTable.in_memory(ordering=["v"], table_type=TableType.MERGE_ON_READ)
    options = {**OFTEN, "hoodie.parquet.small.file.limit": "0", "hoodie.compact.inline": "false"}
    table.write("insert", batch(range(10), 1), options=options)
    for v in (2, 3):
        table.fake_clock.advance(60)
        table.write("upsert", batch(range(10), v), options=options)
    logged = life_of(table).states[-1]
    assert logged == now(table)
    assert logged.log_files > 0
    table.fake_clock.advance(60)
    once = {**options, "hoodie.compact.inline.max.delta.commits": "1"}
    assert table.lake().run("compaction", options=once).done
    life = life_of(table)
    assert life.done[-1].what == "compaction"
    assert life.states[-1] == now(table)
    assert life.states[-1].log_files == 0
    table.forget()


def test_what_cannot_be_read_is_counted(table: SmallTable) -> None:
    table.write("insert", batch(range(10), 1), options=OFTEN)
    table.fake_clock.advance(60)
    table.write("upsert", batch(range(10), 2), options=OFTEN)
    lake = table.lake()
    broken = lake.timeline().completed().instants[0]
    path = lake.hoodie_table.timelines.path(broken)
    table.store().put(path, b"{")
    life = life_of(table)
    assert (life.unreadable, len(life.done)) == (1, 1)

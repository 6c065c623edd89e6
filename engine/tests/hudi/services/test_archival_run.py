"""Archival: what leaves the active timeline is in the archive, and nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tideline.errors import CorruptTableError
from tideline.hudi.services.archival.config import ArchivalConfig, MergeConfig
from tideline.hudi.services.archival.execute import (
    PAUSE_S,
    ArchivalDone,
    archive_table,
    execute_archival,
)
from tideline.hudi.services.archival.merge import recover_merge
from tideline.hudi.services.savepoint.execute import create_savepoint
from tideline.hudi.table.markers import Marker, MarkerKind, create_marker, marked_names
from tideline.hudi.timeline.archived import MERGE_PLAN_NAME, ArchivedTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.layout_v1 import LAYOUT_V1
from tideline.storage.object_store import ObjectStore
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

pytestmark = pytest.mark.usefixtures("version_6")

CONFIG = ArchivalConfig(commits_min=2, commits_max=3)
MERGING = ArchivalConfig(commits_min=1, commits_max=2, merge=MergeConfig(True, 3))


@pytest.fixture(scope="module")
def prepared() -> Iterator[SmallTable]:
    table = SmallTable.in_memory()
    table.write("insert", batch(range(8), 1))
    for version in range(2, 7):
        table.fake_clock.advance(60)
        table.write("upsert", batch(range(4), version))
    yield table
    table.forget()


@pytest.fixture
def table(prepared: SmallTable) -> Iterator[SmallTable]:
    table = prepared.copy()
    yield table
    table.forget()


def archive(
    table: SmallTable, config: ArchivalConfig = CONFIG, store: ObjectStore | None = None
) -> ArchivalDone:
    opened = open_fresh(table.location, store, table.clock)
    with opened.lock().acquire(timeout_s=60):
        return execute_archival(opened, config)


def active(table: SmallTable) -> list[Instant]:
    return list(open_fresh(table.location, clock=table.clock).timeline())


def archived(table: SmallTable) -> ArchivedTimeline:
    return ArchivedTimeline(table.store())


def test_the_oldest_commits_move_into_an_archive_file(table: SmallTable) -> None:
    before, rows = active(table), table.values()
    done = archive(table)
    assert list(done.instants) == before[:4]
    assert active(table) == before[4:]
    (file,) = archived(table).files()
    assert file.path == ".hoodie/archived/.commits_.archive.1_1-0-1"
    assert (done.archives[0].path, done.archives[0].size_bytes) == (file.path, file.size_bytes)
    assert [entry.instant for entry in archived(table).completed()] == before[3::-1]
    assert table.values() == rows


def test_every_state_is_archived_and_no_object_stays(table: SmallTable) -> None:
    moved = active(table)[:4]
    archive(table)
    states = {entry.instant for entry in archived(table).entries()}
    assert states == {instant.in_state(state) for instant in moved for state in State}
    names = [
        info.path.rpartition("/")[2] for info in table.store().list_directory(".hoodie").objects
    ]
    left = {instant.time for name in names if (instant := LAYOUT_V1.parse(name)) is not None}
    assert not left & {instant.time for instant in moved}


def test_archived_commits_keep_all_they_are_known_by(table: SmallTable) -> None:
    opened = open_fresh(table.location, clock=table.clock)
    before = {item: opened.timelines.read_commit(item) for item in opened.timeline()}
    archive(table)
    for entry in archived(table).commits():
        metadata, known = entry.commit_metadata(), before[entry.instant]
        assert metadata.extra_metadata == known.extra_metadata
        assert metadata.operation_type == known.operation_type
        assert [stat.path for stat in metadata.write_stats] == [s.path for s in known.write_stats]
        assert metadata.write_stats[0].num_writes == known.write_stats[0].num_writes


def test_blocks_hold_ten_entries_and_only_a_schema(table: SmallTable) -> None:
    archive(table)
    (file,) = archived(table).files()
    content = archived(table).read(file)
    assert (len(content.entries), content.damaged) == (12, ())


def test_later_runs_count_on(table: SmallTable) -> None:
    archive(table)
    for version in (7, 8):
        table.fake_clock.advance(60)
        table.write("upsert", batch(range(4), version))
    done = archive(table)
    assert [file.number for file in archived(table).files()] == [2, 1]
    assert [item.time for item in done.instants] == sorted(item.time for item in done.instants)
    assert len(list(archived(table).commits())) == 6


def test_a_long_run_goes_in_portions_and_lets_writers_in_between(
    table: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = active(table)
    written: list[str] = []
    rest = table.fake_clock.advance

    def write_during_pause(seconds: float) -> None:
        rest(seconds)
        if seconds == PAUSE_S:
            written.append(table.write("upsert", batch(range(4), 7 + len(written))).instant)

    monkeypatch.setattr(table.fake_clock, "sleep", write_during_pause)
    done = archive_table(
        open_fresh(table.location, clock=table.clock), replace(CONFIG, instants_per_portion=2)
    )
    assert list(done.instants) == before
    assert [len(archive.instants) for archive in done.archives] == [2, 2, 2]
    assert (done.left, done.not_due, len(written)) == (0, None, 2)
    assert [str(item.time) for item in active(table)] == written
    assert [entry.instant for entry in archived(table).completed()] == before[::-1]
    assert {value for _, value in table.values()} == {1, 8}


def test_between_portions_a_savepoint_is_respected(
    table: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = active(table)
    opened = open_fresh(table.location, clock=table.clock)

    def keep_the_third(seconds: float) -> None:
        table.fake_clock.advance(seconds)
        create_savepoint(open_fresh(table.location, clock=table.clock), before[2].time)

    monkeypatch.setattr(table.fake_clock, "sleep", keep_the_third)
    done = archive_table(opened, replace(CONFIG, instants_per_portion=2))
    assert list(done.instants) == before[:2]
    assert [item.time for item in active(table) if item.action is Action.COMMIT] == [
        item.time for item in before[2:]
    ]


def test_a_run_with_nothing_due_writes_nothing(table: SmallTable) -> None:
    archive(table)
    paths = sorted(info.path for info in table.store().list())
    done = archive(table)
    assert done.not_due is not None
    assert sorted(info.path for info in table.store().list()) == paths


def test_leftover_markers_of_archived_instants_go(table: SmallTable) -> None:
    first, last = active(table)[0], active(table)[-1]
    for instant in (first, last):
        create_marker(table.store(), instant.time, Marker("p0", "f.parquet", MarkerKind.CREATE))
    archive(table)
    assert str(first.time) not in marked_names(table.store())
    assert str(last.time) in marked_names(table.store())


def test_a_replaced_group_that_was_not_cleaned_keeps_its_replacecommit(table: SmallTable) -> None:
    """Archived, it would bring the replaced rows back."""
    table.write("insert_overwrite_table", batch(range(8), 9))
    replaced = active(table)[-1]
    for version in range(10, 16):
        table.fake_clock.advance(60)
        table.write("upsert", batch(range(4), version))
    rows = table.values()
    done = archive(table)
    assert done.instants
    assert max(done.instants) < replaced
    assert replaced in active(table)
    assert table.values() == rows


def test_what_an_earlier_run_archived_is_only_deleted(table: SmallTable) -> None:
    store = table.store()
    objects = {info.path: store.get(info.path) for info in store.list_directory(".hoodie").objects}
    before = active(table)
    archive(table)
    for path, body in objects.items():
        if str(before[2].time) in path or str(before[3].time) in path:
            store.put(path, body)
    done = archive(table)
    assert list(done.resumed) == before[2:4]
    assert done.archives == ()
    assert active(table) == before[4:]


def test_an_empty_commit_stops_archival_before_anything_is_deleted(table: SmallTable) -> None:
    store, broken = table.store(), active(table)[1]
    store.put(LAYOUT_V1.path(broken), b"")
    with pytest.raises(CorruptTableError, match="completed commit is empty") as caught:
        archive(table)
    assert str(broken.time) in str(caught.value)
    assert len(active(table)) == 6


def grow(table: SmallTable, times: int, config: ArchivalConfig = MERGING) -> list[ArchivalDone]:
    done = []
    for version in range(20, 20 + times):
        table.fake_clock.advance(60)
        table.write("upsert", batch(range(2), version))
        done.append(archive(table, config))
    return done


def test_small_archives_are_merged_into_one(table: SmallTable) -> None:
    before = active(table)
    done = grow(table, 5)
    merged = [archival_done.merged for archival_done in done if archival_done.merged is not None]
    assert [len(merged_archives.replaced) for merged_archives in merged] == [3]
    (file, *rest) = archived(table).files()
    assert (file.path, rest) == (merged[0].merged, [])
    found = [entry.instant for entry in archived(table).commits()]
    assert len(found) == len(set(found))
    assert set(before) < {*found, *active(table)}


def archives_and_plan(table: SmallTable) -> tuple[dict[str, bytes], bytes, str]:
    """Small archives, the plan to merge them, and the merged file's path, as before recovery."""
    plain = ArchivalConfig(commits_min=1, commits_max=2)
    grow(table, 6, plain)
    store = table.store()
    small = {file.path: store.get(file.path) for file in archived(table).files()}
    kept: dict[str, bytes] = {}

    class Watching:
        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def put(self, path: str, body: bytes) -> object:
            if path.endswith(MERGE_PLAN_NAME):
                kept[path] = body
            return store.put(path, body)

    done = archive(table, MERGING, Watching())  # type: ignore[arg-type]
    assert done.merged is not None
    (plan,) = kept.values()
    return small, plan, done.merged.merged


PLAN_PATH = f".hoodie/archived/{MERGE_PLAN_NAME}"


def test_a_merge_that_died_before_deleting_is_undone(table: SmallTable) -> None:
    small, plan, merged = archives_and_plan(table)
    store = table.store()
    for path, body in {**small, PLAN_PATH: plan}.items():
        store.put(path, body)
    once = [entry.instant for entry in archived(table).entries()]
    assert len(once) == len(set(once))
    assert recover_merge(open_fresh(table.location, clock=table.clock), archived(table))
    assert {file.path for file in archived(table).files()} == set(small)
    assert store.head(PLAN_PATH) is None
    assert store.head(merged) is None


def test_a_merge_that_died_while_deleting_is_finished(table: SmallTable) -> None:
    small, plan, merged = archives_and_plan(table)
    for path, body in {**dict(list(small.items())[1:]), PLAN_PATH: plan}.items():
        table.store().put(path, body)
    assert recover_merge(open_fresh(table.location, clock=table.clock), archived(table))
    assert [file.path for file in archived(table).files()] == [merged]


def test_an_archive_that_took_the_merged_files_number_is_kept(table: SmallTable) -> None:
    """Hudi 1.x does not know the plan: its next archive takes the next number."""
    small, plan, merged = archives_and_plan(table)
    store = table.store()
    other = SmallTable.in_memory()
    other.fake_clock.advance(86_400)
    other.write("insert", batch(range(2), 1))
    grow(other, 4, ArchivalConfig(commits_min=1, commits_max=2))
    foreign = other.store().get(archived(other).files()[0].path)
    other.forget()
    for path, body in {**small, PLAN_PATH: plan, merged: foreign}.items():
        store.put(path, body)
    recover_merge(open_fresh(table.location, clock=table.clock), archived(table))
    assert store.get(merged) == foreign
    assert {file.path for file in archived(table).files()} == {*small, merged}


def test_an_unreadable_merge_plan_is_taken_away(table: SmallTable) -> None:
    small, plan, merged = archives_and_plan(table)
    table.store().put(PLAN_PATH, plan[:20])
    assert archive(table, MERGING).not_due is not None
    assert table.store().head(PLAN_PATH) is None
    assert [file.path for file in archived(table).files()] == [merged]
    assert small


def test_a_metadata_table_holds_what_it_has_not_compacted(table: SmallTable) -> None:
    """Hudi's metadata table is read for its latest compaction, a table of its own."""
    opened = open_fresh(table.location, clock=table.clock)
    opened.properties.update({"hoodie.table.metadata.partitions": "files"})
    done = archive(table)
    assert done.not_due is not None
    assert "metadata table" in done.not_due.reason
    compacted = active(table)[2]
    table.store().put(f".hoodie/metadata/.hoodie/{compacted.time}001.commit", b"{}")
    before = active(table)
    assert list(archive(table).instants) == before[:3]

"""Every kind of damage is found, named and, where that is safe, mended; sound tables are sound."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.check_finding import Finding, Severity
from tideline.errors import CorruptTableError
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import execute_archival
from tideline.hudi.table.file_group import BaseFile, split_path
from tideline.hudi.table.markers import Marker, MarkerKind, create_marker
from tideline.hudi.table.partition_metadata import PARTITION_METADATA
from tideline.hudi.table.properties import BACKUP_PATH, PROPERTIES_PATH, update_table_properties
from tideline.hudi.timeline.archived import ArchivedEntry
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.layout_v1 import LAYOUT_V1
from tideline.storage.heartbeat import heartbeat_path
from tideline.storage.object_store import ObjectStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.fixtures import fixture_table
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

pytestmark = pytest.mark.usefixtures("version_6")

MISSES = "hoodie.client.heartbeat.tolerable.misses"
LATER = "20300101000000000"
EARLIER = "20250101000000000"
"""Instants of no writer, after and before all of the table."""


@pytest.fixture(scope="module")
def prepared() -> Iterator[SmallTable]:
    """Two archived and two active commits."""
    table = SmallTable.in_memory()
    for version in range(1, 5):
        table.fake_clock.advance(60)
        table.write("upsert", batch(range(8), version))
    archive(table)
    yield table
    table.forget()


@pytest.fixture
def table(prepared: SmallTable) -> Iterator[SmallTable]:
    table = prepared.copy()
    yield table
    table.forget()


@pytest.fixture
def store(table: SmallTable) -> ObjectStore:
    return table.store()


def archive(table: SmallTable, *, commits_min: int = 2) -> None:
    opened = open_fresh(table.location, clock=table.clock)
    with opened.lock().acquire(timeout_s=60):
        execute_archival(
            opened, ArchivalConfig(commits_min=commits_min, commits_max=commits_min + 1)
        )


def active(table: SmallTable) -> list[Instant]:
    return list(open_fresh(table.location, clock=table.clock).timeline())


def base_files(table: SmallTable) -> list[BaseFile]:
    """Those a reader reads."""
    opened = open_fresh(table.location, clock=table.clock)
    view = opened.files.view(opened.timeline())
    return [file for partition in view.partitions for file in view.latest_base_files(partition)]


def findings(table: SmallTable, *, keys: bool = False) -> list[tuple[str, str, str | None]]:
    return [
        (str(finding.severity), finding.message, finding.path)
        for finding in table.lake().check(keys=keys)
    ]


def repaired(table: SmallTable) -> tuple[Finding, ...]:
    table.lake().repair()
    return table.lake().check(keys=True)


def test_a_sound_table_has_no_findings(table: SmallTable) -> None:
    assert table.lake().check(keys=True) == ()


@pytest.mark.fixtures
def test_tables_of_hudis_are_sound() -> None:
    from tideline.lake_table import LakeTable

    for name in (
        "hudi-upgrade.mor-tables.hudi-v6-table-mor/data/hudi-v6-table-mor",
        "hudi-rs.mor-parquet.v6_nonpartitioned_rollback/data/v6_nonpartitioned_rollback",
    ):
        assert LakeTable.open(str(fixture_table(name))).check(keys=True) == ()


def test_a_missing_base_file_is_an_error(table: SmallTable, store: ObjectStore) -> None:
    path = base_files(table)[0].path
    store.delete(path)
    ((severity, message, found),) = findings(table)
    assert (severity, found) == ("error", path)
    assert "newest version of its file group is missing" in message


@pytest.fixture
def old_group(table: SmallTable) -> BaseFile:
    """The only version of a file group that an archived commit wrote."""
    rows = batch(range(8), 5)
    parts = pa.array(["alone"] * rows.num_rows, pa.string())
    table.fake_clock.advance(60)
    table.write("insert", rows.set_column(1, "part", parts))
    for version in range(6, 10):
        table.fake_clock.advance(60)
        table.write("upsert", batch([0], version))
    archive(table)
    (file,) = [base_file for base_file in base_files(table) if base_file.partition == "alone"]
    assert file.instant < active(table)[0].time
    assert table.lake().check(keys=True) == ()
    return file


def test_a_missing_base_file_of_an_archived_commit_is_an_error(
    table: SmallTable, store: ObjectStore, old_group: BaseFile
) -> None:
    store.delete(old_group.path)
    message = "the newest version of its file group is missing"
    assert findings(table) == [("error", message, old_group.path)]


def test_a_cut_base_file_of_an_archived_commit_is_an_error_by_its_size(
    table: SmallTable, store: ObjectStore, old_group: BaseFile
) -> None:
    body = store.get(old_group.path)
    store.put(old_group.path, body[:-10])
    message = f"has {len(body) - 10:,} bytes, its commit says {len(body):,}"
    assert ("error", message, old_group.path) in findings(table)


def test_what_a_damaged_archive_may_have_replaced_is_not_missing(
    table: SmallTable, store: ObjectStore, old_group: BaseFile
) -> None:
    store.delete(old_group.path)
    newest = open_fresh(table.location, clock=table.clock).commits.archive().files()[0].path
    store.put(newest, store.get(newest)[:-20])
    assert old_group.path not in [path for _, _, path in findings(table)]


def test_an_old_version_that_was_cleaned_is_not_missing(
    table: SmallTable, store: ObjectStore
) -> None:
    newest = {file.path for file in base_files(table)}
    for info in list(store.list()):
        if BaseFile.parse(*split_path(info.path)) is not None and info.path not in newest:
            store.delete(info.path)
    assert findings(table, keys=True) == []


def test_a_cut_base_file_is_an_error_by_its_size_and_its_footer(
    table: SmallTable, store: ObjectStore
) -> None:
    path = base_files(table)[0].path
    store.put(path, store.get(path)[:-100])
    messages = [message for _, message, found in findings(table) if found == path]
    assert any("its commit says" in message for message in messages)
    assert any("cannot be read" in message for message in messages)


def test_rows_that_its_commit_does_not_count_are_an_error(
    table: SmallTable, store: ObjectStore
) -> None:
    commit = LAYOUT_V1.path(active(table)[-1])
    body = store.get(commit)
    store.put(commit, body.replace(b'"numWrites" : 4', b'"numWrites" : 3'))
    assert {message for _, message, _ in findings(table)} == {"holds 4 rows, its commit says 3"}


def copy_of_a_file(table: SmallTable, instant: str) -> str:
    """A readable file that no commit names, of a new file group."""
    file = base_files(table)[0]
    path = f"{file.partition}/22222222-2222-2222-2222-222222222222-0_0-0-0_{instant}.parquet"
    table.store().put(path, table.store().get(file.path))
    return path


def test_a_commit_that_counts_no_rows_is_an_error(table: SmallTable, store: ObjectStore) -> None:
    last = active(table)[-1]
    path = LAYOUT_V1.path(last)
    store.put(path, re.sub(rb'"numWrites" : \d+', b'"numWrites" : 0', store.get(path)))
    found = [message for _, message, _ in findings(table)]
    assert found == ["holds 4 rows, its commit says 0"] * 2


@pytest.mark.parametrize("keys", [False, True], ids=["footers", "keys"])
def test_the_check_survives_any_bytes_of_a_base_file(
    table: SmallTable, store: ObjectStore, keys: bool
) -> None:
    file = base_files(table)[0]
    body = store.get(file.path)
    footer = int.from_bytes(body[-8:-4], "little") + 8
    reported = 0
    for at in range(len(body) - footer, len(body) - 8, 97):
        store.put(file.path, body[:at] + b"\xff\xae\x81" + body[at + 3 :])
        reported += ("error", file.path) in [
            (kind, path) for kind, _, path in findings(table, keys=keys)
        ]
    assert reported


def test_a_base_file_whose_keys_cannot_be_read_is_an_error(
    table: SmallTable, store: ObjectStore
) -> None:
    file = base_files(table)[0]
    body = store.get(file.path)
    group = pq.read_metadata(pa.BufferReader(body)).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    (keys,) = [column for column in columns if column.path_in_schema == "_hoodie_record_key"]
    start = keys.dictionary_page_offset or keys.data_page_offset
    end = start + keys.total_compressed_size
    store.put(file.path, body[:start] + b"\xff" * (end - start) + body[end:])
    assert findings(table) == []
    assert findings(table, keys=True) == [
        ("error", "cannot be read: base file cannot be read", file.path)
    ]


def test_a_file_of_a_rolled_back_write_is_found_and_deleted(
    table: SmallTable, store: ObjectStore
) -> None:
    path = copy_of_a_file(table, LATER)
    assert findings(table) == [("warning", "left by a write that never committed", path)]
    assert repaired(table) == ()
    assert store.head(path) is None


def phantom(table: SmallTable) -> str:
    """A file that a writer left which was rolled back while it slept, older than the timeline."""
    archived = sorted(entry.instant.time for entry in table_archive(table))
    return copy_of_a_file(table, f"{int(archived[0].value) + 1}")


def table_archive(table: SmallTable) -> list[ArchivedEntry]:
    return list(open_fresh(table.location, clock=table.clock).commits.archive().commits())


def test_a_file_of_an_instant_that_no_timeline_knows_is_an_error_for_a_person(
    table: SmallTable,
) -> None:
    """It would be of an archived commit, were the archive file with it lost."""
    rows = table.values()
    path = phantom(table)
    assert table.values() != rows
    expected = [("error", "visible, but neither timeline knows its instant", path)]
    assert findings(table) == expected
    table.lake().repair()
    assert findings(table) == expected


@pytest.mark.parametrize("is_archived", [True, False])
def test_a_visible_file_of_a_rolled_back_instant_is_an_error_and_goes(
    table: SmallTable, is_archived: bool
) -> None:
    dead = []
    for version in range(9, 12):
        with pytest.raises(SimulatedCrash):
            dying = FaultyStore(table.store(), FaultPlan(crash_before_write=8))
            table.write("upsert", batch(range(8), version), store=dying)
        dead += [candidate.time for candidate in active(table) if candidate.is_pending]
        table.fake_clock.advance(3600)
        table.write("upsert", batch(range(8), version))
    archive(table, commits_min=1)
    rollbacks = [candidate for candidate in active(table) if candidate.action is Action.ROLLBACK]
    assert (len(dead), len(rollbacks)) == (3, 1)
    instant = dead[0] if is_archived else dead[-1]
    rows = table.values()
    path = copy_of_a_file(table, str(instant))
    assert table.values() != rows
    message = "visible, but its instant was rolled back and never committed"
    assert findings(table) == [("error", message, path)]
    assert repaired(table) == ()
    assert table.values() == rows


def test_what_is_older_than_the_archive_is_not_checked(table: SmallTable) -> None:
    copy_of_a_file(table, EARLIER)
    assert findings(table) == []


def test_a_visible_file_its_commit_does_not_name_is_an_error(table: SmallTable) -> None:
    path = copy_of_a_file(table, str(active(table)[-1].time))
    ((severity, message, found),) = findings(table)
    assert (severity, message, found) == ("error", "visible, but its commit does not name it", path)
    assert repaired(table) == ()


def test_a_file_of_a_write_under_way_is_left_alone(table: SmallTable, store: ObjectStore) -> None:
    path = copy_of_a_file(table, LATER)
    store.put(f".hoodie/{LATER}.commit.requested", b"")
    store.put(f".hoodie/{LATER}.inflight", b"")
    store.put(heartbeat_path(LATER), b"")
    assert [row for row in findings(table) if row[2] == path] == []
    table.lake().repair()
    assert store.head(path) is not None


def test_a_dead_writer_is_reported_with_the_command_that_undoes_it(
    table: SmallTable, store: ObjectStore
) -> None:
    store.put(f".hoodie/{LATER}.commit.requested", b"")
    found = [finding for finding in table.lake().check() if "seems to be gone" in finding.message]
    assert [finding.advice for finding in found] == ["tideline execute rollback"]


def test_how_long_a_writer_may_be_silent_is_the_tables_setting(
    table: SmallTable, store: ObjectStore
) -> None:
    update_table_properties(store, {MISSES: "1000"})
    store.put(f".hoodie/{LATER}.commit.requested", b"")
    store.put(heartbeat_path(LATER), b"")
    table.fake_clock.advance(3600)
    assert "seems to be gone" not in str(findings(table))
    table.fake_clock.advance(60 * 1000)
    assert "seems to be gone" in str(findings(table))


def test_a_setting_that_stops_every_writer_is_an_error(
    table: SmallTable, store: ObjectStore
) -> None:
    update_table_properties(store, {MISSES: "many"})
    ((severity, message, path),) = findings(table)
    assert (severity, path) == ("error", PROPERTIES_PATH)
    assert MISSES in message


def test_keys_stored_twice_are_found_only_when_asked(table: SmallTable) -> None:
    file = base_files(table)[0]
    path = copy_of_a_file(table, EARLIER)
    assert findings(table) == []
    found = findings(table, keys=True)
    assert {severity for severity, _, _ in found} == {"error"}
    assert all(file.file_id in message for _, message, _ in found)
    assert all(split_path(path)[1].partition("_")[0] in message for _, message, _ in found)


def test_a_missing_partition_metadata_is_written_again(
    table: SmallTable, store: ObjectStore
) -> None:
    rows = table.values()
    store.delete(f"p0/{PARTITION_METADATA}")
    assert [(severity, path) for severity, _, path in findings(table)] == [("error", "p0")]
    assert repaired(table) == ()
    assert table.values() == rows


def test_leftovers_of_dead_writers_are_swept(table: SmallTable, store: ObjectStore) -> None:
    path = copy_of_a_file(table, LATER)
    create_marker(store, LATER, Marker("p0", split_path(path)[1], MarkerKind.CREATE))
    store.put(heartbeat_path(LATER), b"")
    table.fake_clock.advance(3600)
    found = table.lake().check()
    assert {finding.severity for finding in found} == {Severity.WARNING}
    assert {finding.check for finding in found} == {"leftovers", "files"}
    assert repaired(table) == ()


def test_an_instant_in_both_timelines_is_finished(table: SmallTable, store: ObjectStore) -> None:
    archived = open_fresh(table.location, clock=table.clock).commits.archive()
    (first, *_) = sorted(entry.instant for entry in archived.commits())
    last = LAYOUT_V1.path(active(table)[0])
    store.put(LAYOUT_V1.path(first), store.get(last))
    assert [(severity, message) for severity, message, _ in findings(table)] == [
        ("warning", f"{first} is archived and still active")
    ]
    assert repaired(table) == ()
    assert first not in active(table)


def test_a_damaged_archive_file_is_an_error_and_nothing_is_concluded_from_it(
    table: SmallTable, store: ObjectStore
) -> None:
    phantom(table)
    (file,) = open_fresh(table.location, clock=table.clock).commits.archive().files()
    store.put(file.path, store.get(file.path)[:-10])
    ((severity, message, path),) = findings(table)
    assert (severity, path) == ("error", file.path)
    assert "damaged" in message


def test_a_lost_archive_is_noticed_as_a_hole(table: SmallTable, store: ObjectStore) -> None:
    (file,) = open_fresh(table.location, clock=table.clock).commits.archive().files()
    store.delete(file.path)
    store.put(".hoodie/archived/keep", b"")
    ((severity, message, _),) = findings(table)
    assert severity == "warning"
    assert "the archive has a hole" in message


def test_a_truncated_commit_is_an_error_and_its_files_are_not_touched(
    table: SmallTable, store: ObjectStore
) -> None:
    path = LAYOUT_V1.path(active(table)[-1])
    store.put(path, store.get(path)[:50])
    found = table.lake().check()
    assert [finding.path for finding in found if finding.severity is Severity.ERROR] == [path]
    before = sorted(info.path for info in store.list())
    table.lake().repair()
    assert sorted(info.path for info in store.list()) == before


def test_an_update_of_the_properties_that_died_is_finished(
    table: SmallTable, store: ObjectStore
) -> None:
    store.put(BACKUP_PATH, store.get(PROPERTIES_PATH))
    ((severity, _, path),) = findings(table)
    assert (severity, path) == ("warning", BACKUP_PATH)
    assert repaired(table) == ()


def test_a_name_that_is_no_instants_is_reported(table: SmallTable, store: ObjectStore) -> None:
    store.put(f".hoodie/{LATER}.comit", b"")
    assert findings(table) == [
        (
            "warning",
            "no instant is spelled like this; every reader skips it",
            f".hoodie/{LATER}.comit",
        )
    ]


CLEANS = {"hoodie.clean.commits.retained": "1"}


def cleaned(table: SmallTable) -> Instant:
    table.lake().run("cleaning", options=CLEANS)
    clean = open_fresh(table.location, clock=table.clock).timeline().of(Action.CLEAN).last()
    assert clean is not None
    assert clean.is_completed
    return clean


def test_a_truncated_clean_is_repaired_by_doing_it_again(
    table: SmallTable, store: ObjectStore
) -> None:
    clean = cleaned(table)
    path = LAYOUT_V1.path(clean)
    store.put(path, store.get(path)[:50])
    (found,) = table.lake().check()
    assert (str(found.severity), found.path) == ("error", path)
    assert [str(finding.severity) for finding in repaired(table)] == ["note"]
    assert cleaned(table) == clean
    assert table.lake().check(keys=True) == ()


@pytest.mark.parametrize("is_begun", [False, True], ids=["requested", "inflight"])
def test_a_pending_clean_whose_plan_is_truncated_goes_unless_it_was_begun(
    table: SmallTable, store: ObjectStore, is_begun: bool
) -> None:
    clean = cleaned(table)
    plan = LAYOUT_V1.path(clean.in_state(State.REQUESTED))
    store.put(plan, store.get(plan)[:50])
    store.delete(LAYOUT_V1.path(clean))
    if not is_begun:
        store.delete(LAYOUT_V1.path(clean.in_state(State.INFLIGHT)))
    broken, unfinished = table.lake().check()
    assert (str(broken.severity), broken.path, broken.advice != "") == ("error", plan, True)
    assert (str(unfinished.severity), unfinished.advice) == ("note", "tideline execute cleaning")
    assert len(repaired(table)) == (2 if is_begun else 0)


def test_a_truncated_clean_is_an_error_that_names_table_and_instant(
    table: SmallTable, store: ObjectStore
) -> None:
    clean = cleaned(table)
    store.put(LAYOUT_V1.path(clean), store.get(LAYOUT_V1.path(clean))[:50])
    with pytest.raises(CorruptTableError) as raised:
        table.lake().plan("cleaning", options=CLEANS)
    named = (raised.value.table, str(raised.value.instant), raised.value.path)
    assert named == (table.location.uri, str(clean), LAYOUT_V1.path(clean))

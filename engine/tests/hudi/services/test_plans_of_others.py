"""Plans that others left: one that names a needed file is refused and nothing is deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tideline.errors import CorruptTableError, TidelineError
from tideline.formats.avro import encode_container
from tideline.hudi.recovery.plan import LogRollback, RollbackPlan
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import execute_archival
from tideline.hudi.services.cleaning.config import CleaningConfig
from tideline.hudi.services.cleaning.execute import clean_table
from tideline.hudi.services.cleaning.plan import CleaningPlan, ObsoleteFile
from tideline.hudi.services.savepoint.execute import create_savepoint
from tideline.hudi.table.file_group import FileGroupId, split_path
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

pytestmark = pytest.mark.usefixtures("version_6")

NEVER = InstantTime("20250615160000000")
"""An instant that failed before all others' time is over."""
ROWS = [(f"k{number:03d}", 3) for number in range(8)]


@pytest.fixture(scope="module")
def prepared() -> Iterator[SmallTable]:
    """Three versions; the second is kept by a savepoint."""
    table = SmallTable.in_memory()
    for version in (1, 2, 3):
        table.fake_clock.advance(60)
        table.write("upsert", batch(range(8), version))
        if version == 2:
            create_savepoint(open_fresh(table.location, clock=table.clock))
    yield table
    table.forget()


@pytest.fixture
def table(prepared: SmallTable) -> Iterator[SmallTable]:
    table = prepared.copy()
    table.fake_clock.advance(14_400)
    yield table
    table.forget()


def versions(table: SmallTable) -> list[str]:
    """The base files of p0, oldest first."""
    files = open_fresh(table.location, clock=table.clock).files.base_files()
    ordered = sorted(files, key=lambda file: file.instant)
    return [file.path for file in ordered if file.partition == "p0"]


def contents(table: SmallTable) -> Mapping[str, bytes]:
    store = table.store()
    paths = (info.path for info in store.list() if "/.locks/" not in info.path)
    return {path: store.get(path) for path in paths if "/.heartbeat/" not in path}


def leave(table: SmallTable, action: str, schema: str, record: Mapping[str, object]) -> None:
    time = InstantTime.from_epoch_ms(table.clock.now_ms())
    body = encode_container(schema, record)
    table.store().put(f".hoodie/{time}.{action}.requested", body)


def leave_rollback(table: SmallTable, plan: RollbackPlan) -> None:
    leave(table, "rollback", "HoodieRollbackPlan", plan.to_avro("file:/elsewhere/table"))


def leave_clean(table: SmallTable, *paths: str, partition: str = "p0") -> None:
    files = {partition: tuple(ObsoleteFile(path) for path in paths)}
    plan = CleaningPlan("KEEP_LATEST_COMMITS", None, None, files)
    leave(table, "clean", "HoodieCleanerPlan", plan.to_avro("file:/elsewhere/table"))


def assert_refused(table: SmallTable, error: TidelineError, path: str, reason: str) -> None:
    assert str(error.path).endswith(path)
    assert reason in error.message
    assert table.values() == ROWS


def clean(table: SmallTable) -> None:
    clean_table(open_fresh(table.location, clock=table.clock), CleaningConfig(commits_retained=1))


def test_a_rollback_that_names_a_committed_file_is_refused(table: SmallTable) -> None:
    newest = versions(table)[-1]
    leave_rollback(table, RollbackPlan(NEVER, Action.COMMIT, {"p0": (newest,)}))
    before = contents(table)
    with pytest.raises(CorruptTableError) as refused:
        table.lake().recover()
    assert_refused(table, refused.value, newest, f"not {NEVER}")
    assert contents(table) == before


@pytest.mark.parametrize(
    ("partition", "name", "reason"),
    [
        (".hoodie", "hoodie.properties", "control folder"),
        (".hoodie/metadata/.hoodie", f"f_0-0-0_{NEVER}.parquet", "control folder"),
        ("..", f"f_0-0-0_{NEVER}.parquet", "'..'"),
        ("p0/../../x", f"f_0-0-0_{NEVER}.parquet", "'..'"),
        ("p0", ".hoodie_partition_metadata", "not a data file"),
    ],
)
@pytest.mark.parametrize("action", ["rollback", "clean"])
def test_a_plan_keeps_out_of_what_is_no_data(
    table: SmallTable, action: str, partition: str, name: str, reason: str
) -> None:
    path = f"{partition}/{name}"
    before = contents(table)
    with pytest.raises(TidelineError) as refused:
        if action == "rollback":
            leave_rollback(table, RollbackPlan(NEVER, Action.COMMIT, {partition: (path,)}))
            table.lake().recover()
        else:
            leave_clean(table, path, partition=partition)
            clean(table)
    assert_refused(table, refused.value, path if "'" not in reason else "", reason)
    after = contents(table)
    assert {path: after[path] for path in before} == before


def test_a_rollback_of_a_commit_that_others_were_built_on_is_refused(table: SmallTable) -> None:
    opened = open_fresh(table.location, clock=table.clock)
    first, second, _ = opened.timeline().of(Action.COMMIT).completed()
    for commit, reason in ((first, "came after it"), (second, "a savepoint keeps it")):
        twin = table.copy()
        leave_rollback(twin, RollbackPlan(commit.time, Action.COMMIT, {}))
        with pytest.raises(CorruptTableError) as refused:
            twin.lake().recover()
        assert_refused(twin, refused.value, ".rollback.requested", reason)


def test_a_rollback_of_an_archived_commit_is_refused() -> None:
    """It would hide the commit's log blocks for good."""
    table = SmallTable.in_memory()
    for version in (1, 2, 2, 3):
        table.fake_clock.advance(60)
        table.write("upsert", batch(range(8), version))
    opened = open_fresh(table.location, clock=table.clock)
    with opened.lock().acquire(timeout_s=60):
        config = ArchivalConfig(commits_min=2, commits_max=3)
        (first, *_) = execute_archival(opened, config).instants
    block = LogRollback(FileGroupId("p0", "f"), first.time, {})
    leave_rollback(table, RollbackPlan(first.time, Action.DELTACOMMIT, {}, (block,)))
    before = contents(table)
    with pytest.raises(CorruptTableError, match="it is an archived commit") as refused:
        table.lake().recover()
    assert_refused(table, refused.value, ".rollback.requested", "archived")
    assert contents(table) == before
    table.forget()


@pytest.mark.parametrize(
    ("version", "reason"), [(2, "newest version of its file group"), (1, "a savepoint keeps it")]
)
def test_a_clean_that_names_a_needed_file_is_refused(
    table: SmallTable, version: int, reason: str
) -> None:
    paths = versions(table)
    leave_clean(table, paths[0], paths[version])
    with pytest.raises(CorruptTableError) as refused:
        clean(table)
    assert_refused(table, refused.value, paths[version], reason)
    assert versions(table) == paths


def test_a_clean_that_names_a_pending_writers_file_is_refused(table: SmallTable) -> None:
    time = InstantTime.from_epoch_ms(table.clock.now_ms() - 5)
    store = table.store()
    store.put(f".hoodie/{time}.commit.requested", b"")
    store.put(f".hoodie/{time}.inflight", b"")
    path = f"p0/{split_path(versions(table)[-1])[1].partition('_')[0]}_0-0-0_{time}.parquet"
    store.put(path, b"")
    leave_clean(table, path)
    with pytest.raises(CorruptTableError) as refused:
        clean(table)
    assert_refused(table, refused.value, path, f"instant {time} is pending")


def test_a_clean_that_names_only_old_versions_is_done(table: SmallTable) -> None:
    paths = versions(table)
    leave_clean(table, paths[0], f"p0/gone_0-0-0_{NEVER}.parquet")
    clean(table)
    assert versions(table) == paths[1:]
    assert table.values() == ROWS

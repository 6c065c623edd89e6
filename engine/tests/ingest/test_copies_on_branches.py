"""A copy of a source into a branch of an Iceberg table: main stays as it was until the branch takes
its place, whatever dies, and whatever others write meanwhile."""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.clock import SystemClock
from tideline.commit_report import CommitReport
from tideline.errors import ConfigError, ConflictError
from tideline.iceberg.metadata.metadata_update import SetSnapshotRef
from tideline.iceberg.services.remove_orphan_files.execute import execute_orphans, plan_orphans
from tideline.iceberg.services.remove_orphan_files.plan import OrphanOptions
from tideline.ingest.execute.ingest_table import TakenRange
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import CatalogEntry
from tideline.ingest.sources import iceberg_checkpoints as checkpoints_in_iceberg
from tideline.ingest.sources.iceberg_copies import branch_for
from tideline.ingest.sources.source import Sweep
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.iceberg_feed import IcebergFeed, new_target, tables_through

BRANCH = branch_for("landing")
OLD, NEW = [1, 2, 3], [2, 3, 4, 5]
WRITES_MAX = 40
SOON = dt.timedelta(milliseconds=-1_000)


def rows(*numbers: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": n, "v": str(n)} for n in numbers])


class Copy:
    """The steps of a copy again of a table that has the rows OLD; the source has the rows NEW."""

    def __init__(self, feed: IcebergFeed) -> None:
        self.feed = feed
        feed.land(rows(*OLD).to_pylist())
        assert feed.run(write_operation="upsert").rows_inserted == len(OLD)
        feed.land([{"id": 9}])
        work = feed.plan(write_operation="upsert").ingest
        self.work = work

    @property
    def generation(self) -> int:
        return self.feed.checkpoints()["landing"].generation

    def taken(self) -> TakenRange:
        before = self.feed.checkpoints()
        known = before["landing"]
        work = replace(self.work, generation=known.generation)
        now = replace(known, generation=known.generation + 1)
        return TakenRange("copy", work, ("part",), now, before)

    def begin(self) -> CommitReport:
        return self.feed.opened().begin_again(rows(1).slice(0, 0), self.taken())

    def copy(self, *numbers: int) -> CommitReport:
        return self.feed.opened().write(rows(*numbers), self.taken())

    def sweep(self) -> CommitReport:
        wanted = Sweep("0", 1, self.work.range)
        return self.feed.opened().sweep(wanted, 1, lambda _: self.taken(), lambda _: None)

    @property
    def steps(self) -> tuple[Callable[[], CommitReport], ...]:
        return (self.begin, lambda: self.copy(2, 3), lambda: self.copy(3, 4, 5), self.sweep)


def copy_of(folder: Path, **target: Any) -> Copy:
    return Copy(IcebergFeed(folder, new_target(**target)))


def serve(feed: IcebergFeed, *, expires: bool = True) -> None:
    """All that services may do."""
    lake = feed.lake()
    lake.run("rewrite_data_files", options={"rewrite-all": "true"})
    if not expires:
        return
    lake.expire(older_than=SOON, retain_last=1)
    found = OrphanOptions(SystemClock().now_ms() + 1_000, is_forced=True)
    execute_orphans(lake.table.operations, plan_orphans(lake.table.operations, found))


def dies(act: Callable[[], object], plan: FaultPlan) -> bool:
    with tables_through(lambda inner: FaultyStore(inner, plan)):
        try:
            act()
        except SimulatedCrash:
            return True
    return False


@pytest.mark.slow_with("version 3")
@pytest.mark.parametrize(
    ("version", "size_max"), [(2, 10), (3, 4_096)], ids=["version 2", "version 3"]
)
def test_a_death_at_any_write_leaves_main_whole(
    version: int, size_max: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints_in_iceberg, "SUMMARY_CHARACTERS_MAX", size_max)
    found = copy_of(tmp_path, format_version=version)
    feed, deaths = found.feed, 0
    for number, step in enumerate(found.steps):
        before = found.generation
        is_last = number == len(found.steps) - 1
        for write in range(1, WRITES_MAX):
            for plan in (FaultPlan(write), FaultPlan(crash_after_write=write)):
                if found.generation == before:
                    deaths += dies(step, plan)
                is_done = found.generation > before
                assert feed.ids() == (NEW if is_last and is_done else OLD), (number, plan)
                assert (BRANCH in feed.lake().refs) == (
                    number + is_done > 0 and not (is_last and is_done)
                )
            if found.generation > before:
                break
        assert found.generation == before + 1
    assert deaths > 20
    lake = feed.lake()
    assert sorted(lake.refs) == ["main"]
    assert not [name for name in lake.metadata.properties if name.startswith("tideline.resync")]
    assert lake.check() == ()
    serve(feed)
    assert feed.lake().check() == ()
    assert feed.ids() == NEW
    assert found.copy(6).rows_inserted == 1
    assert feed.ids() == [*NEW, 6]


def test_services_rewrite_main_and_expire_snapshots_beside_it(tmp_path: Path) -> None:
    found = copy_of(tmp_path)
    feed = found.feed
    for number, step in enumerate(found.steps):
        step()
        if number < len(found.steps) - 1:
            serve(feed)
            assert feed.ids() == OLD
            assert found.generation == number + 2
    assert feed.ids() == NEW
    assert feed.lake().check() == ()


def test_what_others_give_main_stops_the_copy_and_is_kept_or_copied_over(tmp_path: Path) -> None:
    found = copy_of(tmp_path)
    feed = found.feed
    found.begin()
    found.copy(2, 3)
    feed.lake().write(rows(50))
    for step in found.steps[2:]:
        with pytest.raises(ConfigError, match=r"main has snapshot \d+ of another writer"):
            step()
    assert feed.ids() == [*OLD, 50]
    # Dropped, main has its own checkpoint; started again, what main had goes.
    feed.lake().alter().drop_branch(BRANCH).commit()
    assert found.generation == 1
    for step in found.steps:
        step()
    assert feed.ids() == NEW
    found.begin()
    found.copy(7)
    first = feed.lake().snapshots[-1]
    feed.lake().write(rows(50))
    found.begin()
    assert first.snapshot_id not in {
        item.snapshot_id
        for item in feed.lake().metadata.ancestors(feed.lake().refs[BRANCH].snapshot_id)
    }
    found.copy(*NEW)
    found.sweep()
    assert feed.ids() == NEW


def test_main_that_is_taken_elsewhere_stops_the_copy(tmp_path: Path) -> None:
    found = copy_of(tmp_path)
    feed = found.feed
    first = feed.lake().current_snapshot
    assert first is not None
    feed.lake().write(rows(50))
    found.begin()
    feed.lake().alter().rollback(first.snapshot_id).commit()
    with pytest.raises(ConfigError, match="main was taken to snapshot"):
        found.copy(2)
    found.begin()
    found.copy(*NEW)
    # The branch is a branch: somebody may look at it, and take main there.
    assert sorted(feed.lake().to_arrow(["id"], as_of=BRANCH)["id"].to_pylist()) == NEW
    feed.lake().alter().fast_forward("main", BRANCH).commit()
    assert feed.ids() == NEW
    found.copy(6)
    found.sweep()
    assert feed.ids() == [*NEW, 6]


def test_another_ingest_waits_until_the_copy_is_done(tmp_path: Path) -> None:
    found = copy_of(tmp_path)
    feed = found.feed
    found.begin()
    late = feed.run("other")
    assert late.exit_code == 3
    assert "the table is copied again on branch tideline-resync-landing" in late.message
    renamed = replace(found.work, name="landed", former_name="landing")
    before = feed.checkpoints()
    now = replace(before["landing"], generation=3)
    taken = TakenRange("copy", replace(renamed, generation=2), ("part",), now, before)
    feed.opened().write(rows(*NEW), taken)
    assert feed.ids() == OLD
    found.work = renamed
    wanted = Sweep("0", 1, renamed.range)
    before = feed.checkpoints()
    taken = TakenRange(
        "copy", replace(renamed, generation=3), ("part",), replace(now, generation=4), before
    )
    feed.opened().sweep(wanted, 1, lambda _: taken, lambda _: None)
    assert feed.ids() == NEW
    assert sorted(feed.lake().refs) == ["main"]


def test_a_driver_that_was_overtaken_changes_nothing(tmp_path: Path) -> None:
    found = copy_of(tmp_path)
    late = found.taken()
    found.begin()
    for write in (found.feed.opened().write, found.feed.opened().begin_again):
        with pytest.raises(ConflictError, match="another driver of ingest 'landing'"):
            write(rows(8), late)
    late = found.taken()
    found.copy(*NEW)
    with pytest.raises(ConflictError, match="another driver of ingest 'landing'"):
        found.feed.opened().sweep(Sweep("0", 1, found.work.range), 1, lambda _: late, print)
    assert found.feed.ids() == OLD


def test_the_branch_is_not_dropped_for_its_age(tmp_path: Path) -> None:
    found = copy_of(tmp_path)
    feed = found.feed
    found.begin()
    feed.lake().alter().set_properties({"history.expire.max-ref-age-ms": "1"}).commit()
    feed.lake().expire(older_than=SOON, retain_last=1)
    assert BRANCH in feed.lake().refs
    # A branch of that name which no copy made is nobody's.
    feed.lake().alter().drop_branch(BRANCH).commit()
    head = feed.lake().metadata.refs["main"]
    lake = feed.lake()
    lake.table.operations.commit(lake.table.loaded, (), (SetSnapshotRef(BRANCH, head),))
    found.copy(7)
    assert feed.ids() == [*OLD, 7]


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_what_others_gave_that_name_is_not_taken_from_them(kind: str, tmp_path: Path) -> None:
    found = copy_of(tmp_path)
    feed, changes = found.feed, found.feed.lake().alter()
    (changes.create_branch if kind == "branch" else changes.create_tag)(BRANCH).commit()
    if kind == "branch":
        feed.lake().write(rows(70), branch=BRANCH)
    theirs = feed.lake().refs[BRANCH]
    with pytest.raises(ConfigError, match=f"has a {kind} {BRANCH} that no copy made: drop it"):
        found.begin()
    assert feed.lake().refs[BRANCH] == theirs
    drop = feed.lake().alter()
    (drop.drop_branch if kind == "branch" else drop.drop_tag)(BRANCH).commit()
    for step in found.steps:
        step()
    assert feed.ids() == NEW


def test_changes_across_the_switch_lead_from_the_old_rows_to_the_new(tmp_path: Path) -> None:
    """Who follows the table begins where it was: before the copy, behind a rewrite, at a time."""
    found = copy_of(tmp_path)
    feed = found.feed
    begin = feed.lake().metadata.current_snapshot_id
    for step in found.steps[:2]:
        step()
    serve(feed, expires=False)
    rewritten = feed.lake().metadata.current_snapshot_id
    time.sleep(0.01)
    moment = dt.datetime.now(dt.UTC)
    time.sleep(0.01)
    for step in found.steps[2:]:
        step()
    lake = feed.lake()
    assert begin != rewritten
    for after in (begin, rewritten, moment):
        assert sorted(lake.to_arrow(["id"], as_of=after)["id"].to_pylist()) == OLD
        seen = Counter(OLD)
        for change in lake.changes(after).read_all().to_pylist():
            is_new = change["_change_type"] in ("INSERT", "UPDATE_AFTER")
            seen[change["id"]] += 1 if is_new else -1
        assert sorted(seen.elements()) == NEW, after
        assert not -seen
    assert lake.changes(moment, rewritten).read_all().num_rows == 0


def test_a_table_in_a_catalog(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    from pyiceberg.catalog import load_catalog

    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"{tmp_path}/w"}
    catalog = load_catalog("lake", **properties)
    entry = CatalogEntry("lake", "db.feed", tuple(sorted(properties.items())))
    target = replace(new_target(), location=Location(""), catalog=entry)
    found = Copy(IcebergFeed(tmp_path, target))
    for number, step in enumerate(found.steps):
        step()
        table = catalog.load_table("db.feed")
        ids = sorted(table.scan().to_arrow()["id"].to_pylist())
        assert ids == (NEW if number == len(found.steps) - 1 else OLD)
        assert (BRANCH in table.refs()) == (ids == OLD)


def test_others_read_each_state(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    from pyiceberg.table import StaticTable

    target = new_target()
    place = replace(target.location, uri=(tmp_path / "table").as_uri())
    found = Copy(IcebergFeed(tmp_path, replace(target, location=place)))
    for number, step in enumerate(found.steps):
        step()
        table = StaticTable.from_metadata(found.feed.lake().table.loaded.metadata_location)
        ids = sorted(table.scan().to_arrow()["id"].to_pylist())
        assert ids == (NEW if number == len(found.steps) - 1 else OLD)

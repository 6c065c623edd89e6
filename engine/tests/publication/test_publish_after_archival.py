"""A publication misses no commit: late ones, and those that are archived before it is made."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import archive_table
from tideline.hudi.services.cleaning.config import CleaningConfig
from tideline.hudi.services.cleaning.execute import clean_table
from tideline.hudi.services.restore.execute import restore_table
from tideline.hudi.services.savepoint.execute import create_savepoint, delete_savepoint
from tideline.hudi.table.table_config import PUBLISH_MERGE, TableType
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.iceberg.metadata.metadata_update import SetProperties
from tideline.publication.difference import INSTANTS_MAX, Progress, remembered
from tideline.publication.published_table import INSTANTS, SETTLED_UNTIL, PublishedTable
from tideline.storage.location import StoreLocation
from tideline.testing.fake_clock import FakeClock
from tideline.testing.iceberg_peer import metadata_file
from tideline.testing.small_table import QUIET, SmallTable

PARTITIONS = 15
KINDS = [(version, kind) for version in (6, 8, 9) for kind in TableType]


@pytest.fixture(params=KINDS, ids=[f"v{version}-{kind.value}" for version, kind in KINDS])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> SmallTable:
    """A table of one row in each of two partitions, which is published with what its logs hold."""
    version, kind = request.param
    made = SmallTable.create(
        StoreLocation.of(tmp_path / "t"),
        FakeClock(),
        {PUBLISH_MERGE: "true"},
        table_type=kind,
        table_version=version,
    )
    for number in range(2):
        write(made, number)
    made.lake().publish()
    return made


def write(table: SmallTable, number: int, v: int = 1, operation: str = "upsert") -> None:
    """One commit to a partition of its own."""
    table.fake_clock.advance(60)
    table.write(operation, row(number, v), options=QUIET)


def row(number: int, v: int = 1) -> pa.Table:
    part = f"p{number % PARTITIONS:02d}"
    return pa.table({"id": [f"k{number:03d}"], "part": [part], "v": [v]})


def archive(table: SmallTable, commits_min: int = 2) -> ActiveTimeline:
    """Leave so many commits; the timeline after it."""
    table.fake_clock.advance(60)
    config = ArchivalConfig(
        commits_min=commits_min, commits_max=commits_min + 1, compaction_delta_commits=None
    )
    lake = table.lake()
    assert archive_table(lake.hoodie_table, config).instants
    return lake.timeline()


def published(table: SmallTable) -> list[tuple[str, int]]:
    read = StaticTable.from_metadata(metadata_file(table.location.uri.removeprefix("file://")))
    rows = read.scan().to_arrow().to_pylist()
    return sorted((row["id"], row["v"]) for row in rows)


def test_commits_archived_since_the_last_publication_are_published(table: SmallTable) -> None:
    for number in range(2, 15):
        write(table, number)
    write(table, 1, 2)
    write(table, 0, operation="delete")
    archive(table)
    assert table.lake().publish(dry_run=True).files_added >= 13
    table.lake().publish()
    assert published(table) == table.values()
    assert not table.lake().publish().is_new


def test_a_commit_that_completes_late_is_published(table: SmallTable) -> None:
    def others() -> None:
        write(table, 3)
        table.lake().publish()

    table.write("upsert", row(2), options=QUIET, before_files=others)
    table.lake().publish()
    assert published(table) == table.values()
    assert len(published(table)) == 4


def test_one_that_was_pending_and_is_archived_while_newer_ones_stay_is_published(
    table: SmallTable,
) -> None:
    def others() -> None:
        write(table, 3)
        table.lake().publish()

    table.write("upsert", row(2), options=QUIET, before_files=others)
    remaining = archive(table, commits_min=1)
    assert len(remaining.completed()) == 1
    table.lake().publish()
    assert published(table) == table.values()
    assert len(published(table)) == 4


def test_a_publication_that_lacks_commits_already_is_healed(table: SmallTable) -> None:
    """As Tideline left it before it noted until when nothing was missing."""
    for number in range(2, 8):
        write(table, number)
    archive(table)
    place = PublishedTable(table.lake().hoodie_table)
    loaded = place.load()
    assert loaded is not None
    seen = ",".join(remembered(table.lake().timeline()))
    place.commit(loaded, (SetProperties({INSTANTS: seen, SETTLED_UNTIL: ""}),))
    table.lake().publish()
    assert published(table) == table.values()


def test_what_another_engine_cleans_and_archives_is_no_longer_named(table: SmallTable) -> None:
    for v in range(2, 9):
        write(table, v % 3, v)
    table.lake().run("compaction", options={"hoodie.compact.inline.max.delta.commits": "1"})
    table.fake_clock.advance(60)
    clean_table(table.lake().hoodie_table, CleaningConfig(commits_retained=1))
    archive(table)
    table.lake().publish()
    assert published(table) == table.values()


def test_commits_that_another_engine_undid_before_an_archival_are_no_longer_published(
    table: SmallTable,
) -> None:
    opened = table.lake().hoodie_table
    saved = create_savepoint(opened)
    write(table, 2)
    table.lake().publish()
    assert len(published(table)) == 3
    table.fake_clock.advance(60)
    restore_table(table.lake().hoodie_table, saved.instant)
    delete_savepoint(table.lake().hoodie_table, saved.instant)
    for number in range(3, 9):
        write(table, number)
    archive(table)
    table.lake().publish()
    assert published(table) == table.values()
    assert "k002" not in dict(published(table))


def test_a_step_of_archival_between_publications_compares_no_more_than_before() -> None:
    """Archival that stays behind what is published hides nothing."""
    published_then = timeline(range(1, 9))
    seen, until = frozenset(remembered(published_then)), published_then.settled_until()
    progress = Progress.of(seen, until, timeline(range(5, 11)))
    assert progress == Progress((commit(9), commit(10)), frozenset())
    assert Progress.of(seen, until, timeline(range(8, 11))).is_whole
    assert not Progress.of(seen, until, timeline(range(9, 11))).is_whole


def test_more_commits_than_are_remembered_hide_no_late_one() -> None:
    late = commit(3)
    others = [number for number in range(1, INSTANTS_MAX + 10) if number != 3]
    then = timeline(others, late.in_state(State.INFLIGHT))
    seen, until = frozenset(remembered(then)), then.settled_until()
    assert len(seen) == INSTANTS_MAX
    progress = Progress.of(seen, until, timeline(others, late))
    assert late in progress.new
    assert progress.is_whole


def commit(number: int) -> Instant:
    return Instant(InstantTime(f"2026010100{number:07d}"), Action.COMMIT, State.COMPLETED)


def timeline(numbers: range | list[int], *more: Instant) -> ActiveTimeline:
    return ActiveTimeline((*map(commit, numbers), *more))

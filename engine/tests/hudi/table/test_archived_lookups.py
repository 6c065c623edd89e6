"""What must reach archived instants does, and what need not costs nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tideline.errors import ConflictError, ObjectNotFoundError, UnsupportedTableError
from tideline.formats.archive_block import encode_archive_block
from tideline.formats.log_block import MAGIC
from tideline.hudi.commit.carried_metadata import carried_metadata
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import execute_archival
from tideline.hudi.services.cleaning.config import CleaningConfig
from tideline.hudi.services.cleaning.execute import clean_table
from tideline.hudi.table.markers import Marker, MarkerKind, create_marker
from tideline.hudi.timeline.archived import ArchivedTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.layout_v1 import LAYOUT_V1
from tideline.testing.faulty_store import FaultyStore
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

pytestmark = pytest.mark.usefixtures("version_6")

KEY = "tideline.checkpoint.landing"


@pytest.fixture
def table() -> Iterator[SmallTable]:
    table = SmallTable.in_memory()
    for version in range(1, 7):
        table.fake_clock.advance(60)
        table.write("upsert", batch(range(4), version))
    yield table
    table.forget()


def archive(table: SmallTable) -> None:
    opened = open_fresh(table.location, clock=table.clock)
    with opened.lock().acquire(timeout_s=60):
        execute_archival(opened, ArchivalConfig(commits_min=2, commits_max=3))


def rewrite(table: SmallTable, position: int, **extra: str | None) -> None:
    """Change the extra metadata of a commit, as if another engine had written it."""
    instant = open_fresh(table.location, clock=table.clock).timeline().instants[position]
    content = json.loads(table.store().get(LAYOUT_V1.path(instant)))
    content["extraMetadata"] |= {name.replace("__", "."): text for name, text in extra.items()}
    table.store().put(LAYOUT_V1.path(instant), json.dumps(content).encode())


def test_a_checkpoint_survives_when_all_active_commits_are_another_engines(
    table: SmallTable,
) -> None:
    checkpoint = json.dumps({"generation": 3})
    rewrite(table, 1, tideline__checkpoint__landing=checkpoint)
    archive(table)
    opened = open_fresh(table.location, clock=table.clock)
    assert carried_metadata(opened, opened.timeline()) == {KEY: checkpoint}
    table.write("upsert", batch(range(4), 9))
    newest = opened.timeline().instants[-1]
    assert opened.timelines.read_commit(newest).extra_metadata[KEY] == checkpoint


def test_a_lost_index_is_found_in_the_archive_when_all_active_commits_are_another_engines(
    table: SmallTable,
) -> None:
    rewrite(table, 1, tideline__index__type="GLOBAL_BLOOM")
    archive(table)
    with pytest.raises(ConflictError, match=r"tideline\.index\.type=GLOBAL_BLOOM"):
        table.write("upsert", batch(range(4), 9))
    table.write("upsert", batch(range(4), 9))
    assert open_fresh(table.location).config.index_type == "GLOBAL_BLOOM"


def test_the_schema_is_found_in_the_archive_when_no_active_commit_has_one(
    table: SmallTable,
) -> None:
    schema = open_fresh(table.location, clock=table.clock).schemas.newest_json(
        open_fresh(table.location, clock=table.clock).timeline()
    )
    assert schema is not None
    for position in (4, 5):
        rewrite(table, position, schema="")
    rewrite(table, 3, schema=schema.replace('"v"', '"w"'))
    archive(table)
    opened = open_fresh(table.location, clock=table.clock)
    found = opened.schemas.newest_json(opened.timeline())
    assert found is not None
    assert '"w"' in found


@pytest.mark.parametrize("format_version", [0, 2], ids=["oldest", "unknown"])
def test_an_archive_of_a_format_that_is_not_read_stops_no_plain_read(
    table: SmallTable, format_version: int
) -> None:
    for position in (3, 4, 5):
        rewrite(table, position, schema="")
    archive(table)
    rows, store = table.lake().to_arrow(), table.store()
    for file in ArchivedTimeline(store).files():
        block = store.get(file.path)
        version_at = len(MAGIC) + 8
        other = format_version.to_bytes(4, "big")
        store.put(file.path, block[:version_at] + other + block[version_at + 4 :])
    opened = open_fresh(table.location, clock=table.clock)
    with pytest.raises(UnsupportedTableError, match="format version"):
        opened.schemas.newest_json(opened.timeline())
    assert table.lake().to_arrow() == rows
    with pytest.raises(UnsupportedTableError, match="format version"):
        table.write("upsert", batch([1], 9))


def test_a_commit_archived_since_the_timeline_was_read_is_still_known(table: SmallTable) -> None:
    table.write("insert_overwrite", batch([0, 2], 7))
    for version in (8, 9, 10):
        table.fake_clock.advance(60)
        table.write("upsert", batch(range(4), version))
    opened = open_fresh(table.location, clock=table.clock)
    timeline = opened.timeline()
    replaced = opened.commits.replaced_groups(timeline)
    assert replaced
    clean_table(opened, CleaningConfig(commits_retained=1))
    archive(table)
    late = open_fresh(table.location, clock=table.clock)
    assert not late.timeline().of(Action.REPLACECOMMIT).completed()
    assert late.commits.replaced_groups(timeline) == replaced
    with pytest.raises(ObjectNotFoundError):
        late.commits.read(Instant(InstantTime("20200101000000000"), Action.COMMIT, State.COMPLETED))


def test_files_of_archived_commits_belong_to_the_table(table: SmallTable) -> None:
    rows = table.values()
    archive(table)
    timeline = open_fresh(table.location, clock=table.clock).timeline()
    assert timeline.start is not None
    (oldest, *_) = sorted(entry.instant.time for entry in ArchivedTimeline(table.store()).commits())
    assert timeline.is_committed(oldest)
    assert table.values() == rows


def put_archives(table: SmallTable, instants: int) -> None:
    """As many archived commits, a thousand per file."""
    archived = ArchivedTimeline(table.store())
    for number, start in enumerate(range(0, instants, 1000), start=1):
        entries = [
            {
                "commitTime": str(InstantTime.from_epoch_ms(1_600_000_000_000 + entry)),
                "actionType": "commit",
                "actionState": "COMPLETED",
                "hoodieCommitMetadata": {"extraMetadata": {"schema": "{}"}},
            }
            for entry in range(start, min(start + 1000, instants))
        ]
        table.store().put(archived.path(number), encode_archive_block(entries))


def requests(table: SmallTable) -> dict[str, int]:
    """Store calls of opening, of looking, and of writing."""
    store = FaultyStore(table.store())
    counted = {}
    opened = open_fresh(table.location, store, table.clock)
    timeline = opened.timeline()
    counted["open"] = store.calls
    opened.files.view(timeline)
    opened.schemas.newest_json(timeline)
    counted["look"] = store.calls
    table.write("upsert", batch(range(4), 8), store=store)
    counted["write"] = store.calls
    return counted


def test_ten_thousand_archived_instants_cost_no_more_requests_than_ten(table: SmallTable) -> None:
    few, many = table.copy(), table.copy()
    put_archives(few, 10)
    put_archives(many, 10_000)
    for small_table in (few, many):
        # The first write looks for archived checkpoints once; later ones know.
        small_table.write("upsert", batch(range(4), 7))
        # What is not new is listed once.
        small_table.fake_clock.advance(60)
    costs = requests(few), requests(many)
    few.forget()
    many.forget()
    assert costs[0] == costs[1]
    assert costs[0]["open"] == 2


def test_what_a_sleeping_writer_left_is_swept_although_it_is_older_than_the_timeline(
    table: SmallTable,
) -> None:
    """It was rolled back, slept while its neighbours were archived, woke up, wrote and died."""
    rows = table.values()
    archive(table)
    store = table.store()
    archived = ArchivedTimeline(store)
    times = sorted(entry.instant.time for entry in archived.commits())
    slept = InstantTime(str(int(times[1].value) + 1))
    name = f"22222222-2222-2222-2222-222222222222-0_0-0-0_{slept}.parquet"
    (of_archived, *_) = (info for info in store.list("p0") if str(times[1]) in info.path)
    for time, marked in ((slept, name), (times[1], of_archived.path.rpartition("/")[2])):
        create_marker(store, time, Marker("p0", marked, MarkerKind.CREATE))
    store.put(f"p0/{name}", store.get(of_archived.path))
    assert table.values() != rows
    table.fake_clock.advance(3600)
    table.lake().recover()
    assert table.values() == rows
    assert store.head(f"p0/{name}") is None
    assert store.head(of_archived.path) is not None
    assert not list(store.list(".hoodie/.temp"))


def test_an_archive_that_does_not_reach_back_or_is_damaged_denies_nothing(
    table: SmallTable,
) -> None:
    archive(table)
    archived = ArchivedTimeline(table.store())
    times = sorted(entry.instant.time for entry in archived.commits())
    between = InstantTime(str(int(times[0].value) + 1))
    assert archived.lacks(between)
    assert not archived.lacks(times[0])
    assert not archived.lacks(InstantTime("20200101000000000"))
    (file,) = archived.files()
    table.store().put(file.path, table.store().get(file.path)[:-3])
    assert not archived.lacks(between)

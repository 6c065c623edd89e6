"""The power fails before any flush of a write: what is committed is whole, and stays.

A folder forgets what was not flushed: contents, and names as far as a file system may. One run
records every such state; then a reader, the next writer, and a reader again meet each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from tideline.clock import SystemClock
from tideline.hudi.metadata_table.config import COMMITS_PER_COMPACTION
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import archive_table
from tideline.hudi.services.clustering.service import CLUSTERING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.service import TableService
from tideline.hudi.table.table_config import TableType
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.storage.memory.store import MemoryStore
from tideline.testing.fake_clock import FakeClock
from tideline.testing.power_loss import Names, PowerLoss, Remains
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SCHEMA, SmallTable, batch
from tideline.testing.table_audit import missing_files, open_fresh, unexplained_objects

LONG_S = 3600.0
"""Longer than any heartbeat lasts."""

LOCKS = ".hoodie/.locks/"
"""Kernel locks of a local folder are nothing but their files to the store that is restored."""

AFTERWARDS = "what-the-power-left"

NEXT = batch([0, 50], 9)
NO_SMALL_FILES = {"hoodie.parquet.small.file.limit": "0"}
DUE = {
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clean.automatic": "false",
}

Rows = list[tuple[str, int]]


@dataclass(frozen=True)
class Place:
    """A folder for a table to live in, and others for what the power leaves of it."""

    folder: Path

    @property
    def table(self) -> SmallTable:
        return SmallTable(StoreLocation.of(self.folder / "table"))

    def after_the_failure(self, remains: Remains) -> SmallTable:
        """What is left, met an hour later."""
        MemoryStore.forget(AFTERWARDS)
        clock = FakeClock(SystemClock().now_ms())
        remains.restore(MemoryStore(AFTERWARDS, clock=clock))
        clock.advance(LONG_S)
        return SmallTable(StoreLocation.of(f"memory://{AFTERWARDS}"), clock)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def prepare(place: Place, table_type: TableType) -> SmallTable:
    appends = table_type is TableType.MERGE_ON_READ
    table = SmallTable.create(
        place.table.location, properties=NO_SMALL_FILES if appends else {}, table_type=table_type
    )
    table.write("insert", batch(range(8), 1))
    table.write("upsert", batch([0, 1, 8], 1))
    return table


def failing(place: Place, act: Callable[[], object]) -> PowerLoss:
    with PowerLoss(place.folder / "table") as power:
        act()
    assert power.flushes >= 3
    return power


def assert_survived(
    place: Place, power: PowerLoss, old: Rows, new: Rows, service: TableService | None = None
) -> None:
    """A reader, the service again if it is one, the next writer, a reader; at every moment."""
    seen = set()
    for remains in power.remains:
        when = f"the power failed {remains.when}, of names survived: {remains.names.value}"
        table = place.after_the_failure(remains)
        rows = table.merged_values()
        assert rows in (old, new), when
        seen.add(rows == new)
        if service is not None:
            local_services(table, DUE).run(service)
        table.write("upsert", NEXT)
        assert table.merged_values() == sorted({**dict(rows), **NEXT_VALUES}.items()), when
        fresh = open_fresh(table.location, clock=table.clock)
        assert missing_files(fresh) == [], when
        if remains.names is not Names.FLUSHED:
            # Where even the names of markers go, nothing leads a rollback to a file.
            left = [path for path in unexplained_objects(fresh) if not path.startswith(LOCKS)]
            assert left == [], when
    assert seen == {old == new, True}
    for remains in power.at_the_end():
        rows = place.after_the_failure(remains).merged_values()
        assert rows == new, f"an acknowledged commit is gone: {remains.names.value}"


NEXT_VALUES = {"k000": 9, "k050": 9}


@pytest.mark.parametrize(
    ("table_type", "operation"),
    [
        (TableType.COPY_ON_WRITE, "upsert"),
        (TableType.COPY_ON_WRITE, "bulk_insert"),
        (TableType.COPY_ON_WRITE, "insert_overwrite"),
        (TableType.MERGE_ON_READ, "upsert"),
    ],
    ids=str,
)
def test_a_commit_is_whole_or_not_there(
    place: Place, table_type: TableType, operation: str
) -> None:
    table = prepare(place, table_type)
    old = table.values()
    known = batch([20] if operation == "bulk_insert" else [1, 2, 21], 2)
    rows = pa.concat_tables([known, batch([23], 2, partitions=3)])  # k023 in a new partition
    power = failing(place, lambda: table.write(operation, rows))
    new = table.values()
    assert old != new
    assert_survived(place, power, old, new)


@pytest.mark.slow_with("v9-clustering")
@pytest.mark.parametrize("service", [COMPACTION, CLUSTERING], ids=str)
def test_a_service_loses_no_row(place: Place, service: TableService) -> None:
    table = prepare(place, TableType.MERGE_ON_READ)
    rows = table.values()
    power = failing(place, lambda: local_services(table, DUE).run(service))
    assert table.values() == rows
    assert_survived(place, power, rows, rows, service)


def test_archival_loses_no_instant(place: Place) -> None:
    table = prepare(place, TableType.COPY_ON_WRITE)
    # A metadata table must have been compacted before anything is archived.
    for version in range(2, 2 + COMMITS_PER_COMPACTION):
        table.write("upsert", batch(range(4), version))
    rows, instants = table.values(), every_instant(table)
    opened = open_fresh(table.location)
    power = failing(
        place, lambda: archive_table(opened, ArchivalConfig(commits_min=2, commits_max=3))
    )
    for remains in power.remains:
        again = place.after_the_failure(remains)
        assert every_instant(again) == instants, f"{remains.when}: {remains.names.value}"
        assert again.values() == rows


def every_instant(table: SmallTable) -> list[str]:
    """Completed instants, active or archived; one may be both until the next archival."""
    hoodie = open_fresh(table.location, clock=table.clock)
    archived = (entry.instant.time for entry in hoodie.commits.archive().completed())
    active = (instant.time for instant in hoodie.timeline().completed())
    return sorted({str(time) for time in (*archived, *active)})


def test_a_table_that_was_made_is_there(place: Place) -> None:
    (place.folder / "table").mkdir()
    location = place.table.location

    def make() -> None:
        LakeTable.create(
            f"{location.uri}/deep/inside", record_key=["id"], partition_by=["part"], schema=SCHEMA
        )

    power = failing(place, make)
    for remains in power.at_the_end():
        made = place.after_the_failure(remains).location.child("deep/inside")
        assert open_fresh(made).config.name == "inside", remains.names.value

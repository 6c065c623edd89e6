"""Before a data file exists the inflight instant says which file groups the write is about."""

from __future__ import annotations

import pytest

from tideline.hudi.recovery.undo import COMMAND_WRITE_TOKEN
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import State
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

pytestmark = pytest.mark.usefixtures("version_6")

NO_SMALL_FILES = {"hoodie.parquet.small.file.limit": "0"}
LONG_S = 3600.0


@pytest.mark.parametrize("table_type", TableType, ids=str)
def test_the_profile_is_there_before_the_first_file(table_type: TableType) -> None:
    table = SmallTable.in_memory(NO_SMALL_FILES, table_type=table_type)
    table.write("insert", batch(range(4), 1))
    before = {info.path for info in table.store().list() if info.path.startswith("p")}
    seen: list[CommitMetadata] = []

    def look() -> None:
        hoodie = open_fresh(table.location, clock=table.clock)
        (pending,) = hoodie.timeline().pending()
        assert pending.state is State.INFLIGHT
        path = hoodie.timelines.path(pending)
        seen.append(CommitMetadata.decode(hoodie.store.get(path), path=path))
        files = {info.path for info in table.store().list() if info.path.startswith("p")}
        assert files == before

    table.write("upsert", batch([0, 2, 9], 2), before_files=look)
    (profile,) = seen
    stats = profile.partition_to_write_stats
    updated = {stat.file_id for stat in stats["p0"] if stat.num_update_writes}
    live = {path.rpartition("/")[2].split("_")[0] for path in before if path.startswith("p0/2")}
    assert updated
    assert sum(stat.num_update_writes for stat in stats["p0"]) == 2
    assert sum(stat.num_inserts for stat in stats["p1"]) == 1
    assert live <= updated
    table.forget()


def test_appended_rows_are_found_by_it_when_the_markers_are_gone() -> None:
    """Some other engine removed them; what was appended lies in slices of others."""
    table = SmallTable.in_memory(NO_SMALL_FILES, table_type=TableType.MERGE_ON_READ)
    table.write("insert", batch(range(4), 1))
    before = table.merged_values()
    rehearsal = FaultyStore(table.copy().store())
    table.copy().write("upsert", batch([0, 1], 2), store=rehearsal)
    paths = [write.path for write in rehearsal.writes]
    completing = next(n for n, path in enumerate(paths, 1) if path.endswith(".deltacommit"))
    with pytest.raises(SimulatedCrash):
        store = FaultyStore(table.store(), FaultPlan(completing))
        table.write("upsert", batch([0, 1], 2), store=store)
    table.store().delete_prefix(".hoodie/.temp")
    table.fake_clock.advance(LONG_S)
    report = table.write("upsert", batch([3], 5))
    assert len(report.rolled_back) == 1
    assert table.merged_values() == sorted({**dict(before), "k003": 5}.items())
    hoodie = open_fresh(table.location, clock=table.clock)
    commands = [log for log in hoodie.files.log_files() if log.write_token == COMMAND_WRITE_TOKEN]
    assert sorted(log.partition for log in commands) == ["p0", "p1"]
    table.forget()

"""Compactions and clusterings that one engine schedules and the other executes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tideline.hudi.open_table import open_table
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
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import Action, Instant
from tideline.hudi.write.config import WriteConfig
from tideline.in_process.service_engine import InProcessServiceEngine
from tideline.in_process.service_size import FULL_BUDGET, MemoryBudget
from tideline.services.explanation import NotDue
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer, metadata_table, version_options
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import stale_listing

pytestmark = [pytest.mark.interop, pytest.mark.slow]

IN_PARTS = MemoryBudget(part_bytes_max=5_000)
SETTINGS = {
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clustering.async.max.commits": "1",
    "hoodie.clustering.inline.max.commits": "1",
}


@dataclass(frozen=True)
class Shared:
    """A merge-on-read table in a local folder with base files, logs and deletes."""

    small: SmallTable
    path: Path
    peer: HudiPeer
    version: int

    @property
    def table(self) -> HoodieTable:
        return open_table(self.small.location)

    def schedule(self, make: Callable[[HoodieTable], Instant | NotDue]) -> Instant:
        table = self.table
        with table.lock().acquire(timeout_s=10):
            instant = make(table)
        assert isinstance(instant, Instant), instant
        return instant

    def call(self, procedure: str, operation: str, more: str = "") -> None:
        settings = {**version_options(self.version), **metadata_table(self.version), **SETTINGS}
        options = ",".join(f"{key}={value}" for key, value in settings.items())
        self.peer.sql(
            f"call {procedure}(path => '{self.path}', op => '{operation}', "
            f"options => '{options}'{more})"
        )

    def pending(self, action: Action) -> Instant:
        (instant,) = self.table.timeline().pending().of(action)
        return instant

    def check(self, expected: list[tuple[str, int]]) -> None:
        """We, Hudi and hudi-rs see these rows, and nothing is pending."""
        assert not len(self.table.timeline().pending())
        assert self.small.values() == expected
        assert stale_listing(self.table) == []
        for rows in (self.peer.read(str(self.path)), self.peer.read_with_hudi_rs(str(self.path))):
            pairs = zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True)
            assert sorted(pairs) == expected


@pytest.fixture(params=[6, 8, 9], ids="v{}".format)
def shared(request: pytest.FixtureRequest, tmp_path: Path, hudi_peer: HudiPeer) -> Shared:
    path = tmp_path / "shared"
    properties = {"hoodie.parquet.small.file.limit": "0", **metadata_table(request.param)}
    small = SmallTable.create(
        StoreLocation.of(str(path)),
        None,
        properties,
        table_type=TableType.MERGE_ON_READ,
        ordering=["v"],
        table_version=request.param,
    )
    small.write("insert", batch(range(10), 1))
    small.write("insert", batch(range(10, 16), 1))
    small.write("upsert", batch([0, 1, 2, 11], 2))
    small.write("delete", batch([3, 4], 3))
    return Shared(small, path, hudi_peer, request.param)


def test_hudi_executes_a_compaction_that_we_scheduled(shared: Shared) -> None:
    before = shared.small.values()
    config = CompactionConfig(delta_commits_max=1)
    instant = shared.schedule(lambda table: schedule_compaction(table, config))
    shared.call("run_compaction", "execute", f", instants => '{instant.time}'")
    shared.check(before)
    completed = shared.table.timeline().find(instant.time)
    assert completed is not None
    assert shared.table.timelines.read_commit(completed).compacted


def test_we_execute_a_compaction_that_hudi_scheduled(shared: Shared) -> None:
    before = shared.small.values()
    shared.call("run_compaction", "schedule")
    table = shared.table
    execute_compaction(
        table,
        shared.pending(Action.COMPACTION),
        InProcessServiceEngine(table),
        config=ServiceConfig(),
        write_config=WriteConfig(),
    )
    shared.check(before)
    # Hudi continues from there.
    shared.small.write("upsert", batch([5], 9))
    shared.call("run_compaction", "scheduleAndExecute")
    shared.check(sorted({**dict(before), "k005": 9}.items()))


def test_hudi_executes_a_clustering_that_we_scheduled(shared: Shared) -> None:
    before = shared.small.values()
    config = ClusteringConfig(sort_columns=("v",))
    instant = shared.schedule(lambda table: schedule_clustering(table, config, commits_max=1))
    shared.call("run_clustering", "execute", f", instants => '{instant.time}'")
    shared.check(before)
    view = shared.table.files.view(shared.table.timeline())
    assert [len(view.latest_slices(part)) for part in view.partitions] == [1, 1]


@pytest.mark.parametrize("budget", [FULL_BUDGET, IN_PARTS], ids=["at once", "sorted in parts"])
def test_we_execute_a_clustering_that_hudi_scheduled(shared: Shared, budget: MemoryBudget) -> None:
    before = shared.small.values()
    shared.call("run_clustering", "schedule", ", order => 'v'")
    table = shared.table
    execute_clustering(
        table,
        shared.pending(table.layout.timeline.clustering),
        InProcessServiceEngine(table, budget=budget),
        config=ServiceConfig(),
        write_config=WriteConfig(),
    )
    shared.check(before)
    # Hudi continues from there.
    shared.small.write("upsert", batch([5], 9))
    shared.call("run_compaction", "scheduleAndExecute")
    shared.check(sorted({**dict(before), "k005": 9}.items()))


def test_hudi_reads_a_log_that_we_compacted(shared: Shared) -> None:
    before = shared.small.values()
    config = LogCompactionConfig(blocks_min=1)
    instant = shared.schedule(lambda table: schedule_log_compaction(table, config))
    table = shared.table
    execute_log_compaction(
        table,
        instant,
        InProcessServiceEngine(table),
        config=ServiceConfig(),
        write_config=WriteConfig(),
    )
    assert shared.small.values() == before
    rows = shared.peer.read(str(shared.path))
    assert sorted(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True)) == before

"""A table under all its services, which die all the time: rows right, check silent, none lost."""

from __future__ import annotations

from random import Random

import pytest

from tideline.hudi.file_group.file_slice_merge import SliceContext, read_file_slice
from tideline.hudi.services.archival.service import ARCHIVAL
from tideline.hudi.services.cleaning.service import CLEANING
from tideline.hudi.services.clustering.service import CLUSTERING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.service import TableService
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SCHEMA, SmallTable, batch
from tideline.testing.table_audit import open_fresh

SETTINGS = {
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.compact.inline.max.delta.commits": "3",
    "hoodie.clustering.inline.max.commits": "5",
    "hoodie.clustering.async.max.commits": "5",
    "hoodie.archive.merge.enable": "true",
    "hoodie.archive.merge.files.batch.size": "3",
}
LONG_S = 3600.0


def commits(table: SmallTable) -> set[InstantTime]:
    opened = open_fresh(table.location, clock=table.clock)
    active = opened.timeline().of(*COMMIT_ACTIONS).completed()
    archived = opened.commits.archive().commits()
    return {item.time for item in active} | {entry.instant.time for entry in archived}


@pytest.mark.slow_with("v9-1-COPY_ON_WRITE", "v9-1-MERGE_ON_READ", "v9-0-COPY_ON_WRITE")
@pytest.mark.parametrize("kind", list(TableType), ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_all_services_of_a_table_with_deaths_in_between(kind: TableType, seed: int) -> None:
    random = Random(seed)
    table = SmallTable.in_memory(SETTINGS, table_type=kind)
    model: dict[str, int] = {}
    known: set[InstantTime] = set()
    wanted = [CLEANING, ARCHIVAL, CLUSTERING]
    if kind is TableType.MERGE_ON_READ:
        wanted.append(COMPACTION)
    for version in range(1, 31):
        table.fake_clock.advance(LONG_S)
        keys = random.sample(range(12), 4)
        table.write("upsert", batch(keys, version))
        model |= {f"k{key:03d}": version for key in keys}
        for service in wanted:
            run(table, service, random)
        when = f"seed {seed}, version {version}"
        assert rows_of(table) == model, when
        assert known <= commits(table), when
        known = commits(table)
        assert [
            finding for finding in table.lake().check(keys=True) if is_bad(finding.check)
        ] == [], when
    assert open_fresh(table.location, clock=table.clock).commits.archive().files()
    table.forget()


def run(table: SmallTable, service: TableService, random: Random) -> None:
    """Run a service, dying at some write every other time; the next run finishes it."""
    plan = FaultPlan(crash_before_write=random.randint(1, 20)) if random.random() < 0.5 else None
    try:
        local_services(table, {}, FaultyStore(table.store(), plan)).run(service)
    except SimulatedCrash:
        table.fake_clock.advance(LONG_S)
        local_services(table, {}).run(service)


def rows_of(table: SmallTable) -> dict[str, int]:
    """Merged rows as a fresh reader sees them; no key twice."""
    opened = open_fresh(table.location, clock=table.clock)
    timeline = opened.timeline()
    view = opened.files.view(timeline)
    context = SliceContext.of(opened, timeline, SCHEMA)
    found = [
        (row["id"], row["v"])
        for partition in view.partitions
        for file_slice in view.latest_slices(partition)
        for part in read_file_slice(opened.store, file_slice, context, ["id", "v"])
        for row in part.to_pylist()
    ]
    assert len(found) == len(dict(found))
    return dict(found)


def is_bad(check: str) -> bool:
    """What deaths leave next to the table is reported as well, and goes with the next writer."""
    return check not in ("leftovers", "timeline")

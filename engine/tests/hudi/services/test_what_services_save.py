"""What services say that they save is what a reader, and the store, is spared afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.hudi.services.archival.service import ARCHIVAL
from tideline.hudi.services.cleaning.service import CLEANING
from tideline.hudi.services.clustering.service import CLUSTERING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.log_compaction.service import LOG_COMPACTION
from tideline.hudi.services.partition_ttl.service import PARTITION_TTL
from tideline.hudi.services.registry import all_services
from tideline.hudi.services.service import TableService
from tideline.hudi.table.table_config import TableType
from tideline.services.benefit import Benefit
from tideline.services.explanation import Explanation
from tideline.services.run import in_order
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SmallTable, batch

DUE = {
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.log.compaction.blocks.threshold": "2",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


@pytest.fixture
def mor() -> Iterator[SmallTable]:
    table = SmallTable.in_memory(table_type=TableType.MERGE_ON_READ)
    table.write("insert", batch(range(10), 1))
    for version in (2, 3):
        table.write("upsert", batch(range(version, 8), version))
    yield table
    table.forget()


@pytest.fixture
def cow() -> Iterator[SmallTable]:
    table = SmallTable.in_memory(properties={"hoodie.parquet.small.file.limit": "0"})
    table.write("insert", batch(range(20, 40), 1))
    for version in range(1, 6):
        table.write("upsert", batch(range(10), version))
    yield table
    table.forget()


def scan(table: SmallTable) -> Benefit:
    """What one scan of the table opens, reads and merges now."""
    hoodie = table.lake().hoodie_table
    view = hoodie.files.read_view(hoodie.timeline())
    slices = [file_slice for name in view.partitions for file_slice in view.latest_slices(name)]
    logs = [log for file_slice in slices for log in file_slice.log_files]
    return Benefit(
        files_opened=sum(file_slice.base_file is not None for file_slice in slices) + len(logs),
        bytes_scanned=sum(file_slice.size_bytes for file_slice in slices),
        delta_files=len(logs),
        delta_bytes=sum(log.size_bytes for log in logs),
    )


def minus(before: Benefit, after: Benefit) -> Benefit:
    negative = Benefit(*(-getattr(after, name) for name in Benefit.__dataclass_fields__))
    return before + negative


def stored(table: SmallTable) -> dict[str, int]:
    return {info.path: info.size_bytes for info in table.store().list()}


def planned(table: SmallTable, service: TableService) -> Explanation:
    outcome = local_services(table, DUE).plan(service).outcome
    assert isinstance(outcome, Explanation), outcome
    return outcome


def test_a_compaction_saves_the_logs_that_it_merged(mor: SmallTable) -> None:
    before, expected = scan(mor), planned(mor, COMPACTION).benefit
    run = local_services(mor, DUE).run(COMPACTION)
    assert run.benefit == minus(before, scan(mor))
    assert run.benefit.delta_files == before.delta_files > 0
    # The base files' new sizes are the only thing that the plan could not know.
    spared = (expected.files_opened, expected.delta_files, expected.delta_bytes)
    assert spared == (run.benefit.files_opened, run.benefit.delta_files, run.benefit.delta_bytes)
    assert expected.bytes_scanned == expected.delta_bytes
    document = run.to_json_object()
    assert document["saved"] == document["done"][0]["saved"] == run.benefit.to_json_object()
    assert document["core_seconds"] == run.spent.core_seconds


def test_a_plan_expects_what_past_runs_took_of_processors(mor: SmallTable) -> None:
    first = planned(mor, COMPACTION)
    assert first.to_json_object()["core_seconds_by"] == "default"
    (done,) = local_services(mor, DUE).run(COMPACTION).done
    took = done.to_json_object()["metrics"]["core_seconds"]
    mor.write("upsert", batch(range(8), 9))
    second = planned(mor, COMPACTION)
    # A run so small may take less than the system counts in.
    assert second.to_json_object()["core_seconds_by"] == ("past runs" if took else "default")
    assert second.core_seconds <= max(2 * took, first.core_seconds)


def test_a_log_compaction_saves_merging_and_costs_a_file_more(mor: SmallTable) -> None:
    before = scan(mor)
    expected = planned(mor, LOG_COMPACTION).benefit
    run = local_services(mor, DUE).run(LOG_COMPACTION)
    assert run.benefit.files_opened == minus(before, scan(mor)).files_opened < 0
    assert run.benefit.delta_files == expected.delta_files > 0
    assert run.benefit.delta_bytes > 0 == expected.delta_bytes


def test_a_clustering_saves_the_files_that_became_one(cow: SmallTable) -> None:
    before, expected = scan(cow), planned(cow, CLUSTERING).benefit
    run = local_services(cow, DUE).run(CLUSTERING)
    assert run.benefit == minus(before, scan(cow))
    assert run.benefit.files_opened == expected.files_opened > 0


def test_a_clean_saves_what_it_deletes(cow: SmallTable) -> None:
    before, expected = stored(cow), planned(cow, CLEANING).benefit
    run = local_services(cow, DUE).run(CLEANING)
    gone = {path: size for path, size in before.items() if path not in stored(cow)}
    assert run.benefit == Benefit(objects_listed=len(gone), bytes_stored=sum(gone.values()))
    assert run.benefit == expected


def test_archival_saves_the_timeline_what_it_takes_out(cow: SmallTable) -> None:
    local_services(cow, DUE).run(CLEANING)
    for version in (7, 8, 9):
        cow.write("upsert", batch(range(10), version))
    before, expected = stored(cow), planned(cow, ARCHIVAL).benefit
    run = local_services(cow, DUE).run(ARCHIVAL)
    after = stored(cow)
    gone = {path: size for path, size in before.items() if path not in after}
    assert run.benefit.objects_listed == len(gone) == expected.objects_listed
    (archive,) = run.done[0].to_json_object()["archives"]
    assert run.benefit.bytes_stored == sum(gone.values()) - archive["size_bytes"]


def test_a_dropped_partition_is_read_no_longer(mor: SmallTable) -> None:
    options = {**DUE, "hoodie.partition.ttl.strategy.days.retain": "1"}
    mor.fake_clock.advance(3 * 86_400)
    before = scan(mor)
    outcome = local_services(mor, options).plan(PARTITION_TTL).outcome
    assert isinstance(outcome, Explanation)
    run = local_services(mor, options).run(PARTITION_TTL)
    assert run.benefit == outcome.benefit == before


def test_plans_come_in_the_order_in_which_to_run_them(mor: SmallTable) -> None:
    services = local_services(mor, DUE)
    plans = in_order([services.plan(service) for service in all_services()])
    due = [plan.service for plan in plans if plan.is_due]
    assert set(due) == {COMPACTION, LOG_COMPACTION, CLUSTERING}
    assert [plan.service for plan in plans][: len(due)] == due
    assert due.index(COMPACTION) < due.index(LOG_COMPACTION)
    rates = {plan.service: plan.benefit_per_core_second or 0.0 for plan in plans[: len(due)]}
    assert rates[due[0]] == max(rates[COMPACTION], rates[CLUSTERING])

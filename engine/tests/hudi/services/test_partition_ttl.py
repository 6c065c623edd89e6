"""Partitions that expire: which, how many at once, and that fresh rows are never lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.commit_report import CommitReport
from tideline.hudi.services.partition_ttl.config import PartitionTtlConfig, TtlStrategy
from tideline.hudi.services.partition_ttl.execute import plan_table_partition_ttl
from tideline.hudi.services.partition_ttl.plan import (
    PartitionAge,
    PartitionTtlPlan,
    plan_partition_ttl,
)
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.services.explanation import NotDue
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh, unexplained_objects

DAY_S = 86_400.0
TWO_DAYS = {"hoodie.partition.ttl.strategy.days.retain": "2"}
KEEP_TWO = PartitionTtlConfig(days_retained=2)


def day(number: int) -> InstantTime:
    return InstantTime(f"202601{number:02d}000000000")


def planned(
    *ages: PartitionAge, config: PartitionTtlConfig = KEEP_TWO
) -> PartitionTtlPlan | NotDue:
    return plan_partition_ttl(ages, config, day(10).epoch_ms())


def test_partitions_older_than_the_days_retained_expire() -> None:
    ages = [PartitionAge("old", day(8)), PartitionAge("young", day(9)), PartitionAge("odd", None)]
    plan = planned(*ages)
    assert isinstance(plan, PartitionTtlPlan)
    assert plan.partitions == ("old",)


def test_a_run_drops_a_limited_number_of_partitions_oldest_first() -> None:
    config = PartitionTtlConfig(days_retained=2, partitions_max=2)
    plan = planned(*(PartitionAge(f"d{n}", day(n)) for n in (3, 1, 2)), config=config)
    assert isinstance(plan, PartitionTtlPlan)
    assert (plan.partitions, plan.left) == (("d1", "d2"), 1)


def test_partitions_under_a_pending_service_are_left() -> None:
    plan = planned(PartitionAge("a", day(1), is_busy=True), PartitionAge("b", day(2)))
    assert isinstance(plan, PartitionTtlPlan) and plan.partitions == ("b",)
    assert isinstance(planned(PartitionAge("a", day(1), is_busy=True)), NotDue)


def test_partitions_are_kept_forever_by_default() -> None:
    config = PartitionTtlConfig.from_settings(Settings({}))
    assert config == PartitionTtlConfig()
    assert isinstance(planned(PartitionAge("a", day(1)), config=config), NotDue)


@pytest.fixture
def table() -> Iterator[SmallTable]:
    """p0 was written three days ago, p1 created then and updated now."""
    table = SmallTable.in_memory()
    table.write("insert", batch(range(4), 1))
    table.fake_clock.advance(3 * DAY_S)
    table.write("upsert", batch([1], 2))
    yield table
    table.forget()


def test_expired_partitions_are_replaced_by_nothing_in_one_commit(table: SmallTable) -> None:
    report = table.lake().expire_partitions(options=TWO_DAYS)
    assert isinstance(report, CommitReport)
    assert table.values() == [("k001", 2), ("k003", 1)]
    last = table.lake().timeline().last()
    assert last is not None and last.action is Action.REPLACECOMMIT
    assert unexplained_objects(open_fresh(table.location, clock=table.clock)) == []
    again = table.lake().expire_partitions(options=TWO_DAYS)
    assert again == NotDue("no partition is older than 2 days")
    assert table.lake().timeline().last() == last


def test_the_audit_of_a_run_names_partitions_and_files(table: SmallTable) -> None:
    files = [info.path for info in table.store().list() if info.path.startswith("p0/")]
    (done,) = table.lake().run("partition_ttl", options=TWO_DAYS).done
    audit = done.to_json_object()
    assert audit["partitions"] == ["p0"]
    assert audit["file_groups"] == 1
    found = [(file["path"], file["what"]) for file in audit["files"]]
    assert found == [(path, "replaced") for path in files if path.endswith(".parquet")]
    assert audit["instant"] == str(table.lake().timeline().instants[-1].time)


def test_by_creation_time_a_partition_expires_although_it_is_written_to(table: SmallTable) -> None:
    by_creation = {**TWO_DAYS, "hoodie.partition.ttl.strategy.type": "KEEP_BY_CREATION_TIME"}
    table.lake().expire_partitions(options=by_creation)
    assert table.values() == []


def test_only_selected_partitions_expire(table: SmallTable) -> None:
    options = {**TWO_DAYS, "hoodie.partition.ttl.strategy.partition.selected": "p1"}
    assert isinstance(table.lake().expire_partitions(options=options), NotDue)


def test_the_plan_names_the_files_that_go(table: SmallTable) -> None:
    opened = open_fresh(table.location, clock=table.clock)
    plan = plan_table_partition_ttl(
        opened, PartitionTtlConfig(TtlStrategy.KEEP_BY_TIME, days_retained=2)
    )
    assert isinstance(plan, PartitionTtlPlan)
    explained = plan.explain()
    assert all(path.startswith("p0/") for path in explained.paths)
    assert explained.bytes_deleted > 0

"""What settings say of services is done: by the write itself, after its commit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.errors import ConfigError
from tideline.hudi.services.archival.service import ARCHIVAL
from tideline.hudi.services.cleaning.service import CLEANING
from tideline.hudi.services.service import TableService
from tideline.testing.small_table import SmallTable, batch

KEEP_ONE = {"hoodie.clean.commits.retained": "1"}


@pytest.fixture
def table() -> Iterator[SmallTable]:
    small = SmallTable.in_memory()
    for version in range(4):
        small.write("upsert", batch(range(4), version))
    yield small
    small.forget()


def services_after_a_commit(table: SmallTable, options: dict[str, str]) -> list[TableService]:
    report = table.lake().delete_partitions(["p0"], options={**KEEP_ONE, **options})
    return [done.service for done in report.services]


def test_asynchronous_cleaning_still_cleans(table: SmallTable) -> None:
    asynchronous = {"hoodie.clean.async.enabled": "true", "hoodie.archive.async": "true"}
    assert services_after_a_commit(table, asynchronous) == [CLEANING]


def test_asynchronous_archival_still_archives(table: SmallTable) -> None:
    asynchronous = {
        "hoodie.archive.async": "true",
        "hoodie.clean.automatic": "false",
        "archive.min_commits": "2",
        "archive.max_commits": "3",
    }
    assert services_after_a_commit(table, asynchronous) == [ARCHIVAL]


@pytest.mark.parametrize(
    "options",
    [{"hoodie.table.services.enabled": "false"}, {"hoodie.clean.automatic": "false"}],
)
def test_no_service_follows_where_they_are_switched_off(
    table: SmallTable, options: dict[str, str]
) -> None:
    assert services_after_a_commit(table, options) == []


def test_the_operation_is_no_concern_of_the_services_after_it(table: SmallTable) -> None:
    named = {"hoodie.datasource.write.operation": "delete_partition"}
    assert services_after_a_commit(table, named) == [CLEANING]
    with pytest.raises(ConfigError, match="contradicts the operation"):
        services_after_a_commit(table, {"hoodie.datasource.write.operation": "upsert"})


def test_services_know_flinks_names_and_refuse_unknown_ones(table: SmallTable) -> None:
    lake = table.lake()
    assert not lake.plan("cleaning", options={"clean.retain_commits": "50"}).is_due
    assert lake.plan("cleaning", options={"clean.retain_commits": "1"}).is_due
    with pytest.raises(ConfigError, match=r"did you mean hoodie\.clean\.commits\.retained"):
        lake.plan("cleaning", options={"hoodie.clean.commit.retained": "1"})


def test_an_insert_of_stored_keys_follows_the_policy_of_the_table() -> None:
    table = SmallTable.in_memory({"hoodie.datasource.insert.dup.policy": "drop"})
    table.write("insert", batch(range(3), 1))
    table.write("insert", batch(range(5), 2))
    expected = [("k000", 1), ("k001", 1), ("k002", 1), ("k003", 2), ("k004", 2)]
    assert sorted(table.values()) == expected
    table.forget()


def test_a_bucket_index_has_no_duplicates_to_look_for() -> None:
    table = SmallTable.in_memory(
        {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    )
    with pytest.raises(ConfigError, match="bucket index"):
        table.lake().writer.planned_write("insert", {"hoodie.datasource.insert.dup.policy": "drop"})
    table.forget()

"""What `check --keys` says of tables whose logs a custom payload or merger merges."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.check_finding import Finding
from tideline.hudi.table.properties import update_table_properties
from tideline.hudi.table.table_config import TableType
from tideline.testing.small_table import SmallTable, batch

OWN = {"hoodie.compaction.payload.class": "com.acme.Own"}
NO_META = {"hoodie.populate.meta.fields": "false"}
CUSTOM = {"hoodie.record.merge.mode": "CUSTOM"}


@pytest.fixture
def table() -> Iterator[SmallTable]:
    """Two file groups of p0, one of p1; logs update k000 and delete k002."""
    made = SmallTable.in_memory(
        {"hoodie.parquet.small.file.limit": "0"}, table_type=TableType.MERGE_ON_READ
    )
    made.write("insert", batch([0, 1, 2], 1))
    made.write("insert", batch([4], 1))
    made.write("upsert", batch([0], 2))
    made.write("delete", batch([2], 0))
    yield made
    made.forget()


def of_keys(table: SmallTable, *, across_partitions: bool = False) -> list[Finding]:
    found = table.lake().check(keys=True, across_partitions=across_partitions)
    return [finding for finding in found if finding.check == "keys"]


@pytest.mark.parametrize("own", [OWN, CUSTOM], ids=["payload", "merge mode"])
def test_keys_that_are_stored_once_are_so_however_logs_are_merged(
    table: SmallTable, own: dict[str, str]
) -> None:
    update_table_properties(table.store(), own)
    (found,) = of_keys(table)
    assert str(found.severity) == "note"
    (value,) = own.values()
    assert f"1 file group with logs: rows are merged in a custom way ({value})" in (found.message)
    assert "all keys in their files are taken for stored" in found.message
    assert [str(key.severity) for key in of_keys(table, across_partitions=True)] == ["note"]
    assert all(str(finding.severity) == "note" for finding in table.lake().check(keys=True))


def test_a_key_that_a_log_may_have_deleted_may_be_doubled(table: SmallTable) -> None:
    table.write("bulk_insert", batch([2], 3))
    assert of_keys(table) == []
    update_table_properties(table.store(), OWN)
    (_, may) = of_keys(table)
    assert str(may.severity) == "note"
    assert "1 key may be stored several times in partition 'p0'" in may.message
    assert "'k002'" in may.message


def test_a_key_that_is_doubled_without_any_log_is_an_error(table: SmallTable) -> None:
    table.write("bulk_insert", batch([4, 2], 3))
    update_table_properties(table.store(), OWN)
    severe = [(str(key.severity), key.message.split(" ")[1]) for key in of_keys(table)]
    assert severe[0] == ("error", "'k004'")
    assert [severity for severity, _ in severe[1:]] == ["note", "note"]


def test_without_meta_columns_slices_with_logs_are_passed_over(table: SmallTable) -> None:
    table.write("bulk_insert", batch([4, 2], 3))
    update_table_properties(table.store(), {**OWN, **NO_META})
    doubled, found = of_keys(table)
    assert (str(doubled.severity), doubled.message[:10]) == ("error", "key 'k004'")
    assert "their keys were not looked into" in found.message


def test_keys_of_an_own_key_generator_are_not_looked_into(table: SmallTable) -> None:
    own = {"hoodie.table.keygenerator.class": "com.acme.Keys"}
    update_table_properties(table.store(), {**own, **NO_META})
    (found,) = of_keys(table)
    assert (str(found.severity), found.message.startswith("not looked into: ")) == ("note", True)

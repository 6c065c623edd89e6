"""Tables with a past, for changes of their version, and what must hold of them afterwards."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.hudi.recovery.version_change import VERSION_CHANGE
from tideline.hudi.services.archival.service import ARCHIVAL
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import TableType
from tideline.hudi.upgrade.run import run_version_change
from tideline.testing.faulty_store import FaultyStore
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh, stale_listing, unexplained_objects

ARCHIVED = {
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.clean.commits.retained": "1",
}
WITH_METADATA = {"hoodie.metadata.enable": "true"}
NEXT = batch([1, 40], 30)
"""What the next writer writes."""


def table_with_a_past(
    version: int, table_type: TableType, properties: Mapping[str, str]
) -> SmallTable:
    """A table with updates, deletes, a replaced partition and an archive."""
    table = SmallTable.in_memory(
        properties, table_type=table_type, table_version=version, ordering=["v"]
    )
    table.write("insert", batch(range(8), 1))
    for v in range(2, 6):
        table.write("upsert", batch([v], v))
    table.write("insert_overwrite", batch([1, 3], 6))
    table.write("upsert", batch([1, 20], 7))
    table.write("delete", batch([4], 9))
    local_services(table, ARCHIVED).run(ARCHIVAL)
    return table


def change(table: SmallTable, version: int, store: FaultyStore | None = None) -> None:
    run_version_change(local_services(table, {}, store), version)


def opened(table: SmallTable) -> HoodieTable:
    return open_fresh(table.location, clock=table.clock)


def assert_sound(table: SmallTable, when: str = "") -> None:
    hoodie = opened(table)
    assert VERSION_CHANGE not in hoodie.config.properties, when
    assert table.lake().check(keys=True) == (), when
    assert unexplained_objects(hoodie) == [], when
    assert stale_listing(hoodie) == [], when

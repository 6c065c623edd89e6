"""A small table with a metadata table that Hudi's SQL has under a name: what its queries find by
indexes is what they find without."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tideline.check_finding import Severity
from tideline.hudi.check.run import check_table
from tideline.hudi.metadata_table.index_definitions import believed_without_partition
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import COLUMN_STATS, PARTITION_STATS, RECORD_INDEX
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.small_table import QUIET, SmallTable, batch
from tideline.testing.table_audit import stale_listing

SECONDARY = "secondary_index_v"
HUDI_SETTINGS = {
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.write.auto.upgrade": "false",
}
"""Of Hudi's writer beside ours."""
_NEEDED = {PARTITION_STATS: COLUMN_STATS, SECONDARY: RECORD_INDEX}
_SKIPPING = ("hoodie.enable.data.skipping", "hoodie.metadata.enable")


def skipping_settings(
    peer: HudiPeer, more: dict[str, str] | None = None
) -> AbstractContextManager[None]:
    """These settings, and those that a test of this table changes, are put back afterwards."""
    given = HUDI_SETTINGS | (more or {})
    return peer.settings(given, *_SKIPPING, "hoodie.write.table.version")


@dataclass
class IndexedHudiTable:
    """Six rows in it are of the value 1."""

    peer: HudiPeer
    small: SmallTable
    name: str

    @classmethod
    def create(cls, peer: HudiPeer, folder: Path, version: int, index: str) -> IndexedHudiTable:
        """With the index that `index` needs, if it needs one; Hudi writes the table's version."""
        small = SmallTable.create(
            StoreLocation.of(folder),
            table_version=version,
            properties={"hoodie.metadata.enable": "true"},
        )
        small.write("insert", batch(range(6), 1), options=QUIET)
        if index in _NEEDED:
            small.lake().indexes({}).create(_NEEDED[index])
        peer.run_statement(f"set hoodie.write.table.version={version}")
        return cls(peer, small, peer.table_at(str(folder)))

    def sql(self, statement: str) -> None:
        """Run a statement; {} in it is the table's name."""
        self.peer.run_statement(statement.format(self.name))

    def opened(self) -> HoodieTable:
        return self.small.lake().hoodie_table

    def make_missing(self, index: str) -> None:
        """The index, and what it needs, where they are not there."""
        for name in (_NEEDED.get(index, index), index):
            if name not in self.opened().config.metadata_partitions:
                self.small.lake().indexes({}).create(name)

    def assert_right(self, conditions: Iterable[str]) -> None:
        """Hudi finds rows by indexes as without, and a check finds nothing."""
        self.sql("refresh table {}")
        for where in conditions:
            query = f"select id, v from {self.name} where {where}"
            found = self.peer.sql(query).to_pylist()
            with self.peer.settings(dict.fromkeys(_SKIPPING, "false")):
                expected = self.peer.sql(query).to_pylist()
            assert sorted(map(str, found)) == sorted(map(str, expected)), where
        table = self.opened()
        errors = [f.message for f in check_table(table, keys=True) if f.severity is Severity.ERROR]
        assert errors == []
        assert stale_listing(table) == []
        assert believed_without_partition(table, table.config.metadata_partitions) == ()

"""Tables that we bring to another version and Hudi continues with, and the other way round.

Hudi 1.2 with its defaults reads and writes what we converted, hudi-rs reads it, Hudi's own upgrades
and downgrades start from ours, and ours from tables that Hudi made, with archive and metadata
table, in UTC and elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from tideline.hudi.services.archival.service import ARCHIVAL
from tideline.hudi.table.table_config import FILES, TIMEZONE, TableType
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.hudi.upgrade.run import run_version_change
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer, HudiPeerIn, version_options
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import stale_listing

pytestmark = [pytest.mark.interop, pytest.mark.slow]

OFF = {"hoodie.metadata.enable": "false"}
ON = {"hoodie.metadata.enable": "true"}
ARCHIVED_SOON = {
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.clean.commits.retained": "1",
}
FAR_AWAY = "America/Los_Angeles"


@dataclass
class Shared:
    """A table that both write, and the rows it must hold."""

    path: Path
    peer: HudiPeer
    rows: dict[str, int] = field(default_factory=dict)

    @property
    def small(self) -> SmallTable:
        return SmallTable(StoreLocation.of(self.path))

    @property
    def version(self) -> int:
        return self.small.lake().hoodie_table.config.version

    def write(self, operation: str, rows: pa.Table) -> None:
        self._apply(operation, rows)
        self.small.write(operation, rows)

    def write_with_hudi(self, operation: str, rows: pa.Table, **options: str) -> None:
        self._apply(operation, rows)
        given = {"hoodie.table.name": "shared", **options}
        self.peer.write(str(self.path), rows, operation=operation, options=given)

    def change(self, version: int) -> None:
        run_version_change(local_services(self.small, {}), version)
        assert self.version == version

    def change_with_hudi(self, version: str) -> None:
        way = "upgrade" if version != "SIX" else "downgrade"
        name = self.peer.table_at(str(self.path))
        self.peer.run_statement(f"call {way}_table(table => '{name}', to_version => '{version}')")

    def check(self, when: str) -> None:
        """All readers find the rows."""
        expected = sorted(self.rows.items())
        assert sorted(self.small.values()) == expected, when
        found = {
            "hudi, metadata on": self.peer.read(str(self.path), ON),
            "hudi, metadata off": self.peer.read(str(self.path), OFF),
            "hudi-rs": self.peer.read_with_hudi_rs(str(self.path)),
        }
        for reader, rows in found.items():
            pairs = zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True)
            assert sorted(pairs) == expected, f"{reader} {when}"
        assert stale_listing(self.small.lake().hoodie_table) == [], when
        assert self.small.lake().check(keys=True) == (), when

    def commits(self) -> set[str]:
        """The commits that Hudi finds, active and archived."""
        words = {action.value for action in COMMIT_ACTIONS}
        active = self.peer.timeline(str(self.path))
        archived = self.peer.archived_timeline(str(self.path))
        named = {peer_instant.time for peer_instant in active if peer_instant.action in words}
        return named | {
            peer_archived.time for peer_archived in archived if peer_archived.action in words
        }

    def _apply(self, operation: str, rows: pa.Table) -> None:
        for key, v in zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True):
            if operation == "delete":
                self.rows.pop(key, None)
            else:
                self.rows[key] = v


def ours(path: Path, peer: HudiPeer, version: int, table_type: TableType) -> Shared:
    """A table of our making, with updates, deletes and an archive."""
    small = SmallTable.create(
        StoreLocation.of(path), table_type=table_type, table_version=version, ordering=["v"]
    )
    shared = Shared(path, peer)
    shared.write("insert", batch(range(8), 1))
    for v in range(2, 9):
        shared.write("upsert", batch([v % 6, v], v))
    shared.write("delete", batch([5], 20))
    local_services(small, ARCHIVED_SOON).run(ARCHIVAL)
    return shared


def hudis(
    path: Path, peer: HudiPeer, version: int, table_type: TableType, **options: str
) -> Shared:
    """The same of Hudi's making, with its defaults of that version."""
    shared = Shared(path, peer)
    created = {
        "hoodie.datasource.write.table.type": table_type.value,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "v",
        **version_options(version),
        **ARCHIVED_SOON,
        **options,
    }
    shared.write_with_hudi("insert", batch(range(8), 1), **created)
    for v in range(2, 9):
        shared.write_with_hudi("upsert", batch([v % 6, v], v), **created)
    shared.write_with_hudi("delete", batch([5], 20), **created)
    return shared


@pytest.mark.parametrize("table_type", TableType, ids=str)
@pytest.mark.parametrize("way", [(6, 8), (6, 9), (9, 6), (8, 9)], ids="{0[0]} to {0[1]}".format)
def test_hudi_goes_on_with_what_we_converted(
    way: tuple[int, int], table_type: TableType, tmp_path: Path, hudi_peer: HudiPeer
) -> None:
    before, after = way
    shared = ours(tmp_path / "shared", hudi_peer, before, table_type)
    known = shared.commits()
    shared.change(after)
    shared.check("after the change")
    assert known <= shared.commits()
    options = version_options(after)
    shared.write_with_hudi("upsert", batch([1, 30], 30), **options)
    shared.check("after an upsert of Hudi's")
    shared.write("upsert", batch([1, 31], 31))
    shared.write_with_hudi("delete", batch([30], 40), **options, **ARCHIVED_SOON)
    shared.check("after a delete of Hudi's")


@pytest.mark.parametrize("table_type", TableType, ids=str)
@pytest.mark.parametrize("way", [(6, 9), (9, 8), (9, 6)], ids="{0[0]} to {0[1]}".format)
def test_tables_of_hudi_change_their_version(
    way: tuple[int, int], table_type: TableType, tmp_path: Path, hudi_peer: HudiPeer
) -> None:
    before, after = way
    shared = hudis(tmp_path / "shared", hudi_peer, before, table_type)
    assert FILES in shared.small.lake().hoodie_table.config.metadata_partitions
    known = shared.commits()
    shared.change(after)
    shared.check("after the change")
    assert known <= shared.commits()
    shared.write_with_hudi("upsert", batch([1, 30], 30), **version_options(after))
    shared.check("after an upsert of Hudi's")
    shared.write("upsert", batch([1, 31], 31))
    shared.check("after one of ours")


def test_a_table_of_hudi_in_another_zone(tmp_path: Path, hudi_peer_in: HudiPeerIn) -> None:
    peer = hudi_peer_in(FAR_AWAY)
    shared = hudis(tmp_path / "shared", peer, 6, TableType.MERGE_ON_READ)
    shared.small.lake().hoodie_table.properties.update({TIMEZONE: FAR_AWAY})
    shared.change(9)
    shared.check("after the change")
    shared.write_with_hudi("upsert", batch([1, 30], 30), **version_options(9))
    shared.check("after an upsert of Hudi's")
    shared.change(6)
    shared.check("after the way back")


@pytest.mark.parametrize("table_type", TableType, ids=str)
def test_hudi_upgrades_and_downgrades_ours(
    table_type: TableType, tmp_path: Path, hudi_peer: HudiPeer
) -> None:
    shared = ours(tmp_path / "shared", hudi_peer, 6, table_type)
    shared.change(9)
    shared.change(6)
    shared.check("there and back")
    shared.change_with_hudi("NINE")
    assert shared.version == 9
    shared.check("after Hudi's upgrade")
    shared.write("upsert", batch([1, 30], 30))
    shared.change_with_hudi("SIX")
    assert shared.version == 6
    shared.check("after Hudi's downgrade")
    shared.write("upsert", batch([1, 31], 31))
    shared.change(8)
    shared.check("at last")

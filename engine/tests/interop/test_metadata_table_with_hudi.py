"""The metadata table's `files`, kept by both engines in turn: no reader misses a row.

Hudi 1.2 reads and writes with its metadata table on, as by default, so that a file missing there is
a row missing in its answers, and in what it writes next. hudi-rs uses it wherever it is listed.
Services and rollbacks of both on such tables: test_services_across_engines.py,
test_cleaning_across_engines.py, test_crash_leftovers_across_engines.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from tideline.hudi.metadata_table.config import COMMITS_PER_COMPACTION
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.open_table import open_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import COLUMN_STATS, FILES, PARTITION_STATS, TableType
from tideline.hudi.timeline.instant import Action
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer, version_options
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import stale_listing

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ON = {"hoodie.metadata.enable": "true"}
OFF = {"hoodie.metadata.enable": "false"}
SOON = {"hoodie.metadata.compact.max.delta.commits": "2"}


@dataclass
class Shared:
    """A table that both write in turn, and the rows it must hold."""

    small: SmallTable
    path: Path
    peer: HudiPeer
    version: int
    rows: dict[str, int] = field(default_factory=dict)

    @property
    def table(self) -> HoodieTable:
        return open_table(self.small.location)

    def write(self, operation: str, rows: pa.Table) -> tuple[str, ...]:
        self._apply(operation, rows)
        return self.small.write(operation, rows).notes

    def write_with_hudi(self, operation: str, rows: pa.Table, **options: str) -> None:
        self._apply(operation, rows)
        given = {
            "hoodie.table.name": "shared",
            "hoodie.index.type": "SIMPLE",
            "hoodie.clean.automatic": "false",
            "hoodie.compact.inline": "false",
            **version_options(self.version),
            **ON,
            **options,
        }
        self.peer.write(str(self.path), rows, operation=operation, options=given)

    def check(self) -> None:
        """All readers find the rows, and the metadata table lists what a listing finds."""
        expected = sorted(self.rows.items())
        assert sorted(self.small.values()) == expected
        found = {
            "hudi, metadata on": self.peer.read(str(self.path), ON),
            "hudi, metadata off": self.peer.read(str(self.path), OFF),
            "hudi-rs": self.peer.read_with_hudi_rs(str(self.path)),
        }
        for reader, rows in found.items():
            pairs = zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True)
            assert sorted(pairs) == expected, reader
        assert FILES in self.table.config.metadata_partitions
        assert stale_listing(self.table) == []
        uri = str(self.path)
        by_folders = self.peer.file_slices(uri, metadata_table=False)
        assert by_folders
        assert self.peer.file_slices(uri, metadata_table=True) == by_folders

    def compactions(self) -> int:
        timeline = MetadataTable(self.table.store, self.small.clock).timeline()
        return len(timeline.of(Action.COMMIT).completed())

    def _apply(self, operation: str, rows: pa.Table) -> None:
        for key, v in zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True):
            if operation == "delete":
                self.rows.pop(key, None)
            else:
                self.rows[key] = v


@pytest.fixture(
    params=[(9, "COPY_ON_WRITE"), (9, "MERGE_ON_READ"), (8, "MERGE_ON_READ")],
    ids="v{0[0]} {0[1]}".format,
)
def shared(request: pytest.FixtureRequest, tmp_path: Path, hudi_peer: HudiPeer) -> Shared:
    version, table_type = request.param
    path = tmp_path / "shared"
    small = SmallTable.create(
        StoreLocation.of(path),
        properties={"hoodie.parquet.small.file.limit": "0"},
        table_type=TableType(table_type),
        table_version=version,
    )
    return Shared(small, path, hudi_peer, version)


def test_our_metadata_table_is_read_and_continued(shared: Shared) -> None:
    shared.table.properties.update(ON)
    shared.write("insert", batch(range(6), 1))
    shared.check()
    for v in range(2, COMMITS_PER_COMPACTION + 4):
        shared.write("upsert", batch([v % 6, v + 5], v))
    assert shared.compactions() == 1
    shared.check()
    shared.write_with_hudi("upsert", batch([1, 2, 30], 20))
    shared.check()
    listed = shared.table.config.metadata_partitions
    assert listed == (COLUMN_STATS, FILES, PARTITION_STATS)
    shared.write("delete", batch([2], 21))
    assert shared.table.config.metadata_partitions == listed
    shared.check()
    before = shared.compactions()
    for v in range(22, 27):
        shared.write_with_hudi("upsert", batch([v % 6], v), **SOON)
        shared.write("upsert", batch([v % 5, v], v))
    assert shared.compactions() > before, "Hudi compacts what we wrote"
    shared.check()


def test_a_listing_that_is_stale_would_be_noticed(shared: Shared) -> None:
    shared.table.properties.update(ON)
    shared.write("insert", batch(range(6), 1))
    shared.check()
    next(shared.path.glob("p0/*.parquet")).unlink()
    uri = str(shared.path)
    by_folders = shared.peer.file_slices(uri, metadata_table=False)
    assert len(shared.peer.file_slices(uri, metadata_table=True)) == len(by_folders) + 1


def test_hudis_metadata_table_is_continued(shared: Shared) -> None:
    shared.write("insert", batch(range(6), 1))
    assert shared.table.config.metadata_partitions == ()
    shared.write_with_hudi("upsert", batch([1, 7], 2))
    shared.check()
    shared.write("upsert", batch([2, 8], 3))
    shared.check()
    shared.write_with_hudi("delete", batch([8], 4))
    for v in range(5, 5 + COMMITS_PER_COMPACTION):
        shared.write("upsert", batch([v % 6], v))
    assert shared.compactions() >= 1
    shared.check()
    shared.write_with_hudi("upsert", batch([3], 40), **OFF)
    assert shared.table.config.metadata_partitions == ()
    shared.write("upsert", batch([4], 41))
    assert shared.table.config.metadata_partitions == ()

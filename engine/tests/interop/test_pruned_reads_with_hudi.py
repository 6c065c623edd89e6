"""A selective query opens the files that may have its rows, of both engines and after both.

Every other data file is overwritten, so that a query that opens one more fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from tideline.hudi.table.table_config import COLUMN_STATS, PARTITION_STATS, RECORD_INDEX
from tideline.testing.hudi_peer import HudiPeer, version_options
from tideline.testing.shared_folder import SharedFolder

pytestmark = [pytest.mark.interop, pytest.mark.slow]

FILES, ROWS = 20, 400


def value_of(key: int) -> int:
    """Those of one file are near each other."""
    return key % FILES * 1000 + key // FILES


SECONDARY = "secondary_index_s"
KEY = 137
QUERIES = {
    "statistics": f"v = {value_of(KEY)}",
    "keys": f"id = 'k{KEY:03}'",
    "values": f"s = 's{KEY * 7 % ROWS}'",
}
KEPT = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}


def rows(keys: Iterable[int], ts: int) -> pa.Table:
    wanted = list(keys)
    return pa.table(
        {
            "id": [f"k{key:03}" for key in wanted],
            "p": [f"p{key % FILES:02}" for key in wanted],
            "ts": pa.array([ts] * len(wanted), pa.int64()),
            "v": pa.array([value_of(key) for key in wanted], pa.int64()),
            "s": [f"s{key * 7 % ROWS}" for key in wanted],
        }
    )


@dataclass
class Shared(SharedFolder):
    """A table of many files that Hudi made, with statistics, a record index and a secondary one."""

    def by_hudi(self, keys: Iterable[int], ts: int, operation: str, kind: str) -> None:
        given = {
            "hoodie.table.name": "shared",
            "hoodie.datasource.write.table.type": kind,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "p",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.clean.automatic": "false",
            "hoodie.compact.inline": "false",
            **KEPT,
            **version_options(9),
        }
        self.peer.write(str(self.path), rows(keys, ts), operation=operation, options=given)

    def leave_only(self, key: int) -> None:
        """Overwrite all data files but those of the slice that has the key."""
        table = self.table
        scan = self.small.lake().to_arrow(["_hoodie_file_name"], f"v = {value_of(key)}")
        (name,) = scan["_hoodie_file_name"].to_pylist()
        file_id = name.partition("_")[0]
        listed = table.files.listing()
        for partition, found in listed.items():
            for file, _ in found:
                if file_id not in file:
                    (self.path / partition / file).write_bytes(b"nothing that is read")

    def check(self, name: str) -> None:
        found = self.small.lake().to_arrow(["id"], QUERIES[name])
        assert found["id"].to_pylist() == [f"k{KEY:03}"], name
        table = self.peer.table_at(str(self.path))
        self.peer.run_statement(f"refresh table {table}")
        theirs = self.peer.sql(f"select id from {table} where {QUERIES[name]}")
        assert theirs["id"].to_pylist() == [f"k{KEY:03}"], name


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("last", ["hudi", "us"])
def test_only_the_file_with_the_row_is_opened(
    kind: str, last: str, hudi_peer: HudiPeer, tmp_path: Path
) -> None:
    shared = Shared(tmp_path / "t", hudi_peer)
    shared.by_hudi(range(ROWS), 1, "bulk_insert", kind)
    name = hudi_peer.table_at(str(shared.path))
    for setting, value in KEPT.items():
        hudi_peer.run_statement(f"set {setting}={value}")
    hudi_peer.run_statement(f"create index s on {name} (s)")
    shared.by_hudi([KEY, 3, ROWS], 2, "upsert", kind)
    if last == "us":
        shared.small.lake().write(rows([KEY, 4, ROWS + 1], 3), "upsert")
        shared.small.lake().write(rows([5], 3), "delete")
    listed = shared.table.config.metadata_partitions
    assert {COLUMN_STATS, PARTITION_STATS, RECORD_INDEX, SECONDARY} <= set(listed)
    assert (
        len({row[1] for row in hudi_peer.file_slices(str(shared.path), metadata_table=True)})
        >= FILES
    )
    for query in QUERIES:
        shared.check(query)
    shared.leave_only(KEY)
    for query in QUERIES:
        shared.check(query)

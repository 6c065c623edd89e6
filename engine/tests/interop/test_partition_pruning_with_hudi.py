"""Partitions are left out by `partition_stats` of both engines, and both find the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer, version_options
from tideline.testing.reads_by_statistics import seen_partitions, statistics_unused
from tideline.testing.table_audit import open_fresh

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PARTITIONS = 6
APART = {"hoodie.parquet.small.file.limit": "0"}
CONDITIONS = ("n >= 3000 and n < 4000", "s = 's00002'", "n > 50000", "n = 1001", "n is null")


def rows(keys: Any, v: int = 0) -> pa.Table:
    """Rows of a partition are near each other."""
    near = [key % PARTITIONS * 1000 + key + v for key in keys]
    return pa.table(
        {
            "id": [f"k{key:04}" for key in keys],
            "p": [f"p{key % PARTITIONS}" for key in keys],
            "ts": pa.array([v for _ in near], pa.int64()),
            "n": pa.array(
                [None if key % 11 == 5 else n for key, n in zip(keys, near, strict=True)],
                pa.int64(),
            ),
            "s": [f"s{n // 1000:05}" for n in near],
        }
    )


class Both:
    def __init__(self, path: Path, peer: HudiPeer, kind: str, version: int) -> None:
        self.path, self.peer = path, peer
        self.options = {
            "hoodie.table.name": "both",
            "hoodie.datasource.write.table.type": kind,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "p",
            "hoodie.datasource.write.precombine.field": "ts",
            **version_options(version),
            **APART,
        }

    def by_hudi(self, written: pa.Table, operation: str = "upsert", **more: str) -> None:
        given = self.options | more
        self.peer.write(str(self.path), written, operation=operation, options=given)

    def lake(self) -> LakeTable:
        return LakeTable(open_fresh(StoreLocation.of(self.path)))

    def compare(self, condition: str) -> int:
        """Partitions that we leave out, for the rows that Hudi finds with skipping and without."""
        with seen_partitions() as gone:
            found = self.lake().to_arrow(["id"], condition)
        with statistics_unused():
            assert self.lake().to_arrow(["id"], condition).num_rows == found.num_rows
        ids = sorted(found["id"].to_pylist())
        name = self.peer.table_at(str(self.path))
        for is_skipping in ("true", "false"):
            self.peer.run_statement(f"set hoodie.enable.data.skipping={is_skipping}")
            self.peer.run_statement(f"refresh table {name}")
            of_hudi = self.peer.sql(f"select id from {name} where {condition}")
            assert sorted(of_hudi["id"].to_pylist()) == ids, (condition, is_skipping)
        self.peer.run_statement("set hoodie.enable.data.skipping=true")
        return len(gone)


@pytest.mark.parametrize("version", [9, 8])
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_both_engines_find_the_same_rows(
    tmp_path: Path, hudi_peer: HudiPeer, kind: str, version: int
) -> None:
    both = Both(tmp_path / "both", hudi_peer, kind, version)
    for file in range(3):
        both.by_hudi(rows(range(file * 12, file * 12 + 12)), "insert")
    assert [both.compare(condition) for condition in CONDITIONS] == [0] * len(CONDITIONS), (
        "its rows do not say which files had a part in them"
    )
    both.lake().write(rows(range(36, 48)), "bulk_insert", options=APART)
    for condition in CONDITIONS[:4]:
        assert both.compare(condition) >= PARTITIONS - 1, condition
    both.lake().write(rows([3, 9], 60_000), "upsert")
    assert both.compare("n > 50000") == PARTITIONS - 1
    # What it writes into a partition takes that one back.
    both.by_hudi(rows([4], 80_000))
    assert both.compare("n > 50000") == PARTITIONS - 2
    # Its compaction of the metadata table keeps what it does not know.
    both.by_hudi(
        rows([10], 81_000),
        **{"hoodie.metadata.compact.max.delta.commits": "1"},
    )
    folder = tmp_path / "both/.hoodie/metadata/partition_stats"
    assert any(path.suffix == ".hfile" for path in folder.iterdir())
    for condition in CONDITIONS:
        gone = both.compare(condition)
        assert gone or "null" in condition, condition
    both.by_hudi(rows([5], 0), "delete")
    both.lake().run("clustering", options={"hoodie.clustering.inline.max.commits": "1"})
    for condition in CONDITIONS:
        both.compare(condition)

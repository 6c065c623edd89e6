"""Bloom filters that Hudi keeps in its metadata table, kept by us: its upserts find every key.

With `hoodie.bloom.index.use.metadata` Hudi opens no footer to look keys up: where a file has no
filter there the write fails, and one of other keys makes two rows of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from tideline.check_finding import Severity
from tideline.hudi.check.run import check_table
from tideline.hudi.table.table_config import BLOOM_FILTERS, COLUMN_STATS, FILES, PARTITION_STATS
from tideline.testing.hudi_peer import HudiPeer, version_options
from tideline.testing.kept_statistics import stored_filters
from tideline.testing.shared_folder import SharedFolder
from tideline.testing.small_table import ONCE
from tideline.testing.table_audit import stale_listing

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ALL = (BLOOM_FILTERS, COLUMN_STATS, FILES, PARTITION_STATS)
KEEPS = {"hoodie.metadata.index.bloom.filter.enable": "true"}
LOOKS_UP = {"hoodie.index.type": "BLOOM", "hoodie.bloom.index.use.metadata": "true"}


def rows(keys: Iterable[int], v: int) -> pa.Table:
    wanted = list(keys)
    return pa.table(
        {
            "id": [f"k{key:03}" for key in wanted],
            "p": [f"p{key % 2}" for key in wanted],
            "ts": pa.array([v] * len(wanted), pa.int64()),
            "v": pa.array([v] * len(wanted), pa.int64()),
        }
    )


@dataclass
class Shared(SharedFolder):
    """A table that Hudi made with bloom filters, both write, and what it must hold."""

    version: int
    kind: str
    expected: dict[str, int]

    def by_hudi(self, keys: Iterable[int], v: int, operation: str = "upsert", **more: str) -> None:
        given = {
            "hoodie.table.name": "shared",
            "hoodie.datasource.write.table.type": self.kind,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "p",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.clean.automatic": "false",
            "hoodie.compact.inline": "false",
            **version_options(self.version),
            **KEEPS,
            **LOOKS_UP,
            **more,
        }
        given_rows = rows(keys, v)
        self.peer.write(str(self.path), given_rows, operation=operation, options=given)
        self._expect(given_rows, v)

    def by_us(self, keys: Iterable[int], v: int, operation: str = "upsert", **more: str) -> None:
        given_rows = rows(keys, v)
        self.small.lake().write(given_rows, operation, options=more)
        if operation == "delete":
            for key in given_rows["id"].to_pylist():
                self.expected.pop(key, None)
        else:
            self._expect(given_rows, v)

    def run(self, service: str, **options: str) -> None:
        done = self.small.lake().run(service, options={**ONCE, **options})
        assert done.done, done

    def check(self, partitions: tuple[str, ...] = ALL) -> None:
        """Both engines find each key once, the rows are those of the files, and queries by key find
        their rows, which Hudi looks up in the filters."""
        expected = [name for name in partitions if self.table.layout.keeps_partition(name)]
        assert sorted(self.table.config.metadata_partitions) == expected
        there = self.peer.read(str(self.path)).to_pylist()
        assert sorted((row["id"], row["v"]) for row in there) == sorted(self.expected.items())
        ours = self.small.lake().scan().read_all().to_pylist()
        assert sorted((row["id"], row["v"]) for row in ours) == sorted(self.expected.items())
        name = self.peer.table_at(str(self.path))
        self.peer.run_statement(f"refresh table {name}")
        wanted = dict([*self.expected.items()][::3])
        listed = ", ".join(f"'{key}'" for key in (*wanted, "k999"))
        found = self.peer.sql(f"select id, v from {name} where id in ({listed})").to_pylist()
        assert sorted((row["id"], row["v"]) for row in found) == sorted(wanted.items())
        key = max(self.expected)
        found = self.peer.sql(f"select v from {name} where id = '{key}'").to_pylist()
        assert found == [{"v": self.expected[key]}]
        assert stale_listing(self.table) == []
        found = check_table(self.table)
        assert [str(each) for each in found if each.severity is Severity.ERROR] == []

    def _expect(self, given: pa.Table, v: int) -> None:
        self.expected.update(dict.fromkeys(given["id"].to_pylist(), v))


@pytest.fixture(
    params=[
        (9, "COPY_ON_WRITE"),
        (9, "MERGE_ON_READ"),
        (8, "COPY_ON_WRITE"),
        (8, "MERGE_ON_READ"),
        (6, "COPY_ON_WRITE"),
        (6, "MERGE_ON_READ"),
    ],
    ids="v{0[0]} {0[1]}".format,
)
def shared(request: pytest.FixtureRequest, tmp_path: Path, hudi_peer: HudiPeer) -> Shared:
    version, kind = request.param
    made = Shared(tmp_path / "shared", hudi_peer, version, kind, {})
    made.by_hudi(range(8), 1)
    return made


def test_hudi_finds_every_key_that_we_wrote(shared: Shared) -> None:
    shared.check()
    shared.by_us([1, 2, 20, 21], 2)
    shared.by_us([30, 31], 2, "bulk_insert")
    shared.check()
    shared.by_hudi([*range(8), 20, 21, 30, 31, 40], 3)
    shared.check()
    shared.by_us([3, 41], 4)
    shared.by_us([4, 20], 4, "delete")
    shared.check()
    shared.by_hudi([*range(8), 20, 21, 30, 31, 40, 41], 5)
    shared.check()
    shared.small.lake().delete_partitions(["p1"])
    for key in [key for key in shared.expected if int(key[1:]) % 2]:
        del shared.expected[key]
    shared.check()
    shared.by_hudi(range(10), 6)
    shared.check()


def test_services_of_ours_keep_them(shared: Shared) -> None:
    everything = [*range(8), *range(22, 26)]
    shared.by_us(range(22, 26), 2)
    for v in range(3, 6):
        shared.by_us([v, v + 20], v, **{"hoodie.compact.inline": "false"})
    if shared.kind == "MERGE_ON_READ":
        shared.run("compaction")
        shared.check()
        shared.by_hudi(everything, 7)
        shared.check()
    shared.run("clustering")
    shared.check()
    shared.by_hudi(everything, 8)
    shared.check()
    before = len(stored_filters(shared.table))
    shared.by_us([2], 9)
    shared.run("cleaning", **{"hoodie.clean.commits.retained": "1"})
    assert len(stored_filters(shared.table)) < before
    shared.check()
    shared.by_hudi(everything, 10)
    shared.check()


def test_compactions_of_the_metadata_table_by_both_take_them_along(shared: Shared) -> None:
    soon = {"hoodie.metadata.compact.max.delta.commits": "2"}
    for v in range(2, 7):
        shared.by_us([v, v + 20], v, **soon)
        shared.by_hudi([v, v + 1, v + 20], v + 10, **soon)
    shared.check()


def test_files_without_a_filter_end_them_and_hudi_makes_them_again(shared: Shared) -> None:
    without: Mapping[str, str] = {
        "hoodie.parquet.bloom.filter.enabled": "false",
        "hoodie.index.type": "SIMPLE",
    }
    shared.by_us([51, 52], 2, "bulk_insert", **without)
    shared.check((COLUMN_STATS, FILES, PARTITION_STATS))
    # Hudi cannot look keys up in their footers, and makes the partition without rows of them.
    shared.by_hudi([51, 52, 1], 3, **{"hoodie.index.type": "SIMPLE"})
    if shared.kind == "MERGE_ON_READ":
        wrong = stale_listing(shared.table)
        assert len(wrong) == 2
        assert all("has no row" in each for each in wrong)
        shared.run("compaction")
    shared.check()
    shared.by_hudi([51, 52, 1], 4)
    shared.check()


def test_a_writer_of_hudis_without_the_setting_drops_them(shared: Shared) -> None:
    others = (COLUMN_STATS, FILES, PARTITION_STATS)
    off = {"hoodie.metadata.index.bloom.filter.enable": "false"}
    shared.by_us([1, 2, 20], 2)
    shared.by_hudi([1, 21], 3, **off)
    shared.check(others)
    shared.by_us([2, 22], 4)
    shared.check(others)
    shared.by_hudi([1, 2, 20, 21, 22], 5)
    shared.by_us([3, 23], 6)
    shared.check()
    shared.by_hudi([1, 2, 3, 20, 21, 22, 23], 7)
    shared.check()

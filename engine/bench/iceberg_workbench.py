"""What benches of Iceberg rewrites need: a table of Iceberg's own, both sides warm, and turns.

Before each turn the table is rolled back to its small files; after it, the answer of a query must
be the same as before, and both sides must have left as many files, one more or less.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from bench.data import PARTITION_BY, prepare_input
from bench.measurement import Claim, Series
from bench.tideline_side import SPARK_SETTINGS, TidelineSide
from bench.workbench import WARM_UP_ROUNDS
from tideline.cache_directory import cache_directory
from tideline.testing.iceberg_peer import IcebergPeer
from tideline.testing.peer_environment import prepare_iceberg_peer

COLUMNS = (
    "order_id string, region string, updated_at bigint, customer int, units int, price double, "
    "weight double, state string, note string, ordered_on date, seen_at timestamp"
)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One kind of rewrite: what it is called and how rows are sorted."""

    claim: str
    faster_by: float
    sort_order: str | None = None

    def call(self, table: str) -> str:
        """The same for Iceberg's own procedure."""
        how = f", strategy => 'sort', sort_order => '{self.sort_order}'" if self.sort_order else ""
        return f"call lake.system.rewrite_data_files(table => '{table}'{how})"


@dataclass(frozen=True, slots=True)
class IcebergTableOfBench:
    """A table `lake.bench.<name>` with many small files."""

    name: str
    peer: IcebergPeer
    ours: TidelineSide
    rounds: int
    warm_up_rounds: int = WARM_UP_ROUNDS

    @property
    def path(self) -> Path:
        """The table's folder."""
        return self.peer.warehouse / "bench" / self.name

    def fill(self, source: Path, *, appends: int, repeats: int = 1, **made: Any) -> None:
        """Make the table: the rows of a file so many times, in so many appends each time.

        `partitioned` says whether every append leaves a file in each partition or one in all;
        `codec` is what the files are compressed with, before the table asks for its default.
        """
        partitioned = f"partitioned by ({PARTITION_BY})" if made.get("partitioned", True) else ""
        self.peer.run(
            f"create table lake.bench.{self.name} ({COLUMNS}) using iceberg {partitioned} "
            "tblproperties ('format-version'='2', "
            f"'write.parquet.compression-codec'='{made.get('codec', 'zstd')}')"
        )
        rows = pq.read_table(source)
        size = -(-rows.num_rows // appends)
        for _ in range(repeats):
            for number in range(appends):
                self.peer.append(str(self.path), rows.slice(number * size, size))
        self.peer.run(
            f"alter table lake.bench.{self.name} "
            "set tblproperties ('write.parquet.compression-codec'='zstd')"
        )

    def measure(self, rewrite: Rewrite) -> Claim:
        """Alternate the sides."""
        ours, theirs = Series("tideline"), Series("iceberg")
        snapshot, answer = self._snapshot(), self._answer()
        for turn in range(-self.warm_up_rounds, self.rounds):
            seconds, files_left = {}, {}
            for series in (ours, theirs):
                self._roll_back(snapshot)
                if series is ours:
                    order = rewrite.sort_order
                    seconds[series.name] = self.ours.rewrite_iceberg(self.path, sort_order=order)
                else:
                    seconds[series.name] = self.peer.run(rewrite.call(f"bench.{self.name}"))
                files_left[series.name] = self.files()
                assert self._answer() == answer
            assert abs(files_left["tideline"] - files_left["iceberg"]) <= 1, files_left
            print(f"  {rewrite.claim}, round {turn + 1}: {seconds}, files {files_left}", flush=True)
            if turn >= 0:
                for series in (ours, theirs):
                    series.add(seconds[series.name])
        self._roll_back(snapshot)
        return Claim(rewrite.claim, ours, theirs, faster_by=rewrite.faster_by)

    def files(self) -> int:
        """How many data files the table has now."""
        return self._one(f"select count(*) as n from lake.bench.{self.name}.files")

    def _roll_back(self, snapshot: int) -> None:
        self.peer.run(f"call lake.system.rollback_to_snapshot('bench.{self.name}', {snapshot})")

    def _snapshot(self) -> int:
        return self._one(
            f"select snapshot_id as n from lake.bench.{self.name}.history "
            "order by made_current_at desc limit 1"
        )

    def _one(self, statement: str) -> int:
        found: int = self.peer.sql(statement)["n"][0].as_py()
        return found

    def _answer(self) -> list[Any]:
        statement = "select region, count(*) as n, sum(units) as u from {} group by region"
        rows = self.peer.sql(statement.format(f"lake.bench.{self.name}"))
        return sorted(rows.to_pylist(), key=str)


@contextmanager
def both_sides() -> Iterator[tuple[IcebergPeer, TidelineSide]]:
    """Warm processes of both, with a scratch folder that is gone in the end."""
    directory = cache_directory() / "bench"
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory, prefix="run-") as folder:
        ours, theirs = Path(folder) / "tideline-process", Path(folder) / "iceberg-process"
        ours.mkdir()
        theirs.mkdir()
        environment = prepare_iceberg_peer()
        with (
            TidelineSide(ours) as tideline,
            IcebergPeer(environment, theirs, spark_settings=SPARK_SETTINGS) as peer,
        ):
            yield peer, tideline


def source_of(rows: int) -> Path:
    """The rows that tables are made of."""
    return prepare_input(cache_directory() / "bench", rows=rows).base

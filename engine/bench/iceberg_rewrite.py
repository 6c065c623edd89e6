"""Claims: rewriting an Iceberg table's small files is 2 times as fast as Iceberg's own
`rewrite_data_files` when bin-packing, and 1.3 times when sorting by one column.

The table has 2,000,000 rows in 200 files, 25 in each of 8 partitions; all of it is rewritten into
one file a partition and committed. Before each turn the table is rolled back to the small files.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from bench.data import PARTITION_BY, PARTITIONS, prepare_input
from bench.measurement import Claim, Series, close_report
from bench.quiet import wait_for_quiet
from bench.tideline_side import SPARK_SETTINGS, TidelineSide
from bench.workbench import ROUNDS, ROUNDS_QUICK, WARM_UP_ROUNDS
from tideline.cache_directory import cache_directory
from tideline.testing.iceberg_peer import IcebergPeer
from tideline.testing.peer_environment import prepare_iceberg_peer

NAME = "lake.bench.orders"
APPENDS = 25
SORT_COLUMN = "customer"
COLUMNS = (
    "order_id string, region string, updated_at bigint, customer int, units int, price double, "
    "weight double, state string, note string, ordered_on date, seen_at timestamp"
)


@dataclass(frozen=True, slots=True)
class _Bench:
    peer: IcebergPeer
    ours: TidelineSide
    rounds: int

    @property
    def table(self) -> Path:
        return self.peer.warehouse / "bench" / "orders"

    def fill(self, source: Path) -> None:
        """Make the table: every append leaves a file in each partition."""
        self.peer.run(
            f"create table {NAME} ({COLUMNS}) using iceberg partitioned by ({PARTITION_BY}) "
            "tblproperties ('format-version'='2')"
        )
        rows = pq.read_table(source)
        size = -(-rows.num_rows // APPENDS)
        for number in range(APPENDS):
            self.peer.append(str(self.table), rows.slice(number * size, size))
        assert self._files() == APPENDS * len(PARTITIONS), self._files()

    def measure(self, claim: str, sort_order: str | None, faster_by: float) -> Claim:
        """Alternate the sides; rows and number of files must be the same after either."""
        ours, theirs = Series("tideline"), Series("iceberg")
        snapshot, answer = self._snapshot(), self._answer()
        for turn in range(-WARM_UP_ROUNDS, self.rounds):
            seconds = {}
            for series in (ours, theirs):
                self.peer.run(f"call lake.system.rollback_to_snapshot('bench.orders', {snapshot})")
                if series is ours:
                    seconds[series.name] = self.ours.rewrite_iceberg(
                        self.table, sort_order=sort_order
                    )
                else:
                    seconds[series.name] = self.peer.run(_call(sort_order))
                assert self._files() == len(PARTITIONS)
                assert self._answer() == answer
            print(f"  {claim}, round {turn + 1}: {seconds}", flush=True)
            if turn >= 0:
                for series in (ours, theirs):
                    series.add(seconds[series.name])
        self.peer.run(f"call lake.system.rollback_to_snapshot('bench.orders', {snapshot})")
        return Claim(claim, ours, theirs, faster_by=faster_by)

    def _files(self) -> int:
        return self._one(f"select count(*) as n from {NAME}.files")

    def _snapshot(self) -> int:
        return self._one(
            f"select snapshot_id as n from {NAME}.history order by made_current_at desc limit 1"
        )

    def _one(self, statement: str) -> int:
        found: int = self.peer.sql(statement)["n"][0].as_py()
        return found

    def _answer(self) -> list[Any]:
        statement = f"select region, count(*) as n, sum(units) as u from {NAME} group by region"
        return sorted(self.peer.sql(statement).to_pylist(), key=str)


def _call(sort_order: str | None) -> str:
    how = f", strategy => 'sort', sort_order => '{sort_order}'" if sort_order else ""
    return f"call lake.system.rewrite_data_files(table => 'bench.orders'{how})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, and write the JSON; the exit code of `close_report`."""
    parser = argparse.ArgumentParser(description="Rewriting compared with Iceberg, on this machine")
    parser.add_argument("--quick", action="store_true", help=f"{ROUNDS_QUICK} rounds, not {ROUNDS}")
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of the table")
    parser.add_argument("--json", type=Path, help="also write every round to this file")
    parser.add_argument("--wait", type=float, default=0, help="minutes to wait for a quiet machine")
    chosen = parser.parse_args(arguments)
    load = wait_for_quiet(chosen.wait * 60)
    directory = cache_directory() / "bench"
    source = prepare_input(directory, rows=chosen.rows).base
    with tempfile.TemporaryDirectory(dir=directory, prefix="run-") as folder:
        scratch = Path(folder)
        ours, theirs = scratch / "tideline-process", scratch / "iceberg-process"
        ours.mkdir()
        theirs.mkdir()
        environment = prepare_iceberg_peer()
        with (
            TidelineSide(ours) as tideline,
            IcebergPeer(environment, theirs, spark_settings=SPARK_SETTINGS) as peer,
        ):
            bench = _Bench(peer, tideline, ROUNDS_QUICK if chosen.quick else ROUNDS)
            bench.fill(source)
            claims = [
                bench.measure("bin-packing 200 files into 8, against Iceberg", None, 3),
                bench.measure("sorting 200 files into 8, against Iceberg", SORT_COLUMN, 3.5),
            ]
    return close_report(claims, (), load_at_start=load, json_path=chosen.json)


if __name__ == "__main__":
    sys.exit(main())

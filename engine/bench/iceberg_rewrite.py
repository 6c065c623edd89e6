"""Claims about rewriting an Iceberg table's files, against Iceberg's own `rewrite_data_files`.

- Small files: 2,000,000 rows in 200 files, 25 in each of 8 partitions; all of it is rewritten into
  one file a partition. Bin-packing is 3 times as fast, sorting by one column 3.5 times.
- A large group: 24,000,000 rows in 48 files without partitions, 874 MB. Bin-packing is 6 times as
  fast where the rows must be re-encoded, because their codec is not the table's, 10 times where
  row groups can be copied; sorting, which no task holds in memory, twice.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.iceberg_workbench import IcebergTableOfBench, Rewrite, both_sides, source_of
from bench.measurement import Claim, close_report
from bench.quiet import wait_for_quiet
from bench.workbench import ROUNDS, ROUNDS_QUICK, bench_parser

SORT_COLUMN = "customer"
SMALL_FILES = (
    Rewrite("bin-packing 200 files into 8, against Iceberg", 3),
    Rewrite("sorting 200 files into 8, against Iceberg", 3.5, SORT_COLUMN),
)
LARGE_GROUP_ROUNDS = 3


def measure(rows: int, rounds: int) -> Sequence[Claim]:
    """Every claim, one after another; of the large group three rounds at most, none to warm up:
    each takes minutes."""
    source = source_of(rows)
    with both_sides() as (peer, tideline):
        table = IcebergTableOfBench("orders", peer, tideline, rounds)
        table.fill(source, appends=25)
        claims = [table.measure(rewrite) for rewrite in SMALL_FILES]
        for rewrite, codec in (
            (Rewrite("bin-packing a large group, encoded", 6), "snappy"),
            (Rewrite("bin-packing a large group, copied", 10), "zstd"),
            (Rewrite("sorting a large group", 2, SORT_COLUMN), "zstd"),
        ):
            rounds_ = min(rounds, LARGE_GROUP_ROUNDS)
            large = IcebergTableOfBench(f"large_{codec}", peer, tideline, rounds_, 0)
            if not large.path.exists():
                large.fill(source, appends=4, repeats=12, partitioned=False, codec=codec)
            claims.append(large.measure(rewrite))
    return claims


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, and write the JSON; the exit code of `close_report`."""
    parser = bench_parser("Rewriting compared with Iceberg, on this machine")
    chosen = parser.parse_args(arguments)
    load = wait_for_quiet(chosen.wait * 60)
    claims = measure(chosen.rows, ROUNDS_QUICK if chosen.quick else ROUNDS)
    return close_report(claims, (), load_at_start=load, json_path=chosen.json)


if __name__ == "__main__":
    sys.exit(main())

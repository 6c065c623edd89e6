"""Our side alone, for tuning: seconds of every round, and no claims.

`python -m bench.ours_only [--rows N] [--rounds N]`. Without Hudi's rounds in between this takes a
minute or two; what it prints is not for comparing, because nothing else is measured next to it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from bench.data import BenchInput, prepare_input
from bench.process_memory import watch_processes
from bench.snapshot_scan import STATEMENT
from bench.tideline_side import TidelineSide
from tideline.cache_directory import cache_directory


def main() -> int:
    """Load a table, then bulk insert, upsert and query it in every round."""
    parser = argparse.ArgumentParser(description="Seconds of our side alone")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()
    directory = cache_directory() / "bench"
    prepared = prepare_input(directory, rows=arguments.rows)
    with (
        tempfile.TemporaryDirectory(dir=directory, prefix="run-") as folder,
        TidelineSide(Path(folder)) as tideline,
    ):
        loaded = Path(folder) / "loaded"
        tideline.load(loaded, prepared.base)
        for number in range(arguments.rounds):
            _round(tideline, prepared, loaded, number)
    return 0


def _round(tideline: TidelineSide, prepared: BenchInput, loaded: Path, number: int) -> None:
    table, plain = loaded.with_name("table"), loaded.with_name("plain")
    for folder in (table, plain):
        shutil.rmtree(folder, ignore_errors=True)
    tideline.create(table, prepared.base)
    bulk_s = tideline.write(table, prepared.base, operation="bulk_insert")
    plain_s = tideline.write_plain(plain, prepared.base)
    shutil.rmtree(table)
    shutil.copytree(loaded, table)
    changes = prepared.changes[number % len(prepared.changes)]
    with watch_processes(tideline.pid) as peaks:
        upsert_s = tideline.write(table, changes, operation="upsert")
    scan_s, _ = tideline.aggregate(loaded, STATEMENT)
    plain_scan_s, _ = tideline.aggregate_plain(plain, STATEMENT)
    print(
        f"round {number}: upsert {upsert_s:.1f} s ({peaks.highest_bytes >> 20} MiB a worker), "
        f"bulk_insert {bulk_s:.1f} s (plain {plain_s:.1f} s), "
        f"scan {scan_s:.2f} s (plain {plain_scan_s:.2f} s)",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())

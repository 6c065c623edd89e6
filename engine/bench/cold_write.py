"""Claims: `tideline write` from process start to exit, of a batch and of one row.

The batch of `upsert_cow` takes at most 5 s in one process, and 9 s where Spark does the work; one
row into the same table takes at most 2 s. Hudi's time is that of a process that starts Spark, does
the same upsert and ends.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from bench.hudi_side import ONE_FILE_PER_PARTITION, HudiSide, metadata_table
from bench.measurement import Claim, Series, TimeLimit
from bench.workbench import Workbench, run

ON_SPARK = ("--option", "tideline.engine.small=spark")


def measure(bench: Workbench) -> tuple[Sequence[Claim], Sequence[TimeLimit]]:
    """Alternate the four commands; each is a process of its own, on a fresh copy."""
    batch, on_spark = Series("in process"), Series("on Spark")
    row, hudi = Series("one row"), Series("hudi")
    table, peer_table = bench.fresh("cold-ours"), bench.fresh("cold-hudi")
    bench.tideline.load(table, bench.input.base)
    options = {**metadata_table(True), **ONE_FILE_PER_PARTITION}
    bench.hudi.write(peer_table, bench.input.base, operation="bulk_insert", options=options)
    path = bench.fresh("one-row.parquet")
    pq.write_table(pq.read_table(bench.input.changes[0]).slice(0, 1), path)
    for turn in bench.turns():
        source = bench.input.changes[(turn or 0) % len(bench.input.changes)]
        measured = {
            batch.name: _write(bench.fresh_copy(table, "cold"), source),
            on_spark.name: _write(bench.fresh_copy(table, "cold"), source, *ON_SPARK),
            row.name: _write(bench.fresh_copy(table, "cold"), path),
            hudi.name: _write_with_hudi(bench, bench.fresh_copy(peer_table, "cold"), source),
        }
        if turn is not None:
            for series in (batch, on_spark, row, hudi):
                series.add(measured[series.name])
    claims = (Claim("tideline write, against a process of Hudi", batch, hudi, faster_by=1),)
    return claims, (
        TimeLimit("tideline write of a batch, in process", batch, 5),
        TimeLimit("tideline write of a batch, on Spark", on_spark, 9),
        TimeLimit("tideline write of one row, in process", row, 2),
    )


def _write(table: Path, source: Path, *more: str) -> float:
    command = [sys.executable, "-m", "tideline", "write", str(table), "--source", str(source)]
    begun = time.perf_counter()
    subprocess.run([*command, *more], check=True, capture_output=True)
    return time.perf_counter() - begun


def _write_with_hudi(bench: Workbench, table: Path, source: Path) -> float:
    scratch = bench.fresh("cold-hudi-process")
    scratch.mkdir()
    begun = time.perf_counter()
    with HudiSide(scratch) as hudi:
        hudi.write(table, source, operation="upsert", options=metadata_table(True))
    return time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(run([measure]))

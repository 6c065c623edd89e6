"""What a Python worker holds while it rewrites a file group much larger than the batch."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tideline.testing.written_table import WrittenTable

pytestmark = pytest.mark.spark

MIB = 1024 * 1024
ROWS = 800_000
ROW_BYTES = 1_024
SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.string())])
# Several row groups in one file, so that what is held at a time shows.
ONE_FILE = {
    "hoodie.parquet.max.file.size": str(4096 * MIB),
    "hoodie.parquet.block.size": str(24 * MIB),
}


def worker_pids() -> list[int]:
    """Python processes among the descendants of this one."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        name, rest = text.rpartition(")")[0].partition("(")[2], text.rpartition(")")[2].split()
        parents[int(path.parent.name)] = (int(rest[1]), name)
    found = {os.getpid()}
    while True:
        more = {pid for pid, (parent, _) in parents.items() if parent in found} - found
        if not more:
            break
        found |= more
    return [pid for pid in found - {os.getpid()} if parents[pid][1].startswith("python")]


def peak_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
def test_a_large_file_group_is_rewritten_in_parts(spark: SparkSession, tmp_path: Path) -> None:
    table = WrittenTable.create(spark, tmp_path / "t", SCHEMA, ordering=["ts"], properties=ONE_FILE)
    text = F.concat(F.lpad(F.col("id").cast("string"), 12, "0"), F.repeat(F.lit("x"), ROW_BYTES))
    stored = spark.range(0, ROWS, 1, 1).select(
        F.col("id").cast("string").alias("id"), F.lit(1).alias("ts"), text.alias("v")
    )
    assert table.write(stored, "bulk_insert").files_written == 1
    for pid in worker_pids():
        forget_peak(pid)
    changed = [(str(number), 2, "new") for number in range(0, ROWS, ROWS // 1000)]
    report = table.write([*changed, ("new", 2, "new")])
    assert (report.rows_updated, report.rows_inserted) == (1000, 1)
    peaks_mib = {pid: peak_bytes(pid) // MIB for pid in worker_pids()}
    # A worker that earlier tests used has up to 180 of its own; the rest is a few row groups.
    assert ROWS * ROW_BYTES // MIB > 750
    assert peaks_mib and max(peaks_mib.values()) < 500

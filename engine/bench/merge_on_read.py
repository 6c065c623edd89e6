"""Merge-on-read tables for the benches: one base file per partition, and deltas on top."""

from __future__ import annotations

from pathlib import Path

from bench.hudi_side import MERGE_ON_READ, ONE_FILE_PER_PARTITION, metadata_table
from bench.workbench import Workbench

DELTAS = 4
WITHOUT_COMPACTION = {"hoodie.compact.inline": "false"}
"""Compaction after a commit is measured apart."""


def our_table(bench: Workbench, *, deltas: int) -> Path:
    """A table of ours with this many upserts in its logs."""
    table = bench.fresh(f"mor-ours-{deltas}")
    bench.tideline.load(table, bench.input.base, table_type="MERGE_ON_READ")
    for number in range(deltas):
        source = bench.input.changes[number % len(bench.input.changes)]
        bench.tideline.write(table, source, operation="upsert", options=WITHOUT_COMPACTION)
    return table


def hudi_table(bench: Workbench, *, deltas: int, metadata: bool = True) -> Path:
    """The same by Hudi."""
    table = bench.fresh(f"mor-hudi-{deltas}-{metadata}")
    options = {**MERGE_ON_READ, **metadata_table(metadata)}
    loading = {**options, **ONE_FILE_PER_PARTITION}
    bench.hudi.write(table, bench.input.base, operation="bulk_insert", options=loading)
    for number in range(deltas):
        source = bench.input.changes[number % len(bench.input.changes)]
        bench.hudi.write(table, source, operation="upsert", options=options)
    return table

"""Claim: Hudi's upsert after ours takes what it takes after its own.

Hudi made the table: 150 files with its statistics and a record index. What a writer takes off the
list of the metadata table, Hudi makes again, of all files, before its next commit.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from bench.hudi_side import ONE_FILE_PER_PARTITION
from bench.many_files import changed_rows, rows_of_files
from bench.measurement import Claim, Limit, Series
from bench.upsert_by_index import INDEXED
from bench.workbench import Workbench, run
from tideline.hudi.table.table_config import COLUMN_STATS, PARTITION_STATS, RECORD_INDEX
from tideline.lake_table import LakeTable

_FILES, _ROWS = 150, 100
_TOUCHED = 8
_KEPT = {COLUMN_STATS, PARTITION_STATS, RECORD_INDEX}


def measure(bench: Workbench) -> tuple[Sequence[Claim], Sequence[Limit]]:
    """Alternate the writer before, each into a copy of the table."""
    after_ours, after_own = Series("after ours"), Series("after its own")
    rows = rows_of_files(_FILES)
    source, table = bench.fresh("many-files.parquet"), bench.fresh("table-of-hudi")
    pq.write_table(rows, source)
    made = {**INDEXED, **ONE_FILE_PER_PARTITION}
    bench.hudi.write(table, source, operation="bulk_insert", options=made)
    assert _listed(table) >= _KEPT, "Hudi makes all"
    for number, turn in enumerate(bench.turns()):
        first, second = bench.fresh("first.parquet"), bench.fresh("second.parquet")
        pq.write_table(changed_rows(rows, _ROWS, _TOUCHED, _FILES, 2 * number), first)
        pq.write_table(changed_rows(rows, _ROWS, _TOUCHED, _FILES, 2 * number + 1), second)
        target = bench.fresh_copy(table, "after-ours")
        bench.tideline.write(target, first, operation="upsert")
        assert _listed(target) >= _KEPT, "all are kept"
        seconds = bench.hudi.write(target, second, operation="upsert", options=INDEXED)
        target = bench.fresh_copy(table, "after-own")
        bench.hudi.write(target, first, operation="upsert", options=INDEXED)
        own_seconds = bench.hudi.write(target, second, operation="upsert", options=INDEXED)
        if turn is not None:
            after_ours.add(seconds)
            after_own.add(own_seconds)
    name = f"Hudi's upsert into {_FILES} files, after ours, against after its own"
    return (Claim(name, after_ours, after_own, within=1.1),), ()


def _listed(table: Path) -> set[str]:
    return set(LakeTable.open(str(table)).hoodie_table.config.metadata_partitions)


if __name__ == "__main__":
    sys.exit(run([measure]))

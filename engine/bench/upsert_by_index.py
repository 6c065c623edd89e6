"""Claim: an upsert of 100 rows into 1,000 files by a record index is 10 times as fast as Hudi's.

Both look the keys up in the record index of the same table, write to eight files, and keep
statistics and index.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pyarrow.parquet as pq

from bench.many_files import FILES, INDEXED, ManyFiles, require_indexes
from bench.measurement import Claim, Limit, Series
from bench.workbench import Workbench, run

_ROWS, _TOUCHED = 100, 8


def measure(bench: Workbench) -> tuple[Sequence[Claim], Sequence[Limit]]:
    """Alternate the two writers, each into a copy of the table."""
    ours, hudi = Series("tideline"), Series("hudi")
    table = ManyFiles.made(bench)
    for number, turn in enumerate(bench.turns()):
        source = bench.fresh("changes.parquet")
        pq.write_table(table.changed(_ROWS, _TOUCHED, number), source)
        target = bench.fresh_copy(table.path, "upsert-ours")
        seconds = bench.tideline.write(target, source, operation="upsert")
        require_indexes(target)
        target = bench.fresh_copy(table.path, "upsert-hudi")
        hudi_seconds = bench.hudi.write(target, source, operation="upsert", options=INDEXED)
        if turn is not None:
            ours.add(seconds)
            hudi.add(hudi_seconds)
    name = f"upsert of {_ROWS} rows into {FILES} files by a record index"
    return (Claim(name, ours, hudi, faster_by=10),), ()


if __name__ == "__main__":
    sys.exit(run([measure]))

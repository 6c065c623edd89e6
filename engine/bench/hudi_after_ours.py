"""Claim: Hudi's upsert after ours takes what it takes after its own.

Hudi made the table: 150 files with its statistics and a record index. What a writer takes off the
list of the metadata table, Hudi makes again, of all files, before its next commit.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pyarrow.parquet as pq

from bench.many_files import INDEXED, ManyFiles, require_indexes
from bench.measurement import Claim, Limit, Series
from bench.workbench import Workbench, run

_FILES, _ROWS, _TOUCHED = 150, 100, 8


def measure(bench: Workbench) -> tuple[Sequence[Claim], Sequence[Limit]]:
    """Alternate the writer before, each into a copy of the table."""
    after_ours, after_own = Series("after ours"), Series("after its own")
    table = ManyFiles.made_by_hudi(bench, _FILES)
    for number, turn in enumerate(bench.turns()):
        first, second = bench.fresh("first.parquet"), bench.fresh("second.parquet")
        pq.write_table(table.changed(_ROWS, _TOUCHED, 2 * number), first)
        pq.write_table(table.changed(_ROWS, _TOUCHED, 2 * number + 1), second)
        for series in (after_ours, after_own):
            target = bench.fresh_copy(table.path, "changed")
            if series is after_ours:
                bench.tideline.write(target, first, operation="upsert")
                require_indexes(target)
            else:
                bench.hudi.write(target, first, operation="upsert", options=INDEXED)
            seconds = bench.hudi.write(target, second, operation="upsert", options=INDEXED)
            if turn is not None:
                series.add(seconds)
    name = f"Hudi's upsert into {_FILES} files, after ours, against after its own"
    return (Claim(name, after_ours, after_own, within=1.1),), ()


if __name__ == "__main__":
    sys.exit(run([measure]))

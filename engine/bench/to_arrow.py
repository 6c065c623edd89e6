"""Claim: reading a table into Arrow takes at most 1.1 times as long as pyarrow's dataset reader.

One process reads the base files of a copy-on-write table alternately by `LakeTable.to_arrow` and,
as plain Parquet files, by `pyarrow.dataset`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.dataset as ds

from bench.measurement import Claim, Limit, Series
from bench.workbench import Workbench, run
from tideline.lake_table import LakeTable


def measure(bench: Workbench) -> tuple[Sequence[Claim], Sequence[Limit]]:
    """Alternate the two readers; both must read the same rows."""
    ours, plain = Series("tideline"), Series("pyarrow.dataset")
    path = bench.fresh("to-arrow")
    bench.tideline.create(path, bench.input.base)
    bench.tideline.write(path, bench.input.base, operation="bulk_insert")
    table = LakeTable.open(str(path))
    files = [f"{path}/{file.path}" for file in table.hoodie_table.files.base_files()]
    for turn in bench.turns():
        our_seconds, our_rows = _timed(table.to_arrow)
        plain_seconds, plain_rows = _timed(ds.dataset(files, format="parquet").to_table)
        assert our_rows == plain_rows, "the readers disagree"
        if turn is not None:
            ours.add(our_seconds)
            plain.add(plain_seconds)
    return (Claim("to_arrow, against pyarrow's dataset reader", ours, plain, within=1.1),), ()


def _timed(read: Callable[[], pa.Table]) -> tuple[float, int]:
    begun = time.perf_counter()
    rows = read().num_rows
    return time.perf_counter() - begun, rows


if __name__ == "__main__":
    sys.exit(run([measure]))

"""An upsert of a key that very many stored rows have: their places are kept, and not the rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_ROWS = 2_000_000
_GROWTH_MIB_MAX = 160
"""Some 25 bytes for a row that goes, and what reading a file takes; the rows have 230 MB."""
_SCRIPT = """
import resource, sys
import numpy as np, pyarrow as pa, tideline

columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("pad", pa.string())])
table = tideline.create_iceberg(sys.argv[1], columns, key="id")
count = 100_000

def batches():
    for _ in range(int(sys.argv[2]) // count):
        pads = pa.array([f"{number:0100d}" for number in range(count)])
        yield pa.record_batch([pa.array(np.zeros(count, np.int64)), pads], schema=columns)

table.write(pa.RecordBatchReader.from_batches(columns, batches()))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
done = table.write([{"id": 0, "pad": "new"}], "upsert")
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert (done.rows_updated, table.count()) == (1, 1), done
print((after - before) // 1024)
"""


@pytest.mark.slow
def test_they_take_little_memory(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(tmp_path / "t"), str(_ROWS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < _GROWTH_MIB_MAX

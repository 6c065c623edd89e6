"""Claim: a read of one row out of 1,000 files is faster than Hudi's, 10 times by key, 4 by value.

Both read the same table, in warm processes, with all that it has of statistics and indexes. The
condition names no partition. Each opens one file
(`engine/tests/interop/test_pruned_reads_with_hudi.py`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from bench.data import RECORD_KEY
from bench.hudi_side import metadata_table
from bench.many_files import FILES, NEAR, ManyFiles
from bench.measurement import Claim, Limit, Series
from bench.workbench import Workbench, run
from tideline.lake_table import LakeTable

_OPTIONS = {**metadata_table(True), "hoodie.enable.data.skipping": "true"}
_ROW = 77_005


def measure(bench: Workbench) -> tuple[Sequence[Claim], Sequence[Limit]]:
    """Alternate the two readers; both must find the same row."""
    table = ManyFiles.made(bench)
    row = table.rows.slice(_ROW, 1).to_pylist()[0]
    conditions = (
        ("key", f"{RECORD_KEY} = '{row[RECORD_KEY]}'", 10),
        ("value", f"{NEAR} = {row[NEAR]}", 4),
    )
    claims = []
    for what, condition, faster_by in conditions:
        ours, hudi = Series("tideline"), Series("hudi")
        statement = f"select {RECORD_KEY} from t where {condition}"
        for turn in bench.turns():
            started_s = time.perf_counter()
            found = LakeTable.open(str(table.path)).to_arrow([RECORD_KEY], condition)
            seconds = time.perf_counter() - started_s
            hudi_seconds, answer = bench.hudi.aggregate(table.path, statement, _OPTIONS)
            assert found.to_pylist() == [{RECORD_KEY: row[RECORD_KEY]}], "we found something else"
            assert [entry[0] for entry in answer] == [row[RECORD_KEY]], "Hudi found something else"
            if turn is not None:
                ours.add(seconds)
                hudi.add(hudi_seconds)
        claims.append(Claim(f"read of 1 of {FILES} files by {what}", ours, hudi, faster_by))
    return claims, ()


if __name__ == "__main__":
    sys.exit(run([measure]))

"""Claim: an upsert into a table as Hudi makes it now is 10 times as fast as Hudi's.

The table is of version 9, with the statistics that Hudi makes by default; both keep them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.hudi_side import ONE_FILE_PER_PARTITION
from bench.measurement import Claim, Limit, Series
from bench.workbench import Workbench, run
from tideline.hudi.table.table_config import COLUMN_STATS, PARTITION_STATS
from tideline.lake_table import LakeTable
from tideline.testing.hudi_peer import version_options


def measure(bench: Workbench) -> tuple[Sequence[Claim], Sequence[Limit]]:
    """Alternate the two writers, each into a copy of the table."""
    ours, hudi = Series("tideline"), Series("hudi")
    table = bench.fresh("base-of-hudi")
    made = {**version_options(9), **ONE_FILE_PER_PARTITION}
    bench.hudi.write(table, bench.input.base, operation="bulk_insert", options=made)
    for turn in bench.turns():
        source = bench.input.changes[(turn or 0) % len(bench.input.changes)]
        target = bench.fresh_copy(table, "upsert-ours")
        seconds = bench.tideline.write(target, source, operation="upsert")
        listed = LakeTable.open(str(target)).hoodie_table.config.metadata_partitions
        assert {COLUMN_STATS, PARTITION_STATS} <= set(listed), "statistics are kept"
        target = bench.fresh_copy(table, "upsert-hudi")
        options = version_options(9)
        hudi_seconds = bench.hudi.write(target, source, operation="upsert", options=options)
        if turn is not None:
            ours.add(seconds)
            hudi.add(hudi_seconds)
    name = "upsert into a table as Hudi makes it now, statistics kept"
    return (Claim(name, ours, hudi, faster_by=10),), ()


if __name__ == "__main__":
    sys.exit(run([measure]))

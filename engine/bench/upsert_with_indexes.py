"""Claim: keeping statistics and a record index costs an upsert at most 15 percent.

The same upsert as in `upsert_cow`, into tables of version 9 whose metadata table has the partition
`files` alone, or column_stats, partition_stats and record_index besides. Keys are unique in all of
both, so that they are looked up alike.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.many_files import INDEXES
from bench.measurement import Claim, Limit, Series
from bench.workbench import Workbench, run
from tideline.hudi.table.table_config import INDEX_TYPE
from tideline.lake_table import LakeTable

VERSION = 9


def measure(bench: Workbench) -> tuple[Sequence[Claim], Sequence[Limit]]:
    """Alternate the two tables."""
    kept, without = Series("with indexes"), Series("without")
    tables = {}
    for series, is_kept in ((kept, True), (without, False)):
        tables[series.name] = bench.fresh(f"base-{is_kept}")
        properties = {"hoodie.metadata.enable": "true", INDEX_TYPE: "RECORD_INDEX"}
        bench.tideline.load(
            tables[series.name], bench.input.base, table_version=VERSION, properties=properties
        )
        if is_kept:
            indexes = LakeTable.open(str(tables[series.name])).indexes()
            for name in INDEXES:
                indexes.create(name)
    bench.upsert_by_turns((kept, without), tables)
    name = "upsert that keeps statistics and a record index, against the list of files alone"
    return (Claim(name, kept, without, within=1.15),), ()


if __name__ == "__main__":
    sys.exit(run([measure]))

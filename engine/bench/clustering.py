"""Claim: clustering with one sort column is 8.7 times as fast as Hudi's.

It takes at most 1.5 times as long as pyarrow alone takes to rewrite the same files.

The table is copy-on-write, 2,000,000 rows in 16 files; all of it is rewritten in one file a
partition, sorted by customer.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.floor import data_files
from bench.hudi_side import metadata_table
from bench.measurement import Claim, Limit, Series
from bench.snapshot_scan import STATEMENT
from bench.workbench import Workbench, run

SORT_COLUMN = "customer"
HUDI_CALL = f"run_clustering(op => 'scheduleAndExecute', order => '{SORT_COLUMN}')"
OUR_OPTIONS = {
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.plan.strategy.sort.columns": SORT_COLUMN,
}


def measure(bench: Workbench) -> tuple[Sequence[Claim], Sequence[Limit]]:
    """Alternate the sides; the answers before and after must be the same."""
    ours, hudi, floor = Series("tideline"), Series("hudi"), Series("pyarrow alone")
    table, peer_table = _our_table(bench), _hudi_table(bench)
    _, answer = bench.tideline.aggregate(table, STATEMENT)
    reading = metadata_table(True)
    for turn in bench.turns():
        target = bench.fresh_copy(table, "cluster-ours")
        our_seconds = bench.tideline.run_service(target, "clustering", OUR_OPTIONS)
        assert bench.tideline.aggregate(target, STATEMENT)[1] == answer
        floor_seconds = bench.floor.rewrite(data_files(table), bench.fresh("floor"))
        target = bench.fresh_copy(peer_table, "cluster-hudi")
        hudi_seconds = bench.hudi.run_service(target, HUDI_CALL, {})
        assert bench.hudi.aggregate(target, STATEMENT, reading)[1] == answer
        if turn is not None:
            ours.add(our_seconds)
            floor.add(floor_seconds)
            hudi.add(hudi_seconds)
    claims = (
        Claim("clustering by one column, against Hudi", ours, hudi, faster_by=8.7),
        Claim("clustering by one column, against pyarrow alone", ours, floor, within=1.5),
    )
    return claims, ()


def _our_table(bench: Workbench) -> Path:
    table = bench.fresh("cluster-base-ours")
    bench.tideline.create(table, bench.input.base)
    # Spark's tasks leave two files in each partition.
    options = {"tideline.engine.small": "spark"}
    bench.tideline.write(table, bench.input.base, operation="bulk_insert", options=options)
    assert len(data_files(table)) == 16
    return table


def _hudi_table(bench: Workbench) -> Path:
    table = bench.fresh("cluster-base-hudi")
    options = metadata_table(True)
    bench.hudi.write(table, bench.input.base, operation="bulk_insert", options=options)
    return table


if __name__ == "__main__":
    sys.exit(run([measure]))

"""Claim: clustering with one sort column is 3 times as fast as Hudi's.

The table is copy-on-write, 2,000,000 rows in 16 files; all of it is rewritten in one file a
partition, sorted by customer.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

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
    ours, hudi = Series("tideline"), Series("hudi")
    table, peer_table = _our_table(bench), _hudi_table(bench)
    _, answer = bench.tideline.aggregate(table, STATEMENT)
    reading = metadata_table(True)
    for turn in bench.turns():
        target = bench.fresh_copy(table, "cluster-ours")
        our_seconds = bench.tideline.run_service(target, "clustering", OUR_OPTIONS)
        assert bench.tideline.aggregate(target, STATEMENT)[1] == answer
        target = bench.fresh_copy(peer_table, "cluster-hudi")
        hudi_seconds = bench.hudi.run_service(target, HUDI_CALL, {})
        assert bench.hudi.aggregate(target, STATEMENT, reading)[1] == answer
        if turn is not None:
            ours.add(our_seconds)
            hudi.add(hudi_seconds)
    return (Claim("clustering by one column, against Hudi", ours, hudi, faster_by=3),), ()


def _our_table(bench: Workbench) -> Path:
    table = bench.fresh("cluster-base-ours")
    bench.tideline.create(table, bench.input.base)
    bench.tideline.write(table, bench.input.base, operation="bulk_insert")
    return table


def _hudi_table(bench: Workbench) -> Path:
    table = bench.fresh("cluster-base-hudi")
    options = metadata_table(True)
    bench.hudi.write(table, bench.input.base, operation="bulk_insert", options=options)
    return table


if __name__ == "__main__":
    sys.exit(run([measure]))

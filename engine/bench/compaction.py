"""Claims: compacting 4 deltas is 7.4 times, reading them merged 5 times as fast as Hudi's.

A compaction takes at most 1.3 times as long as pyarrow alone takes to rewrite what it reads.

Every delta is the batch of `upsert_mor`: 220,000 rows on 2,000,000.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.floor import data_files
from bench.hudi_side import metadata_table
from bench.measurement import Claim, Limit, Series
from bench.merge_on_read import DELTAS, hudi_table, our_table
from bench.snapshot_scan import STATEMENT
from bench.workbench import Workbench, run

HUDI_CALL = "run_compaction(op => 'scheduleAndExecute')"
OPTIONS = {"hoodie.compact.inline.max.delta.commits": "1"}


def measure(bench: Workbench) -> tuple[Sequence[Claim], Sequence[Limit]]:
    """Alternate the sides; the answers before and after a compaction must be the same."""
    read_ours, read_hudi = Series("tideline"), Series("hudi")
    ours, hudi, floor = Series("tideline"), Series("hudi"), Series("pyarrow alone")
    table, peer_table = our_table(bench, deltas=DELTAS), hudi_table(bench, deltas=DELTAS)
    reading = metadata_table(True)
    for turn in bench.turns():
        our_read_s, our_answer = bench.tideline.aggregate(table, STATEMENT)
        hudi_read_s, hudi_answer = bench.hudi.aggregate(peer_table, STATEMENT, reading)
        assert our_answer == hudi_answer, "the readers disagree"
        target = bench.fresh_copy(table, "compact-ours")
        our_seconds = bench.tideline.run_service(target, "compaction", OPTIONS)
        assert bench.tideline.aggregate(target, STATEMENT)[1] == our_answer
        floor_seconds = bench.floor.rewrite(data_files(table), bench.fresh("floor"))
        target = bench.fresh_copy(peer_table, "compact-hudi")
        hudi_seconds = bench.hudi.run_service(target, HUDI_CALL, OPTIONS)
        assert bench.hudi.aggregate(target, STATEMENT, reading)[1] == our_answer
        if turn is not None:
            read_ours.add(our_read_s)
            read_hudi.add(hudi_read_s)
            ours.add(our_seconds)
            floor.add(floor_seconds)
            hudi.add(hudi_seconds)
    claims = (
        Claim(f"compaction of {DELTAS} deltas, against Hudi", ours, hudi, faster_by=7.4),
        Claim(f"compaction of {DELTAS} deltas, against pyarrow alone", ours, floor, within=1.3),
        Claim(
            f"aggregate merging {DELTAS} deltas, against Hudi", read_ours, read_hudi, faster_by=5
        ),
    )
    return claims, ()


if __name__ == "__main__":
    sys.exit(run([measure]))

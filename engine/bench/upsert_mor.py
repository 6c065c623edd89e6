"""Claim: an upsert into a merge-on-read table is 6 times as fast as Hudi's as it comes.

The batch is that of `upsert_cow`. Both sides append to logs; compaction is measured apart.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.hudi_side import MERGE_ON_READ, metadata_table
from bench.measurement import Claim, Limit, Series
from bench.merge_on_read import WITHOUT_COMPACTION, hudi_table, our_table
from bench.workbench import Workbench, run


def measure(bench: Workbench) -> tuple[Sequence[Claim], Sequence[Limit]]:
    """Alternate the three writers, each on a table without logs."""
    ours, metadata_on, metadata_off = Series("tideline"), Series("hudi"), Series("hudi, no mdt")
    table = our_table(bench, deltas=0)
    peers = {True: metadata_on, False: metadata_off}
    peer_tables = {on: hudi_table(bench, deltas=0, metadata=on) for on in peers}
    for turn in bench.turns():
        source = bench.input.changes[(turn or 0) % len(bench.input.changes)]
        target = bench.fresh_copy(table, "upsert-ours")
        seconds = bench.tideline.write(
            target, source, operation="upsert", options=WITHOUT_COMPACTION
        )
        _check(bench)
        if turn is not None:
            ours.add(seconds)
        for on, series in peers.items():
            target = bench.fresh_copy(peer_tables[on], "upsert-hudi")
            options = {**MERGE_ON_READ, **metadata_table(on)}
            seconds = bench.hudi.write(target, source, operation="upsert", options=options)
            if turn is not None:
                series.add(seconds)
    claims = (
        Claim("MOR upsert, against Hudi as it comes", ours, metadata_on, faster_by=6),
        Claim("MOR upsert, against Hudi without metadata table", ours, metadata_off, faster_by=6),
    )
    return claims, ()


def _check(bench: Workbench) -> None:
    """A fast wrong answer is no answer."""
    report = bench.tideline.last_report
    written = report["rows_updated"] + report["rows_inserted"]
    assert written >= bench.input.changed_rows, f"wrote {written} rows"


if __name__ == "__main__":
    sys.exit(run([measure]))

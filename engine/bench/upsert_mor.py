"""Claims: an upsert into a merge-on-read table is 10 times as fast as Hudi's as it comes.

The batch is that of `upsert_cow`. Both sides append to logs, and rewrite file groups that are small
enough to take inserts; compaction is measured apart. Updates alone, which only append, are measured
as well: 15 times as fast.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.floor import data_files
from bench.hudi_side import MERGE_ON_READ, metadata_table
from bench.measurement import Claim, Limit, Series
from bench.merge_on_read import WITHOUT_COMPACTION, hudi_table, our_table
from bench.workbench import Workbench, run

NO_SMALL_FILES = {"hoodie.parquet.small.file.limit": "0"}


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
        Claim("MOR upsert, against Hudi as it comes", ours, metadata_on, faster_by=10),
        Claim("MOR upsert, against Hudi without metadata table", ours, metadata_off, faster_by=10),
    )
    return claims, ()


def measure_updates(bench: Workbench) -> tuple[Sequence[Claim], Sequence[Limit]]:
    """Alternate two writers that only append: nothing is inserted, no file counts as small."""
    ours, hudi = Series("tideline"), Series("hudi")
    table, peer_table = our_table(bench, deltas=0), hudi_table(bench, deltas=0)
    for turn in bench.turns():
        source = bench.input.updates[(turn or 0) % len(bench.input.updates)]
        target = bench.fresh_copy(table, "update-ours")
        options = {**WITHOUT_COMPACTION, **NO_SMALL_FILES}
        seconds = bench.tideline.write(target, source, operation="upsert", options=options)
        report = bench.tideline.last_report
        assert (report["rows_updated"], report["rows_inserted"]) == (bench.input.rows // 10, 0)
        assert not data_files(target, newer_than=table), "a base file was rewritten"
        target = bench.fresh_copy(peer_table, "update-hudi")
        options = {**MERGE_ON_READ, **metadata_table(True), **NO_SMALL_FILES}
        peer_seconds = bench.hudi.write(target, source, operation="upsert", options=options)
        if turn is not None:
            ours.add(seconds)
            hudi.add(peer_seconds)
    return (Claim("MOR updates alone, against Hudi as it comes", ours, hudi, faster_by=15),), ()


def _check(bench: Workbench) -> None:
    """A fast wrong answer is no answer."""
    report = bench.tideline.last_report
    written = report["rows_updated"] + report["rows_inserted"]
    assert written >= bench.input.changed_rows, f"wrote {written} rows"


if __name__ == "__main__":
    sys.exit(run([measure, measure_updates]))

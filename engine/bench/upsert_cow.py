"""Claim: an upsert into a copy-on-write table is 10 times as fast as Hudi's as it comes.

The same with its metadata table off. It takes at most 2.2 times as long as pyarrow alone takes to
rewrite the table's files. The batch updates 10 % of the rows and adds 1 %, all over the table;
every round starts from the same table of one file per partition. Also measured here: the memory of
our Python processes during it, the driver's and those of Spark's tasks.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.floor import data_files
from bench.hudi_side import ONE_FILE_PER_PARTITION, metadata_table
from bench.measurement import Claim, Limit, Series
from bench.process_memory import watch_processes
from bench.workbench import Workbench, run

PROCESS_BYTES_MAX = 400 << 20


def measure(bench: Workbench) -> tuple[Sequence[Claim], Sequence[Limit]]:
    """Alternate the three writers."""
    ours, metadata_on, metadata_off = Series("tideline"), Series("hudi"), Series("hudi, no mdt")
    floor = Series("pyarrow alone")
    table = _our_table(bench)
    peers = {True: metadata_on, False: metadata_off}
    peer_tables = {on: _hudi_table(bench, on) for on in peers}
    process_bytes = 0
    for turn in bench.turns():
        source = bench.input.changes[(turn or 0) % len(bench.input.changes)]
        target = bench.fresh_copy(table, "upsert-ours")
        with watch_processes(bench.tideline.pid) as peaks:
            seconds = bench.tideline.write(target, source, operation="upsert")
        process_bytes = max(process_bytes, peaks.highest_bytes)
        _check(bench)
        floor_seconds = bench.floor.rewrite(data_files(table), bench.fresh("floor"))
        if turn is not None:
            ours.add(seconds)
            floor.add(floor_seconds)
        for on, series in peers.items():
            target = bench.fresh_copy(peer_tables[on], "upsert-hudi")
            seconds = bench.hudi.write(
                target, source, operation="upsert", options=metadata_table(on)
            )
            if turn is not None:
                series.add(seconds)
    claims = (
        Claim("upsert, against Hudi as it comes", ours, metadata_on, faster_by=10),
        Claim("upsert, against Hudi without metadata table", ours, metadata_off, faster_by=10),
        Claim("upsert, against pyarrow alone", ours, floor, within=2.2),
    )
    return claims, (
        Limit("memory of a Python process in an upsert", process_bytes, PROCESS_BYTES_MAX),
    )


def _our_table(bench: Workbench) -> Path:
    table = bench.fresh("base-ours")
    bench.tideline.load(table, bench.input.base)
    return table


def _hudi_table(bench: Workbench, metadata: bool) -> Path:
    table = bench.fresh(f"base-hudi-{metadata}")
    options = {**metadata_table(metadata), **ONE_FILE_PER_PARTITION}
    bench.hudi.write(table, bench.input.base, operation="bulk_insert", options=options)
    return table


def _check(bench: Workbench) -> None:
    """A fast wrong answer is no answer."""
    report = bench.tideline.last_report
    updated, inserted = bench.input.rows // 10, bench.input.rows // 100
    found = (report["rows_updated"], report["rows_inserted"])
    assert found == (updated, inserted), f"updated and inserted {found}"


if __name__ == "__main__":
    sys.exit(run([measure]))

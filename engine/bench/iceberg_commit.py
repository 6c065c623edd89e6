"""A rewrite of few files of a large Iceberg table: what its commit writes, and how long it takes.

    python -m bench.iceberg_commit [--files N] [--manifests N] [--share F] [--rounds N]

The table is that of `iceberg_planning`, its manifests as large as it wants them. One file per
partition takes the place of the files of a share of the manifests. Planning them is not counted.
Fails when more than the manifests of those files and the one of the new files are written.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.iceberg_many_files import ManyFiles
from tideline.iceberg.commit.rewrite_files import RewriteFiles, commit_rewrite
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.manifest.manifest_reading import entries_of, manifests_of
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.table.table_operations import Committed


def main() -> int:
    """Measure rounds on fresh tables, print the median."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--manifests", type=int, default=1_000)
    parser.add_argument("--share", type=float, default=0.01)
    parser.add_argument("--rounds", type=int, default=3)
    wanted = parser.parse_args()
    changed = max(1, round(wanted.manifests * wanted.share))
    seconds, written = [], set()
    for _ in range(wanted.rounds):
        with tempfile.TemporaryDirectory() as folder:
            table = ManyFiles(Path(folder) / "table", wanted.files, wanted.manifests)
            table.write()
            took, counts = commit_once(table, changed)
        seconds.append(took)
        written.add(counts)
        print(f"{took:.2f} s, manifests (replaced, written, kept): {counts}", flush=True)
    print(f"median {statistics.median(seconds):.2f} s")
    few = all(new <= changed + 1 and gone == changed for gone, new, _ in written)
    return 0 if few else 1


def commit_once(table: ManyFiles, changed: int) -> tuple[float, tuple[int, int, int]]:
    """Replace the files of `changed` manifests; seconds, and manifests replaced, written, kept."""
    opened = IcebergTable.open(str(table.folder))
    head = opened.metadata.snapshot()
    assert head is not None
    manifests = manifests_of(opened.io, head)
    removed = [
        entry.data_file
        for manifest in manifests[:changed]
        for entry in entries_of(opened.io, manifest)
    ]
    rewrite = RewriteFiles(head.snapshot_id, tuple(removed), merged(removed))
    started = time.perf_counter()
    outcome = commit_rewrite(opened.operations, rewrite)
    seconds = time.perf_counter() - started
    assert isinstance(outcome, Committed), outcome
    after = {
        manifest_file.path
        for manifest_file in manifests_of(opened.io, outcome.loaded.metadata.snapshot())
    }
    before = {manifest.path for manifest in manifests}
    return seconds, (len(before - after), len(after - before), len(before & after))


def merged(files: Sequence[DataFile]) -> tuple[DataFile, ...]:
    """One file per partition, in place of its files."""
    rows: dict[tuple[object, ...], int] = {}
    for file in files:
        rows[file.partition] = rows.get(file.partition, 0) + file.record_count
    return tuple(
        replace(
            files[0],
            file_path=f"{files[0].file_path}-merged-{number}.parquet",
            partition=partition,
            record_count=count,
        )
        for number, (partition, count) in enumerate(rows.items())
    )


if __name__ == "__main__":
    sys.exit(main())

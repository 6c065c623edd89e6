"""Planning cleaning over many instants and files: seconds and memory, first time and incremental.

    python -m bench.plan_cleaning [--instants N] [--files N] [--partitions N] [--json]

Makes a copy-on-write table of empty base files in a temporary folder: every commit rewrites some
file groups of one partition. Plans once over everything (a first clean), then with a clean that
looked at all but the newest hundred commits. Memory is the peak of Python's allocations.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import tracemalloc
from pathlib import Path

from tideline.clock import SystemClock
from tideline.formats.avro import encode_container
from tideline.hudi.open_table import open_table
from tideline.hudi.services.cleaning.config import CleaningConfig
from tideline.hudi.services.cleaning.execute import plan_table_cleaning
from tideline.hudi.services.cleaning.plan import CleaningPlan
from tideline.hudi.table.create import TableDefinition, create_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.partition_metadata import encode_partition_metadata
from tideline.hudi.timeline.commit_metadata import CommitMetadata, WriteStat
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.services.explanation import NotDue
from tideline.storage.location import StoreLocation

_START_MS = 1_767_225_600_000
_NEWEST = 100


def main() -> None:
    """Make the table, plan twice, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--instants", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = make_table(Path(folder), wanted.instants, wanted.files, wanted.partitions)
        measured = {"everything": measure(table)}
        leave_clean(table, wanted.instants)
        measured[f"last {_NEWEST} commits"] = measure(table)
    if wanted.json:
        print(json.dumps(measured))
        return
    for name, found in measured.items():
        print(
            f"{name:>18}: {found['seconds']:6.2f} s, {found['peak_mb']:7.1f} MB, "
            f"{found['partitions']:.0f} partitions, {found['files']:.0f} files to delete"
        )


def make_table(folder: Path, instants: int, files: int, partitions: int) -> HoodieTable:
    """A table of empty files. The commits go round the partitions one after another."""
    location = StoreLocation.of(folder)
    definition = TableDefinition("t", ("id",), partition_by=("p",), table_version=6)
    create_table(location.open(), definition, SystemClock())
    per_commit = max(files // instants, 1)
    hoodie = folder / ".hoodie"
    for number in range(partitions):
        place = folder / f"p{number}"
        place.mkdir()
        body = encode_partition_metadata(place.name, _time(0))
        (place / ".hoodie_partition_metadata").write_bytes(body)
    for number in range(instants):
        partition, instant = f"p{number % partitions}", _time(number)
        previous = str(_time(number - partitions)) if number >= partitions else "null"
        names = [f"{group:08d}-0000-0000-0000-{number % partitions:012d}-0_0-1-0_{instant}.parquet"
                 for group in range(per_commit)]  # fmt: skip
        for name in names:
            (folder / partition / name).touch()
        stats = tuple(
            WriteStat(file_id=name.partition("_")[0], path=f"{partition}/{name}",
                      prev_commit=previous, partition_path=partition)
            for name in names
        )  # fmt: skip
        (hoodie / f"{instant}.commit.requested").touch()
        (hoodie / f"{instant}.inflight").touch()
        body = CommitMetadata({partition: stats}, "UPSERT").encode()
        (hoodie / f"{instant}.commit").write_bytes(body)
    return open_table(location)


def leave_clean(table: HoodieTable, instants: int) -> None:
    """A completed clean that retained the newest commits but `_NEWEST` and the ten kept."""
    retained = str(_time(instants - _NEWEST - 10))
    record = {
        "startCleanTime": retained,
        "timeTakenInMillis": 0,
        "totalFilesDeleted": 0,
        "earliestCommitToRetain": retained,
        "lastCompletedCommitTimestamp": retained,
        "partitionMetadata": {},
        "version": 2,
    }
    name = f".hoodie/{_time(instants)}.clean"
    body = encode_container("HoodieCleanMetadata", record)
    for suffix, content in ((".requested", b""), (".inflight", b""), ("", body)):
        table.store.put(f"{name}{suffix}", content)


def measure(table: HoodieTable) -> dict[str, float]:
    """Seconds without, and peak memory with, Python's allocations being traced."""
    seconds, plan = _plan(table)
    tracemalloc.start()
    _plan(table)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {
        "seconds": seconds,
        "peak_mb": peak_bytes / 1e6,
        "partitions": plan.partitions_examined,
        "files": sum(map(len, plan.files.values())),
    }


def _plan(table: HoodieTable) -> tuple[float, CleaningPlan]:
    started = time.monotonic()
    plan = plan_table_cleaning(table, CleaningConfig())
    seconds = time.monotonic() - started
    if isinstance(plan, NotDue):
        raise SystemExit(plan.reason)
    return seconds, plan


def _time(number: int) -> InstantTime:
    return InstantTime.from_epoch_ms(_START_MS + number * 1000)


if __name__ == "__main__":
    main()

"""Planning and running archival over many instants, and opening a table that has archived many.

    python -m bench.plan_archival [--instants N] [--files N] [--partitions N] [--json]

The table is that of `plan_cleaning`. Planned is archival of all but the newest instants, next to
cleaning of all of them, as a table would need that was never maintained; then archival runs, and
the table is opened and looked at with few and with all instants archived. Memory is the peak of
Python's allocations.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from bench.plan_cleaning import leave_clean, make_table
from tideline.hudi.open_table import open_table
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import archive_table, plan_table_archival
from tideline.hudi.services.cleaning.config import CleaningConfig
from tideline.hudi.services.cleaning.execute import plan_table_cleaning
from tideline.storage.location import StoreLocation


def main() -> None:
    """Make the table, plan, archive, open, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--instants", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = make_table(Path(folder), wanted.instants, wanted.files, wanted.partitions)
        measured = {"plan cleaning": measure(lambda: plan_table_cleaning(table, CleaningConfig()))}
        leave_clean(table, wanted.instants)
        config = ArchivalConfig()
        measured["plan archival"] = measure(
            lambda: plan_table_archival(table, table.timeline(), config)
        )
        measured["both plans"] = {
            "seconds": sum(found["seconds"] for found in measured.values()),
            "peak_mb": max(found["peak_mb"] for found in measured.values()),
        }
        started = time.monotonic()
        archive_table(table, config)
        measured["archive"] = {"seconds": time.monotonic() - started, "peak_mb": float("nan")}
        measured["open, all archived"] = measure(lambda: look(table.location))
        for file in table.commits.archive().files()[1:]:
            table.store.delete(file.path)
        measured["open, few archived"] = measure(lambda: look(table.location))
    if wanted.json:
        print(json.dumps(measured))
        return
    for name, found in measured.items():
        print(f"{name:>18}: {found['seconds']:7.3f} s, {found['peak_mb']:7.1f} MB")


def measure(act: Callable[[], object]) -> dict[str, float]:
    """Seconds, and the peak memory of a second run."""
    started = time.monotonic()
    act()
    seconds = time.monotonic() - started
    tracemalloc.start()
    act()
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"seconds": seconds, "peak_mb": peak_bytes / 1e6}


def look(location: StoreLocation) -> None:
    """Open the table and read its timeline."""
    open_table(location).timeline()


if __name__ == "__main__":
    main()

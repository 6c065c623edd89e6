"""Every comparison in one run: `python -m bench.run_all [--quick] [--rows N] [--wait MINUTES]`.

1. Hudi tables against Hudi, Spark and pyarrow.
2. Rewrites of Iceberg tables, and writes of rows into them, against Iceberg, PyIceberg and pyarrow.
3. Topics into tables: core-seconds against Hudi and against a floor.
4. How the work of an upsert grows.

Measurements are written to out/bench as JSON, and, when the machine was quiet at the start of each
part, become docs/benchmarks.md with its plots (`bench.page`).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import (
    bulk_insert,
    clustering,
    cold_write,
    compaction,
    growth,
    hudi_after_ours,
    iceberg_rewrite,
    iceberg_writes,
    selective_read,
    snapshot_scan,
    to_arrow,
    topic_ingest,
    upsert_at_defaults,
    upsert_by_index,
    upsert_cow,
    upsert_mor,
    upsert_with_indexes,
    upsert_with_metadata_table,
    workbench,
)
from bench.measurement import close_report, machine_object
from bench.page import write_page
from bench.quiet import LOAD_MAX, wait_for_quiet

MEASURED = Path("out/bench")
HUDI_CLAIMS = (
    upsert_cow,
    upsert_at_defaults,
    upsert_by_index,
    upsert_with_indexes,
    hudi_after_ours,
    upsert_with_metadata_table,
    bulk_insert,
    snapshot_scan,
    selective_read,
    to_arrow,
    upsert_mor,
    compaction,
    clustering,
    cold_write,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The worst exit code of the parts; 3 when the machine was busy, and no page is written."""
    parser = argparse.ArgumentParser(description="Tideline compared with its peers")
    parser.add_argument("--quick", action="store_true", help="two rounds, not five")
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of the tables")
    parser.add_argument("--wait", type=float, default=10, help="minutes to wait for quiet, a part")
    parser.add_argument("--only", choices=("hudi", "iceberg", "topics", "growth"), help="one part")
    chosen = parser.parse_args(arguments)
    rounds = workbench.ROUNDS_QUICK if chosen.quick else workbench.ROUNDS
    parts: dict[str, Callable[[], int]] = {
        "hudi": lambda: _hudi(chosen.rows, rounds, chosen.wait * 60),
        "iceberg": lambda: _iceberg(chosen.rows, rounds, chosen.wait * 60),
        "topics": lambda: _topics(rounds, chosen.wait * 60),
        "growth": lambda: _growth(chosen.wait * 60),
    }
    MEASURED.mkdir(parents=True, exist_ok=True)
    codes = [part() for name, part in parts.items() if chosen.only in (None, name)]
    if 3 not in codes:
        write_page(MEASURED)
    return max(codes)


def _hudi(rows: int, rounds: int, quiet_s: float) -> int:
    load = wait_for_quiet(quiet_s)
    measures = [*(claim.measure for claim in HUDI_CLAIMS), upsert_mor.measure_updates]
    claims, limits = workbench.measure_all(measures, rows=rows, rounds=rounds)
    return close_report(claims, limits, load_at_start=load, json_path=MEASURED / "hudi.json")


def _iceberg(rows: int, rounds: int, quiet_s: float) -> int:
    load = wait_for_quiet(quiet_s)
    claims = [*iceberg_rewrite.measure(rows, rounds), *iceberg_writes.measure(rows, rounds)]
    return close_report(claims, (), load_at_start=load, json_path=MEASURED / "iceberg.json")


def _topics(rounds: int, quiet_s: float) -> int:
    load, claims = topic_ingest.measure(topic_ingest.RECORDS, rounds, quiet_s)
    return close_report(claims, (), load_at_start=load, json_path=MEASURED / "topics.json")


def _growth(quiet_s: float) -> int:
    load = wait_for_quiet(quiet_s)
    record = {**machine_object(load), "axes": growth.measure_axes()}
    (MEASURED / "growth.json").write_text(json.dumps(record, indent=2))
    return 3 if load > LOAD_MAX else 0


if __name__ == "__main__":
    sys.exit(main())
